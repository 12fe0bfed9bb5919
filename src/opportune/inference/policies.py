"""The value of another policy, from a record made with known probabilities.

For each eligible row, the policy gives the probability pi(j) with which it would have taken action j. With
w = pi(A)/p(A):

    SNIPS:          sum w Y / sum w
    doubly robust:  mean of  sum_j pi(j) mu_j + w (Y - mu_A),

where mu_j is fitted by least squares to the rows of other participants with A = j (cross-fitting), so that nobody's own
outcomes predict them. Both hold whatever mu is, for a policy that does not learn, with later decisions as in the study.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from opportune import checks
from opportune.errors import InputError
from opportune.inference.actions import PREFIX, choices
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, estimates
from opportune.inference.record import check_participants, numbers, read
from opportune.inference.sandwich import Floats, Ints, Sandwich, by_participant, sandwich
from opportune.inference.wcls import LEAST_PROBABILITY

FOLDS = 5
LEAST_SIZE = 2
"""The effective sample size must be at least this many times the number of participants."""
_RECORDED, _SNIPS, _ROBUST = range(3)


def policy_value(
    frame: pd.DataFrame,
    policy: str | Mapping[str, str],
    *,
    outcome: str = "y",
    action: str = "action",
    probabilities: str | Mapping[str, str] = PREFIX,
    participant: str = "id",
    controls: str = "1",
    available: str | None = None,
    imputed: str | None = None,
    folds: int = FOLDS,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The mean outcome at eligible decision points under another policy, and its difference from the study's own.

    Args:
        frame: one row for each decision point, eligible or not.
        policy: an action that is always taken; or, by action, the column with the policy's probability of it.
        outcome: the column with Y; rows in which it is empty are left out.
        action: the column with the action taken.
        probabilities: the column with the recorded probability of each action, by action; or the prefix of their names.
        participant: the column that identifies the participant.
        controls: of mu, a formula; controls make the estimate more precise, never biased.
        available: the column that is 1 in eligible rows.
        imputed: the column that is 1 if the outcome was filled in; such rows are left out.
        folds: the number of folds for cross-fitting.
        least_probability: the minimum that the protocol allows for each action.

    """
    record = read(frame, outcome, participant, available=available, imputed=imputed)
    rows, y, who, n = record.rows, record.y, record.who, record.n
    folds = checks.whole("folds", folds, least=2, most=100)
    names, taken, p = choices(rows, action, probabilities, least_probability)
    pi = _target(rows, policy, names)
    h, _ = design("controls", controls, rows, outcome=outcome)
    check_participants(n, 1)
    each = np.arange(len(rows))
    weight = pi[each, taken] / p[each, taken]
    size = float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0
    if size < LEAST_SIZE * n:
        raise InputError(
            f"the record says too little about this policy: its {len(rows):,} rows are worth {size:,.0f} drawn by the "
            f"policy itself (effective sample size), for {n} participants; expected at least {LEAST_SIZE * n:,}: ask "
            "about a policy closer to the study's own"
        )
    mu = _predicted(h, y, taken, who, len(names), folds)
    robust = (pi * mu).sum(axis=1) + weight * (y - mu[each, taken])
    parts = np.column_stack([np.ones(len(rows)), weight, np.ones(len(rows))])
    values = np.column_stack([y, weight * y, robust])
    total, by_person = parts.sum(axis=0), by_participant(parts, who, n)
    value = values.sum(axis=0) / total
    scores = by_participant(values, who, n) - by_person * value
    own = by_person[:, :, None] * np.eye(3)
    found = sandwich(scores, np.diag(total), own, record.people)
    to = np.eye(4, 3)
    to[3, _ROBUST], to[3, _RECORDED] = 1.0, -1.0
    label = policy if isinstance(policy, str) else "this policy"
    return estimates(
        record,
        to @ value,
        Sandwich(found.influence @ to.T, found.plain_influence @ to.T),
        freedom=n - 1,
        method=f"Value of a policy ({label}) for {outcome}",
        estimand=(
            f"mean {outcome} at eligible moments if the action there were chosen by {label}, with earlier and later "
            "ones as in this study; the last row is the difference from the mean under the study's own policy"
        ),
        names=("as recorded", "SNIPS", "doubly robust", "doubly robust - as recorded"),
        effects=1,
        least_probability=float(p.min()),
        details={"effective sample size": size, "largest weight": float(weight.max())},
    )


def _target(rows: pd.DataFrame, policy: str | Mapping[str, str], names: list[str]) -> Floats:
    """pi(j) of each row: [rows, actions]."""
    if isinstance(policy, str):
        chosen = names.index(checks.choice("policy", policy, names))
        return np.tile(np.eye(len(names))[chosen], (len(rows), 1))
    given = checks.mapping("policy", policy, "an action, or a column for each action")
    for name in given:
        checks.choice("an action of the policy", name, names)
    pi = np.column_stack([numbers(rows, given[name]) if name in given else np.zeros(len(rows)) for name in names])
    if (pi < 0.0).any() or (np.abs(pi.sum(axis=1) - 1.0) > 1e-6).any():
        raise InputError("the policy's probabilities do not sum to 1 in every eligible row; expected probabilities")
    return pi


def _predicted(h: Floats, y: Floats, taken: Ints, who: Ints, actions: int, folds: int) -> Floats:
    """mu_j of each row, [rows, actions], from the participants of the other folds."""
    mu = np.zeros((len(y), actions))
    for fold in range(folds):
        held = who % folds == fold
        for j in range(actions):
            train = ~held & (taken == j)
            if train.any():
                mu[held, j] = h[held] @ np.linalg.lstsq(h[train], y[train], rcond=None)[0]
    return mu
