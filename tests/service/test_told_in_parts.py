"""What participants tell bit by bit: kept as it comes, also where everything is read anew in between."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from course import BEGIN, answer_of, launch
from site_over_http import SENSED
from study_text import numeric, study_text

from opportune.errors import InputError
from opportune.service import clock
from opportune.service.commands import Answer, Enrol, Propose, Reward
from opportune.service.database import Database, file_url
from opportune.service.reading import decision_row, decision_rows
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


def test_what_an_earlier_version_kept_in_memory_is_written_down(folder: Path) -> None:
    """The record has it: a database of that version verifies, and the other part can be told."""
    file = Path(__file__).parent / "data" / "v0009.sql"
    with contextlib.closing(sqlite3.connect(folder / "old.db")) as connection:
        connection.executescript(file.read_text(encoding="utf-8"))
        (before,) = connection.execute("SELECT reported FROM decisions WHERE participant = 'P001' AND step = 4")
    assert before == (None,), "the control"
    database = Database(file_url(folder / "old.db"))
    database.migrate()
    assert verify(database).findings == []
    assert verify(database, bulk=True).findings == []
    writer = Writer(database)
    ask = Propose(who="app", received=BEGIN + 2 * clock.HOUR, participant="P001", given={"sensed": SENSED})
    answer = Answer(
        who="staff", received=BEGIN + 2 * clock.HOUR, decision=answer_of(writer.do(ask))["decision"], answered=True,
        earlier={"4": {"mood": "low"}},
    )  # fmt: skip
    answer_of(writer.do(answer))
    row = next(row for row in decision_rows(database, "P001", limit=10) if row["step"] == 4)
    assert (row["reported"], bool(row["seen"])) == ('{"pain":"some","mood":"low"}', True)
    assert verify(database).findings == []
    database.close()


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
    with pytest.raises(InputError, match="that of a place"):
        clock.check_zone("Factory")
