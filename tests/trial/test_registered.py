"""Since when the primary analysis is as it is: before the first participant, or with data at hand."""

import json

import pandas as pd
from exports import STUDY

from opportune.study import parse_study
from opportune.trial.registered import registered

OTHER = STUDY.replace('controls = "stress"', 'controls = "1"')
FIXED = "fixed in the study file on 2027-01-04, before the first participant"


def record(*happened: tuple[str, str, str]) -> pd.DataFrame:
    """events.csv with launches and amendments, each with its file, and enrolments."""
    return pd.DataFrame(
        [
            {"kind": kind, "received_utc": f"{date}T08:00:00Z", "given": json.dumps({"file": file} if file else {})}
            for kind, date, file in happened
        ]
    )


def test_an_analysis_of_the_launched_file_was_fixed_beforehand() -> None:
    """Amendments of something else do not change that."""
    other = STUDY.replace("planned = 40", "planned = 50")
    events = record(("launched", "2027-01-04", STUDY), ("enrolled", "2027-01-05", ""), ("amended", "2027-02-01", other))
    assert registered(parse_study(other), events) == FIXED


def test_an_analysis_that_came_with_data_at_hand_is_called_so() -> None:
    """It says when, and how many were enrolled by then; so does one that was changed and changed back."""
    people = [("enrolled", "2027-01-05", "")] * 3
    late = record(("launched", "2027-01-04", OTHER), *people, ("amended", "2027-02-01", STUDY))
    said = registered(parse_study(STUDY), late)
    assert said.startswith("NOT fixed in advance: it was added to the study file on 2027-02-01, when 3 participants")
    back = record(
        ("launched", "2027-01-04", STUDY), *people, ("amended", "2027-01-20", OTHER), ("amended", "2027-02-01", STUDY)
    )
    assert registered(parse_study(STUDY), back) == said
    early = record(("launched", "2027-01-01", OTHER), ("amended", "2027-01-04", STUDY), *people)
    assert registered(parse_study(STUDY), early) == FIXED


def test_what_is_not_known_is_not_claimed() -> None:
    """Without events nobody can say since when; without [analysis] nothing was fixed."""
    kinds = pd.DataFrame({"kind": ["launched"]})
    assert "the export does not say" in registered(parse_study(STUDY), kinds)
    bare = STUDY[: STUDY.index("[analysis]")]
    assert registered(parse_study(bare), kinds).startswith("not fixed")
