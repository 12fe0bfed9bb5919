"""DCEE: the effect of a randomised treatment on one outcome at the end, such as a score at the last visit.

With the outcome Y of the whole participation in each of its rows, moderators f, weights w, and I for eligible (Qian,
2025), the estimate solves

    sum w f {I (-1)^(1-A) / p(A) (Y - (1 - p) mu_1 - p mu_0) - f'beta} = 0,

where mu_a(h), fitted by least squares to the rows with A = a, only makes the estimate more precise.
"""

import numpy as np
import pandas as pd

from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, effect_names, estimates
from opportune.inference.record import check_participants, constant_within, drawn, numbers, read, zeros_and_ones
from opportune.inference.sandwich import by_participant, inverse, sandwich
from opportune.inference.wcls import LEAST_PROBABILITY


def dcee(
    frame: pd.DataFrame,
    *,
    outcome: str = "y",
    treatment: str = "a",
    probability: str = "p",
    participant: str = "id",
    controls: str = "1",
    moderators: str = "1",
    available: str | None = None,
    weight: str | None = None,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The effect of one decision point's treatment on an outcome that each participant has once.

    Args:
        frame: one row for each decision point, eligible or not, with the participant's outcome in each.
        outcome: the column with Y; participants without one are left out.
        treatment: the column with A, 0 or 1.
        probability: the column with the recorded probability of A = 1.
        participant: the column that identifies the participant.
        controls: of mu_0 and mu_1, a formula; controls make the estimate more precise, never biased.
        moderators: f, a formula; "1" for the average effect over decision points.
        available: the column that is 1 in eligible rows; in others the effect counts as 0.
        weight: the column with w, the weight of a decision point; by default all count the same.
        least_probability: the minimum that the protocol allows for either treatment.

    """
    record = read(frame, outcome, participant)
    rows, y = record.rows, record.y
    constant_within(rows, record.who, [outcome], "it is the outcome at the end")
    eligible = np.ones(len(y)) if available is None else zeros_and_ones(rows, available)
    there = eligible == 1.0
    if not there.any():
        raise InputError("no row is eligible; expected some")
    a_there, p_there = drawn(rows[there], treatment, probability, least_probability)
    a, p = np.zeros(len(y)), np.full(len(y), 0.5)
    a[there], p[there] = a_there, p_there
    w = np.ones(len(y)) if weight is None else numbers(rows, weight)
    h, _ = design("controls", controls, rows, outcome=outcome)
    f, f_names = design("moderators", moderators, rows, outcome=outcome)
    check_participants(record.n, f.shape[1])
    if not {0.0, 1.0} <= set(a_there):
        raise InputError(f"{treatment} is {a_there[0]:g} in every eligible row; expected both treatments among them")
    mu = [h @ np.linalg.lstsq(h[a == arm], y[a == arm], rcond=None)[0] for arm in (0.0, 1.0)]
    signal = eligible * np.where(a == 1.0, 1.0 / p, -1.0 / (1.0 - p)) * (y - (1.0 - p) * mu[1] - p * mu[0])
    own = by_participant(w[:, None, None] * f[:, :, None] * f[:, None, :], record.who, record.n)
    beta = inverse(own.sum(axis=0)) @ (f.T @ (w * signal))
    scores = by_participant(f * (w * (signal - f @ beta))[:, None], record.who, record.n)
    return estimates(
        record,
        beta,
        sandwich(scores, own.sum(axis=0), own, record.people),
        method=f"DCEE: effect of {treatment} at one decision point on {outcome} at the end",
        estimand=(
            f"how much higher {outcome} is on average if {treatment} is 1 instead of 0 at one decision point, with "
            "all other treatments as in this study, averaged over decision points"
            + ("" if moderators.strip() == "1" else f", as it depends on {moderators.strip()}")
        ),
        names=tuple(effect_names(treatment, f_names)),
        effects=len(f_names),
        least_probability=float(np.minimum(p, 1.0 - p)[there].min()),
    )
