"""The calls that a record's events make, and the rows that follow: what `Agent` and `projection` do, for many at once.

Events become rows of a table of calls (live.replay), by what the record says was answered; `bulk` has them made, and
compares what is found with what is claimed here. What is kept of a decision point is its row of `decisions`, which the
stored one must equal. Whatever is not as it should be, or too rare to be worth it here, raises `Doubt`.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from opportune.engine.layout import NOTES
from opportune.live import point, replay
from opportune.live.point import LEARNED, NOTHING, SKIPPED, UNKNOWN, WAITING
from opportune.live.replay import CALL, DECIDE, LEARN, PROPOSE, SETTLE, STAND_BY
from opportune.problems.finite import Problem
from opportune.service import events, typed
from opportune.service.compared import StoredRows
from opportune.service.events import Event
from opportune.service.fold import MOST_PLACES, Fold
from opportune.service.person import COMPLETED, LEARNED_MODE, WITHDRAWN
from opportune.service.points import QUARTER, counted_day, day_of
from opportune.service.running import Running
from opportune.service.tracks import (
    ACTION,
    ANSWERED_LATE,
    AVAILABLE,
    CLAIMS,
    EXPIRES,
    NUDGE,
    OFFLINE,
    OUTCOME,
    REPORTED,
    REVEALED,
    REWARD,
    REWARD_CHANGES,
    REWARD_DUE,
    REWARD_FIRST,
    REWARD_RECEIVED,
    REWARD_STATUS,
    SEEN,
    SEQ,
    SETTLED_AT,
    STATUS,
    UNANSWERED,
    WHY,
    Calls,
    Doubt,
    Entry,
    Place,
    Track,
    entry_of,
    settled_entry,
)

_ABSENT = bytes(typed.ABSENT)
_LARGEST = sys.float_info.max
_NO_NOTES = (math.nan,) * NOTES
_WHAT_AT, _ACTION_AT, _NUMBER_AT = (CALL.index(name) - len(CALL) for name in ("what", "action", "number"))
"""Where these stand in the last call, from the end."""


class Script:
    """Turns events about decisions into calls and rows."""

    def __init__(self, fold: Fold, stored: StoredRows) -> None:
        problem = fold.cohort.problem
        self.compared = 0
        """Decision points whose rows will not change any more, and are stored as they should be."""
        self._stored = stored
        self.set_running(fold.running)
        self._problem = problem
        self._continuous = not isinstance(problem, Problem)
        self._variables = fold.cohort._common._at.sizes.variables if self._continuous else 0
        period = None if self._continuous else problem.schedule.period
        self._period, self._repeats = period or 1, period is not None
        self._action_number = {name: number for number, name in enumerate(problem.action_names)}
        self._reported_names = [name for name, seen in problem.visibility.items() if seen == "reported"]
        self._some_reported = problem.reported
        self._ranked = bool(fold.cohort._common._at.sizes.ranked)
        self._horizon, self._endless = fold.cohort.horizon, math.isinf(fold.cohort._common._amount)
        self._places: dict[tuple[bytes, bytes, int], Place] = {}
        self._told: dict[tuple[str, str | None, bytes, int], Place] = {}
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

    def set_running(self, running: Running) -> None:
        """The study file that is in force from now on."""
        self.running, self._features = running, running.hash[:12]

    def _begin(self) -> None:
        self._rows: list[float] = []
        self._values: list[float] = []
        self._claims: list[float | None] = []
        self._notes: list[float] = []
        self._actions: list[int] = []

    def cut(self) -> Calls:
        """The calls since the last time."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, len(replay.CALL))
        calls = Calls(
            rows,
            np.array(self._values, dtype=np.float64).reshape(len(rows), self._variables),
            np.array(self._claims, dtype=np.float64).reshape(-1, len(CLAIMS)),
            np.array(self._notes, dtype=np.float64).reshape(-1, NOTES),
            np.array(self._actions, dtype=np.float64),
        )
        self._begin()
        return calls

    def _call(
        self, what: int, event: Any, track: Track, entry: Entry, where: tuple[int, int, int], action: int = 0,
        flag: bool = False, number: float = 0.0,
    ) -> None:  # fmt: skip
        self._rows += (what, track.person.number, entry.step, *where, action, flag, number, event.seq)
        self._values += entry.place.values

    def _place(self, sensed: bytes, reported: bytes, step: int) -> Place:
        """Where values stand, checked; where contexts are finite, the same values are not looked up again."""
        key = (sensed, reported, step % self._period)
        known = self._places.get(key)
        if known is not None:
            return known
        given, told = msgspec.json.decode(sensed), msgspec.json.decode(reported)
        found = point.new_step(self._problem, self._reported_names, step, given, told).place
        place = Place(
            (found.stratum, found.sense, found.context), (found.stratum, found.sense, UNKNOWN),
            tuple(found.values.tolist()), tuple(found.missing), told, _text(given),
            None if told is None else _text(told),
        )  # fmt: skip
        self._keep(self._places, key, place)
        return place

    def _place_with(self, entry: Entry, reported: bytes) -> Place:
        """Where a decision point stands with what is reported of it now."""
        before, step = entry.place, entry.step
        key = (before.sensed_text, before.reported_text, reported, step % self._period)
        known = self._told.get(key)
        if known is not None:
            return known
        now = point.check_reported(msgspec.json.decode(reported), self._reported_names)
        told = _text({**(before.reported or {}), **now})
        place = self._place(before.sensed_text.encode(), told.encode(), step)
        self._keep(self._told, key, place)
        return place

    def _keep(self, places: dict[Any, Place], key: Any, place: Place) -> None:
        if self._repeats and len(places) < MOST_PLACES:
            places[key] = place

    def _propose(self, event: typed.Proposed, received: int, happened: int, track: Track) -> None:
        given, answer, person, running = event.given, event.answer, track.person, self.running
        done, shown, nudged = answer.settled, given.shown, answer.nudged
        step, quarter = len(track.entries) + 1, happened // QUARTER
        if quarter != track.quarter:
            track.quarter, track.day = quarter, day_of(happened, person.enrolled, person.timezone)
        if (
            event.step != step or event.decision != f"d{event.seq}" or track.open is not None or track.withdrawn
            or step > self._horizon or given.mode != LEARNED_MODE or given.earlier is not typed.ABSENT
        ):  # fmt: skip
            raise Doubt
        reported = given.reported
        place = self._place(bytes(given.sensed), _ABSENT if reported is typed.ABSENT else bytes(reported), step)
        available = given.available and not place.missing
        reason = None if available else point.absence(given.reason, place.missing)
        if answer.available != available or answer.reason != reason or (done is None) != (nudged and shown is None):
            raise Doubt
        opened = given.opened and available
        if available and track.late_answer and not given.past:
            opened, track.late_answer = True, False
        stale, before, left = self._action_number[answer.stale], answer.before, answer.left
        entry = Entry([
            event.decision, person.name, step, person.latest, event.seq, counted_day(running, track.day, step),
            happened, received,
            person.timezone, place.sensed_text, place.reported_text, available, reason, nudged, answer.probability,
            answer.coin, answer.gap, answer.price, answer.disagreement, answer.tolerance, answer.fresh, answer.stale,
            before, left, LEARNED_MODE, answer.why, None, "settled", None, received, answer.stale, False,
            shown is not None, None, True, False, WAITING, None, None, None, 0, happened + running.reward_window,
            self._features, event.version,
        ], self._stored.take(event.decision), step, place, stale)  # fmt: skip
        track.entries.append(entry)
        person.latest, person.last_decided = event.decision, happened
        what = PROPOSE if available else STAND_BY
        self._rows += (what, person.number, step, *place.where, 0, opened or given.past, 0.0, event.seq)
        self._values += place.values
        if self._endless and before is None and left is None:
            before = left = np.inf
        self._claims += (
            answer.gap, answer.price, answer.probability, answer.tolerance, answer.disagreement,
            self._action_number[answer.fresh], stale, nudged, answer.coin, before, left,
        )  # fmt: skip
        if self._ranked:
            self._note_claims(answer.notes, asked=available and not (opened or given.past))
        elif answer.notes is not None:
            raise Doubt
        if done is None:
            row = entry.row
            row[EXPIRES], row[STATUS], row[SETTLED_AT] = happened + running.answer_window, "nudge", None
            track.open, person.open_decision = event, event.decision
        else:
            self._conclude(event, track, entry, done, happened, shown, opened, False, apart=given.past)
        self._compare(entry, event.seq)

    def _compare(self, entry: Entry, seq: int) -> None:
        """A row has changed: if for the last time, by the one that is stored, they are equal, and that is the end."""
        if entry.stored[SEQ] == seq:
            if tuple(entry.row) != entry.stored:
                raise Doubt
            entry.row, entry.stored = [], ()
            self.compared += 1

    def _note_claims(self, notes: list[float] | None, *, asked: bool) -> None:
        """What the rule went by, which it says wherever it was asked."""
        if asked != (notes is not None) or (notes is not None and len(notes) != NOTES):
            raise Doubt
        self._notes += notes or _NO_NOTES

    def _conclude(
        self, event: Any, track: Track, entry: Entry, done: typed.Outcome, happened: int, shown: str | None,
        opened: bool, answered: bool | None, apart: bool = False,
    ) -> None:  # fmt: skip
        """What became of a proposal; `apart`: it is settled by a call of its own."""
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
            rows = self._rows
            if event.kind == events.PROPOSED and rows[_WHAT_AT] == PROPOSE and not apart:  # nothing was uncovered
                rows[_WHAT_AT], rows[_ACTION_AT], rows[_NUMBER_AT] = DECIDE, standing, where[2]
            else:
                rows += (SETTLE, track.person.number, entry.step, *where, standing, revealed, 0.0, event.seq)
                self._values += place.values
            self._actions.append(action)
            seen = where[2] != UNKNOWN
            if not seen and place.where[2] != UNKNOWN:
                track.sealed.add(entry.step)
        else:
            row[REWARD_STATUS], row[REWARD_DUE] = NOTHING, None
            if action != standing:
                raise Doubt
        outcome = "opened" if opened else "none" if not row[NUDGE] else "answered" if answered else "unanswered"
        if done.outcome != outcome or done.revealed != revealed:
            raise Doubt
        row[OUTCOME], row[ACTION], row[REVEALED], row[SEEN], row[WHY] = outcome, done.action, revealed, seen, done.why
        entry.seen = seen
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
            entry.seen = True
        for step in [step for step in track.arrivals if step in track.sealed]:
            del track.arrivals[step]
            entry = track.entries[step - 1]
            if not self._continuous:
                where, reward = entry.place.where, entry.row[REWARD]
                self._call(replay.LEARN_HELD, event, track, entry, where, entry.action, False, reward)
        for step in track.sealed:
            self._compare(track.entries[step - 1], event.seq)
        track.sealed.clear()

    def _settle(self, event: typed.Settled, received: int, happened: int, track: Track) -> None:
        given, made, entry = event.given, track.open, entry_of(event, track)
        opened, answered, reported, row = given.opened, given.answered, given.reported, entry.row
        if made is None or made.decision != event.decision or (answered is None and not opened):
            raise Doubt
        told = reported != typed.ABSENT
        if given.mode != LEARNED_MODE or ((told or given.earlier is not None) and not (opened or answered)):
            raise Doubt
        for number, values in (given.earlier or {}).items():
            self._tell_of(event, int(number), values, entry, track)
        if told:
            entry.place = self._place_with(entry, bytes(reported))
        row[SEQ], row[STATUS], row[SETTLED_AT], row[REPORTED] = (
            event.seq,
            "settled",
            received,
            entry.place.reported_text,
        )
        row[OFFLINE] = given.shown is not None
        track.open, track.person.open_decision = None, None
        self._conclude(event, track, entry, event.answer, happened, given.shown, opened, answered)
        self._compare(entry, event.seq)

    def _tell_of(self, event: Any, step: int, values: Any, now: Entry, track: Track) -> None:
        """Reported values of an earlier decision point, told with a reveal."""
        entry = track.entries[step - 1]
        if entry is now or entry.step != step or entry.seen:
            raise Doubt
        entry.place = self._place_with(entry, msgspec.json.encode(values))
        track.note(entry)
        if entry.place.where[2] == UNKNOWN:  # a part of it
            entry.row[SEQ], entry.row[REPORTED] = event.seq, entry.place.reported_text
            self._compare(entry, event.seq)

    def _reward(self, event: typed.Rewarded, received: int, happened: int, track: Track) -> None:
        entry, reward = settled_entry(event, track), event.given.reward
        row, status = entry.row, entry.row[REWARD_STATUS]
        learned = status != NOTHING
        if status == LEARNED or event.answer.learned != learned or not -_LARGEST <= reward <= _LARGEST:
            raise Doubt
        row[SEQ], row[REWARD], row[REWARD_RECEIVED], row[REWARD_FIRST] = event.seq, reward, received, reward
        row[REWARD_DUE] = None
        if learned:
            row[REWARD_STATUS] = LEARNED
            if entry.seen:
                place, seq = entry.place, event.seq
                self._rows += (LEARN, track.person.number, entry.step, *place.where, entry.action, True, reward, seq)
                self._values += place.values
            else:
                track.arrivals[entry.step] = None
        self._compare(entry, event.seq)

    def _correct(self, event: Event, received: int, happened: int, track: Track) -> None:
        entry, reward = settled_entry(event, track), event.given["reward"]
        row = entry.row
        learned = row[REWARD_STATUS] == LEARNED
        possible = type(reward) in {int, float} and -_LARGEST <= reward <= _LARGEST
        if not possible or event.answer != {"learned": learned}:
            raise Doubt
        if learned and entry.seen:
            difference = reward - row[REWARD]
            self._call(replay.CORRECT, event, track, entry, entry.place.where, entry.action, True, difference)
        row[SEQ], row[REWARD], row[REWARD_RECEIVED] = event.seq, reward, received
        row[REWARD_CHANGES] = event.given["changes"]
        self._compare(entry, event.seq)

    def _skip(self, event: Event, received: int, happened: int, track: Track) -> None:
        entry = settled_entry(event, track)
        row = entry.row
        if row[REWARD_STATUS] != WAITING or event.answer:
            raise Doubt
        row[SEQ], row[REWARD_STATUS], row[REWARD_DUE] = event.seq, SKIPPED, None
        self._compare(entry, event.seq)

    def _answer_late(self, event: Event, received: int, happened: int, track: Track) -> None:
        entry, reported = settled_entry(event, track), event.given.get("reported")
        row = entry.row
        if event.answer:
            raise Doubt
        if row[UNANSWERED]:
            place = entry.place if reported is None else self._place_with(entry, msgspec.json.encode(reported))
            if not entry.seen:
                entry.place = place
                track.note(entry)
            row[UNANSWERED], track.late_answer = False, True
        row[SEQ], row[ANSWERED_LATE], row[REPORTED] = event.seq, received, entry.place.reported_text
        self._compare(entry, event.seq)

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
            self._rows += (replay.WITHDRAW, person.number, 0, 0, 0, 0, 0, False, to_come, event.seq)
            self._values += (0.0,) * self._variables

    def _note(self, event: Event, received: int, happened: int, track: Track) -> None:
        if event.answer:
            raise Doubt


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
