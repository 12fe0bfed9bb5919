"""Backups and the files that databases lie in: whatever they are called, whoever made them, they stay as they are."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from course import launch, run_course
from signed import sign
from study_text import study_text

from opportune.cli import main as cli
from opportune.errors import DataError
from opportune.service.accounts.changes import launching
from opportune.service.accounts.people import add_person, list_people
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Writer
from opportune.service.server import default_url
from opportune.service.server import launch as begin
from opportune.service.state.study import StudyInForce

Run = Callable[..., tuple[int, str, str]]
ODD = ["day%20one", "b?x", "50% of them", "a#b", "größer", "with space"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line: its code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def lived(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A study in the middle of its course, and someone who may run commands about it."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=4)
    sign(sqlite, monkeypatch)
    return sqlite


@pytest.mark.parametrize("name", ODD)
def test_files_may_be_called_anything(run: Run, lived: Database, tmp_path: Path, name: str) -> None:
    """Whatever characters mean in an address; the backup is where it was wanted, and nothing else is written."""
    folder = tmp_path / name
    folder.mkdir()
    file = folder / f"{name}.backup"
    code, _, err = run("backup", str(file), "--db", lived.url)
    assert code == 0, err
    assert [path.name for path in folder.iterdir()] == [file.name]
    assert [path.name for path in tmp_path.iterdir() if path != folder and path.is_dir() is False] == []
    target = file_url(folder / "restored.db")
    code, out, err = run("restore", str(file), "--db", target)
    assert code == 0, err
    assert "verified" in out
    restored = Database(target)
    assert restored.path == folder / "restored.db"
    kept = len(event_rows(restored, limit=10_000)) - 2  # but for the restoration and its verification
    assert event_rows(restored, limit=kept) == event_rows(lived, limit=kept)
    assert kept > 10
    restored.close()
    assert Database(default_url(folder / "my.toml")).path == folder.resolve() / "my.db"


@pytest.mark.parametrize("what", ["a text", "an empty file", "a folder", "cut off", "another database", "nothing"])
def test_what_is_no_backup_is_named(run: Run, lived: Database, folder: Path, what: str) -> None:
    """The file that is wrong is named, not the database that it should have gone to, which stays empty."""
    file = folder / "wrong.backup"
    if what == "a text":
        file.write_text("not a database at all, but long enough to be taken for one" * 100)
    elif what == "an empty file":
        file.touch()
    elif what == "a folder":
        file.mkdir()
    elif what == "cut off":
        assert run("backup", str(file), "--db", lived.url)[0] == 0
        file.write_bytes(file.read_bytes()[:9000])
    elif what == "another database":
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE others (id INTEGER)")
    target = folder / "new.db"
    code, _, err = run("restore", str(file), "--db", file_url(target))
    assert code in {1, 2}
    assert str(file) in err
    assert "new.db" not in err
    assert "expected what opportune backup wrote" in err


def test_a_backup_that_cannot_be_written_is_named(run: Run, lived: Database, tmp_path: Path) -> None:
    """Not the database, which is fine."""
    code, _, err = run("backup", "/proc/study.backup", "--db", lived.url)
    assert code in {1, 2}
    assert "/proc/study.backup cannot be written" in err
    code, _, err = run("backup", str(tmp_path / "no" / "study.backup"), "--db", lived.url)
    assert code == 2
    assert "is not a folder; expected one for the backup" in err


@pytest.mark.parametrize("other", ["a link", "a setting"])
def test_a_file_is_held_by_whichever_name(sqlite: Database, folder: Path, other: str) -> None:
    """Two services on one file would each answer from what they remember."""
    url = f"{sqlite.url}?timeout=5"
    if other == "a link":
        link = folder / "link.db"
        link.symlink_to(sqlite.path)
        url = file_url(link)
    again = Database(url)
    with sqlite.held():
        with pytest.raises(DataError, match="is in use by process"), again.held():
            pass
        with pytest.raises(DataError, match="is in use by process"), again.beginning():
            pass
    with again.held():
        pass
    again.close()


def test_servers_may_begin_together(new_postgres: str) -> None:
    """On an empty database one launches the study and adds the first account; the others find both."""
    running, launched, errors = StudyInForce.from_text(study_text()), [], []

    def start() -> None:
        database = Database(new_postgres)
        try:
            with database.beginning():
                launched.append(begin(database, running))
                if not list_people(database):
                    add_person(database, "admin", "admin")
        except Exception as error:  # told below
            errors.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(launched) == [False, False, False, True]
    database = Database(new_postgres)
    assert [person["name"] for person in list_people(database)] == ["admin"]
    database.close()


def test_alerts_can_be_raised_after_a_restoration(lived: Database, new_postgres: str, folder: Path) -> None:
    """The database numbers them; those that were restored, cleared ones too, are not in the way."""
    from opportune.service.monitoring.alerts import Alerts
    from opportune.service.record.backup import backup, restore
    from opportune.service.record.queries import alert_rows

    before = Alerts(lived)
    for name in ("P000", "P001", None):
        assert before.raise_alert("red", "undecided", name, "A decision could not be made.")
    before.clear("undecided", "P001")
    backup(lived, folder / "b.backup")
    restored = Database(new_postgres)
    restore(folder / "b.backup", restored, lambda stored: launching())
    kept = ("level", "code", "participant", "text", "raised", "cleared")
    found, expected = ([tuple(row[name] for name in kept) for row in alert_rows(each)] for each in (restored, lived))
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert Alerts(restored).raise_alert("red", "unrecorded", None, "Something could not be recorded.")
    assert len(alert_rows(restored)) == len(expected) + 1
    restored.close()


def test_rows_lie_in_a_backup_as_in_the_database(sqlite: Database, folder: Path) -> None:
    """In the order of the record, so that who verifies it need not hold all of them."""
    from opportune.service.record.backup import backup

    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=10)
    backup(sqlite, folder / "b.backup")
    with contextlib.closing(sqlite3.connect(folder / "b.backup")) as connection:
        numbers = [int(name[1:]) for (name,) in connection.execute("SELECT id FROM decisions ORDER BY rowid")]
    assert len(str(numbers[0])) < len(str(numbers[-1])), "the control: another order than that of their names"
    assert numbers == sorted(numbers)
