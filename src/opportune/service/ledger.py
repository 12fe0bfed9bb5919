"""One transaction of the writer: what it reads, the events it appends, and the rows that follow from them.

Whoever writes has locked the study's row (PostgreSQL) or the file (SQLite) first, so events have one order, and what
was read is what still holds. Agents are kept between transactions and are as good as the row's `seq` says.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from opportune._version import __version__
from opportune.errors import StateError
from opportune.live.packing import UNSOUND, Unsound, healthy_shared, pack_shared, unpack_shared
from opportune.service import clock, events, projection, states, tables
from opportune.service.answers import Answers
from opportune.service.events import Event
from opportune.service.fold import Fold
from opportune.service.person import Person, person_of
from opportune.service.problems import Refused
from opportune.service.running import Running
from opportune.service.statements import find, find_all, find_one, insert_values, update_all
from opportune.service.states import Memory, fold_again, write_people

_STUDY = tuple(c.name for c in tables.study.c if c.name not in {"file", "shared"})
_FILE = select(tables.study.c.file)
_SHARED = select(tables.study.c.shared)
_STATE = select(tables.states.c.seq, tables.states.c.data).where(tables.states.c.participant == bindparam("name"))
_STEPS = (
    select(tables.decisions)
    .where(tables.made_for(bindparam("name")), tables.decisions.c.seq > bindparam("since"))
    .order_by(tables.decisions.c.step)  # agents uncover steps in the order in which they have them
)
_SAID = "SELECT decision, outcome, done_by FROM calls WHERE due IS NOT NULL"
_DECISIONS = select(tables.decisions).where(tables.decisions.c.id.in_(bindparam("ids", expanding=True)))


class Ledger:
    """A transaction: read under the lock, append events, and write all of it at once in `flush`."""

    def __init__(self, connection: Connection, memory: Memory, *, lock: bool) -> None:
        self.connection = connection
        self.memory = memory
        row = find_one(connection, tables.study, _STUDY, lock=lock)
        self.study: dict[str, Any] | None = row
        self.seq: int = 0 if row is None else row["seq"]
        self.head: str = events.START if row is None else row["head"]
        self.persons: dict[str, Person | None] = {}
        self.applying = False
        self.rebuilt = False
        self.wrote = False
        """Whether there is something to make durable."""
        self._events: list[tuple[Any, ...]] = []  # rows
        self._decisions: dict[str, dict[str, Any]] = {}  # rows read or made in this transaction
        self._new: dict[str, None] = {}
        self._updates: dict[str, dict[str, Any]] = {}
        self._dirty: dict[str, Person] = {}
        self._stored: dict[str, Person] = {}
        self._waits = not lock  # whether states may be stored later: in SQLite, where one process writes
        self._few = False  # whether most are: then the others whole, so that rows of participants stay small
        self._enrolled: set[str] = set()
        self._said: dict[str, tuple[str, str]] | None = None
        self.answers = Answers(connection, None if lock else memory.recent)
        if row is not None:
            self._attach(row)
        else:
            memory.fold = None

    @property
    def said(self) -> dict[str, tuple[str, str]]:
        """What staff have said of calls and can still undo: {decision: (outcome, who)}; read once, if at all."""
        if self._said is None:
            self._said = {decision: (outcome, who) for decision, outcome, who in find(self.connection, _SAID)}
        return self._said

    def calls_changed(self) -> None:
        """Staff have said something in this transaction."""
        self._said = None

    @property
    def fold(self) -> Fold:
        """The agents; raises before a study is launched."""
        if self.memory.fold is None:
            raise Refused("not_found", "no study is launched in this database")
        return self.memory.fold

    @property
    def running(self) -> Running:
        """The study file in force."""
        return self.fold.running

    @property
    def together(self) -> bool:
        """Whether participants share something."""
        return self.fold.running.policy.together

    def _attach(self, row: Mapping[Any, Any]) -> None:
        """Bring what is kept between transactions to what this one has read."""
        memory = self.memory
        if memory.fold is None or memory.fold.running.hash != row["hash"]:
            running = Running.from_text(self.connection.execute(_FILE).scalar_one())
            memory.forget()
            memory.fold = Fold(running)
        if self.together and memory.seq != self.seq:
            try:
                unpack_shared(memory.fold.cohort, self.connection.execute(_SHARED).scalar_one())
            except StateError:
                self._rebuild()
        if memory.seq != self.seq:
            memory.current.clear()
        memory.seq = self.seq

    def _rebuild(self) -> None:
        """A stored state cannot be used: make all of them from the record, and store them with this transaction."""
        from opportune.service.verify import rebuilt  # noqa: PLC0415  (which folds what ledgers write)

        made = rebuilt(self.connection)
        self.memory.fold, self.memory.persons = made.fold, made.persons
        self.persons = {name: made.persons.get(name) for name in self.persons}
        self._dirty = dict(made.persons)
        self.rebuilt = True

    def read(self, *, keys: Iterable[str], names: Iterable[str], ids: Iterable[str]) -> None:
        """Read what a batch of commands is about, in three questions."""
        self.answers.read(list(keys))
        decisions = list(ids)
        people = dict.fromkeys(names)
        if decisions:
            for found in self._find_decisions(decisions):
                people[found["participant"]] = None
        missing = [name for name in people if name not in self.persons]
        if missing:
            self._read_people(missing)
            self._read_open()  # the next decision point settles them

    def _read_open(self) -> None:
        """The decisions that wait for an answer, of those who are here."""
        missing = []
        for person in self.persons.values():
            if person is not None and person.open_decision is not None and person.open_decision not in self._decisions:
                if person.open_row is not None:
                    self._decisions[person.open_decision] = person.open_row
                else:
                    missing.append(person.open_decision)
        if missing:
            self._find_decisions(missing)

    def _find_decisions(self, ids: list[str]) -> list[dict[str, Any]]:
        """Rows of decisions, as of the events of this transaction."""
        found = [dict(row) for row in self.connection.execute(_DECISIONS, {"ids": ids}).mappings()]
        for row in found:
            row.update(self._updates.get(row["id"], {}))
            self._decisions[row["id"]] = row
        return found

    def _read_people(self, names: Sequence[str]) -> None:
        """Participants by name; those at hand need not be read where nobody else has written since."""
        memory = self.memory
        self.persons |= {name: memory.persons[name] if name in memory.current else None for name in names}
        others = [name for name in names if name not in memory.current]
        for row in find_all(self.connection, tables.participants, "name", others):
            self.persons[row["name"]] = self._person(row)
            memory.current.add(row["name"])

    def _person(self, row: Mapping[Any, Any]) -> Person:
        known = self.memory.persons.get(row["name"])
        if known is not None and known.seq == row["seq"] and known.changes == row["changes"]:
            return known  # else something has happened, or somebody has stored the state anew
        self.memory.persons.pop(row["name"], None)  # until it is whole
        seq, data = self.connection.execute(_STATE, {"name": row["name"]}).one()
        if row["changes"] is None and seq != row["seq"] and not self.together:
            self.memory.persons[row["name"]] = person = fold_again(self.connection, self.fold, row)
            self.memory.behind[row["name"]] = None
            return person
        since = 0 if known is None else known.seq
        agent = self.fold.agent(row["number"], row["stream"]) if known is None else known.agent
        person = person_of(row, agent, {} if known is None else known.unseen)
        rows = self.connection.execute(_STEPS, {"name": row["name"], "since": since}).mappings()
        try:
            person.unpack(data, row["changes"], rows)
        except StateError:
            if self._events:  # the record in the database does not have them yet
                raise
            self._rebuild()
            return self.memory.persons[row["name"]]
        self.memory.persons[row["name"]] = person
        return person

    def person(self, name: str) -> Person:
        """A participant by name."""
        if name not in self.persons:
            self.read(keys=(), names=[name], ids=())
        found = self.persons[name]
        if found is None:
            raise Refused("not_found", f"no participant is called {name!r}")
        return found

    def decision(self, decision: str) -> dict[str, Any]:
        """A decision's row by its id, as of the events of this transaction."""
        if decision not in self._decisions:
            self.read(keys=(), names=(), ids=[decision])
        found = self._decisions.get(decision)
        if found is None:
            raise Refused("not_found", f"no decision is called {decision!r}")
        return found

    def launch(self, running: Running, *, who: str, received: int, source: str) -> None:
        """The first event: the study file is in force from now on."""
        self.memory.fold = Fold(running)
        self.study = {
            "id": 1, "name": running.study.name, "hash": running.hash, "status": "open", "launched": received,
            "enrolled": 0, "amendments": 0, "amount": running.amount if running.policy.shared else None,
            "hard": int(running.hard), "spent": 0.0, "nudges": 0, "file": running.text,
        }  # fmt: skip
        given = {"file": running.text, "source": PurePath(source).name}
        self._append(events.LAUNCHED, given=given, answer={}, who=who, received=received)
        row = {**self.study, "seq": self.seq, "head": self.head, "shared": pack_shared(self.fold.cohort)}
        self.connection.execute(insert(tables.study), row)

    def enrol(self, name: str, timezone: str, *, who: str, received: int) -> Person:
        """A new participant."""
        assert self.study is not None
        number = self.study["enrolled"]
        stream = number << 32  # as in Cohort, and as world `number` of simulate
        person = Person(
            name=name, number=number, stream=stream, timezone=timezone, status="active", reason=None,
            enrolled=received, seq=0, agent=self.fold.agent(number, stream),
        )  # fmt: skip
        self.study["enrolled"] += 1
        event = self._append(
            events.ENROLLED, person=person, given={"timezone": timezone},
            answer={"number": number, "stream": stream}, who=who, received=received,
        )  # fmt: skip
        person.seq = event.seq
        self.persons[name] = person
        self.memory.persons[name] = person
        self._enrolled.add(name)
        self._dirty[name] = person
        return person

    def happen(
        self, kind: str, person: Person, given: dict[str, Any], *, who: str, received: int,
        happened: int | None = None, step: int | None = None, decision: str | None = None,
    ) -> Event:  # fmt: skip
        """Let something happen to a participant, and append it to the record."""
        at = received if happened is None else happened
        self._dirty[person.name] = person
        sealed = person.sealed(given.get("earlier")) if kind in {events.SETTLED, events.PROPOSED} else []
        self.applying = True  # until it has happened; what fails on the way may have changed the agent
        answer = self.fold.apply(kind, person, given, step)
        self.applying = False
        if kind == events.PROPOSED:
            step, decision = person.agent.step, f"d{self.seq + 1}"
        event = self._append(
            kind, person=person, given=given, answer=answer, who=who, received=received, happened=at, step=step,
            decision=decision,
        )  # fmt: skip
        person.seq = event.seq
        self._follow(event, person, received, at)
        if sealed:
            for number, values in projection.told(person, sealed, given, event.seq):
                self._change(person, number, values, at)
        return event

    def _follow(self, event: Event, person: Person, received: int, happened: int) -> None:
        """What follows from an event in the tables."""
        for new, values in projection.changes(event, person, self.running, received, happened):
            if new:
                self._decisions[values["id"]] = values
                self._new[values["id"]] = None
                person.follow(True, values, values["step"], happened)
            else:
                assert event.step is not None
                self._change(person, event.step, values, happened)

    def _change(self, person: Person, step: int, values: dict[str, Any], happened: int) -> None:
        """What is new in the row of a decision."""
        decision = values["id"]
        if decision in self._decisions:
            self._decisions[decision].update(values)
        if decision not in self._new:
            self._updates.setdefault(decision, {}).update(values)
        person.follow(False, values, step, happened)

    def _append(
        self, kind: str, *, given: dict[str, Any], answer: dict[str, Any], who: str, received: int,
        happened: int | None = None, person: Person | None = None, step: int | None = None, decision: str | None = None,
    ) -> Event:  # fmt: skip
        now = clock.iso(received)
        event = Event(
            seq=self.seq + 1, kind=kind, before=self.head, participant=None if person is None else person.name,
            step=step, decision=decision, who=who, received=now,
            happened=now if happened is None or happened == received else clock.iso(happened),
            timezone=None if person is None else person.timezone, version=__version__, study=self.running.hash,
            given=given, answer=answer,
        )  # fmt: skip
        body = events.encode(event)
        self.seq, self.head = event.seq, events.hash_of(body)
        self._events.append((event.seq, kind, event.participant, decision, who, received, self.head, body.decode()))
        return event

    def amend(self, running: Running, given: dict[str, Any], *, who: str, received: int) -> Event:
        """From now on another study file is in force."""
        assert self.study is not None
        event = self._append(events.AMENDED, given=given, answer={}, who=who, received=received)
        self.fold.amend(running)
        self.study["hash"] = running.hash
        self.study["amendments"] += 1
        self.connection.execute(update(tables.study).values(file=running.text, hash=running.hash))
        return event

    def close(self, given: dict[str, Any], *, who: str, received: int) -> Event:
        """No more decisions are made."""
        assert self.study is not None
        self.study["status"] = "closed"
        return self._append(events.CLOSED, given=given, answer={}, who=who, received=received)

    def flush(self) -> None:
        """Write everything; it is durable once the transaction is committed."""
        self.answers.write()
        self.wrote = self.wrote or self.rebuilt or bool(self._events or self._stored)
        if not self.wrote:
            return
        if self._events:
            insert_values(self.connection, tables.events, self._events)
        if self._new:
            insert_values(self.connection, tables.decisions, [tuple(self._decisions[i].values()) for i in self._new])
        self._update_decisions()
        self._choose()
        if self._dirty or self._stored:
            self._write_people()
        self._write_study()

    def touch(self) -> None:
        """Have the study's row written as it is, to see whether that can be done."""
        self.wrote = self.study is not None

    def _update_decisions(self) -> None:
        """Rows that were there, those with the same columns together."""
        alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for values in self._updates.values():
            alike.setdefault(tuple(name for name in values if name != "id"), []).append(values)
        for columns, rows in alike.items():
            update_all(self.connection, tables.decisions, ("id",), columns, rows)

    def store_late(self, most: int) -> int:
        """Store states that were to be stored later; how many."""
        late = list(itertools.islice(self.memory.behind, most))
        self._read_people([name for name in late if name not in self.persons])  # others may have written since
        found = {name: person for name in late if (person := self.persons[name]) is not None}
        self._stored |= found
        return len(found)

    def _choose(self) -> None:
        """Which states are stored now: all that have changed, and some that were left before; of many, only some.

        The record has everything, and a state that is stored only saves time. Participants share nothing, so that one
        whose state is behind can be folded again from what has happened to it alone.
        """
        later = self._waits and not self.together
        self._few = later and len(self._dirty) >= states.MANY
        if later:
            self.store_late(len(self._dirty) // states.SHARE if self._few else states.MANY)
        if not self._few or self.rebuilt:
            self._stored |= self._dirty
        self._stored |= {name: self._dirty[name] for name in self._enrolled}

    def _write_people(self) -> None:
        if self.together and not healthy_shared(self.fold.cohort):
            raise Unsound(UNSOUND)
        write_people(
            self.connection, self._dirty | self._stored, self._stored, self._enrolled,
            shared=self.running.policy.shared, whole=self._few,
        )  # fmt: skip

    def _write_study(self) -> None:
        assert self.study is not None
        values: dict[str, Any] = {"seq": self.seq, "head": self.head, "enrolled": self.study["enrolled"]}
        values |= {"status": self.study["status"], "amendments": self.study["amendments"]}
        if self.together:
            values["shared"] = pack_shared(self.fold.cohort)
        if self.running.policy.shared:
            budget = self.fold.cohort._common._spent
            values |= {"spent": float(budget.spent[0]), "nudges": int(budget.nudges[0])}
        update_all(self.connection, tables.study, ("id",), tuple(values), [{"id": 1, **values}])

    def committed(self) -> None:
        """What was written is durable: what is kept in memory is as of its last event."""
        self.answers.committed()
        self.memory.seq = self.seq
        self.memory.note_stored(self._dirty, self._stored)
