"""How analysts see authors: apps by the name of their key, people by role and number, without names."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select

from opportune.service.accounts.keys import APP
from opportune.service.accounts.names import BY_HAND, LAUNCHER, PARTICIPANT, REDCAP
from opportune.service.commands.base import SYSTEM
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.events import ADMINISTRATION, AMENDED, LAUNCHED, decode, exported
from opportune.service.record.study_file import published
from opportune.service.state.study import file_hash

Label = Callable[[str], str]


def labels(database: Database) -> Label:
    """The replacement for each name: `staff 2` is the second person or key that was added with that role."""
    keys, people = tables.keys.c, tables.people.c
    with database.reading.connect() as connection:
        added = [
            *connection.execute(select(keys.created, keys.name, keys.role)),
            *connection.execute(select(people.created, people.name, people.role)),
        ]
    known, count = {name: name for name in (SYSTEM, LAUNCHER, REDCAP)}, Counter[str]()
    for _, name, role in sorted(tuple(row) for row in added):
        count[role] += 1
        known[name] = name if role == APP else f"{role} {count[role]}"
    return lambda name: name if name.startswith(PARTICIPANT) else known.get(name, BY_HAND)


def shown_hashes(database: Database) -> dict[str, str]:
    """For each study file that was in force: its hash, mapped to the hash of the file as analysts see it.

    Knowing the original hash and the public part of the file, an analyst could guess names until the hash fits.
    """
    table = tables.events.c
    query = select(table.body).where(table.kind.in_((LAUNCHED, AMENDED)))
    with database.reading.connect() as connection:
        files = [decode(body).given["file"] for body in connection.execute(query).scalars()]
    return {file_hash(text): file_hash(published(text)) for text in files}


HIDDEN = ("salt", "before", "study")
"""Fields of an event with which names could be guessed from the hash of an event or of the study file."""


def without_names(event: Mapping[str, Any], label: Label, files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An event as analysts see it: without names, and without anything from which they could be found.

    Args:
        event: as it is stored.
        label: gives the replacement for each name.
        files: the result of `shown_hashes`; without it, the result does not name the study file in force.

    """
    given = event["given"]
    if event["kind"] in ADMINISTRATION:  # free text is left out, as it may contain names
        shown = {name: given[name] for name in ("what", "item", "done") if name in given}
        given = shown | ({"account": label(given["account"])} if "account" in given else {})
    kept = {name: value for name, value in event.items() if name not in HIDDEN}
    if files is not None:
        kept["study"] = files[event["study"]]
    return {**kept, "who": label(event["who"]), "given": exported(event["kind"], given)}
