"""The report of one simulated study: findings in words, tables, figures, names, and the command that repeats it."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xarray as xr

from opportune.analysis.comparison import Compared, digits_for
from opportune.analysis.intervals import Interval
from opportune.analysis.metrics import has_realised_regret, has_regret
from opportune.experiments.record import FigureFiles, Table, versions
from opportune.report.html import read_picture, render, write_page

SOME = 40
"""Up to this many contexts are listed by name."""


CAPTIONS = {
    "differences": "The difference of each policy’s mean outcome per step from the reference’s, on the same draws, "
    "with 95% intervals. Right of the line a policy is better than the reference; where an interval crosses the line, "
    "chance alone could explain the difference.",
    "outcomes": "Left: mean expected reward per step so far. Right, where the truth is known: the loss so far against "
    "the best action in each context. Bands: 95%.",
    "regret": "Regret so far, a panel for each clairvoyant: only policies with the same budget are measured against "
    "the same one. Bands: 95%. Where a line falls, the policy is revealing while the clairvoyant saves its {nudges} "
    "for better moments to come.",
    "reveals": "The probability of {nudges} over time, and the expected number so far. Dotted: the budgets. "
    "Bands: 95%.",
}
ALTS = {
    "differences": "A dot with an interval for each policy, beside the reference.",
    "outcomes": "Line charts over time, one line per policy.",
    "regret": "Line charts of cumulative regret over time, one line per policy.",
    "reveals": "Line charts over time: probability of {nudges}, and {nudges} so far.",
}


def about(figure: str, data: xr.Dataset) -> tuple[str, str]:
    """A figure's caption and alternative text, with the study's word for nudges."""
    nudges = _nudges(data)
    return CAPTIONS[figure].format(nudges=nudges), ALTS[figure].format(nudges=nudges)


def _nudges(data: xr.Dataset) -> str:
    """The study's word for nudges."""
    return str(data.attrs.get("nudges", "nudges"))


def observed(data: xr.Dataset) -> str:
    """What counts as one observation in these results."""
    return "instances" if data.sizes["world"] > 1 else "runs"


def found_in_words(rows: Sequence[Compared], reference: str, unit: str = "") -> list[str]:
    """What a reader should know first: which policies do better than the reference, and which do not."""
    others = sorted((row for row in rows if row.difference is not None), key=lambda row: -row.outcome.mean)
    if not others:
        return [f"{reference} is the only policy, so there is no comparison."]
    digits = digits_for(row.difference for row in others)
    per = f" {unit} per step" if unit else " per step"
    sides: dict[str, list[str]] = {"better": [], "worse": [], "open": []}
    for row in others:
        assert row.difference is not None
        sides[_side(row.difference)].append(f"{row.policy} ({row.difference.mean:+.{digits}f})")
    base = next(row for row in rows if row.difference is None)
    lines = [
        f"The policies are compared with {reference}, whose mean outcome is "
        f"{base.outcome.text(digits_for([base.outcome]))}{per}."
    ]
    if sides["better"]:
        lines.append(f"Better than {reference} (difference{per}): {', '.join(sides['better'])}.")
    if sides["worse"]:
        lines.append(f"Worse: {', '.join(sides['worse'])}.")
    if sides["open"]:
        lines.append(f"Undecided, since chance alone could explain the difference: {', '.join(sides['open'])}.")
    return lines


def _side(difference: Interval) -> str:
    return "better" if difference.low > 0 else "worse" if difference.high < 0 else "open"


def outcome_table(data: xr.Dataset, rows: Sequence[Compared], reference: str) -> Table:
    """The measures in which all policies can be compared."""
    unit = data.attrs.get("unit", "")
    digits = [digits_for(getattr(row, name) for row in rows) for name in ("outcome", "difference", "realised_regret")]
    columns = ["policy", f"mean outcome ({unit})" if unit else "mean outcome", f"beside {reference}"]
    if has_realised_regret(data):
        columns.append("realised regret")
    return Table(
        caption=f"Means after {data.attrs['horizon']:,} steps, ± 95% interval over {observed(data)}: expected reward "
        f"per step, its difference from {reference} on the same draws, the loss over the whole run against the best "
        f"action in each context, {_nudges(data)} and reveals per run, and the rest of the budget",
        columns=[*columns, _nudges(data), "reveals", "budget left"],
        rows=[
            [
                row.policy,
                row.outcome.text(digits[0]),
                _text(row.difference, digits[1]),
                *([_text(row.realised_regret, digits[2])] if has_realised_regret(data) else []),
                f"{row.nudges.mean:.1f}",
                f"{row.reveals.mean:.1f}",
                None if row.budget_left is None else f"{row.budget_left:.1f}",
            ]
            for row in rows
        ],
    )


