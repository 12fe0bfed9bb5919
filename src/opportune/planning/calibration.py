"""Calibration: fit noise, contexts and effects to pilot data, and write them into a copy of the study file."""

import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opportune.errors import DataError, InputError
from opportune.inference.mixed import Fitted, fit
from opportune.planning.pilot import Pilot, read_pilot
from opportune.planning.rewrite import Edit, rewrite
from opportune.study import Study, parse_study
from opportune.study.base import show
from opportune.study.variables import VariableTable

LEAST_SD = 1e-6
"""The least standard deviation of a prior, for effects that the pilot data determine completely."""
CHANCE = 0.5
"""Added to the count of each level, so that a level missing from the data stays possible (Jeffreys)."""


class Calibrated(NamedTuple):
    """The result of a calibration: the new file's text, the fit, the rows left out, and notes."""

    text: str
    fitted: Fitted
    terms: tuple[str, ...]
    left_out: list[tuple[int, str]]
    notes: list[str]


def calibrate(study: Study, path: str | Path, *, skip_bad: bool = False, prior: bool = False) -> Calibrated:
    """Fit noise, context distribution and effects to pilot data; see `read_pilot` for the file.

    The new text is the study's own with these numbers replaced, each with a comment; everything else stays. With
    `prior`, or if the study already has a [prior], agents start from the fitted effects.
    """
    pilot = read_pilot(study, path, skip_bad=skip_bad)
    x, y, who, names = pilot.features(study)
    fitted = fit(x, y, who, list(study.terms))
    name = Path(path).name
    used = f"{len(y):,} rows of {len(names):,} participants in {name}"
    edits = [
        Edit(("reward", "noise_sd"), f"{fitted.sigma:.4g}", f"fitted to {used}"),
        *_effects(study, fitted, used),
    ]
    notes = [] if len(names) > 1 else ["one participant: the data do not show how participants differ"]
    for variable, table in study.settings.variables.items():
        edits += _context(pilot, variable, table, name, notes)
    edits += _rates(pilot, name)
    if prior or study.settings.prior:
        edits += _prior(study, fitted, used)
    text = rewrite(study.text, edits)
    if study.settings.contexts.joint is not None:
        notes.append("joint in [contexts] is unchanged: probabilities of combinations are not fitted")
    try:
        parse_study(text, source=study.source)
    except InputError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{study.source} cannot be rewritten ({reason}); expected each table under its own [header]"
        ) from None
    return Calibrated(text, fitted, study.terms, pilot.bad, notes)


def _effects(study: Study, fitted: Fitted, used: str) -> list[Edit]:
    """A new [effects]: a distribution for each term, with the spread of participants apart from the mean's error."""
    lines = [
        f"# Fitted to {used}, with coefficients that differ between participants.",
        "# sd: how much participants differ, without the noise of their own estimates.",
        "# se: the standard error of the mean, which all participants share; more data make it smaller.",
    ]
    width = max(len(term) for term in study.terms) + 2
    for i, term in enumerate(study.terms):
        low, high = (fitted.theta[i] + sign * fitted.half_width[i] for sign in (-1, 1))
        key = f'"{term}"'.ljust(width)
        value = f"{{ mean = {fitted.theta[i]:.4g}, sd = {fitted.tau[i]:.3g}, se = {fitted.se[i]:.3g} }}"
        about = f"mean 95% {low:.3g} to {high:.3g}"
        lines.append(f"{key} = {value}  # {about}")
    return [Edit(("effects",), "\n".join(lines), "")]


def _prior(study: Study, fitted: Fitted, used: str) -> list[Edit]:
    """A new [prior]: for a new participant, the mean's standard error and the spread of participants combined."""
    lines = [
        f"# Fitted to {used}. For a new participant: the spread",
        "# of participants and the standard error of the mean, combined.",
    ]
    width = max(len(term) for term in study.terms) + 2
    for i, term in enumerate(study.terms):
        sd = max(math.hypot(fitted.tau[i], fitted.se[i]), LEAST_SD)
        key = f'"{term}"'.ljust(width)
        lines.append(f"{key} = {{ mean = {fitted.theta[i]:.4g}, sd = {sd:.3g} }}")
    return [Edit(("prior",), "\n".join(lines), "")]


def _context(pilot: Pilot, name: str, table: VariableTable, source: str, notes: list[str]) -> list[Edit]:
    """The distribution of one variable: shares of its levels, or the kind of distribution that the file names."""
    values = [row.context[name] for row in pilot.rows if row.context.get(name) is not None]
    if table.schedule is not None or table.table is not None or table.history is not None:
        return []
    if not values:
        raise DataError(f"{pilot.source}: {name} is empty in every row; expected values in some")
    about = f"from {len(values):,} rows of {source}"
    if table.numeric:
        return [
            Edit(("variables", name, "distribution"), _distribution(table, np.array(values, dtype=np.float64)), about)
        ]
    counts = Counter(values)
    unseen = [level for level in table.values if not counts[level]]
    if unseen:
        notes.append(f"{name}: {', '.join(map(str, unseen))} missing from the data; given a small probability")
    share = np.array([counts[level] + CHANCE for level in table.values])
    rounded = np.round(share / share.sum(), 4)
    rounded[int(rounded.argmax())] += 1.0 - rounded.sum()
    shares = show([round(float(p), 4) for p in rounded]) if len(rounded) < 8 else _long([float(p) for p in rounded])
    return [Edit(("variables", name, "probabilities"), shares, about)]


def _long(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.4f}".rstrip("0") for value in values) + "]"


def _distribution(table: VariableTable, values: Any) -> str:
    """A distribution fitted by moments, of the kind that the file has for this variable or else a normal one."""
    kind = table.distribution.kind if table.distribution is not None else "normal"
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    if kind == "lognormal" and (values > 0).all():
        logs = np.log(values)
        return (
            f'{{ kind = "lognormal", median = {math.exp(logs.mean()):.4g}, sigma = {max(logs.std(ddof=1), 1e-6):.3g} }}'
        )
    if kind == "uniform":
        return f'{{ kind = "uniform", low = {values.min():.4g}, high = {values.max():.4g} }}'
    return f'{{ kind = "normal", mean = {values.mean():.4g}, sd = {max(spread, 1e-6):.3g} }}'


def _rates(pilot: Pilot, source: str) -> list[Edit]:
    """How often patients open the app and answer nudges, if the data have these columns."""
    opened = [row.marks["opened"] for row in pilot.rows if "opened" in row.marks]
    answered = [
        row.marks["answered"] for row in pilot.rows if row.marks.get("nudged") == 1.0 and "answered" in row.marks
    ]
    edits = []
    if opened:
        edits.append(Edit(("world", "open_rate"), f"{np.mean(opened):.4g}", f"from {len(opened):,} rows of {source}"))
    if answered:
        about = f"from {len(answered):,} nudges in {source}"
        edits.append(Edit(("world", "response_rate"), f"{np.mean(answered):.4g}", about))
    return edits
