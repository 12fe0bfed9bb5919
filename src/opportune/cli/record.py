"""The commands for a live study: verify, export, backup, restore, upgrade, status, amend, confirm-clock, close."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.serve import Db, readable, require_extra, warn_of_open_secret, warn_of_password
from opportune.cli.shared import DONE, FAILED, say
from opportune.cli.signing import accountless, signed_in
from opportune.errors import InputError
from opportune.files import held, write_whole

if TYPE_CHECKING:
    from opportune.service.accounts.changes import Actor
    from opportune.service.commands.base import Command
    from opportune.service.record.database import Database

Reason = Annotated[str, typer.Option(help="Why; the reason is recorded.")]


@contextmanager
def opened(db: str | None, *, current: bool = True) -> Iterator["Database"]:
    """Open the database of a study: the one named, or the only one in this folder."""
    require_extra()
    from opportune.service.monitoring.logs import log_as_json  # noqa: PLC0415
    from opportune.service.record.database import Database, file_url  # noqa: PLC0415

    log_as_json()
    warn_of_password(db)
    if db is None:
        found = sorted(Path.cwd().glob("*.db"))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise InputError(f"this folder does not contain exactly one .db file ({names}); expected --db URL")
        db = file_url(found[0])
    database = Database(db)
    try:
        with readable(database):
            if current:
                database.require_current()
                database.require_here()
            yield database
            say(f"database: {database.name}", DONE)
    finally:
        database.close()


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    from opportune.progress import bar  # noqa: PLC0415

    with bar() as show:
        task = show.add_task(what, total=None)
        yield lambda done, total: show.update(task, completed=done, total=total)


def verify(db: Db = None) -> None:
    """Replay the record and compare every decision, budget and row; exit code 1 if anything differs."""
    with opened(db) as database:
        _verify(database, _reader(database, "analyst", "admin"))


def _reader(database: "Database", *allowed: str) -> "Actor | None":
    """The author of a command that auditors may run, too: None on a copy without accounts."""
    return None if accountless(database) else signed_in(database, *allowed)


def _verify(database: "Database", actor: "Actor | None") -> None:
    """Verify, report the findings, and record who verified; an auditor's copy, without accounts, is not changed."""
    from opportune.service.accounts.changes import note_access  # noqa: PLC0415
    from opportune.service.monitoring.alerts import Alerts  # noqa: PLC0415
    from opportune.service.verify.check import verify as check  # noqa: PLC0415

    with _bar("verify") as progress:
        verdict = check(database, progress)
    if actor is not None:
        note_access(database, actor, "verified", holds=verdict.holds, events=verdict.count, head=verdict.head)
    if not verdict.holds:
        for finding in verdict.findings:
            say(f"opportune: {finding}", FAILED)
        Alerts(database).raise_alert("red", "verify", None, verdict.findings[0])
        say("opportune: error: the record does not verify", FAILED)
        raise typer.Exit(FAILED)
    Alerts(database).clear("verify")
    typer.echo(
        f"verified: {_counted(verdict.count, 'event')}, {_counted(verdict.decisions, 'decision')}; head {verdict.head}"
    )
    if verdict.chain_only:
        typer.echo("only the chain was checked: actions are drawn with the secret seed, which closing discloses")
    elif verdict.concealed:
        typer.echo("coins were not recomputed: the secret seed is missing here; closing the study discloses it")


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
    db: Db = None,
    redcap: Annotated[
        bool, typer.Option("--redcap", help="Also write a data dictionary and import files for REDCap, in DIR/redcap.")
    ] = False,
) -> None:
    """Write the record as CSV files, a dictionary of their columns, the study file, and scripts for R and Stata."""
    with opened(db) as database:
        from opportune.service.accounts.changes import note_access  # noqa: PLC0415
        from opportune.service.export import exports  # noqa: PLC0415

        note_access(database, signed_in(database, "analyst", "admin"), "exported", files=[*exports.NAMES])
        write_export(database, folder, redcap=redcap)
        typer.echo(str(folder))


def write_export(database: "Database", folder: Path, *, redcap: bool = False) -> None:
    """Write every file of an export into a folder."""
    from opportune.service.export import exports  # noqa: PLC0415
    from opportune.service.export.beside import beside  # noqa: PLC0415
    from opportune.service.export.redcap import files  # noqa: PLC0415

    finished = kept(f"finished files are in {folder}")
    with finished, held(folder), _bar("export") as progress, database.still() as frozen:
        progress(0, len(exports.NAMES))
        for number, name in enumerate(exports.NAMES):
            _write_parts(folder / f"{name}.csv", exports.export(frozen, name))
            progress(number + 1, len(exports.NAMES))
        for name, text in beside(frozen).items():
            write_whole(folder / name, text.encode())
        if redcap:
            (folder / "redcap").mkdir(exist_ok=True)
            for name, texts in files(frozen):
                _write_parts(folder / "redcap" / name, texts)


