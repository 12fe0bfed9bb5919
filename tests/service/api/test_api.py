"""The HTTP API: what each address answers, who may use it, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from site_over_http import SENSED, Site, good, pages_of, problem, site_on

from opportune.service.accounts.keys import ROLES, add_key, revoke_key
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.verify.check import verify

BEFORE = 2 + len(ROLES)
"""Events once the study is launched, with a key for each role, and somebody is enrolled."""
FIRST = f"d{BEFORE + 1}"
"""The first decision's id then."""


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A service with the example study."""
    with site_on(sqlite) as found:
        yield found


def nudge(site: Site, name: str = "P001") -> dict[str, Any]:
    """Decide until there is a nudge."""
    for _ in range(60):
        made = site.decide(name)
        if made["status"] == "nudge":
            return made
        site.post(f"decisions/{made['decision']}/reward", {"reward": 0.1})
    raise AssertionError("no nudge in 60 decisions")


def test_a_course_over_http(site: Site, sqlite: Database) -> None:
    """Enrol, decide, answer, reward, correct, note, pause, withdraw: each as the documentation says."""
    enrolled = site.enrol(timezone="Europe/Berlin")
    assert (enrolled["status"], enrolled["number"], enrolled["timezone"]) == ("active", 0, "Europe/Berlin")
    made = nudge(site)
    assert made["nudge"]
    assert made["expires"] is not None
    calls = good(site.get("calls"))["items"]
    assert [call["decision"] for call in calls] == [made["decision"]]
    settled = good(
        site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff")
    )
    assert (settled["status"], settled["outcome"], settled["revealed"]) == ("settled", "answered", True)
    assert good(site.get("calls"))["items"] == []
    path = f"decisions/{made['decision']}/reward"
    assert good(site.post(path, {"reward": 0.7}))["learned"]
    assert good(site.post(path, {"reward": 0.7}))["changes"] == 0
    problem(site.post(path, {"reward": 0.8}), 409, "reward_differs")
    problem(site.post(path, {"reward": 0.8, "corrects": True}, "staff"), 409, "reward_differs")
    corrected = good(site.post(path, {"reward": 0.8, "corrects": True, "reason": "typing error"}, "staff"))
    assert (corrected["reward"], corrected["changes"]) == (0.8, 1)
    shown = good(site.get(f"decisions/{made['decision']}"))
    assert shown["reported"] == {"mood": "low"}
    good(site.post("participants/P001/notes", {"text": "prefers mornings"}, "staff"), 201)
    person = "/api/v1/participants/P001"
    good(site.request("PATCH", person, "staff", {"status": "paused", "reason": "holiday"}))
    paused = site.decide()
    assert "paused: holiday" in paused["why"]
    good(site.request("PATCH", person, "staff", {"status": "active"}))
    good(site.request("PATCH", person, "staff", {"status": "withdrawn", "reason": "moved"}))
    problem(site.post("participants/P001/decisions", {"sensed": SENSED}), 409, "not_active")
    problem(site.request("PATCH", person, "staff", {"status": "active"}), 409, "not_active")
    assert good(site.get("participants/P001"))["status"] == "withdrawn"
    assert verify(sqlite).findings == []


def test_a_nudge_that_the_next_decision_finds_open_is_unanswered(site: Site) -> None:
    """It is settled so; an answer after that counts as an opening at the decision after."""
    site.enrol()
    made = nudge(site)
    site.decide()
    assert good(site.get(f"decisions/{made['decision']}"))["outcome"] == "unanswered"
    late = good(
        site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff")
    )
    assert late["late"]
    assert late["outcome"] == "unanswered"
    assert site.decide()["outcome"] == "opened"
    again = site.post(f"decisions/{made['decision']}/answer", {"answered": True}, "staff")
    problem(again, 409, "settled_already")


def test_a_retry_gets_the_same_bytes(site: Site) -> None:
    """The same key and body: the stored answer. Another body: 409. The same key of another caller: not the same."""
    site.enrol()
    first = site.post("participants/P001/decisions", {"sensed": SENSED}, key="once")
    again = site.post("participants/P001/decisions", {"sensed": SENSED}, key="once")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    problem(
        site.post("participants/P001/decisions", {"sensed": {**SENSED, "stress": 1}}, key="once"), 409, "key_reused"
    )
    problem(site.post(f"decisions/{FIRST}/reward", {"reward": 0.5}, key="once"), 409, "key_reused")
    other = add_key(site.service.database, "another app", "app")
    headers = {"Authorization": f"Bearer {other}", "Idempotency-Key": "once"}
    another = site.client.post("/api/v1/participants/P001/decisions", json={"sensed": SENSED}, headers=headers)
    assert good(another, 201)["step"] == 2


def test_what_was_refused_can_be_sent_again_with_its_key(site: Site) -> None:
    """Nothing of it was stored, so the key is still free."""
    problem(site.post("participants/P001/decisions", {"sensed": SENSED}, key="early"), 404, "not_found")
    site.enrol()
    assert good(site.post("participants/P001/decisions", {"sensed": SENSED}, key="early"), 201)["step"] == 1


def test_a_batch_is_answered_in_order(site: Site) -> None:
    """Each item has its own key and status; one that fails does not stop the others, nor is it called a success."""
    for name in ("P1", "P2", "P3"):
        site.enrol(name)
    items = [{"participant": name, "key": f"night-{name}", "sensed": SENSED} for name in ("P3", "P1", "P2")]
    found = good(site.post("decisions", items), 201)
    assert [item["answer"]["participant"] for item in found] == ["P3", "P1", "P2"]
    assert good(site.post("decisions", items), 201) == found
    mixed = [*items, {"participant": "P9", "key": "night-P9", "sensed": SENSED}]
    answered = good(site.post("decisions", mixed), 207)
    assert [item["status"] for item in answered] == [201, 201, 201, 404]
    assert answered[3]["answer"]["code"] == "not_found"
    single = site.post("participants/P3/decisions", {"sensed": SENSED}, key="night-P3")
    assert good(single, 201) == found[0]["answer"], "an item's key is good for a single request, too"
    problem(site.post("decisions", [items[0], items[0]]), 422, "invalid")


def test_pages(site: Site) -> None:
    """Lists come in pages; `next` leads through all of them, once each."""
    for number in range(7):
        site.enrol(f"P{number}")
    for path, size in (("participants", 7), ("events", BEFORE + 6)):
        found: list[Any] = []
        after = ""
        while True:
            page = good(site.get(f"{path}?limit=3{after}"))
            found += page["items"]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert len(found) == size
        assert len({str(item) for item in found}) == size
    problem(site.get("events?after=x"), 422, "invalid")
    problem(site.get("events?limit=0"), 400, "malformed")


def test_a_bundle(site: Site) -> None:
    """What a phone can show until the next reveal; asking for it stores nothing."""
    site.enrol()
    site.decide()
    before = good(site.get("study"))["events"]
    bundle = good(site.get("participants/P001/bundle", "app"))
    assert bundle["after_step"] == 1
    assert {stratum["values"]["time_of_day"] for stratum in bundle["strata"]} == {"morning", "evening"}
    assert (bundle["now"]["step"], bundle["points"], bundle["until"]) == (1, [], None), "no decision times"
    assert good(site.get("study"))["events"] == before


def test_what_was_shown_offline_stands(site: Site) -> None:
    """What the phone showed is the step's action, marked as such."""
    site.enrol()
    wanted = "rest" if site.decide()["action"] != "rest" else "walk"
    assert site.decide(shown=wanted)["action"] == wanted


