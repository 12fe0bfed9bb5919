"""One transaction of the writer: what it reads, the events it appends, and the rows that follow from them.

A writer first locks the study's row (PostgreSQL) or the file (SQLite), so events have one order, and what was read
stays valid until the commit. Agents are kept between transactions; a participant's is current while its `seq` equals
the stored row's.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from opportune._version import __version__
from opportune.algorithm.version import ALGORITHM
from opportune.errors import DataError, StateError
from opportune.service.problems import Refused
from opportune.service.record import events, outbox, secret, tables
from opportune.service.record.database import Elsewhere, check_schema, update_rows
from opportune.service.record.events import Event
from opportune.service.record.idempotency import Answers, Key
from opportune.service.state import clock, projection
from opportune.service.state.escalations import keep_escalations
from opportune.service.state.fold import Fold
from opportune.service.state.packing import pack, pack_shared, unpack_shared
from opportune.service.state.participant import CHANGING, Participant
from opportune.service.state.streams import streams_for
from opportune.service.state.study import StudyInForce
from opportune.service.state.trial import Enrolled

_CALLS, _DECISIONS, _EVENTS, _PEOPLE = tables.calls, tables.decisions, tables.events, tables.participants
# Built once, as every request waits for them:
_LOCK_STUDY = select(*(c for c in tables.study.c if c.name not in {"file", "shared"})).with_for_update()
_SAID = select(_CALLS.c.decision, _CALLS.c.outcome, _CALLS.c.done_by).where(_CALLS.c.due.is_not(None))
_DECISIONS_OF_IDS = select(_DECISIONS).where(_DECISIONS.c.id.in_(bindparam("ids", expanding=True)))
_SINCE = _DECISIONS.c.participant == bindparam("name"), _DECISIONS.c.seq > bindparam("since")
_DECISIONS_SINCE = select(_DECISIONS).where(*_SINCE).order_by(_DECISIONS.c.step)
_NAMED = _PEOPLE.c.name.in_(bindparam("names", expanding=True))
_SEQS, _PEOPLE_OF_NAMES = select(_PEOPLE.c.name, _PEOPLE.c.seq).where(_NAMED), select(_PEOPLE).where(_NAMED)
_SEATS = select(_PEOPLE.c.arm, _PEOPLE.c.stratum)
_ADD_EVENTS, _ADD_DECISIONS, _ADD_PEOPLE = insert(_EVENTS), insert(_DECISIONS), insert(_PEOPLE)


class Memory:
    """The agents that a writer keeps between transactions, and the last events that they include."""

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.participants: dict[str, Participant] = {}
        self.seq = 0
        """The last event that the shared state includes."""
        self.seen = (0, events.START)
        """The last event seen, and its hash: the memory is valid only for a record that contains it."""

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Drop what may differ from the database: the shared state, and all participants or these."""
        self.seq = 0
        for name in list(self.participants) if names is None else names:
            self.participants.pop(name, None)


