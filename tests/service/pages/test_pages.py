"""The staff's pages as the server makes them: who may see what, forms that count once, words for people."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from course import answer_of, launch
from desk import PASSWORD, Desk, desks, went
from site_over_http import SENSED, Site, good, pages_of, site_on
from study_text import study_text

from opportune.service.accounts import lockouts, people, sessions
from opportune.service.commands import calls
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.pages import study as study_page
from opportune.service.pages import texts
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.verify.check import verify

MAY = {
    ("GET", "/"): {"staff", "analyst", "admin"},
    ("POST", "/signout"): {"staff", "analyst", "admin"},
    ("GET", "/settings"): {"staff", "analyst", "admin"},
    ("POST", "/settings"): {"staff", "analyst", "admin"},
    ("POST", "/password"): {"staff", "analyst", "admin"},
    ("GET", "/week"): {"staff", "analyst", "admin"},
    ("GET", "/checklist"): {"admin"},
    ("POST", "/checklist"): {"admin"},
    ("POST", "/checklist/alert"): {"admin"},
    ("GET", "/session"): {"staff", "analyst", "admin"},
    ("POST", "/session"): {"staff", "analyst", "admin"},
    ("GET", "/participants/{number:int}/adverse"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/adverse"): {"staff", "admin"},
    ("GET", "/participants/{number:int}/calls"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/calls"): {"staff", "admin"},
    ("POST", "/escalations/acknowledge"): {"staff", "admin"},
    ("GET", "/today"): {"staff", "admin"},
    ("GET", "/today/list"): {"staff", "admin"},
    ("GET", "/today/changes"): {"staff", "admin"},
    ("POST", "/today/take"): {"staff"},
    ("POST", "/today/release"): {"staff"},
    ("POST", "/today/outcome"): {"staff"},
    ("POST", "/today/undo"): {"staff"},
    ("GET", "/participants"): {"staff", "analyst", "admin"},
    ("POST", "/participants"): {"staff", "analyst", "admin"},
    ("POST", "/participants/enrol"): {"staff", "admin"},
    ("GET", "/participants/{number:int}"): {"staff", "analyst", "admin"},
    ("GET", "/participants/{number:int}/{change:str}"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/status"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/note"): {"staff"},
    ("POST", "/participants/{number:int}/reward"): {"staff"},
    ("GET", "/participants/{number:int}/correct"): {"staff"},
    ("GET", "/participants/{number:int}/phones"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/phones"): {"staff", "admin"},
    ("POST", "/participants/{number:int}/correct"): {"staff"},
    ("GET", "/study"): {"staff", "analyst", "admin"},
    ("GET", "/record"): {"staff", "analyst", "admin"},
    ("POST", "/record"): {"staff", "analyst", "admin"},
    ("POST", "/record/verify"): {"analyst", "admin"},
    ("GET", "/exports/{name:str}"): {"analyst", "admin"},
    ("GET", "/accounts"): {"admin"},
    ("POST", "/accounts"): {"admin"},
    ("POST", "/accounts/confirm"): {"admin"},
    ("GET", "/access"): {"admin"},
    ("POST", "/access"): {"admin"},
    ("POST", "/settings/second"): {"staff", "analyst", "admin"},
}
FOR_ALL = {
    ("GET", "/static/{name:str}"), ("GET", "/icon/{count:int}"), ("GET", "/signin"), ("POST", "/signin"),
    ("GET", "/invitation"), ("POST", "/invitation"), ("GET", "/signin/institution"), ("GET", "/signin/back"),
}  # fmt: skip
HALFWAY = {(method, path) for method in ("GET", "POST") for path in ("/signin/code", "/signin/second")}
"""For those whose password was right: closed to everyone else, and to those who are signed in."""


@pytest.fixture
def site(database: Database) -> Iterator[Site]:
    """A study whose rule nudges whenever it may, so that there are calls."""
    with site_on(database, policy="always") as found:
        yield found


def call(site: Site, name: str = "P001") -> str:
    """A participant who is to be called; the decision's id."""
    site.enrol(name, timezone="America/New_York")
    made = site.decide(name)
    assert made["status"] == "nudge"
    decision: str = made["decision"]
    return decision


def address(path: str) -> str:
    """An address with its places filled in."""
    return path.replace("{number:int}", "0").replace("{change:str}", "paused").replace("{name:str}", "decisions.csv")


def test_every_page_says_who_may_see_it(site: Site) -> None:
    """A new page must be put into the table above, and so be tested below."""
    found = pages_of(site.client.app)
    assert set(found) == set(MAY) | FOR_ALL | HALFWAY
    assert {key: set(options["roles"]) for key, options in found.items() if key not in FOR_ALL | HALFWAY} == MAY
    assert {key for key, options in found.items() if "session" not in options.get("purposes", ["session"])} == HALFWAY


def test_every_page_is_closed_to_others(site: Site) -> None:
    """Nobody signed in: to the sign-in page. Another role: refused. A key for programs opens no page."""
    call(site)
    everyone = desks(site, anna="staff", cora="analyst", ada="admin")
    before = happened(site)
    nobody = Desk(site, "nobody")
    for (method, path), allowed in (MAY | {key: set[str]() for key in HALFWAY}).items():
        if path == "/today/changes":
            continue  # goes on and on; below
        found = nobody.request(method, address(path))
        if method == "GET":
            assert went(found).startswith("/signin?next=/"), path
        else:
            assert found.status_code == 401, path
            assert "<form" in found.text
        with_key = nobody.request(method, address(path), Authorization=f"Bearer {site.keys['admin']}")
        assert with_key.status_code in {303, 401}, path
        for desk in everyone.values():
            role = {"anna": "staff", "cora": "analyst", "ada": "admin"}[desk.name]
            found = desk.request(method, address(path), {"form": "wrong"} if method == "POST" else None)
            if (method, path) in HALFWAY:
                assert went(found).startswith("/signin") if method == "GET" else found.status_code == 401, path
            elif method == "GET" and role in allowed:
                assert found.status_code in {200, 303}, (path, role, found.text[-300:])
            else:
                assert found.status_code == 403, (method, path, role)
    assert nobody.request("GET", "/today/changes", Accept="text/event-stream").status_code == 401
    assert everyone["cora"].request("GET", "/today/changes").status_code == 403
    assert happened(site) == before


