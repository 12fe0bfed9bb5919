"""Processes that end, and what the next one begins with: what is stored with each event, or else the record."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from course import BEGIN, answer_of, launch, run_course
from servers import free_port, parent
from site_over_http import SENSED
from sqlalchemy import func, select, update
from study_text import numeric, study_text

from opportune.live.agent import Agent
from opportune.service.accounts.keys import add_key
from opportune.service.commands.administration import Amend
from opportune.service.commands.base import Answered, Command
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import alert_rows
from opportune.service.record.transaction import Transaction
from opportune.service.record.writer import Reply, Writer
from opportune.service.service import Service
from opportune.service.state import clock
from opportune.service.state.packing import pack
from opportune.service.verify.check import rebuilt, verify

PEOPLE = 40
STUDIES = {
    "finite": study_text(horizon=200, planned=PEOPLE),
    "numbers": numeric(study_text(horizon=200, planned=PEOPLE)),
}
AMENDED = STUDIES["finite"].replace('fallback = "rest"', 'fallback = "walk"')


def enrol_all(writer: Writer, text: str) -> None:
    """A study with everyone in it."""
    launch(writer, text)
    writer.write([Enrol(who="staff", received=BEGIN, participant=f"P{i:03d}") for i in range(PEOPLE)])


def ask_all(writer: Writer, received: int) -> list[dict[str, Any]]:
    """A decision point of everyone, in one transaction."""
    asked = [
        Propose(who="app", received=received, participant=f"P{i:03d}", given={"sensed": SENSED}) for i in range(PEOPLE)
    ]
    return [answer_of(reply) for reply in writer.write(asked)]


def amend(database: Database) -> None:
    """From now on the fallback is another action."""
    Writer(database).do(
        Amend(who="boss", received=BEGIN + clock.HOUR, file=AMENDED, source="study.toml", reason="walks are safe")
    )


def is_as_of_the_last_event(database: Database) -> bool:
    """Whether everyone's row is as of the last event about them, and so is what all share."""
    people, record = tables.participants.c, tables.events.c
    with database.reading.connect() as connection:
        about = select(record.participant, func.max(record.seq)).where(record.participant.is_not(None))
        last = connection.execute(about.group_by(record.participant)).all()
        return sorted(last) == sorted(connection.execute(select(people.name, people.seq)).all())


def ask_over_http(address: str, key: str, turn: int) -> list[dict[str, Any]]:
    """A decision point of everyone, as a nightly run asks for it."""
    items = [{"participant": f"P{i:03d}", "key": f"{turn}.{i}", "sensed": SENSED} for i in range(PEOPLE)]
    headers = {"Authorization": f"Bearer {key}"}
    response = httpx.post(f"{address}/api/v1/decisions", json=items, headers=headers, timeout=60.0)
    assert response.status_code == 201, response.text
    return [item["answer"] for item in response.json()]


def test_a_fallback_that_was_amended_after_a_kill_strands_nobody(folder: Path) -> None:
    """The fallback decides, the server is killed, the fallback is amended: everyone is answered after the restart.

    Where states were not stored with each event this left everybody but one without decisions (500), for ever.
    """
    assert STUDIES["finite"] != AMENDED, "the control: there is something to amend"
    database = Database(f"sqlite:///{folder}/study.db")
    database.migrate()
    enrol_all(Writer(database), STUDIES["finite"])
    key, port = add_key(database, "phones", "app"), free_port()
    add_key(database, "boss", "admin")
    address = f"http://127.0.0.1:{port}"
    with parent("failing") as failing:
        pid = failing.start(database.url, port)
        assert {made["mode"] for made in ask_over_http(address, key, 1)} == {"fallback"}
        failing.kill(pid)
    with parent() as sound:
        pid = sound.start(database.url, port)
        assert {made["mode"] for made in ask_over_http(address, key, 2)} == {"learned"}
        sound.kill(pid)
        amend(database)
        pid = sound.start(database.url, port)
        assert {made["mode"] for made in ask_over_http(address, key, 3)} == {"learned"}
        sound.kill(pid)
    assert is_as_of_the_last_event(database)
    assert verify(database).findings == []
    database.close()


