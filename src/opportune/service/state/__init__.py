"""The state that results from folding the record: participants, their schedule, the study in force."""
