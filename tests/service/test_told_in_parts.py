"""What participants tell bit by bit: kept as it comes, also where everything is read anew in between."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from course import BEGIN, answer_of, launch
from site_over_http import SENSED
from study_text import numeric, study_text

from opportune.errors import InputError
from opportune.live.agent import Agent
from opportune.service import clock
from opportune.service.commands import Answer, Enrol, Propose, Reward
from opportune.service.database import Database, file_url
from opportune.service.reading import decision_row, decision_rows
from opportune.service.verify import in_bulk, verify
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


def of_the_version_before(database: Database, **rows: Any) -> Database:
    """The database as that version had left it: with these columns of these decisions."""
    database.close()
    with contextlib.closing(sqlite3.connect(database.path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0009'")
        for decision, values in rows.items():
            for column, value in values.items():
                connection.execute(f"UPDATE decisions SET {column} = ? WHERE id = ?", (value, decision))
        connection.commit()
    again = Database(database.url)
    assert again.migrate() == ("0009", "0010")
    return again


@pytest.mark.parametrize("lost", [True, False], ids=["kept in memory", "written with the rest"])
@pytest.mark.parametrize("order", ["part first", "late answer first"])
def test_what_was_told_last_stands_after_a_migration(sqlite: Database, order: str, lost: bool) -> None:
    """A part that came with another answer, and an answer that came late, in the order of the record."""
    writer = Writer(sqlite)
    launch(writer, STUDIES["finite"])
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    first = str(nudge(writer, 1)["decision"])
    writer.do(Answer(who="staff", received=BEGIN + clock.MINUTE, decision=first, answered=False))
    second = str(nudge(writer, 2)["decision"])
    other = Answer(
        who="staff", received=BEGIN + 2 * clock.MINUTE, decision=second, answered=True, earlier={"1": {"pain": "some"}}
    )
    late = Answer(
        who="app", received=BEGIN + 3 * clock.MINUTE, decision=first, answered=True, reported={"pain": "none"}
    )
    for said in (other, late) if order == "part first" else (late, other):
        answer_of(writer.do(said))
    row = decision_row(sqlite, first)
    assert row is not None
    assert verify(sqlite).findings == [], "the control"
    before = {"reported": None if order == "part first" else '{"pain":"none"}'} if lost else {}
    migrated = of_the_version_before(sqlite, **{first: before})
    now = decision_row(migrated, first)
    assert now is not None
    assert now["reported"] == row["reported"] == {"part first": '{"pain":"none"}'}.get(order, '{"pain":"some"}')
    assert verify(migrated).findings == []
    migrated.close()


def test_what_was_told_to_the_fallback_stays_unused_after_a_migration(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer to its nudge reveals nothing."""
    writer = Writer(sqlite)
    launch(writer, STUDIES["finite"].replace("budget = 60", "budget = 199"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    first = str(nudge(writer, 1)["decision"])
    writer.do(Answer(who="staff", received=BEGIN + clock.MINUTE, decision=first, answered=False))
    before = decision_row(sqlite, first)
    assert before is not None
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "_meet", lambda *_, **__: 1 / 0)
        made = next(made for number in range(2, 20) if (made := nudge(writer, number))["status"] == "nudge")
    assert made["mode"] == "fallback", "the control"
    told = Answer(
        who="staff", received=BEGIN + 20 * clock.MINUTE, decision=str(made["decision"]), answered=True,
        earlier={"1": {"pain": "some"}},
    )  # fmt: skip
    answer_of(writer.do(told))
    assert verify(sqlite).findings == []
    migrated = of_the_version_before(sqlite, **{first: {"seq": before["seq"], "reported": before["reported"]}})
    assert verify(migrated).findings == []
    migrated.close()


@pytest.mark.parametrize("study", STUDIES)
def test_what_is_taken_back_is_no_doubt(sqlite: Database, study: str) -> None:
    """A value that was told with the decision point and is unknown later: the step waits again, in bulk as well."""
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
        found = verify(sqlite, bulk=False)
        assert found.findings == []
        assert in_bulk(sqlite) == found
