"""The rewards of other policies: one action always, by weighting; other budgets, by simulating the study's formula."""

import warnings
from typing import Any

import pandas as pd

from opportune.errors import InputError
from opportune.inference.actions import PREFIX
from opportune.inference.estimates import Estimates
from opportune.inference.policies import policy_value
from opportune.inference.questions import DRAWN, IMPUTED, NUDGE, PARTICIPANT, usable_controls, with_drawn
from opportune.inference.simulated import simulated_value
from opportune.policy import Budget, Policy
from opportune.problems.finite import Problem
from opportune.recommenders import LinUCB
from opportune.revealers import Never, Pace
from opportune.study.serving import live_problem
from opportune.trial.export import Export
from opportune.trial.fidelity import planned_budget

DRAWS = 40
VALUED = (
    "action, always", "mean reward", "se", "low", "high", "difference from the record", "difference, low",
    "difference, high", "SNIPS", "effective sample size", "why there is no value",
)  # fmt: skip
"""Columns of the table of actions that are always taken."""
FACTORS = (0.5, 1.0, 2.0)
"""Budgets to try, as multiples of the study's own."""


def other_policies(export: Export, *, draws: int = DRAWS) -> Estimates:
    """The mean reward of PACE with other budgets and without nudges; raises `InputError` if it cannot be estimated."""
    if export.study is None:
        raise InputError("the export has no study.toml, whose formula is needed to simulate other policies")
    budget = planned_budget(export)
    if budget is None:
        raise InputError("the study file does not say which budget was used ([serve] budget), to compare with")
    problem = live_problem(export.study)
    if not isinstance(problem, Problem):
        raise InputError("a variable is numeric, and other policies can be simulated for finite contexts only")
    rows = export.decisions
    nudged = rows[rows[NUDGE] == 1]
    answers = float((nudged["answered"] == 1).mean()) if "answered" in rows and len(nudged) else 1.0
    general = export.study.settings.study
    policies = [Policy(recommender=LinUCB(rotate=True), revealer=Never(), name="no nudges")]
    for amount in dict.fromkeys(max(1.0, float(round(factor * budget))) for factor in FACTORS):
        policies.append(
            Policy(
                recommender=LinUCB(rotate=True),
                revealer=Pace(),
                budget=Budget(amount, hard=general.budget_kind == "hard"),
                name=f"PACE, {amount:g} nudges each",
            )
        )
    known = rows[rows["reward"].notna()]
    if "reward_imputed" in known:
        known = known[known["reward_imputed"] != 1]
    for name in export.study.variables:
        column = f"variable_{name}" if f"variable_{name}" in known else name
        if column in known:
            known = known.assign(**{name: _values(known[column], export.study.variables[name])})
    complete = known.dropna(subset=[name for name in problem.variables if name in known])
    if complete.empty:
        raise InputError("no decision point has a reward and every variable of the formula")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return simulated_value(
            complete, problem, policies, outcome="reward", participant=PARTICIPANT, action="action", time="step",
            horizon=general.horizon, draws=draws, response_rate=max(0.01, answers),
        )  # fmt: skip


def always(export: Export) -> pd.DataFrame:
    """The mean reward if one action were taken wherever actions were drawn at random, estimated by weighting.

    A row for each action, with the reason if the record does not suffice; no rows if no action was drawn.
    """
    try:
        frame = with_drawn(export.decisions)
    except InputError:
        return pd.DataFrame()
    people = frame[PARTICIPANT].nunique()
    controls = usable_controls(frame, export.variables, participants=people, where=DRAWN)
    rows: list[dict[str, Any]] = []
    for name in (str(name).removeprefix(PREFIX) for name in frame if str(name).startswith(PREFIX)):
        try:
            found = policy_value(
                frame, name, outcome="reward", participant=PARTICIPANT, controls=controls, available=DRAWN,
                imputed=IMPUTED if IMPUTED in frame else None, least_probability=export.least[1],
            )  # fmt: skip
        except InputError as error:
            rows.append({"action, always": name, "why there is no value": str(error)})
            continue
        value, more = found.names.index("doubly robust"), len(found.names) - 1
        rows.append(
            {
                "action, always": name, "mean reward": found.estimate[value], "se": found.se[value],
                "low": found.interval[value, 0], "high": found.interval[value, 1],
                "difference from the record": found.estimate[more], "difference, low": found.interval[more, 0],
                "difference, high": found.interval[more, 1], "SNIPS": found.estimate[found.names.index("SNIPS")],
                "effective sample size": found.details["effective sample size"], "why there is no value": "",
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(VALUED))


def _values(column: pd.Series, variable: object) -> pd.Series:
    """Values as the problem knows them: whole numbers, which CSV with empty cells turns into floats, as integers."""
    if column.dtype == float and (column.dropna() == column.dropna().round()).all():
        return column.astype("Int64").astype(object).where(column.notna(), None)
    return column
