"""What participants tell bit by bit: kept as it comes, also where everything is read anew in between."""

import pytest
from course import BEGIN, answer_of, launch
from site_over_http import SENSED
from study_text import numeric, study_text

from opportune.service import clock
from opportune.service.commands import Answer, Enrol, Propose, Reward
from opportune.service.database import Database
from opportune.service.reading import decision_row
from opportune.service.verify import verify
from opportune.service.writer import Writer

PAIN = """
[variables.pain]
levels = ["none", "some"]
visibility = "reported"
"""
TEXT = study_text(policy="always", budget=60).replace("[contexts]", f"{PAIN}\n[contexts]")
STUDIES = {
    "finite": TEXT.replace("probabilities = [0.7, 0.3]\n", "").replace("known = true", "known = false"),
    "numbers": numeric(TEXT),
}


def nudge(writer: Writer, number: int) -> dict[str, object]:
    """The next decision, which makes a nudge."""
    now = BEGIN + number * clock.MINUTE
    return answer_of(writer.do(Propose(who="app", received=now, participant="P1", given={"sensed": SENSED})))


@pytest.mark.parametrize("anew", [True, False], ids=["read anew", "kept in memory"])
@pytest.mark.parametrize("study", STUDIES)
def test_an_earlier_step_is_told_in_parts(database: Database, study: str, anew: bool) -> None:
    """One part with one reveal, the other with the next: the step is uncovered by the second, whoever wrote the first.

    Where the first part was only in the memory of the process that took it, the second was learned from otherwise than
    the record says.
    """
    writer = Writer(database)
    launch(writer, STUDIES[study])
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    first = nudge(writer, 1)
    writer.do(Answer(who="staff", received=BEGIN + clock.MINUTE, decision=str(first["decision"]), answered=False))
    writer.do(Reward(who="app", received=BEGIN + clock.MINUTE, decision=str(first["decision"]), reward=0.5))
    rows = []
    for number, part in enumerate(({}, {"pain": "some"}, {"mood": "low"}), start=2):
        made = nudge(writer, number)
        answer = Answer(
            who="staff", received=BEGIN + number * clock.MINUTE, decision=str(made["decision"]), answered=True,
            reported={"mood": "low", "pain": "none"}, earlier={"1": part},
        )  # fmt: skip
        answer_of(writer.do(answer))
        row = decision_row(database, str(first["decision"]))
        assert row is not None
        rows.append((row["reported"], bool(row["seen"])))
        assert verify(database).findings == []
        if anew:
            writer = Writer(database)
    assert rows == [("{}", False), ('{"pain":"some"}', False), ('{"pain":"some","mood":"low"}', True)]
    assert verify(database, bulk=True).findings == []
    assert answer_of(
        writer.do(Propose(who="app", received=BEGIN + clock.HOUR, participant="P1", given={"sensed": SENSED}))
    )
    assert verify(database).findings == []
