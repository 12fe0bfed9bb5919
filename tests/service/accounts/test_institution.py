"""Signing in through the institution, at a provider that runs here: who is known is let in, and nobody else."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from desk import PASSWORD, Desk, went
from oidc_provider_mock import User, run_server_in_thread
from site_over_http import Site, site_on

from opportune.errors import InputError
from opportune.service.accounts import institution
from opportune.service.accounts.people import add_person, revoke_person
from opportune.service.record.database import Database

pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")  # within the provider
USERS = [
    User(sub="s-anna", claims={"preferred_username": "anna"}),
    User(sub="s-other", claims={"preferred_username": "anna"}),  # the name went to somebody else
    User(sub="s-ada", claims={"preferred_username": "ada"}),
    User(sub="s-eve", claims={"preferred_username": "eve"}),
    User(sub="s-none"),
]


@pytest.fixture
def site(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A service whose people may sign in at a provider."""
    with run_server_in_thread(user_claims=USERS, require_nonce=True) as provider:
        monkeypatch.setenv(institution.ISSUER, f"http://localhost:{provider.server_port}")
        monkeypatch.setenv(institution.CLIENT, "opportune")
        monkeypatch.setenv(institution.SECRET, "secret of the client")
        monkeypatch.setenv(institution.LABEL, "hospital")
        with site_on(sqlite) as found:
            add_person(sqlite, "anna", "staff", PASSWORD)
            add_person(sqlite, "ada", "admin", PASSWORD)
            yield found


def at_the_provider(address: str, subject: str) -> str:
    """Sign in there; hands back where the browser is sent on to."""
    found = httpx.post(address, data={"sub": subject}, follow_redirects=False)
    assert found.status_code == 302, found.text
    parts = urlsplit(found.headers["location"])
    return f"{parts.path}?{parts.query}"


def go(site: Site, subject: str, desk: Desk | None = None) -> tuple[Desk, httpx.Response]:
    """Someone signs in through the institution."""
    desk = Desk(site, subject) if desk is None else desk
    address = went(desk.request("GET", "/signin/institution"))
    return desk, desk.request("GET", at_the_provider(address, subject))


def test_someone_who_has_an_account_is_let_in(site: Site) -> None:
    """By the name that the institution says, with the account's role."""
    assert "Sign in through your hospital" in Desk(site, "x").page("/signin")
    desk, found = go(site, "s-anna")
    assert went(found) == "/today"
    assert "anna" in desk.page("/today")
    assert desk.request("GET", "/accounts").status_code == 403


def test_an_admin_needs_a_second_factor_all_the_same(site: Site) -> None:
    """As after a password."""
    desk, found = go(site, "s-ada")
    assert went(found) == "/signin/second"
    assert went(desk.request("GET", "/accounts")).startswith("/signin")


@pytest.mark.parametrize("subject", ["s-eve", "s-none", "s-unknown"])
def test_nobody_else_is_let_in(site: Site, subject: str) -> None:
    """Who has no account here, or no name there, whatever the institution knows of them."""
    desk, found = go(site, subject)
    assert found.status_code == 401
    assert "there is no account for you here" in found.text
    assert went(desk.request("GET", "/today")).startswith("/signin")


def test_a_name_that_went_to_somebody_else_opens_nothing(site: Site) -> None:
    """The account belongs to the subject that came first; one that is revoked opens for nobody."""
    assert went(go(site, "s-anna")[1]) == "/today"
    assert go(site, "s-other")[1].status_code == 401
    revoke_person(site.service.database, "anna")
    assert go(site, "s-anna")[1].status_code == 401


def test_an_answer_belongs_to_the_browser_that_asked(site: Site) -> None:
    """A link made by someone else signs nobody in; nor does an answer that comes twice, or is changed."""
    eve, anna = Desk(site, "eve"), Desk(site, "anna")
    address = went(eve.request("GET", "/signin/institution"))
    assert {"state", "nonce", "code_challenge"} <= set(parse_qs(urlsplit(address).query))
    back = at_the_provider(address, "s-anna")
    assert anna.request("GET", back).status_code == 401, "without having asked"
    went(anna.request("GET", "/signin/institution"))
    assert anna.request("GET", back).status_code == 401, "having asked for something else"
    assert went(eve.request("GET", back)) == "/today", "a control: it was good all along"
    assert Desk(site, "eve").request("GET", back).status_code == 401


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not when the first person wants to sign in."""
    assert institution.from_environment() is None
    monkeypatch.setenv(institution.ISSUER, "https://login.example.org")
    with pytest.raises(InputError, match="OPPORTUNE_OIDC_CLIENT and OPPORTUNE_OIDC_SECRET is not set"):
        institution.from_environment()
    monkeypatch.setenv(institution.CLIENT, "opportune")
    monkeypatch.setenv(institution.SECRET, "s")
    assert institution.from_environment() is not None
    monkeypatch.setenv(institution.ISSUER, "http://login.example.org")
    with pytest.raises(InputError, match="begins with https"):
        institution.from_environment()
