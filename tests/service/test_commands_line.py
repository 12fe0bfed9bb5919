"""The commands about a live study: what they print, what they write, and the code they end with."""

import csv
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from course import launch, run_course
from signed import DIRECTOR, sign
from study_text import study_text

from opportune.cli import main as cli
from opportune.errors import InputError
from opportune.service.accounts.keys import Keys
from opportune.service.accounts.people import choose_password, sign_in
from opportune.service.commands.administration import difference
from opportune.service.export import exports
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows, study_row
from opportune.service.record.writer import Writer

PASSWORD = "correct horse battery"
HAPPENED_TO_NOBODY = {"alerts.csv", "escalations.csv", "adverse_events.csv"}  # these files have a header alone
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line: its code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def lived(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A study in the middle of its course, and someone who may run commands about it."""
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=10)
    sign(database, monkeypatch)
    return database


@pytest.fixture
def db(lived: Database, url: str) -> str:
    """Its address."""
    return url


def test_keys(run: Run, lived: Database, db: str) -> None:
    """A key is printed alone, once; it works until it is revoked."""
    code, key, err = run("keys", "add", "phone", "--role", "app", "--db", db)
    assert code == 0
    assert key.endswith("\n")
    assert len(key.split()) == 1
    assert "shown once" in err
    caller = Keys(lived).find(key.strip())
    assert caller is not None
    assert caller.role == "app"
    assert run("keys", "add", "phone", "--role", "app", "--db", db)[0] == 2
    assert run("keys", "add", "other", "--role", "nurse", "--db", db)[0] == 2
    code, listed, _ = run("keys", "list", "--db", db)
    assert "phone\tapp" in listed
    assert key.strip() not in listed
    assert run("keys", "revoke", "phone", "--db", db)[0] == 0
    assert run("keys", "revoke", "phone", "--db", db)[0] == 2
    assert Keys(lived).find(key.strip()) is None
    assert "revoked" in run("keys", "list", "--db", db)[1]


def test_people(run: Run, lived: Database, db: str) -> None:
    """Someone chooses a password by what was printed, once; after repeated failures nobody signs in for a while."""
    code, invitation, _ = run("people", "add", "nurse", "--role", "staff", "--db", db)
    assert code == 0
    token = invitation.strip().removeprefix("/invitation?token=")
    assert sign_in(lived, "nurse", PASSWORD) is None, "nothing is chosen yet"
    assert choose_password(lived, token, PASSWORD, {}) == "nurse"
    assert choose_password(lived, token, "another password", {}) is None, "once"
    assert sign_in(lived, "nurse", PASSWORD) == ("nurse", "staff")
    assert sign_in(lived, "nobody", PASSWORD) is None
    for _ in range(5):
        assert sign_in(lived, "nurse", "wrong") is None
    assert sign_in(lived, "nurse", PASSWORD) is None, "locked"
    assert run("people", "unlock", "nurse", "--db", db)[0] == 0
    assert sign_in(lived, "nurse", PASSWORD) == ("nurse", "staff")
    code, invitation, _ = run("people", "password", "nurse", "--db", db)
    assert code == 0
    assert sign_in(lived, "nurse", PASSWORD) is None, "void at once"
    with pytest.raises(InputError, match="too short"):
        choose_password(lived, invitation.strip().partition("=")[2], "short", {})
    assert choose_password(lived, invitation.strip().partition("=")[2], "another password", {}) == "nurse"
    assert sign_in(lived, "nurse", "another password") == ("nurse", "staff")
    assert run("people", "add", "robot", "--role", "app", "--db", db)[0] == 2
    assert run("people", "revoke", "nurse", "--db", db)[0] == 0
    assert sign_in(lived, "nurse", "another password") is None
    assert "nurse\tstaff" in run("people", "list", "--db", db)[1]


def test_verify(run: Run, lived: Database, db: str) -> None:
    """Says what was verified; a record that was edited ends with code 1, what is wrong, and a red alert."""
    code, out, _ = run("verify", "--db", db)
    assert code == 0
    assert out.startswith("verified: ")
    with lived.writing.begin() as connection:
        connection.exec_driver_sql("UPDATE decisions SET reward = 9 WHERE reward IS NOT NULL")
    code, out, err = run("verify", "--db", db)
    assert code == 1
    assert "reward is stored as 9.0" in err
    code, out, _ = run("status", "--db", db)
    assert code == 1
    assert "red: verify" in out


def test_status(run: Run, db: str) -> None:
    """How the study stands."""
    code, out, _ = run("status", "--db", db)
    assert code == 0
    assert "stress-messages: open" in out
    assert "participants: 3 enrolled" in out
    assert "decisions: 30" in out


def test_export(run: Run, db: str, tmp_path: Path) -> None:
    """Every file is there, every column explained, one row per decision point."""
    assert run("export", str(tmp_path / "data"), "--db", db)[0] == 0
    dictionary = json.loads((tmp_path / "data" / "dictionary.json").read_text(encoding="utf-8"))["files"]
    assert set(dictionary) == {path.name for path in (tmp_path / "data").glob("*.csv")}
    for name, columns in dictionary.items():
        with (tmp_path / "data" / name).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            assert reader.fieldnames == [column["column"] for column in columns]
            assert rows or name in HAPPENED_TO_NOBODY
            assert all(column["meaning"] and column["type"] for column in columns)
        if name == "decisions.csv":
            assert len(rows) == 30
            assert [row["step"] for row in rows[:10]] == [str(step) for step in range(1, 11)]
            assert {"0", "1"} >= {row["nudge"] for row in rows}


def test_backup_and_restore(run: Run, lived: Database, db: str, tmp_path: Path, folder: Path) -> None:
    """A backup holds everything, whichever database it is from; restored, it verifies and goes on."""
    file = tmp_path / "study.backup"
    assert run("backup", str(file), "--db", db)[0] == 0
    assert run("backup", str(file), "--db", db)[0] == 2, "nothing is written over"
    assert [path.name for path in tmp_path.iterdir()] == ["study.backup"]
    target = f"sqlite:///{folder / 'restored.db'}"
    code, out, err = run("restore", str(file), "--db", target)
    assert code == 0, err
    assert "verified" in out
    assert run("restore", str(file), "--db", target)[0] == 2, "a database with a study is left alone"
    restored = Database(target)
    kept = len(event_rows(restored, limit=10_000)) - 2  # but for the restoration and its verification
    assert event_rows(restored, limit=kept) == event_rows(lived, limit=kept)
    assert kept > 10
    restored.close()


def test_a_backup_goes_into_the_other_kind_of_database(
    run: Run, new_postgres: str, sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How a study moves from a file to PostgreSQL."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=5)
    sign(sqlite, monkeypatch)
    assert run("backup", str(tmp_path / "b"), "--db", sqlite.url)[0] == 0
    code, out, err = run("restore", str(tmp_path / "b"), "--db", new_postgres)
    assert code == 0, err
    assert "verified" in out


def test_amend(run: Run, lived: Database, db: str, tmp_path: Path) -> None:
    """What changes is shown and on record; what decisions are made by cannot change; verify follows."""
    file = tmp_path / "changed.toml"
    file.write_text(study_text().replace('fallback = "rest"', 'fallback = "walk"'), encoding="utf-8")
    code, out, _ = run("amend", str(file), "--reason", "ethics board", "--db", db)
    assert code == 0
    assert '+fallback = "walk"' in out
    assert "ethics board" in event_rows(lived, limit=10_000)[-1]["body"]
    assert run("amend", str(file), "--reason", "again", "--db", db)[0] == 2
    for change in (("seed = 1", "seed = 2"), ("horizon = 200", "horizon = 300"), ("noise_sd = 0.5", "noise_sd = 0.6")):
        file.write_text(study_text().replace(*change), encoding="utf-8")
        code, _, err = run("amend", str(file), "--reason", "why not", "--db", db)
        assert code == 2, change
        assert "which would change decisions" in err
    assert run("amend", str(file), "--reason", " ", "--db", db)[0] == 2
    assert run("verify", "--db", db)[0] == 0


def test_close(run: Run, lived: Database, db: str) -> None:
    """Open nudges are settled; nobody is enrolled and nothing decided any more; rewards may still come."""
    assert run("close", "--reason", "all done", "--db", db)[0] == 0
    row = study_row(lived)
    assert row is not None
    assert row["status"] == "closed"
    assert run("close", "--reason", "again", "--db", db)[0] == 2
    assert run("verify", "--db", db)[0] == 0


def test_a_database_must_be_named_where_there_is_not_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only .db file of the folder is taken; otherwise what to say is said."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run("status")
    assert code == 2
    assert "expected --db URL" in err
    assert run("status", "--db", f"sqlite:///{tmp_path}/no.db")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_serve_says_where_it_answers(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is taken and a host that is none are refused before anything is launched; 0 is any that is free."""
    served: list[int] = []
    monkeypatch.setattr("opportune.service.server.serve", lambda url, *, port, **settings: served.append(port))
    study = tmp_path / "study.toml"
    study.write_text(study_text(), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("serve", str(study), "--port", str(port))
    assert (code, err.count("\n")) == (2, 1)
    assert f"--port is {port}, which cannot be used at 127.0.0.1 (Address already in use)" in err
    code, _, err = run("serve", str(study), "--host", "no such host")
    assert (code, err.count("\n")) == (2, 1)
    assert "--host is 'no such host'; expected an address of this machine" in err
    assert not list(tmp_path.glob("*.db"))
    code, _, err = run("serve", str(study), "--port", "0")
    assert code == 0
    assert len(served) == 1
    assert served[0] > 0
    assert f"http://127.0.0.1:{served[0]} (Ctrl-C" in err


def test_whoever_has_no_name_here_can_close_a_study(
    run: Run, lived: Database, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, where users may be numbers: the account says who it is."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", nobody)
    code, _, err = run("close", "--reason", "all is done", "--db", db)
    assert code == 0, err
    event = json.loads(event_rows(lived, limit=10_000)[-1]["body"])
    assert event["who"] == DIRECTOR
    assert event["given"]["system_user"].startswith("user ")


def test_a_verdict_is_alone_on_standard_output(run: Run, lived: Database, db: str) -> None:
    """What is logged goes to standard error."""
    with lived.writing.begin() as connection:
        connection.exec_driver_sql("UPDATE decisions SET price = price + 1")
    code, out, err = run("verify", "--db", db)
    assert (code, out) == (1, "")
    assert "price is stored as" in err


def test_what_is_left_of_an_export_that_was_interrupted(
    run: Run, lived: Database, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are whole, and a word that they are there."""
    made = exports.export

    def export(database: Database, name: str) -> Iterator[str]:
        if name == "nudges":
            raise KeyboardInterrupt
        return made(database, name)

    monkeypatch.setattr(exports, "export", export)
    code, _, err = run("export", str(tmp_path / "out"), "--db", db)
    assert code == 130
    assert "finished files are in" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".csv") == [
        "decisions.csv", "participants.csv",
    ]  # fmt: skip
    assert not list((tmp_path / "out").glob("*.part"))


def test_lines_of_a_file_that_ends_without_one_are_told_apart() -> None:
    """What an amendment changes is shown line by line."""
    assert difference('a = 1\nb = "x"', 'a = 1\nb = "y"\n').splitlines()[-2:] == ['-b = "x"', '+b = "y"']


@pytest.mark.parametrize("command", ["keys", "people"])
def test_the_first_word_alone_shows_the_others(run: Run, command: str) -> None:
    """Line by line, as help looks."""
    code, _, err = run(command)
    assert code == 2
    assert err.splitlines()[0] == f"Usage: opportune {command} [OPTIONS] COMMAND [ARGS]..."
    assert any(line.split()[:1] == ["revoke"] for line in err.splitlines())
