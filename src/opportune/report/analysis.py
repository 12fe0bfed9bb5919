"""The report of a trial's analysis: one printable page, its figures, a CSV of every table, the rows, a script for R."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from opportune.analysis.plots import save_figure
from opportune.experiments.record import Cell, Table, versions
from opportune.report.analysis_figures import pictures
from opportune.report.html import read_picture, render, write_page
from opportune.trial.run import Analysis, failures, sentences, unit_of

CAPTIONS = {
    "flow": "Participants and decision points at each stage",
    "reasons": "Why decision points were not eligible for a nudge",
    "fidelity": "How the study ran",
    "calibration": "Nudges made and nudges implied by the recorded probabilities, in classes of the probability; "
    "z beyond ±3 needs a closer look",
    "budget": "Nudges against the budget",
    "missing": "Rewards that are missing or were filled in; filled-in ones are left out of every analysis",
    "effects": "Every estimated effect; Holm’s p is adjusted for all secondary ones. "
    "Participants, rows, least probability and the estimand in words are below and in the CSV file",
    "course": "Nudges and the mean reward by day of the study",
    "always": "The mean reward if one action had been taken wherever actions were drawn, all else as in the "
    "study: weighted by the recorded probabilities (doubly robust; SNIPS beside it)",
    "policies": "The mean reward under other policies, simulated by the study’s formula as fitted to its record; "
    "differences are from the first policy",
    "planned": "What the plan expected, and what the study found",
    "consort-ai": "CONSORT-AI: what the record answers, and what the authors must add",
}
ALWAYS = ["action, always", "mean reward", "95% interval", "difference from the record", "its 95% interval", "SNIPS",
          "effective sample size"]  # fmt: skip
ESTIMATE = ["analysis", "coefficient", "estimate", "se", "95% interval", "p", "Holm p", "df"]


def write_analysis(found: Analysis, out: Path, command: str) -> Path:
    """Write NAME-analysis.html, and beside it figures, the CSV of every table, the analysed rows, and an R script.

    Args:
        found: the analysis.
        out: an existing folder.
        command: the command line that repeats this.

    """
    stem = f"{found.export.name}-analysis"
    figures = {}
    for picture in pictures(found):
        png, svg = save_figure(picture.figure, out, f"{stem}-{picture.name}")
        figures[picture.name] = (read_picture(out, svg, png), picture)
    files = [write_page(csv_of(frame), out / f"{stem}-{name}.csv").name for name, frame in found.tables.items()]
    if not found.blinded:  # the rows show who was nudged, which gives the arms away
        files.append(write_page(csv_of(found.rows), out / f"{stem}-rows.csv").name)
        files.append(write_page(found.script + "\n", out / f"{stem}.R").name)
    page = render(
        "analysis.html.jinja",
        name=found.export.name,
        blinded=found.blinded,
        found=sentences(found),
        findings=[finding for finding in found.findings if finding.estimates is not None],
        failures=failures(found.findings),
        why_no_policies=found.why,
        notes=found.notes,
        unit=unit_of(found.export),
        figures=figures,
        tables={name: report_table(name, frame, CAPTIONS[name]) for name, frame in found.tables.items()},
        files=files,
        file="" if found.export.study is None or found.blinded else found.export.study.text,
        command=command,
        finished=datetime.now(UTC),
        versions=versions(),
    )
    return write_page(page, out / f"{stem}.html")


def csv_of(frame: pd.DataFrame) -> str:
    """A table as CSV."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def report_table(name: str, frame: pd.DataFrame, caption: str) -> Table:
    """A table for readers: intervals in one cell, shares in per cent."""
    if name == "effects":
        rows = [
            [r["analysis"] + (" (primary)" if r["kind"] == "primary" else ""), r["coefficient"], r["estimate"], r["se"],
             _interval(r["low"], r["high"]), p_text(r["p"]), p_text(r["holm p"]), int(r["df"])]
            for r in frame.to_dict("records")
        ]  # fmt: skip
        return Table(caption=caption, columns=ESTIMATE, rows=rows)
    if name == "policies":
        rows = [[r["policy"], r["estimate"], r["se"], _interval(r["low"], r["high"])] for r in frame.to_dict("records")]
        return Table(caption=caption, columns=["policy", "mean reward", "se", "95% interval"], rows=rows)
    if name == "always":
        found = frame.to_dict("records")
        without = [f"“{r['action, always']}”: {r['why there is no value']}" for r in found if math.isnan(r["se"])]
        reasons = f". No value for {'; '.join(without)}" if without else ""
        return Table(caption=caption + reasons, columns=ALWAYS, rows=[_valued(row) for row in found])
    shares = [column for column in frame.columns if str(column).startswith("share")]
    cells: list[list[Cell]] = [
        [_percent(value) if column in shares else _cell(value) for column, value in row.items()]
        for row in frame.to_dict("records")
    ]
    return Table(caption=caption, columns=[str(column) for column in frame.columns], rows=cells)


def _valued(row: dict[Any, Any]) -> list[Cell]:
    """The value of always taking an action, if the record says enough about it."""
    if math.isnan(row["se"]):
        return [row["action, always"], *[None] * (len(ALWAYS) - 1)]
    return [
        row["action, always"], row["mean reward"], _interval(row["low"], row["high"]),
        row["difference from the record"], _interval(row["difference, low"], row["difference, high"]), row["SNIPS"],
        round(row["effective sample size"]),
    ]  # fmt: skip


def _cell(value: Any) -> Cell:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return value if isinstance(value, bool | int | str) else str(value)


def _percent(value: float) -> Cell:
    return None if math.isnan(value) else f"{value:.1%}"


def _interval(low: float, high: float) -> str:
    places = int(min(6, max(0, 2 - math.floor(math.log10(max(abs(high - low), 1e-9))))))
    return f"{low:.{places}f} to {high:.{places}f}".replace("-", "−")


def p_text(p: float) -> Cell:
    """A p-value for readers."""
    if math.isnan(p):
        return None
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
