"""`opportune new`: ask a handful of questions and write a commented study file."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from opportune.errors import InputError
from opportune.files import write_whole

HELP = """Ask a handful of questions and write a commented study file.

Every question is an option as well; with --yes what was not given is taken as proposed, and nothing is asked.

\b
Examples:
  opportune new my.toml
  opportune new my.toml --yes --actions "rest, walk" --days 90 --nudge call
"""
QUESTIONS = {
    "name": "A name for the study (letters, digits, dashes)",
    "actions": "What can be recommended, separated by commas; the first is what others are compared with",
    "per_day": "Decisions per day",
    "days": "Days that a participant takes part",
    "participants": "Participants",
    "nudge": "The word for one nudge",
    "minutes": "Minutes of staff that one takes",
    "budget": "Nudges per participant that you could afford",
    "unit": "The unit of the outcome",
    "noise": "How much the outcome varies from time to time, as a standard deviation",
    "effect": "How much the right action may change it",
    "sensed": "Something that a phone or wristband senses",
    "sensed_levels": "Its levels, the usual one first",
    "reported": "Something that participants are asked (nothing: just press Enter)",
    "reported_levels": "Its levels, the usual one first",
    "timezone": "Time zone",
}
LISTS = ("actions", "sensed_levels", "reported_levels")


def new(
    file: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take what is proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    name: Annotated[str | None, typer.Option(help="The study's name.", metavar="TEXT", show_default=False)] = None,
    actions: Annotated[
        str | None, typer.Option(help="Actions, separated by commas.", metavar="LIST", show_default=False)
    ] = None,
    per_day: Annotated[int | None, typer.Option(help="Decisions per day.", metavar="N", show_default=False)] = None,
    days: Annotated[int | None, typer.Option(help="Days of a participant.", metavar="N", show_default=False)] = None,
    participants: Annotated[int | None, typer.Option(help="Participants.", metavar="N", show_default=False)] = None,
    nudge: Annotated[
        str | None, typer.Option(help="The word for one nudge.", metavar="TEXT", show_default=False)
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Minutes of staff that one takes.", metavar="X", show_default=False)
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Nudges per participant.", metavar="N", show_default=False)] = None,
    unit: Annotated[str | None, typer.Option(help="The outcome's unit.", metavar="TEXT", show_default=False)] = None,
    noise: Annotated[
        float | None, typer.Option(help="The outcome's noise, an sd.", metavar="X", show_default=False)
    ] = None,
    effect: Annotated[
        float | None, typer.Option(help="How much the right action may change.", metavar="X", show_default=False)
    ] = None,
    sensed: Annotated[str | None, typer.Option(help="A sensed variable.", metavar="TEXT", show_default=False)] = None,
    sensed_levels: Annotated[
        str | None, typer.Option(help="Its levels, separated by commas.", metavar="LIST", show_default=False)
    ] = None,
    reported: Annotated[
        str | None, typer.Option(help="A reported variable.", metavar="TEXT", show_default=False)
    ] = None,
    reported_levels: Annotated[
        str | None, typer.Option(help="Its levels, separated by commas.", metavar="LIST", show_default=False)
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="An IANA time zone.", metavar="TEXT", show_default=False)] = None,
) -> None:
    """Write a study file to begin with."""
    from opportune.study.starter import Answers, starter  # noqa: PLC0415

    given: dict[str, Any] = {
        "name": name, "actions": actions, "per_day": per_day, "days": days, "participants": participants,
        "nudge": nudge, "minutes": minutes, "budget": budget, "unit": unit, "noise": noise, "effect": effect,
        "sensed": sensed, "sensed_levels": sensed_levels, "reported": reported, "reported_levels": reported_levels,
        "timezone": timezone,
    }  # fmt: skip
    if file.exists() and not force:
        raise InputError(f"{file} exists; expected another name, or --force")
    if not file.absolute().parent.is_dir():
        raise InputError(f"{file} is in a folder that does not exist; expected one that does")
    proposed = Answers()
    if not yes and not _asking():
        raise InputError("nobody is at the terminal to ask; expected --yes, which takes what is proposed")
    if given["name"] is None and yes:
        given["name"] = file.stem
    answers = {key: _answer(key, given[key], getattr(proposed, key), given, ask=not yes) for key in QUESTIONS}
    for key in ("sensed", "reported"):
        if answers[key] and not answers[key].isidentifier():
            raise InputError(
                f"--{key} is {answers[key]!r}; expected a name of letters, digits and _, as formulas take it"
            )
    text = starter(Answers(**answers))
    write_whole(file, text.encode())
    typer.echo(str(file))
    typer.echo(f"Next: opportune check {file}", err=True)


def _asking() -> bool:
    return sys.stdin.isatty()


def _answer(key: str, given: Any, proposed: Any, others: dict[str, Any], *, ask: bool) -> Any:
    """An answer from the command line, from the person at the terminal, or as proposed."""
    value = given
    if value is None and ask and not (key == "reported_levels" and not others["reported"]):
        shown = ", ".join(proposed) if key in LISTS else proposed
        kind = type(proposed) if isinstance(proposed, int | float) else str
        value = typer.prompt(QUESTIONS[key], default=shown, type=kind, err=True)
        others[key] = value
    if value is None:
        return proposed
    if key in LISTS and isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value.strip() if isinstance(value, str) else value
