"""The frequent events by their types: read several times as fast as by names, and only as far as folding needs them."""

from typing import Any

import msgspec

from opportune.service import events

ABSENT = msgspec.Raw(b"null")


class Outcome(msgspec.Struct, gc=False):
    """What became of a proposal."""

    action: str
    outcome: str
    revealed: bool
    why: str


class Sensed(msgspec.Struct, gc=False):
    """What came in with a decision point."""

    sensed: msgspec.Raw
    reported: msgspec.Raw = ABSENT
    opened: bool = False
    available: bool = True
    reason: str | None = None
    shown: str | None = None
    past: bool = False
    mode: str = "learned"
    earlier: msgspec.Raw = ABSENT


class Proposal(msgspec.Struct, gc=False):
    """What was answered to it."""

    nudged: bool
    probability: float
    coin: float
    gap: float
    price: float
    disagreement: float
    tolerance: float
    fresh: str
    stale: str
    before: float | None
    left: float | None
    available: bool
    reason: str | None
    why: str
    notes: list[float] | None = None
    settled: Outcome | None = None


class Told(msgspec.Struct, gc=False):
    """What came in about a nudge."""

    answered: bool | None = None
    opened: bool = False
    reported: msgspec.Raw = ABSENT
    earlier: dict[str, Any] | None = None
    shown: str | None = None
    mode: str = "learned"


class Rewarding(msgspec.Struct, gc=False):
    """What came in with a reward."""

    reward: float


class Learned(msgspec.Struct, gc=False):
    """What was answered to it."""

    learned: bool


class Proposed(events.Head, frozen=True, gc=False, kw_only=True):
    """A decision point."""

    given: Sensed
    answer: Proposal


class Settled(events.Head, frozen=True, gc=False, kw_only=True):
    """What became of a nudge."""

    given: Told
    answer: Outcome


class Rewarded(events.Head, frozen=True, gc=False, kw_only=True):
    """A reward that has come."""

    given: Rewarding
    answer: Learned


DECODE = {
    events.PROPOSED: msgspec.json.Decoder(Proposed).decode,
    events.SETTLED: msgspec.json.Decoder(Settled).decode,
    events.REWARDED: msgspec.json.Decoder(Rewarded).decode,
}
"""By kind; raise `msgspec.MsgspecError` where an event is not of that form."""
