"""EMEE: the effect of a randomised treatment on a yes-or-no outcome, as a relative risk.

With A, p, q, W, g and f as in WCLS (Qian, Yoo, Klasnja, Almirall and Murphy, 2021), the estimate solves

    sum W e^(-A f'beta) (Y - e^(g'alpha + A f'beta)) [g, (A - q) f] = 0.

e^(f'beta) is the relative risk, and is consistent even if e^(g'alpha) is wrong.
"""

import numpy as np
import pandas as pd

from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, effect_names, estimates
from opportune.inference.record import check_participants, drawn, read
from opportune.inference.sandwich import Floats, by_participant, inverse, sandwich
from opportune.inference.wcls import LEAST_PROBABILITY, centred, reference

MOST_ROUNDS = 100
ENOUGH = 1e-10
HALVINGS = 30


def emee(
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
    imputed: str | None = None,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The log relative risk of an outcome of 0 or 1 under treatment; the arguments are those of `wcls`."""
    record = read(frame, outcome, participant, available=available, imputed=imputed)
    rows, y = record.rows, record.y
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError(f"{outcome} holds something other than 0 and 1; expected a yes-or-no outcome (see wcls)")
    a, p = drawn(rows, treatment, probability, least_probability)
    g, g_names = design("controls", controls, rows, outcome=outcome)
    f, f_names = design("moderators", moderators, rows, outcome=outcome)
    check_participants(record.n, g.shape[1] + f.shape[1])
    x, weight = centred(a, p, reference(q, p, rows), g, f)
    theta = _solve(x, y, weight, a, g, f)
    base, factor = _parts(theta, a, g, f)
    scores = by_participant(x * (weight * (factor * y - base))[:, None], record.who, record.n)
    expected = np.column_stack([g, a[:, None] * f]) * (weight * base)[:, None]
    own = by_participant(x[:, :, None] * expected[:, None, :], record.who, record.n)
    found = sandwich(scores, _slopes(x, y, weight, a, g, f, theta), own, record.people)
    return estimates(
        record,
        theta,
        found,
        method=f"EMEE: effect of {treatment} on {outcome}, log relative risk",
        estimand=(
            f"the logarithm of how many times as likely {outcome} is where {treatment} is 1 instead of 0, at moments "
            "when it was randomised, with earlier treatments as in this study"
            + ("" if moderators.strip() == "1" else f", as it depends on {moderators.strip()}")
        ),
        names=(*g_names, *effect_names(treatment, f_names)),
        effects=len(f_names),
        least_probability=float(np.minimum(p, 1.0 - p).min()),
    )


def _parts(theta: Floats, a: Floats, g: Floats, f: Floats) -> tuple[Floats, Floats]:
    """e^(g'alpha) and e^(-A f'beta)."""
    k = g.shape[1]
    with np.errstate(over="ignore"):
        return np.exp(g @ theta[:k]), np.exp(-a * (f @ theta[k:]))


def _slopes(x: Floats, y: Floats, weight: Floats, a: Floats, g: Floats, f: Floats, theta: Floats) -> Floats:
    """D, minus the derivative of the equations."""
    base, factor = _parts(theta, a, g, f)
    inner = np.column_stack([base[:, None] * g, (a * factor * y)[:, None] * f])
    return np.asarray((x * weight[:, None]).T @ inner)


def _solve(x: Floats, y: Floats, weight: Floats, a: Floats, g: Floats, f: Floats) -> Floats:
    """Newton's method, with steps halved until the equations come closer to 0."""

    def equations(theta: Floats) -> Floats:
        base, factor = _parts(theta, a, g, f)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(x.T @ (weight * (factor * y - base)))

    target = np.full(len(y), np.log(np.clip(y.mean(), 1e-6, None)))
    theta = np.zeros(x.shape[1])
    theta[: g.shape[1]] = np.linalg.lstsq(g, target, rcond=None)[0]
    value = equations(theta)
    for _ in range(MOST_ROUNDS):
        step = inverse(_slopes(x, y, weight, a, g, f, theta)) @ value
        for _ in range(HALVINGS):
            tried = equations(theta + step)
            if np.linalg.norm(tried) < np.linalg.norm(value):
                break
            step = step / 2.0
        theta, value = theta + step, tried
        if np.abs(step).max() < ENOUGH:
            return theta
    raise InputError(
        "no solution of the equations was found; expected the outcome to be both 0 and 1 under each treatment, and "
        "fewer controls and moderators"
    )
