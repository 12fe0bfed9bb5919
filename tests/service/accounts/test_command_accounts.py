"""Commands on the server's machine: an account says who runs them; the system's user name proves nothing."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from course import launch
from pyotp.totp import TOTP
from signed import DIRECTOR, sign
from study_text import study_text

from opportune.cli import main as cli
from opportune.cli.signing import KEY
from opportune.errors import InputError
from opportune.service.accounts import second_factor
from opportune.service.accounts.changes import launching
from opportune.service.accounts.keys import add_key, revoke_key
from opportune.service.accounts.people import add_person
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Writer
from opportune.service.state import clock

Run = Callable[..., tuple[int, str, str]]
PASSWORD = "correct horse battery"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line: its code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def lived(sqlite: Database) -> Database:
    """A study that was launched."""
    launch(Writer(sqlite), study_text())
    return sqlite


def latest(database: Database) -> dict[str, Any]:
    """The last event on record."""
    found: dict[str, Any] = json.loads(event_rows(database, limit=100_000)[-1]["body"])
    return found


def commands(folder: Path) -> list[list[str]]:
    """Every command that changes a study, shows it or takes something away."""
    study = folder / "changed.toml"
    study.write_text(study_text().replace('fallback = "rest"', 'fallback = "walk"'), encoding="utf-8")
    return [
        ["amend", str(study), "--reason", "why"], ["close", "--reason", "why"], ["export", str(folder / "data")],
        ["backup", str(folder / "b")], ["verify"], ["keys", "add", "x", "--role", "app"], ["keys", "list"],
        ["keys", "revoke", "x"], ["people", "add", "x", "--role", "staff"], ["people", "list"],
        ["people", "revoke", "x"], ["people", "password", "x"], ["people", "unlock", "x"],
        ["status"], ["upgrade"],
    ]  # fmt: skip


def test_no_command_runs_without_an_account(
    run: Run, lived: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key, with one that is revoked, and with one of another role nothing is done and nothing recorded."""
    app, analyst = add_key(lived, "phones", "app"), add_key(lived, "cora", "analyst")
    gone = sign(lived, monkeypatch)
    add_key(lived, "another admin", "admin")
    revoke_key(lived, DIRECTOR)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = event_rows(lived, limit=100)
    for key in (None, "opp_forged", gone, app, analyst):
        if key is None:
            monkeypatch.delenv(KEY)
        else:
            monkeypatch.setenv(KEY, key)
        for command in commands(tmp_path):
            if key != analyst or command[0] not in {"export", "verify", "status"}:
                code, out, err = run(*command, "--db", lived.url)
                assert (code, out, err.count("\n")) == (2, "", 1), (key, command, err)
                assert "expected" in err
        assert event_rows(lived, limit=100) == before, key
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("forged", ["service", "ada", "a\nb", "x" * 5000, "opportune serve"])
def test_a_name_cannot_be_forged(
    run: Run, lived: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    """Whatever the environment says, the record has the account's name; the system's is beside it, and harmless."""
    add_person(lived, "ada", "staff", PASSWORD)
    sign(lived, monkeypatch)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, forged)
    assert run(*commands(tmp_path)[0], "--db", lived.url)[0] == 0
    event = latest(lived)
    assert (event["kind"], event["who"]) == ("amended", DIRECTOR)
    assert event["given"]["from"] == "command line"
    assert event["given"]["system_user"].isprintable()
    assert len(event["given"]["system_user"]) <= 64


def test_a_name_password_and_code_are_asked_for_in_a_terminal(
    run: Run, lived: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key in the environment; what is wrong is refused, and on record where it is an admin's."""
    add_person(lived, "ada", "admin", PASSWORD)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def close(*secrets: str) -> tuple[int, str]:
        given = list(secrets)
        monkeypatch.setattr("getpass.getpass", lambda prompt="": given.pop(0))
        monkeypatch.setattr("sys.stdin", Terminal("ada\n"))
        code, _, err = run("close", "--reason", "over", "--db", lived.url)
        return code, err

    code, err = close(PASSWORD)
    assert (code, "needs a second factor" in err) == (2, True)
    authenticator, now = TOTP(second_factor.begin(lived, "ada")), clock.now() // clock.MICROSECONDS
    assert second_factor.set_up(lived, "ada", authenticator.at(now - 30), launching()) is not None
    for secrets in (("wrong",), (PASSWORD, "000000"), (PASSWORD, authenticator.at(now - 30))):
        code, err = close(*secrets)
        assert (code, "is wrong" in err) == (2, True), secrets
        assert latest(lived)["given"]["what"] == "sign-in failed"
    assert close(PASSWORD, authenticator.at(now + 30))[0] == 0
    assert (latest(lived)["kind"], latest(lived)["who"]) == ("closed", "ada")


def test_only_the_first_admin_needs_nobody(run: Run, lived: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has launched the study adds the first admin; the second is added by an admin."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run("people", "add", "nurse", "--role", "staff", "--db", lived.url)[0] == 2
    assert run("people", "add", "ada", "--role", "admin", "--db", lived.url)[0] == 0
    assert (latest(lived)["who"], latest(lived)["given"]["account"]) == ("opportune serve", "ada")
    assert run("people", "add", "eve", "--role", "admin", "--db", lived.url)[0] == 2
    assert run("keys", "add", "eve", "--role", "admin", "--db", lived.url)[0] == 2


@pytest.mark.parametrize(
    "name", ["service", "Service", "opportune serve", "command line", "staff 2", "participant P001", "a\nb", " a", "",
             "x" * 65, "ﬁne", "Nurse", "STRASSE"],
)  # fmt: skip
def test_names_that_would_mislead_are_refused(lived: Database, name: str) -> None:
    """Those of the service, of others however written, and those that analysts see in place of names."""
    for taken in ("nurse", "Straße"):
        add_person(lived, taken, "staff", PASSWORD)
    before = event_rows(lived, limit=100)
    for add in (lambda: add_key(lived, name, "app"), lambda: add_person(lived, name, "staff")):
        with pytest.raises(InputError, match="expected"):
            add()
    assert event_rows(lived, limit=100) == before
