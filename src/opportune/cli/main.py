"""The command `opportune`. It starts fast, as each command imports heavy modules only when it is run."""

import errno
import os
import sys
import traceback
from typing import Annotated

import typer

from opportune._version import __version__
from opportune.cli import (
    accounts,
    analyse,
    brushing,
    calibrate,
    check,
    demo,
    example,
    interrupts,
    monitor,
    new,
    plan,
    protocol,
    record,
    rehearse,
    reproduce,
    serve,
    simulate,
)
from opportune.cli.shared import DONE, FAILED, INTERRUPTED, WRONG_USE, Interrupted, say, speak_plainly
from opportune.errors import DataError, InputError, OpportuneError
from opportune.files import FULL

HELP = """Decide when a limited number of costly nudges is worth spending, and what to recommend in between.

\b
Words:
  nudge        a call or message that makes a patient open the app
  reveal       what is sensed, and what the patient reports, becomes known
  revealer     picks the moments that are worth a nudge
  recommender  picks the treatment, from what it knew at the last reveal
  budget       the number of nudges in a run
  regret       what a policy loses against one that knows the truth

\b
Examples:
  opportune reproduce all --quick         the paper's experiments, small
  opportune example                       study files to start from
  opportune simulate my.toml              its table, figures and data

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.
"""

MOST_CHARACTERS = 1_000
MAY_BE_EMPTY = ("--reported", "--reason")
"""Options whose value may be empty, or which report an empty value themselves."""
WRONG_PATHS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

app = typer.Typer(
    name="opportune",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point: run the command line and exit with its code."""
    interrupts.listen()
    interrupts.leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line; the exit code is 0 (done), 1 (failed), 2 (wrong use) or 130 (interrupted)."""
    debug = "--debug" in arguments
    speak_plainly()
    try:
        _check_arguments(arguments)
        code = app(
            [_at_home(a) for a in arguments if a != "--debug"] or ["--help"],
            prog_name="opportune",
            standalone_mode=False,
        )
    except Interrupted as stop:
        return say(f"opportune: interrupted: {stop}", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        return FAILED
    except (KeyboardInterrupt, typer.Abort):
        return say("opportune: interrupted: nothing was written", INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _report(error)
    if code == INTERRUPTED:  # typer returns this for Ctrl-C if the command has not reported more
        say("opportune: interrupted: nothing was written", INTERRUPTED)
    return code if isinstance(code, int) else DONE


def _at_home(argument: str) -> str:
    """An argument, or an option's value after "=", with a leading "~" replaced by the user's home."""
    option, sign, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{sign}{os.path.expanduser(value)}"


def _check_arguments(arguments: list[str]) -> None:
    """Refuse values that no name, number or path can have: control characters, very long text, empty text."""
    for number, argument in enumerate(arguments):
        before = arguments[number - 1] if number else "opportune"
        option, sign, value = argument.partition("=") if argument.startswith("--") else (before, "=", argument)
        if not argument.isprintable() or len(argument) > MOST_CHARACTERS:
            from opportune import checks  # noqa: PLC0415  (NumPy is slow to import)

            checks.text(f"argument {number + 1}", argument, lines=before == "--reason")
        if sign and not value and option not in MAY_BE_EMPTY:
            raise InputError(f"the value of {option} is empty; expected a value (see 'opportune --help')")


def _report(error: Exception) -> int:
    """Report an error, one line for each part, and return the exit code."""
    if isinstance(error, OpportuneError):
        for line in str(error).splitlines():
            say(f"opportune: error: {line}", FAILED)
        return WRONG_USE if isinstance(error, InputError | DataError) else FAILED
    if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands, without a command
        for line in str(error).splitlines():
            say(line, WRONG_USE)
        return WRONG_USE
    if hasattr(error, "format_message"):  # a usage error, whichever click typer is built on
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "opportune"
        text = " ".join(error.format_message().split()).rstrip(".")
        return say(f"opportune: error: {text}; see '{command} --help'", WRONG_USE)
    if isinstance(error, OSError) and (error.filename is not None or error.errno in FULL):
        return _report_file(error)
    if isinstance(error, MemoryError):
        return say("opportune: error: there is not enough memory; expected fewer runs, or trace = false", FAILED)
    text = " ".join(str(error).split()) or "no message"
    return say(f"opportune: error: {type(error).__name__}: {text} (--debug shows where)", FAILED)


def _report_file(error: OSError) -> int:
    """Report which file cannot be used, and why; without a file name, the error concerns standard output."""
    if error.filename is None:
        return say("opportune: error: the output cannot be written: the disk is full", FAILED)
    wrong = isinstance(error, WRONG_PATHS) or error.errno in {errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS}
    expected = "; expected a path that can be used" if wrong else ""
    return say(f"opportune: error: {error.filename}: {error.strerror}{expected}", WRONG_USE if wrong else FAILED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opportune {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options that come before the command."""


app.command(help=reproduce.HELP)(reproduce.reproduce)
app.command(help=simulate.HELP)(simulate.simulate)
app.command(help=plan.HELP)(plan.plan)
app.command(help=new.HELP)(new.new)
app.command(help=check.HELP)(check.check)
app.command(help=protocol.HELP)(protocol.protocol)
app.command(help=example.EXAMPLE_HELP)(example.example)
app.command(help=example.SCHEMA_HELP)(example.schema)
app.command(help=calibrate.HELP)(calibrate.calibrate)
app.command(help=demo.HELP)(demo.demo)
app.command(help=serve.HELP)(serve.serve)
app.command(help=analyse.HELP)(analyse.analyse)
app.command(help=monitor.HELP)(monitor.monitor)
app.command(help=rehearse.HELP)(rehearse.rehearse)
app.add_typer(accounts.keys, name="keys")
app.add_typer(accounts.people, name="people")
for command in record.COMMANDS:
    app.command()(command)
app.command("fit-brushing", help=brushing.HELP)(brushing.fit_brushing)
