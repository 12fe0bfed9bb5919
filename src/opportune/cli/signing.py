"""Signing in for a command on the server's machine: with an account's key, or with a name and password."""

import getpass
import os
import sys
from typing import TYPE_CHECKING

from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.service.accounts.changes import Actor
    from opportune.service.accounts.keys import Caller
    from opportune.service.record.database import Database

KEY = "OPPORTUNE_KEY"
WRONG = "the name, password or code is wrong, or the account is locked after too many attempts"


def signed_in(database: "Database", *allowed: str) -> "Actor":
    """Sign in whoever runs this command; they must have one of these roles, by default admin."""
    from opportune.service.accounts.changes import Actor, at_the_machine  # noqa: PLC0415
    from opportune.service.accounts.keys import ADMIN  # noqa: PLC0415

    roles = allowed or (ADMIN,)
    wanted = " or ".join(roles)
    caller = _by_key(database, wanted) if os.environ.get(KEY) else _by_password(database, wanted)
    if caller.role not in roles:
        raise InputError(f"{caller.name!r} has the role {caller.role}; expected {wanted}")
    return Actor(caller.name, at_the_machine())


def _by_key(database: "Database", wanted: str) -> "Caller":
    from opportune.service.accounts.keys import Keys  # noqa: PLC0415

    found = Keys(database).find(os.environ[KEY].strip())
    if found is None:
        raise InputError(f"{KEY} is not an active key of this study; expected one of role {wanted}")
    return found


def _by_password(database: "Database", wanted: str) -> "Caller":
    from opportune.service.accounts import people  # noqa: PLC0415

    if not sys.stdin.isatty():
        raise InputError(f"sign-in is required; expected {KEY} with a key of role {wanted}, or a terminal")
    print(f"This requires an account of {database.name} with the role {wanted}.", file=sys.stderr)
    print("name: ", end="", file=sys.stderr, flush=True)
    name = sys.stdin.readline().strip()
    caller = people.sign_in(database, name, getpass.getpass("password: "))
    if caller is None:
        raise InputError(WRONG)
    _second_factor(database, caller)
    return caller


def _second_factor(database: "Database", caller: "Caller") -> None:
    """Ask for the second factor, if the person has one or must have one."""
    from opportune.service.accounts import people, second_factor  # noqa: PLC0415
    from opportune.service.accounts.changes import Actor, at_the_machine  # noqa: PLC0415
    from opportune.service.record.queries import study_in_force  # noqa: PLC0415

    name, role = caller
    if not second_factor.confirmed(database, name):
        if second_factor.required(study_in_force(database).study.settings.serve.second_factor, role):
            text = f"{name!r} needs a second factor and has none yet"
            raise InputError(f"{text}; expected one that is set up on the pages, or {KEY}")
        return
    where, origin = people.open_places(database, name, people.AT_THE_MACHINE, None), at_the_machine()
    code = getpass.getpass("code of your authenticator: ")
    if where is None or not second_factor.check(database, name, code, Actor(name, origin)):
        if where is not None:
            people.failed(database, name, role, where, origin)
        raise InputError(WRONG)


def accountless(database: "Database") -> bool:
    """Whether the database has no accounts, as in an auditor's copy."""
    from opportune.service.accounts.keys import list_keys  # noqa: PLC0415
    from opportune.service.accounts.people import list_people  # noqa: PLC0415

    return not list_people(database) and not list_keys(database)


def may_be_first(database: "Database") -> bool:
    """Whether there is no admin yet, so that anyone with the database can add the first."""
    from opportune.service.accounts.keys import ADMIN, list_keys  # noqa: PLC0415
    from opportune.service.accounts.people import list_people  # noqa: PLC0415

    return not any(account["role"] == ADMIN for account in (*list_people(database), *list_keys(database)))
