"""Models pooled in part, live: what participants have in common moves once a day, on record, and resumes exactly."""

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from course import BEGIN, run_course
from course import launch as launched
from sqlalchemy import select, update
from study_text import study_text
from typer.testing import CliRunner

from opportune.cli.main import app
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.record.events import Event
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

SIX_HOURS = 6 * clock.HOUR
SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}


def events_of(database: Database, kind: str) -> list[Event]:
    """The events of a kind, in their order."""
    query = select(tables.events.c.body).where(tables.events.c.kind == kind).order_by(tables.events.c.seq)
    with database.reading.connect() as connection:
        return [events.decode(body) for body in connection.execute(query).scalars()]


def rows_of(database: Database, table: Any) -> list[Any]:
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def course(database: Database, *, pooled: str | bool = "partial", restarting: bool = False, extra: str = "") -> None:
    """Four people over five days; with a process of its own for every write, or one for all."""
    text = study_text(pooled=pooled, planned=4, extra=extra)
    writer = Writer(database)
    launched(writer, text)
    write = (lambda commands: Writer(database).write(commands)) if restarting else writer.write
    run_course(write, steps=20, apart=SIX_HOURS)


def test_it_moves_before_the_first_decision_of_a_day(sqlite: Database) -> None:
    """Once on each day after the first, before any decision of that day, for everybody; and the record verifies."""
    course(sqlite)
    pooled, decided = events_of(sqlite, events.POOLED), events_of(sqlite, events.PROPOSED)
    days = [event.received[:10] for event in pooled]
    assert days == ["2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06", "2026-03-07"]
    for event in pooled:
        first = next(made for made in decided if made.received[:10] == event.received[:10])
        assert event.seq < first.seq
        assert event.participant is None
        assert event.answer["participants"] == {"": 4}
        assert "common" not in events.blinded(event.answer), "staff do not see what works"
    assert verify(sqlite).holds, verify(sqlite).findings


def test_with_a_week_it_moves_once_a_week(sqlite: Database) -> None:
    """[learning] pooling = "week": not within five days."""
    course(sqlite, extra='\n[learning]\npooling = "week"\n')
    assert not events_of(sqlite, events.POOLED)
    assert verify(sqlite).holds


def test_own_models_have_nothing_in_common(sqlite: Database) -> None:
    """The control: without pooling there is no such event."""
    course(sqlite, pooled=False)
    assert not events_of(sqlite, events.POOLED)


def test_it_resumes_exactly(folder: Path) -> None:
    """Whoever resumes from what is stored, write after write, decides as one process that never stopped."""
    found = []
    for name, restarting in (("one", False), ("many", True)):
        database = Database(f"sqlite:///{folder / name}.db")
        database.migrate()
        course(database, restarting=restarting)
        people = [{**row, "state": bytes(row["state"])} for row in rows_of(database, tables.participants)]
        found.append((rows_of(database, tables.decisions), people, rows_of(database, tables.study)[0]["shared"]))
        database.close()
    assert found[0] == found[1]