BAD: list[tuple[str, Any, int, str]] = [
    ("text where a number belongs", {"sensed": {**SENSED, "stress": "high"}}, 422, "invalid"),
    ("a level that is none", {"sensed": {**SENSED, "stress": 9}}, 422, "invalid"),
    ("an unknown variable", {"sensed": {**SENSED, "weather": 1}}, 422, "invalid"),
    ("a reported variable as sensed", {"sensed": {**SENSED, "mood": "low"}}, 422, "invalid"),
    ("no body", None, 400, "malformed"),
    ("a list", [], 400, "malformed"),
    ("an unknown field", {"sensed": SENSED, "sensd": 1}, 400, "malformed"),
    ("a value that is a list", {"sensed": {**SENSED, "stress": [1]}}, 400, "malformed"),
    ("yes for a number", {"sensed": {**SENSED, "stress": True}}, 400, "malformed"),
    ("a time without a zone", {"sensed": SENSED, "at": "2026-03-29T09:00:00"}, 400, "malformed"),
    ("a time in the far past", {"sensed": SENSED, "at": "1926-03-29T09:00:00Z"}, 422, "invalid"),
    ("a time in the far future", {"sensed": SENSED, "at": "9999-12-31T23:59:59Z"}, 422, "invalid"),
    ("a time before the first year", {"sensed": SENSED, "at": "0001-01-01T00:00:00+14:00"}, 422, "invalid"),
    ("a time after the last year", {"sensed": SENSED, "at": "9999-12-31T23:59:59-14:00"}, 422, "invalid"),
    ("a huge number", {"sensed": {**SENSED, "stress": 10**300}}, 422, "invalid"),
    ("a control character", {"sensed": SENSED, "available": False, "reason": "a\u0000b"}, 400, "malformed"),
    ("a reason without need", {"sensed": SENSED, "reason": "driving"}, 422, "invalid"),
    ("an unknown action", {"sensed": SENSED, "shown": "dance"}, 422, "invalid"),
]