def happened(site: Site) -> int:
    """How many events are on record, but for downloads, which are recorded, too."""
    table = tables.events
    return queries.count(site.service.database, table, table.c.kind != "access")


def test_forms_from_elsewhere_are_refused(site: Site) -> None:
    """Each form brings along what only our pages know; one from another site, or of another session, does nothing."""
    decision = call(site)
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    theirs = bert.form(bert.page("/today"), "/today/take", decision=decision)
    for fields in (theirs, {**theirs, "form": ""}, {"decision": decision}):
        assert anna.request("POST", "/today/take", fields).status_code == 403
    mine = anna.form(anna.page("/today"), "/today/take", decision=decision)
    assert anna.request("POST", "/today/take", mine, Origin="https://elsewhere.example").status_code == 403
    assert "is calling" not in bert.page("/today")
    went(anna.request("POST", "/today/take", mine))
    assert "anna is calling" in bert.page("/today")


def test_pages_are_sealed(site: Site) -> None:
    """Nothing from elsewhere, in no frame, in no cache; the cookie is out of reach of scripts and other sites."""
    desk = Desk(site, "anna", "staff")
    page = desk.request("GET", "/signin")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    signed = desk.sign_in()
    (cookie,) = [text for text in signed.headers.get_list("set-cookie") if text.startswith("opportune_session=")]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    for path in ("/today", "/participants", "/study", "/record", "/settings"):
        found = desk.request("GET", path)
        assert found.headers["cache-control"] == "no-store", path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', found.text), path
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?! src=)", found.text), path


def test_signing_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password is refused, five lock the name, sessions end, a new password ends them all."""
    desk = Desk(site, "anna", "staff")
    assert desk.sign_in("wrong").status_code == 401
    assert went(desk.request("GET", "/today")).startswith("/signin")
    assert went(desk.sign_in()) == "/today"
    desk.page("/today")
    other = Desk(site, "anna")
    went(other.sign_in())
    response = desk.send("/settings", "/password", old=PASSWORD, new="short")
    assert response.status_code == 422
    assert desk.send("/settings", "/password", old="wrong", new="a longer password").status_code == 422
    went(desk.send("/settings", "/password", old=PASSWORD, new="a longer password"))
    assert went(other.request("GET", "/today")).startswith("/signin")
    assert other.sign_in().status_code == 401
    went(other.sign_in("a longer password"))
    went(other.send("/today", "/signout"))
    assert went(other.request("GET", "/today")).startswith("/signin")
    for _ in range(lockouts.MOST_FAILURES):
        assert desk.sign_in("wrong").status_code == 401
    assert desk.sign_in("a longer password").status_code == 401  # locked
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + lockouts.LOCKED)
    went(desk.sign_in("a longer password"))


def test_sessions_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour without use, after a working day, and when someone is revoked; a form sent then does nothing."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    fields = anna.form(anna.page("/today"), "/today/take", decision=decision)
    real, begin = clock.now, clock.now()
    for minutes in range(30, 690, 30):  # in use
        monkeypatch.setattr(clock, "now", lambda minutes=minutes: begin + minutes * clock.MINUTE)
        anna.page("/settings")
    monkeypatch.setattr(clock, "now", lambda: begin + sessions.LONGEST)
    assert went(anna.request("GET", "/settings")).startswith("/signin")
    monkeypatch.setattr(clock, "now", real)
    went(anna.sign_in())
    monkeypatch.setattr(clock, "now", lambda: real() + sessions.IDLE)
    gone = anna.request("POST", "/today/take", fields)
    assert gone.status_code == 401
    assert "was not recorded" in gone.text
    monkeypatch.setattr(clock, "now", real)
    went(anna.sign_in())
    people.revoke_person(site.service.database, "anna")
    assert went(anna.request("GET", "/settings")).startswith("/signin")


def test_guesses_at_the_same_time_are_counted(site: Site) -> None:
    """Twelve at once: the name is locked, as if they had come one after another."""
    from concurrent.futures import ThreadPoolExecutor

    database = site.service.database
    people.add_person(database, "anna", "staff", PASSWORD)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: people.sign_in(database, "anna", "wrong guess here"), range(12)))
    assert people.sign_in(database, "anna", PASSWORD) is None


def test_a_page_that_is_left_open_does_not_keep_the_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its script asks for goes on only as long as somebody is there."""
    anna = desks(site, anna="staff")["anna"]
    begin = clock.now()
    for minutes in range(10, 60, 10):
        monkeypatch.setattr(clock, "now", lambda minutes=minutes: begin + minutes * clock.MINUTE)
        anna.page("/today/list")
    monkeypatch.setattr(clock, "now", lambda: begin + sessions.IDLE + clock.MINUTE)
    assert went(anna.request("GET", "/today/list")).startswith("/signin")


def test_two_windows_to_sign_in(site: Site) -> None:
    """The first one still works after the second was opened; a proxy that speaks HTTPS for us does not disturb."""
    desk = Desk(site, "anna", "staff")
    first = desk.request("GET", "/signin")
    (token,) = re.findall(r'name="token" value="([^"]*)"', first.text)
    desk.request("GET", "/signin")
    fields = {"name": "anna", "password": PASSWORD, "token": token, "next": "//elsewhere.example/today"}
    assert went(desk.request("POST", "/signin", fields, Origin="https://testserver.local")) == "/today"


