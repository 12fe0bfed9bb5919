"""What happens to a participant reaches the app: by long poll or as a stream, on any server, and after a pause."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from servers import Parent, free_port, parent
from site_over_http import SENSED, Site, good, problem, site_on
from study_text import study_text

from opportune.service.accounts import tokens
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import add_key
from opportune.service.api.events import STILL_SECONDS
from opportune.service.commands.participants import Enrol
from opportune.service.monitoring.listeners import Listeners
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.server import launch
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

BY_HAND = Actor("ada", {"from": "here"})


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """Two participants with phones; whom the rule can nudge it nudges."""
    with site_on(sqlite, policy="always") as found:
        for name in ("P001", "P002"):
            found.enrol(name)
            found.keys[name] = good(found.post(f"participants/{name}/tokens", None, "app"), 201)["token"]
        yield found


def happened(site: Site, query: str = "", who: str = "P001") -> Any:
    return good(site.get(f"participants/P001/events{query}", who))


def test_each_thing_that_happens_is_told_once_and_in_order(site: Site) -> None:
    """A decision, the advice after the call, an opening, a pause, a move; nothing that is about others."""
    begin = happened(site)
    assert begin["items"] == []
    made = site.decide()
    site.decide("P002")
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff"))
    good(site.post("participants/P001/openings", {"reported": {"mood": "good"}}, "P001"), 201)
    good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "paused", "reason": "away"}))
    moved = {"timezone": "America/New_York", "reason": "moved"}
    good(site.post("participants/P001/corrections", moved, "staff"))
    found = happened(site, f"?after={begin['next']}")
    assert [item["kind"] for item in found["items"]] == ["decision", "advice", "opening", "status", "timezone"]
    assert {item["participant"] for item in found["items"]} == {"P001"}
    assert (found["items"][-1]["status"], found["items"][-1]["timezone"]) == ("paused", "America/New_York")
    advice = found["items"][1]["decision"]
    assert (advice["decision"], advice["outcome"], advice["revealed"]) == (made["decision"], "answered", True)
    assert found["next"] == found["items"][-1]["id"]
    again = happened(site, f"?after={found['items'][1]['id']}")
    assert again["items"] == found["items"][2:]
    assert happened(site, f"?after={found['next']}")["items"] == []


def test_it_begins_with_what_holds_now(site: Site) -> None:
    """Without a place to go on from: the latest decision. So it is after a backup that has less than was told."""
    made = site.decide()
    for query in ("", "?after=999999"):
        (item,) = happened(site, query)["items"]
        assert (item["kind"], item["decision"]["decision"]) == ("decision", made["decision"])
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": False}, "staff"))
    (item,) = happened(site)["items"]
    assert (item["kind"], item["decision"]["outcome"]) == ("advice", "unanswered")


def test_phones_do_not_see_by_what_a_decision_was_made(site: Site) -> None:
    """Neither in events nor in answers; the app's server, the control, does."""
    made = good(site.post("participants/P001/decisions", {"sensed": SENSED}, "P001"), 201)
    (seen,) = happened(site)["items"]
    (known,) = happened(site, who="app")["items"]
    for decision in (made, seen["decision"], good(site.get(f"decisions/{made['decision']}", "P001"))):
        assert [decision[name] for name in ("probability", "budget_left", "why")] == [None, None, None]
    assert known["decision"]["probability"] == 1.0


def test_a_long_poll_waits_until_something_happens(site: Site) -> None:
    """It is answered soon after, and not before; when nothing happens it is answered at its end."""
    begin = happened(site)["next"]
    asked = time.monotonic()
    assert happened(site, f"?after={begin}&wait=1")["items"] == []
    assert time.monotonic() - asked >= 1.0
    timer = threading.Timer(0.7, site.decide)
    timer.start()
    asked = time.monotonic()
    (item,) = happened(site, f"?after={begin}&wait=20")["items"]
    assert item["kind"] == "decision"
    assert 0.7 <= time.monotonic() - asked < 10.0
    timer.join()
    assert len(site.service.listeners) == 0, "nobody listens any more"


