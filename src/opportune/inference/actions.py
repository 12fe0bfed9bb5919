"""Several actions: the effect of each against a reference, if they were drawn with known probabilities.

WCLS with a column for each action j but the reference, q_j = 1/(number of actions):

    minimise  sum W (Y - g'alpha - sum_j (1(A = j) - q_j) f'beta_j)^2,     W = q_A / p(A).

With two actions this is WCLS with q = 1/2.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from opportune import checks
from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, effect_names, estimates
from opportune.inference.least_squares import add_up, solve
from opportune.inference.record import check_frequencies, check_participants, check_probabilities, column, numbers, read
from opportune.inference.sandwich import Floats
from opportune.inference.wcls import LEAST_PROBABILITY

PREFIX = "action_probability_"
"""The prefix of the columns with each action's probability."""


def actions(
    frame: pd.DataFrame,
    *,
    outcome: str = "y",
    action: str = "action",
    probabilities: str | Mapping[str, str] = PREFIX,
    participant: str = "id",
    controls: str = "1",
    moderators: str = "1",
    available: str | None = None,
    reference: str | None = None,
    lag: int = 1,
    time: str | None = None,
    imputed: str | None = None,
    least_probability: float = LEAST_PROBABILITY,
) -> Estimates:
    """The effect of each action against the reference; p-values are adjusted by Holm, with signs.

    Args:
        frame: one row for each decision point, eligible or not.
        outcome: the column with Y; rows in which it is empty are left out.
        action: the column with the action taken.
        probabilities: the column with the recorded probability of each action, by action; or the prefix of their names.
        participant: the column that identifies the participant.
        controls: g, a formula; controls make the estimate more precise, never biased.
        moderators: f, a formula; "1" for average effects.
        available: the column that is 1 in eligible rows.
        reference: the action with which the others are compared; by default the first.
        lag: the outcome is the mean of Y over this many decision points, from the action's on.
        time: the column that numbers each participant's decision points; a lag above 1 needs it.
        imputed: the column that is 1 if the outcome was filled in; such rows are left out.
        least_probability: the minimum that the protocol allows for each action.

    """
    record = read(frame, outcome, participant, available=available, imputed=imputed, lag=lag, time=time)
    rows = record.rows
    names, taken, p = choices(rows, action, probabilities, least_probability)
    first = 0 if reference is None else names.index(checks.choice("reference", reference, names))
    others = [j for j in range(len(names)) if j != first]
    g, g_names = design("controls", controls, rows, outcome=outcome)
    f, f_names = design("moderators", moderators, rows, outcome=outcome)
    check_participants(record.n, g.shape[1] + len(others) * f.shape[1])
    q = 1.0 / len(names)
    x = np.column_stack([g, *(((taken == j) - q)[:, None] * f for j in others)])
    weight = q / p[np.arange(len(rows)), taken]
    beta, found = solve(add_up(x, record.y, weight, record.who, record.n), record.people)
    over = "" if lag == 1 else f", averaged over {lag} decision points from the action on,"
    return estimates(
        record,
        beta,
        found,
        method=f"WCLS: actions against {names[first]}, on {outcome}",
        estimand=(
            f"how much higher {outcome}{over} is on average after this action than after {names[first]}, at moments "
            "when it was randomised, with earlier and later actions as in this study"
            + ("" if moderators.strip() == "1" else f", as it depends on {moderators.strip()}")
        ),
        names=(*g_names, *(name for j in others for name in effect_names(f"{action}[{names[j]}]", f_names))),
        effects=len(others) * len(f_names),
        least_probability=float(p.min()),
        holm=True,
    )


def choices(
    rows: pd.DataFrame, action: str, probabilities: str | Mapping[str, str], least: float
) -> tuple[list[str], "np.ndarray[tuple[int], np.dtype[np.int64]]", Floats]:
    """The actions' names, the number of the action taken in each row, and all probabilities, [rows, actions]."""
    if isinstance(probabilities, str):
        found = [str(name) for name in rows.columns if str(name).startswith(probabilities)]
        columns = {name.removeprefix(probabilities): name for name in found}
    else:
        columns = checks.mapping("probabilities", probabilities, "a column for each action")
        columns = {str(name): of for name, of in columns.items()}
    if len(columns) < 2:
        raise InputError(
            f"probabilities is {checks.brief(probabilities)}, which names {len(columns)} columns; expected one for "
            "each of at least two actions"
        )
    names = list(columns)
    p = np.column_stack([numbers(rows, columns[name]) for name in names])
    if (np.abs(p.sum(axis=1) - 1.0) > 1e-6).any():
        worst = p.sum(axis=1)[np.argmax(np.abs(p.sum(axis=1) - 1.0))]
        raise InputError(f"the actions' probabilities sum to {worst:g} in some row; expected 1 in every eligible row")
    place = {name: j for j, name in enumerate(names)}
    taken = column(rows, action).astype(str).map(place)
    if taken.isna().any():
        odd = rows[action][taken.isna()].iloc[0]
        raise InputError(f"column {action} holds {checks.brief(odd)}, an action without a column of probabilities")
    number = taken.to_numpy(dtype=np.int64)
    for j, name in enumerate(names):
        check_probabilities(p[:, j], least, of=name, several=True)
        check_frequencies((number == j).astype(np.float64), p[:, j], of=name)
    return names, number, p
