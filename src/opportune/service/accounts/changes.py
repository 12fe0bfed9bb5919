"""Changes of accounts, and downloads: recorded in the same transaction, with author and origin."""

import getpass
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection

from opportune.errors import InputError
from opportune.service.accounts.names import LAUNCHER
from opportune.service.commands.base import Answered, Command
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.database import Database
from opportune.service.record.transaction import Transaction
from opportune.service.record.writer import Writer
from opportune.service.state import clock

Change = Callable[[Connection], None]
COMMAND_LINE = "command line"
"""The origin of commands that are run on the server's machine."""


class Actor(NamedTuple):
    """The author of a change: the name of the account, and the origin."""

    name: str
    origin: Mapping[str, str]


def at_the_machine() -> dict[str, str]:
    """The origin of commands on this machine; the system's user name is noted, but proves nothing."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    shown = "".join(c if c.isprintable() else "?" for c in user)[:64]
    return {"from": COMMAND_LINE, "system_user": shown}


def launching() -> Actor:
    """The author at launch, before there are accounts."""
    return Actor(LAUNCHER, at_the_machine())


class Administer(Command, kw_only=True):
    """Change accounts, or note a download; what is recorded contains no secrets."""

    kind: str
    given: dict[str, Any]
    change: Any = None
    """Changes the tables of accounts in the same transaction; if it raises, it must not have changed anything."""

    def run(self, transaction: Transaction) -> Answered:
        """Change the accounts, and append the event."""
        if transaction.study is None:
            raise Refused("not_found", "no study is launched in this database")
        if self.change is not None:
            self.change(transaction.connection)
        event = transaction.administer(self.kind, self.given, who=self.who, received=self.received)
        return 200, {"event": event.seq}


def change_account(database: Database, by: Actor, what: str, account: str, change: Change, **given: str | None) -> None:
    """Change an account, and record the change."""
    _record(database, by, events.ACCOUNT, {"what": what, "account": account, **given}, change)


def note_access(database: Database, by: Actor, what: str, **given: Any) -> None:
    """Record a sign-in, a download, or another access to the whole study."""
    _record(database, by, events.ACCESS, {"what": what, **given}, None)


def _record(database: Database, by: Actor, kind: str, given: dict[str, Any], change: Change | None) -> None:
    known = {name: value for name, value in {**given, **by.origin}.items() if value is not None}
    command = Administer(who=by.name, received=clock.now(), kind=kind, given=known, change=change)
    try:
        Writer(database).do(command)
    except Refused as refused:
        if refused.code in {"invalid", "not_found"}:
            raise InputError(str(refused)) from None
        raise
