"""Accounts leave a trace: added, revoked, reset, signed in, exported, verified, restored; and never a secret."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from course import launch, run_course
from desk import PASSWORD, Desk, desks, secret_on, went
from pyotp.totp import TOTP
from signed import DIRECTOR, sign
from site_over_http import site_on
from study_text import study_text

from opportune.cli import main as cli
from opportune.service.accounts import second_factor
from opportune.service.accounts.changes import change_account, launching
from opportune.service.accounts.keys import Keys, add_key, resume_key, revoke_key
from opportune.service.accounts.people import add_person, revoke_person, sign_in
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Writer
from opportune.service.verify.check import verify


def told(database: Database) -> list[dict[str, Any]]:
    """What is on record about accounts and what was taken: who, and what."""
    found = [json.loads(row["body"]) for row in event_rows(database, limit=100_000)]
    return [{"who": e["who"], **e["given"]} for e in found if e["kind"] in {"account", "access"}]


def test_what_an_admin_does_is_on_record(sqlite: Database) -> None:
    """Each change of an account with who made it and from where; no key, password, code or invitation is in it."""
    with site_on(sqlite) as site:
        ada = desks(site, ada="admin")["ada"]
        secrets = [PASSWORD, ada.secret, *site.keys.values()]
        for fields in (
            {"what": "add_person", "name": "bert", "role": "staff"},
            {"what": "add_key", "name": "app two", "role": "app"},
            {"what": "invite", "name": "bert"}, {"what": "unlock", "name": "bert"},
            {"what": "revoke_key", "name": "app two"}, {"what": "revoke_person", "name": "bert"},
        ):  # fmt: skip
            page = ada.request("POST", "/accounts", ada.form(ada.page("/accounts"), "/accounts", **fields)).text
            secrets += [shown.rpartition("=")[2] for shown in re.findall(r"<code>([^<]+)</code>", page)]
        found = [event for event in told(sqlite) if event["who"] == "ada"]
        assert [(event["what"], event.get("account")) for event in found] == [
            ("second factor set up", "ada"), ("signed in", "ada"), ("person added", "bert"),
            ("person invited to choose a password", "bert"), ("key added", "app two"),
            ("person invited to choose a password", "bert"), ("lock taken back", "bert"),
            ("key revoked", "app two"), ("person revoked", "bert"),
        ]  # fmt: skip
        assert all(event["from"] for event in found)
        bodies = " ".join(row["body"] for row in event_rows(sqlite, limit=1000))
        assert len(secrets) > 6
        assert not [secret for secret in secrets if secret in bodies]
        assert verify(sqlite).holds


def test_who_chooses_a_password_is_the_only_one_who_knows_it(sqlite: Database) -> None:
    """An invitation is good once; an admin must set up a second factor before anything else is shown."""
    with site_on(sqlite) as site:
        ada = desks(site, ada="admin")["ada"]
        fields = ada.form(ada.page("/accounts"), "/accounts", what="add_person", name="eva", role="admin")
        (address,) = re.findall(r"<code>([^<]+)</code>", ada.request("POST", "/accounts", fields).text)
        path = address.removeprefix("http://testserver.local")
        eva = Desk(site, "eva")
        assert eva.send(path, "/invitation", password="short").status_code == 422
        assert went(eva.send(path, "/invitation", password="chosen by herself")) == "/signin/second"
        assert Desk(site, "eva").request("GET", path).status_code == 401, "used already"
        assert went(eva.request("GET", "/today")).startswith("/signin"), "not signed in yet"
        eva.secret = secret_on(eva.page("/signin/second"))
        assert eva.send("/signin/second", "/signin/second", code="000000").status_code == 401
        page = eva.send("/signin/second", "/signin/second", code=eva.code()).text
        recovery = re.findall(r"<code>([a-z2-7]+)</code>", page)
        assert len(recovery) == 10
        eva.page("/accounts")
        assert {"what": "password changed", "who": "eva"}.items() <= next(
            event for event in told(sqlite) if event["what"] == "password changed"
        ).items()


def test_a_second_factor_is_good_once_and_recovery_codes_too(sqlite: Database) -> None:
    """A code that was used, and a recovery code that was used, do not sign in again; wrong ones lock the name."""
    with site_on(sqlite) as site:
        desks(site, ada="admin")
        eva = Desk(site, "eva", "admin")
        page = eva.request("GET", "/signin").text
        (token,) = re.findall(r'name="token" value="([^"]*)"', page)
        fields = {"name": "eva", "password": PASSWORD, "token": token, "next": "", "timezone": ""}
        assert went(eva.request("POST", "/signin", fields)) == "/signin/second"
        eva.secret = secret_on(eva.page("/signin/second"))
        used = eva.code()
        page = eva.send("/signin/second", "/signin/second", code=used).text
        recovery = re.findall(r"<code>([a-z2-7]+)</code>", page)
        for code, status in (
            (used, 401), (eva.code(), 303), (recovery[0], 303), (recovery[0], 401), (recovery[1], 303),
            ("nonsense", 401),
        ):  # fmt: skip
            assert went(eva.request("POST", "/signin", fields)) == "/signin/code"
            assert eva.send("/signin/code", "/signin/code", code=code).status_code == status, code
        for _ in range(4):
            assert eva.send("/signin/code", "/signin/code", code="nonsense").status_code == 401
        assert eva.send("/signin/code", "/signin/code", code=recovery[2]).status_code == 401, "locked"
        what = [event["what"] for event in told(sqlite) if event["account"] == "eva"]
        assert what.count("recovery code used") == 2
        assert what[-1] == "sign-in failed, and locked there"
        failed = [event["who"] for event in told(sqlite) if event["what"].startswith("sign-in failed")]
        assert set(failed) == {"service"}, "nobody knows who tried: it is not put down to the account's owner"


def test_two_requests_at_the_same_time_use_up_their_recovery_codes(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two requests with the same code only one succeeds; with different codes both do, and both codes are gone."""
    sqlite.migrate()
    launch(Writer(sqlite), study_text())
    add_person(sqlite, "eva", "admin", PASSWORD)
    authenticator = TOTP(second_factor.begin(sqlite, "eva"))
    codes = second_factor.set_up(sqlite, "eva", authenticator.now(), launching())
    assert codes is not None

    def check(code: str, *, meanwhile: str) -> list[bool]:
        """Use a code; when it has been found valid and is about to be used up, use another."""
        found = []

        def delayed(*arguments: Any) -> None:
            monkeypatch.setattr(second_factor, "change_account", change_account)
            found.append(second_factor.check(sqlite, "eva", meanwhile, launching()))
            change_account(*arguments)

        monkeypatch.setattr(second_factor, "change_account", delayed)
        return [second_factor.check(sqlite, "eva", code, launching()), *found]

    assert check(codes[0], meanwhile=codes[0]) == [False, True]
    assert check(codes[1], meanwhile=codes[2]) == [True, True]
    assert [second_factor.check(sqlite, "eva", code, launching()) for code in codes[:4]] == [False, False, False, True]
    assert verify(sqlite).holds


