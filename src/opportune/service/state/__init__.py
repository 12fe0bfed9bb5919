"""The state that folding the record gives: participants, their schedule, the study in force."""
