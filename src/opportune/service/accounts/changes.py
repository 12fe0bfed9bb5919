"""Changes of accounts, and what was taken: on record in the same transaction, with who did it and from where."""

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
"""Where someone is who runs a command on the server's machine."""


class Actor(NamedTuple):
    """Who does something, by the name of the account, and from where."""

    name: str
    origin: Mapping[str, str]


def at_the_machine() -> dict[str, str]:
    """Where commands come from; the system's name for the user is noted, and proves nothing."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    shown = "".join(c if c.isprintable() else "?" for c in user)[:64]
    return {"from": COMMAND_LINE, "system_user": shown}


def launching() -> Actor:
    """The launch of a study, before there are accounts."""
    return Actor(LAUNCHER, at_the_machine())


class Administer(Command, kw_only=True):
    """Something is done about accounts, or something is taken; nothing secret stands in what goes on record."""

    kind: str
    given: dict[str, Any]
    change: Any = None
    """What is changed in the tables of accounts, in the same transaction; raises before it changes anything."""

    def run(self, transaction: Transaction) -> Answered:
        """Change the accounts, and append the event."""
        if transaction.study is None:
            raise Refused("not_found", "no study is launched in this database")
        if self.change is not None:
            self.change(transaction.connection)
        event = transaction.administer(self.kind, self.given, who=self.who, received=self.received)
        return 200, {"event": event.seq}


def change_account(database: Database, by: Actor, what: str, account: str, change: Change, **given: str | None) -> None:
    """Change an account, and put it on record."""
    _record(database, by, events.ACCOUNT, {"what": what, "account": account, **given}, change)


def note_access(database: Database, by: Actor, what: str, **given: Any) -> None:
    """Put on record that something was looked at as a whole, or taken away."""
    _record(database, by, events.ACCESS, {"what": what, **given}, None)


def _record(database: Database, by: Actor, kind: str, given: dict[str, Any], change: Change | None) -> None:
    told = {name: value for name, value in {**given, **by.origin}.items() if value is not None}
    command = Administer(who=by.name, received=clock.now(), kind=kind, given=told, change=change)
    try:
        Writer(database).do(command)
    except Refused as refused:
        if refused.code in {"invalid", "not_found"}:
            raise InputError(str(refused)) from None
        raise
