"""WCLS: the effect of a treatment, randomised with known probabilities, on a proximal outcome.

For a decision point with treatment A (0 or 1), drawn with the recorded probability p, outcome Y, controls g and
moderators f (Boruvka, Almirall, Witkiewitz and Murphy, 2018):

    minimise  sum W (Y - g'alpha - (A - q) f'beta)^2,     W = (q/p)^A ((1-q)/(1-p))^(1-A).

Weighting and centring keep beta consistent even if g'alpha is wrong.
"""

import numpy as np
import pandas as pd

from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, effect_names, estimates
from opportune.inference.least_squares import add_up, solve
from opportune.inference.record import check_participants, drawn, per_row, read
from opportune.inference.sandwich import Floats

LEAST_PROBABILITY = 0.01


def wcls(
    frame: pd.DataFrame,
    *,
    outcome: str = "y",
    treatment: str = "a",
    probability: str | float = "p",
    participant: str = "id",
    controls: str = "1",
    moderators: str = "1",
    available: str | None = None,
    q: str | float | None = None,
    lag: int = 1,
    time: str | None = None,
    imputed: str | None = None,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The proximal effect of a treatment by weighted and centred least squares.

    Args:
        frame: one row for each decision point, eligible or not.
        outcome: the column with Y; rows in which it is empty are left out.
        treatment: the column with A, 0 or 1.
        probability: the column with the recorded probability of A = 1, or one number.
        participant: the column that identifies the participant.
        controls: g, a formula such as "pre + day"; controls make the estimate more precise, never biased.
        moderators: f, a formula; "1" for the average effect.
        available: the column that is 1 in eligible rows, in which the treatment was drawn.
        q: the reference probability: a number or a column; by default the mean of p.
        lag: the outcome is the mean of Y over this many decision points, from the treatment's on.
        time: the column that numbers each participant's decision points; a lag above 1 needs it.
        imputed: the column that is 1 if the outcome was filled in; such rows are left out.
        least_probability: the minimum that the protocol allows for either treatment.

    """
    record = read(frame, outcome, participant, available=available, imputed=imputed, lag=lag, time=time)
    rows = record.rows
    a, p = drawn(rows, treatment, probability, least_probability)
    g, g_names = design("controls", controls, rows, outcome=outcome)
    f, f_names = design("moderators", moderators, rows, outcome=outcome)
    check_participants(record.n, g.shape[1] + f.shape[1])
    x, weight = centred(a, p, reference(q, p, rows), g, f)
    beta, found = solve(add_up(x, record.y, weight, record.who, record.n), record.people)
    return estimates(
        record,
        beta,
        found,
        method=f"WCLS: effect of {treatment} on {outcome}",
        estimand=estimand(outcome, treatment, moderators, lag),
        names=(*g_names, *effect_names(treatment, f_names)),
        effects=len(f_names),
        least_probability=float(np.minimum(p, 1.0 - p).min()),
    )


def centred(a: Floats, p: Floats, q: Floats | float, g: Floats, f: Floats) -> tuple[Floats, Floats]:
    """The columns g and (A - q) f, and the weights W."""
    weight = np.where(a == 1.0, q / p, (1.0 - q) / (1.0 - p))
    return np.column_stack([g, (a - q)[:, None] * f]), weight


def reference(q: str | float | None, p: Floats, rows: pd.DataFrame) -> Floats:
    """The reference probability of each row; by default the mean of the recorded ones."""
    found = np.full(len(p), p.mean()) if q is None else per_row("q", q, rows)
    if not ((found > 0.0) & (found < 1.0)).all():
        raise InputError(f"q contains {found.min():g} to {found.max():g}; expected numbers between 0 and 1")
    return found


def estimand(outcome: str, treatment: str, moderators: str, lag: int = 1) -> str:
    """The estimand in words."""
    over = "" if lag == 1 else f", averaged over {lag} decision points from the treatment on,"
    by = "" if moderators.strip() == "1" else f", as it depends on {moderators.strip()}"
    return (
        f"how much higher {outcome}{over} is on average with {treatment} than without, at moments when it was "
        f"randomised, with earlier and later treatments as in this study{by}"
    )