def test_only_the_participant_and_the_apps_server_listen(site: Site) -> None:
    """Another's phone is told that there is nobody; whatever is no place to go on from is refused."""
    problem(site.get("participants/P001/events", "P002"), 404, "not_found")
    problem(site.get("participants/P001/events", "staff"), 403, "forbidden")
    problem(site.get("participants/P009/events", "app"), 404, "not_found")
    problem(site.get("participants/P001/events?after=x", "P001"), 422, "invalid")
    problem(site.get("participants/P001/events?wait=61", "P001"), 400, "malformed")


class Trial:
    """Two servers on one database, and a participant's phone."""

    def __init__(self, url: str, servers: Parent, count: int) -> None:
        database = Database(url)
        database.migrate()
        launch(database, StudyInForce.from_text(study_text(policy="always", planned=500)))
        people = [Enrol(who="s", received=clock.now(), participant=f"P{i:03d}") for i in range(1, 401)]
        Writer(database).write(people)
        self.app = add_key(database, "app", "app")
        self.phone = tokens.issue(database, "P001", BY_HAND).access.token
        self.database, self.servers = database, servers
        self.ports = [free_port() for _ in range(count)]
        self.pids = [servers.start(url, port) for port in self.ports]

    def address(self, server: int, path: str) -> str:
        """Where something is, at one of the servers."""
        return f"http://127.0.0.1:{self.ports[server]}/api/v1/{path}"

    def write(self, server: int, path: str, body: Any) -> Any:
        """What the app's server sends."""
        headers = {"Authorization": f"Bearer {self.app}", "Idempotency-Key": f"{path}{time.monotonic_ns()}"}
        found = httpx.post(self.address(server, path), json=body, headers=headers, timeout=30)
        assert found.status_code < 300, found.text
        return found.json()

    def close(self) -> None:
        """End the servers."""
        for pid in self.pids:
            self.servers.kill(pid)
        self.database.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    with parent() as found:
        yield found


@contextlib.contextmanager
def trial_on(url: str, servers: Parent, count: int) -> Iterator[Trial]:
    found = Trial(url, servers, count)
    try:
        yield found
    finally:
        found.close()


class Stream:
    """A phone that listens, and goes on with the last id after whatever ended it."""

    def __init__(self, trial: Trial, server: int = 0, last: str | None = None) -> None:
        self.headers = {"Authorization": f"Bearer {trial.phone}", "Accept": "text/event-stream"}
        if last is not None:
            self.headers["Last-Event-ID"] = last
        self.address = trial.address(server, "participants/P001/events")

    def __enter__(self) -> "Stream":
        self._http = httpx.Client(timeout=STILL_SECONDS + 10)
        self._request = self._http.stream("GET", self.address, headers=self.headers)
        response = self._request.__enter__()
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.iter_lines()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(httpx.HTTPError):
            self._request.__exit__(None, None, None)
        self._http.close()

    def next(self) -> dict[str, str]:
        """The next event: its id, its kind, and its data."""
        found: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.partition(":")
            if name:
                found[name] = value.strip()
            elif "data" in found:
                return found
            elif not line:
                found = {}
        raise AssertionError("the stream has ended")


def test_a_stream_goes_on_at_another_server(new_postgres: str, servers: Parent) -> None:
    """A call that is answered at one server is told at another; when a server dies nothing is lost or told twice."""
    with trial_on(new_postgres, servers, 2) as trial:
        first = trial.write(0, "participants/P001/decisions", {"sensed": SENSED})
        with Stream(trial) as stream:
            event = stream.next()
            assert (event["event"], json.loads(event["data"])["decision"]["status"]) == ("decision", "nudge")
            trial.write(1, f"decisions/{first['decision']}/answer", {"answered": True, "reported": {"mood": "low"}})
            event = stream.next()
            told = json.loads(event["data"])
            assert (event["event"], told["id"], told["decision"]["revealed"]) == ("advice", event["id"], True)
            servers.kill(trial.pids[0])
        second = trial.write(1, "participants/P001/decisions", {"sensed": SENSED})
        trial.write(1, f"decisions/{second['decision']}/answer", {"answered": False})
        with Stream(trial, 1, last=event["id"]) as stream:
            kinds = [stream.next()["event"] for _ in range(2)]
            assert kinds == ["decision", "advice"]
            third = trial.write(1, "participants/P001/decisions", {"sensed": SENSED})
            assert json.loads(stream.next()["data"])["decision"]["decision"] == third["decision"], "and nothing twice"


