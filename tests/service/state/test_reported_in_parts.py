"""What participants tell bit by bit: kept as it comes, also where everything is read anew in between."""

from typing import Any

import pytest
from course import BEGIN, answer_of, launch
from site_over_http import SENSED
from study_text import numeric, study_text

from opportune.errors import InputError
from opportune.live.agent import Agent
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.record.database import Database
from opportune.service.record.queries import decision_row
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.verify.check import verify

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


def answered(writer: Writer, number: int, *, of_the_first: dict[str, Any]) -> None:
    """The next decision's nudge is answered, and something of the first decision point told with it."""
    answer = Answer(
        who="staff", received=BEGIN + number * clock.MINUTE, decision=str(nudge(writer, number)["decision"]),
        answered=True, reported={"mood": "low", "pain": "none"}, earlier={"1": of_the_first},
    )  # fmt: skip
    answer_of(writer.do(answer))


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
        answered(writer, number, of_the_first=part)
        row = decision_row(database, str(first["decision"]))
        assert row is not None
        rows.append((row["reported"], bool(row["seen"])))
        assert verify(database).findings == []
        if anew:
            writer = Writer(database)
    assert rows == [("{}", False), ('{"pain":"some"}', False), ('{"pain":"some","mood":"low"}', True)]
    assert answer_of(
        writer.do(Propose(who="app", received=BEGIN + clock.HOUR, participant="P1", given={"sensed": SENSED}))
    )
    assert verify(database).findings == []


def test_a_time_zone_that_was_let_in_stays_usable(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused to those who are new, not to those who have it."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    with monkeypatch.context() as patch:
        patch.setattr(clock, "check_zone", clock.zone)
        writer.do(Enrol(who="staff", received=BEGIN, participant="P1", timezone="Factory"))
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    assert answer_of(writer.do(ask))["mode"] == "learned"
    assert verify(sqlite).findings == []
    with pytest.raises(InputError, match="the time zone of a place"):
        clock.check_zone("Factory")


def test_what_is_told_to_the_fallback_stays_unused(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to its nudge reveals nothing."""
    writer = Writer(sqlite)
    launch(writer, STUDIES["finite"].replace("budget = 60", "budget = 199"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    first = str(nudge(writer, 1)["decision"])
    writer.do(Answer(who="staff", received=BEGIN + clock.MINUTE, decision=first, answered=False))
    before = decision_row(sqlite, first)
    assert before is not None
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "propose_at", lambda *_, **__: 1 / 0)
        made = next(made for number in range(2, 20) if (made := nudge(writer, number))["status"] == "nudge")
    assert made["mode"] == "fallback", "the control"
    told = Answer(
        who="staff", received=BEGIN + 20 * clock.MINUTE, decision=str(made["decision"]), answered=True,
        earlier={"1": {"pain": "some"}},
    )  # fmt: skip
    answer_of(writer.do(told))
    assert verify(sqlite).findings == []
    after = decision_row(sqlite, first)
    assert after is not None
    assert (after["reported"], after["seen"]) == (before["reported"], before["seen"])


@pytest.mark.parametrize("study", STUDIES)
def test_what_is_taken_back_is_no_doubt(sqlite: Database, study: str) -> None:
    """A value that was told with the decision point and is unknown later: the step waits again."""
    writer = Writer(sqlite)
    launch(writer, STUDIES[study])
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": SENSED, "reported": {"mood": "low", "pain": "some"}}
    first = answer_of(writer.do(Propose(who="app", received=BEGIN, participant="P1", given=given)))
    writer.do(Answer(who="staff", received=BEGIN, decision=first["decision"], answered=False))
    taken_back: tuple[dict[str, Any], ...] = ({"mood": None}, {"mood": "good"})
    for number, told in enumerate(taken_back, start=2):
        answered(writer, number, of_the_first=told)
        row = decision_row(sqlite, str(first["decision"]))
        assert row is not None
        assert bool(row["seen"]) is (number == 3)
        assert verify(sqlite).findings == []
