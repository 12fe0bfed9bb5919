"""A client of the service: each call takes effect once, however often the network fails.

Every write carries an idempotency key. A request without an answer, or whose answer asks for a retry, is sent again
with the same key, so that it happens only once.
"""

import datetime as dt
import random
import re
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from opportune import checks
from opportune.errors import InputError, OpportuneError

AGAIN = {429, 502, 503, 504}
"""Status codes after which the same request may be sent again."""
EXPORT_SECONDS = 600.0
"""The least time to wait for the first byte of an export, which the service completes before it sends anything."""


EVENT_SECONDS = 25
"""How long the service waits for an event before it answers that there is none."""
REFRESH = "opr_"
"""The prefix of the refresh token of a participant's phone."""


class _Fixed(httpx.Auth):
    """Adds a key to requests."""

    def __init__(self, key: str) -> None:
        self._header = f"Bearer {key}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the key to a request."""
        request.headers["Authorization"] = self._header
        yield request


class _Renewed(httpx.Auth):
    """Adds an access token to requests; gets a new one with the refresh token whenever none is valid."""

    requires_response_body = True

    def __init__(self, refresh: str) -> None:
        self._refresh, self._token = refresh, ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request; if it is rejected, try once more with a new one."""
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
            response = yield request
            if response.status_code != httpx.codes.UNAUTHORIZED:
                return
        found = yield httpx.Request("POST", _service(request.url).join("tokens"), json={"refresh": self._refresh})
        if found.status_code == httpx.codes.CREATED:
            self._token = _content(found, dict).get("token", "")
        request.headers["Authorization"] = f"Bearer {self._token or self._refresh}"
        yield request


def _service(address: httpx.URL) -> httpx.URL:
    """The common prefix of all addresses of a service."""
    before, _, _ = address.path.partition("/api/v1/")
    return address.copy_with(raw_path=f"{before}/api/v1/".encode())


class ServiceError(OpportuneError):
    """The service rejected a request: `status` is HTTP's, `code` does not change between versions."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.status, self.code, self.detail = status, code, detail


class Unreachable(OpportuneError):  # noqa: N818  (describes the service)
    """No answer arrived after all attempts; whether the request took effect is unknown."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision. With status "nudge", the action applies until the nudge is answered.

    Staff get None for `probability`, `budget_left` and `why`, unless the study file has them among `unblinded`.
    """

    decision: str
    participant: str
    step: int
    status: str
    nudge: bool
    action: str
    probability: float | None
    budget_left: float | None
    expires: str | None
    outcome: str | None
    revealed: bool
    why: str | None
    mode: str
    late: bool

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Decision":
        """The decision that an answer describes; fields of later versions are ignored."""
        try:
            return cls(**{name: answer[name] for name in cls.__slots__})
        except KeyError:
            raise ServiceError(200, "unknown", f"this is not a decision: {checks.brief(answer)}") from None


