"""The adaptive sandwich: WCLS if the rule that drew treatments learned from all participants together.

One participant's data then changed the probabilities of the others, so participants are not independent. Zhang, Janson
and Murphy (2023) stack the equations of every update (its parameters beta_u) and of the effect (theta), weight those of
participant i by

    prod pi(A; beta_u) / pi(A; beta_hat_u)     over the participant's rows that were drawn with an update's parameters,

differentiate by all parameters at once, and take the part of theta from the sandwich of the whole stack. The weights
are 1 at the estimates; their derivative, the sum of d log pi / d beta_u, carries the effect of an update on everything
after it. Probabilities must change smoothly with beta.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from opportune import checks
from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, effect_names, estimates
from opportune.inference.record import check_participants, drawn, numbers, read
from opportune.inference.sandwich import Floats, Ints, Sandwich, by_participant, inverse, sandwich
from opportune.inference.wcls import LEAST_PROBABILITY, centred, estimand, reference

FEWEST_PARTICIPANTS = 100
"""With fewer, the stack has too many equations for its participants, and intervals are too short."""
STEP = 1e-5
"""The step of central differences, whose error is about its square."""
MOST_LEFT = 1e-4
"""The tolerance for the sum of an update's score, relative to the root of the sum of its squares."""
TOLERANCE = 1e-4
"""The largest allowed difference between recorded probabilities and those of the rule."""

Chance = Callable[[pd.DataFrame, Floats], Any]
Score = Callable[[pd.DataFrame, Floats], Any]


@dataclass(frozen=True)
class _Equations:
    """One block of the stack: sum score(rows, value) = 0 over its rows."""

    rows: pd.DataFrame
    who: Ints
    number: Ints  # the update that drew each row, 0 for none
    value: Floats
    score: Score

    def total(self, value: Floats) -> Floats:
        """The sum over rows."""
        return np.asarray(np.sum(self.score(self.rows, value), axis=0))


