"""The commands about a study that runs: verify, export, backup, restore, status, amend, close."""

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.serve import Db, readable, require_extra
from opportune.cli.shared import DONE, FAILED, say
from opportune.errors import InputError
from opportune.files import held, write_whole

if TYPE_CHECKING:
    from opportune.service.commands.base import Command
    from opportune.service.record.database import Database

Reason = Annotated[str, typer.Option(help="Why; it goes on record.")]


@contextmanager
def opened(db: str | None, *, current: bool = True) -> Iterator["Database"]:
    """The database of a study: the one named, or the only one in this folder."""
    require_extra()
    from opportune.service.monitoring.logs import log_as_json  # noqa: PLC0415
    from opportune.service.record.database import Database, file_url  # noqa: PLC0415

    log_as_json()
    if db is None:
        found = sorted(Path.cwd().glob("*.db"))
        if len(found) != 1:
            there = ", ".join(path.name for path in found) or "none"
            raise InputError(f"the folder has not one .db file ({there}); expected --db URL")
        db = file_url(found[0])
    database = Database(db)
    try:
        with readable(database):
            if current:
                database.require_current()
            yield database
    finally:
        database.close()


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    from opportune.progress import bar  # noqa: PLC0415

    with bar() as show:
        task = show.add_task(what, total=None)
        yield lambda done, total: show.update(task, completed=done, total=total)


def verify(db: Db = None) -> None:
    """Fold the record again, and compare every decision, budget and row; exit code 1 if anything differs."""
    with opened(db) as database:
        from opportune.service.monitoring.alerts import Alerts  # noqa: PLC0415
        from opportune.service.verify.check import verify as check  # noqa: PLC0415

        with _bar("verify") as progress:
            verdict = check(database, progress)
        if not verdict.holds:
            for finding in verdict.findings:
                say(f"opportune: {finding}", FAILED)
            Alerts(database).raise_alert("red", "verify", None, verdict.findings[0])
            say("opportune: error: the record does not verify", FAILED)
            raise typer.Exit(FAILED)
        Alerts(database).clear("verify")
        typer.echo(f"verified: {verdict.count:,} events, {verdict.decisions:,} decisions; head {verdict.head}")


def export(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where files go.")], db: Db = None) -> None:
    """Write decisions, participants, nudges, rewards, events as CSV, and a dictionary of their columns."""
    with opened(db) as database:
        import json  # noqa: PLC0415

        from opportune.service.export import exports  # noqa: PLC0415

        finished = kept(f"files that were finished are in {folder}")
        with finished, held(folder), _bar("export") as progress, database.still() as as_of_now:
            progress(0, len(exports.NAMES))
            for number, name in enumerate(exports.NAMES):
                part = folder / f"{name}.csv.part"
                try:
                    with part.open("w", encoding="utf-8", newline="") as file:
                        for text in exports.export(as_of_now, name):
                            file.write(text)
                    part.replace(folder / f"{name}.csv")
                finally:
                    part.unlink(missing_ok=True)
                progress(number + 1, len(exports.NAMES))
        text = json.dumps(exports.dictionary(database), indent=2, ensure_ascii=False)
        write_whole(folder / "dictionary.json", f"{text}\n".encode())
        typer.echo(str(folder))


def backup(file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")], db: Db = None) -> None:
    """Copy everything into one file, while the service goes on."""
    with opened(db) as database:
        from opportune.service.record.backup import backup as copy  # noqa: PLC0415

        with _bar("backup") as progress:
            rows = copy(database, file, progress)
        typer.echo(f"{file}: {rows:,} rows")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What opportune backup wrote.")],
    db: Annotated[str, typer.Option("--db", metavar="URL", help="An empty database.")],
) -> None:
    """Copy a backup into an empty database, of either kind, and verify it."""
    with opened(db, current=False) as database:
        from opportune.service.record.backup import restore as copy  # noqa: PLC0415

        with _bar("restore") as progress:
            rows = copy(file, database, progress)
        typer.echo(f"{database.name}: {rows:,} rows")
    with kept("everything is restored, but not verified: see opportune verify"):
        verify(db)


def status(db: Db = None) -> None:
    """How the study stands: participants, decisions, nudges, alerts; exit code 1 with a red alert."""
    with opened(db) as database:
        from opportune.service.record import queries, tables  # noqa: PLC0415

        study = queries.study_row(database)
        if study is None:
            raise InputError(f"{database.name} has no study; expected one (see opportune serve)")
        decisions = tables.decisions
        typer.echo(f"{study['name']}: {study['status']}, {study['seq']:,} events, file {study['hash'][:12]}")
        typer.echo(f"participants: {study['enrolled']} enrolled, {study['amendments']} amendments")
        made = queries.count(database, decisions)
        nudges = queries.count(database, decisions, decisions.c.nudge.is_(True))
        waiting = queries.count(database, decisions, decisions.c.status == "nudge")
        typer.echo(f"decisions: {made:,}, nudges: {nudges:,}, waiting for an answer: {waiting:,}")
        alerts = queries.alert_rows(database)
        for alert in alerts:
            typer.echo(f"{alert['level']}: {alert['code']}: {alert['text']}")
        if any(alert["level"] == "red" for alert in alerts):
            raise typer.Exit(FAILED)


def amend(study: Annotated[Path, typer.Argument(metavar="STUDY.toml")], reason: Reason, db: Db = None) -> None:
    """Put a changed study file in force: shows what changes, refuses what cannot change under way."""
    with opened(db) as database:
        from opportune.service.commands.administration import Amend, difference  # noqa: PLC0415
        from opportune.service.record.queries import study_row  # noqa: PLC0415
        from opportune.service.state import clock  # noqa: PLC0415
        from opportune.service.state.study import StudyInForce  # noqa: PLC0415

        text = StudyInForce.from_file(study).text
        row = study_row(database)
        typer.echo(difference("" if row is None else row["file"], text), nl=False)
        who, why = _user(), _said(reason)
        _do(database, Amend(who=who, received=clock.now(), file=text, source=str(study), reason=why))
        say("amended; a service that runs goes on by the new file", DONE)


def close(reason: Reason, db: Db = None) -> None:
    """End the study: no one is enrolled and no decisions are made any more."""
    with opened(db) as database:
        from opportune.service.commands.administration import Close  # noqa: PLC0415
        from opportune.service.state import clock  # noqa: PLC0415

        _do(database, Close(who=_user(), received=clock.now(), reason=_said(reason)))
        say("closed", DONE)


def _do(database: "Database", command: "Command") -> None:
    from opportune.service.problems import Refused  # noqa: PLC0415
    from opportune.service.record.writer import Writer  # noqa: PLC0415

    try:
        Writer(database).do(command)
    except Refused as refused:
        raise InputError(str(refused)) from None


def _user() -> str:
    """Whoever runs the command, by the name that the system knows; else by number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _said(reason: str) -> str:
    if not reason.strip():
        raise InputError("--reason is empty; expected why")
    from opportune import checks  # noqa: PLC0415  (NumPy is slow to import)

    return checks.text("--reason", reason.strip(), lines=True)


COMMANDS = (verify, export, backup, restore, status, amend, close)
