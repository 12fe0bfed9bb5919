"""Verify: fold the record again; compare every decision with what was answered, every row with what is stored."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from opportune.core.rng import COIN, draw
from opportune.errors import DataError, OpportuneError
from opportune.live.packing import pack_shared
from opportune.service import clock, events, projection, tables
from opportune.service.database import Database
from opportune.service.events import Event
from opportune.service.fold import Fold
from opportune.service.person import Person
from opportune.service.running import Running

CLOSE = 1e-9
MOST_FINDINGS = 100
_EXACT = ("nudged", "fresh", "stale", "available", "action", "outcome", "revealed", "learned", "number", "stream")
_NEAR = ("probability", "coin", "gap", "price", "disagreement", "tolerance", "before", "left")


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


class Verifier:
    """Folds events in order, and keeps the rows that follow."""

    def __init__(self, verdict: Verdict, *, rows: bool = True) -> None:
        self.verdict = verdict
        self.fold: Fold | None = None
        self.persons: dict[str, Person] = {}
        self.decisions: dict[str, dict[str, Any]] = {}
        self.closed = False
        self.spent = 0.0
        self._rows = rows
        self._ids: dict[tuple[str, int], str] = {}

    def take(self, event: Event) -> None:
        """One event: let it happen again, and compare what is answered."""
        if event.kind == events.LAUNCHED:
            self.fold = Fold(Running.from_text(event.given["file"], event.given["source"]))
            return
        if self.fold is None:
            self.verdict.add(f"event {event.seq} is {event.kind!r}; expected the study to be launched first")
            return
        if event.study != self.fold.running.hash:
            self.verdict.add(f"event {event.seq} names another study file than the one in force")
        if event.kind == events.AMENDED:
            self.fold.amend(Running.from_text(event.given["file"], event.given["source"]))
        elif event.kind == events.CLOSED:
            self.closed = True
        elif event.kind == events.ENROLLED:
            self._enrol(event)
        else:
            self._happen(event, self.fold)

    def _enrol(self, event: Event) -> None:
        assert self.fold is not None
        assert event.participant is not None
        number = len(self.persons)
        answer = {"number": number, "stream": number << 32}
        self._compare(event, answer)
        self.persons[event.participant] = Person(
            name=event.participant, number=number, stream=answer["stream"], timezone=event.given["timezone"],
            status="active", reason=None, enrolled=clock.from_iso(event.received), seq=event.seq,
            agent=self.fold.agent(number, answer["stream"]),
        )  # fmt: skip

    def _happen(self, event: Event, fold: Fold) -> None:
        person = self.persons.get(event.participant or "")
        if person is None:
            self.verdict.add(f"event {event.seq} is about {event.participant!r}, who was not enrolled")
            return
        sealed = person.sealed(event.given.get("earlier")) if event.kind in {events.SETTLED, events.PROPOSED} else []
        answer = fold.apply(event.kind, person, event.given, event.step)
        person.seq = event.seq
        self._compare(event, answer)
        if event.kind == events.PROPOSED:
            self._check_coin(event, person)
        if self._rows:
            self._follow(event, person, fold, sealed)

    def _check_coin(self, event: Event, person: Person) -> None:
        self.verdict.decisions += 1
        answer, agent = event.answer, person.agent
        if event.step != agent.step or event.decision != f"d{event.seq}":
            self.verdict.add(f"event {event.seq} is decision {event.decision!r} of step {event.step}, not {agent.step}")
        coin = draw(*agent._key, agent.step, COIN)
        if answer["coin"] != coin or answer["nudged"] != (coin < answer["probability"]):
            self.verdict.add(f"event {event.seq}: the coin {answer['coin']} is not {coin}, or does not say the nudge")
        self.spent += answer["probability"]

    def _compare(self, event: Event, answer: Mapping[Any, Any]) -> None:
        """What the algorithm answers now, and what it answered then."""
        if answer == event.answer:
            return
        for now, then in ((answer, event.answer), (answer.get("settled", {}), event.answer.get("settled", {}))):
            for name in _EXACT:
                if now.get(name) != then.get(name):
                    text = f"{name} is {then.get(name)!r} on record, {now.get(name)!r} by the fold"
                    self.verdict.add(f"event {event.seq} ({event.kind}): {text}")
            for name in _NEAR:
                if not near(now.get(name), then.get(name)):
                    text = f"{name} is {then.get(name)!r} on record, {now.get(name)!r} by the fold"
                    self.verdict.add(f"event {event.seq} ({event.kind}): {text}")

    def _follow(self, event: Event, person: Person, fold: Fold, sealed: list[int]) -> None:
        """The rows that follow, as the writer makes them."""
        received, happened = clock.from_iso(event.received), clock.from_iso(event.happened)
        for new, values in projection.changes(event, person, fold.running, received, happened):
            row = self.decisions.setdefault(values["id"], {})
            row.update(values)
            if new:
                self._ids[person.name, values["step"]] = values["id"]
                person.last_decided = happened
            if event.kind in {events.PROPOSED, events.SETTLED}:
                person.open_decision = values["id"] if row["status"] == "nudge" else None
            if values.get("revealed"):
                person.last_reveal = happened
        for number in sealed:
            if person.agent._steps[number].seen:
                self.decisions[self._ids[person.name, number]].update(projection.seen(number, person, event.seq))


def rebuilt(connection: Connection) -> Verifier:
    """The whole state of a study from its record alone; raises `DataError` if the record itself is not whole."""
    verifier = Verifier(Verdict())
    for row in _stream(connection):
        event = _linked(row, verifier.verdict)
        if event is None or not verifier.verdict.holds:
            break
        verifier.take(event)
    if not verifier.verdict.holds or verifier.fold is None:
        raise DataError(f"the state cannot be made from the record: {'; '.join(verifier.verdict.findings[:3])}")
    return verifier


def near(one: Any, other: Any) -> bool:
    """Whether two numbers are equal but for rounding; or both are missing."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)