def adaptive_sandwich(
    frame: pd.DataFrame,
    *,
    betas: Any,
    chance: Chance,
    score: Score,
    update: str = "update",
    outcome: str = "y",
    treatment: str = "a",
    probability: str = "p",
    participant: str = "id",
    controls: str = "1",
    moderators: str = "1",
    available: str | None = None,
    q: str | float | None = None,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The estimate of `wcls`, with standard errors that account for learning from all participants together.

    Args:
        frame: one row for each decision point.
        betas: the parameters after each update, [updates, d].
        chance: chance(rows, beta) gives the probability of treatment in each row under the parameters of an update.
        score: score(rows, beta) gives each row's part of the equations that an update solves: [rows, d]. Update u
            solves their sum over all eligible rows drawn before it; rows whose outcome is missing must give 0.
        update: the column with the number of the update whose parameters drew the row, 0 before the first.
        outcome: the column with Y.
        treatment: the column with A, 0 or 1.
        probability: the column with the recorded probability of A = 1.
        participant: the column that identifies the participant.
        controls: g, a formula.
        moderators: f, a formula.
        available: the column that is 1 in eligible rows.
        q: the reference probability, as in `wcls`; the probability's own column gives least squares with the treatment
            centred at its probability.
        least_probability: the minimum that the protocol allows for either treatment.

    """
    record = read(frame, outcome, participant, available=available, keep_missing=True)
    n, rows = record.n, record.rows
    known = np.isfinite(record.y)
    y = np.where(known, record.y, 0.0)
    if n < FEWEST_PARTICIPANTS:
        raise InputError(
            f"{n} participants are too few for the adaptive sandwich; expected at least {FEWEST_PARTICIPANTS}: it "
            "takes the covariance of every update from them too. Report wcls with a fixed q, which holds its level here"
        )
    beta = checks.array("betas", betas, ("updates", "d"))
    a, p = drawn(rows, treatment, probability, least_probability)
    recorded = numbers(rows, update)
    if not np.isin(recorded, np.arange(len(beta) + 1)).all():
        raise InputError(f"column {update} holds numbers other than 0 to {len(beta)}; expected the number of an update")
    number = recorded.astype(np.int64)
    g, g_names = design("controls", controls, rows, outcome=outcome)
    f, f_names = design("moderators", moderators, rows, outcome=outcome)
    check_participants(n, g.shape[1] + f.shape[1])
    q_mean = float(p.mean()) if q is None else q

    def effect_score(some: pd.DataFrame, theta: Floats) -> Floats:
        now = some[probability].to_numpy(dtype=np.float64)
        x, weight = centred(a, now, reference(q_mean, now, some), g, f)
        return np.asarray(x * (known * weight * (y - x @ theta))[:, None])

    x, weight = centred(a, p, reference(q_mean, p, rows), g, f)
    scaled = x * (known * weight)[:, None]
    theta = inverse(scaled.T @ x) @ (scaled.T @ y)
    blocks = [
        _Equations(rows[number < u], record.who[number < u], number[number < u], beta[u - 1], score)
        for u in range(1, len(beta) + 1)
    ]
    blocks.append(_Equations(rows, record.who, number, theta, effect_score))
    moved = _movement(rows, number, beta, chance, p)
    scores, slopes = _stack(blocks, n, (a / p - (1.0 - a) / (1.0 - p))[:, None] * moved, moved, probability)
    k = len(theta)
    whole = sandwich(scores, slopes)
    alone = sandwich(scores[:, -k:], slopes[-k:, -k:])
    found = Sandwich(whole.influence[:, -k:], alone.influence)
    return estimates(
        replace(record, rows=rows[known]),
        theta,
        found,
        method=f"WCLS with the adaptive sandwich: effect of {treatment} on {outcome}, {len(beta)} updates",
        estimand=estimand(outcome, treatment, moderators),
        names=(*g_names, *effect_names(treatment, f_names)),
        effects=len(f_names),
        least_probability=float(np.minimum(p, 1.0 - p).min()),
    )


def _movement(rows: pd.DataFrame, number: Ints, beta: Floats, chance: Chance, p: Floats) -> Floats:
    """D p / d beta in each row, [rows, d], at the parameters that drew it; refused if the rule gives other p."""
    moved = np.zeros((len(rows), beta.shape[1]))
    for u in range(1, len(beta) + 1):
        here = number == u
        some = rows[here]
        if len(some):
            computed = _values("chance", chance(some, beta[u - 1]), (len(some),))
            if np.abs(computed - p[here]).max() > TOLERANCE:
                raise InputError(
                    f"chance gives probabilities that differ from the recorded ones by up to "
                    f"{np.abs(computed - p[here]).max():.3g} after update {u}; expected the rule that drew them"
                )
            moved[here] = _difference(partial(chance, some), beta[u - 1])
    if not np.abs(moved).max() > 0.0:
        raise InputError(
            "the probabilities do not change smoothly with what was learned (they stay or jump), so the adaptive "
            "sandwich has no derivative to use; report wcls with a fixed q"
        )
    return moved


def _stack(
    blocks: list[_Equations], n: int, log_moved: Floats, moved: Floats, probability: str
) -> tuple[Floats, Floats]:
    """Each participant's scores of all blocks, [n, whole], and minus the derivative of their sum, [whole, whole].

    `log_moved` and `moved` are d log pi / d beta and d p / d beta in each row of the last block, which contains all
    rows.
    """
    d = moved.shape[1]
    edges = np.cumsum([0, *(len(block.value) for block in blocks)])
    scores, slopes = np.zeros((n, edges[-1])), np.zeros((edges[-1], edges[-1]))
    last = blocks[-1]
    carried = [
        by_participant(log_moved[last.number == v], last.who[last.number == v], n) for v in range(1, len(blocks))
    ]
    for u, block in enumerate(blocks):
        here = slice(edges[u], edges[u + 1])
        size = len(block.value)
        each = _values("score", block.score(block.rows, block.value), (len(block.rows), size))
        left = np.abs(each.sum(axis=0)) > MOST_LEFT * np.sqrt((each**2).sum(axis=0))
        if u < len(blocks) - 1 and left.any():
            raise InputError(
                f"betas do not solve the equations of update {u + 1}: its score sums to "
                f"{each.sum(axis=0)[left][0]:.3g}; expected 0, with the score that these parameters solve"
            )
        total = by_participant(each, block.who, n)
        scores[:, here] = total
        slopes[here, here] -= _difference(block.total, block.value)
        by_p = _by_probability(block, probability)
        for v in range(min(u, len(carried))):
            there = block.number == v + 1
            before = slice(v * d, (v + 1) * d)
            inside = last.number == v + 1  # the same rows, in the same order
            slopes[here, before] -= total.T @ carried[v] + by_p[there].T @ moved[inside]
    return scores, slopes


def _by_probability(block: _Equations, probability: str) -> Floats:
    """D score / d p in each row, for equations that use the recorded probability."""
    p = block.rows[probability].to_numpy(dtype=np.float64)

    def at(change: float) -> Floats:
        return np.asarray(block.score(block.rows.assign(**{probability: p + change}), block.value), dtype=np.float64)

    return np.asarray((at(STEP) - at(-STEP)) / (2.0 * STEP))


def _difference(function: Callable[[Floats], Any], at: Floats) -> Floats:
    """The derivative with respect to each parameter, in the last axis, by central differences."""
    columns = []
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = STEP * max(1.0, abs(float(at[j])))
        high, low = (np.asarray(function(at + s), dtype=np.float64) for s in (step, -step))
        columns.append((high - low) / (2.0 * step[j]))
    return np.stack(columns, axis=-1)


def _values(name: str, given: Any, shape: tuple[int, ...]) -> Floats:
    found = np.asarray(given, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise InputError(f"{name} gives shape {list(found.shape)}; expected finite numbers of shape {list(shape)}")
    return found
