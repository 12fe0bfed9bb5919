"""A long record folded in bulk: events become a table of calls, which compiled code makes at once.

`Refold` lets one event after the other happen to a participant's agent, and can say what is wrong with each. Here the
record is believed until it is doubted: the calls follow from what it says was answered (`script`), compiled code makes
them (live.replay), and what that finds is compared with what the record says: every action, every coin, and every
number of every proposal, but for rounding, which is another on another machine. The first that differed would be the
first that was believed wrongly, so that nothing is missed. Whatever is not as it should be raises `Doubt`: the record
is then folded one by one, to say what it is.

Where participants share a budget or a model, the calls of all must be made in order, by one process; reading the
record, which takes most of the time, is divided between several all the same.
"""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune.errors import OpportuneError
from opportune.live import replay
from opportune.live.decision import Proposal
from opportune.live.rounding import all_near
from opportune.live.steps import begin_live
from opportune.service import events, typed
from opportune.service.clock import from_iso
from opportune.service.compared import Spending, StoredRows
from opportune.service.events import Event
from opportune.service.person import Person
from opportune.service.read import Links, Row, read
from opportune.service.refold import Refold, Verdict
from opportune.service.running import Running
from opportune.service.script import Script
from opportune.service.tracks import CLAIMS, Calls, Doubt, Track

_COMMON = frozenset(events.COMMON)
_WHAT, _SEQ = map(replay.CALL.index, ("what", "seq"))
_PROBABILITY, _NUDGED = map(CLAIMS.index, ("probability", "nudged"))
_EXACT = [CLAIMS.index(name) for name in ("fresh", "stale", "nudged", "coin")]
"""What is the same on every machine."""
_KIND, _BODY, _OWN = 1, 7, 8  # of a `Row`
_KIND_OF = itemgetter(_KIND)
_KNOWN = ("status", "reason", "seq", "latest", "open_decision", "last_decided", "last_reveal")
"""What of a `Person` events change."""


class Lot(NamedTuple):
    """What some events come to: calls, and who joins between them."""

    calls: Calls
    newcomers: list[tuple[int, Person]]  # since event; they begin with what all have learned by then


class State(NamedTuple):
    """Where a participant is at the end of the record, but for the numbers that compiled code has."""

    name: str
    known: dict[str, Any]  # fields of `Person`
    step: int
    late_answer: bool
    withdrawn: bool
    arrivals: list[int]
    proposal: Proposal | None  # that is still open


