"""The staff's pages: whom to call today and why, participants, the study, the record, accounts."""
