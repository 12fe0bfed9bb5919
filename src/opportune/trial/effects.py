"""The effects that a trial estimates: the primary analysis, fixed in advance, and the secondary ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from opportune.errors import InputError
from opportune.inference.estimates import Estimates, holm
from opportune.inference.questions import (
    DRAWN,
    ELIGIBLE,
    NUDGE,
    PARTICIPANT,
    Question,
    lagged,
    usable_controls,
    with_drawn,
)
from opportune.inference.record import SPARE_PARTICIPANTS
from opportune.study.analysis import AnalysisTable
from opportune.study.arms import control_arm
from opportune.trial.export import Export
from opportune.trial.fidelity import planned_budget

PRIMARY, SECONDARY = "primary", "secondary"
PERIOD = "period"
MOST_PERIODS = 5
EFFECTS = (
    "analysis", "kind", "coefficient", "estimate", "se", "low", "high", "p", "holm p", "df", "participants", "rows",
    "least probability", "estimand",
)  # fmt: skip
"""Columns of the table of effects."""


@dataclass(frozen=True)
class Finding:
    """One analysis and its result.

    Args:
        key: a short name for files.
        kind: "primary", or "secondary" for all others.
        question: the question of the analysis.
        estimates: the answer; None if there is none.
        why: a sentence that says why there is no answer.

    """

    key: str
    kind: str
    question: Question
    estimates: Estimates | None
    why: str = ""

    @property
    def title(self) -> str:
        """The name of the analysis."""
        names = {"by-period": "effect of a nudge in parts of the study", "by-step": "trend of the effect of a nudge"}
        name = names.get(self.key, self.question.name)
        return name[:1].upper() + name[1:]


def find_effects(export: Export) -> list[Finding]:
    """All analyses, the primary one first."""
    frame = with_periods(export)
    asked = questions(export, frame)
    return [_ask(key, PRIMARY if number == 0 else SECONDARY, question, frame)
            for number, (key, question) in enumerate(asked.items())]  # fmt: skip


def _ask(key: str, kind: str, question: Question, frame: pd.DataFrame) -> Finding:
    try:
        return Finding(key, kind, question, question.answer(frame))
    except InputError as error:
        return Finding(key, kind, question, None, str(error))


def questions(export: Export, frame: pd.DataFrame) -> dict[str, Question]:
    """All questions by their short names: the primary one, then lag, moderators, time, actions, arms."""
    table = AnalysisTable() if export.study is None else export.study.settings.analysis
    people = frame[PARTICIPANT].nunique()
    controls = usable_controls(frame, export.variables, participants=people)
    least, least_action = export.least
    plain, arms = Question(controls=controls, least=least), arms_question(export, frame)
    primary = table.question(controls, arms.controls, arms.reference)
    primary = replace(primary, least=least_action if primary.estimand == "actions" else least)
    if export.blinded and primary.estimand == "arms":
        primary = replace(primary, reference=None)  # naming the control would reveal it
    every = {"primary": primary, "nudge": plain, "lasting": replace(plain, lag=_lag(export, table))}
    if set(frame["reward"].dropna().unique()) <= {0.0, 1.0}:
        every["risk"] = replace(plain, estimand="risk")
    every |= {
        f"by-{name}": replace(plain, moderators=_named(name), controls=_with(controls, name))
        for name in export.variables
    }
    every["by-step"] = replace(plain, moderators="step", controls=_with(controls, "step"))
    if frame[PERIOD].nunique() > 1:
        every["by-period"] = replace(plain, moderators=f"0 + C({PERIOD})", controls=_with(controls, f"C({PERIOD})"))
    every["actions"] = Question(estimand="actions", least=least_action)
    if export.arms:
        every["arms"] = arms
    found: dict[str, Question] = {}
    for key, question in every.items():
        if all(question.name != other.name for other in found.values()):  # other controls do not make another question
            found[key] = question
    return found


def arms_question(export: Export, frame: pd.DataFrame) -> Question:
    """The comparison of arms with the one without nudges, adjusted for strata and complete baseline columns."""
    if export.study is None or not export.arms:
        return Question(estimand="arms")
    settings = export.study.settings
    strata = () if settings.arms is None else settings.arms.strata
    names = [next((name for name in (known, f"variable_{known}") if name in frame), "")
             for known in dict.fromkeys([*strata, *settings.participants.baseline])]  # fmt: skip
    people = frame[[PARTICIPANT, *filter(None, names)]].drop_duplicates()
    controls = "1"
    if people[PARTICIPANT].is_unique:
        controls = usable_controls(people, names, participants=len(people))
    control = None if export.blinded else control_arm(settings)
    return Question(estimand="arms", controls=controls, reference=control if control in export.arms else export.arms[0])


def _named(column: str) -> str:
    return column if column.isidentifier() else f"`{column}`"


def _with(controls: str, name: str) -> str:
    """The controls plus one term, unless they contain it: a moderator must be among the controls."""
    term = name if name.startswith("C(") else _named(name)
    parts = [] if controls == "1" else controls.split(" + ")
    return " + ".join(parts if term in parts else [*parts, term])


def _lag(export: Export, table: AnalysisTable) -> int:
    """The number of decision points over which an effect is followed: the file's, else the mean gap between nudges."""
    horizon = int(export.decisions["step"].max())
    if table.lag is not None:
        return min(table.lag, horizon)
    budget = planned_budget(export) or float(export.decisions.groupby(PARTICIPANT)[NUDGE].sum().mean())
    length = horizon if export.study is None else export.study.settings.study.horizon
    return int(np.clip(round(length / max(budget, 1.0)), 2, max(2, horizon // 2)))


def with_periods(export: Export) -> pd.DataFrame:
    """The decisions with the number of their part of the study; few participants allow only few parts."""
    rows = export.decisions
    people = rows.loc[rows[ELIGIBLE] == 1, PARTICIPANT].nunique()
    parts = int(np.clip((people - SPARE_PARTICIPANTS - 4) // 4, 1, MOST_PERIODS))
    length = int(rows["step"].max())
    return rows.assign(**{PERIOD: np.minimum((rows["step"] - 1) * parts // length + 1, parts).astype(int)})


def effects_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """A row for each coefficient of an effect; Holm adjusts over all secondary ones, and over several primary ones."""
    rows = []
    for finding in findings:
        found = finding.estimates
        if found is None:
            continue
        last = slice(-found.effects, None)
        several = finding.kind == PRIMARY and found.effects > 1
        for name, estimate, se, (low, high), p, adjusted in zip(
            found.names[last], found.estimate[last], found.se[last], found.interval[last], found.p[last],
            found.holm_p[last], strict=True,
        ):  # fmt: skip
            if finding.key.startswith("by-") and name == NUDGE:
                continue  # the effect where the moderator is 0, which answers no question here
            rows.append(
                {
                    "analysis": finding.title, "kind": finding.kind, "coefficient": name, "estimate": float(estimate),
                    "se": float(se), "low": float(low), "high": float(high), "p": float(p),
                    "holm p": float(adjusted) if several else np.nan,
                    "df": found.df, "participants": found.participants, "rows": found.rows,
                    "least probability": round(found.least_probability, 12), "estimand": found.estimand,
                }
            )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(EFFECTS))
    if len(table):
        secondary = (table["kind"] == SECONDARY).to_numpy()
        table.loc[secondary, "holm p"] = holm(table.loc[secondary, "p"].to_numpy())
    return table


def rows_for_r(export: Export, findings: Sequence[Finding]) -> pd.DataFrame:
    """The rows from which the R code repeats every number: without imputed rewards, with lagged outcomes."""
    rows = with_periods(export)
    if "reward_imputed" in rows:
        rows = rows.assign(reward=rows["reward"].mask(rows["reward_imputed"] == 1))
    with_lag = {finding.question.lag for finding in findings if finding.question.lag > 1}
    for lag in sorted(with_lag):
        wide = rows.pivot_table(index=PARTICIPANT, columns="step", values="reward", dropna=False, observed=True)
        wide = wide.reindex(columns=range(int(rows["step"].min()), int(rows["step"].max()) + lag))
        mean = sum(wide.shift(-ahead, axis=1) for ahead in range(lag)) / lag
        place = pd.MultiIndex.from_arrays([rows[PARTICIPANT], rows["step"]])
        rows = rows.assign(**{lagged("reward", lag): mean.stack().reindex(place).to_numpy()})
    try:
        return with_drawn(rows)
    except InputError:
        return rows.drop(columns=DRAWN, errors="ignore")


def r_script(findings: Sequence[Finding], file: str) -> str:
    """An R script that repeats every number of the report."""
    lines = [
        "# Repeats the estimates of the report. Install once: install.packages(c('MRTAnalysis', 'clubSandwich'))",
        "# MRTAnalysis prints a test of each coefficient, by default with Mancl and DeRouen's correction.",
        f"rows <- read.csv('{file}')",
        "",
    ]
    for finding in findings:
        if finding.estimates is not None:
            lines += [f"# {finding.kind}: {finding.title}", finding.question.in_r(finding.estimates), ""]
    return "\n".join(lines)
