"""The client refuses what cannot be sent, before anything is; and says so where something else answers."""

# mypy: disable-error-code="arg-type, call-arg, dict-item"
# Wrong types are what these tests are about.
import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from opportune.client import Client, ServiceError, Unreachable
from opportune.errors import InputError

DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


def client(answer: Callable[[httpx.Request], httpx.Response] | None = None, **settings: Any) -> Client:
    """A client of a service that answers so, or that must not be asked."""

    def unasked(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.method} {request.url} was sent")

    given = {"address": "http://localhost:9", "key": "opp_x", "attempts": 1, **settings}
    made = Client(**given)
    made._http = httpx.Client(
        base_url=made._http.base_url, headers=made._http.headers, transport=httpx.MockTransport(answer or unasked)
    )
    return made


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: client(address=None), "address is None; expected text"),
        (lambda: client(address="localhost"), "address is 'localhost'; expected one such as"),
        (lambda: client(address="ftp://x"), "expected one such as 'http://localhost:8000'"),
        (lambda: client(address="http://x y"), "expected one such as"),
        (lambda: client(key="a\nb"), "expected what 'opportune keys add' printed"),
        (lambda: client(key=None), "expected what 'opportune keys add' printed"),
        (lambda: client(attempts=0), "attempts is 0; expected a whole number from 1 to 100"),
        (lambda: client(timeout=-1), "timeout is -1; expected a finite number > 0"),
        (lambda: client().decide("P001", None), "sensed is None; expected {variable: value}"),
        (lambda: client().decide("P001", {"x": math.nan}), "cannot be made"),
        (lambda: client().decide("P001", {"x": object()}), "expected plain JSON values"),
        (lambda: client().decide("P001", {"x": DEEP}), "expected plain JSON values"),
        (lambda: client().decide("P001", {}, at="noon"), "at is 'noon'; expected a datetime"),
        (lambda: client().decide("P001", {}, opened="false"), "opened is 'false'; expected True or False"),
        (lambda: client().decide("P001", {}, available=1), "available is 1; expected True or False"),
        (lambda: client().decide("P001", {}, reported=[1]), "reported is [1]; expected {variable: value}"),
        (lambda: client().decide(None, {}), "name is None; expected text"),
        (lambda: client().decide("", {}), "name is ''; expected text"),
        (lambda: client().decide("P001", {}, key="\ud800"), "cannot be made"),
        (lambda: client().decide_all(3), "items is 3; expected a list of decision points"),
        (lambda: client().answer("d1", True, earlier=3), "earlier is 3; expected {step: {variable: value}}"),
        (lambda: client().answer("d1", True, earlier={1: 3}), "earlier is 3; expected {variable: value}"),
        (lambda: client().reward("d1", math.inf), "cannot be made"),
        (lambda: client().reward("d1", 0.5, corrects="no"), "corrects is 'no'; expected True or False"),
        (lambda: client().answer("d1", 1), "answered is 1; expected True or False"),
        (lambda: client().get(None), "path is None; expected text"),
        (lambda: list(client().pages("events", limit=0)), "limit is 0; expected a whole number from 1"),
    ],
)
def test_what_cannot_be_sent_is_refused(call: Callable[[], Any], said: str) -> None:
    """Nothing is sent, and one line says what was given and what was expected."""
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_names_are_no_addresses() -> None:
    """A name with slashes, dots or a question mark stays a name, and cannot lead elsewhere."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(404, json={"code": "not_found", "detail": "no such participant"})

    with pytest.raises(ServiceError, match="not_found: no such participant"):
        client(answer).note("../study?x=1", "hello")
    assert asked == [b"/api/v1/participants/..%2Fstudy%3Fx%3D1/notes"]


@pytest.mark.parametrize("text", ["<html>hello</html>", "[]", "3", "null", ""])
def test_something_else_answers(text: str) -> None:
    """An answer that is not the service's is no success."""
    there = client(lambda _: httpx.Response(200, text=text))
    with pytest.raises(ServiceError, match="this is not an answer of the service"):
        there.get("study")
    odd = client(lambda _: httpx.Response(200, json={"hello": 1}))
    with pytest.raises(ServiceError, match="this is not a decision"):
        odd.decide("P001", {})
    with pytest.raises(InputError, match="expected that of a list"):
        list(odd.pages("study"))


def test_what_is_right_is_sent_once_per_attempt() -> None:
    """The control: a request is built once, and sent again, the same, after no answer."""
    bodies = []

    def fail(request: httpx.Request) -> httpx.Response:
        bodies.append((request.content, request.headers["Idempotency-Key"]))
        raise httpx.ConnectError("refused")

    at = dt.datetime(2026, 3, 29, 9, tzinfo=dt.UTC)
    with pytest.raises(Unreachable, match="no answer after 2 attempts"):
        client(fail, attempts=2).decide("P001", {"stress": 3}, at=at)
    assert len(bodies) == 2
    assert len(set(bodies)) == 1
    assert b'"stress":3' in bodies[0][0].replace(b" ", b"")


def test_an_export_may_take_its_time() -> None:
    """All of it is made before the first of it is sent; other calls wait as long as they were told."""
    with Client("http://localhost:1", "key", timeout=3.0) as client:
        waits = [client._request("GET", "x", None, {}, None, slow=slow).extensions["timeout"] for slow in (False, True)]
    assert [wait["read"] for wait in waits] == [3.0, 600.0]
    assert [wait["connect"] for wait in waits] == [3.0, 3.0]
