"""What other policies and budgets would have brought, by the study's formula fitted to its record."""

import warnings

import pandas as pd

from opportune.errors import InputError
from opportune.inference.estimates import Estimates
from opportune.inference.questions import NUDGE, PARTICIPANT
from opportune.inference.simulated import simulated_value
from opportune.policy import Budget, Policy
from opportune.problems.finite import Problem
from opportune.recommenders import LinUCB
from opportune.revealers import Never, Pace
from opportune.study.serving import live_problem
from opportune.trial.export import Export
from opportune.trial.fidelity import planned_budget

DRAWS = 40
FACTORS = (0.5, 1.0, 2.0)
"""Budgets to try, as multiples of the study's own."""


def other_policies(export: Export, *, draws: int = DRAWS) -> Estimates:
    """The mean reward under PACE with other budgets and without nudges; an `InputError` says why there is none."""
    if export.study is None:
        raise InputError("the export has no study.toml, which has the formula that other policies are simulated by")
    budget = planned_budget(export)
    if budget is None:
        raise InputError(
            "the study file does not say which budget ran ([serve] budget), so there is none to compare with"
        )
    problem = live_problem(export.study)
    if not isinstance(problem, Problem):
        raise InputError("a variable may be any number, and other policies are simulated for finite contexts only")
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


def _values(column: pd.Series, variable: object) -> pd.Series:
    """Values as the problem knows them: whole numbers are read from CSV as numbers with a point."""
    if column.dtype == float and (column.dropna() == column.dropna().round()).all():
        return column.astype("Int64").astype(object).where(column.notna(), None)
    return column
