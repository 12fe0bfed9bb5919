"""What a process remembers is good only for the record that it saw: one that lost its end and grew again is another."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from course import BEGIN, answer_of, launch, sensed
from sqlalchemy import delete, select, update
from study_text import study_text

from opportune.service.commands.administration import Amend
from opportune.service.commands.decisions import Propose
from opportune.service.commands.expiry import Touch
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.verify.check import verify

SHARING: dict[str, dict[str, Any]] = {"own": {}, "together": {"shared": True, "pooled": True}}
MORNING = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}
EVENING = {"time_of_day": "evening", "stress": 0, "sleep": "good"}


def decide(writer: Writer, values: dict[str, Any], reward: float, number: int) -> dict[str, Any]:
    """A decision with the app open, and its reward, which is learned from at once."""
    now = BEGIN + number * clock.MINUTE
    given = {"sensed": values, "opened": True, "reported": {"mood": "low"}}
    made = answer_of(writer.do(Propose(who="app", received=now, participant="P1", given=given)))
    writer.do(Reward(who="app", received=now, decision=made["decision"], reward=reward))
    return made


@pytest.mark.parametrize("sharing", SHARING)
def test_a_record_that_lost_its_end_and_grew_again_is_gone_on_from(sqlite: Database, sharing: str) -> None:
    """As after an asynchronous failover: as many events as before, and others; the lost ones have no effect."""
    one = Writer(sqlite)
    launch(one, study_text(policy="never", **SHARING[sharing]))
    one.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    for number in range(3):
        decide(one, MORNING, 1.0, number)
    one.do(Touch(who="service", received=BEGIN))
    backup = sqlite.path.with_suffix(".earlier")
    sqlite.checkpoint()
    _copy(sqlite, backup)
    for number in range(3, 6):
        decide(one, MORNING, 5.0, number)
    lost = _head(sqlite)
    sqlite.close()
    _put_back(sqlite, backup)
    another = Writer(sqlite)
    for number in range(3, 6):
        decide(another, EVENING, -5.0, number)
    assert _head(sqlite)[0] == lost[0], "the control: the numbers of the events are the same"
    assert _head(sqlite)[1] != lost[1]
    for number in range(6, 9):
        decide(one, MORNING, 1.0, number)
    assert verify(sqlite).findings == []


def test_a_standby_that_took_over_lacked_the_end(new_postgres: str) -> None:
    """The same with PostgreSQL, under two processes: one saw what was lost, the other makes what comes instead."""
    import psycopg

    name = new_postgres.partition("?")[0].rpartition("/")[2]
    database = Database(new_postgres)
    database.migrate()
    one = Writer(database)
    launch(one, study_text(policy="never"), rehearsal=False)
    one.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    for number in range(3):
        decide(one, MORNING, 1.0, number)
    database.close()
    with psycopg.connect(new_postgres.replace(f"/{name}", "/postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_standby TEMPLATE {name}")
        for number in range(3, 6):
            decide(one, MORNING, 5.0, number)
        lost = _head(database)
        database.close()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"ALTER DATABASE {name}_standby RENAME TO {name}")
    another = Database(new_postgres)
    other = Writer(another)
    for number in range(3, 6):
        decide(other, EVENING, -5.0, number)
    assert _head(another)[0] == lost[0], "the control: the numbers of the events are the same"
    assert _head(another)[1] != lost[1]
    for number in range(6, 9):
        decide(one, MORNING, 1.0, number)
        decide(other, MORNING, 1.0, number)
    assert verify(another).findings == []
    database.close()
    another.close()


def _head(database: Database) -> tuple[int, str]:
    with database.reading.connect() as connection:
        return tuple(connection.execute(select(tables.study.c.seq, tables.study.c.head)).one())


def _copy(database: Database, to: Path) -> None:
    for ending in ("", "-wal"):
        file = database.path.with_name(database.path.name + ending)
        if file.exists():
            shutil.copyfile(file, to.with_name(to.name + ending))


def _put_back(database: Database, earlier: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        database.path.with_name(database.path.name + ending).unlink(missing_ok=True)
        file = earlier.with_name(earlier.name + ending)
        if file.exists():
            shutil.copyfile(file, database.path.with_name(database.path.name + ending))


def test_a_database_that_was_made_anew_is_another_study(sqlite: Database) -> None:
    """Launched again under a service that goes on: its seed and its participants are not those of before."""
    writer = Writer(sqlite)
    launch(writer, study_text(), rehearsal=False)
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    decide(writer, MORNING, 1.0, 1)
    with sqlite.writing.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(delete(table))
    other = Writer(sqlite)
    launch(other, study_text(), rehearsal=False)
    other.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    decide(other, MORNING, 1.0, 1)
    decide(writer, MORNING, 1.0, 2)
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("sharing", SHARING)
def test_a_state_is_rebuilt_by_the_study_file_in_force_at_each_event(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, sharing: str
) -> None:
    """Decisions by a fallback that was amended since, states that cannot be read, and a restart: everyone goes on."""
    from random import Random

    from opportune.live.agent import Agent

    text, rnd = study_text(**SHARING[sharing]), Random(1)
    writer = Writer(sqlite)
    launch(writer, text)
    names = [f"P{number}" for number in range(4)]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])

    def ask(at: Writer, minute: int) -> list[dict[str, Any]]:
        now = BEGIN + minute * clock.MINUTE
        asked = [Propose(who="app", received=now, participant=name, given={"sensed": sensed(rnd)}) for name in names]
        return [answer_of(reply) for reply in at.write(asked)]

    ask(writer, 1)
    with monkeypatch.context() as broken:
        broken.setattr(Agent, "propose_at", _fail)
        assert {made["mode"] for made in ask(writer, 2)} == {"fallback"}
    changed = text.replace('fallback = "rest"', 'fallback = "walk"')
    assert changed != text
    writer.do(Amend(who="boss", received=BEGIN + 3 * clock.MINUTE, file=changed, source="study.toml", reason="ethics"))
    with monkeypatch.context() as broken:
        broken.setattr(Agent, "propose_at", _fail)
        ask(writer, 4)
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.participants).values(state=b"left behind"))
        connection.execute(update(tables.study).values(shared=b"left behind"))
    assert not verify(sqlite).holds, "the control"
    again = Writer(sqlite)
    assert {made["mode"] for made in ask(again, 5)} == {"learned"}
    assert verify(sqlite).findings == []


def _fail(*_arguments: Any, **_named: Any) -> Any:
    raise ValueError("on purpose")
