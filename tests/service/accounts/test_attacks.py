"""Hundreds of attacks: names that mislead, keys that are none, forms of others, values that should break pages."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, desks
from site_over_http import SENSED, Site, good, pages_of, site_on

import opportune.service.pages
from opportune.errors import InputError
from opportune.service.accounts.names import check_name
from opportune.service.accounts.people import sign_in
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.verify.check import verify

TEMPLATES = Path(opportune.service.pages.__file__).parent / "templates"
INVISIBLE = ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u200e", "\u202e",
             "\u2028", "\u2029", "\u2066", "\u2069", "\ufeff", "\ud800", "\U000e0041"]  # fmt: skip
MISLEADING = [
    *(f"{before}{sign}{after}" for before in ("Ada", "") for after in ("Huber", "") for sign in INVISIBLE),
    "", " ", " Ada", "Ada ", "x" * 65, "x" * 5_000, "\u0130" * 70, "ﬁne", "Ａda", "service", "SERVICE", "Service",
    "opportune serve", "Opportune Serve", "command line", "REDCap", "redcap", "staff 1", "Staff 12", "ADMIN 3", "app 9",
    "analyst 44", "participant P001", "Participant x", "participant ",
    "\u0410da", "Ad\u0430", "s\u0435rvice", "Ada \u039duber",
    "\u13a1oe Ada", "o\u0585", "Ada  Huber", "nurse\u2010two", "nurse\u2013two", "\u0391\u0434\u0430",
]  # fmt: skip


@pytest.mark.parametrize("name", MISLEADING, ids=ascii)
def test_a_name_that_misleads_is_refused(name: str) -> None:
    """Invisible signs, other alphabets' letters, names of the service, labels of analysts, 5,000 characters."""
    with pytest.raises(InputError, match="expected"):
        check_name(name)


@pytest.mark.parametrize(
    "name", ["Ada Huber", "José Ñúñez", "Łukasz", "Иван Петров", "Νίκος", "李雷", "O'Neil-Smith", "x" * 64]
)
def test_a_name_of_somebody_is_taken(name: str) -> None:
    """The control: people are called in many ways."""
    assert check_name(name) == name


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study with a call that waits."""
    with site_on(sqlite, policy="always") as found:
        found.enrol()
        found.keys["decision"] = found.decide()["decision"]
        yield found


def seen(database: Database) -> int:
    """How many events there are."""
    return len(event_rows(database, limit=100_000))


def test_what_is_no_key_opens_nothing(site: Site, sqlite: Database) -> None:
    """Pieces of keys, tokens of another use, sessions, hashes, SQL: each is answered with 401, and leaves nothing."""
    issued = good(site.post("participants/P001/tokens", None, "app"), 201)
    before, admin = seen(sqlite), site.keys["admin"]
    stored = [row.hash for row in _keys(sqlite)]
    wrong = [
        "", " ", "x", admin[:-1], f"{admin}x", admin.upper(), admin[::-1], f"{admin} {admin}", "opp_", "opp_*", "opp_%",
        "opt_", "opr_", "\" OR \"\"=\"", "null", "None", "true", "0", "[]", "{}", "../admin", "x" * 5_000,
        issued["refresh"], f"opt_{issued['token']}", issued["token"].replace("opt_", "opp_"),
        issued["token"].replace("opt_", "opr_"), *stored, "admin one", "app one", "%00", "\\u0000", "' OR 1=1 --",
    ]  # fmt: skip
    schemes = ["Bearer", "bearer", "Basic", "Token", ""]
    tried = 0
    for key, scheme in itertools.product(wrong, schemes):
        site.service.limits.keys._counted.clear()
        found = site.client.get("/api/v1/study", headers={"Authorization": f"{scheme} {key}".strip()})
        assert found.status_code == 401, (scheme, key)
        tried += 1
    for name in ("opportune_session", "__Host-opportune_session"):
        for key in wrong:
            if key.isprintable() and key.isascii() and not set(key) & set('";, '):
                found = site.client.get("/accounts", headers={"Cookie": f"{name}={key}", "Accept": "application/json"})
                assert found.status_code == 401, (name, key)
                tried += 1
    refresh = [issued["token"], admin, "", "opr_", "x" * 5_000, issued["refresh"].upper()]
    for token in refresh:
        assert site.client.post("/api/v1/tokens", json={"refresh": token}).status_code in {400, 401, 422}, token
    assert tried > 150
    assert seen(sqlite) == before
    assert site.get("study", "admin").status_code == 200, "the control"


def _keys(database: Database) -> list[Any]:
    from sqlalchemy import select

    from opportune.service.record import tables

    with database.reading.connect() as connection:
        return list(connection.execute(select(tables.keys)))


def posts(site: Site) -> list[str]:
    """Every page that takes a form, with numbers filled in."""
    found = [path for method, path in pages_of(site.client.app) if method == "POST"]
    return [path.replace("{number:int}", "0").replace("{change:str}", "paused") for path in found]


@pytest.mark.parametrize("role", ["staff", "analyst", "admin"])
def test_a_form_of_another_site_does_nothing(site: Site, sqlite: Database, role: str) -> None:
    """Each form without its token, with another's, with an old one, or from another origin."""
    victim, other = Desk(site, f"the {role}", role), Desk(site, f"other {role}", role)
    for desk in (victim, other):
        desk.sign_in()
    theirs = token_of(other)
    before, tried = seen(sqlite), 0
    for path in posts(site):
        if path.startswith("/sign") or path == "/invitation":
            continue
        for fields, headers in (
            ({}, {}), ({"form": ""}, {}), ({"form": "x" * 5_000}, {}), ({"form": theirs}, {}),
            ({"form": token_of(victim)}, {"Origin": "https://evil.example"}), ({"form": "ä\0"}, {}),
        ):  # fmt: skip
            content = {"name": "eve", "role": "admin", "text": "x", "decision": site.keys["decision"], **fields}
            found = victim.request("POST", path, content, **headers)
            assert found.status_code in {400, 403, 404, 422}, (path, fields, found.status_code)
            tried += 1
    assert tried > 60
    assert seen(sqlite) == before


