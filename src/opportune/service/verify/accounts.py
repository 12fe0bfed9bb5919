"""Who may act, by the record: accounts as their events give them, held to the tables."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from opportune.service.record import events, tables
from opportune.service.record.events import Event

TABLES = {"key": tables.keys, "person": tables.people}


class Account(NamedTuple):
    """What the record says of an account; the hashes of keys and passwords are not on record."""

    table: str
    role: str
    revoked: bool = False
    suspended: bool = False


class Accounts:
    """The accounts of a study, as of the events that were taken."""

    def __init__(self) -> None:
        self._known: dict[str, Account] = {}

    def take(self, event: Event) -> None:
        """Let an event change the accounts."""
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
        """What of the stored accounts is not what the record gives; nothing where none are, as in an auditor's copy."""
        found, left = [], dict(self._known)
        for table, rows in TABLES.items():
            columns = (rows.c.name, rows.c.role, rows.c.revoked, rows.c.suspended)
            for name, role, revoked, suspended in connection.execute(select(*columns).order_by(rows.c.name)):
                stored = Account(table, role, revoked is not None, suspended is not None)
                expected = left.pop(name, None)
                if expected is None:
                    found.append(f"account {name!r} is stored, but was never added")
                elif stored != expected:
                    found.append(f"account {name!r} is stored as {_said(stored)}; the record gives {_said(expected)}")
        if len(left) == len(self._known):
            return found  # none at all, or only those that were never added
        return found + [f"account {name!r} is on record, but not stored" for name in left]


def any_stored(connection: Connection) -> bool:
    """Whether a database has accounts, unlike an auditor's copy."""
    return any(connection.execute(select(table.c.name).limit(1)).first() is not None for table in TABLES.values())


def _said(account: Account) -> str:
    more = [word for word in ("revoked", "suspended") if getattr(account, word)]
    return ", ".join([f"{account.table} of role {account.role}", *more])
