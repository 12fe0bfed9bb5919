"""A lock keeps out who guesses, not the right person; and nobody escapes it by claiming to come from elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from desk import PASSWORD, Desk, desks, went
from servers import free_port, parent
from site_over_http import Site, site_on
from study_text import study_text

from opportune.cli import main as cli
from opportune.errors import InputError
from opportune.service.accounts import lockouts
from opportune.service.accounts.people import add_person, sign_in
from opportune.service.accounts.people import succeeded as signed_in
from opportune.service.record.database import Database
from opportune.service.server import check_proxies, launch
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A service, and someone who can sign in."""
    with site_on(sqlite) as found:
        add_person(sqlite, "ada", "staff", PASSWORD)
        yield found


def guess(site: Site, address: str, times: int = lockouts.MOST_FAILURES) -> None:
    """Wrong passwords from an address."""
    for _ in range(times):
        assert sign_in(site.service.database, "ada", "wrong guess", address=address) is None


def test_wrong_passwords_from_elsewhere_do_not_lock_anyone_out(site: Site) -> None:
    """Someone signs in where they have before, whatever others tried; who guessed is locked, with the right one too."""
    database = site.service.database
    caller = sign_in(database, "ada", PASSWORD, address="10.0.0.1")
    assert caller is not None
    signed_in(database, caller, "10.0.0.1", None, {})
    guess(site, "6.6.6.6")
    assert sign_in(database, "ada", PASSWORD, address="6.6.6.6") is None, "a control: it is locked there"
    assert sign_in(database, "ada", PASSWORD, address="10.0.0.1") is not None
    assert sign_in(database, "ada", PASSWORD, address="10.0.0.2") is not None, "and at an address that is new"


def test_many_addresses_do_not_help_to_guess(site: Site) -> None:
    """Together they have a limit; where someone has signed in before it does not count."""
    database = site.service.database
    caller = sign_in(database, "ada", PASSWORD, address="10.0.0.1")
    assert caller is not None
    signed_in(database, caller, "10.0.0.1", "this browser", {})
    for number in range(lockouts.MOST_ELSEWHERE):
        assert sign_in(database, "ada", "wrong guess", address=f"6.6.{number}.6") is None
    assert sign_in(database, "ada", PASSWORD, address="6.7.8.9") is None, "locked wherever nobody has signed in"
    assert sign_in(database, "ada", PASSWORD, address="10.0.0.1") is not None
    assert sign_in(database, "ada", PASSWORD, address="6.7.8.9", browser="this browser") is not None
    assert sign_in(database, "ada", PASSWORD, address="6.7.8.9", browser="another browser") is None


def test_a_known_browser_gets_in_where_its_address_is_locked(site: Site) -> None:
    """A clinic shares an address: a colleague who guesses does not keep others from their own browsers."""
    ada = Desk(site, "ada")
    went(ada.sign_in())
    went(ada.send("/settings", "/signout"))
    stranger = Desk(site, "ada")
    for _ in range(lockouts.MOST_FAILURES):
        assert stranger.sign_in("wrong guess").status_code == 401
    assert stranger.sign_in(PASSWORD).status_code == 401
    went(ada.sign_in())
    for _ in range(lockouts.MOST_FAILURES):
        assert ada.sign_in("wrong guess").status_code == 401
    assert ada.sign_in().status_code == 401, "it counts for itself"


def test_locks_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quarter of an hour; failures that are far apart are not added up."""
    database, real, later = site.service.database, clock.now, [0]
    monkeypatch.setattr(clock, "now", lambda: real() + later[0])
    guess(site, "6.6.6.6")
    later[0] = lockouts.LOCKED + 1
    assert sign_in(database, "ada", PASSWORD, address="6.6.6.6") is not None
    for _ in range(2 * lockouts.MOST_FAILURES):
        guess(site, "6.6.6.6", 1)
        later[0] += lockouts.WINDOW + 1
    assert sign_in(database, "ada", PASSWORD, address="6.6.6.6") is not None


@pytest.mark.parametrize("given", ["*", "127.0.0.1,*", "0.0.0.0/0", "10.0.0.0/8", "proxy", "::/0"])
def test_nobodys_word_is_taken_for_everyones_address(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service does not start that would believe anyone."""
    with pytest.raises(InputError, match="expected the addresses of the proxies"):
        check_proxies(given)
    study = tmp_path / "study.toml"
    study.write_text(study_text(), encoding="utf-8")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", given)
    assert cli.run(["serve", str(study), "--port", "0"]) == 2
    assert "FORWARDED_ALLOW_IPS" in capsys.readouterr().err


def test_the_addresses_of_proxies_are_believed() -> None:
    """Single ones, lists and small networks."""
    for given in ("", "127.0.0.1", "10.0.0.7, 10.0.0.8", "172.30.99.0/24", "::1"):
        check_proxies(given)


def test_a_claimed_address_in_front_of_the_proxys_is_not_believed(sqlite: Database) -> None:
    """A proxy appends where a request came from: what the client claimed stands before that, and changes nothing."""
    launch(sqlite, StudyInForce.from_text(study_text()))
    with parent() as servers:
        port = free_port()
        servers.start(sqlite.url, port)
        codes = []
        for number in range(110):
            headers = {"Authorization": "Bearer opp_wrong", "X-Forwarded-For": f"1.2.3.{number}, 6.6.6.6"}
            codes.append(httpx.get(f"http://127.0.0.1:{port}/api/v1/study", headers=headers).status_code)
        assert codes[0] == 401
        assert codes[-1] == 429, "all came from one address"


def test_cookies_belong_to_this_host_alone(site: Site) -> None:
    """Over HTTPS they have a name that browsers take from this host only; a cookie without it is not looked at."""
    ada = Desk(site, "ada")
    ada.site.client.base_url = "https://testserver.local"
    found = ada.request("GET", "/signin")
    (cookie,) = found.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-opportune_form=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "domain" not in cookie.lower()
    assert went(ada.sign_in()) == "/today"
    (session,) = [name for name in ada.cookies if name.endswith("session")]
    assert session == "__Host-opportune_session"
    ada.cookies["opportune_session"] = ada.cookies.pop(session)
    assert went(ada.request("GET", "/today")).startswith("/signin")


def test_accounts_are_for_who_has_just_proved_who_they_are(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes after signing in the password and a code are asked for again before anything is shown or changed."""
    eva = desks(site, eva="admin")["eva"]
    fields = eva.form(eva.page("/accounts"), "/accounts", what="add_key", name="x", role="admin")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + 11 * clock.MINUTE)
    assert "Is it still you?" in eva.page("/accounts")
    refused = eva.request("POST", "/accounts", fields)
    assert refused.status_code == 401
    assert "Is it still you?" in refused.text
    eva.step += 22  # half minutes that have passed
    assert eva.send("/accounts", "/accounts/confirm", old=PASSWORD, code="000000").status_code == 401
    assert eva.send("/accounts", "/accounts/confirm", old="wrong", code=eva.code()).status_code == 401
    went(eva.send("/accounts", "/accounts/confirm", old=PASSWORD, code=eva.code()))
    assert "Is it still you?" not in eva.page("/accounts")
