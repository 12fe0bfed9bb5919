"""The calls that a record's events make, and the rows that follow: what `Agent` and `projection` do, for many at once.

Events become rows of a table of calls (live.replay), by what the record says was answered; `bulk` has them made, and
compares what is found with what is claimed here. What is kept of a decision point is its row of `decisions`, which the
stored one must equal. Whatever is not as it should be, or too rare to be worth it here, raises `Doubt`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune.live import point, replay
from opportune.live.point import LEARNED, NOTHING, SKIPPED, UNKNOWN, WAITING
from opportune.problems.finite import Problem
from opportune.service import events, typed
from opportune.service.events import Event
from opportune.service.fold import LEARNED_MODE, MOST_PLACES, Fold
from opportune.service.person import COMPLETED, WITHDRAWN, Person
from opportune.service.points import day_of

COLUMNS = (
    "id", "participant", "step", "seq", "day", "happened", "received", "timezone", "sensed", "reported", "available",
    "reason", "nudge", "probability", "coin", "gap", "price", "disagreement", "tolerance", "fresh_action",
    "stale_action", "budget_before", "budget_left", "mode", "why", "expires", "status", "outcome", "settled", "action",
    "revealed", "offline", "answered_late", "seen", "unanswered", "reward_status", "reward", "reward_received",
    "reward_first", "reward_changes", "reward_due", "features", "version",
)  # fmt: skip
"""The columns of `decisions`, in the order in which rows have them here."""
ID, STEP, SEQ, REPORTED, AVAILABLE, NUDGE, WHY, EXPIRES, STATUS, OUTCOME, SETTLED_AT, ACTION, REVEALED, OFFLINE = map(
    COLUMNS.index,
    ("id", "step", "seq", "reported", "available", "nudge", "why", "expires", "status", "outcome", "settled", "action",
     "revealed", "offline"),
)  # fmt: skip
ANSWERED_LATE, SEEN, UNANSWERED, REWARD_STATUS, REWARD, REWARD_RECEIVED, REWARD_FIRST, REWARD_CHANGES, REWARD_DUE = map(
    COLUMNS.index,
    ("answered_late", "seen", "unanswered", "reward_status", "reward", "reward_received", "reward_first",
     "reward_changes", "reward_due"),
)  # fmt: skip
CLAIMS = (*replay.FOUND[: replay.JUDGED + 1], "before", "left")
"""What the record says of a proposal."""
_ABSENT = bytes(typed.ABSENT)
_LARGEST = 1.7976931348623157e308


class Doubt(Exception):  # noqa: N818  (nothing has failed yet)
    """Something is not as expected, or not done in bulk: fold the record one by one."""


class Place(NamedTuple):
    """Values that were sensed and reported, and where they stand."""

    where: tuple[int, int, int]  # stratum, sensed part, context
    blind: tuple[int, int, int]  # the same where nobody has seen the context
    values: tuple[float, ...]  # contexts not finite
    missing: bool
    reported: dict[str, Any] | None
    sensed_text: str
    reported_text: str | None


NOWHERE = Place((0, 0, 0), (0, 0, 0), (), False, None, "", None)


class Entry(msgspec.Struct, gc=False):
    """A decision point that was proposed."""

    row: list[Any]
    place: Place
    action: int  # that stands, or was taken


class Track(msgspec.Struct, gc=False):
    """How far a participant's record has been followed."""

    person: Person
    entries: list[Entry]
    sealed: set[int]
    arrivals: dict[int, None]  # steps that no reveal has uncovered, in the order in which their rewards came
    open: typed.Proposed | None = None
    late_answer: bool = False
    withdrawn: bool = False


class Calls(NamedTuple):
    """Calls to make, and what the record says comes of them."""

    rows: NDArray[np.float64]
    values: NDArray[np.float64]
    claims: NDArray[np.float64]  # `CLAIMS`, for each proposal
    actions: NDArray[np.float64]  # for each that is settled


