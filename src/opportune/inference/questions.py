"""Questions to a study's record: which estimator answers them, from which columns, and the R code for the same answer.

Columns have the names of a served study's exports, so that a plan and an analysis ask simulated and real records in
the same way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from opportune.errors import InputError
from opportune.inference.actions import PREFIX, actions
from opportune.inference.arms import arms
from opportune.inference.design import design
from opportune.inference.emee import emee
from opportune.inference.estimates import Estimates
from opportune.inference.record import SPARE_PARTICIPANTS
from opportune.inference.wcls import LEAST_PROBABILITY, wcls

DRAWN = "action_drawn"
"""The column that is 1 if every action could have been taken."""
PARTICIPANT, TIME, ELIGIBLE, NUDGE, CHANCE = "participant", "step", "eligible", "nudge", "nudge_probability"
IMPUTED, ARM, REASON = "reward_imputed", "arm", "ineligible_reason"
NOT_RANDOMISED = ("nearly certain", "not randomised")
"""Reasons, found in the analysis, of points where a nudge was possible without being left to chance."""
MOST_LOOKED_AT = 20_000
"""The most rows used to choose controls."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One analysis.

    Args:
        estimand: "nudge", "risk" (the effect of a nudge on an outcome of 0 or 1, as a relative risk), "actions", or
            "arms".
        outcome: the column with the outcome.
        lag: the outcome is averaged over this many decision points.
        controls: a formula of columns known before the decision; for arms, of baseline columns.
        moderators: a formula of columns on which the effect may depend.
        reference: the action or arm with which the others are compared.
        least: the minimum probability that the protocol allows.

    """

    estimand: str = "nudge"
    outcome: str = "reward"
    lag: int = 1
    controls: str = "1"
    moderators: str = "1"
    reference: str | None = None
    least: float = LEAST_PROBABILITY

    @property
    def name(self) -> str:
        """The name of the analysis."""
        over = "" if self.lag == 1 else f" over {self.lag} decision points"
        by = "" if self.moderators.strip() == "1" else f", by {self.moderators.strip()}"
        of = {"nudge": "a nudge", "risk": "a nudge (relative risk)", "actions": "each action", "arms": "the arms"}
        return f"effect of {of[self.estimand]} on the {self.outcome}{over}{by}"

    def answer(self, frame: pd.DataFrame) -> Estimates:
        """The estimates; raises `InputError` with the reason if there are none."""
        missing = [name for name in self._needed if name not in frame.columns]
        if missing:
            raise InputError(f"the record has no column {missing[0]}, which {self._why[missing[0]]}")
        imputed = IMPUTED if self.outcome == "reward" and IMPUTED in frame.columns else None
        given: dict[str, Any] = {
            "outcome": self.outcome,
            "participant": PARTICIPANT,
            "controls": self.controls,
            "imputed": imputed,
        }
        if self.estimand == "arms":
            return arms(frame, arm=ARM, reference=self.reference, **given)
        given |= {"moderators": self.moderators, "least_probability": self.least}
        if self.estimand == "actions":
            frame = with_drawn(frame, min(self.least, LEAST_PROBABILITY))
            return actions(
                frame, action="action", probabilities=PREFIX, available=DRAWN, reference=self.reference, lag=self.lag,
                time=TIME, **given,
            )  # fmt: skip
        eligible = frame[ELIGIBLE] == 1
        if not eligible.any() and (REASON not in frame or frame[REASON].isin(NOT_RANDOMISED).any()):
            raise InputError(
                "a nudge was never left to chance: its probability was 0 or 1, or nearly so, at every decision point, "
                "so there is nothing to compare with (schema = 1 in the study file, or [probabilities] nudge, leaves "
                "nudges to chance)"
            )
        people = frame.loc[eligible, PARTICIPANT].nunique()
        if people <= SPARE_PARTICIPANTS:
            points, everyone = int(eligible.sum()), frame[PARTICIPANT].nunique()
            raise InputError(
                f"the eligible decision points are too few: {points:,} of {len(frame):,}, from {people} of "
                f"{everyone:,} participants; expected some from at least {SPARE_PARTICIPANTS + 1}"
            )
        treated: dict[str, Any] = {"treatment": NUDGE, "probability": CHANCE, "available": ELIGIBLE}
        if self.estimand == "risk":
            return emee(frame, **treated, **given)
        return wcls(frame, lag=self.lag, time=TIME, **treated, **given)

    @property
    def _why(self) -> dict[str, str]:
        return {
            ARM: "contains the arm of each participant: the study has no arms",
            ELIGIBLE: "says at which decision points a nudge was randomised",
            CHANCE: "contains the probability of a nudge",
            "action": "contains the action taken",
            self.outcome: "is the outcome",
        }

    @property
    def _needed(self) -> list[str]:
        of = {"arms": [ARM], "actions": ["action"]}.get(self.estimand, [ELIGIBLE, CHANCE])
        return [*of, self.outcome]

    def reference_in(self, frame: pd.DataFrame) -> str:
        """The reference of actions or arms: by default the first in the record; empty for a nudge."""
        if self.reference is not None or self.estimand not in {"actions", "arms"}:
            return self.reference or ""
        if self.estimand == "arms":
            return min(map(str, frame[ARM].dropna().unique()), default="") if ARM in frame else ""
        return next((str(name).removeprefix(PREFIX) for name in frame if str(name).startswith(PREFIX)), "")

    def in_r(self, found: Estimates, frame: str = "rows") -> str:
        """R code that computes these numbers from the rows of the analysis."""
        controls, moderators = _r_formula(self.controls), _r_formula(self.moderators)
        outcome = self.outcome if self.lag == 1 else lagged(self.outcome, self.lag)
        if self.estimand == "arms":
            first = f"d${ARM} <- relevel(factor(d${ARM}), ref = {_r(self.reference or '')})\n"
            return (
                f"d <- aggregate({outcome} ~ {' + '.join([PARTICIPANT, ARM, *_words(self.controls)])}, {frame}, mean)\n"
                f"{first if self.reference else ''}fit <- lm({outcome} ~ {controls} + {ARM}, data = d)\n"
                "lmtest::coeftest(fit, vcov = sandwich::vcovHC(fit, type = 'HC3'), df = fit$df.residual)"
            )
        if self.estimand == "actions":
            named = dict.fromkeys(name[len("action[") : name.index("]")] for name in found.names[-found.effects :])
            every = 1 + len(named)
            shown = " + ".join(f"I((action == {_r(name)}) - 1/{every})" for name in named)
            by = "" if moderators == "1" else f" * ({moderators})"
            return (
                f"d <- subset({frame}, {DRAWN} == 1 & !is.na({outcome}))\n"
                f"fit <- lm({outcome} ~ {controls} + ({shown}){by}, data = d, weights = 1/{every}/action_probability)\n"
                f"clubSandwich::coef_test(fit, vcov = 'CR3', cluster = d${PARTICIPANT}, test = 'naive-tp')"
            )
        name = "emee" if self.estimand == "risk" else "wcls"
        return (
            f"d <- subset({frame}, {ELIGIBLE} == 1 & !is.na({outcome}))\n"
            f"MRTAnalysis::{name}(data = d, id = '{PARTICIPANT}', outcome = '{outcome}', treatment = '{NUDGE}',\n"
            f"  rand_prob = '{CHANCE}', moderator_formula = ~{moderators}, control_formula = ~{controls},\n"
            f"  availability = '{ELIGIBLE}', numerator_prob = mean(d${CHANCE}))"
        )


def _r(text: str) -> str:
    """A string in R."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _r_formula(formula: str) -> str:
    """A formula in R, where factor() takes the place of C()."""
    return re.sub(r"\bC\(", "factor(", formula.strip())


