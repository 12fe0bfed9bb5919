"""A participant's token reads and writes one participant: a lost phone gives away one, and that can be revoked."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from desk import desks
from site_over_http import SENSED, Site, good, problem, site_on

from opportune.client import Client, ServiceError
from opportune.service.accounts import tokens
from opportune.service.accounts.keys import PHONE
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.state import clock
from opportune.service.verify.check import verify


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """Two participants, each with a phone."""
    with site_on(sqlite, policy="always") as found:
        for name in ("P001", "P002"):
            found.enrol(name)
            found.keys[name] = good(found.post(f"participants/{name}/tokens", None, "staff"), 201)["token"]
        yield found


def reachable(site: Site) -> set[tuple[str, str]]:
    """Every address of the API that takes a participant's token, by method."""
    return {
        (method, route.path)
        for route in site.client.app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if PHONE in handler.opt.get("roles", ())
    }


def test_a_token_does_what_its_participant_does(site: Site, sqlite: Database) -> None:
    """Decisions, answers, rewards, the bundle; the record has the pseudonym for who did it."""
    made = good(site.post("participants/P001/decisions", {"sensed": SENSED}, "P001"), 201)
    decision = made["decision"]
    good(site.post(f"decisions/{decision}/answer", {"answered": True, "reported": {"mood": "low"}}, "P001"))
    good(site.post(f"decisions/{decision}/reward", {"reward": 0.5}, "P001"))
    assert good(site.get("participants/P001", "P001"))["participant"] == "P001"
    assert good(site.get(f"decisions/{decision}", "P001"))["reward"] == 0.5
    assert "version" in good(site.get("participants/P001/bundle", "P001"))
    assert json.loads(event_rows(sqlite, limit=100)[-1]["body"])["who"] == "participant P001"
    assert verify(sqlite).holds


def test_a_token_reaches_nobody_else(site: Site) -> None:
    """Whatever takes a token refuses it for another participant as if that did not exist; all else refuses it."""
    made = good(site.post("participants/P002/decisions", {"sensed": SENSED}, "P002"), 201)
    bodies: dict[str, Any] = {
        "decisions": {"sensed": SENSED}, "answer": {"answered": True}, "reward": {"reward": 0.1}, "openings": {},
    }  # fmt: skip
    tried = set()
    for method, path in reachable(site):
        if "{" not in path:
            continue
        address = path.replace("{participant:str}", "P002").replace("{decision:str}", made["decision"])
        body = bodies[path.rpartition("/")[2]] if method == "POST" else None
        problem(site.request(method, address, "P001", body), 404, "not_found")
        own = address.replace("P002", "P001")
        if "participant" in path:
            assert site.request(method, own, "P001", body).status_code in {200, 201}, "a control"
        tried.add((method, path))
    assert len(tried) == 8
    for path in ("participants", "participants/P001/decisions", "calls", "events", "exports/decisions.csv"):
        problem(site.get(path, "P001"), 403, "forbidden")
    batch = [{"participant": "P002", "key": "k", "sensed": SENSED}]
    problem(site.post("decisions", batch, "P001"), 403, "forbidden")
    problem(site.post("participants/P001/tokens", None, "P001"), 403, "forbidden")
    problem(site.post("participants", {"participant": "P003"}, "P001"), 403, "forbidden")
    study = good(site.get("study", "P001"))
    assert set(study) == {"study", "status", "hash", "actions", "rehearsal", "now", "role"}


def test_nobody_but_staff_corrects(site: Site) -> None:
    """Neither a phone nor an app's server changes what is on record."""
    made = good(site.post("participants/P001/decisions", {"sensed": SENSED}, "P001"), 201)
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": False}, "P001"))
    path, correction = f"decisions/{made['decision']}/reward", {"reward": 0.9, "corrects": True, "reason": "better"}
    good(site.post(path, {"reward": 0.1}, "P001"))
    for who in ("P001", "app"):
        problem(site.post(path, correction, who), 403, "forbidden")
    assert good(site.post(path, correction, "staff"))["reward"] == 0.9


