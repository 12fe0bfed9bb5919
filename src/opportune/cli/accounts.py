"""`opportune keys` and `opportune people`: who may use the service. All of it is on record."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opportune.cli.record import opened
from opportune.cli.serve import Db
from opportune.cli.shared import DONE, say
from opportune.cli.signing import may_be_first, signed_in

if TYPE_CHECKING:
    from opportune.service.accounts.changes import Actor
    from opportune.service.record.database import Database

keys = typer.Typer(
    help="Manage keys for programs: add, list, revoke, resume.", no_args_is_help=True, rich_markup_mode=None
)
people = typer.Typer(
    help="Manage people who sign in: add, list, revoke, password, unlock, resume.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name shown in the record for every action.")]


@keys.command("add")
def add_key(
    name: Name, role: Annotated[str, typer.Option(help="app, staff, analyst or admin.")], db: Db = None
) -> None:
    """Add a key and print it on standard output, alone and only this once."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        typer.echo(keys.add_key(database, name, role, _first_or_admin(database, role)))
        say("this key is shown once; only its hash is stored", DONE)


@keys.command("list")
def list_keys(db: Db = None) -> None:
    """List all keys by name, role and last use; the keys themselves are not stored."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        signed_in(database)
        _print(keys.list_keys(database))


@keys.command("revoke")
def revoke_key(name: Name, db: Db = None) -> None:
    """Revoke a key; requests with it are rejected from now on."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        keys.revoke_key(database, name, signed_in(database))
        say(f"{name} is revoked", DONE)


@keys.command("resume")
def resume_key(name: Name, db: Db = None) -> None:
    """Make a key that `opportune restore` suspended valid again."""
    with opened(db) as database:
        from opportune.service.accounts import keys  # noqa: PLC0415

        keys.resume_key(database, name, signed_in(database))
        say(f"{name} is valid again", DONE)


@people.command("add")
def add_person(name: Name, role: Annotated[str, typer.Option(help="staff, analyst or admin.")], db: Db = None) -> None:
    """Add a person and print the link with which they choose a password, once. The first admin needs no sign-in."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        actor = _first_or_admin(database, role)
        accounts.add_person(database, name, role, by=actor)
        _invite(database, name, actor)


@people.command("list")
def list_people(db: Db = None) -> None:
    """List everyone who has an account."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        signed_in(database)
        _print(accounts.list_people(database))


@people.command("revoke")
def revoke_person(name: Name, db: Db = None) -> None:
    """Revoke a person's account; they can no longer sign in."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        accounts.revoke_person(database, name, signed_in(database))
        say(f"{name} is revoked", DONE)


@people.command("password")
def reset_password(name: Name, db: Db = None) -> None:
    """Invalidate a person's password and print the link with which they choose a new one, once."""
    with opened(db) as database:
        _invite(database, name, signed_in(database))


@people.command("unlock")
def unlock_person(name: Name, db: Db = None) -> None:
    """Unlock a person who was locked out after failed attempts to sign in."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        accounts.release_person(database, name, signed_in(database))
        say(f"{name} is not locked", DONE)


@people.command("resume")
def resume_person(name: Name, db: Db = None) -> None:
    """Let a person whom `opportune restore` suspended sign in again."""
    with opened(db) as database:
        from opportune.service.accounts import people as accounts  # noqa: PLC0415

        accounts.resume_person(database, name, signed_in(database))
        say(f"{name} can sign in again", DONE)


def _first_or_admin(database: "Database", role: str) -> "Actor":
    """The author of a new account: an admin must sign in, except to add the first admin."""
    if role == "admin" and may_be_first(database):
        from opportune.service.accounts.changes import launching  # noqa: PLC0415

        return launching()
    return signed_in(database)


def _invite(database: "Database", name: str, actor: "Actor") -> None:
    from opportune.service.accounts import people as accounts  # noqa: PLC0415

    typer.echo(f"/invitation?token={accounts.invite(database, name, actor)}")
    say(f"{name} opens this at the service's address, once and within three days, to choose a password", DONE)


def _print(rows: list[dict[str, Any]]) -> None:
    from opportune.service.state.clock import iso  # noqa: PLC0415

    for row in rows:
        used = "never used" if row["used"] is None else f"used {iso(row['used'])}"
        states = [f", {state} {iso(row[state])}" for state in ("suspended", "revoked") if row[state] is not None]
        typer.echo(f"{row['name']}\t{row['role']}\t{used}{''.join(states)}")