class Script:
    """Turns events about decisions into calls and rows."""

    def __init__(self, fold: Fold) -> None:
        problem = fold.cohort.problem
        self.running = fold.running
        self._problem = problem
        self._continuous = not isinstance(problem, Problem)
        self._variables = fold.cohort._common._at.sizes.variables if self._continuous else 0
        self._period = problem.schedule.period if isinstance(problem, Problem) else None
        self._action_number = {name: number for number, name in enumerate(problem.action_names)}
        self._reported_names = [name for name, seen in problem.visibility.items() if seen == "reported"]
        self._some_reported = problem.reported
        self._horizon, self._endless = fold.cohort.horizon, math.isinf(fold.cohort._common._amount)
        self._places: dict[tuple[bytes, bytes, int], Place] = {}
        self._begin()
        self.kinds: dict[str, Callable[[Any, int, int, Track], None]] = {
            events.PROPOSED: self._propose,
            events.SETTLED: self._settle,
            events.REWARDED: self._reward,
            events.ANSWERED_LATE: self._answer_late,
            events.CORRECTED: self._correct,
            events.SKIPPED: self._skip,
            events.STATUS: self._status,
            events.NOTED: self._note,
            events.TRIED: self._note,
        }

    def _begin(self) -> None:
        self._rows: list[float] = []
        self._values: list[float] = []
        self._claims: list[float | None] = []
        self._actions: list[int] = []

    def cut(self) -> Calls:
        """The calls since the last time."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, len(replay.CALL))
        calls = Calls(
            rows,
            np.array(self._values, dtype=np.float64).reshape(len(rows), self._variables),
            np.array(self._claims, dtype=np.float64).reshape(-1, len(CLAIMS)),
            np.array(self._actions, dtype=np.float64),
        )
        self._begin()
        return calls

    def _call(
        self, what: int, event: Any, track: Track, entry: Entry, where: tuple[int, int, int], action: int = 0,
        flag: bool = False, number: float = 0.0,
    ) -> None:  # fmt: skip
        self._rows += (what, track.person.number, entry.row[STEP], *where, action, flag, number, event.seq)
        if self._continuous:
            self._values += entry.place.values

    def _place(self, sensed: bytes, reported: bytes, step: int) -> Place:
        """Where values stand, checked; where contexts are finite, the same values are not looked up again."""
        period = self._period
        key = (sensed, reported, 0 if period is None else step % period)
        known = self._places.get(key)
        if known is not None:
            return known
        given, told = msgspec.json.decode(sensed), msgspec.json.decode(reported)
        found = point.new_step(self._problem, self._reported_names, step, given, told).place
        place = Place(
            (found.stratum, found.sense, found.context), (found.stratum, found.sense, UNKNOWN),
            tuple(found.values.tolist()), bool(found.missing), told, _text(given),
            None if told is None else _text(told),
        )  # fmt: skip
        if period is not None and len(self._places) < MOST_PLACES:
            self._places[key] = place
        return place

    def _place_with(self, entry: Entry, reported: Any) -> Place:
        """Where a decision point stands with what is reported of it now."""
        told = {**(entry.place.reported or {}), **point.check_reported(reported, self._reported_names)}
        return self._place(entry.place.sensed_text.encode(), _text(told).encode(), entry.row[STEP])

    def _propose(self, event: typed.Proposed, received: int, happened: int, track: Track) -> None:
        given, answer, person, running = event.given, event.answer, track.person, self.running
        done, shown, nudged = answer.settled, given.shown, answer.nudged
        step = len(track.entries) + 1
        if (
            event.step != step or event.decision != f"d{event.seq}" or track.open is not None or track.withdrawn
            or step > self._horizon or given.mode != LEARNED_MODE or given.earlier is not typed.ABSENT
        ):  # fmt: skip
            raise Doubt
        reported = given.reported
        place = self._place(bytes(given.sensed), _ABSENT if reported is typed.ABSENT else bytes(reported), step)
        available = given.available and not place.missing
        if answer.available != available or (done is None) != (nudged and shown is None):
            raise Doubt
        opened = given.opened and available
        if available and track.late_answer:
            opened, track.late_answer = True, False
        stale, before, left = self._action_number[answer.stale], answer.before, answer.left
        entry = Entry([
            event.decision, person.name, step, event.seq, day_of(happened, person.enrolled, person.timezone), happened,
            received, person.timezone, place.sensed_text, place.reported_text, available, answer.reason, nudged,
            answer.probability, answer.coin, answer.gap, answer.price, answer.disagreement, answer.tolerance,
            answer.fresh, answer.stale, before, left, LEARNED_MODE, answer.why, None, "settled", None, received,
            answer.stale, False, shown is not None, None, True, False, WAITING, None, None, None, 0,
            happened + running.reward_window, event.study[:12], event.version,
        ], place, stale)  # fmt: skip
        track.entries.append(entry)
        person.last_decided = happened
        what = replay.PROPOSE if available else replay.STAND_BY
        self._call(what, event, track, entry, place.where, 0, opened)
        if self._endless and before is None and left is None:
            before = left = np.inf
        self._claims += (
            answer.gap, answer.price, answer.probability, answer.tolerance, answer.disagreement,
            self._action_number[answer.fresh], stale, nudged, answer.coin, before, left,
        )  # fmt: skip
        if done is None:
            row = entry.row
            row[EXPIRES], row[STATUS], row[SETTLED_AT] = happened + running.answer_window, "nudge", None
            track.open, person.open_decision = event, event.decision
        else:
            self._conclude(event, track, entry, done, happened, shown, opened, False)

    def _conclude(
        self, event: Any, track: Track, entry: Entry, done: typed.Outcome, happened: int, shown: str | None,
        opened: bool, answered: bool | None,
    ) -> None:  # fmt: skip
        """What became of a proposal."""
        row, place, standing, seen = entry.row, entry.place, entry.action, True
        revealed = bool(opened or answered)
        entry.action = action = self._action_number[done.action]
        if shown is not None:
            standing = self._action_number[shown]
            if revealed:
                raise Doubt
        if revealed and track.sealed:
            self._uncover(event, track)
        if row[AVAILABLE]:
            where = place.where if revealed or not self._some_reported else place.blind
            self._call(replay.SETTLE, event, track, entry, where, standing, revealed)
            self._actions.append(action)
            seen = where[2] != UNKNOWN
            if not seen and place.where[2] != UNKNOWN:
                track.sealed.add(row[STEP])
        else:
            row[REWARD_STATUS], row[REWARD_DUE] = NOTHING, None
            if action != standing:
                raise Doubt
        outcome = "opened" if opened else "none" if not row[NUDGE] else "answered" if answered else "unanswered"
        if done.outcome != outcome or done.revealed != revealed:
            raise Doubt
        row[OUTCOME], row[ACTION], row[REVEALED], row[SEEN], row[WHY] = outcome, done.action, revealed, seen, done.why
        row[UNANSWERED] = row[NUDGE] and not revealed
        if revealed:
            track.person.last_reveal = happened

    def _uncover(self, event: Any, track: Track) -> None:
        """A reveal uncovers the decision points whose reported values are known; then their rewards, as these came."""
        what = replay.UNCOVER if self._continuous else replay.HOLD
        for step in sorted(track.sealed):
            entry = track.entries[step - 1]
            row, place = entry.row, entry.place
            rewarded = row[REWARD_STATUS] == LEARNED
            number = row[REWARD] if rewarded else 0.0
            self._call(what, event, track, entry, place.where, entry.action, rewarded, number)
            row[SEQ], row[SEEN], row[REPORTED] = event.seq, True, place.reported_text
        for step in [step for step in track.arrivals if step in track.sealed]:
            del track.arrivals[step]
            entry = track.entries[step - 1]
            if not self._continuous:
                where, reward = entry.place.where, entry.row[REWARD]
                self._call(replay.LEARN_HELD, event, track, entry, where, entry.action, False, reward)
        track.sealed.clear()

    def _settle(self, event: typed.Settled, received: int, happened: int, track: Track) -> None:
        given, made, entry = event.given, track.open, _entry(event, track)
        opened, answered, reported, row = given.opened, given.answered, given.reported, entry.row
        if made is None or made.decision != event.decision or (answered is None and not opened):
            raise Doubt
        told = reported != typed.ABSENT
        if (told or given.earlier is not None) and not (opened or answered):
            raise Doubt
        for number, values in (given.earlier or {}).items():
            self._tell_of(int(number), values, entry, track)
        if told:
            entry.place = self._place_with(entry, msgspec.json.decode(reported))
        row[SEQ], row[STATUS], row[SETTLED_AT], row[REPORTED] = (
            event.seq,
            "settled",
            received,
            entry.place.reported_text,
        )
        row[OFFLINE] = given.shown is not None
        track.open, track.person.open_decision = None, None
        self._conclude(event, track, entry, event.answer, happened, given.shown, opened, answered)

    def _tell_of(self, step: int, values: Any, now: Entry, track: Track) -> None:
        """Reported values of an earlier decision point, told with a reveal."""
        entry = track.entries[step - 1]
        if entry is now or entry.row[STEP] != step or entry.row[SEEN]:
            raise Doubt
        entry.place = self._place_with(entry, values)
        if entry.place.where[2] != UNKNOWN:
            track.sealed.add(step)

    def _reward(self, event: typed.Rewarded, received: int, happened: int, track: Track) -> None:
        entry, reward = _settled_entry(event, track), event.given.reward
        row, status = entry.row, entry.row[REWARD_STATUS]
        learned = status != NOTHING
        if status == LEARNED or event.answer.learned != learned or not -_LARGEST <= reward <= _LARGEST:
            raise Doubt
        row[SEQ], row[REWARD], row[REWARD_RECEIVED], row[REWARD_FIRST] = event.seq, reward, received, reward
        row[REWARD_DUE] = None
        if not learned:
            return
        row[REWARD_STATUS] = LEARNED
        if row[SEEN]:
            self._call(replay.LEARN, event, track, entry, entry.place.where, entry.action, True, reward)
        else:
            track.arrivals[row[STEP]] = None

    def _correct(self, event: Event, received: int, happened: int, track: Track) -> None:
        entry, reward = _settled_entry(event, track), event.given["reward"]
        row = entry.row
        learned = row[REWARD_STATUS] == LEARNED
        possible = type(reward) in {int, float} and -_LARGEST <= reward <= _LARGEST
        if not possible or event.answer != {"learned": learned}:
            raise Doubt
        if learned and row[SEEN]:
            difference = reward - row[REWARD]
            self._call(replay.CORRECT, event, track, entry, entry.place.where, entry.action, True, difference)
        row[SEQ], row[REWARD], row[REWARD_RECEIVED] = event.seq, reward, received
        row[REWARD_CHANGES] = event.given["changes"]

    def _skip(self, event: Event, received: int, happened: int, track: Track) -> None:
        row = _settled_entry(event, track).row
        if row[REWARD_STATUS] != WAITING or event.answer:
            raise Doubt
        row[SEQ], row[REWARD_STATUS], row[REWARD_DUE] = event.seq, SKIPPED, None

    def _answer_late(self, event: Event, received: int, happened: int, track: Track) -> None:
        entry, reported = _settled_entry(event, track), event.given.get("reported")
        row = entry.row
        if event.answer:
            raise Doubt
        if row[UNANSWERED]:
            place = entry.place if reported is None else self._place_with(entry, reported)
            if not row[SEEN]:
                entry.place = place
                if place.where[2] != UNKNOWN:
                    track.sealed.add(row[STEP])
            row[UNANSWERED], track.late_answer = False, True
        row[SEQ], row[ANSWERED_LATE], row[REPORTED] = event.seq, received, entry.place.reported_text

    def _status(self, event: Event, received: int, happened: int, track: Track) -> None:
        person, given = track.person, event.given
        if event.answer:
            raise Doubt
        person.status, person.reason = given["status"], given.get("reason")
        if person.status in {WITHDRAWN, COMPLETED}:
            if track.withdrawn or track.open is not None:
                raise Doubt
            track.withdrawn = True
            to_come = self._horizon - len(track.entries)
            self._rows += (replay.WITHDRAW, person.number, 0, *NOWHERE.where, 0, False, to_come, event.seq)
            self._values += (0.0,) * self._variables

    def _note(self, event: Event, received: int, happened: int, track: Track) -> None:
        if event.answer:
            raise Doubt


def _entry(event: Any, track: Track) -> Entry:
    """The decision point that an event is about."""
    entry: Entry = track.entries[event.step - 1]
    if entry.row[STEP] != event.step or entry.row[ID] != event.decision:
        raise Doubt
    return entry


def _settled_entry(event: Any, track: Track) -> Entry:
    entry: Entry = track.entries[event.step - 1]
    row = entry.row
    if row[STEP] != event.step or row[ID] != event.decision or row[STATUS] != "settled":
        raise Doubt
    return entry


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