def lagged(outcome: str, lag: int) -> str:
    """The name of the column with the mean of an outcome over several decision points."""
    return f"{outcome}_lag_{lag}"


def _words(formula: str) -> list[str]:
    """The columns that a formula names, approximately: all words that are not functions."""
    found = re.findall(r"[A-Za-z_.][\w.]*(?!\w*\s*\()", formula)
    return list(dict.fromkeys(found))


def with_drawn(frame: pd.DataFrame, least: float = LEAST_PROBABILITY) -> pd.DataFrame:
    """The frame with a column that is 1 if every action could have been taken; refused if there is no such row."""
    columns = [name for name in frame.columns if str(name).startswith(PREFIX)]
    if len(columns) < 2:
        raise InputError(
            "the record has no probabilities of actions: they were not drawn at random, so their effects cannot be "
            "estimated ([probabilities] actions in the study file randomises them)"
        )
    p = frame[columns].to_numpy(dtype=np.float64)
    drawn = np.isfinite(p).all(axis=1) & (np.nan_to_num(p) >= least - 1e-9).all(axis=1)
    if not drawn.any():
        raise InputError(
            "at no decision point could every action have been taken: the recommender chose them without randomisation "
            "([probabilities] actions in the study file randomises them)"
        )
    return frame.assign(**{DRAWN: drawn.astype(np.int64)})


def usable_controls(frame: pd.DataFrame, names: Sequence[str], *, participants: int, where: str = ELIGIBLE) -> str:
    """A formula of those columns that vary in the rows that count, and are not linear in the columns before them.

    There are at most a tenth as many coefficients as participants: some controls make an estimate more precise, but
    too many make it less so.

    Args:
        frame: the rows.
        names: of columns, the most important ones first.
        participants: the number of participants.
        where: the column that is 1 in rows that count.

    """
    rows = frame[frame[where] == 1] if where in frame else frame
    rows = rows.iloc[:: max(1, len(rows) // MOST_LOOKED_AT)]
    chosen: list[str] = []
    rank = 1
    for name in names:
        if name not in rows or rows[name].isna().any():
            continue
        text = name if name.isidentifier() else f"`{name}`"
        try:
            x, _ = design("controls", " + ".join(["1", *chosen, text]), rows)
        except InputError:
            continue
        found = int(np.linalg.matrix_rank(x)) if len(x) else 0  # NumPy 2.0 takes no empty matrix
        if found == x.shape[1] and rank < found <= max(2, participants // 10):
            chosen, rank = [*chosen, text], found
    return " + ".join(chosen) or "1"
