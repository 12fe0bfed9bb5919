"""Opening a database: durable, current, held by one service."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from course import BEGIN, launch, run_course
from site_over_http import SENSED, good, problem, site_on
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError
from study_text import study_text

from opportune.errors import DataError, InputError
from opportune.service.commands.participants import Enrol
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.verify.check import verify


def test_migrations_make_the_tables_that_the_code_knows(database: Database) -> None:
    """What the steps of migration give is what `tables` declares; doing it again changes nothing."""
    with database.reading.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [(what, thing.name) for what, thing, *_ in compare_metadata(context, tables.metadata)]
    assert differences == []
    assert database.migrate() == ("0001", "0001")


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


def test_a_standby_that_nothing_waits_for_is_named(new_postgres: str) -> None:
    """A failover to it may lose what was answered last."""
    plain = Database(new_postgres)
    assert plain.standby() is None
    with plain.writing.begin() as connection:  # a standby, as far as this database can tell
        connection.execute(text("CREATE TABLE public.pg_stat_replication AS SELECT 1 AS pid"))
    plain.close()
    option = new_postgres + ("&" if "?" in new_postgres else "?") + "options=-csearch_path%3Dpublic,pg_catalog"
    opened = Database(option)
    assert "a standby that nothing waits for" in str(opened.standby())
    opened.close()


def test_one_service_holds_a_file(sqlite: Database) -> None:
    """A second process is told who has it; afterwards it is free."""
    program = f"""
from opportune.service.record.database import Database
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


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_is_removed_or_replaced_is_noticed(sqlite: Database, replaced: bool) -> None:
    """Nothing is answered from a file that nobody will find; once it is back the service goes on."""
    with site_on(sqlite) as site:
        site.enrol()
        before = verify(sqlite).decisions
        aside = sqlite.path.with_name("aside")
        sqlite.path.rename(aside)
        if replaced:
            shutil.copyfile(aside, sqlite.path)
        asked = {"sensed": SENSED}
        assert "was removed or replaced" in problem(
            site.post("participants/P001/decisions", asked, key="again"), 503, "unavailable"
        )
        assert "was removed or replaced" in problem(site.client.get("/readyz"), 503, "unavailable")
        aside.replace(sqlite.path)
        good(site.post("participants/P001/decisions", asked, key="again"), 201)
        good(site.client.get("/readyz"))
        assert verify(sqlite).decisions == before + 1


def in_the_file(database: Database, folder: Path) -> int:
    """Events that stand in the database's file itself, not in its log alone."""
    shutil.copy(database.path, folder / "alone.db")
    with contextlib.closing(sqlite3.connect(folder / "alone.db")) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])
        except sqlite3.OperationalError:  # not even the tables
            return 0


def test_the_log_is_copied_beside_the_writer(sqlite: Database, folder: Path) -> None:
    """Once something was written, and not again until something else was."""
    service = Service(sqlite)
    launch(service.writer, study_text())
    service.copy_log()
    assert in_the_file(sqlite, folder) == 1
    service.writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    assert in_the_file(sqlite, folder) == 1, "the control: it is in the log alone"
    service.copy_log()
    assert in_the_file(sqlite, folder) == 2


def test_what_belongs_to_a_participant_is_found_by_an_index(sqlite: Database) -> None:
    """Neither decisions nor events are looked through as a whole."""
    launch(Writer(sqlite), study_text())
    for table in (tables.decisions, tables.events):
        with sqlite.reading.connect() as connection:
            query = f"EXPLAIN QUERY PLAN SELECT * FROM {table.name} WHERE participant = 'P1'"
            plan = [row[3] for row in connection.exec_driver_sql(query)]
        assert all(step.startswith("SEARCH") for step in plan), plan
        with sqlite.reading.connect() as connection:
            scan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN SELECT * FROM {table.name}").one()[3]
        assert scan.startswith("SCAN"), "the control"


def test_a_participant_has_one_decision_at_each_step(database: Database) -> None:
    """The database itself refuses a second one."""
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=1, steps=2)
    with database.reading.connect() as connection:
        row = connection.execute(select(tables.decisions).limit(1)).mappings().one()
    with pytest.raises(IntegrityError), database.writing.begin() as connection:
        connection.execute(tables.decisions.insert(), {**row, "id": "d999"})


def test_a_full_disk_is_named(sqlite: Database) -> None:
    """Where the lock cannot be written, and where a program without a service writes: a sentence, no traceback."""
    program = f"""
import resource, sys
from opportune.errors import WriteError
from opportune.service.record.database import Database
from opportune.service.commands.administration import Launch
from opportune.service.record.writer import Writer
database = Database({sqlite.url!r})
text = {study_text()!r}
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
def held():
    with database.held():
        pass
def launch():
    Writer(database).do(Launch(who="test", received=1, file=text, source="study.toml"))
for call in (held, launch):
    try:
        call()
    except WriteError as error:
        print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (line[9:] for line in done.stdout.splitlines() if line.startswith("refused: "))
    assert first.endswith("study.db.lock cannot be written (File too large)")
    assert second.startswith(f"{sqlite.name} cannot be written (")