def test_a_cohort_decides_the_same(sqlite: Database) -> None:
    """The service decides as a `Cohort` whose `update_prior` is called when a day begins; without that it does not."""
    text = study_text(pooled="partial", planned=3, horizon=60)
    writer, running = Writer(sqlite), StudyInForce.from_text(text)
    launched(writer, text)
    (cohort,) = running.cohorts().values()
    apart = running.cohorts()[""]
    names = ["A", "B", "C"]
    for number, name in enumerate(names):
        writer.do(Enrol(who="staff", received=BEGIN, participant=name, timezone="UTC"))
        for each in (cohort, apart):
            each.enrol(name)
        assert cohort[name].stream == number << 32
    rng, same = np.random.default_rng(1), []
    for day in range(20):
        if day:
            cohort.update_prior()
        for hour in (0, 6):  # the app is open at the first, and tells what nobody else knows
            now, opened = BEGIN + day * 24 * clock.HOUR + hour * clock.HOUR, hour == 0
            told = {"mood": str(rng.choice(["good", "low"]))} if opened else None
            for i, name in enumerate(names):
                sensed = {**SENSED, "stress": int(rng.integers(4)), "sleep": str(rng.choice(["good", "poor"]))}
                given = {"sensed": sensed, **({"opened": True, "reported": told} if opened else {})}
                asked = Propose(who="app", received=now, participant=name, given=given)
                made = msgspec.json.decode(writer.do(asked).body)
                expected = []
                for each in (cohort, apart):
                    agent = each[name]
                    if agent.open_proposal is not None:
                        agent.settle(False)
                    proposal = agent.propose(sensed, reported=told, opened=opened)
                    action = proposal.action if proposal.nudged else agent.settle(None).action
                    expected.append((proposal.nudged, proposal.probability, action))
                assert (made["nudge"], made["probability"], made["action"]) == expected[0]
                same.append(expected[0] == expected[1])
                if not made["nudge"]:
                    reward = float(i + sensed["stress"] * (made["action"] == "rest") + rng.normal())
                    writer.do(Reward(who="app", received=now, decision=made["decision"], reward=reward))
                    for each in (cohort, apart):
                        if each[name].open_proposal is None:
                            each[name].learn(reward)
    assert all(same[:6])
    assert not all(same), "without an update it decides otherwise"


def test_what_was_tampered_with_is_found(sqlite: Database) -> None:
    """Verify notices another state of what all have in common, and an update that did not happen when it says."""
    course(sqlite)
    shared = bytearray(rows_of(sqlite, tables.study)[0]["shared"])
    shared[len(shared) // 2] ^= 1
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.study).values(pooled=BEGIN))
    assert any("pooled" in finding for finding in verify(sqlite).findings)
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.study).values(shared=bytes(shared)))
    assert any("share" in finding for finding in verify(sqlite).findings)


def test_every_value_of_an_update_is_held_to_the_fold(sqlite: Database) -> None:
    """Another mean or sd, or another number of participants, with all hashes mended: verify finds it."""
    course(sqlite)
    whole = all_events(sqlite)
    place = next(i for i, event in enumerate(whole) if event.kind == events.POOLED)
    answer = whole[place].answer
    mean = [value + 0.001 for value in answer["common"][""]["mean"]]
    sd = [value * 1.001 for value in answer["common"][""]["sd"]]
    changes = [
        {**answer, "participants": {"": 5}},
        {**answer, "common": {"": {**answer["common"][""], "mean": mean}}},
        {**answer, "common": {"": {**answer["common"][""], "sd": sd}}},
    ]
    for changed in changes:
        rewrite(sqlite, whole, place, changed)
        assert any("pooled" in finding for finding in verify(sqlite).findings), changed
    rewrite(sqlite, whole, place, answer)
    assert verify(sqlite).holds, "the control: mended, all is well"


def all_events(database: Database) -> list[Event]:
    with database.reading.connect() as connection:
        bodies = connection.execute(select(tables.events.c.body).order_by(tables.events.c.seq)).scalars()
        return [events.decode(body) for body in bodies]


def rewrite(database: Database, whole: list[Event], place: int, answer: dict[str, Any]) -> None:
    """Write the record anew with another answer at one place, each event with the hash of the one before."""
    head = events.START
    with database.writing.begin() as connection:
        for i, event in enumerate(whole):
            made = msgspec.structs.replace(event, before=head, **({"answer": answer} if i == place else {}))
            body = events.encode(made)
            head = events.hash_of(body)
            where = tables.events.c.seq == event.seq
            connection.execute(update(tables.events).where(where).values(body=body.decode(), hash=head))
        connection.execute(update(tables.study).values(head=head))


def test_a_rehearsal_decides_as_simulate(tmp_path: Path) -> None:
    """A whole study with models pooled in part, in which all begin on one day: live it decides as simulated."""
    text = study_text(times=True, pooled="partial", planned=5, horizon=40)
    file = tmp_path / "study.toml"
    file.write_text(re.sub(r"(?m)^(enrolment_days|first) = .*\n", "", text), encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(file), "--keep", str(tmp_path / "db")])
    assert result.exit_code == 0, result.output
    assert "the record verifies" in result.output
    assert "decisions equal those of simulate" in result.output
