"""Names removed: how analysts see who did something. Apps keep the name of their key; people have role and number."""

from collections import Counter
from collections.abc import Callable

from sqlalchemy import select

from opportune.service.accounts.keys import APP
from opportune.service.commands.base import SYSTEM
from opportune.service.record import tables
from opportune.service.record.database import Database

LAUNCHER = "opportune serve"
BY_HAND = "command line"
"""Whoever has the database: amendments and the like are on record by the name of the machine's user."""
Label = Callable[[str], str]


def labels(database: Database) -> Label:
    """What stands in place of each name: `staff 2` is the second person or key with that role, by when it was added."""
    keys, people = tables.keys.c, tables.people.c
    with database.reading.connect() as connection:
        added = [
            *connection.execute(select(keys.created, keys.name, keys.role)),
            *connection.execute(select(people.created, people.name, people.role)),
        ]
    known, count = {SYSTEM: SYSTEM, LAUNCHER: LAUNCHER}, Counter[str]()
    for _, name, role in sorted(tuple(row) for row in added):
        count[role] += 1
        known[name] = name if role == APP else f"{role} {count[role]}"
    return lambda name: known.get(name, BY_HAND)
