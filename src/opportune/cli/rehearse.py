"""`opportune rehearse`: simulated participants drive a running service."""

import datetime as dt
import getpass
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.serve import require_extra
from opportune.cli.shared import DONE, FAILED, say
from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.rehearsal.access import Access
    from opportune.rehearsal.drive import Rehearsal
    from opportune.service.state.study import StudyInForce

HELP = """Rehearse a study with simulated participants, from launch to export.

Participants are drawn from the world in the study file. Without --url the whole study runs here at full speed, on a
separate database and with simulated staff; --keep keeps the database, and --export writes what analysts would get.

With --url the participants drive a running service over HTTP, so that staff can practise and load can be tested. That
service must have been started with --rehearsal. Nudges then wait for people unless --staff answers them. The same
command resumes where the last one stopped.

\b
Examples:
  opportune rehearse my.toml --export out/rehearsal
  opportune serve my.toml --rehearsal --db sqlite:///rehearsal.db
  opportune keys add rehearsal --role admin --db sqlite:///rehearsal.db
  OPPORTUNE_KEY=... opportune rehearse my.toml --url http://127.0.0.1:8000 --staff
  OPPORTUNE_KEY=... opportune rehearse my.toml --url http://127.0.0.1:8000 --speed 60x
"""


def rehearse(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    url: Annotated[
        str | None,
        typer.Option(help="A running service; without it everything runs here.", metavar="URL", show_default=False),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            help="Number of participants; by default all planned, with --url at most 50.", metavar="N",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Number of days; by default all, with --url 30.", metavar="N", show_default=False)
    ] = None,
    speed: Annotated[
        str, typer.Option(help="With --url; max: at full speed; 60x: a minute takes a second.", metavar="max|60x")
    ] = "max",
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the simulated participants; by default the study's.", metavar="N",
            show_default=False, min=0, max=2**64 - 1,
        ),
    ] = None,
    staff: Annotated[bool, typer.Option("--staff", help="Answer calls, too; always on without --url.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder in which to keep the database; not with --url.", metavar="DIR", show_default=False),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Folder to write exports to; not with --url.", metavar="DIR", show_default=False)
    ] = None,
) -> None:  # fmt: skip
    """Rehearse a study, then print a summary."""
    require_extra()
    from opportune.client import Client  # noqa: PLC0415
    from opportune.rehearsal import start  # noqa: PLC0415
    from opportune.rehearsal.access import HttpAccess  # noqa: PLC0415
    from opportune.rehearsal.drive import Rehearsal  # noqa: PLC0415
    from opportune.rehearsal.people import People  # noqa: PLC0415
    from opportune.service.state.study import StudyInForce  # noqa: PLC0415
    from opportune.study.arrivals import decisions_per_day  # noqa: PLC0415

    factor = start.speed_of(speed)
    if url is None and factor is not None:
        raise InputError("--speed is for rehearsals with --url; without it the study runs here at full speed")
    running = StudyInForce.from_file(study)
    running.study.require_truth()
    if url is None:
        _alone(running, participants, days, seed=seed, keep=keep, export=export)
        return
    if keep is not None or export is not None:
        raise InputError("--keep and --export are for rehearsals without --url; the service at --url has the record")
    participants = min(50, running.participants) if participants is None else participants
    days = 30 if days is None else days
    address = start.address_of(url)
    start.check_size(running, people=participants, days=days)
    with Client(address, _key()) as client, HttpAccess(client, in_order=running.in_turn) as access:
        now = dt.datetime.fromisoformat(start.enter(client, address, running)["now"])
        steps = min(running.horizon, days * decisions_per_day(running.study.settings))
        people = People(running, count=participants, steps=steps, seed=seed)
        with kept("decisions made so far are on record; the same command resumes there"), Bar("rehearsal") as bar:
            rehearsal = Rehearsal(
                running, access, people, count=participants, days=days, first=start.first_day(now, running),
                now=now, staff=staff, factor=factor, progress=bar.show,
            )  # fmt: skip
            begin = time.perf_counter()
            rehearsal.run()
            took = time.perf_counter() - begin
        _sum_up(rehearsal, access, access.seconds, took, fast=factor is None)