def test_a_revoked_phone_hears_nothing_more(url: str, servers: Parent) -> None:
    """A stream that is open when its token is revoked ends before the next event; the control gets it."""
    with trial_on(url, servers, 1) as trial:
        first = trial.write(0, "participants/P001/decisions", {"sensed": SENSED})
        with Stream(trial) as stream:
            stream.next()
            trial.write(0, f"decisions/{first['decision']}/answer", {"answered": False})
            assert stream.next()["event"] == "advice", "the control"
            tokens.revoke(trial.database, "P001", BY_HAND)
            time.sleep(2.5)  # a key that was looked up is taken to be valid for two seconds
            trial.write(0, "participants/P001/decisions", {"sensed": SENSED})
            with pytest.raises(AssertionError, match="the stream has ended"):
                stream.next()


def threads_of(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        (line,) = [line for line in file if line.startswith("Threads:")]
    return int(line.split()[1])


def test_listeners_take_neither_threads_nor_connections(url: str, servers: Parent) -> None:
    """Four hundred phones listen, decisions are made as ever, and each is told of its own."""
    count = 400

    async def listen(trial: Trial) -> tuple[list[str], int]:
        limits = httpx.Limits(max_connections=count + 1)
        async with httpx.AsyncClient(limits=limits, timeout=120.0) as http:

            async def one(number: int) -> str:
                path = f"participants/P{number:03d}/events?after={begin}&wait=60"
                found = await http.get(trial.address(0, path), headers={"Authorization": f"Bearer {trial.app}"})
                (item,) = found.json()["items"]
                name: str = item["participant"]
                assert name == f"P{number:03d}"
                return name

            headers = {"Authorization": f"Bearer {trial.app}"}
            begin = (await http.get(trial.address(0, "participants/P001/events"), headers=headers)).json()["next"]
            waiting = [asyncio.create_task(one(number)) for number in range(1, count + 1)]
            await asyncio.sleep(4.0)
            threads = threads_of(trial.pids[0])
            items = [{"participant": f"P{i:03d}", "key": f"{i}", "sensed": SENSED} for i in range(1, count + 1)]
            made = await http.post(trial.address(0, "decisions"), json=items, headers=headers)
            assert made.status_code == 201
            return await asyncio.gather(*waiting), threads

    with trial_on(url, servers, 1) as trial:
        told, threads = asyncio.run(listen(trial))
    assert len(set(told)) == count
    assert threads < 100


def test_a_database_that_is_away_for_a_while_ends_nothing(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens is woken by what happens once the database is there again."""
    sqlite.migrate()
    launch(sqlite, StudyInForce.from_text(study_text()))
    looks = []
    read = Listeners._since

    def fail(self: Listeners, known: int | None) -> Any:
        looks.append(known)
        if len(looks) == 2:
            raise OSError("away")
        return read(self, known)

    monkeypatch.setattr(Listeners, "_since", fail)

    async def wait() -> None:
        listeners = Listeners(sqlite, lambda: False)
        with listeners.listening("P1") as woken:
            await asyncio.wait_for(woken.wait(), 5)  # the first look wakes everyone
            woken.clear()
            while len(looks) < 3:
                await asyncio.sleep(0.05)
            Writer(sqlite).do(Enrol(who="s", received=clock.now(), participant="P1"))
            await asyncio.wait_for(woken.wait(), 5)

    asyncio.run(wait())