@pytest.mark.parametrize(("what", "body", "status", "code"), BAD, ids=[bad[0] for bad in BAD])
def test_bad_bodies(site: Site, what: str, body: Any, status: int, code: str) -> None:
    """Whatever is wrong is named, and nothing is stored."""
    site.enrol()
    problem(site.post("participants/P001/decisions", body), status, code)
    assert good(site.get("study"))["events"] == BEFORE


RAW = {
    "NaN": b'{"sensed": {"stress": NaN}}',
    "infinity": b'{"sensed": {"stress": 1e999}}',
    "deep": b'{"sensed": ' + b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "not UTF-8": b'{"sensed": {"sleep": "\xff\xfe"}}',
    "a lone surrogate": b'{"sensed": {"sleep": "\\ud800"}}',
    "cut": b'{"sensed": {"stress": 1',
    "nothing": b"",
}


@pytest.mark.parametrize("what", RAW)
def test_bodies_that_are_no_json(site: Site, what: str) -> None:
    """Refused as such, and nothing is stored."""
    site.enrol()
    headers = {**site.headers("app"), "Content-Type": "application/json"}
    response = site.client.post("/api/v1/participants/P001/decisions", content=RAW[what], headers=headers)
    problem(response, 400, "malformed")
    assert good(site.get("study"))["events"] == BEFORE


def test_a_body_of_ten_megabytes(site: Site) -> None:
    """Refused before it is read."""
    site.enrol()
    headers = {**site.headers("app"), "Content-Type": "application/json"}
    body = b'{"sensed": {"sleep": "' + b"x" * 10_000_000 + b'"}}'
    problem(site.client.post("/api/v1/participants/P001/decisions", content=body, headers=headers), 413, "too_large")


@pytest.mark.parametrize(
    "name", ["../study", "..%2fstudy", "%00", "P001%00", "a" * 300, "P 1", "'; DROP TABLE events;--", "é"]
)
def test_path_tricks(site: Site, name: str) -> None:
    """Names that cannot be are not found, whatever they try."""
    site.enrol()
    response = site.client.get(f"/api/v1/participants/{name}/bundle", headers=site.headers("app"))
    assert response.status_code in {404, 405}, response.text
    assert site.post("participants", {"participant": name}, "staff").status_code == 400
    assert good(site.get("study"))["events"] == BEFORE


def test_a_write_needs_an_idempotency_key(site: Site) -> None:
    """Without one a retry could not be told from a second request."""
    headers = {"Authorization": site.headers("staff")["Authorization"]}
    response = site.client.post("/api/v1/participants", json={"participant": "P1"}, headers=headers)
    problem(response, 400, "key_missing")