def token_of(desk: Desk) -> str:
    """What this session's forms bring along."""
    (token, *_others) = re.findall(r'name="form" value="([^"]*)"', desk.page("/settings"))
    return str(token)


HOSTILE = [
    "", " ", "\0", "a\nb", "x" * 5_000, "-1", "0", "1e309", "NaN", "99999999999999999999", "' OR 1=1 --",
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "{{7*7}}", "${7*7}", "%s%n", "../../etc/passwd",
    "\u202etxt", "=1+1", "🙂" * 50, "d1", "P001", "off", "on",
]  # fmt: skip


@pytest.mark.parametrize("role", ["staff", "admin"])
def test_whatever_a_form_holds_the_page_answers(site: Site, sqlite: Database, role: str) -> None:
    """Every form, every field filled with what should break it: no fault, no markup, and the record verifies."""
    site.service.institution = None
    desk = Desk(site, f"the {role}", role)
    desk.sign_in()
    names = {name for file in TEMPLATES.glob("*.html") for name in re.findall(r'name="([a-z_]+)"', file.read_text())}
    names -= {"form", "once", "viewport"}
    tried = 0
    for path, value in itertools.product(posts(site), HOSTILE):
        if path in {"/signout", "/password", "/settings/second", "/record/verify"} or path.startswith("/sign"):
            continue
        fields = {**dict.fromkeys(names, value), "form": token_of_cached(desk), "once": f"once-{tried}"}
        found = desk.request("POST", path, fields)
        assert found.status_code < 500, (path, value, found.text[-300:])
        assert "<script>alert" not in found.text, (path, value)
        assert "<img src=x" not in found.text, (path, value)
        tried += 1
    assert tried > 200
    for page in ("/participants", "/participants/0", "/study", "/record", *(["/today"] if role == "staff" else [])):
        text = desk.page(page)
        assert "<script>alert" not in text, page
        assert "<img src=x" not in text, page
    assert verify(sqlite).findings == []
    assert good(site.post("participants/P001/decisions", {"sensed": SENSED}), 201)["step"] > 1, "and decisions go on"


_tokens: dict[int, str] = {}


def token_of_cached(desk: Desk) -> str:
    """The same, asked for once."""
    if id(desk) not in _tokens:
        _tokens[id(desk)] = token_of(desk)
    return _tokens[id(desk)]


@pytest.mark.parametrize("role", ["app", "staff", "analyst", "admin", "P001"])
def test_nobody_does_what_their_role_may_not(site: Site, sqlite: Database, role: str) -> None:
    """Every address that writes, with a body that would be taken: only those whose role may change anything."""
    site.keys["P001"] = good(site.post("participants/P001/tokens", None, "app"), 201)["token"]
    decision = site.keys["decision"]
    writes: dict[tuple[str, str, str], set[str]] = {
        ("POST", "participants", '{"participant": "P9"}'): {"staff", "admin"},
        ("PATCH", "participants/P001", '{"status": "paused"}'): {"staff", "admin"},
        ("POST", "participants/P001/notes", '{"text": "x"}'): {"staff"},
        ("POST", "participants/P001/corrections", '{"timezone": "UTC", "reason": "x"}'): {"staff"},
        ("POST", f"decisions/{decision}/corrections", '{"outcome": "answered", "reason": "x"}'): {"staff"},
        ("POST", f"decisions/{decision}/reward", '{"reward": 0.5, "corrects": true, "reason": "x"}'): {"staff"},
        ("POST", "decisions", '[{"participant": "P001", "key": "k", "sensed": {}}]'): {"app"},
        ("DELETE", "participants/P001/tokens", ""): {"app", "staff", "admin"},
    }
    for (method, path, body), allowed in writes.items():
        if role in allowed:
            continue
        before = seen(sqlite)
        headers = {**site.headers(role), "Content-Type": "application/json"}
        found = site.client.request(method, f"/api/v1/{path}", headers=headers, content=body)
        assert found.status_code in {403, 404}, (method, path, found.text)
        assert seen(sqlite) == before


def test_guessing_names_takes_as_long_and_says_as_little(site: Site, sqlite: Database) -> None:
    """Whether somebody exists cannot be told from what is answered; nor does a hostile name harm anything."""
    desks(site, ada="staff")
    before = seen(sqlite)
    for name in ["ada", "nobody", *INVISIBLE[:3], "' OR 1=1 --"]:
        assert sign_in(sqlite, name, "wrong password", address="9.9.9.9") is None
    real, none = (Desk(site, name) for name in ("ada", "nobody"))
    one, other = (desk.sign_in("wrong password") for desk in (real, none))
    assert one.status_code == other.status_code == 401
    assert re.sub(r'value="[^"]*"', "", one.text) == re.sub(r'value="[^"]*"', "", other.text)
    assert seen(sqlite) == before
