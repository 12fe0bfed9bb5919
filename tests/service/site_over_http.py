"""A service over HTTP, in this process, with a key for each role."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import httpx
from accounts_by_hand import key_by_hand
from litestar import Litestar
from litestar.testing import TestClient
from study_text import study_text

from opportune.service.accounts.keys import ROLES
from opportune.service.api.app import create_app
from opportune.service.record import secret
from opportune.service.record.database import Database
from opportune.service.record.queries import study_row
from opportune.service.server import launch
from opportune.service.service import Service
from opportune.service.state.study import StudyInForce

ALWAYS = {count: bytes(range(count)) for count in (16, 32)}
"""What is random at launch, so that tests meet the same coins every time."""
SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}


class Site:
    """Requests with a role's key, each with an idempotency key of its own unless one is given."""

    def __init__(self, client: Any, keys: dict[str, str], service: Service) -> None:
        self.client, self.keys, self.service = client, keys, service
        self._numbers = itertools.count()

    def headers(self, role: str | None, key: str | None = None) -> dict[str, str]:
        """What a request carries."""
        found = {"Idempotency-Key": key or f"key-{next(self._numbers)}"}
        return found if role is None else {**found, "Authorization": f"Bearer {self.keys[role]}"}

    def request(
        self, method: str, path: str, role: str | None, body: Any = None, key: str | None = None
    ) -> httpx.Response:
        """Any request."""
        content = {} if body is None else {"json": body}
        found: httpx.Response = self.client.request(method, path, headers=self.headers(role, key), **content)
        return found

    def get(self, path: str, role: str | None = "staff") -> httpx.Response:
        """Read."""
        return self.request("GET", f"/api/v1/{path}", role)

    def post(self, path: str, body: Any, role: str | None = "app", key: str | None = None) -> httpx.Response:
        """Write."""
        return self.request("POST", f"/api/v1/{path}", role, body, key)

    def enrol(self, name: str = "P001", **body: Any) -> dict[str, Any]:
        """Enrol someone."""
        found: dict[str, Any] = good(self.post("participants", {"participant": name, **body}, "staff"), 201)
        return found

    def decide(self, name: str = "P001", **body: Any) -> dict[str, Any]:
        """Ask for a decision."""
        found: dict[str, Any] = good(self.post(f"participants/{name}/decisions", {"sensed": SENSED, **body}), 201)
        return found


def good(response: httpx.Response, status: int = 200) -> Any:
    """What was answered, which must be so."""
    assert response.status_code == status, response.text
    return response.json()


def problem(response: httpx.Response, status: int, code: str) -> str:
    """The detail of a problem, which must be so."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "code", "detail"}
    assert (body["status"], body["code"]) == (status, code)
    detail: str = body["detail"]
    return detail


def pages_of(app: Litestar) -> dict[tuple[str, str], dict[str, Any]]:
    """Every method of every page, with the options of its handler."""
    return {
        (method, route.path): dict(handler.opt)
        for route in app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if not handler.include_in_schema and method not in {"OPTIONS", "HEAD"} and "/schema" not in route.path
    }


@contextlib.contextmanager
def site_on(database: Database, *, rehearsal: bool = False, text: str = "", **settings: Any) -> Iterator[Site]:
    """A service on a database, with the example study, or another."""
    database.migrate()
    known = study_row(database)  # a test may have launched it
    rehearsal = rehearsal or (known is not None and known["rehearsal"])
    with mock.patch.object(secret, "random_bytes", ALWAYS.__getitem__):
        launch(database, StudyInForce.from_text(text or study_text(**settings)), rehearsal=rehearsal)
    keys = {role: key_by_hand(database, f"{role} one", role) for role in ROLES}
    service = Service(database)
    with TestClient(create_app(service)) as client:
        yield Site(client, keys, service)