def test_a_revoked_key_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon after it was revoked: what was looked up is good for two seconds."""
    monkeypatch.setattr("opportune.service.accounts.keys.FRESH_SECONDS", 0.0)
    site.enrol()
    assert site.get("study", "app").status_code == 200
    revoke_key(site.service.database, "app one")
    problem(site.get("study", "app"), 401, "unauthenticated")
    assert site.get("study", "staff").status_code == 200


MAY = {
    ("POST", "/api/v1/participants"): {"staff", "admin"},
    ("GET", "/api/v1/participants"): {"staff", "analyst", "admin"},
    ("PATCH", "/api/v1/participants/{participant:str}"): {"staff", "admin"},
    ("GET", "/api/v1/participants/{participant:str}"): {"app", "staff", "analyst", "admin"},
    ("POST", "/api/v1/participants/{participant:str}/notes"): {"staff"},
    ("POST", "/api/v1/participants/{participant:str}/decisions"): {"app"},
    ("GET", "/api/v1/participants/{participant:str}/decisions"): {"staff", "analyst", "admin"},
    ("GET", "/api/v1/participants/{participant:str}/bundle"): {"app"},
    ("GET", "/api/v1/participants/{participant:str}/events"): {"app"},
    ("POST", "/api/v1/decisions"): {"app"},
    ("GET", "/api/v1/decisions/{decision:str}"): {"app", "staff", "analyst", "admin"},
    ("POST", "/api/v1/decisions/{decision:str}/answer"): {"app", "staff"},
    ("POST", "/api/v1/decisions/{decision:str}/reward"): {"app", "staff"},
    ("POST", "/api/v1/participants/{participant:str}/openings"): {"app"},
    ("GET", "/api/v1/calls"): {"staff", "admin"},
    ("GET", "/api/v1/study"): {"app", "staff", "analyst", "admin"},
    ("GET", "/api/v1/study/content"): {"app", "staff", "analyst", "admin"},
    ("GET", "/api/v1/events"): {"staff", "analyst", "admin"},
    ("GET", "/api/v1/exports/{name:str}"): {"analyst", "admin"},
    ("GET", "/metrics"): {"analyst", "admin"},
    ("POST", "/api/v1/participants/{participant:str}/tokens"): {"app", "staff", "admin"},
    ("DELETE", "/api/v1/participants/{participant:str}/tokens"): {"app", "staff", "admin"},
    ("POST", "/api/v1/participants/{participant:str}/corrections"): {"staff"},
    ("POST", "/api/v1/decisions/{decision:str}/corrections"): {"staff"},
    ("GET", "/api/v1/access"): {"admin"},
}
FOR_ALL = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/schema"),
    ("GET", "/schema/openapi.json"),
    ("GET", "/schema/{path:str}"),
    ("POST", "/api/v1/tokens"),
}


def addresses(app: Litestar) -> set[tuple[str, str]]:
    """Every method of every address that is for programs; test_pages.py has those for people."""
    return {
        (method, route.path_format if "{" not in route.path else route.path)
        for route in app.routes
        for method in getattr(route, "methods", ())
        if method not in {"OPTIONS", "HEAD"}
    } - set(pages_of(app))


def test_every_address_says_who_may_use_it(site: Site) -> None:
    """A new address must be put into the table above, and so be tested below."""
    assert addresses(site.client.app) == set(MAY) | FOR_ALL


def test_every_address_is_closed_to_others(site: Site) -> None:
    """No key, a wrong key: 401. A key of another role: 403. Nothing else, whatever is asked."""
    site.enrol()
    for (method, path), allowed in MAY.items():
        address = (
            path.replace("{participant:str}", "P001").replace("{decision:str}", "d2").replace("{name:str}", "x.csv")
        )
        problem(site.request(method, address, None, {}), 401, "unauthenticated")
        wrong = {**site.headers(None), "Authorization": "Bearer opp_wrong"}
        problem(site.client.request(method, address, headers=wrong), 401, "unauthenticated")
        basic = {**site.headers(None), "Authorization": f"Basic {site.keys['admin']}"}
        problem(site.client.request(method, address, headers=basic), 401, "unauthenticated")
        for role in ROLES:
            response = site.request(method, address, role, {} if method != "GET" else None)
            if role in allowed:
                assert response.status_code not in {401, 403}, (method, path, role)
            else:
                problem(response, 403, "forbidden")
    kind = tables.events.c.kind
    assert queries.count(site.service.database, tables.events, kind.not_in(["account", "opened"])) == 2, "but for these"


def test_watching(site: Site) -> None:
    """Liveness and readiness for everyone, metrics with a key, none of them with participants' names."""
    site.enrol("SECRET-1")
    site.decide("SECRET-1")
    assert site.client.get("/healthz").json() == {"status": "alive"}
    assert site.client.get("/readyz").json() == {"status": "ready"}
    text = site.client.get("/metrics", headers=site.headers("analyst")).text
    assert "opportune_decisions 1.0" in text
    assert 'operation="decide"' in text
    assert "SECRET" not in text


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("participants/P001/decisions", {"sensed": SENSED, "opened": "true"}, "opened: Expected `bool`, got `str`"),
        ("participants/P001/decisions", {"sensed": SENSED, "opened": 1}, "opened: Expected `bool`, got `int`"),
        ("participants/P001/decisions", {"sensed": SENSED, "available": "0"}, "available: Expected `bool`, got `str`"),
        ("participants/P001/decisions", {"sensed": "{}"}, "sensed: Expected `object`, got `str`"),
        ("participants/P001/decisions", {"sensed": SENSED, "reason": " \n"}, "reason: Expected `str` matching"),
        ("participants/P001/decisions", {"sensed": SENSED, "reason": "\u202ex"}, "reason: Expected `str` matching"),
        (f"decisions/{FIRST}/reward", {"reward": "0.7"}, "reward: Expected `float`, got `str`"),
        (f"decisions/{FIRST}/reward", {"reward": True}, "reward: Expected `float`, got `bool`"),
        (f"decisions/{FIRST}/reward", {"reward": 0.5, "corrects": 1}, "corrects: Expected `bool`, got `int`"),
        (f"decisions/{FIRST}/reward", [1], "body: Expected `object`, got `array`"),
        (f"decisions/{FIRST}/reward", {"reward": 0.5, "x" * 5000: 1}, "body: Object contains unknown field"),
        ("decisions", [{"participant": "P001", "key": "k", "sensed": SENSED, "opened": 1}], "[0].opened: Expected"),
    ],
)
def test_nothing_is_converted(site: Site, sqlite: Database, path: str, body: Any, said: str) -> None:
    """Text is no truth and no number, whole numbers are no truths; such a body is refused and nothing is stored."""
    site.enrol()
    site.decide()
    before = len(event_rows(sqlite, limit=100))
    detail = problem(site.post(path, body), 400, "malformed")
    assert detail.startswith(said), detail
    assert len(detail) <= 300
    assert len(event_rows(sqlite, limit=100)) == before
    assert good(site.post(f"decisions/{FIRST}/reward", {"reward": 1}))["reward"] == 1.0  # a whole number is a number


