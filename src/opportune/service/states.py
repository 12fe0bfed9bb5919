"""Participants' states: kept in memory, stored with a transaction or later, and made from the record if need be."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

import structlog
from sqlalchemy import Connection, bindparam, select

from opportune.errors import DataError
from opportune.service import events, tables
from opportune.service.answers import Recent
from opportune.service.compared import same
from opportune.service.fold import Fold
from opportune.service.person import CHANGING, Person
from opportune.service.refold import Refold, Verdict
from opportune.service.statements import insert_all, update_all, update_values

log = structlog.get_logger()
MANY, SHARE = 16, 32
"""Of so many participants or more whom a transaction is about, the states of one in so many are stored."""
_RECORD = (
    select(tables.events.c.body, tables.events.c.hash, tables.events.c.received)
    .where(tables.events_about(bindparam("name")), tables.events.c.kind != events.ENROLLED)
    .order_by(tables.events.c.seq)
)


class Memory:
    """What a writer keeps between transactions: agents, as of the events that it has seen."""

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.persons: dict[str, Person] = {}
        self.seq = 0  # what all share is as of this event
        self.recent = Recent()
        self.current: set[str] = set()
        """Participants who are as they are stored: nobody else has written since they were read or written here."""
        self.behind: dict[str, None] = {}
        """Participants to whom something has happened since their state was stored, longest first."""

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Drop what may not be what is stored."""
        self.seq = 0
        self.current.clear()
        for name in list(self.persons) if names is None else names:
            self.persons.pop(name, None)
            self.behind.pop(name, None)  # seen to be so when it is read again

    def note_stored(self, changed: Iterable[str], stored: Mapping[str, Person]) -> None:
        """Something has happened to some participants; the states of some were stored; both are durable."""
        for name in stored:
            self.behind.pop(name, None)
        for name in changed:
            if name not in stored:
                self.behind.setdefault(name)


def fold_again(connection: Connection, fold: Fold, row: Mapping[Any, Any]) -> Person:
    """A participant whose state was to be stored later, when the process ended: it is made from the record.

    Where actions, nudges, coins and hashes are those of the record and only numbers differ, it was made on another kind
    of machine, and goes on: nobody else has the state any more.
    """
    name = row["name"]
    person = Person(
        name=name, number=row["number"], stream=row["stream"], timezone=row["timezone"], status="active",
        reason=None, enrolled=row["enrolled"], seq=row["seq"], agent=fold.agent(row["number"], row["stream"]),
    )  # fmt: skip
    refold = Refold(Verdict(), words=True, fold=fold)
    refold.persons[name] = person
    for body, hashed, received in connection.execute(_RECORD, {"name": name}):
        data = body.encode()
        event = events.decode(data)
        if events.hash_of(data) != hashed:
            refold.verdict.add(f"event {event.seq} is not what was written: its hash does not fit it")
        refold.happen(event, fold, received)
    same(f"participant {name}", row, person.row(shared=False), refold.verdict)
    if not refold.verdict.only_numbers:
        found = "; ".join(refold.verdict.findings[:3])
        raise DataError(f"the state of participant {name} cannot be made from the record: {found}")
    if not refold.verdict.holds:
        log.warning("a state was made whose numbers differ from the record's", findings=len(refold.verdict.findings))
    return person


def write_people(
    connection: Connection, persons: Mapping[str, Person], stored: Container[str], enrolled: Container[str], *,
    shared: bool, whole: bool,
) -> None:  # fmt: skip
    """Rows of participants, new ones or in place of what there is, and the states of those which are stored now.

    With `whole` not by what has changed. Raises `Unsound` where a state could not be stored.
    """
    new, known, states = [], [], []
    for name, person in persons.items():
        if name in stored:
            changes, data = person.pack_what_is_new(whole=whole)
            if data is not None:
                states.append({"participant": name, "seq": person.seq, "data": data})
        else:
            changes = None
            person.leave()
        if name in enrolled:
            new.append({**person.row(shared=shared), "changes": changes})
        else:
            known.append((*person.changing(shared=shared), changes, name))
    if new:
        insert_all(connection, tables.participants, new)
        insert_all(connection, tables.states, [row for row in states if row["participant"] in enrolled])
        states = [row for row in states if row["participant"] not in enrolled]
    if known:
        update_values(connection, tables.participants, (*CHANGING, "changes"), "name", known)
    if states:
        update_all(connection, tables.states, ("participant",), ("seq", "data"), states)