def test_a_link_signs_in_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a password, for some minutes; in rehearsals alone, as nobody is asked for a second factor."""
    database = site.service.database
    real = Desk(site, "ben", "staff").request("GET", f"/signin?link={sessions.make_link(database, 'ben')}")
    assert "opportune_session" not in real.cookies
    monkeypatch.setattr(site.service, "_rehearsal", True)
    desk = Desk(site, "anna", "staff")
    link = sessions.make_link(database, "anna")
    assert went(desk.request("GET", f"/signin?link={link}")) == "/today"
    desk.page("/today")
    again = Desk(site, "anna")
    assert again.request("GET", f"/signin?link={link}").status_code == 401
    late = sessions.make_link(database, "anna")
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + sessions.LINK)
    assert again.request("GET", f"/signin?link={late}").status_code == 401


def test_a_call_is_made(site: Site) -> None:
    """Take it, reach the participant, ask the study's question, read out the advice; all of it on record, once."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    page = anna.page("/today")
    assert "P001" in page
    assert "No contact yet" in page
    assert "New York" in page
    assert "(Berlin)" in page
    went(anna.send("/today", "/today/take", decision=decision))
    page = anna.page("/today")
    assert "How is your mood?" in page
    assert "Rather low" in page
    fields = anna.form(
        page, "/today/outcome", decision=decision, outcome="reached", note="Fine today.", **{"q.mood": "1"}
    )
    where = went(anna.request("POST", "/today/outcome", fields))
    assert went(anna.request("POST", "/today/outcome", fields)) == where  # sent twice, carried out once
    row = good(site.get(f"decisions/{decision}"))
    assert (row["outcome"], row["reported"]) == ("answered", {"mood": "low"})
    shown = anna.page(where.partition("#")[0])
    assert "Tell P001" in shown
    label = {"walk": "Go for a short walk", "breathe": "Breathe slowly for five minutes", "rest": "Take a rest"}
    assert label[row["action"]] in shown
    assert "Nobody needs a call right now." in shown
    assert "reached; advised" in shown
    kinds = [item["event"]["kind"] for item in good(site.get("events"))["items"]]
    kinds = [kind for kind in kinds if kind != "account"]
    assert kinds == ["launched", "enrolled", "proposed", "settled", "noted"]
    assert verify(site.service.database).findings == []


def test_the_current_advice_is_what_the_phone_shows(site: Site) -> None:
    """Where actions are drawn, the one that stands may be another than the recommender intended."""
    call(site)
    anna = desks(site, anna="staff")["anna"]
    with site.service.database.writing.begin() as connection:
        connection.execute(tables.decisions.update().values(action="walk", stale_action="rest"))
    assert "Current advice: Go for a short walk" in anna.page("/today")


def test_two_people_do_not_call_the_same_person(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes an entry has it, until it is given back or some time has passed."""
    decision = call(site)
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    same = bert.form(bert.page("/today"), "/today/take", decision=decision)
    went(anna.send("/today", "/today/take", decision=decision))
    refused = bert.request("POST", "/today/take", same)
    assert refused.status_code == 409
    assert "Someone else has taken this call" in refused.text
    once = bert.form(bert.page("/today"), "/signout")
    for outcome in ("again", "declined", "unreachable"):
        fields = {"form": once["form"], "once": f"x{outcome}", "decision": decision, "outcome": outcome}
        assert bert.request("POST", "/today/outcome", fields).status_code == 409
    went(anna.send("/today", "/today/release", decision=decision))
    went(bert.send("/today", "/today/take", decision=decision))
    assert "bert is calling" in anna.page("/today")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + calls.TAKEN)
    went(anna.send("/today", "/today/take", decision=decision))
    monkeypatch.setattr(clock, "now", real)
    assert good(site.get(f"decisions/{decision}"))["status"] == "nudge"


def test_not_reached_and_declined(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try is counted and can be undone; that someone declined goes on record a minute later, unless undone."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    for tries in (1, 2):
        went(anna.send("/today", "/today/take", decision=decision))
        where = went(anna.send("/today", "/today/outcome", decision=decision, outcome="again"))
        assert f"tried {tries} time" in anna.page("/today")
    said = anna.page(where.partition("#")[0])
    went(anna.request("POST", "/today/undo", anna.form(said, "/today/undo", decision=decision, what="again")))
    assert "tried 1 time," in anna.page("/today")
    went(anna.send("/today", "/today/outcome", decision=decision, outcome="declined"))
    page = anna.page("/today")
    assert "Nobody needs a call right now." in page
    site.service.look_after()
    assert good(site.get(f"decisions/{decision}"))["status"] == "nudge"  # can still be undone
    went(anna.request("POST", "/today/undo", anna.form(page, "/today/undo", decision=decision)))
    assert "To call: 1" in anna.page("/today")
    went(anna.send("/today", "/today/outcome", decision=decision, outcome="unreachable"))
    page = anna.page("/today")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + calls.UNDO)
    site.service.look_after()
    row = good(site.get(f"decisions/{decision}"))
    assert (row["status"], row["outcome"]) == ("settled", "unanswered")
    late = anna.request("POST", "/today/undo", anna.form(page, "/today/undo", decision=decision))
    assert late.status_code == 409
    settled = [item["event"] for item in good(site.get("events"))["items"] if item["event"]["kind"] == "settled"]
    assert [(event["who"], event["given"]["cause"]) for event in settled] == [("anna", "unreachable")]
    assert verify(site.service.database).findings == []


def test_what_was_said_on_the_telephone_is_not_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that took longer than its entry was kept: a colleague has it by then, and the answers count still."""
    decision = call(site)
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    went(anna.send("/today", "/today/take", decision=decision))
    fields = anna.form(anna.page("/today"), "/today/outcome", decision=decision, outcome="reached", **{"q.mood": "1"})
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + calls.TAKEN)
    went(bert.send("/today", "/today/take", decision=decision))
    went(anna.request("POST", "/today/outcome", fields))
    assert good(site.get(f"decisions/{decision}"))["reported"] == {"mood": "low"}