def nudged(site: Site, name: str = "P001") -> dict[str, Any]:
    """A decision that waits for an answer."""
    return next(made for _ in range(200) if (made := site.decide(name))["status"] == "nudge")


@pytest.mark.parametrize("revealed", [{"answered": True}, {"answered": False, "opened": True}])
def test_nothing_is_shown_offline_and_revealed(site: Site, revealed: dict[str, Any]) -> None:
    """Refused, and the nudge waits on."""
    site.enrol()
    made = nudged(site)
    path = f"decisions/{made['decision']}"
    problem(site.post(f"{path}/answer", {**revealed, "shown": "walk"}), 422, "invalid")
    assert good(site.get(path))["status"] == "nudge"


def test_an_opening_tells_of_earlier_steps_too(site: Site, sqlite: Database) -> None:
    """With the opening they are uncovered, that of an open nudge included; without one they are refused."""
    site.enrol()
    first = site.decide()["decision"]
    last = nudged(site)
    earlier = {"1": {"mood": "low"}, str(last["step"]): {"mood": "good"}}
    path = "participants/P001/decisions"
    for body, said in (
        ({"earlier": earlier}, "the app is not open"),
        ({"opened": True, "earlier": {"999": {"mood": "low"}}}, "expected the number of an earlier step"),
        ({"opened": True, "earlier": {"1": {"mood": "splendid"}}}, "'splendid'"),
    ):
        assert said in problem(site.post(path, {"sensed": SENSED, **body}), 422, "invalid")
    site.decide(opened=True, reported={"mood": "low"}, earlier=earlier)
    for decision, mood in ((first, "low"), (last["decision"], "good")):
        assert good(site.get(f"decisions/{decision}"))["reported"] == {"mood": mood}
    assert verify(sqlite).findings == []