class Client:
    """Calls the service with one key.

    Args:
        address: the service's address, such as "http://localhost:8000".
        key: the key that `opportune keys add` printed; or the refresh token of a participant's phone, which can read
            and write only that participant's data: the client gets access tokens with it as they expire.
        attempts: how often to send a request before giving up.
        timeout: seconds to wait for an answer.

    """

    def __init__(self, address: str, key: str, *, attempts: int = 6, timeout: float = 10.0) -> None:
        self.attempts = checks.whole("attempts", attempts, least=1, most=100)
        address = checks.text("address", address)
        if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", address):
            raise InputError(f"address is {checks.brief(address)}; expected one such as 'http://localhost:8000'")
        if not isinstance(key, str) or not re.fullmatch(r"[\x21-\x7e]{1,200}", key):
            raise InputError("key is not valid; expected what 'opportune keys add' printed")
        timeout = checks.real("timeout", timeout, above=0.0)
        self.rehearsal_time: dt.datetime | None = None
        """The current time in a rehearsal."""
        self._http = httpx.Client(
            base_url=address.rstrip("/") + "/api/v1/",
            timeout=timeout,
            auth=_Renewed(key) if key.startswith(REFRESH) else _Fixed(key),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def enrol(
        self,
        participant: str,
        *,
        timezone: str | None = None,
        baseline: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Enrol a new participant, with the study's baseline questions."""
        given = {"timezone": timezone, "baseline": None if baseline is None else dict(baseline)}
        body = {"participant": participant, **{name: value for name, value in given.items() if value is not None}}
        return self.write("POST", "participants", body, key)

    def issue_token(self, participant: str) -> dict[str, Any]:
        """Tokens for a participant's phone, which keeps `refresh` and passes it to a `Client` in place of a key."""
        found: dict[str, Any] = _content(
            self._send("POST", f"participants/{_part(participant)}/tokens", None, {}), dict
        )
        return found

    def revoke_tokens(self, participant: str) -> dict[str, Any]:
        """Revoke all tokens of a participant."""
        found: dict[str, Any] = _content(
            self._send("DELETE", f"participants/{_part(participant)}/tokens", None, {}), dict
        )
        return found

    def set_status(
        self, participant: str, status: str, *, reason: str | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Pause, resume, withdraw or complete a participant."""
        return self.write("PATCH", f"participants/{_part(participant)}", {"status": status, "reason": reason}, key)

    def note(self, participant: str, text: str, *, key: str | None = None) -> dict[str, Any]:
        """Add a remark to the record."""
        return self.write("POST", f"participants/{_part(participant)}/notes", {"text": text}, key)

    def decide(
        self, participant: str, sensed: Mapping[str, Any], *, at: dt.datetime | None = None, opened: bool = False,
        reported: Mapping[str, Any] | None = None, earlier: Mapping[int, Mapping[str, Any]] | None = None,
        available: bool = True, reason: str | None = None, shown: str | None = None, key: str | None = None,
    ) -> Decision:  # fmt: skip
        """Decide whether to nudge now, and what to recommend in the meantime."""
        body = moment(
            sensed, at=at, opened=opened, reported=reported, earlier=earlier, available=available, reason=reason,
            shown=shown,
        )  # fmt: skip
        return Decision.of(self.write("POST", f"participants/{_part(participant)}/decisions", body, key))

    def decide_all(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Make many decisions in one request, answered in order; each item has "participant", "key" and "sensed"."""
        listed = checks.listed("items", items, "a list of decision points", most=1_000_000)
        found: list[dict[str, Any]] = _content(self._send("POST", "decisions", listed, {}), list)
        return found

    def answer(
        self,
        decision: str,
        answered: bool,
        *,
        reported: Mapping[str, Any] | None = None,
        opened: bool = False,
        earlier: Mapping[int, Mapping[str, Any]] | None = None,
        key: str | None = None,
    ) -> Decision:
        """Report the outcome of a nudge."""
        body: dict[str, Any] = {
            "answered": checks.yes_no("answered", answered), "opened": checks.yes_no("opened", opened),
        }  # fmt: skip
        body |= _told(reported, earlier)
        return Decision.of(self.write("POST", f"decisions/{_part(decision)}/answer", body, key))

    def open(
        self, participant: str, *, reported: Mapping[str, Any] | None = None, at: dt.datetime | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Report that the app was opened unasked; this settles an open nudge, or counts at the next decision."""
        body: dict[str, Any] = {}
        if reported is not None:
            body["reported"] = checks.mapping("reported", reported, "{variable: value}")
        if at is not None:
            body["at"] = _moment(at)
        return self.write("POST", f"participants/{_part(participant)}/openings", body, key)

    def reward(
        self, decision: str, reward: float, *, corrects: bool = False, reason: str | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Report the reward of a decision, or a correction of it."""
        body: dict[str, Any] = {"reward": reward}
        if checks.yes_no("corrects", corrects):
            body |= {"corrects": True, "reason": reason}
        return self.write("POST", f"decisions/{_part(decision)}/reward", body, key)

    def content(self) -> dict[str, Any]:
        """The study's texts and times for an app."""
        return self.get("study/content")

    def bundle(self, participant: str) -> dict[str, Any]:
        """Advice that a participant's phone can show offline, with the times when each piece applies."""
        return self.get(f"participants/{_part(participant)}/bundle")

    def events(self, participant: str, *, after: str | None = None) -> Iterator[dict[str, Any]]:
        """A participant's events as they happen, without end, beginning with the present state.

        To resume later, pass the "id" of the last event received as `after`.
        """
        path = f"participants/{_part(participant)}/events"
        usual = self._http.timeout.read
        wait = EVENT_SECONDS if usual is None else max(0, min(EVENT_SECONDS, int(usual) - 1))
        while True:
            found = self.get(path, wait=wait, **({} if after is None else {"after": after}))
            yield from found["items"]
            after = found["next"]

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Read an address below /api/v1/, such as "study" or "participants/P001"."""
        found: dict[str, Any] = _content(self._send("GET", path, None, {}, query), dict)
        return found

    def pages(self, path: str, *, limit: int = 500) -> Iterator[dict[str, Any]]:
        """All entries of a list, page by page, such as "participants", "events" or "calls"."""
        after: str | None = None
        checks.whole("limit", limit, least=1, most=10_000)
        while True:
            page = self.get(path, limit=limit, **({} if after is None else {"after": after}))
            if not {"items", "next"} <= set(page):
                raise InputError(f"path is {checks.brief(path)}; expected that of a list, such as 'participants'")
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def export(self, name: str) -> str:
        """An export, such as "decisions.csv"."""
        return self._send("GET", f"exports/{_part(name)}", None, {}, slow=True).text

    def write(self, method: str, path: str, body: Any, key: str | None = None) -> dict[str, Any]:
        """Send a write, with a new key unless one is given."""
        headers = {"Idempotency-Key": uuid.uuid4().hex if key is None else key}
        found: dict[str, Any] = _content(self._send(method, path, body, headers), dict)
        return found

    def _request(
        self, method: str, path: str, body: Any, headers: dict[str, str], query: Mapping[str, Any] | None, *, slow: bool
    ) -> httpx.Request:
        content: dict[str, Any] = {} if body is None else {"json": body}
        if slow:
            usual = self._http.timeout
            read = None if usual.read is None else max(usual.read, EXPORT_SECONDS)
            content["timeout"] = httpx.Timeout(connect=usual.connect, read=read, write=usual.write, pool=usual.pool)
        path = checks.text("path", path)
        try:
            return self._http.build_request(method, path, headers=headers, params=query, **content)
        except (httpx.InvalidURL, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split())[: checks.MOST_SHOWN]
            given = checks.brief(path if body is None else body)
            raise InputError(f"a request with {given} cannot be made ({reason}); expected plain JSON values") from None

    def _send(
        self, method: str, path: str, body: Any, headers: dict[str, str], query: Mapping[str, Any] | None = None, *,
        slow: bool = False,
    ) -> httpx.Response:  # fmt: skip
        if self.rehearsal_time is not None:
            headers = {**headers, "Rehearsal-Time": self.rehearsal_time.isoformat()}
        request = self._request(method, path, body, headers, query, slow=slow)
        for attempt in range(1, self.attempts + 1):
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                if attempt == self.attempts:
                    raise Unreachable(f"no answer after {attempt} attempts: {error or type(error).__name__}") from error
            else:
                if response.is_success:
                    return response
                if response.status_code not in AGAIN or attempt == self.attempts:
                    raise _refused(response)
            time.sleep(min(5.0, 0.1 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable")


def _part(name: str) -> str:
    """Any name, quoted as a part of an address."""
    return quote(checks.text("a participant's or decision's name", name), safe="")


def _moment(at: Any) -> str:
    """A time in the form that the service expects."""
    if not isinstance(at, dt.datetime):
        raise InputError(f"at is {checks.brief(at)}; expected a datetime with its time zone")
    return at.isoformat()


def moment(
    sensed: Mapping[str, Any], *, at: dt.datetime | None = None, opened: bool = False,
    reported: Mapping[str, Any] | None = None, earlier: Mapping[int, Mapping[str, Any]] | None = None,
    available: bool = True, reason: str | None = None, shown: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The body of a decision point, without fields that have their default."""
    body: dict[str, Any] = {"sensed": checks.mapping("sensed", sensed, "{variable: value}")}
    if at is not None:
        body["at"] = _moment(at)
    if checks.yes_no("opened", opened):
        body["opened"] = True
    body |= _told(reported, earlier)
    if not checks.yes_no("available", available):
        body |= {"available": False, "reason": reason}
    if shown is not None:
        body["shown"] = shown
    return body


def _told(
    reported: Mapping[str, Any] | None, earlier: Mapping[int, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]]:
    """Reported values as the service expects them, now and of earlier steps; nothing that was not given."""
    told: dict[str, dict[str, Any]] = {}
    if reported is not None:
        told["reported"] = checks.mapping("reported", reported, "{variable: value}")
    if earlier is not None:
        by_step = checks.mapping("earlier", earlier, "{step: {variable: value}}")
        told["earlier"] = {str(step): checks.mapping("earlier", v, "{variable: value}") for step, v in by_step.items()}
    return told


def _content(response: httpx.Response, kind: type) -> Any:
    """The content of an answer; rejects answers that do not come from the service."""
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise ServiceError(
            response.status_code, "unknown", f"this is not an answer of the service: {response.text[:200]!r}"
        )
    return found


def _refused(response: httpx.Response) -> ServiceError:
    try:
        body = response.json()
        return ServiceError(response.status_code, str(body["code"]), str(body["detail"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(response.status_code, "unknown", response.text[:200])
