"""Opening a database: durable, current, held by one service."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Select, select, text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from opportune.errors import DataError, InputError
from opportune.service import tables
from opportune.service.database import Database


def test_migrations_make_the_tables_that_the_code_knows(database: Database) -> None:
    """What the steps of migration give is what `tables` declares; doing it again changes nothing."""
    with database.reading.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [(what, thing.name) for what, thing, *_ in compare_metadata(context, tables.metadata)]
    alone = [("add_constraint", "decisions_step"), ("add_index", "decisions_seq")]  # PostgreSQL has these
    assert sorted(differences) == (alone if database.sqlite else [])
    assert database.migrate() == ("0010", "0010")


def test_a_newer_database_is_refused(database: Database) -> None:
    """A database that a later version has migrated is left alone."""
    with database.writing.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for call in (database.migrate, database.require_current):
        with pytest.raises(DataError, match="tables of version 9999"):
            call()


def test_an_empty_database_has_no_study(url: str) -> None:
    """Commands other than serve say that there is nothing, and make nothing."""
    opened = Database(url)
    with pytest.raises((DataError, InputError), match=r"does not exist|no tables of a study"):
        opened.require_current()
    if opened.sqlite:
        assert not opened.path.exists()
    opened.close()


def test_commits_are_durable(database: Database) -> None:
    """What the database is set to is read back."""
    database.check_durable()


def test_a_database_that_forgets_is_refused(new_postgres: str) -> None:
    """PostgreSQL with synchronous_commit = off would answer before anything is durable."""
    with_option = new_postgres + ("&" if "?" in new_postgres else "?") + "options=-csynchronous_commit%3Doff"
    opened = Database(with_option)
    with pytest.raises(DataError, match="synchronous_commit = off"):
        opened.check_durable()
    opened.close()


def test_one_service_holds_a_file(sqlite: Database) -> None:
    """A second process is told who has it; afterwards it is free."""
    program = f"""
from opportune.service.database import Database
with Database({sqlite.url!r}).held():
    print("held")
"""
    command = [sys.executable, "-c", program]
    with sqlite.held():
        taken = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "is in use by process" in taken.stderr
    free = subprocess.run(command, capture_output=True, text=True, check=False)
    assert free.stdout == "held\n", free.stderr


@pytest.mark.parametrize("given", ["mysql://x/y", "study.db", "sqlite://", "postgresql+x://a"])
def test_other_addresses_are_refused(given: str, tmp_path: Path) -> None:
    """Only SQLite files and PostgreSQL are known."""
    with pytest.raises(InputError, match="expected sqlite:///FILE"):
        Database(given)
    with pytest.raises(InputError, match="is not a folder"):
        Database(f"sqlite:///{tmp_path}/nowhere/x.db")


@pytest.mark.parametrize("file", sorted((Path(__file__).parent / "data").glob("*.sql")), ids=lambda file: file.stem)
def test_databases_of_earlier_versions_migrate(file: Path, folder: Path) -> None:
    """A database as each version has left it is brought to this one's tables; its record verifies, and it goes on."""
    from course import BEGIN, answer_of
    from site_over_http import SENSED

    from opportune.service.commands import Propose
    from opportune.service.verify import verify
    from opportune.service.writer import Writer

    with contextlib.closing(sqlite3.connect(folder / "old.db")) as connection:
        connection.executescript(file.read_text(encoding="utf-8"))
    opened = Database(f"sqlite:///{folder / 'old.db'}")
    assert opened.migrate()[0] == file.stem.removeprefix("v")
    assert verify(opened).findings == []
    ask = Propose(who="app", received=BEGIN + 10**9, participant="P001", given={"sensed": SENSED})
    assert answer_of(Writer(opened).do(ask))["mode"] == "learned"
    assert verify(opened).findings == []
    opened.close()


def in_the_file(database: Database, folder: Path) -> int:
    """Events that stand in the database's file itself, not in its log alone."""
    shutil.copy(database.path, folder / "alone.db")
    with contextlib.closing(sqlite3.connect(folder / "alone.db")) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])
        except sqlite3.OperationalError:  # not even the tables
            return 0