def test_an_outcome_that_waits_is_left_alone(site: Site) -> None:
    """Nobody takes, tries or ends a call that someone has just ended; only whoever said so takes it back."""
    decision = call(site)
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    theirs = bert.form(bert.page("/today"), "/today/take", decision=decision)
    went(anna.send("/today", "/today/take", decision=decision))
    went(anna.send("/today", "/today/outcome", decision=decision, outcome="declined"))
    assert bert.request("POST", "/today/take", theirs).status_code == 409
    for outcome in ("again", "unreachable"):
        fields = {**theirs, "once": f"x{outcome}", "outcome": outcome}
        assert bert.request("POST", "/today/outcome", fields).status_code == 409
    assert bert.request("POST", "/today/undo", theirs).status_code == 409
    good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "withdrawn", "reason": "declined"}))
    settled = [item["event"] for item in good(site.get("events"))["items"] if item["event"]["kind"] == "settled"]
    assert [(event["who"], event["given"]["cause"]) for event in settled] == [("anna", "declined")]
    page = anna.page("/today")
    assert "declined" in page
    fields = {"form": anna.form(page, "/signout")["form"], "decision": decision}
    assert anna.request("POST", "/today/undo", fields).status_code == 409
    late = {**fields, "once": "late", "outcome": "reached", "q.mood": "0"}
    refused = anna.request("POST", "/today/outcome", late)
    assert refused.status_code == 409  # whoever has left tells us nothing more
    assert verify(site.service.database).findings == []


def test_a_try_is_undone_by_whoever_made_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a minute, and once; the time of the try before is shown again."""
    decision = call(site)
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    went(anna.send("/today", "/today/take", decision=decision))
    went(anna.send("/today", "/today/outcome", decision=decision, outcome="again"))
    undoing = {"decision": decision, "what": "again"}
    form = {name: desk.form(desk.page("/today"), "/signout")["form"] for name, desk in found.items()}
    assert bert.request("POST", "/today/undo", {**undoing, "form": form["bert"], "once": "b"}).status_code == 409
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + 2 * calls.UNDO)
    assert anna.request("POST", "/today/undo", {**undoing, "form": form["anna"], "once": "a"}).status_code == 409
    monkeypatch.setattr(clock, "now", real)
    went(anna.request("POST", "/today/undo", {**undoing, "form": form["anna"], "once": "c"}))
    assert anna.request("POST", "/today/undo", {**undoing, "form": form["anna"], "once": "d"}).status_code == 409
    with site.service.database.reading.connect() as connection:
        row = connection.execute(tables.calls.select()).mappings().one()
    assert (row["tries"], row["tried"]) == (0, None)


def test_a_pause_ends_the_call(site: Site) -> None:
    """Who is paused is not called."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    went(anna.send("/participants/0/paused", "/participants/0/status", reason="in hospital"))
    assert "Nobody needs a call right now." in anna.page("/today")
    assert good(site.get(f"decisions/{decision}"))["outcome"] == "unanswered"


def test_what_is_held_survives_a_restart(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome that waits for its minute is in the database: another process brings it on record."""
    with site_on(database, policy="always") as site:
        decision = call(site)
        anna = desks(site, anna="staff")["anna"]
        went(anna.send("/today", "/today/take", decision=decision))
        went(anna.send("/today", "/today/outcome", decision=decision, outcome="declined"))
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + calls.UNDO)
    from litestar.testing import TestClient

    from opportune.service.api.app import create_app
    from opportune.service.service import Service

    service = Service(database)
    with TestClient(create_app(service)):
        service.look_after()
    with database.reading.connect() as connection:
        row = connection.execute(tables.decisions.select()).mappings().one()
    assert (row["status"], row["outcome"]) == ("settled", "unanswered")


def test_a_call_that_is_no_longer_needed(site: Site) -> None:
    """The participant opens the app: the list says so, and a form that was open already does nothing."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    went(anna.send("/today", "/today/take", decision=decision))
    fields = anna.form(anna.page("/today"), "/today/outcome", decision=decision, outcome="declined")
    good(site.post(f"decisions/{decision}/answer", {"answered": False, "opened": True}))
    assert "opened the app, so no call was needed" in anna.page("/today")
    refused = anna.request("POST", "/today/outcome", fields)
    assert refused.status_code == 409
    assert "no longer needed" in refused.text


def test_reached_after_the_window(site: Site) -> None:
    """What is learned in a call that came too late counts from the next decision on, and the page says so."""
    decision = call(site)
    anna = desks(site, anna="staff")["anna"]
    went(anna.send("/today", "/today/take", decision=decision))
    fields = anna.form(anna.page("/today"), "/today/outcome", decision=decision, outcome="reached", **{"q.mood": "0"})
    site.decide("P001")  # the next decision point settles the nudge before
    where = went(anna.request("POST", "/today/outcome", fields))
    assert "after the window had closed" in anna.page(where.partition("#")[0])
    assert good(site.get(f"decisions/{decision}"))["late"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"outcome": "reached", "q.mood": "7"}, 422),
        ({"outcome": "reached", "q.mood": "x"}, 422),
        ({"outcome": "perhaps"}, 422),
        ({"outcome": ""}, 422),
        ({"outcome": "reached", "note": "a" * 2001}, 422),
        ({"outcome": "reached", "note": "\x00"}, 422),
        ({"outcome": "reached", "once": ""}, 422),
        ({"outcome": "reached", "decision": "d999"}, 404),
        ({"outcome": "reached", "decision": "'; DROP"}, 404),
    ],
)
def test_bad_forms(sqlite: Database, fields: dict[str, str], status: int) -> None:
    """A form that is refused is shown again with what was wrong; nothing is stored."""
    with site_on(sqlite, policy="always") as site:
        decision = call(site)
        anna = desks(site, anna="staff")["anna"]
        went(anna.send("/today", "/today/take", decision=decision))
        note = {"note": "half a sentence"}
        sent = anna.form(anna.page("/today"), "/today/outcome", decision=decision) | note | fields
        before = good(site.get("study"))["events"]
        refused = anna.request("POST", "/today/outcome", sent)
        assert refused.status_code == status, refused.text
        assert ("<h1>Not done</h1>" in refused.text) == (status == 404)
        assert ('role="alert" id="refused"' in refused.text) == (status == 422)
        assert ("half a sentence" in refused.text) == (status == 422 and "note" not in fields)
        assert good(site.get("study"))["events"] == before


