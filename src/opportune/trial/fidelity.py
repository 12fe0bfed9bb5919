"""Fidelity: whether the study ran as its file says, and coins fell as the recorded probabilities say."""

import math

import numpy as np
import pandas as pd

from opportune.inference.questions import ARM, CHANCE, ELIGIBLE, NUDGE, PARTICIPANT
from opportune.trial.export import Export

CLASSES = 10
NOTED = {"noted": "notes by staff", "amended": "amendments of the study file", "adverse event": "adverse events"}
"""Kinds of events that the report counts."""
MADE = {
    "unreachable": "proposed, and the participant was not reached",
    "declined": "proposed, and the participant declined",
    "wrong person": "proposed, and someone else answered",
    "nothing": "proposed, and nobody made or answered it in time",
}  # fmt: skip
"""Proposed nudges that did not reach the participant, by their outcome in calls.csv."""
CORRECTED = {
    "outcome_corrected": "outcomes of nudges corrected by staff", "reported_first": "reported values corrected",
}  # fmt: skip


def calibration(export: Export) -> pd.DataFrame:
    """Nudges made, beside those that the probabilities imply, in tenths of the eligible decision points."""
    rows = export.decisions[export.decisions[ELIGIBLE] == 1]
    if rows.empty:
        return pd.DataFrame(columns=["probability from", "to", "decision points", "expected", "nudged", "z"])
    p = rows[CHANCE].to_numpy(dtype=np.float64)
    order = np.argsort(p, kind="stable")
    found = []
    values = np.unique(p)  # nudges at candidate moments have only two probabilities
    inner = values[:-1] if len(values) <= CLASSES else np.unique(np.quantile(p, np.linspace(0, 1, CLASSES + 1)))[1:-1]
    edges = np.unique(np.searchsorted(p[order], inner, "right"))
    for part in np.split(order, edges):
        if len(part):
            expected, made = float(p[part].sum()), int(rows[NUDGE].to_numpy()[part].sum())
            sd = math.sqrt(float((p[part] * (1.0 - p[part])).sum()))
            found.append(
                {
                    "probability from": float(p[part].min()), "to": float(p[part].max()), "decision points": len(part),
                    "expected": expected, "nudged": made, "z": (made - expected) / sd if sd > 0.0 else 0.0,
                }
            )  # fmt: skip
    return pd.DataFrame(found)


def fidelity(export: Export) -> pd.DataFrame:
    """Measures of how the study ran, each with its number and share."""
    rows, found = export.decisions, []

    def count(what: str, column: str, value: object, of: pd.DataFrame, among: str) -> None:
        if column in of:
            number = int((of[column] == value).sum())
            found.append({"measure": what, "number": number, "share": number / max(1, len(of)), "of": among})

    every = "decision points"
    nudged = rows[rows[NUDGE] == 1]
    count("eligible for a nudge", ELIGIBLE, 1, rows, every)
    count("decided by the fallback", "mode", "fallback", rows, every)
    count("known only afterwards", "past", 1, rows, every)
    count("shown from a bundle, offline", "offline", 1, rows, every)
    count("app opened unasked", "opened", 1, rows, every)
    count("answered in time", "answered", 1, nudged, "nudges")
    if "answered_late_utc" in rows:
        late = int(nudged["answered_late_utc"].notna().sum())
        found.append({"measure": "answered late", "number": late, "share": late / max(1, len(nudged)), "of": "nudges"})
    count("rewards filled in", "reward_imputed", 1, rows, every)
    if "reward_changes" in rows:
        changed = int((rows["reward_changes"].fillna(0) > 0).sum())
        found.append(
            {"measure": "rewards corrected", "number": changed, "share": changed / max(1, len(rows)), "of": every}
        )
    count_overrides(export, found)
    for kind, words in NOTED.items():
        if kind in export.events:
            found.append({"measure": words, "number": int(export.events[kind]), "share": math.nan, "of": "the record"})
    return pd.DataFrame(found)


def count_overrides(export: Export, found: list[dict[str, object]]) -> None:
    """Add counts of nudges that were not made, of corrections, and of alerts and escalations."""
    calls, rows = export.beside.get("calls"), export.decisions
    if calls is not None:
        for outcome, words in MADE.items():
            number = int((calls["outcome"] == outcome).sum())
            found.append({"measure": words, "number": number, "share": number / max(1, len(calls)), "of": "nudges"})
    for column, words in CORRECTED.items():
        if column in rows:
            number = int(rows[column].notna().sum())
            found.append(
                {"measure": words, "number": number, "share": number / max(1, len(rows)), "of": "decision points"}
            )
    for name in ("alerts", "escalations"):
        if name in export.beside:
            found.append({"measure": name, "number": len(export.beside[name]), "share": math.nan, "of": "the record"})


def budget(export: Export) -> pd.DataFrame:
    """Nudges of participants in arms with nudges, beside the budget of the study file.

    For a blinded record, numbers that would reveal how many these participants are, and so their arm, are left out.
    """
    each = nudged_rows(export).groupby(PARTICIPANT)[NUDGE].sum()
    planned = planned_budget(export)
    done = export.participants.set_index(PARTICIPANT).get("status", pd.Series(dtype=object))
    finished = each[each.index.isin(done[done == "completed"].index)]
    found = [("nudges in total", float(each.sum()))]
    if not export.blinded or not export.arms:
        found.append(("nudges per participant, mean", float(each.mean())))
        if len(finished):
            found.append(("nudges per participant who completed, mean", float(finished.mean())))
        found.append(("fewest", float(each.min())))
    found.append(("most", float(each.max())))
    if planned is not None:
        found.append(("budget per participant in the study file", planned))
        found.append(("participants beyond the budget", float((each > planned + 1e-9).sum())))
    return pd.DataFrame(found, columns=["measure", "number"])


def nudged_rows(export: Export) -> pd.DataFrame:
    """The decisions of participants in arms with nudges, which alone spend a budget."""
    rows = export.decisions
    if not export.arms:
        return rows
    able = rows.loc[(rows[NUDGE] == 1) | (rows[CHANCE] > 0.0), ARM].unique()
    return rows[rows[ARM].isin(able)] if len(able) else rows


def planned_budget(export: Export) -> float | None:
    """The budget per participant in the study file; None if it names none or several."""
    if export.study is None:
        return None
    settings = export.study.settings
    if settings.serve.budget is not None:
        return float(settings.serve.budget)
    return float(settings.study.budgets[0]) if len(settings.study.budgets) == 1 else None


def course(export: Export) -> pd.DataFrame:
    """Nudges and the mean reward by day of the study, and by arm if there are arms."""
    rows = export.decisions
    if "day" not in rows:
        return pd.DataFrame(columns=["day", "arm", "decision points", "nudges", "reward", "se"])
    rows = rows.assign(arm=rows["arm"].fillna("none") if export.arms else "all")
    found = []
    for (arm, day), group in rows.groupby(["arm", "day"]):
        each = group.groupby(PARTICIPANT)["reward"].mean().dropna()
        found.append(
            {
                "arm": arm, "day": int(day), "decision points": len(group), "nudges": int(group[NUDGE].sum()),
                "reward": float(each.mean()) if len(each) else math.nan,
                "se": float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan,
            }
        )  # fmt: skip
    table = pd.DataFrame(found)
    return table.drop(columns="nudges") if export.blinded else table  # they would reveal the arm
