"""Folding a record again: each event is applied once more, and the answer is compared with the recorded one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from opportune.engine.declared import UNTOLD
from opportune.policy import Policy
from opportune.service.record import events
from opportune.service.record.events import Event
from opportune.service.record.secret import Secret
from opportune.service.state import clock, projection
from opportune.service.state.escalations import acknowledged_by, raised_by
from opportune.service.state.fold import Fold
from opportune.service.state.participant import Participant
from opportune.service.state.streams import streams_for
from opportune.service.state.study import StudyInForce
from opportune.service.state.trial import Enrolled
from opportune.service.verify.rounding import near

MOST_FINDINGS = 100
_EXACT = (
    "nudged", "fresh", "stale", "available", "reason", "action", "outcome", "revealed", "learned", "number", "arm",
    "ineligible",
)  # fmt: skip
_NEAR = ("probability", "coin", "gap", "price", "disagreement", "tolerance", "before", "left")
_PROPOSED = itemgetter("nudged", "fresh", "stale", "available", "reason", *_NEAR)
_SETTLED = itemgetter("action", "outcome", "revealed")


@dataclass
class Verdict:
    """The result of `verify`: the record is correct if there are no findings."""

    count: int = 0
    decisions: int = 0
    head: str = events.START
    concealed: bool = False
    """Whether coins were taken from the record, as the secret seed is not disclosed yet."""
    chain_only: bool = False
    """Whether only the chain of hashes was checked, as actions are also drawn with the missing secret seed."""
    findings: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the record is whole, and everything stored follows from it."""
        return not self.findings

    def add(self, text: str) -> None:
        """Add a finding; after `MOST_FINDINGS`, only a note that there are more."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(text)
        elif len(self.findings) == MOST_FINDINGS:
            self.findings.append("... and more")


class Replay:
    """Folds events in order, and keeps the rows that follow from them."""

    def __init__(self, verdict: Verdict, *, secret: Secret | None, words: bool = False) -> None:
        self.verdict, self.secret = verdict, secret
        self.fold: Fold | None = None
        self.participants: dict[str, Participant] = {}
        self.decisions: dict[str, list[Any]] = {}
        """The rows of decisions, in the order of `columns`; lists take a quarter of the memory of dictionaries."""
        self.columns: tuple[str, ...] = ()
        self._place: dict[str, int] = {}
        self.escalations: dict[str, dict[str, Any]] = {}
        self.closed = self.rehearsal = False
        self.launched = self.enrolled = self.amendments = 0
        self.pooled: int | None = None
        self._words = words
        self._seats = Enrolled()

    def take(self, event: Event, received: int) -> None:
        """Apply an event again, and compare the answer with the recorded one."""
        kind, fold = event.kind, self.fold
        if self.verdict.chain_only:
            return
        if event.participant is None and event.timezone is not None:
            self.verdict.add(f"event {event.seq} has no participant, but timezone {event.timezone!r} on record")
        if fold is not None and kind not in events.COMMON:
            if event.study != fold.running.hash:
                self.verdict.add(f"event {event.seq} names another study file than the one in force")
            self._happen(event, fold, received)
            return
        if kind == events.LAUNCHED:
            self._launch(event)
            return
        if fold is None:
            self.verdict.add(f"event {event.seq} is {kind!r}; expected the study to be launched first")
            return
        if event.study != fold.running.hash:
            self.verdict.add(f"event {event.seq} names another study file than the one in force")
        if kind == events.ENROLLED:
            self._enrol(event, fold, received)
        elif kind == events.AMENDED:
            self.amendments += 1
            fold.amend(StudyInForce.from_text(event.given["file"], event.given["source"]))
        elif kind == events.POOLED:
            self._pool(event, fold, received)
        elif kind == events.CLOSED:
            self.closed = True

    def _launch(self, event: Event) -> None:
        """Read the study file, and set up the coins; the seed must be the one that the record commits to."""
        running = StudyInForce.from_text(event.given["file"], event.given["source"])
        self.rehearsal = event.given["rehearsal"]
        if self.secret is not None and self.secret.commitment != event.given.get("commitment"):
            self.verdict.add(f"event {event.seq}: the secret seed is not the one that the record commits to")
        seed = None if self.secret is None else self.secret.seed
        streams = streams_for(running, rehearsal=self.rehearsal, secret=seed)
        self.fold = Fold(running, streams, words=self._words)
        self.verdict.concealed = not streams.known
        self.verdict.chain_only = self.verdict.concealed and _draws_actions(running.policy)
        self.launched = clock.from_iso(event.received)

    def _enrol(self, event: Event, fold: Fold, received: int) -> None:
        assert event.participant is not None
        number = self.enrolled
        self.pooled = received if self.pooled is None else self.pooled
        self.enrolled += 1
        self._check_zone(event, event.given["timezone"])
        arm = event.answer.get("arm")
        person, answer = fold.enrol(event.participant, number, event.given, self._seats, received=received, arm=arm)
        person.seq = event.seq
        self._compare(event, answer)
        self.participants[event.participant] = person

    def _pool(self, event: Event, fold: Fold, received: int) -> None:
        """Update the pooled part of the models, and compare it with the record."""
        answer = fold.pool(self.participants.values())
        self.pooled = received
        for person in self.participants.values():
            person.seq = event.seq
        then = event.answer
        if then.get("participants") != answer["participants"]:
            self.verdict.add(
                f"event {event.seq} ({event.kind}): participants is {then.get('participants')!r} on record, "
                f"{answer['participants']!r} when folded"
            )
        for arm, common in answer["common"].items():
            if not all(near(now, then["common"][arm][name]) for name, now in common.items()):
                self.verdict.add(
                    f"event {event.seq} ({event.kind}): the pooled means and deviations differ from the record's"
                )

    def _happen(self, event: Event, fold: Fold, received: int) -> None:
        """Apply an event about a participant, and check it."""
        person = self.participants.get(event.participant or "")
        if person is None:
            self.verdict.add(f"event {event.seq} is about {event.participant!r}, who was not enrolled")
            return
        kind = event.kind
        corrected = kind == events.ZONE_CORRECTED and "from" not in event.given
        self._check_zone(event, event.given["timezone"] if corrected else person.timezone)
        if kind != events.PROPOSED and event.decision is not None:
            step = event.step or 0
            if event.decision != (person.decisions[step - 1] if 0 < step <= len(person.decisions) else None):
                self.verdict.add(f"event {event.seq} is about {event.decision!r}, which is not decision point {step}")
        sealed = person.sealed(event.given.get("earlier")) if kind in _REVEALING else ()
        if self.verdict.concealed:
            fold.coin = event.answer.get("coin")
        answer = fold.apply(kind, person, event.given, event.step)
        person.seq = event.seq
        if answer != event.answer:
            self._compare(event, answer)
        if kind == events.PROPOSED:
            self._check_coin(event, person, answer["coin"])
        self._escalate(event, received)
        self._follow(event, person, fold.running, received)
        if sealed:
            for values in projection.uncovered(person, sealed, event.given, event.seq):
                self._change(person, values, received)

    def _escalate(self, event: Event, received: int) -> None:
        """Keep the escalations that an event raises, and those that it acknowledges."""
        self.escalations |= {row["id"]: row for row in raised_by(event, received)}
        for name, values in acknowledged_by(event, received).items():
            if name not in self.escalations:
                self.verdict.add(f"event {event.seq} acknowledges {name!r}, which nothing has raised")
            self.escalations.setdefault(name, {}).update(values)

    def _check_zone(self, event: Event, timezone: str) -> None:
        """Check that an event has the participant's time zone."""
        if event.timezone != timezone:
            text = f"timezone is {event.timezone!r} on record; expected {timezone!r}, that of {event.participant}"
            self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _check_coin(self, event: Event, person: Participant, coin: float) -> None:
        """Check the coin, a pure function of the participant's seed, stream and step, and that it decides the nudge."""
        self.verdict.decisions += 1
        answer, step = event.answer, person.agent.step
        if event.step != step or event.decision != f"d{event.seq}":
            self.verdict.add(f"event {event.seq} is decision {event.decision!r} of step {event.step}, not {step}")
        if answer["coin"] != coin or answer["nudged"] != (coin < answer["probability"]):
            self.verdict.add(
                f"event {event.seq}: the coin is {answer['coin']}, expected {coin}, or it does not decide the nudge"
            )

    def _compare(self, event: Event, answer: Mapping[Any, Any]) -> None:
        """Compare the algorithm's answer with the recorded one, field by field."""
        if _alike(event.kind, answer, event.answer):
            return
        for now, then in ((answer, event.answer), (answer.get("settled", {}), event.answer.get("settled", {}))):
            differing = [name for name in _EXACT if now.get(name) != then.get(name)]
            differing += [name for name in (*_NEAR, "notes") if not near(now.get(name), then.get(name))]
            for name in differing:
                text = f"{name} is {then.get(name)!r} on record, {now.get(name)!r} when folded"
                self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _follow(self, event: Event, person: Participant, running: StudyInForce, received: int) -> None:
        """Change the decisions' rows as the writer does."""
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


def _draws_actions(policy: Policy) -> bool:
    """Whether actions are drawn at random, so that recomputing them requires the seed."""
    return policy.randomised or policy.recommender.chances == UNTOLD


_REVEALING = frozenset({events.PROPOSED, events.SETTLED})


def _alike(kind: str, now: Mapping[Any, Any], then: Mapping[Any, Any]) -> bool:
    """Whether two answers are equal but for their sentences: a fast check, which nearly always succeeds."""
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