def verify(database: Database, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """Check the chain, the decisions, the budgets and the tables of a study."""
    verdict = Verdict()
    verifier = Verifier(verdict)
    with database.reading.connect() as connection, connection.begin():
        total = connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
        for row in _stream(connection):
            event = _linked(row, verdict)
            if event is None:
                continue
            try:
                verifier.take(event)
            except (OpportuneError, KeyError, TypeError, AssertionError) as error:
                verdict.add(f"event {event.seq} ({event.kind}) cannot be folded: {error}")
            if progress is not None and event.seq % 1000 == 0:
                progress(event.seq, total)
        _compare_tables(connection, verifier)
    return verdict


def _stream(connection: Connection) -> Iterator[Mapping[Any, Any]]:
    """Events in order, some thousand at a time."""
    after, size = 0, 5000
    while True:
        query = select(tables.events).where(tables.events.c.seq > after).order_by(tables.events.c.seq).limit(size)
        found = connection.execute(query).mappings().all()
        yield from found
        if len(found) < size:
            return
        after = found[-1]["seq"]


def _linked(row: Mapping[Any, Any], verdict: Verdict) -> Event | None:
    """An event, if it is whole and follows the one before."""
    body = row["body"].encode()
    verdict.count += 1
    if row["seq"] != verdict.count:
        verdict.add(f"event {row['seq']} is number {verdict.count} of the record: there is a gap")
        verdict.count = row["seq"]
    found = events.hash_of(body)
    try:
        event = events.decode(body)
    except OpportuneError as error:
        verdict.add(f"event {row['seq']}: {error}")
        return None
    if found != row["hash"] or event.before != verdict.head:
        verdict.add(f"event {row['seq']} is not what was written: its hash does not fit it, or the one before")
    columns = (event.seq, event.kind, event.participant, event.decision, event.who, clock.from_iso(event.received))
    if columns != tuple(row[name] for name in ("seq", "kind", "participant", "decision", "who", "received")):
        verdict.add(f"event {row['seq']}: its columns are not what its body says")
    verdict.head = row["hash"]
    return event


def _compare_tables(connection: Connection, verifier: Verifier) -> None:
    """Whether the tables hold what folding gives."""
    verdict, fold = verifier.verdict, verifier.fold
    study = connection.execute(select(tables.study)).mappings().one_or_none()
    if study is None or fold is None:
        if verdict.count or study is not None:
            verdict.add("there are events, but no study; expected both or neither")
        return
    if (study["seq"], study["head"]) != (verdict.count, verdict.head):
        verdict.add(f"the study is as of event {study['seq']}; the record ends with event {verdict.count}")
    expected = {"hash": fold.running.hash, "status": "closed" if verifier.closed else "open"}
    _same("study", study, {**expected, "enrolled": len(verifier.persons)}, verdict)
    shared = fold.running.policy.shared
    if fold.running.policy.together and study["shared"] != pack_shared(fold.cohort):
        verdict.add("what participants share is not what the record gives")
    people = {row["name"]: row for row in connection.execute(select(tables.participants)).mappings()}
    states = {row["participant"]: row for row in connection.execute(select(tables.states)).mappings()}
    spent, nudges = 0.0, 0
    for name, person in verifier.persons.items():
        _same(f"participant {name}", people.pop(name, None), person.row(shared=shared), verdict)
        state = states.get(name)
        if state is None or (state["seq"], state["data"]) != (person.seq, person.pack(fold.own)):
            verdict.add(f"participant {name}: the stored state is not what the record gives")
    for name in people:
        verdict.add(f"participant {name} is stored, but was never enrolled")
    stored = {row["id"]: row for row in connection.execute(select(tables.decisions)).mappings()}
    for name, values in verifier.decisions.items():
        _same(f"decision {name}", stored.pop(name, None), values, verdict)
        spent += values["probability"]
        nudges += values["nudge"]
    for name in stored:
        verdict.add(f"decision {name} is stored, but not on record")
    _check_budget(verifier, study, connection, spent, nudges)


def _check_budget(
    verifier: Verifier, study: Mapping[Any, Any], connection: Connection, spent: float, nudges: int
) -> None:
    """The sum over the record is what is stored as spent, and not more than there is."""
    verdict, fold = verifier.verdict, verifier.fold
    assert fold is not None
    stored, counted = study["spent"], study["nudges"]
    if not fold.running.policy.shared:
        table = tables.participants.c
        stored, counted = connection.execute(
            select(func.coalesce(func.sum(table.spent), 0.0), func.coalesce(func.sum(table.nudges), 0))
        ).one()
    if not math.isclose(stored, spent, rel_tol=1e-9, abs_tol=1e-6) or int(counted) != nudges:
        verdict.add(f"{stored:g} and {counted} nudges are stored as spent; the record sums to {spent:g} and {nudges}")
    if fold.running.amount is None:
        return
    for row in [study] if fold.running.policy.shared else connection.execute(select(tables.participants)).mappings():
        if row["spent"] > fold.running.amount + tables.SPARE or (
            fold.running.hard and row["nudges"] > fold.running.amount
        ):
            verdict.add(
                f"{row['name']}: {row['spent']:g} and {row['nudges']} nudges of {fold.running.amount:g} are spent"
            )


def _same(what: str, stored: Mapping[Any, Any] | None, expected: Mapping[Any, Any], verdict: Verdict) -> None:
    if stored is None:
        verdict.add(f"{what} is on record, but not stored")
        return
    for name, value in expected.items():
        if stored[name] != value:
            verdict.add(f"{what}: {name} is stored as {stored[name]!r}; the record gives {value!r}")