def test_all_questions_or_none() -> None:
    """Two reported variables: both answers, none, but not one of them; the page says so in the reader's language."""
    from litestar.datastructures import FormMultiDict

    from opportune.service.pages.forms import Form, Wrong
    from opportune.service.pages.questions import questions, reported_of
    from opportune.service.pages.refusals import said
    from opportune.service.state.study import StudyInForce

    levels = '[variables.sleep]\nlevels = ["good", "poor"]\nvisibility = '
    asked = questions(StudyInForce.from_text(study_text().replace(f'{levels}"sensed"', f'{levels}"reported"')))
    german = texts.texts("de")

    def read(**fields: str) -> dict[str, Any]:
        return reported_of(asked, Form(FormMultiDict({f"q.{name}": value for name, value in fields.items()})), german)

    assert read(mood="1", sleep="0") == {"mood": "low", "sleep": "good"}
    assert read() == {}
    with pytest.raises(Wrong) as refused:
        read(mood="1")
    assert refused.value.field == "q.sleep"
    assert "Beantworten Sie alle Fragen oder keine." in said(german, refused.value)


def test_participants(site: Site) -> None:
    """Enrol, search, pause, resume, note, correct, withdraw: each with its place on record."""
    found = desks(site, anna="staff", cora="analyst")
    anna, cora = found["anna"], found["cora"]
    where = went(anna.send("/participants", "/participants/enrol", participant="P-one", timezone="Asia/Tokyo"))
    assert where == "/participants/0?done=enrolled"
    assert anna.send("/participants", "/participants/enrol", participant="P-one").status_code == 409
    assert anna.send("/participants", "/participants/enrol", participant="Anna Maria").status_code == 422
    assert anna.send("/participants", "/participants/enrol", participant="P2", timezone="Moon").status_code == 422
    site.enrol("P-two")
    page = anna.send("/participants", "/participants", search="TWO", status="", sort="participant").text
    assert "P-two" in page
    assert "P-one" not in page
    made = site.decide("P-one")
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}))
    good(site.post(f"decisions/{made['decision']}/reward", {"reward": 0.25}))
    went(
        anna.send("/participants/0", "/participants/0/reward", decision=made["decision"], reward="0,75", reason="typo")
    )
    page = anna.page("/participants/0")
    assert "0.75 points (corrected)" in page
    assert "was 0.25" in page
    for wrong in ("1,200", "1_000", "nan", "inf", "1e5", "0x10", ""):
        fields = {"decision": made["decision"], "reward": wrong, "reason": "typo"}
        assert anna.send("/participants/0", "/participants/0/reward", **fields).status_code == 422, wrong
    went(anna.send("/participants/0", "/participants/0/note", text="one more"))
    went(anna.send("/participants/0", "/participants/0/note", text="<b>Prefers</b> evenings"))
    assert anna.page("/participants/0").count('class="noted"') == 2
    assert "&lt;b&gt;Prefers&lt;/b&gt; evenings" in anna.page("/participants/0")
    assert anna.send("/participants/0/paused", "/participants/0/status", reason="").status_code == 422
    went(anna.send("/participants/0/paused", "/participants/0/status", reason="holiday"))
    assert good(site.get("participants/P-one"))["status"] == "paused"
    went(anna.send("/participants/0/active", "/participants/0/status"))
    assert anna.send("/participants/0/withdrawn", "/participants/0/status", reason="moved").status_code == 422
    went(anna.send("/participants/0/withdrawn", "/participants/0/status", reason="moved", sure="yes"))
    assert good(site.get("participants/P-one"))["status"] == "withdrawn"
    assert anna.send("/participants/0/active", "/participants/0/status").status_code == 409
    seen = cora.page("/participants/0")
    assert "<svg" in seen
    assert "Save the note" not in seen
    assert ">Withdraw<" not in seen
    assert verify(site.service.database).findings == []


def test_no_name_stands_in_an_address(site: Site) -> None:
    """Addresses reach logs, histories and other sites; they carry numbers."""
    decision = call(site, "P-SECRET")
    anna = desks(site, anna="staff", ada="admin")
    for path in ("/today", "/participants", "/participants/0", "/study", "/record"):
        for desk in anna.values():
            for target in re.findall(r'(?:href|action)="([^"]*)"', desk.page(path)):
                assert "SECRET" not in target
    assert decision in anna["anna"].page("/today")


def test_a_number_that_nobody_can_have_is_not_found(site: Site) -> None:
    """However many digits it has."""
    call(site, "P1")
    anna = desks(site, anna="staff")["anna"]
    for digits in (10, 23, 300):
        assert anna.request("GET", f"/participants/{'9' * digits}").status_code == 404
    assert anna.request("GET", f"/participants?page={'9' * 23}").status_code == 400