def test_what_is_taken_is_on_record(sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports over the API, by page and by command; verifications; backups."""
    with site_on(sqlite) as site:
        cora = desks(site, cora="analyst")["cora"]
        assert site.get("exports/decisions.csv", "analyst").status_code == 200
        assert cora.request("GET", "/exports/events.csv").status_code == 200
        cora.send("/record", "/record/verify")
        sign(sqlite, monkeypatch)
        assert cli.run(["export", str(tmp_path / "data"), "--db", sqlite.url]) == 0
        assert cli.run(["backup", str(tmp_path / "b"), "--db", sqlite.url]) == 0
        assert cli.run(["verify", "--db", sqlite.url]) == 0
        taken = [(e["who"], e["what"]) for e in told(sqlite) if e["what"] in {"exported", "verified", "backed up"}]
    assert taken == [
        ("analyst one", "exported"), ("cora", "exported"), ("cora", "verified"), (DIRECTOR, "exported"),
        (DIRECTOR, "backed up"), (DIRECTOR, "verified"),
    ]  # fmt: skip


def test_a_restored_backup_does_not_revive_what_was_revoked(
    sqlite: Database, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the admin who restores is let in until that admin says so; the restoration is on record."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=3)
    sign(sqlite, monkeypatch)
    stolen, good = add_key(sqlite, "stolen phone", "app"), add_key(sqlite, "phones", "app")
    add_person(sqlite, "eve", "staff", PASSWORD)
    assert cli.run(["backup", str(tmp_path / "b"), "--db", sqlite.url]) == 0
    revoke_key(sqlite, "stolen phone")
    revoke_person(sqlite, "eve")
    url = file_url(folder / "restored.db")
    assert cli.run(["restore", str(tmp_path / "b"), "--db", url]) == 0
    restored = Database(url)
    assert Keys(restored).find(stolen) is None
    assert sign_in(restored, "eve", PASSWORD) is None
    assert Keys(restored).find(good) is None
    resume_key(restored, "phones")
    assert Keys(restored).find(good) is not None
    assert [e["what"] for e in told(restored)][-3:] == ["restored", "verified", "key resumed"]
    assert {"who": DIRECTOR, "suspended": ["eve", "phones", "stolen phone"]}.items() <= told(restored)[-3].items()
    assert verify(restored).holds
    restored.close()


def test_a_backup_is_restored_by_someone_whom_it_knows(
    sqlite: Database, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the database stays empty."""
    launch(Writer(sqlite), study_text())
    sign(sqlite, monkeypatch)
    assert cli.run(["backup", str(tmp_path / "b"), "--db", sqlite.url]) == 0
    url = file_url(folder / "restored.db")
    monkeypatch.setenv("OPPORTUNE_KEY", "opp_forged")
    assert cli.run(["restore", str(tmp_path / "b"), "--db", url]) == 2
    restored = Database(url)
    assert event_rows(restored, limit=1) == []
    restored.close()