class Bulk:
    """Folds a part's events, many at a time; with `everyone`, to make the calls of other parts' participants, too."""

    def __init__(self, stored: StoredRows, *, everyone: bool = False) -> None:
        self.refold = Refold(Verdict())
        self._stored = stored
        self._spent: list[float] = []
        self._nudges = 0
        self._everyone = everyone
        self._links: list[Links] = []
        self._tracks: dict[str, Track] = {}
        self._script: Script | None = None
        self._seats = _Seats()
        self._newcomers: list[tuple[int, Person]] = []

    def take(self, rows: list[Row]) -> None:
        """Some events in their order, the part's own, and those that concern all."""
        with _doubtful():
            self._follow(rows)

    def cut(self) -> Lot:
        """What is to be done about the events since the last time."""
        with _doubtful():
            if self._script is None:
                raise Doubt("not launched")
            calls = self._script.cut()
        self._spent.append(float(calls.claims[:, _PROBABILITY].sum()))
        self._nudges += int(calls.claims[:, _NUDGED].sum())
        lot, self._newcomers = Lot(calls, self._newcomers), []
        return lot

    def _follow(self, rows: list[Row]) -> None:
        """Check each event against its hash and its columns, and let it become calls."""
        if _COMMON.isdisjoint(map(_KIND_OF, rows)):
            self._take_decisions(rows)
            return
        for common, some in itertools.groupby(rows, lambda row: _KIND_OF(row) in _COMMON):
            if not common:
                self._take_decisions([*some])
                continue
            for row in some:
                self._take_common(row)

    def _take_decisions(self, rows: list[Row]) -> None:
        """What concerns participants' decisions."""
        script = self._script
        if script is None:
            raise Doubt("not launched")
        found = read(rows)
        tracks = [self._tracks[name] for name in found.participants]
        zones = [track.person.timezone for track in tracks]
        if found.studies.count(script.running.hash) < len(rows) or zones != [*found.timezones]:
            raise Doubt("the study in force, or a time zone")
        self._links.append(found.links)
        kinds = script.kinds
        for kind, event, received, happened, track in zip(
            found.kinds, found.events, found.received, found.happened, tracks, strict=True
        ):
            kinds[kind](event, received, happened, track)
        for name, seq in dict(zip(found.participants, found.seqs, strict=True)).items():
            self._tracks[name].person.seq = seq  # the last one's

    def _take_common(self, row: Row) -> None:
        """What concerns all, or a new participant: as one by one."""
        own, body = bool(row[_OWN]), row[_BODY]
        if own:
            found = read([row])
            self._links.append(found.links)
        event: Event = found.events[0] if own else events.decode(body)  # type: ignore[arg-type]
        if event.kind == events.LAUNCHED and self._script is not None:
            raise Doubt("launched again")
        mine = own or (self._everyone and event.kind == events.ENROLLED)
        self.refold.take(event, from_iso(event.received), mine=mine)
        fold, name = self.refold.fold, event.participant
        if self.refold.verdict.findings or fold is None:
            raise Doubt("common")
        if event.kind == events.LAUNCHED:
            self._script = Script(fold, self._stored)
        elif event.kind == events.AMENDED:
            assert self._script is not None
            self._script.set_running(fold.running)
        elif event.kind == events.ENROLLED and own:
            assert name is not None
            if name in self._tracks:
                raise Doubt("enrolled again")
            self._tracks[name] = Track(self.refold.persons[name], [], set(), {})
        if name in self.refold.persons and fold.running.policy.pooled:
            self._newcomers.append((event.seq, self.refold.persons[name]))

    def make_calls(self, lot: Lot, others: list[Calls]) -> None:
        """Make a lot's calls, and those of others of the same time; compare what is found with what the record says."""
        fold, newcomers = self.refold.fold, lot.newcomers
        assert fold is not None
        calls = _in_order([lot.calls, *others]) if others else lot.calls
        seats, common = self._seats.of(self.refold), fold.cohort._common
        found, acted = np.zeros((len(calls.claims), len(replay.FOUND))), np.zeros(len(calls.actions))
        noted = np.full_like(calls.notes, np.nan)
        for part in _rounds(calls, [seq for seq, _person in newcomers]):
            while newcomers and newcomers[0][0] < part.seq:
                begin_live(newcomers.pop(0)[1].agent._handle, False, False)
            replay.replay(
                seats.handles, seats.judged, common._key[0], seats.streams, calls.rows[part.calls],
                calls.values[part.calls], found[part.proposals], noted[part.proposals], acted[part.settlements],
            )  # fmt: skip
        if not all_near(noted, calls.notes):
            raise Doubt("what the rule went by is not what is noted")
        said = dict(zip(replay.FOUND, found.T, strict=True))
        left = []
        for spent, nudges in (("spent before", "nudges before"), ("spent", "nudges")):
            rest = common._amount - said[spent]
            left.append(np.minimum(rest, common._amount - said[nudges]) if common._hard else rest)
        computed = np.column_stack([found[:, : replay.JUDGED + 1], *left])
        exact = np.array_equal(computed[:, _EXACT], calls.claims[:, _EXACT]) and np.array_equal(acted, calls.actions)
        if not exact or not all_near(computed, calls.claims):
            raise Doubt("what is found is not what was answered")

    def states(self) -> list[State]:
        """Where the part's participants are at the end."""
        return [
            State(
                name, {field: getattr(track.person, field) for field in _KNOWN}, len(track.entries), track.late_answer,
                track.withdrawn, list(track.arrivals), None if track.open is None else _proposal(track.open),
            )
            for name, track in self._tracks.items()
        ]  # fmt: skip

    def bring(self, states: list[State]) -> None:
        """Bring agents to where the record ends, so that what is stored can be compared with them."""
        for state in states:
            person = self.refold.persons[state.name]
            for field, value in state.known.items():
                setattr(person, field, value)
            agent = person.agent
            agent.step, agent._late_answer, agent.withdrawn = state.step, state.late_answer, state.withdrawn
            agent._pending.set_order(state.arrivals)
            if state.proposal is not None:
                notes = tuple(agent._notes.tolist()) if agent._at.sizes.ranked else None  # of the last one: this
                agent._proposal = replace(
                    state.proposal, priced=agent.policy.revealer.priced, rule=agent._rule_name, notes=notes
                )

    def links(self) -> Links:
        """What the part's events say of the chain."""
        return Links(*map(b"".join, zip(*self._links, strict=True))) if self._links else Links(b"", b"", b"")

    def finish(self) -> tuple[int, Spending]:
        """How many decision points there were, and what they have spent; raises `Doubt` unless all rows are right."""
        decisions = sum(len(track.entries) for track in self._tracks.values())
        compared = 0 if self._script is None else self._script.compared
        if compared != decisions or not self._stored.used_up():
            raise Doubt("a decision point's row has other changes than are on record, or belongs to none")
        return decisions, Spending(math.fsum(self._spent), self._nudges)


