"""`opportune rehearse`: simulated participants drive a running service."""

import datetime as dt
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.serve import require_extra
from opportune.cli.shared import DONE, FAILED, say
from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.rehearsal.access import HttpAccess
    from opportune.rehearsal.drive import Rehearsal

HELP = """Rehearse a study: simulated participants from the study file's world drive a running service over HTTP.

Staff can practise, and load can be tried, before there are patients. The service is one that was started with
--rehearsal, on a database of its own. Nudges are left for people to settle; with --staff they are answered too.
The same command again goes on where the last one stopped.

\b
Examples:
  opportune serve my.toml --rehearsal --db sqlite:///rehearsal.db
  opportune keys add rehearsal --role admin --db sqlite:///rehearsal.db
  OPPORTUNE_KEY=... opportune rehearse my.toml --staff
  OPPORTUNE_KEY=... opportune rehearse my.toml --participants 10 --days 5 --speed 60x
"""


def rehearse(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    url: Annotated[str, typer.Option(help="Where the service is.", metavar="URL")] = "http://127.0.0.1:8000",
    key: Annotated[
        str | None, typer.Option(help="A key of role admin; $OPPORTUNE_KEY unless given.", show_default=False)
    ] = None,
    participants: Annotated[int, typer.Option(help="How many take part.", metavar="N")] = 50,
    days: Annotated[int, typer.Option(help="Days of the study.", metavar="N")] = 30,
    speed: Annotated[
        str, typer.Option(help="As fast as can be, or so fast: at 60x a minute takes a second.", metavar="max|60x")
    ] = "max",
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of what participants meet; the study's unless given.", metavar="N", show_default=False, min=0,
            max=2**64 - 1,
        ),
    ] = None,
    staff: Annotated[bool, typer.Option("--staff", help="Answer calls too.")] = False,
) -> None:  # fmt: skip
    """Drive a service, then say how it went."""
    require_extra()
    from opportune.client import Client  # noqa: PLC0415
    from opportune.rehearsal import start  # noqa: PLC0415
    from opportune.rehearsal.access import HttpAccess  # noqa: PLC0415
    from opportune.rehearsal.drive import Rehearsal  # noqa: PLC0415
    from opportune.rehearsal.people import People  # noqa: PLC0415
    from opportune.service.state.study import StudyInForce  # noqa: PLC0415
    from opportune.study.arrivals import decisions_per_day  # noqa: PLC0415

    running = StudyInForce.from_file(study)
    running.study.require_truth()
    factor, address = start.speed_of(speed), start.address_of(url)
    start.check_size(running, people=participants, days=days)
    with Client(address, _key(key)) as client, HttpAccess(client, in_order=running.policy.together) as access:
        now = dt.datetime.fromisoformat(start.enter(client, address, running)["now"])
        steps = min(running.horizon, days * decisions_per_day(running.study.settings))
        people = People(running, count=participants, steps=steps, seed=seed)
        with kept("what was decided is on record; the same command goes on from there"), Bar("rehearsal") as bar:
            rehearsal = Rehearsal(
                running, access, people, count=participants, days=days, first=start.first_day(now, running),
                now=now, staff=staff, factor=factor, told=bar.show,
            )  # fmt: skip
            begin = time.perf_counter()
            rehearsal.run()
            took = time.perf_counter() - begin
        _sum_up(rehearsal, access, took, fast=factor is None)


def _key(given: str | None) -> str:
    key = given if given is not None else os.environ.get("OPPORTUNE_KEY", "")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        what = "no key is given" if not key else "the key has signs that no key has"
        raise InputError(f"{what}; expected --key, or OPPORTUNE_KEY in the environment, of role admin")
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
        """How far it is."""
        self._bar.update(self._task, completed=done, total=total)


def _sum_up(rehearsal: "Rehearsal", access: "HttpAccess", took: float, *, fast: bool) -> None:
    """The table at the end, and whether decisions are those of `simulate`."""
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
    rows = {"participants": len(made), **count(decision for each in made.values() for decision in each)}
    for name, value in rows.items():
        drawn.add_row(name, f"{value:,}")
    for name, text in speed(rehearsal.made, took, access.seconds).items():
        drawn.add_row(name, text)
    Console().print(drawn)
    reason = why_not(rehearsal.people, staff=rehearsal.staff, fast=fast, count=len(made))
    if reason is not None:
        typer.echo(f"Not compared with simulate: {reason}.")
        return
    compared = compare(rehearsal.people, made)
    if compared.differing:
        for line in compared.differing[:5]:
            say(f"opportune: {line}", DONE)
        wrong = f"{len(compared.differing):,} of {compared.decisions:,} decisions differ from simulate's"
        say(f"opportune: error: {wrong}", FAILED)
        raise typer.Exit(FAILED)
    typer.echo(f"All {compared.decisions:,} decisions are those of simulate, with the same seed.")
