"""A study that was moved: nobody goes on by mistake in the database that it left, and every command names its own."""

from pathlib import Path

import pytest
from course import BEGIN, launch, run_course
from signed import DIRECTOR, sign
from sqlalchemy import select
from study_text import study_text

from opportune.cli import main as cli
from opportune.errors import DataError, WriteError
from opportune.service.commands.participants import Enrol
from opportune.service.export import exports
from opportune.service.record import tables
from opportune.service.record.database import Database, file_url
from opportune.service.record.writer import Writer
from opportune.service.server import launch as serve_launches
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

COMMANDS = (
    ["verify"], ["export", "out"], ["backup", "again.backup"], ["status"], ["close", "--reason", "over"],
    ["confirm-clock", "--reason", "right"],
)  # fmt: skip


@pytest.fixture
def lived(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A study that has decisions, in the folder in which commands are run."""
    writer = Writer(sqlite)
    launch(writer, study_text(), rehearsal=False)
    run_course(writer.write, people=2, steps=3)
    sign(sqlite, monkeypatch)
    monkeypatch.chdir(sqlite.path.parent)
    return sqlite


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """A command: its code, and what it said on standard error."""
    code = cli.run([*arguments])
    return code, capsys.readouterr().err


def test_what_a_moved_study_left_behind_is_refused(
    lived: Database, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """By every command, by serve, and by a process that still has it open; where it is now it goes on."""
    there = file_url(folder / "new.place")
    assert run(capsys, "backup", "all.backup")[0] == 0
    code, said = run(capsys, "restore", "all.backup", "--db", there, "--moved-from", lived.url)
    assert code == 0, said
    for command in COMMANDS:
        code, said = run(capsys, *command, "--db", lived.url)
        assert code == 2
        assert "new.place; expected --db with its new database" in said
    with pytest.raises(DataError, match="was moved"):
        lived.require_here()
    with pytest.raises(WriteError, match="the study was moved to"):
        Writer(lived).do(Enrol(who="staff", received=BEGIN, participant="P9"))
    with pytest.raises(WriteError, match="the study was moved to"):
        serve_launches(lived, StudyInForce.from_text(study_text()))
    new = Database(there)
    Writer(new).do(Enrol(who=DIRECTOR, received=BEGIN, participant="P9"))
    assert verify(new).findings == []
    new.close()


def test_a_copy_leaves_the_study_where_it_is(lived: Database, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Whoever tries out a backup does not stop the study."""
    assert run(capsys, "backup", "all.backup")[0] == 0
    assert run(capsys, "restore", "all.backup", "--db", file_url(folder / "tried.place"))[0] == 0
    assert run(capsys, "verify", "--db", lived.url)[0] == 0


def test_a_study_is_not_moved_by_a_backup_that_lacks_something(
    lived: Database, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """What was answered after the backup would be lost."""
    assert run(capsys, "backup", "all.backup")[0] == 0
    Writer(lived).do(Enrol(who="staff", received=BEGIN, participant="P9"))
    options = ["--db", file_url(folder / "new.place"), "--moved-from", lived.url]
    code, said = run(capsys, "restore", "all.backup", *options)
    assert code == 2
    assert "expected a backup made after its service was stopped" in said
    with lived.reading.connect() as connection:
        assert connection.execute(select(tables.study.c.moved)).scalar() is None


def test_a_password_in_the_command_is_named(
    new_postgres: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everyone on the machine sees it with ps; in the environment they do not, the control."""
    url = new_postgres.replace("postgres:@", "postgres:s3cret@")
    assert "s3cret" in url
    database = Database(url)
    database.migrate()
    database.close()
    monkeypatch.setattr("sys.argv", ["opportune", "status", "--db", url])
    said = run(capsys, "status", "--db", url)[1]
    assert "set OPPORTUNE_DB instead" in said
    assert "s3cret" not in said
    monkeypatch.setattr("sys.argv", ["opportune", "status"])
    monkeypatch.setenv("OPPORTUNE_DB", url)
    assert "instead" not in run(capsys, "status")[1]


def test_every_command_names_the_database(lived: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it found it by itself."""
    for command in COMMANDS[:4]:
        code, said = run(capsys, *command)
        assert code == 0
        assert f"database: {lived.name}" in said


def test_nothing_is_restored_into_the_place_of_a_running_service(
    lived: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where its file was removed under it: it would go on writing to what nobody sees any more."""
    assert run(capsys, "backup", "all.backup")[0] == 0
    with lived.held():
        for ending in ("", "-wal", "-shm"):
            lived.path.with_name(lived.path.name + ending).unlink(missing_ok=True)
        code, said = run(capsys, "restore", "all.backup", "--db", lived.url)
        assert code == 2
        assert "is in use by process" in said
    assert run(capsys, "restore", "all.backup", "--db", lived.url)[0] == 0


def test_webhooks_are_in_no_exported_file(sqlite: Database) -> None:
    """Their addresses let others send what looks like an alert; the record itself keeps the whole study file."""
    address = "https://hooks.example.org/T0K3N"
    launch(Writer(sqlite), study_text().replace("[serve]\n", f'[serve]\nwebhook = "{address}"\n'))
    for name in exports.NAMES:
        assert "T0K3N" not in "".join(exports.export(sqlite, name)), name
    with sqlite.reading.connect() as connection:
        assert "T0K3N" in connection.execute(select(tables.events.c.body)).scalars().one(), "the control"
