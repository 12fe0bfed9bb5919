"""Folding a record again: each event happens once more, and what is answered now is held to what was answered then."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from opportune.service.record import events
from opportune.service.record.events import Event
from opportune.service.state import clock, projection
from opportune.service.state.fold import Fold
from opportune.service.state.participant import Participant
from opportune.service.state.study import StudyInForce
from opportune.service.verify.rounding import near

MOST_FINDINGS = 100
_EXACT = (
    "nudged", "fresh", "stale", "available", "reason", "action", "outcome", "revealed", "learned", "number", "stream",
)  # fmt: skip
_NEAR = ("probability", "coin", "gap", "price", "disagreement", "tolerance", "before", "left")
_PROPOSED = itemgetter("nudged", "fresh", "stale", "available", "reason", *_NEAR)
_SETTLED = itemgetter("action", "outcome", "revealed")


@dataclass
class Verdict:
    """What verify found: nothing is wrong if there are no findings."""

    count: int = 0
    decisions: int = 0
    head: str = events.START
    findings: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the record is whole and everything follows from it."""
        return not self.findings

    def add(self, text: str) -> None:
        """One more thing that is wrong; after many, only that there are more."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(text)
        elif len(self.findings) == MOST_FINDINGS:
            self.findings.append("... and more")


class Replay:
    """Folds events in order, and keeps the rows that follow."""

    def __init__(self, verdict: Verdict, *, words: bool = False) -> None:
        self.verdict = verdict
        self.fold: Fold | None = None
        self.participants: dict[str, Participant] = {}
        self.decisions: dict[str, list[Any]] = {}
        """The rows that follow, in the order of `columns`; as lists, which take a quarter of the room."""
        self.columns: tuple[str, ...] = ()
        self._place: dict[str, int] = {}
        self.closed = False
        self.enrolled = 0
        self._words = words

    def take(self, event: Event, received: int) -> None:
        """Let an event happen again, and compare what is answered."""
        kind, fold = event.kind, self.fold
        if event.participant is None and event.timezone is not None:
            self.verdict.add(f"event {event.seq} is about nobody; its timezone is {event.timezone!r} on record")
        if fold is not None and kind not in events.COMMON:
            if event.study != fold.running.hash:
                self.verdict.add(f"event {event.seq} names another study file than the one in force")
            self._happen(event, fold, received)
            return
        if kind == events.LAUNCHED:
            running = StudyInForce.from_text(event.given["file"], event.given["source"])
            self.fold = Fold(running, words=self._words)
            return
        if fold is None:
            self.verdict.add(f"event {event.seq} is {kind!r}; expected the study to be launched first")
            return
        if event.study != fold.running.hash:
            self.verdict.add(f"event {event.seq} names another study file than the one in force")
        if kind == events.ENROLLED:
            self._enrol(event, fold, received)
        elif kind == events.AMENDED:
            fold.amend(StudyInForce.from_text(event.given["file"], event.given["source"]))
        else:
            self.closed = True

    def _enrol(self, event: Event, fold: Fold, received: int) -> None:
        assert event.participant is not None
        number = self.enrolled
        self.enrolled += 1
        self._check_zone(event, event.given["timezone"])
        answer = {"number": number, "stream": number << 32}
        self._compare(event, answer)
        self.participants[event.participant] = Participant(
            name=event.participant, number=number, stream=answer["stream"], timezone=event.given["timezone"],
            status="active", reason=None, enrolled=received, seq=event.seq,
            agent=fold.agent(number, answer["stream"]),
        )  # fmt: skip

    def _happen(self, event: Event, fold: Fold, received: int) -> None:
        """An event about a participant."""
        person = self.participants.get(event.participant or "")
        if person is None:
            self.verdict.add(f"event {event.seq} is about {event.participant!r}, who was not enrolled")
            return
        kind = event.kind
        self._check_zone(event, person.timezone)
        if kind != events.PROPOSED and event.decision is not None:
            step = event.step or 0
            if event.decision != (person.decisions[step - 1] if 0 < step <= len(person.decisions) else None):
                self.verdict.add(f"event {event.seq} is about {event.decision!r}, which is not decision point {step}")
        sealed = person.sealed(event.given.get("earlier")) if kind in _REVEALING else ()
        answer = fold.apply(kind, person, event.given, event.step)
        person.seq = event.seq
        if answer != event.answer:
            self._compare(event, answer)
        if kind == events.PROPOSED:
            self._check_coin(event, person, answer["coin"])
        self._follow(event, person, fold.running, received)
        if sealed:
            for values in projection.uncovered(person, sealed, event.given, event.seq):
                self._change(person, values, received)

    def _check_zone(self, event: Event, timezone: str) -> None:
        """An event's time zone is the participant's."""
        if event.timezone != timezone:
            text = f"timezone is {event.timezone!r} on record; {event.participant} was enrolled with {timezone!r}"
            self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _check_coin(self, event: Event, person: Participant, coin: float) -> None:
        """The coin is a pure function of (seed, stream, step), and says whether to nudge."""
        self.verdict.decisions += 1
        answer, step = event.answer, person.agent.step
        if event.step != step or event.decision != f"d{event.seq}":
            self.verdict.add(f"event {event.seq} is decision {event.decision!r} of step {event.step}, not {step}")
        if answer["coin"] != coin or answer["nudged"] != (coin < answer["probability"]):
            self.verdict.add(f"event {event.seq}: the coin {answer['coin']} is not {coin}, or does not say the nudge")

    def _compare(self, event: Event, answer: Mapping[Any, Any]) -> None:
        """What the algorithm answers now, and what it answered then."""
        if _alike(event.kind, answer, event.answer):
            return
        for now, then in ((answer, event.answer), (answer.get("settled", {}), event.answer.get("settled", {}))):
            for name in _EXACT:
                if now.get(name) != then.get(name):
                    text = f"{name} is {then.get(name)!r} on record, {now.get(name)!r} by the fold"
                    self.verdict.add(f"event {event.seq} ({event.kind}): {text}")
            for name in (*_NEAR, "notes"):
                if not near(now.get(name), then.get(name)):
                    text = f"{name} is {then.get(name)!r} on record, {now.get(name)!r} by the fold"
                    self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _follow(self, event: Event, person: Participant, running: StudyInForce, received: int) -> None:
        """The rows that follow, as the writer makes them."""
        happened = received if event.happened == event.received else clock.from_iso(event.happened)
        for new, values in projection.changes(event, person, running, received, happened):
            if new:
                if not self.columns:
                    self.columns = tuple(values)
                    self._place = {column: place for place, column in enumerate(values)}
                self.decisions[values["id"]] = list(values.values())
                person.follow(True, values, happened)
            else:
                self._change(person, values, happened)

    def _change(self, person: Participant, values: dict[str, Any], happened: int) -> None:
        row, place = self.decisions[values["id"]], self._place
        for column, value in values.items():
            row[place[column]] = value
        person.follow(False, values, happened)


_REVEALING = frozenset({events.PROPOSED, events.SETTLED})


def _alike(kind: str, now: Mapping[Any, Any], then: Mapping[Any, Any]) -> bool:
    """Whether two answers are the same but for their words: the quick look at what is nearly always so."""
    try:
        if kind == events.SETTLED:
            return bool(_SETTLED(now) == _SETTLED(then))
        if kind == events.PROPOSED:
            one, other = now.get("settled"), then.get("settled")
            same = one is other or (one is not None and other is not None and _SETTLED(one) == _SETTLED(other))
            return bool(same and _PROPOSED(now) == _PROPOSED(then) and now.get("notes") == then.get("notes"))
    except (KeyError, TypeError):
        return False
    return now == then
