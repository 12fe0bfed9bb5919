"""Upgrades: backed up, migrated in one transaction, verified; other algorithms and older processes are refused."""

import json
from pathlib import Path

import pytest
from course import BEGIN, launch, run_course
from signed import DIRECTOR, sign
from sqlalchemy import text, update
from study_text import study_text

from opportune.algorithm import version
from opportune.cli import main as cli
from opportune.errors import DataError, WriteError
from opportune.service.accounts.changes import launching
from opportune.service.commands.participants import Enrol
from opportune.service.record import database as databases
from opportune.service.record import tables
from opportune.service.record.backup import restore
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Writer
from opportune.service.server import launch as serve_launches
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

LATER = "ALTER TABLE decisions ADD COLUMN later INTEGER"


@pytest.fixture
def lived(database: Database) -> Database:
    """A study that has decisions."""
    writer = Writer(database)
    launch(writer, study_text(), rehearsal=False)
    run_course(writer.write, people=2, steps=4)
    return database


def by_another_algorithm(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process go by the next version of the algorithm."""
    for module in ("database", "transaction"):
        monkeypatch.setattr(f"opportune.service.record.{module}.ALGORITHM", version.ALGORITHM + 1)
    monkeypatch.setattr("opportune.service.verify.check.ALGORITHM", version.ALGORITHM + 1)


def test_a_record_of_another_algorithm_is_refused(
    lived: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every command, with the release that fits; and by a process that is at work on it."""
    by_another_algorithm(lived, monkeypatch)
    url = lived.url.replace("+psycopg", "")
    for command in (["verify"], ["status"], ["upgrade"], ["export", "out"], ["close", "--reason", "over"]):
        assert cli.run([*command, "--db", url]) == 2
        said = capsys.readouterr().err
        assert "uses algorithm 1, and this Opportune 2" in said
        assert "continue with Opportune 0." in said
    with pytest.raises(DataError, match="uses algorithm"):
        serve_launches(lived, StudyInForce.from_text(study_text()))
    with pytest.raises(WriteError, match="uses algorithm"):
        Writer(lived).do(Enrol(who="staff", received=BEGIN, participant="P9"))
    assert not verify(lived).holds


def test_two_versions_never_write_to_one_database(lived: Database) -> None:
    """A process that goes on while the tables are another version's answers that nothing can be stored."""
    writer = Writer(lived)
    writer.do(Enrol(who="staff", received=BEGIN, participant="P8"))
    with lived.writing.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(WriteError, match="the tables are of version 9999"):
        writer.do(Enrol(who="staff", received=BEGIN, participant="P9"))
    with lived.writing.begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{databases.newest()}'"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P9"))
    assert verify(lived).findings == []


def test_serve_says_that_the_tables_are_older_and_stops(
    lived: Database, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Nothing is migrated behind anybody's back."""
    _with_a_step_to_come(folder / "steps", monkeypatch)
    with pytest.raises(DataError, match="run opportune upgrade"):
        serve_launches(lived, StudyInForce.from_text(study_text()))


def test_an_upgrade_backs_up_migrates_and_verifies(
    lived: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """The backup has the tables as they were, and can be restored; a second time there is nothing to do."""
    steps, url = folder / "steps", lived.url.replace("+psycopg", "")
    sign(lived, monkeypatch)
    _with_a_step_to_come(steps, monkeypatch)
    with pytest.raises(DataError, match="run opportune upgrade"):
        lived.require_current()
    file = folder / "before.backup"
    assert cli.run(["upgrade", "--backup", str(file), "--db", url]) == 0
    out = capsys.readouterr().out
    assert "to version later" in out
    assert "verified: " in out
    upgraded, verified = (json.loads(row["body"]) for row in event_rows(lived, limit=1000)[-2:])
    assert (upgraded["who"], upgraded["given"]["what"], upgraded["given"]["tables_to"]) == (
        DIRECTOR, "upgraded", "later",
    )  # fmt: skip
    assert verified["given"]["what"] == "verified"
    assert cli.run(["upgrade", "--db", url]) == 0
    assert "the tables are of version later already" in capsys.readouterr().out
    restored = Database(file_url(folder / "restored.db"))
    restore(file, restored, lambda stored: launching())
    assert verify(restored).findings == []
    restored.close()


def _with_a_step_to_come(steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process know a step of migration that the database has not made."""
    import shutil

    shutil.copytree(databases.MIGRATIONS, steps)
    step = f"""
from alembic import op

revision = "later"
down_revision = "{databases.newest()}"


def upgrade():
    op.execute("{LATER}")
"""
    (steps / "versions" / "later.py").write_text(step, encoding="utf-8")
    monkeypatch.setattr(databases, "MIGRATIONS", steps)
    databases.newest.cache_clear()
    monkeypatch.setattr(databases, "newest", databases._scripts().get_current_head)


def test_a_failing_migration_leaves_everything_as_it_was(
    lived: Database, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """It is one transaction."""
    monkeypatch.setattr("test_upgrades.LATER", "ALTER TABLE nothing ADD COLUMN later INTEGER")
    with monkeypatch.context() as later:
        _with_a_step_to_come(folder / "steps", later)
        with pytest.raises(Exception, match="nothing"):
            lived.migrate()
    lived.require_current()
    assert verify(lived).findings == []


def test_an_event_of_another_algorithm_does_not_verify(lived: Database) -> None:
    """Also where only one of them says so."""
    with lived.writing.begin() as connection:
        connection.execute(update(tables.study).values(algorithm=7))
    assert any("algorithm is stored as 7" in finding for finding in verify(lived).findings)
