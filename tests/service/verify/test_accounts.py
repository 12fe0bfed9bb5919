"""Accounts are verified: those that are stored are those on record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accounts_by_hand import person_by_hand
from site_over_http import Site, site_on
from sqlalchemy import Table, Update, delete, insert, update

from opportune.service.accounts.changes import launching
from opportune.service.accounts.keys import revoke_key
from opportune.service.accounts.people import revoke_person
from opportune.service.record import tables
from opportune.service.record.backup import backup, restore
from opportune.service.record.database import Database, file_url
from opportune.service.verify.check import verify


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study with a key for each role, an admin who has left and a nurse."""
    with site_on(sqlite) as found:
        for name, role in (("ada", "admin"), ("nurse", "staff")):
            person_by_hand(sqlite, name, role, "correct horse battery")
        revoke_person(sqlite, "ada")
        revoke_key(sqlite, "analyst one")
        found.enrol()
        assert verify(sqlite).findings == [], "the control"
        yield found


def test_stored_accounts_are_those_on_record(site: Site) -> None:
    """One that nobody added, another role, one that is let in again or suspended, one that is gone."""
    keys, people, database = tables.keys, tables.people, site.service.database
    ghost = {"name": "ghost", "role": "admin", "hash": "x", "created": 1}
    changes = [
        (insert(keys).values(ghost), delete(keys).where(keys.c.name == "ghost"), "'ghost' is stored, but was never"),
        (insert(people).values(ghost), delete(people).where(people.c.name == "ghost"), "'ghost' is stored, but was"),
        (_set(people, "nurse", role="admin"), _set(people, "nurse", role="staff"), "person of role staff"),
        (
            _set(people, "ada", revoked=None),
            _set(people, "ada", revoked=1),
            "the record gives person of role admin, re",
        ),
        (_set(keys, "analyst one", revoked=None), _set(keys, "analyst one", revoked=1), "key of role analyst, revoked"),
        (_set(keys, "app one", suspended=1), _set(keys, "app one", suspended=None), "of role app, suspended; the"),
        (_set(keys, "app one", name="app two"), _set(keys, "app two", name="app one"), "'app one' is on record, but"),
    ]
    for change, undo, said in changes:
        with database.writing.begin() as connection:
            connection.execute(change)
        assert said in " ".join(verify(database).findings), said
        with database.writing.begin() as connection:
            connection.execute(undo)
    assert verify(database).findings == []


def _set(table: Table, called: str, **values: Any) -> Update:
    return update(table).where(table.c.name == called).values(values)


def test_restored_accounts_are_suspended_on_record(site: Site, folder: Path) -> None:
    """An auditor's copy has none, and lacks none; a database with accounts lacks the secret seed if that is gone."""
    database = site.service.database
    for name, for_auditor in (("whole", False), ("audit", True)):
        backup(database, folder / name, for_auditor=for_auditor)
    assert verify(Database(file_url(folder / "audit"))).findings == []
    restored = Database(file_url(folder / "restored.db"))
    restore(folder / "whole", restored, lambda stored: launching())
    assert verify(restored).findings == []
    with restored.writing.begin() as connection:
        connection.execute(delete(tables.secret))
    assert verify(restored).findings == [
        "the secret seed is missing, but there are accounts; expected neither, as in an auditor's copy"
    ]
    restored.close()