def _write_parts(file: Path, texts: Iterable[str]) -> None:
    """Write a file in pieces; it appears only once it is complete."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as opened_part:
            for text in texts:
                opened_part.write(text)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    for_auditor: Annotated[
        bool,
        typer.Option("--for-auditor", help="Copy only the record and tables derived from it: no secret seed, no keys."),
    ] = False,
    db: Db = None,
) -> None:
    """Copy the whole database into one file while the service keeps running."""
    with opened(db) as database:
        from opportune.service.accounts.changes import note_access  # noqa: PLC0415
        from opportune.service.record.backup import backup as copy  # noqa: PLC0415

        actor = signed_in(database)
        with _bar("backup") as progress:
            rows = copy(database, file, progress, for_auditor=for_auditor)
        note_access(database, actor, "backed up", file=file.name)
        if not for_auditor:
            warn_of_open_secret(database)
        typer.echo(f"{file}: {rows:,} rows")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by opportune backup.")],
    db: Annotated[str, typer.Option("--db", metavar="URL", help="An empty database.")],
    moved_from: Annotated[
        str | None, typer.Option(help="The database that the study leaves for good, which accepts no more writes.",
                                 metavar="URL", show_default=False)
    ] = None,
) -> None:  # fmt: skip
    """Copy a backup into an empty database, SQLite or PostgreSQL, and verify it."""
    require_extra()
    from opportune.service.record.moving import leaving  # noqa: PLC0415

    with opened(db, current=False) as database, database.held(), leaving(moved_from, file, database):
        from opportune.service.record.backup import restore as copy  # noqa: PLC0415

        with _bar("restore") as progress:
            done = copy(file, database, signed_in, progress)
        typer.echo(f"{database.name}: {done.rows:,} rows")
        if moved_from is None:
            say("this is a copy: the study continues in its old database, unless --moved-from names that one", DONE)
        if done.suspended:
            say(
                f"suspended until an admin readmits them (keys resume, people resume): {', '.join(done.suspended)}",
                DONE,
            )
        with kept("everything is restored, but not verified: see opportune verify"):
            _verify(database, done.by)


def upgrade(
    backup_to: Annotated[
        Path | None,
        typer.Option(
            "--backup", help="The file for the backup; by default a dated file in this folder.", metavar="FILE"
        ),
    ] = None,
    db: Db = None,
) -> None:
    """Upgrade a database to this version of Opportune: back it up, migrate it in one transaction, verify it."""
    with opened(db, current=False) as database:
        import datetime as dt  # noqa: PLC0415

        from opportune.service.accounts.changes import note_access  # noqa: PLC0415
        from opportune.service.record.backup import backup as copy  # noqa: PLC0415
        from opportune.service.record.database import newest  # noqa: PLC0415

        with database.held():
            actor = _reader(database, "admin")
            with database.reading.connect() as connection:
                found = database.revision(connection)
                if found is None:
                    raise InputError(f"{database.name} has no tables of a study; expected one to upgrade")
                database.require_algorithm(connection)
            if found == newest():
                typer.echo(f"{database.name}: the tables are of version {found} already")
                return
            made = dt.datetime.now(dt.UTC)
            file = backup_to or Path(f"before-upgrade-{made:%Y%m%dT%H%M%S}.backup")
            with _bar("backup") as progress:
                rows = copy(database, file, progress)
            typer.echo(f"{file}: {rows:,} rows")
            database.migrate()
            if actor is not None:
                note_access(database, actor, "upgraded", tables_from=found, tables_to=newest())
            typer.echo(f"{database.name}: upgraded from version {found} to version {newest()}")
            with kept("everything is upgraded, but not verified: see opportune verify"):
                _verify(database, actor)


def status(db: Db = None) -> None:
    """Show the state of a study: participants, decisions, nudges, alerts; exit code 1 if there is a red alert."""
    with opened(db) as database:
        from opportune.service.record import queries, tables  # noqa: PLC0415

        _reader(database, "staff", "analyst", "admin")
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
    """Put a changed study file in force; show what changes, and refuse what cannot change during the study."""
    with opened(db) as database:
        from opportune.service.commands.administration import Amend, difference  # noqa: PLC0415
        from opportune.service.record.queries import study_row  # noqa: PLC0415
        from opportune.service.state import clock  # noqa: PLC0415
        from opportune.service.state.study import StudyInForce  # noqa: PLC0415

        actor, why = signed_in(database), _given(reason)
        text = StudyInForce.from_file(study).text
        row = study_row(database)
        typer.echo(difference("" if row is None else row["file"], text), nl=False)
        command = Amend(
            who=actor.name, received=clock.now(), file=text, source=str(study), reason=why, origin={**actor.origin}
        )
        _do(database, command)
        say("amended; a running service uses the new file from now on", DONE)


def close(reason: Reason, db: Db = None) -> None:
    """End the study: no more participants are enrolled and no more decisions are made."""
    with opened(db) as database:
        from opportune.service.commands.administration import Close  # noqa: PLC0415
        from opportune.service.state import clock  # noqa: PLC0415

        actor, why = signed_in(database), _given(reason)
        _do(database, Close(who=actor.name, received=clock.now(), reason=why, origin={**actor.origin}))
        say("closed", DONE)


def confirm_clock(reason: Reason, db: Db = None) -> None:
    """Confirm that the clock is right after the service stopped recording because it doubted the clock."""
    with opened(db) as database:
        from opportune.service.commands.administration import ConfirmClock  # noqa: PLC0415
        from opportune.service.state import clock  # noqa: PLC0415

        actor, why, now = signed_in(database), _given(reason), clock.now()
        _do(database, ConfirmClock(who=actor.name, received=now, reason=why, origin={**actor.origin}))
        say(f"confirmed: it is {clock.iso(now)[:19]} in UTC; a waiting service continues within seconds", DONE)


def _do(database: "Database", command: "Command") -> None:
    from opportune.service.problems import Refused  # noqa: PLC0415
    from opportune.service.record.writer import Writer  # noqa: PLC0415

    try:
        Writer(database).do(command)
    except Refused as refused:
        raise InputError(str(refused)) from None


def _given(reason: str) -> str:
    """The reason, which must not be empty."""
    if not reason.strip():
        raise InputError("--reason is empty; expected a reason")
    from opportune import checks  # noqa: PLC0415  (NumPy is slow to import)

    return checks.text("--reason", reason.strip(), lines=True)


COMMANDS = (verify, export, backup, restore, upgrade, status, amend, confirm_clock, close)