class Transaction:
    """A transaction: read under the lock, append events, and write all of it at once in `flush`."""

    def __init__(self, connection: Connection, memory: Memory) -> None:
        self.connection = connection
        self.memory = memory
        row = connection.execute(_LOCK_STUDY).mappings().one_or_none()
        check_schema(connection)  # after the lock, which a migration holds until the tables are changed
        self.study: dict[str, Any] | None = None if row is None else dict(row)
        self.seq: int = 0 if row is None else row["seq"]
        self.head: str = events.START if row is None else row["head"]
        self.participants: dict[str, Participant | None] = {}
        self.applying = False
        self.rebuilt = False
        self.wrote = False
        """Whether the transaction writes anything."""
        self.answers = Answers(connection)
        self._events: list[dict[str, Any]] = []  # rows
        self._messages: list[tuple[str, dict[str, Any]]] = []
        self._decisions: dict[str, dict[str, Any]] = {}  # rows read or made in this transaction
        self._new: dict[str, None] = {}
        self._updates: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, Participant] = {}
        self._enrolled: set[str] = set()
        self._said: dict[str, tuple[str, str]] | None = None
        self._seats: Enrolled | None = None
        if row is not None:
            self._attach(row)
        else:
            memory.fold = None
        memory.seen = (self.seq, self.head)

    @property
    def said(self) -> dict[str, tuple[str, str]]:
        """Outcomes of calls that staff can still undo: {decision: (outcome, who)}; read when first needed."""
        if self._said is None:
            self._said = {row.decision: (row.outcome, row.done_by) for row in self.connection.execute(_SAID)}
        return self._said

    def calls_changed(self) -> None:
        """Read `said` again: the table of calls was changed in this transaction."""
        self._said = None

    @property
    def fold(self) -> Fold:
        """The agents; raises before a study is launched."""
        if self.memory.fold is None:
            raise Refused("not_found", "no study is launched in this database")
        return self.memory.fold

    @property
    def running(self) -> StudyInForce:
        """The study file in force."""
        return self.fold.running

    def _attach(self, row: Mapping[Any, Any]) -> None:
        """Bring the memory up to date with the study's row."""
        memory = self.memory
        if row["algorithm"] != ALGORITHM:
            raise Elsewhere(f"the study uses algorithm {row['algorithm']}, and this process {ALGORITHM}")
        if row["moved"] is not None:
            raise Elsewhere(f"the study was moved to {row['moved']}")
        if memory.seen != (self.seq, self.head) and not self._on_record(*memory.seen):
            memory.forget()  # the record was cut off since, and continued differently
            memory.fold = None
        if memory.fold is None or memory.fold.running.hash != row["hash"]:
            running = StudyInForce.from_text(self.connection.execute(select(tables.study.c.file)).scalar_one())
            try:
                known = secret.stored(self.connection)
            except DataError as error:  # this process cannot read it
                raise Elsewhere(str(error)) from None
            if not (known or row["rehearsal"]):
                raise Elsewhere("the study's secret seed is not in this database, as in an auditor's copy")
            memory.forget()
            streams = streams_for(running, rehearsal=row["rehearsal"], secret=known.seed if known else None)
            memory.fold = Fold(running, streams, explains=True)
        if self.running.together and memory.seq != self.seq:
            try:
                shared = self.connection.execute(select(tables.study.c.shared)).scalar_one()
                unpack_shared(memory.fold.cohorts, shared)
            except StateError:
                self._rebuild()
        memory.seq = self.seq

    def _on_record(self, seq: int, head: str) -> bool:
        """Whether the record contains an event with this hash, and so everything before it."""
        return seq == 0 or self.connection.execute(select(_EVENTS.c.hash).where(_EVENTS.c.seq == seq)).scalar() == head

    def _rebuild(self) -> None:
        """Rebuild all states from the record, as a stored one cannot be used; this transaction stores them."""
        from opportune.service.verify.check import rebuilt  # noqa: PLC0415  (which folds what transactions write)

        made = rebuilt(self.connection)
        self.memory.fold, self.memory.participants = made.fold, made.participants
        self.participants = {name: made.participants.get(name) for name in self.participants}
        self._changed = dict(made.participants)
        self.rebuilt = True

    def read(self, *, keys: Iterable[Key] = (), names: Iterable[str] = (), ids: Iterable[str] = ()) -> None:
        """Read the requests, participants and decisions that a batch of commands concerns, with few queries."""
        self.answers.read(keys)
        people = [*names, *(row["participant"] for row in self._read_decisions(list(ids)))]
        missing = [name for name in dict.fromkeys(people) if name not in self.participants]
        if missing:
            self._read_people(missing)
            waiting = [person.open_decision for name in missing if (person := self.participants[name]) is not None]
            self._read_decisions([decision for decision in waiting if decision is not None])  # the next one settles it

    def _read_decisions(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Rows of decisions, including the changes made in this transaction."""
        missing = [decision for decision in ids if decision not in self._decisions]
        if missing:
            for row in self.connection.execute(_DECISIONS_OF_IDS, {"ids": missing}).mappings():
                self._decisions[row["id"]] = {**row, **self._updates.get(row["id"], {})}
        return [self._decisions[decision] for decision in ids if decision in self._decisions]

    def _read_people(self, names: Sequence[str]) -> None:
        """Read participants by name; states that memory holds at the stored `seq` are not read."""
        known = self.memory.participants
        self.participants |= dict.fromkeys(names)
        stored = self.connection.execute(_SEQS, {"names": names}).all()
        stale = [name for name, seq in stored if name not in known or known[name].seq != seq]
        rows = {}
        if stale:
            rows = {row["name"]: row for row in self.connection.execute(_PEOPLE_OF_NAMES, {"names": stale}).mappings()}
        for name, _seq in stored:
            unpacked = name in rows and not self.rebuilt  # a rebuild has put all participants in memory
            self.participants[name] = self._unpacked(rows[name]) if unpacked else self.memory.participants[name]

    def _unpacked(self, row: Mapping[Any, Any]) -> Participant:
        """The participant of a row; decisions that memory already holds are not read again."""
        known = self.memory.participants.pop(row["name"], None)  # put back only once it is complete
        seat = {name: row[name] for name in ("arm", "member", "began")}
        agent = self.fold.agent(row["number"], **seat) if known is None else known.agent
        since = 0 if known is None else known.seq
        decisions = self.connection.execute(_DECISIONS_SINCE, {"name": row["name"], "since": since}).mappings()
        try:
            person = Participant.from_row(row, decisions, agent=agent, known=[] if known is None else known.decisions)
        except StateError:
            if self._events:  # a rebuild would lack them: they are not in the database yet
                raise
            self._rebuild()
            return self.memory.participants[row["name"]]
        self.memory.participants[row["name"]] = person
        return person

    def person(self, name: str) -> Participant:
        """A participant by name."""
        if name not in self.participants:
            self.read(names=[name])
        if (found := self.participants[name]) is None:
            raise Refused("not_found", f"no participant is called {name!r}")
        return found

    def decision(self, decision: str) -> dict[str, Any]:
        """A decision's row by its id, including the changes made in this transaction."""
        if decision not in self._decisions:
            self.read(ids=[decision])
        found = self._decisions.get(decision)
        if found is None:
            raise Refused("not_found", f"no decision is called {decision!r}")
        return found

    def launch(self, running: StudyInForce, *, who: str, received: int, source: str, rehearsal: bool) -> None:
        """Append the first event: it puts the study file in force and fixes the seed of the coins."""
        made = None if rehearsal else secret.make(self.connection)
        streams = streams_for(running, rehearsal=rehearsal, secret=made.seed if made else None)
        self.memory.fold = Fold(running, streams, explains=True)
        self.study = {
            "id": 1, "name": running.study.name, "hash": running.hash, "status": "open", "launched": received,
            "enrolled": 0, "amendments": 0, "pooled": None, "amount": running.amount if running.shared else None,
            "hard": int(running.hard), "spent": 0.0, "nudges": 0, "file": running.text, "rehearsal": rehearsal,
            "algorithm": ALGORITHM,
        }  # fmt: skip
        given = {"file": running.text, "source": PurePath(source).name, "rehearsal": rehearsal}
        if made is not None:
            given["commitment"] = made.commitment
        self._append(events.LAUNCHED, given=given, answer={}, who=who, received=received)
        row = {**self.study, "seq": self.seq, "head": self.head, "shared": pack_shared(self.fold.cohorts)}
        self.connection.execute(insert(tables.study), row)

    def enrol(self, name: str, given: dict[str, Any], *, who: str, received: int) -> Participant:
        """Enrol a participant; `given` contains the time zone and the baseline values."""
        assert self.study is not None
        if self._seats is None:
            self._seats = Enrolled(tuple(row) for row in self.connection.execute(_SEATS))
        person, answer = self.fold.enrol(name, self.study["enrolled"], given, self._seats, received=received)
        self.study["enrolled"] += 1
        self.study["pooled"] = self.study["pooled"] or received
        event = self._append(events.ENROLLED, person=person, given=given, answer=answer, who=who, received=received)
        person.seq = event.seq
        self.participants[name] = self.memory.participants[name] = self._changed[name] = person
        self._enrolled.add(name)
        return person

    def happen(
        self, kind: str, person: Participant, given: dict[str, Any], *, who: str, received: int,
        happened: int | None = None, step: int | None = None, decision: str | None = None,
    ) -> Event:  # fmt: skip
        """Apply an event to a participant, and append it to the record."""
        at = received if happened is None else happened
        self._changed[person.name] = person
        sealed = person.sealed(given.get("earlier")) if kind in {events.SETTLED, events.PROPOSED} else []
        self.applying = True  # if the call fails, this stays set: the agent may have changed
        answer = self.fold.apply(kind, person, given, step)
        self.applying = False
        if kind == events.PROPOSED:
            step, decision = person.agent.step, f"d{self.seq + 1}"
        event = self._append(
            kind, person=person, given=given, answer=answer, who=who, received=received, happened=at, step=step,
            decision=decision,
        )  # fmt: skip
        person.seq = event.seq
        keep_escalations(self.connection, event, received)
        self._follow(event, person, received, at)
        if sealed:
            for values in projection.uncovered(person, sealed, given, event.seq):
                self._change(person, values, at)
        return event

    def _follow(self, event: Event, person: Participant, received: int, happened: int) -> None:
        """Change the decisions' rows as an event requires."""
        for new, values in projection.changes(event, person, self.running, received, happened):
            if new:
                self._decisions[values["id"]] = values
                self._new[values["id"]] = None
                person.follow(True, values, happened)
            else:
                self._change(person, values, happened)

    def _change(self, person: Participant, values: dict[str, Any], happened: int) -> None:
        """Change values in a decision's row."""
        decision = values["id"]
        if decision in self._decisions:
            self._decisions[decision].update(values)
        if decision not in self._new:
            self._updates.setdefault(decision, {}).update(values)
        person.follow(False, values, happened)

    def _append(
        self, kind: str, *, given: dict[str, Any], answer: dict[str, Any], who: str, received: int,
        happened: int | None = None, person: Participant | None = None, step: int | None = None,
        decision: str | None = None,
    ) -> Event:  # fmt: skip
        now = clock.iso(received)
        event = Event(
            seq=self.seq + 1, kind=kind, before=self.head, participant=None if person is None else person.name,
            step=step, decision=decision, who=who, received=now,
            happened=now if happened is None or happened == received else clock.iso(happened),
            timezone=None if person is None else person.timezone, version=__version__, algorithm=ALGORITHM,
            study=self.running.hash, salt=events.new_salt(), given=given, answer=answer,
        )  # fmt: skip
        self._messages += outbox.messages_about(event)
        body = events.encode(event)
        self.seq, self.head = event.seq, events.hash_of(body)
        self._events.append({
            "seq": event.seq, "kind": kind, "participant": event.participant, "decision": decision, "who": who,
            "received": received, "hash": self.head, "body": body.decode(),
        })  # fmt: skip
        return event

    def amend(self, running: StudyInForce, given: dict[str, Any], *, who: str, received: int) -> Event:
        """Put another study file in force."""
        assert self.study is not None
        event = self._append(events.AMENDED, given=given, answer={}, who=who, received=received)
        self.fold.amend(running)
        self.study["hash"] = running.hash
        self.study["amendments"] += 1
        self.connection.execute(update(tables.study).values(file=running.text, hash=running.hash))
        return event

    def close(self, given: dict[str, Any], *, who: str, received: int) -> Event:
        """Close the study: no more decisions are made, and the secret seed is disclosed."""
        assert self.study is not None
        known = secret.stored(self.connection)
        if known is not None:
            given = {**given, "secret": known.disclosed()}
        self.study["status"] = "closed"
        return self._append(events.CLOSED, given=given, answer={}, who=who, received=received)

    def administer(self, kind: str, given: dict[str, Any], *, who: str, received: int,
                   answer: dict[str, Any] | None = None, people: Iterable[Participant] = ()) -> Event:  # fmt: skip
        """Append an event about accounts, downloads, the clock, or all of these people."""
        event = self._append(kind, given=given, answer=answer or {}, who=who, received=received)
        for person in people:
            person.seq, self._changed[person.name] = event.seq, person
        return event

    def flush(self) -> None:
        """Write everything; it is durable once the transaction is committed."""
        self.answers.write()
        if not (self.wrote or self.rebuilt or self._events):
            return
        self.wrote = True
        if self._events:
            self.connection.execute(_ADD_EVENTS, self._events)
            rehearsal = self.study is not None and bool(self.study["rehearsal"])
            outbox.put(self.connection, self.running, self._messages, clock.now(), rehearsal=rehearsal)
        if self._new:
            self.connection.execute(_ADD_DECISIONS, [self._decisions[decision] for decision in self._new])
        self._update_decisions()
        self._write_people()
        self._write_study()

    def touch(self) -> None:
        """Have the study's row written unchanged, to see whether the database accepts writes."""
        self.wrote = self.study is not None

    def _update_decisions(self) -> None:
        """Update stored rows, grouping those in which the same columns have changed."""
        alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for values in self._updates.values():
            alike.setdefault(tuple(values), []).append(values)
        for columns, rows in alike.items():
            update_rows(self.connection, tables.decisions, "id", columns, rows)

    def _write_people(self) -> None:
        """Write the changed participants; raises `Unsound` if a state must not be stored."""
        rows = [{**p.row(shared=self.running.shared), "state": pack(p.agent)} for p in self._changed.values()]
        new = [row for row in rows if row["name"] in self._enrolled]
        if new:
            self.connection.execute(_ADD_PEOPLE, new)
        if len(new) < len(rows):
            known = [row for row in rows if row["name"] not in self._enrolled]
            update_rows(self.connection, tables.participants, "name", CHANGING, known)

    def _write_study(self) -> None:
        assert self.study is not None
        values: dict[str, Any] = {"id": 1, "seq": self.seq, "head": self.head}
        values |= {name: self.study[name] for name in ("enrolled", "status", "amendments", "pooled")}
        if self.running.together:
            values["shared"] = pack_shared(self.fold.cohorts)
        if self.running.shared:
            values["spent"], values["nudges"] = self.fold.spending()
        update_rows(self.connection, tables.study, "id", values, [values])

    def committed(self) -> None:
        """Note that the transaction is durable: memory now includes its last event."""
        self.memory.seq, self.memory.seen = self.seq, (self.seq, self.head)