class _Table(NamedTuple):
    """What compiled code takes of participants, by their number."""

    handles: NDArray[Any]
    judged: NDArray[np.float64]
    streams: NDArray[np.uint64]


class _Seats:
    """The addresses of participants' arrays."""

    def __init__(self) -> None:
        self._known = 0
        self._table: _Table | None = None

    def of(self, refold: Refold) -> _Table:
        """Handles, what was judged last, and streams; made again when somebody is new."""
        assert refold.fold is not None
        if self._table is None or self._known < len(refold.persons):
            handle = refold.fold.cohort._common._handle
            handles = np.zeros((refold.enrolled, handle.size), dtype=handle.dtype)
            judged, streams = np.zeros((refold.enrolled, replay.JUDGED)), np.zeros(refold.enrolled, dtype=np.uint64)
            for person in refold.persons.values():
                handles[person.number], streams[person.number] = person.agent._handle, person.agent._key[1]
            if self._table is not None:
                judged[: len(self._table.judged)] = self._table.judged
            self._known, self._table = len(refold.persons), _Table(handles, judged, streams)
        return self._table


def make_ready(running: Running) -> None:
    """Have everything compiled, before there are several processes that would each do so."""
    handle = running.cohort()._common._handle
    handles, streams = np.zeros((0, handle.size), dtype=handle.dtype), np.zeros(0, dtype=np.uint64)
    none = np.zeros((0, 1))
    replay.replay(handles, none, np.uint64(0), streams, none, none, none, none, np.zeros(0))


def _in_order(parts: list[Calls]) -> Calls:
    """Calls of several parts, as their events came; those of one event stay as they are."""
    rows, values, claims, notes, actions = (np.concatenate(part) for part in zip(*parts, strict=True))
    proposals, settlements = _kinds(rows)
    order, proposed, settled = (
        np.argsort(seqs, kind="stable") for seqs in (rows[:, _SEQ], rows[proposals, _SEQ], rows[settlements, _SEQ])
    )
    said = notes[proposed] if len(notes) else notes
    return Calls(rows[order], values[order], claims[proposed], said, actions[settled])


def _kinds(rows: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which calls propose something, and which settle it; some do both."""
    what = rows[:, _WHAT]
    return what <= replay.STAND_BY, (what == replay.SETTLE) | (what == replay.DECIDE)


class _Round(NamedTuple):
    """Calls that can be made at once."""

    seq: float  # of the first one's event
    calls: slice
    proposals: slice
    settlements: slice


def _rounds(calls: Calls, joined: list[int]) -> Iterator[_Round]:
    """All calls, cut where someone has joined; the last round has none, and is for those who joined after them."""
    seqs = calls.rows[:, _SEQ]
    cuts = [*sorted({0, *np.searchsorted(seqs, joined).tolist(), len(seqs)}), len(seqs)]
    made, settled = (np.searchsorted(np.flatnonzero(found), cuts).tolist() for found in _kinds(calls.rows))
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        proposals, settlements = (slice(*found[number : number + 2]) for found in (made, settled))
        seq = float(seqs[begin]) if begin < len(seqs) else math.inf
        yield _Round(seq, slice(begin, end), proposals, settlements)


def _proposal(event: typed.Proposed) -> Proposal:
    """A nudge that is open, but for what the rule knows."""
    answer, step = event.answer, event.step
    assert step is not None  # as it was followed
    left = math.inf if answer.left is None else answer.left
    return Proposal(
        step, answer.nudged, answer.probability, answer.stale, answer.gap, answer.price, answer.coin, left,
        opened=False, available=True, reason=None, fresh_action=answer.fresh, disagreement=answer.disagreement,
        tolerance=answer.tolerance, priced=False, rule="", notes=None,
    )  # fmt: skip


@contextmanager
def _doubtful() -> Iterator[None]:
    """Whatever goes wrong with what the record says is a doubt."""
    try:
        yield
    except (
        OpportuneError, msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError,
        AssertionError,
    ) as error:  # fmt: skip
        raise Doubt(repr(error)) from error