def test_an_address_that_is_not_there(site: Site) -> None:
    """People get a page that says so; programs a problem."""
    found = Desk(site, "nobody").request("GET", "/nowhere")
    assert found.status_code == 404
    assert "Page not found." in found.text
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert found.headers["cache-control"] == "no-store"
    form = desks(site, anna="staff")["anna"].request("GET", "/today/outcome")  # the address of a form that was refused
    assert form.status_code == 405
    assert "Page not found." in form.text
    assert site.client.get("/nowhere").json()["code"] == "not_found"
    assert Desk(site, "nobody").request("GET", "/api/v1/nowhere").json()["code"] == "not_found"


def test_plain_words(site: Site) -> None:
    """Numbers of the algorithm stand only where statisticians look."""
    call(site)
    boss = desks(site, boss="admin")["boss"]
    for path in ("/today", "/participants/0", "/study"):
        page = boss.page(path)
        folded = re.sub(
            r"<details[^>]*><summary>For the statistician</summary>.*?</details>", "", page, flags=re.DOTALL
        )
        assert folded != page, path
        text = re.sub(r"<[^>]*>", " ", folded).lower()
        for word in ("gap", "price", "regret", "coin", "probability"):
            assert not re.search(rf"\b{word}\b", text), (path, word)


def test_a_moment_that_was_past_is_not_said_to_matter_less(sqlite: Database) -> None:
    """What a phone showed offline: nobody could have called; of points that nobody asked about no values are shown."""
    midnight = clock.from_datetime(clock.local(clock.now(), "UTC").replace(hour=0, minute=0, second=0, microsecond=0))
    enrolled, evening = midnight - 20 * clock.HOUR, midnight - 6 * clock.HOUR  # yesterday
    given = {"sensed": {"time_of_day": "evening", "stress": 3, "sleep": "poor"}, "shown": "walk"}
    launch(Writer(sqlite), study_text(times=True, policy="always"))
    writer = Writer(sqlite)
    writer.do(Enrol(who="staff", received=enrolled, participant="P001", timezone="UTC"))
    answer_of(writer.do(Propose(who="app", received=midnight, at=evening, participant="P001", given=given)))
    with site_on(sqlite, times=True, policy="always") as site:
        page = desks(site, anna="staff")["anna"].page("/participants/0")
    assert "No call: this moment had passed before the service learned of it." in page
    assert "moments to come may matter more" not in page
    assert "No decision was made here" in page, "the control: nobody asked about the morning"
    assert page.count("evening") == 1


def test_the_study_and_the_record(site: Site) -> None:
    """Pictures with words, alerts with what to do, search, downloads, one button to verify."""
    for name in ("P001", "P002"):
        decision = call(site, name)
        good(site.post(f"decisions/{decision}/answer", {"answered": True, "reported": {"mood": "low"}}))
        good(site.post(f"decisions/{decision}/reward", {"reward": 0.25}))
    site.service.alerts.raise_alert("yellow", "silent", "P001", "A participant has asked for no decision for long.")
    found = desks(site, cora="analyst", anna="staff")
    cora = found["cora"]
    page = cora.page("/study")
    assert page.count("<svg") == 3
    assert page.count("<figcaption") == 3
    assert "Ask the participant whether the app works" in page
    page = cora.send("/record", "/record", kind="enrolled", participant="P002").text
    assert "P002" in page
    assert page.count("<tr>") == 2
    assert re.search(r"The record is intact: \d+ events, 2 decisions", cora.send("/record", "/record/verify").text)
    table = cora.request("GET", "/exports/decisions.csv")
    assert table.text.startswith("\ufeffparticipant,") or table.text.startswith("participant,")
    assert "attachment" in table.headers["content-disposition"]
    assert cora.request("GET", "/exports/secrets.csv").status_code == 404
    with site.service.database.writing.begin() as connection:
        connection.execute(tables.decisions.update().values(action="rest", stale_action="rest"))
    assert "does not verify" in cora.send("/record", "/record/verify").text
    for number in range(120):
        site.service.alerts.raise_alert("yellow", "silent", f"X{number}", "Nobody has heard of them.")
    assert 'class="count red">1<' in cora.page("/study")
    assert "The record does not verify." in cora.page("/study")


@pytest.mark.parametrize(("policy", "priced"), [("PACE", False), ("PD2", True)])
def test_the_price_is_shown_where_there_is_one(sqlite: Database, policy: str, priced: bool) -> None:
    """Rules that compare a gap with a price show the latest; others have none, and do not show 0."""
    with site_on(sqlite, policy=policy) as site:
        site.enrol()
        site.decide("P001")
        page = desks(site, cora="analyst")["cora"].page("/study")
        assert f"events on record: {good(site.get('study'))['events']}." in page
    assert ("Price at the latest decision" in page) == priced


