"""Answers are kept under their keys, filed or not yet: a retry gets the same bytes, and nothing happens twice."""

from pathlib import Path
from typing import Any

import pytest
from course import BEGIN, launch
from site_over_http import SENSED
from sqlalchemy import func, select
from study_text import study_text

from opportune.service import answers, tables
from opportune.service.backup import backup, restore
from opportune.service.commands import Answered, Command, Enrol, Propose
from opportune.service.database import Database
from opportune.service.ledger import Ledger
from opportune.service.problems import Refused
from opportune.service.service import Service
from opportune.service.upkeep import PutInOrder
from opportune.service.verify import verify
from opportune.service.writer import Reply, Writer


def ask(number: int, fingerprint: str = "same") -> Propose:
    """A decision point, asked about under a key of its own."""
    return Propose(
        who="app", received=BEGIN + number, participant="P1", given={"sensed": SENSED},
        key=f"app:{number * 7919 % 101}", fingerprint=fingerprint,
    )  # fmt: skip


def begun(database: Database) -> Writer:
    """A study with a participant."""
    writer = Writer(database)
    launch(writer, study_text(horizon=1000))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    return writer


def counts(database: Database) -> tuple[int, int, int]:
    """How many answers are filed and how many are not yet, and how many decisions there are."""
    with database.reading.connect() as connection:
        filed, late, made = (
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (tables.requests, tables.recent, tables.decisions)
        )
    return filed, late, made


FILING = PutInOrder(who="service", received=BEGIN)


def test_a_retry_gets_the_same_bytes(database: Database) -> None:
    """Before and after it is filed, of this process and the next; other content under the key is refused."""
    writer = begun(database)
    replies = [writer.do(ask(number)) for number in range(12)]
    assert counts(database) == ((0, 12, 12) if database.sqlite else (12, 0, 12))
    for filing in (False, True, True):
        if filing:
            writer.do(FILING)
            assert counts(database) == ((11, 1, 12) if database.sqlite else (12, 0, 12)), "the last one stays"
        for again in (writer, Writer(database)):
            assert [again.do(ask(number)) for number in range(12)] == replies
            (refused,) = again.write([ask(3, "other")])
            assert isinstance(refused, Refused)
            assert refused.code == "key_reused"
    assert writer.do(ask(12)) not in replies, "the control: another key is another decision"
    assert counts(database)[2] == 13
    assert verify(database).holds


def test_who_has_not_seen_the_filing_finds_answers_all_the_same(sqlite: Database) -> None:
    """Two who write by turns: what one adds or files the other knows, though its own memory is older."""
    one = begun(sqlite)
    other = Writer(sqlite)
    replies = [(one, other)[number % 2].do(ask(number)) for number in range(10)]
    other.do(FILING)
    assert [one.do(ask(number)) for number in range(10)] == replies
    replies.append(one.do(ask(10)))
    assert [other.do(ask(number)) for number in range(11)] == replies
    assert counts(sqlite) == (9, 2, 11)


def test_filing_that_is_undone(sqlite: Database) -> None:
    """A transaction that fails after it has filed answers leaves them where they were, and found."""

    class FileAndFail(Command, kw_only=True):
        def run(self, ledger: Ledger) -> Answered:
            assert ledger.answers.file(100) == 7
            raise ZeroDivisionError

    writer = begun(sqlite)
    replies = [writer.do(ask(number)) for number in range(8)]
    (failed,) = writer.write([FileAndFail(who="service", received=BEGIN)])
    assert isinstance(failed, Refused)
    assert counts(sqlite) == (0, 8, 8)
    assert [writer.do(ask(number)) for number in range(8)] == replies
    assert counts(sqlite) == (0, 8, 8)


def test_there_are_never_very_many(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a load that never ends a few are filed with each batch."""
    monkeypatch.setattr(answers, "MOST_RECENT", 20)
    writer = begun(sqlite)
    replies: list[Any] = []
    for first in range(0, 96, 4):
        replies += writer.write([ask(number) for number in range(first, first + 4)])
        assert counts(sqlite)[1] <= 28
    assert counts(sqlite)[0] >= 68
    assert all(isinstance(reply, Reply) for reply in replies)
    assert [writer.do(ask(number)) for number in range(96)] == replies
    assert len(writer.memory.recent.places) == counts(sqlite)[1]


def test_they_are_filed_while_nobody_writes(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when something has just been written; and in transactions that are small."""
    monkeypatch.setattr("opportune.service.upkeep.AT_ONCE", 3)
    begun(sqlite)
    service = Service(sqlite)
    service.writer.start()
    replies = [service.writer.submit(ask(number)).result() for number in range(10)]
    service.look_after()
    assert counts(sqlite) == (0, 10, 10)
    service.look_after()
    assert counts(sqlite) == (9, 1, 10)
    written = service.writer.written
    service.look_after()
    assert service.writer.written == written, "there is nothing more to do"
    assert [service.writer.submit(ask(number)).result() for number in range(10)] == replies
    service.writer.stop()


def test_filing_makes_way(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who writes again is not held up by what is left to file; it is filed later."""
    monkeypatch.setattr("opportune.service.upkeep.AT_ONCE", 3)
    begun(sqlite)
    service = Service(sqlite)
    service.writer.start()
    for number in range(10):
        service.writer.submit(ask(number)).result()
    service._put_in_order()
    submit = service.writer.submit

    def busy(command: Command) -> Any:
        filed = submit(command)
        submit(ask(50)).result()
        return filed

    monkeypatch.setattr(service.writer, "submit", busy)
    service._put_in_order()
    assert counts(sqlite)[0] == 3
    monkeypatch.setattr(service.writer, "submit", submit)
    service._put_in_order()
    service._put_in_order()
    assert counts(sqlite)[:2] == (10, 1)
    service.writer.stop()


def test_a_backup_has_all_answers(sqlite: Database, new_postgres: str, tmp_path: Path) -> None:
    """Also those that were not filed yet; restored into another kind of database, a retry gets them."""
    writer = begun(sqlite)
    replies = [writer.do(ask(number)) for number in range(5)]
    backup(sqlite, tmp_path / "copy.db")
    restored = Database(new_postgres)
    restore(tmp_path / "copy.db", restored)
    assert counts(restored) == (5, 0, 5)
    again = Writer(restored)
    assert [again.do(ask(number)) for number in range(5)] == replies
    restored.close()
