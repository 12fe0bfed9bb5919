"""Accounts according to the record, compared with the stored ones."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from opportune.service.record import events, tables
from opportune.service.record.events import Event

TABLES = {"key": tables.keys, "person": tables.people}


class Account(NamedTuple):
    """An account according to the record, which does not contain hashes of keys and passwords."""

    table: str
    role: str
    revoked: bool = False
    suspended: bool = False


class Accounts:
    """The accounts of a study after the events taken so far."""

    def __init__(self) -> None:
        self._known: dict[str, Account] = {}

    def take(self, event: Event) -> None:
        """Apply an event to the accounts."""
        known, given = self._known, event.given
        what, name = given.get("what"), str(given.get("account"))
        if event.kind == events.ACCOUNT and what in {"key added", "person added"}:
            known[name] = Account(what.removesuffix(" added"), str(given.get("role")))
        elif event.kind == events.ACCOUNT and name in known and what in {"key revoked", "person revoked"}:
            known[name] = known[name]._replace(revoked=True)
        elif event.kind == events.ACCOUNT and name in known and what in {"key resumed", "person resumed"}:
            known[name] = known[name]._replace(suspended=False)
        elif event.kind == events.ACCESS and what == "restored":
            for each in given.get("suspended") or ():
                if each in known:
                    known[each] = known[each]._replace(suspended=True)

    def differences(self, connection: Connection) -> list[str]:
        """How the stored accounts differ from the record; a database without accounts (an auditor's copy) is fine."""
        found, left = [], dict(self._known)
        for table, rows in TABLES.items():
            columns = (rows.c.name, rows.c.role, rows.c.revoked, rows.c.suspended)
            for name, role, revoked, suspended in connection.execute(select(*columns).order_by(rows.c.name)):
                stored = Account(table, role, revoked is not None, suspended is not None)
                expected = left.pop(name, None)
                if expected is None:
                    found.append(f"account {name!r} is stored, but was never added")
                elif stored != expected:
                    stored_as, recorded_as = _in_words(stored), _in_words(expected)
                    found.append(f"account {name!r} is stored as {stored_as}; the record gives {recorded_as}")
        if len(left) == len(self._known):
            return found  # no account of the record is stored
        return found + [f"account {name!r} is on record, but not stored" for name in left]


def any_stored(connection: Connection) -> bool:
    """Whether a database has accounts, unlike an auditor's copy."""
    return any(connection.execute(select(table.c.name).limit(1)).first() is not None for table in TABLES.values())


def _in_words(account: Account) -> str:
    more = [word for word in ("revoked", "suspended") if getattr(account, word)]
    return ", ".join([f"{account.table} of role {account.role}", *more])