def regret_table(data: xr.Dataset, rows: Sequence[Compared]) -> Table | None:
    """The paper's regret, grouped by clairvoyant."""
    if not has_regret(data):
        return None
    measured = [row for row in rows if row.regret is not None]
    digits = digits_for(row.regret for row in measured)
    order = list(dict.fromkeys(row.clairvoyant for row in measured))
    absent = [row.policy for row in rows if row.regret is None]
    left_out = f". Without a budget, and so without such a clairvoyant: {', '.join(absent)}" if absent else ""
    return Table(
        caption=f"The paper’s regret after {data.attrs['horizon']:,} steps, ± 95% interval over {observed(data)}. Only "
        f"policies measured against the same clairvoyant can be compared{left_out}",
        columns=["clairvoyant with", "policy", "regret"],
        rows=[
            [name, row.policy, _text(row.regret, digits)]
            for name in order
            for row in measured
            if row.clairvoyant == name
        ],
    )


def _text(value: Interval | None, digits: int) -> str | None:
    return None if value is None else value.text(digits)


def write_csv(rows: Iterable[Compared], target: Path) -> Path:
    """Write all tables as one CSV file, a row per policy, numbers in full precision."""
    intervals = ("outcome", "difference", "realised_regret", "nudges", "reveals", "regret")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = [f"{name}{end}" for name in intervals for end in ("", "_low", "_high")]
    writer.writerow(["policy", "budget", "budget_left", "clairvoyant", *ends])
    for row in rows:
        numbers: list[Any] = []
        for name in intervals:
            found: Interval | None = getattr(row, name)
            numbers += ["", "", ""] if found is None else [found.mean, *_ends(found)]
        writer.writerow([row.policy, _blank(row.budget), _blank(row.budget_left), row.clairvoyant or "", *numbers])
    return write_page(text.getvalue(), target)


def _ends(found: Interval) -> list[Any]:
    return ["", ""] if found.half_width != found.half_width else [found.low, found.high]


def _blank(value: float | None) -> Any:
    return "" if value is None else value


def write_study_report(
    data: xr.Dataset,
    rows: Sequence[Compared],
    reference: str,
    figures: Sequence[FigureFiles],
    target: Path,
    command: str,
) -> Path:
    """Write the page of a study; the file appears only once it is complete."""
    tables = [outcome_table(data, rows, reference), regret_table(data, rows), _context_table(data)]
    names = [str(name) for name in data["action_name"].values] if "action_name" in data.coords else []
    page = render(
        "study.html.jinja",
        name=data.attrs.get("study", "Study"),
        policies=data.sizes["policy"],
        worlds=data.sizes["world"],
        replicates=data.sizes["replicate"],
        horizon=int(data.attrs["horizon"]),
        per_day=data.attrs.get("decisions_per_day"),
        found=found_in_words(rows, reference, data.attrs.get("unit", "")),
        reference=reference,
        tables=[table for table in tables if table is not None],
        figures=[(read_picture(target.parent, one.svg, one.png), one) for one in figures],
        actions=names,
        contexts=data.sizes.get("contexts", 0),
        file=data.attrs.get("study_file", ""),
        command=command,
        seed=data.attrs["seed"],
        device=data.attrs["device"],
        seconds=float(data.attrs["seconds"]),
        finished=datetime.now(UTC),
        versions=versions(),
    )
    return write_page(page, target)


def _context_table(data: xr.Dataset) -> Table | None:
    """The contexts by name, with their probabilities and the value of knowing them."""
    if "context_name" not in data.coords or data.sizes["contexts"] > SOME:
        return None
    probs, gaps = (data[name].mean("world").values for name in ("context_probs", "true_gap"))
    return Table(
        caption="The contexts: the probability of each, and its true gap, which is the value of knowing the context; "
        f"means over {data.sizes['world']} {'instance' if data.sizes['world'] == 1 else 'instances'}",
        columns=["context", "probability", "gap"],
        rows=[
            [str(name), f"{p:.3f}", f"{g:.2f}"]
            for name, p, g in zip(data["context_name"].values, probs, gaps, strict=True)
        ],
    )
