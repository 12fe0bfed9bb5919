"""The report of a plan: the recommendation in words, figures, tables, what was assumed, and how to run it again."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from opportune._version import __version__
from opportune.analysis.plots import save_figure
from opportune.experiments.record import Table
from opportune.planning.figures import pictures
from opportune.planning.run import Plan
from opportune.planning.shown import csv_of, shown
from opportune.planning.words import assumptions_table, methods, recommendation
from opportune.report.html import read_picture, render, write_page


def write_plan(plan: Plan, out: Path, command: str) -> Path:
    """Write NAME-plan.html with all figures in it, and beside it the figures and the CSV of every table.

    Args:
        plan: what was found.
        out: a folder that is there.
        command: the command line that gives this again.

    """
    stem = f"{plan.settings.study.name}-plan"
    figures = {}
    for picture in pictures(plan):
        name = picture.name.replace("plan", stem, 1)
        png, svg = save_figure(picture.figure, out, name)
        figures[picture.name] = (read_picture(out, svg, png), picture)
    files = []
    for name, frame in {**plan.tables(), "assumptions": assumptions_table(plan)}.items():
        files.append(write_page(csv_of(frame), out / f"{stem}-{name}.csv").name)
    tables = {name: Table(caption=one.caption, columns=one.columns, rows=one.rows) for name, one in shown(plan).items()}
    assumed = assumptions_table(plan)
    tables["assumptions"] = Table(
        caption="What the plan takes for granted", columns=list(assumed.columns), rows=assumed.to_numpy().tolist()
    )
    settings = plan.settings
    page = render(
        "plan.html.jinja",
        name=settings.study.name,
        settings=settings,
        least=plan.least,
        found=recommendation(plan),
        methods=methods(plan),
        figures=figures,
        tables=tables,
        files=files,
        file=settings.study.text,
        command=command,
        seconds=plan.seconds,
        finished=datetime.now(UTC),
        versions={"opportune": __version__, "python": platform.python_version(),
                  **{package: version(package) for package in ("numpy", "numba", "scipy", "xarray")}},
    )  # fmt: skip
    return write_page(page, out / f"{stem}.html")
