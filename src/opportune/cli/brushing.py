"""`opportune fit-brushing`: fit the brushing world to a file of the ROBAS studies."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.worlds.brushing.table import BrushingTable

HELP = """Fit the brushing world to a ROBAS file and write its users.

FILE is the study's CSV file; a broken row is named with its line.

\b
Example:
  opportune fit-brushing data.csv --study robas3 --out users.json
"""


def fit_brushing(
    file: Annotated[Path, typer.Argument(metavar="FILE", hidden=True)],
    study: Annotated[str, typer.Option(help="Which study the file is from.", metavar="robas3|robas2")],
    out: Annotated[Path, typer.Option(help="The table to write (JSON).", metavar="TABLE", show_default=False)],
) -> None:
    """Fit the brushing world to a file."""
    from opportune import checks  # noqa: PLC0415
    from opportune.progress import bar  # noqa: PLC0415
    from opportune.worlds.brushing import data as robas  # noqa: PLC0415
    from opportune.worlds.brushing.fitting import fit_brushing as fit  # noqa: PLC0415
    from opportune.worlds.brushing.table import save_table  # noqa: PLC0415

    loaders = {"robas3": robas.load_robas3, "robas2": robas.load_robas2}
    load = loaders[checks.choice("--study", study, loaders)]
    if not out.parent.is_dir():
        raise InputError(f"--out is {str(out)!r}; expected a path in a folder that exists")
    if out.is_dir():
        raise InputError(f"--out is {str(out)!r}, a folder; expected a file to write")
    data = load(file)
    with kept("nothing was written"):
        with bar() as show:
            task = show.add_task("fitting users", total=data.users)
            table = fit(data, progress=lambda done, _: show.update(task, completed=done))
        save_table(table, out)
    _print_fit(table)
    typer.echo(str(out))


def _print_fit(table: "BrushingTable") -> None:
    """Print a summary of the fit."""
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    show = Table(title=f"{table.study}: fitted users", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("Users", "Sessions", "Converged", "Starts agree", "Log posterior"):
        show.add_column(heading, justify="right")
    show.add_row(
        str(table.users),
        f"{int(table.sessions.sum()):,}",
        f"{int(table.converged.sum())} of {table.users}",
        f"{int(table.starts_agree.sum())} of {table.users}",
        f"{float(table.log_posterior.sum()):,.1f}",
    )
    Console().print(show)