def test_a_state_can_be_rebuilt_across_an_amendment(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the record, by the study file that was in force at each event: the bytes are those that were stored."""
    writer = Writer(sqlite)
    enrol_all(writer, STUDIES["finite"])
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "propose_at", lambda *_, **__: 1 / 0)
        assert {made["action"] for made in ask_all(writer, BEGIN)} == {"rest"}
        amend(sqlite)
        assert {made["action"] for made in ask_all(writer, BEGIN + 2 * clock.HOUR)} == {"walk"}
    ask_all(writer, BEGIN + 3 * clock.HOUR)
    with sqlite.reading.connect() as connection:
        stored = {row.name: row.state for row in connection.execute(select(tables.participants))}
        made = {name: pack(person.agent) for name, person in rebuilt(connection).participants.items()}
    assert made == stored
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.participants).values(state=b"damaged"))
    assert {made["mode"] for made in ask_all(Writer(sqlite), BEGIN + 4 * clock.HOUR)} == {"learned"}
    assert verify(sqlite).findings == []


class Broken(Command, kw_only=True):
    """A command that fails after others of its transaction have happened."""

    def run(self, transaction: Transaction) -> Answered:
        """Not carried out."""
        raise RuntimeError("on purpose")


class Restless:
    """Writers that end again and again, and whose transactions fail now and then."""

    def __init__(self, database: Database) -> None:
        self.database, self.writers, self.rnd = database, [Writer(database)], random.Random(3)

    def write(self, commands: Sequence[Command]) -> "list[Reply | Exception]":
        """As a writer does."""
        assert is_as_of_the_last_event(self.database)
        if self.rnd.random() < 0.3:
            self.writers.append(Writer(self.database))
        if self.rnd.random() < 0.8:
            return self.writers[-1].write(commands)
        *replies, broken = self.writers[-1].write([*commands, Broken(who="test", received=BEGIN)])
        assert isinstance(broken, Refused)
        assert broken.code == "internal"
        return replies


def answered(replies: "Sequence[Reply | Exception]") -> list[Any]:
    """What can be compared of replies."""
    return [(reply.code, str(reply)) if isinstance(reply, Refused) else reply for reply in replies]


@pytest.mark.parametrize("study", STUDIES)
def test_processes_that_end_change_nothing(tmp_path: Path, study: str) -> None:
    """New writers again and again, and transactions that fail: every answer has the bytes of one that went on."""
    databases = [Database(f"sqlite:///{tmp_path / name}.db") for name in ("ends", "goes on")]
    for database in databases:
        database.migrate()
        launch(Writer(database), STUDIES[study])
    restless = Restless(databases[0])
    found = answered(run_course(restless.write, people=PEOPLE, steps=12))
    assert len(restless.writers) > 10
    assert found == answered(run_course(Writer(databases[1]).write, people=PEOPLE, steps=12))
    for database in databases:
        assert is_as_of_the_last_event(database)
        assert verify(database).findings == []
        database.close()


def test_a_damaged_record_makes_no_state(sqlite: Database) -> None:
    """Where a state cannot be read and the record is not whole either, nothing is made up: the caller is told."""
    writer = Writer(sqlite)
    enrol_all(writer, STUDIES["finite"])
    ask_all(writer, BEGIN)
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.participants).values(state=b"damaged"))
        connection.exec_driver_sql("UPDATE events SET hash = 'aa' WHERE seq = 5")
    ask = Propose(who="app", received=BEGIN + clock.HOUR, participant="P001", given={"sensed": SENSED})
    (refused,) = Writer(sqlite).write([ask])
    assert isinstance(refused, Refused)
    assert refused.code == "internal"
    assert not verify(sqlite).holds
    assert alert_rows(sqlite) == []


def test_a_state_that_is_not_finite_is_found_at_once(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback decides for this participant, and the others decide as ever."""
    writer = Writer(sqlite)
    enrol_all(writer, STUDIES["finite"])
    meet = Agent.propose_at

    def broken(agent: Agent, *arguments: Any, **named: Any) -> Any:
        made = meet(agent, *arguments, **named)
        if agent.stream == 5 << 32:
            agent.numbers.arrays["snapshot"][0] = float("inf")
        return made

    monkeypatch.setattr(Agent, "propose_at", broken)
    modes = [made["mode"] for made in ask_all(writer, BEGIN)]
    assert [number for number, mode in enumerate(modes) if mode == "fallback"] == [5]
    monkeypatch.undo()
    assert verify(sqlite).findings == []


def test_a_service_that_ends_leaves_one_file(folder: Path) -> None:
    """SQLite's log of what is not in the file yet is gone once a service ends: the file can be moved or removed."""
    path = folder / "study.db"
    database = Database(file_url(path))
    database.migrate()
    launch(Writer(database), study_text(), rehearsal=True)
    service = Service(database)
    service.start()
    assert path.with_name("study.db-wal").exists(), "the control: there is a log while it runs"
    service.stop()
    assert not path.with_name("study.db-wal").exists()
