"""`opportune new`: ask questions, one after the other, and write a commented study file."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from opportune.cli.shared import say
from opportune.errors import InputError
from opportune.files import write_whole

HELP = """Ask questions, one after the other, and write a commented study file.

After an invalid answer the question is asked again; the other answers are kept. Every question is also an option.
With --yes nothing is asked, and the proposed answer is used for every option not given. Options of variables may be
repeated.

\b
Examples:
  opportune new my.toml
  opportune new my.toml --yes --actions "rest, walk" --days 90 --nudge call
  opportune new my.toml --yes --sensed stress --sensed-levels "low, high" --hours 09:00-17:00
"""


def _option(help_: str, metavar: str = "TEXT") -> Any:
    return typer.Option(help=help_, metavar=metavar, show_default=False)


def new(
    file: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; use the proposed answers.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    name: Annotated[str | None, _option("The study's name.")] = None,
    actions: Annotated[str | None, _option("Actions, separated by commas.", "LIST")] = None,
    per_day: Annotated[str | None, _option("Decisions per day.", "N")] = None,
    times: Annotated[str | None, _option("Times of day, separated by commas.", "LIST")] = None,
    timezone: Annotated[str | None, _option("An IANA time zone.")] = None,
    days: Annotated[str | None, _option("Days of a participant.", "N")] = None,
    participants: Annotated[str | None, _option("Participants.", "N")] = None,
    first_day: Annotated[str | None, _option("The date on which the first participants begin.", "DATE")] = None,
    sensed: Annotated[list[str] | None, _option("A sensed variable; may be repeated; - for none.")] = None,
    sensed_levels: Annotated[list[str] | None, _option("Its levels, separated by commas, or 0-10.", "LIST")] = None,
    reported: Annotated[list[str] | None, _option("A reported variable; may be repeated.")] = None,
    reported_levels: Annotated[list[str] | None, _option("Its levels, separated by commas, or 0-10.", "LIST")] = None,
    nudge: Annotated[str | None, _option("The word for one nudge.")] = None,
    minutes: Annotated[str | None, _option("Minutes of staff that one takes.", "X")] = None,
    budget: Annotated[str | None, _option("Nudges per participant.", "N")] = None,
    hours: Annotated[str | None, _option("Staff hours on weekdays.", "FROM-TO")] = None,
    saturday: Annotated[str | None, _option("Staff hours on Saturdays.", "FROM-TO")] = None,
    staff_per_day: Annotated[str | None, _option("The most nudges that staff make in a day.", "N")] = None,
    quiet: Annotated[str | None, _option("When participants are left alone.", "FROM-TO")] = None,
    unit: Annotated[str | None, _option("The outcome's unit.")] = None,
    noise: Annotated[str | None, _option("The outcome's noise, an sd.", "X")] = None,
    effect: Annotated[str | None, _option("How much the right action may change.", "X")] = None,
    fallback: Annotated[str | None, _option("The action that is always safe.", "ACTION")] = None,
    forbidden: Annotated[
        list[str] | None, _option("An action that is sometimes forbidden; may be repeated.", "ACTION")
    ] = None,
    never_if: Annotated[list[str] | None, _option("When it is forbidden.", "CONDITION")] = None,
    floor: Annotated[str | None, _option("Least probability of every action.", "P")] = None,
    nudge_floor: Annotated[str | None, _option("Least probability of a nudge, and of none.", "P")] = None,
) -> None:
    """Write a study file to begin with."""
    from opportune.study.questions import answers  # noqa: PLC0415
    from opportune.study.starter import starter  # noqa: PLC0415

    given: dict[str, Any] = {
        "name": name, "actions": actions, "per_day": per_day, "times": times, "timezone": timezone, "days": days,
        "participants": participants, "first_day": first_day, "sensed": sensed, "sensed_levels": sensed_levels,
        "reported": reported, "reported_levels": reported_levels, "nudge": nudge, "minutes": minutes, "budget": budget,
        "hours": hours, "saturday": saturday, "staff_per_day": staff_per_day, "quiet": quiet, "unit": unit,
        "noise": noise, "effect": effect, "fallback": fallback, "forbidden": forbidden, "never_if": never_if,
        "floor": floor, "nudge_floor": nudge_floor,
    }  # fmt: skip
    if file.exists() and not force:
        raise InputError(f"{file} exists; expected another name, or --force")
    if not file.absolute().parent.is_dir():
        raise InputError(f"{file} is in a folder that does not exist; expected one that does")
    if not yes and not _asking():
        raise InputError("there is no terminal to ask questions in; expected --yes, which accepts the proposed answers")
    if given["name"] is None and yes:
        given["name"] = file.stem
    text = starter(answers(given, None if yes else _prompt))
    write_whole(file, text.encode())
    typer.echo(str(file))
    typer.echo(f"Next: opportune check {file}", err=True)


def _asking() -> bool:
    return sys.stdin.isatty()


def _prompt(question: str, proposal: str, wrong: str) -> str:
    """One answer from the person at the terminal; what was wrong with the last one is said first."""
    if wrong:
        say(wrong, 0)
    return str(typer.prompt(question, default=proposal, err=True))