def test_large_numbers_are_grouped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many results there are is written like every other number on the page."""
    worked_out = study_page._worked_out

    def many(view: Any) -> Any:
        found, health, backup = worked_out(view)
        return found, {**dict.fromkeys(health, 1), "learned": 12_345}, backup

    call(site)
    cora = desks(site, cora="analyst")["cora"]
    monkeypatch.setattr(study_page, "_worked_out", many)
    page = cora.page("/study")
    assert "12,345 results received." in page
    assert "1 result is awaited" in page


def test_accounts(site: Site) -> None:
    """An invitation or key is shown once, also if the form is sent twice; revoked is revoked."""
    ada = desks(site, ada="admin")["ada"]
    fields = ada.form(ada.page("/accounts"), "/accounts", what="add_person", name="bert", role="staff")
    page = ada.request("POST", "/accounts", fields).text
    (address,) = re.findall(r"<code>([^<]+)</code>", page)
    assert address in ada.request("POST", "/accounts", fields).text  # a double click
    assert address not in ada.page("/accounts")
    bert = Desk(site, "bert")
    path = address.removeprefix("http://testserver.local")
    went(bert.send(path, "/invitation", password=PASSWORD))
    went(bert.sign_in(PASSWORD))
    fields = ada.form(ada.page("/accounts"), "/accounts", what="add_key", name="app two", role="app")
    (key,) = re.findall(r"<code>([^<]+)</code>", ada.request("POST", "/accounts", fields).text)
    site.keys["app"] = key
    assert site.get("study", "app").status_code == 200
    fields = ada.form(ada.page("/accounts"), "/accounts", what="invite", name="bert")
    (new,) = re.findall(r"<code>([^<]+)</code>", ada.request("POST", "/accounts", fields).text)
    assert bert.sign_in(PASSWORD).status_code == 401
    went(bert.send(new.removeprefix("http://testserver.local"), "/invitation", password="another long password"))
    fields = ada.form(ada.page("/accounts"), "/accounts", what="revoke_person", name="bert")
    ada.request("POST", "/accounts", fields)
    assert went(bert.request("GET", "/today")).startswith("/signin")
    for wrong in (
        {"what": "revoke_person", "name": "ada"}, {"what": "add_person", "name": "x", "role": "king"},
        {"what": "add_person", "name": "bert", "role": "staff"}, {"what": "explode", "name": "x"},
    ):  # fmt: skip
        fields = ada.form(ada.page("/accounts"), "/accounts", **wrong)
        assert ada.request("POST", "/accounts", fields).status_code == 422, wrong


def test_german(site: Site) -> None:
    """The language of the browser, or the one that was chosen."""
    call(site)
    anna = desks(site, anna="staff")["anna"]
    assert "Ich rufe an" in anna.request("GET", "/today", **{"Accept-Language": "de-AT,de;q=0.9"}).text
    went(anna.send("/settings", "/settings", language="de", timezone="Europe/Vienna"))
    page = anna.page("/today")
    assert '<html lang="de">' in page
    assert "Noch kein Kontakt" in page
    assert "(Vienna)" in page
    assert anna.send("/settings", "/settings", language="xx", timezone="").status_code == 422
    assert anna.send("/settings", "/settings", language="de", timezone="Moon").status_code == 422


def test_catalogues_are_complete() -> None:
    """Every text of the sources stands in the template and, translated and with the same names, in each catalogue."""
    import io

    from babel.messages.pofile import read_po

    from opportune.service.pages import catalogue

    found = catalogue.gathered()
    assert catalogue.TEMPLATE.read_text(encoding="utf-8") == catalogue.written(found)
    wanted = {message.id for message in found if message.id}
    assert len(wanted) > 200
    for file in texts.FOLDER.glob("*.po"):
        translated = read_po(io.StringIO(file.read_text(encoding="utf-8")), locale=file.stem)
        assert {message.id for message in translated if message.id} == wanted, file.stem
        for message in translated:
            strings = message.string if isinstance(message.string, tuple) else (message.string,)
            ids = message.id if isinstance(message.id, tuple) else (message.id,)
            for text in map(str, strings):
                assert text, (file.stem, message.id)
                names = set(re.findall(r"%\(\w+\)s", text))
                assert message.id == "" or names == set(re.findall(r"%\(\w+\)s", str(ids[-1]))), (file.stem, message.id)


def test_a_site_adds_its_language(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue in a folder of its own is enough; one that cannot be read says so."""
    from opportune.errors import InputError

    (tmp_path / "it.po").write_text(
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "Today"\nmsgstr "Oggi"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv(texts.VARIABLE, str(tmp_path))
    texts.languages.cache_clear()
    texts.texts.cache_clear()
    try:
        assert texts.languages()["it"] == "Italiano"
        assert texts.texts("it").gettext("Today") == "Oggi"
        assert texts.texts("it").gettext("Study") == "Study"
        assert texts.preferred("it-CH,en;q=0.5") == "it"
        (tmp_path / "xx1.po").write_text("nonsense", encoding="utf-8")
        texts.languages.cache_clear()
        with pytest.raises(InputError, match=r"xx1\.po"):
            texts.languages()
    finally:
        texts.languages.cache_clear()
        texts.texts.cache_clear()


@pytest.mark.slow
def test_a_long_list_is_there_at_once(sqlite: Database) -> None:
    """2,000 participants and 500 open calls: Today takes less than 300 ms of a processor."""
    import time

    from opportune.service.commands.base import Command
    from opportune.service.commands.decisions import Answer, Propose
    from opportune.service.commands.participants import Enrol

    with site_on(sqlite, policy="always", planned=2000) as site:
        writer, now = site.service.writer, clock.now()
        names = [f"P{number:04d}" for number in range(2000)]
        writer.write([Enrol(who="s", received=now, participant=name) for name in names])
        for step in range(8):
            sensed = {"time_of_day": "morning", "stress": step % 3, "sleep": "good" if step < 7 else "poor"}
            at = now - (8 - step) * clock.MINUTE
            asked: list[Command] = [
                Propose(who="a", received=at, participant=name, given={"sensed": sensed}) for name in names[:500]
            ]
            made = [reply for reply in writer.write(asked) if not isinstance(reply, Exception)]
            assert len(made) == 500
            if step < 7:
                decisions = re.findall(r'"decision":"(d\d+)"', b"".join(reply.body for reply in made).decode())
                writer.write([Answer(who="s", received=at, decision=one, answered=True) for one in decisions])
        anna = desks(site, anna="staff")["anna"]
        assert "To call: 500" in anna.page("/today")
        taken = []
        for _ in range(5):
            began = time.process_time()  # whatever else runs on the machine
            page = anna.page("/today")
            taken.append(time.process_time() - began)
        assert page.count("In this study calls follow a plan") == 500
        assert min(taken) < 0.3, taken


def test_days_are_those_of_the_clock(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions at half past midnight, before and after the clock changes: each on its own day."""
    import dataclasses
    from types import SimpleNamespace

    from course import launch

    from opportune.service.commands.decisions import Propose
    from opportune.service.commands.participants import Enrol
    from opportune.service.pages.course import course
    from opportune.service.record.queries import study_row
    from opportune.service.record.writer import Writer
    from opportune.service.state.study import StudyInForce

    begin = clock.from_iso("2026-10-20T22:30:00Z")  # half past midnight in Berlin, until 25 October
    monkeypatch.setattr(clock, "now", lambda: begin)
    writer = Writer(sqlite)
    launch(writer, study_text(policy="always"), begin)
    writer.do(Enrol(who="s", received=begin, participant="P1"))
    hours = [24 * day + (1 if day >= 5 else 0) for day in range(10)]  # an hour later by UTC from then on
    for hour in hours:
        at = begin + hour * clock.HOUR
        writer.do(Propose(who="a", received=at, participant="P1", given={"sensed": SENSED}))
    row = study_row(sqlite)
    assert row is not None
    running = StudyInForce.from_text(row["file"])
    view: Any = SimpleNamespace(
        running=dataclasses.replace(running, timezone="Europe/Berlin"), service=SimpleNamespace(database=sqlite),
        study=row, now=begin + hours[-1] * clock.HOUR,
    )  # fmt: skip
    assert course(view).nudges == [1] * 10
    view.running = dataclasses.replace(running, timezone="Etc/GMT-1")  # the control: a clock that is never changed
    assert course(view).nudges == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1]


def test_analysts_see_no_names_of_people(site: Site) -> None:
    """On pages, over HTTP and in exports people are a role and a number; staff see who it was."""
    people = desks(site, anna="staff", berta="staff", cora="analyst")
    decision = call(site)
    went(people["berta"].send("/today", "/today/take", decision=decision))
    went(people["berta"].send("/today", "/today/outcome", decision=decision, outcome="again"))
    cora, anna = people["cora"], people["anna"]
    for page in ("/record", "/participants/0"):
        assert "berta" in anna.page(page)
        assert "berta" not in cora.page(page)
        assert "staff 3" in cora.page(page), "after a key of that role and anna"
    found = cora.send("/record", "/record", who="staff 3").text
    assert found.count("<td>staff 3</td>") == 1
    assert "<td>staff 3</td>" not in cora.send("/record", "/record", who="berta").text
    assert "berta" in site.get("events").text
    assert "berta" not in site.get("events", "analyst").text
    exported = site.get("exports/events.csv", "analyst").text
    assert "berta" not in exported
    assert "staff 3" in exported
    assert "app one" in exported, "an app is not a person"


def test_analysts_find_no_names_of_people(site: Site) -> None:
    """A search for text finds what an analyst is shown; for staff also who it was, whole or letter by letter."""
    people = desks(site, berta="staff", cora="analyst")
    decision = call(site)
    went(people["berta"].send("/today", "/today/take", decision=decision))
    went(people["berta"].send("/today", "/today/outcome", decision=decision, outcome="again"))

    def found(who: str, text: str) -> int:
        page: str = people[who].send("/record", "/record", text=text).text
        return page.count('<td class="num">')

    for text in ("berta", "BERTA", "bert", '"who":"b', '"who":"berta","rec', "%erta"):
        assert found("cora", text) == 0, text
    assert found("berta", "bert") == 2, "the control: it is on record, as an account and as who called"
    for text in ("morning", '"stress":', "P001", "proposed", "New_York"):
        assert found("cora", text) == found("berta", text) > 0, text
    for text in ('"who":"b', '","happened":"'):  # what is stored but not shown is not found
        assert found("cora", text) == found("berta", text) == 0, text
    assert found("berta", decision) >= found("cora", decision) > 0, "a hash may look like it"


@pytest.mark.parametrize("unblinded", [False, True])
def test_staff_do_not_see_by_what_decisions_are_made(sqlite: Database, unblinded: bool) -> None:
    """Probabilities, prices and coins stand on no page and in no answer for staff whom the study file does not name."""
    extra = 'unblinded = ["anna", "staff one"]\n' if unblinded else ""
    with site_on(sqlite, policy="PACE", budget=190, horizon=200, extra=extra) as site:
        anna = desks(site, anna="staff")["anna"]
        site.enrol("P001")
        decision = next(made["decision"] for _ in range(30) if (made := site.decide())["status"] == "nudge")
        pages = [anna.page(path) for path in ("/today", "/participants/0")]
        said = {"answered": False}
        answers = [
            site.get("calls").json()["items"][0],
            site.get(f"decisions/{decision}").json(),
            site.post(f"decisions/{decision}/answer", said, "staff").json(),
            site.get("participants/P001/decisions").json()["items"][-1],
        ]
        tossed = site.get("events", "analyst").json()["items"][-2]["event"]["answer"]["coin"]
        number = f"{tossed:.6f}"[:6]
        found = anna.send("/record", "/record", text=number).text
        pages.append(anna.page("/record"))
        recorded = site.get("events").json()["items"][-2]["event"]["answer"]
        for_analysts = site.get("events", "analyst").json()["items"][-2]["event"]["answer"]
    assert "coin" in for_analysts, "the control"
    assert ("coin" in recorded) == unblinded
    assert [(found["probability"] is not None, found["why"] is not None) for found in answers] == [
        (unblinded, unblinded)
    ] * 4
    assert bool(re.search(r"[0-9a-f]{64}", found)) == unblinded, "what cannot be seen cannot be searched for"
    assert bool(re.search(r"\bcoin\b", pages.pop())) == unblinded
    for page in pages:
        assert ("For the statistician" in page) == unblinded
        assert bool(re.search(r"\bcoin\b", page)) == unblinded
