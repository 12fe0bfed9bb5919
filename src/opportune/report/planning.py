"""The report of a plan: the recommendation in words, figures, tables, assumptions, and the command that repeats it."""

import math
from datetime import UTC, datetime
from pathlib import Path

from opportune.analysis.plots import save_figure
from opportune.experiments.record import versions
from opportune.planning.phrases import who
from opportune.planning.run import Plan
from opportune.planning.words import assumptions_table, learned, methods, recommendation
from opportune.report.html import read_picture, render, write_page
from opportune.report.plan_figures import pictures
from opportune.report.plan_tables import report_tables


def write_plan(plan: Plan, out: Path, command: str) -> Path:
    """Write NAME-plan.html, which contains all figures, and beside it the figures and the CSV of every table.

    Args:
        plan: the plan.
        out: an existing folder.
        command: the command line that repeats this.

    """
    stem = f"{plan.settings.study.name}-plan"
    figures = {}
    for picture in pictures(plan):
        png, svg = save_figure(picture.figure, out, picture.name.replace("plan", stem, 1))
        figures[picture.name] = (read_picture(out, svg, png), picture)
    files = []
    for name, frame in {**plan.tables(), "assumptions": assumptions_table(plan)}.items():
        text = frame.replace([math.inf, -math.inf], ["inf", "-inf"]).to_csv(index=False, lineterminator="\n")
        files.append(write_page(str(text), out / f"{stem}-{name}.csv").name)
    settings = plan.settings
    page = render(
        "plan.html.jinja",
        name=settings.study.name,
        settings=settings,
        least=plan.least,
        found=recommendation(plan),
        methods=methods(plan),
        learned=learned(plan),
        who=who(plan),
        figures=figures,
        tables=report_tables(plan),
        files=files,
        file=settings.study.text,
        command=command,
        seconds=plan.seconds,
        finished=datetime.now(UTC),
        versions=versions(),
    )
    return write_page(page, out / f"{stem}.html")