def _alone(
    running: "StudyInForce", participants: int | None, days: int | None, *, seed: int | None, keep: Path | None,
    export: Path | None,
) -> None:  # fmt: skip
    """Rehearse on a separate database, then write exports, verify the record, and print the summary."""
    from opportune.cli.record import write_export  # noqa: PLC0415
    from opportune.rehearsal import start  # noqa: PLC0415
    from opportune.rehearsal.alone import days_of, rehearse_alone  # noqa: PLC0415
    from opportune.service.verify.check import verify  # noqa: PLC0415

    people = running.participants if participants is None else participants
    days = days_of(running, max(1, people)) if days is None else days
    start.check_size(running, people=people, days=days)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "study.db").exists():
            raise InputError(f"{folder / 'study.db'} exists; expected a folder without a database")
        with Bar("rehearsal") as bar:
            begin = time.perf_counter()
            database, rehearsal = rehearse_alone(
                running, folder, people=people, days=days, seed=seed, progress=bar.show
            )
            took = time.perf_counter() - begin
        try:
            if export is not None:
                export.mkdir(parents=True, exist_ok=True)
                write_export(database, export)
            verdict = verify(database)
            for line in verdict.findings[:5]:
                say(f"opportune: {line}", DONE)
            if verdict.findings:
                raise typer.Exit(FAILED)
            typer.echo(f"{verdict.count:,} events are on record, and the record verifies.")
            _sum_up(rehearsal, rehearsal.access, (), took, fast=True)
        finally:
            database.close()
    for what, place in (("The database is in", keep), ("Exports are in", export)):
        if place is not None:
            typer.echo(f"{what} {place}.")


def _key() -> str:
    """The key from the environment or a prompt; an argument could be read by everyone on the machine."""
    key = os.environ.get("OPPORTUNE_KEY", "")
    if not key and sys.stdin.isatty():
        key = getpass.getpass("Key of role admin: ")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        what = "no key is given" if not key else "the key contains characters that no key has"
        raise InputError(f"{what}; expected OPPORTUNE_KEY in the environment, of role admin")
    return key


class Bar:
    """A progress bar over decisions."""

    def __init__(self, what: str) -> None:
        from opportune.progress import bar  # noqa: PLC0415

        self._bar = bar()
        self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Show progress."""
        self._bar.update(self._task, completed=done, total=total)


def _sum_up(rehearsal: "Rehearsal", access: "Access", seconds: Sequence[float], took: float, *, fast: bool) -> None:
    """Print the summary, and whether the decisions equal those of `simulate`."""
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from opportune.rehearsal.comparison import compare, why_not  # noqa: PLC0415
    from opportune.rehearsal.summary import count, speed  # noqa: PLC0415

    members = rehearsal.members.values()
    made = {member.number: list(access.decisions(member.name)) for member in members}
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    drawn.add_column()
    drawn.add_column(justify="right")
    planned = rehearsal.count
    later = f" of {planned:,}; the others begin later" if len(made) < planned else ""
    drawn.add_row("participants", f"{len(made):,}{later}")
    several = rehearsal.running.study.settings.nudge.several
    for name, value in count((decision for each in made.values() for decision in each), several).items():
        drawn.add_row(name, f"{value:,}")
    for name, text in speed(rehearsal.made, took, seconds).items():
        drawn.add_row(name, text)
    Console().print(drawn)
    reason = why_not(rehearsal.people, staff=rehearsal.staff, fast=fast, count=planned)
    if reason is not None:
        typer.echo(f"Not compared with simulate: {reason}.")
        return
    compared = compare(rehearsal.people, made, {member.number: member.arm for member in members}, count=planned)
    if compared.differing:
        for line in compared.differing[:5]:
            say(f"opportune: {line}", DONE)
        wrong = f"{len(compared.differing):,} of {compared.decisions:,} decisions differ from simulate's"
        say(f"opportune: error: {wrong}", FAILED)
        raise typer.Exit(FAILED)
    typer.echo(f"All {compared.decisions:,} decisions equal those of simulate with the same seed.")
