"""`opportune keys` and `opportune people`: who may use the service."""

import getpass
import sys
from typing import Annotated, Any

import typer

from opportune.cli.record import opened
from opportune.cli.serve import Db
from opportune.cli.shared import DONE, say

keys = typer.Typer(help="Keys for programs: add, list, revoke.", no_args_is_help=True, rich_markup_mode=None)
people = typer.Typer(
    help="People who sign in: add, list, revoke, password.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The record shows it for what is done.")]
FROM_INPUT = "Read the password from standard input."


@keys.command("add")
def add_key(
    name: Name, role: Annotated[str, typer.Option(help="app, staff, analyst or admin.")], db: Db = None
) -> None:
    """A new key: printed alone on standard output, once."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        typer.echo(keys.add_key(database, name, role))
        say("this key is shown once; only its hash is stored", DONE)


@keys.command("list")
def list_keys(db: Db = None) -> None:
    """All keys, without what could be used."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        _print(keys.list_keys(database))


@keys.command("revoke")
def revoke_key(name: Name, db: Db = None) -> None:
    """A key is of no use from now on."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        keys.revoke_key(database, name)
        say(f"{name} is revoked", DONE)


@people.command("add")
def add_person(
    name: Name,
    role: Annotated[str, typer.Option(help="staff, analyst or admin.")],
    db: Db = None,
    stdin: Annotated[bool, typer.Option("--stdin", help=FROM_INPUT)] = False,
) -> None:
    """Someone who signs in: the password is printed alone on standard output, once."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        given = _read_password() if stdin else None
        password = accounts.add_person(database, name, role, given)
        if given is None:
            typer.echo(password)
            say("this password is shown once; only its hash is stored", DONE)


@people.command("list")
def list_people(db: Db = None) -> None:
    """All who sign in, or could."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        _print(accounts.list_people(database))


@people.command("revoke")
def revoke_person(name: Name, db: Db = None) -> None:
    """Someone can no longer sign in."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        accounts.revoke_person(database, name)
        say(f"{name} is revoked", DONE)


@people.command("password")
def set_password(name: Name, db: Db = None) -> None:
    """Another password, read from standard input; takes back a lock."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        accounts.change_password(database, name, _read_password())
        say(f"{name} has a new password", DONE)


def _read_password() -> str:
    """A line of standard input; in a terminal it is asked for, and not shown."""
    if sys.stdin.isatty():
        return getpass.getpass("password: ")
    return sys.stdin.readline().rstrip("\r\n")


def _print(rows: list[dict[str, Any]]) -> None:
    from opportune.service.state.clock import iso  # noqa: PLC0415

    for row in rows:
        used = "never used" if row["used"] is None else f"used {iso(row['used'])}"
        state = "" if row["revoked"] is None else f", revoked {iso(row['revoked'])}"
        typer.echo(f"{row['name']}\t{row['role']}\t{used}{state}")
