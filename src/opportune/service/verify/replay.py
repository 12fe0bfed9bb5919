"""Folding a record again: each event happens once more, and what is answered now is held to what was answered then."""

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
    """What verify found: nothing is wrong if there are no findings."""

    count: int = 0
    decisions: int = 0
    head: str = events.START
    concealed: bool = False
    """Whether coins were taken as they are on record, since the secret seed is not disclosed yet."""
    chain_only: bool = False
    """Whether nothing but the chain of hashes was checked, as actions are drawn with the secret seed, too."""
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

    def __init__(self, verdict: Verdict, *, secret: Secret | None, words: bool = False) -> None:
        self.verdict, self.secret = verdict, secret
        self.fold: Fold | None = None
        self.participants: dict[str, Participant] = {}
        self.decisions: dict[str, list[Any]] = {}
        """The rows that follow, in the order of `columns`; as lists, which take a quarter of the room."""
        self.columns: tuple[str, ...] = ()
        self._place: dict[str, int] = {}
        self.escalations: dict[str, dict[str, Any]] = {}
        self.closed = self.rehearsal = False
        self.launched = self.enrolled = self.amendments = 0
        self.pooled: int | None = None
        self._words = words
        self._seats = Enrolled()

    def take(self, event: Event, received: int) -> None:
        """Let an event happen again, and compare what is answered."""
        kind, fold = event.kind, self.fold
        if self.verdict.chain_only:
            return
        if event.participant is None and event.timezone is not None:
            self.verdict.add(f"event {event.seq} is about nobody; its timezone is {event.timezone!r} on record")
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
        """The study file, and what coins are tossed with: the seed must be the one that was committed to."""
        running = StudyInForce.from_text(event.given["file"], event.given["source"])
        self.rehearsal = event.given["rehearsal"]
        if self.secret is not None and self.secret.commitment != event.given.get("commitment"):
            self.verdict.add(f"event {event.seq}: the secret seed is not the one that was committed to")
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
        """What participants have in common was brought up to date."""
        answer = fold.pool(self.participants.values())
        self.pooled = received
        for person in self.participants.values():
            person.seq = event.seq
        then = event.answer
        if then.get("participants") != answer["participants"]:
            self.verdict.add(
                f"event {event.seq} ({event.kind}): participants is {then.get('participants')!r} on record, "
                f"{answer['participants']!r} by the fold"
            )
        for arm, common in answer["common"].items():
            if not all(near(now, then["common"][arm][name]) for name, now in common.items()):
                self.verdict.add(
                    f"event {event.seq} ({event.kind}): what participants have in common is not what the record gives"
                )

    def _happen(self, event: Event, fold: Fold, received: int) -> None:
        """An event about a participant."""
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
        """What staff must see to, and what somebody has seen to."""
        self.escalations |= {row["id"]: row for row in raised_by(event, received)}
        for name, values in acknowledged_by(event, received).items():
            if name not in self.escalations:
                self.verdict.add(f"event {event.seq} acknowledges {name!r}, which nothing has raised")
            self.escalations.setdefault(name, {}).update(values)

    def _check_zone(self, event: Event, timezone: str) -> None:
        """An event's time zone is the participant's."""
        if event.timezone != timezone:
            text = f"timezone is {event.timezone!r} on record; {event.participant} was enrolled with {timezone!r}"
            self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _check_coin(self, event: Event, person: Participant, coin: float) -> None:
        """The coin is a pure function of the participant's seed and stream and the step, and says whether to nudge."""
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


def _draws_actions(policy: Policy) -> bool:
    """Whether actions are drawn, so that they follow from the record only together with the seed."""
    return policy.randomised or policy.recommender.chances == UNTOLD


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
