"""Problem details (RFC 9457), the answer to refused requests; each has a code that does not change."""

from typing import Any

import msgspec

from opportune.errors import OpportuneError

TITLES = {
    "invalid": (422, "Invalid content"),
    "malformed": (400, "The body cannot be read"),
    "key_missing": (400, "The header Idempotency-Key is missing"),
    "unauthenticated": (401, "No valid key"),
    "forbidden": (403, "The key's role may not do this"),
    "not_found": (404, "Not found"),
    "method_not_allowed": (405, "This address does not accept this method"),
    "exists": (409, "Already exists"),
    "key_reused": (409, "The idempotency key was used with other content"),
    "decided_already": (409, "This decision point already has a decision"),
    "settled_already": (409, "This decision is already settled"),
    "not_settled": (409, "The nudge is still open"),
    "taken": (409, "Someone else has taken this nudge"),
    "reward_differs": (409, "The decision already has a different reward"),
    "not_active": (409, "The participant is not active"),
    "over": (409, "All decisions have been made"),
    "full": (409, "All planned participants are enrolled"),
    "closed": (409, "The study is closed"),
    "too_large": (413, "The body is too large"),
    "unsupported": (415, "The body is not JSON"),
    "too_many": (429, "Too many requests"),
    "internal": (500, "Internal error"),
    "unavailable": (503, "Nothing can be stored at the moment"),
}


class Problem(msgspec.Struct, kw_only=True):
    """Problem details: `code` is for programs, `detail` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str

    @classmethod
    def of(cls, code: str, detail: str) -> "Problem":
        """The problem with this code; `detail` says what happened this time."""
        status, title = TITLES[code]
        return cls(type=f"urn:opportune:{code}", title=title, status=status, code=code, detail=detail)


class Refused(OpportuneError):  # noqa: N818  (nothing went wrong here)
    """A refused request: it is answered with a problem, and nothing of it is stored."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return TITLES[self.code][0]

    def problem(self) -> Problem:
        """The problem that answers the request."""
        return Problem.of(self.code, str(self))


def encoded(problem: Problem) -> bytes:
    """A problem as JSON."""
    return msgspec.json.encode(problem)


def as_json(value: Any) -> bytes:
    """Any answer as JSON."""
    return msgspec.json.encode(value)