def test_the_log_is_copied_while_nobody_writes(sqlite: Database, folder: Path) -> None:
    """Not when something has just been written: what would wait for it then are decisions."""
    from course import BEGIN, launch
    from study_text import study_text

    from opportune.service.commands import Enrol
    from opportune.service.service import Service

    service = Service(sqlite)
    launch(service.writer, study_text())
    service.writer.start()
    service.look_after()
    for number, name in enumerate(("P1", "P2"), start=1):
        service.writer.submit(Enrol(who="staff", received=BEGIN, participant=name)).result()
        service.look_after()
        assert in_the_file(sqlite, folder) < 1 + number
        service.look_after()
        assert in_the_file(sqlite, folder) == 1 + number
    service.writer.stop()


def test_under_load_the_log_is_copied_beside_the_writer(sqlite: Database, folder: Path) -> None:
    """Not with every look: once there is enough to copy, also if more comes all the time."""
    from course import BEGIN, launch
    from study_text import study_text

    from opportune.service.commands import Enrol, Note
    from opportune.service.service import MANY_WRITTEN, Service

    service = Service(sqlite)
    launch(service.writer, study_text())
    service.writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    remarks = [Note(who="staff", received=BEGIN, participant="P1", text="called") for _ in range(MANY_WRITTEN)]
    service.writer.write(remarks[3:])
    service.copy_log()
    assert in_the_file(sqlite, folder) == 0, "the control: there is too little to copy"
    service.writer.write(remarks[:3])
    service.copy_log()
    assert in_the_file(sqlite, folder) == 2 + MANY_WRITTEN
    service.writer.do(remarks[0])
    service.copy_log()
    assert in_the_file(sqlite, folder) == 2 + MANY_WRITTEN


def plan_of(database: Database, query: Select[Any]) -> list[str]:
    """How SQLite goes about a query; what it has put together itself on the way it may look at as a whole."""
    plain = query.compile(dialect=sqlite_dialect(), compile_kwargs={"literal_binds": True})
    with database.reading.connect() as connection:
        steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {plain}")]
    return [step for step in steps if step not in {"SCAN made", "SCAN those"}]


def test_decisions_made_for_a_participant_are_found_one_after_the_other(database: Database) -> None:
    """All of them, in both databases; SQLite looks at no others, and comes to an end where rows were bent to a ring."""
    from course import launch, run_course
    from study_text import study_text

    from opportune.service.reading import decision_rows
    from opportune.service.writer import Writer

    table = tables.decisions
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=20)
    with database.reading.connect() as connection:
        every = [dict(row) for row in connection.execute(select(table).order_by(table.c.step)).mappings()]
    for name in ("P000", "P002", "nobody"):
        mine = [row for row in every if row["participant"] == name]
        assert decision_rows(database, name, limit=1000) == mine
        assert decision_rows(database, name, after=5, limit=7) == mine[5:12]
    if database.sqlite:
        scans = [
            [step for step in plan_of(database, select(table).where(found)) if step.startswith("SCAN")]
            for found in (tables.made_for("P000"), table.c.participant == "P000")
        ]
        assert scans == [[], ["SCAN decisions"]], "the second is the control"
        with database.writing.begin() as connection:
            latest = "(SELECT latest FROM participants WHERE name = 'P000')"
            first = "participant = 'P000' AND step = 1"
            connection.exec_driver_sql(f"UPDATE decisions SET previous = {latest} WHERE {first}")
        assert [row["step"] for row in decision_rows(database, "P000", limit=1000)] == list(range(1, 21))


def test_events_about_a_participant_are_found_by_indexes(database: Database) -> None:
    """As many as a look at every event finds, in both databases; SQLite looks at no table as a whole."""
    from course import launch, run_course
    from study_text import study_text

    from opportune.service.reading import event_rows
    from opportune.service.writer import Writer

    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=20)
    every = event_rows(database, limit=10_000)
    for name in ("P000", "P002", "nobody"):
        mine = [row for row in every if row["participant"] == name]
        assert event_rows(database, limit=10_000, participant=name) == mine
        after = mine[len(mine) // 2]["seq"] if mine else 0
        later = [row for row in mine if row["seq"] > after]
        assert event_rows(database, after=after, limit=7, participant=name) == later[:7]
    assert {row["kind"] for row in every if row["participant"] == "P000"} > {"enrolled", "proposed", "rewarded"}
    if database.sqlite:
        query = select(tables.events).where(tables.events_about("P000")).order_by(tables.events.c.seq)
        plan = plan_of(database, query)
        assert not [step for step in plan if step.startswith("SCAN")], plan
        assert [step for step in plan if "events_decision" in step], "the control: there is something to see"