def test_tokens_run_out_and_are_renewed(site: Site, sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour; the refresh token is good for nothing else, and no other token renews."""
    issued = good(site.post("participants/P001/tokens", None, "app"), 201)
    site.keys |= {"refresh": issued["refresh"], "access": issued["token"]}
    problem(site.get("participants/P001", "refresh"), 401, "unauthenticated")
    for wrong in (issued["token"], site.keys["app"], "opr_forged"):
        problem(site.client.post("/api/v1/tokens", json={"refresh": wrong}), 401, "unauthenticated")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + tokens.LASTS + 1)
    site.service.keys._known.clear()
    problem(site.get("participants/P001", "access"), 401, "unauthenticated")
    renewed = good(site.client.post("/api/v1/tokens", json={"refresh": issued["refresh"]}), 201)
    site.keys["access"] = renewed["token"]
    assert good(site.get("participants/P001", "access"))["participant"] == "P001"
    stored = [row["body"] for row in event_rows(sqlite, limit=100)]
    assert not [body for body in stored if issued["refresh"] in body or issued["token"] in body]


def test_a_lost_phone_is_shut_out(site: Site, sqlite: Database) -> None:
    """All tokens of its participant are revoked, on record; those of others are not."""
    issued = good(site.post("participants/P001/tokens", None, "app"), 201)
    revoked = good(site.request("DELETE", "/api/v1/participants/P001/tokens", "staff"))
    assert revoked == {"participant": "P001", "phones": 2}
    site.service.keys._known.clear()
    site.keys["lost"] = issued["token"]
    problem(site.get("participants/P001", "lost"), 401, "unauthenticated")
    problem(site.client.post("/api/v1/tokens", json={"refresh": issued["refresh"]}), 401, "unauthenticated")
    assert good(site.get("participants/P002", "P002"))["participant"] == "P002"
    event = json.loads(event_rows(sqlite, limit=100)[-1]["body"])
    assert (event["who"], event["given"]["what"]) == ("staff one", "tokens revoked")
    assert event["given"]["account"] == "participant P001"
    problem(site.request("DELETE", "/api/v1/participants/nobody/tokens", "staff"), 404, "not_found")


def test_guessing_refresh_tokens_is_slowed(site: Site) -> None:
    """As wrong keys are."""
    for _ in range(101):
        found = site.client.post("/api/v1/tokens", json={"refresh": "opr_forged"})
    assert found.status_code == 429


def test_the_client_renews_by_itself(site: Site) -> None:
    """A phone has its refresh token and nothing else; once that is revoked it is told so."""
    refresh = good(site.post("participants/P001/tokens", None, "app"), 201)["refresh"]
    asked: list[str] = []

    def forward(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        given = {name: value for name, value in request.headers.items() if name != "host"}
        found = site.client.request(
            request.method, request.url.raw_path.decode(), content=request.content, headers=given
        )
        return httpx.Response(found.status_code, content=found.content, headers={"content-type": "application/json"})

    with Client("http://service.example/of/this", refresh, attempts=1) as phone:
        auth = phone._http.auth
        phone._http = httpx.Client(
            base_url="http://service.example/api/v1/", auth=auth, transport=httpx.MockTransport(forward)
        )
        assert phone.decide("P001", SENSED).participant == "P001"
        assert phone.get("participants/P001")["step"] == 1
        assert asked.count("/api/v1/tokens") == 1, "kept as long as it is good"
        assert phone.content()["study"] == phone.get("study")["study"]
        assert phone.bundle("P001")["now"]["step"] == 1
        event = next(phone.events("P001"))
        assert (event["kind"], event["decision"]["step"]) == ("decision", 1)
        open_call = phone.decide("P001", SENSED).decision
        following = phone.events("P001", after=event["id"])
        assert [next(following)["kind"] for _ in range(2)] == ["advice", "decision"]
        phone.answer(open_call, answered=True, reported={"mood": "low"})
        assert next(following)["decision"]["revealed"]
        phone._http.auth._token = "opt_expired"  # type: ignore[union-attr]
        assert phone.get("participants/P001")["step"] == 2
        good(site.request("DELETE", "/api/v1/participants/P001/tokens", "staff"))
        site.service.keys._known.clear()
        with pytest.raises(ServiceError, match="unauthenticated"):
            phone.get("participants/P001")


def test_staff_connect_a_phone_on_its_page(site: Site, sqlite: Database) -> None:
    """The token is shown once, works for this participant, and is of no use after all were disconnected."""
    anna = desks(site, anna="staff")["anna"]
    page = anna.send("/participants/0/phones", "/participants/0/phones", what="issue").text
    (refresh,) = re.findall(r"<code>(opr_[^<]+)</code>", page)
    assert "2 phones are connected." in page
    assert refresh not in anna.page("/participants/0/phones")
    site.keys["new"] = good(site.client.post("/api/v1/tokens", json={"refresh": refresh}), 201)["token"]
    assert good(site.get("participants/P001", "new"))["participant"] == "P001"
    assert (
        "0 phones are connected." in anna.send("/participants/0/phones", "/participants/0/phones", what="revoke").text
    )
    problem(site.client.post("/api/v1/tokens", json={"refresh": refresh}), 401, "unauthenticated")
    told = [json.loads(row["body"]) for row in event_rows(sqlite, limit=100)][-2:]
    assert [(event["who"], event["given"]["what"]) for event in told] == [
        ("anna", "token issued"), ("anna", "tokens revoked"),
    ]  # fmt: skip
