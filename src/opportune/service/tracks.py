"""What is kept of participants while their record is followed: a row of `decisions` for each decision point."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune.live import replay
from opportune.live.point import UNKNOWN
from opportune.service import typed
from opportune.service.person import Person

COLUMNS = (
    "id", "participant", "step", "previous", "seq", "day", "happened", "received", "timezone", "sensed", "reported",
    "available", "reason", "nudge", "probability", "coin", "gap", "price", "disagreement", "tolerance", "fresh_action",
    "stale_action", "budget_before", "budget_left", "mode", "why", "expires", "status", "outcome", "settled", "action",
    "revealed", "offline", "answered_late", "seen", "unanswered", "reward_status", "reward", "reward_received",
    "reward_first", "reward_changes", "reward_due", "features", "version",
)  # fmt: skip
"""The columns of `decisions`, in the order in which rows have them here."""
ID, SEQ, REPORTED, AVAILABLE, NUDGE, WHY, EXPIRES, STATUS, OUTCOME, SETTLED_AT, ACTION, REVEALED, OFFLINE = map(
    COLUMNS.index,
    ("id", "seq", "reported", "available", "nudge", "why", "expires", "status", "outcome", "settled", "action",
     "revealed", "offline"),
)  # fmt: skip
ANSWERED_LATE, SEEN, UNANSWERED, REWARD_STATUS, REWARD, REWARD_RECEIVED, REWARD_FIRST, REWARD_CHANGES, REWARD_DUE = map(
    COLUMNS.index,
    ("answered_late", "seen", "unanswered", "reward_status", "reward", "reward_received", "reward_first",
     "reward_changes", "reward_due"),
)  # fmt: skip
CLAIMS = (*replay.FOUND[: replay.JUDGED + 1], "before", "left")
"""What the record says of a proposal."""


class Doubt(Exception):  # noqa: N818  (nothing has failed yet)
    """Something is not as expected, or not done in bulk: fold the record one by one."""


class Place(NamedTuple):
    """Values that were sensed and reported, and where they stand."""

    where: tuple[int, int, int]  # stratum, sensed part, context
    blind: tuple[int, int, int]  # the same where nobody has seen the context
    values: tuple[float, ...]  # contexts not finite
    missing: tuple[str, ...]  # variables that lack a value
    reported: dict[str, Any] | None
    sensed_text: str
    reported_text: str | None


class Entry(msgspec.Struct, gc=False):
    """A decision point that was proposed."""

    row: list[Any]  # as the record has it so far; empty once nothing more may change
    stored: tuple[Any, ...]  # the row that is stored, until it was compared
    step: int
    place: Place
    action: int  # that stands, or was taken
    seen: bool = True  # the context is known


class Track(msgspec.Struct, gc=False):
    """How far a participant's record has been followed."""

    person: Person
    entries: list[Entry]
    sealed: set[int]
    arrivals: dict[int, None]  # steps that no reveal has uncovered, in the order in which their rewards came
    open: typed.Proposed | None = None
    late_answer: bool = False
    withdrawn: bool = False
    quarter: int = -1  # of an hour, of the latest decision point
    day: int = 0  # which it was of

    def note(self, entry: Entry) -> None:
        """Something was told of a settled step that no reveal has uncovered: the next one may."""
        if entry.place.where[2] != UNKNOWN:
            self.sealed.add(entry.step)
        else:
            self.sealed.discard(entry.step)


class Calls(NamedTuple):
    """Calls to make, and what the record says comes of them."""

    rows: NDArray[np.float64]
    values: NDArray[np.float64]
    claims: NDArray[np.float64]  # `CLAIMS`, for each proposal
    notes: NDArray[np.float64]  # what the rule went by, likewise; not a number where it was not asked
    actions: NDArray[np.float64]  # for each that is settled


def entry_of(event: Any, track: Track) -> Entry:
    """The decision point that an event is about."""
    entry: Entry = track.entries[event.step - 1]
    if entry.step != event.step or entry.row[ID] != event.decision:
        raise Doubt
    return entry


def settled_entry(event: Any, track: Track) -> Entry:
    """The same, if it is settled."""
    entry: Entry = track.entries[event.step - 1]
    row = entry.row
    if entry.step != event.step or row[ID] != event.decision or row[STATUS] != "settled":
        raise Doubt
    return entry
