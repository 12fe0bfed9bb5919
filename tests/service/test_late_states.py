"""States that are stored later: whoever comes next makes them from the record, and decides as if they had been."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from course import BEGIN, answer_of, launch, run_course
from site_over_http import SENSED
from sqlalchemy import select, update
from study_text import numeric, study_text

from opportune.live.agent import Agent
from opportune.live.packing import _diagonal, healthy
from opportune.service import states, tables
from opportune.service.backup import backup, restore
from opportune.service.commands import Answered, Command, Enrol, Propose
from opportune.service.database import Database
from opportune.service.ledger import Ledger
from opportune.service.problems import Refused
from opportune.service.service import Service
from opportune.service.upkeep import PutInOrder
from opportune.service.verify import rebuilt, verify
from opportune.service.writer import Reply, Writer

PEOPLE = 40
STUDIES = {
    "finite": study_text(horizon=200, planned=PEOPLE),
    "numbers": numeric(study_text(horizon=200, planned=PEOPLE)),
}
IN_ORDER = PutInOrder(who="service", received=BEGIN)


class Broken(Command, kw_only=True):
    """A command that fails after others of its transaction have happened."""

    def run(self, ledger: Ledger) -> Answered:
        """Not carried out."""
        raise RuntimeError("on purpose")


def behind(database: Database) -> list[str]:
    """Participants whose state is older than what has happened to them."""
    people, states = tables.participants.c, tables.states.c
    older = (people.name == states.participant) & people.changes.is_(None) & (states.seq < people.seq)
    with database.reading.connect() as connection:
        return list(connection.execute(select(people.name).where(older)).scalars())


def ask_all(writer: Writer, count: int = PEOPLE, received: int = BEGIN + 10**9) -> "list[Reply | Exception]":
    """A decision point of many participants in one transaction."""
    return writer.write([
        Propose(who="app", received=received, participant=f"P{i:03d}", given={"sensed": SENSED}) for i in range(count)
    ])  # fmt: skip


def begun(database: Database, study: str = "finite", rounds: int = 3) -> Writer:
    """A study with many participants who have decided a few times at once."""
    writer = Writer(database)
    launch(writer, STUDIES[study])
    names = [f"P{i:03d}" for i in range(PEOPLE)]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])
    for number in range(rounds):
        assert all(isinstance(reply, Reply) for reply in ask_all(writer, received=BEGIN + number))
    return writer


def answered(replies: "Sequence[Reply | Exception]") -> list[Any]:
    """What can be compared of replies."""
    return [(reply.code, str(reply)) if isinstance(reply, Refused) else reply for reply in replies]


class Restless:
    """Writers that end again and again, and whose transactions fail now and then."""

    def __init__(self, database: Database) -> None:
        self.database, self.writers, self.rnd = database, [Writer(database)], random.Random(3)
        self.seen_behind: set[str] = set()

    def write(self, commands: Sequence[Command]) -> "list[Reply | Exception]":
        """As a writer does."""
        self.seen_behind.update(behind(self.database))
        if self.rnd.random() < 0.3:
            self.writers.append(Writer(self.database))
        if self.rnd.random() < 0.8:
            return self.writers[-1].write(commands)
        *replies, broken = self.writers[-1].write([*commands, Broken(who="test", received=BEGIN)])
        assert isinstance(broken, Refused)
        assert broken.code == "internal"
        return replies


@pytest.mark.parametrize("study", STUDIES)
def test_processes_that_end_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: str) -> None:
    """New writers again and again, and transactions that fail: every answer has the bytes of one that went on."""
    databases = [Database(f"sqlite:///{tmp_path / name}.db") for name in ("ends", "goes on")]
    for database in databases:
        database.migrate()
        launch(Writer(database), STUDIES[study])
    restless = Restless(databases[0])
    found = answered(run_course(restless.write, people=PEOPLE, steps=12))
    assert len(restless.writers) > 10
    assert len(restless.seen_behind) == PEOPLE, "the control: everyone's state was behind at some time"
    monkeypatch.setattr(states, "MANY", 10**6)  # all states are stored at once
    assert found == answered(run_course(Writer(databases[1]).write, people=PEOPLE, steps=12))
    assert not behind(databases[1])
    for database in databases:
        assert verify(database).findings == []
        assert verify(database, bulk=True).findings == []
        database.close()


def test_what_was_left_is_stored_when_there_is_time(sqlite: Database) -> None:
    """In quiet times, with a transaction about few, and when a service ends; then all states are compared."""
    writer = begun(sqlite)
    assert len(behind(sqlite)) > PEOPLE // 2, "the control: states are behind"
    ask_all(writer, count=1)
    assert len(behind(sqlite)) < PEOPLE - 16
    ask_all(writer)
    while answer_of(writer.do(IN_ORDER))["stored"]:
        pass
    assert not behind(sqlite)
    assert verify(sqlite).findings == []
    ask_all(writer)
    assert behind(sqlite)
    service = Service(sqlite)
    service.start()
    assert all(isinstance(reply, Reply) for reply in ask_all(service.writer))
    assert behind(sqlite)
    service.stop()
    assert not behind(sqlite)
    assert verify(sqlite).findings == []
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.states).where(tables.states.c.participant == "P001").values(data=b"damaged"))
    assert not verify(sqlite).holds, "the control: a state that is used is compared"


def test_a_backup_of_states_that_are_behind_goes_on_elsewhere(
    sqlite: Database, new_postgres: str, tmp_path: Path
) -> None:
    """PostgreSQL, where no state is stored later, makes them from the record once, and stores them."""
    writer = begun(sqlite)
    copy = tmp_path / "study.backup"
    backup(sqlite, copy)
    expected = ask_all(writer)
    postgres = Database(new_postgres)
    restore(copy, postgres)
    assert len(behind(postgres)) > PEOPLE // 2, "the control: states are behind"
    assert ask_all(Writer(postgres)) == expected
    assert not behind(postgres)
    assert verify(postgres).findings == []
    postgres.close()


def test_a_state_that_is_behind_is_never_used(sqlite: Database) -> None:
    """Whatever its bytes hold, nobody reads them: the next decision is the one that the record gives."""
    begun(sqlite)
    name = behind(sqlite)[0]
    ask = Propose(who="app", received=BEGIN + 10**9, participant=name, given={"sensed": SENSED})
    with sqlite.writing.begin() as connection:
        agent = rebuilt(connection).persons[name].agent
        expected = agent.propose(SENSED)
        connection.execute(update(tables.states).where(tables.states.c.participant == name).values(data=b"damaged"))
    assert verify(sqlite).findings == []
    made = answer_of(Writer(sqlite).do(ask))
    assert (made["probability"], made["action"]) == (expected.probability, expected.action)
    assert verify(sqlite).findings == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET hash = 'aa' WHERE decision = (SELECT latest FROM participants WHERE name = '{name}')",
        "UPDATE participants SET spent = spent + 1 WHERE name = '{name}'",
        "DELETE FROM events WHERE decision = (SELECT latest FROM participants WHERE name = '{name}')",
    ],
)
def test_a_damaged_record_makes_no_state(sqlite: Database, damage: str) -> None:
    """What the record does not give is not made up: the caller is told, others go on."""
    begun(sqlite)
    name = behind(sqlite)[0]
    with sqlite.writing.begin() as connection:
        connection.exec_driver_sql(damage.format(name=name))
    replies = ask_all(Writer(sqlite))
    refused = [reply.code for reply in replies if isinstance(reply, Refused)]
    assert refused == ["internal"]
    assert isinstance(replies[int(name[1:])], Refused)
    assert not verify(sqlite).holds


def test_a_state_that_is_not_finite_is_found_at_once(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it would be stored later: the fallback decides for this one, and the others decide as ever."""
    writer = begun(sqlite)
    meet = Agent._meet

    def broken(agent: Agent, *arguments: Any, **named: Any) -> Any:
        made = meet(agent, *arguments, **named)
        if agent.stream == 5 << 32 and made.step > 3:
            agent._groups["snapshot"][0] = float("inf")
        return made

    monkeypatch.setattr(Agent, "_meet", broken)
    modes = [answer_of(reply)["mode"] for reply in ask_all(writer)]
    assert [number for number, mode in enumerate(modes) if mode == "fallback"] == [5]
    monkeypatch.undo()
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.5, 0.0, 1e300])
def test_what_is_sound(sqlite: Database, value: float) -> None:
    """Not NaN and infinity, wherever they stand, nor variances that are not positive; also of what is shared."""
    agent = next(iter(begun(sqlite).memory.persons.values())).agent
    finite, variances = math.isfinite(value), [_diagonal(agent, name)[-1:] for name in ("model", "snapshot")]
    for numbers, fine in [
        *((agent._block[place:][:1], finite) for place in (1, agent._block.size // 2, agent._block.size - 1)),
        *((variance, finite and value > 0.0) for variance in variances),
    ]:
        assert healthy(agent)
        before = numbers[0]
        numbers[0] = value
        assert healthy(agent) == fine
        numbers[0] = before