def test_a_step_that_is_uncovered_cannot_be_told_again(site: Site) -> None:
    """An app that repeats an old report is told so; the answer can be sent without it."""
    site.enrol()
    step = site.decide(opened=True, reported={"mood": "low"})["step"]
    made = nudged(site)
    path = f"decisions/{made['decision']}/answer"
    told = {"answered": True, "reported": {"mood": "good"}}
    assert "not pending" in problem(site.post(path, {**told, "earlier": {str(step): {"mood": "low"}}}), 422, "invalid")
    assert good(site.post(path, told))["outcome"] == "answered"


def test_a_late_answer_counts_at_the_next_point_that_is_not_offline(site: Site, sqlite: Database) -> None:
    """What a phone showed while it was offline stands, and needs no fallback."""
    site.enrol()
    made = nudged(site)
    site.decide(available=False, reason="driving")
    assert good(site.post(f"decisions/{made['decision']}/answer", {"answered": True}))["late"]
    offline = site.decide(shown="walk")
    assert (offline["mode"], offline["action"], offline["revealed"]) == ("learned", "walk", False)
    assert site.decide()["outcome"] == "opened"
    assert verify(sqlite).findings == []


def test_a_late_answer_is_recorded_whatever_it_tells_besides(site: Site) -> None:
    """The app cannot know that the window has just ended; what takes a reveal is not used."""
    site.enrol()
    made = nudged(site)
    site.decide()
    told = {"answered": True, "reported": {"mood": "low"}, "earlier": {"1": {"mood": "low"}}}
    assert good(site.post(f"decisions/{made['decision']}/answer", told))["late"]


def test_names_end_where_they_seem_to(site: Site) -> None:
    """No line break after the last letter, which no address could name."""
    problem(site.post("participants", {"participant": "P001\n"}, "staff"), 400, "malformed")
    site.enrol()
    item = {"participant": "P001", "sensed": SENSED, "key": "one\n"}
    assert site.post("decisions", [item]).status_code in {400, 422}
    assert good(site.get("study"))["events"] == BEFORE


def test_what_was_reported_is_sealed_until_it_is_told(site: Site) -> None:
    """Not while the nudge waits, nor if nobody answers."""
    site.enrol()
    made = next(made for _ in range(200) if (made := site.decide(reported={"mood": "low"}))["status"] == "nudge")
    path = f"decisions/{made['decision']}"
    assert good(site.get(path))["reported"] is None
    good(site.post(f"{path}/answer", {"answered": False}))
    assert good(site.get(path))["reported"] is None
    other = nudged(site)
    good(site.post(f"decisions/{other['decision']}/answer", {"answered": True, "reported": {"mood": "good"}}))
    assert good(site.get(f"decisions/{other['decision']}"))["reported"] == {"mood": "good"}
    assert good(site.get(path))["reported"] == {"mood": "low"}, "that reveal has uncovered it"


def test_what_is_spent_in_all(site: Site) -> None:
    """Where everyone has a budget of their own, too."""
    for name in ("P001", "P002"):
        site.enrol(name)
        nudged(site, name)
    shown = good(site.get("study", "analyst"))
    assert shown["nudges"] == sum(good(site.get(f"participants/{name}"))["nudges"] for name in ("P001", "P002")) >= 2
    assert shown["spent"] > 0.0


def test_a_pause_may_have_another_reason(site: Site) -> None:
    """It is on record, and at the decisions that follow."""
    site.enrol()
    for reason in ("on holiday", "in hospital", "in hospital", None):
        good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "paused", "reason": reason}))
    assert good(site.get("participants/P001"))["reason"] == "in hospital"
    assert good(site.get("study"))["events"] == BEFORE + 2, "paused twice"
    assert "in hospital" in good(site.get(f"decisions/{site.decide()['decision']}"))["reason"]


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "", "Factory"])
def test_a_time_zone_is_a_place(site: Site, zone: str) -> None:
    """Not whatever this machine happens to be set to."""
    assert site.post("participants", {"participant": "P001", "timezone": zone}, "staff").status_code in {400, 422}


@pytest.mark.parametrize(
    "path", ["events?after={}", "participants/P001/decisions?after={}", "calls?after={}.d1", "events?limit={}"]
)
def test_numbers_of_many_digits_are_refused(site: Site, path: str) -> None:
    """They are no fault of the service."""
    site.enrol()
    for digits in (23, 150):
        assert site.get(path.format("9" * digits)).status_code in {400, 422}
