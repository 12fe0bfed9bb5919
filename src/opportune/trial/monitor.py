"""What a data monitoring board sees while a trial runs: flow, safety, fidelity, pacing; effects only if unblinded."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from opportune.inference.questions import PARTICIPANT
from opportune.study.arms import share_nudged
from opportune.trial import fidelity, flow
from opportune.trial.effects import Finding, effects_table
from opportune.trial.export import Export
from opportune.trial.run import hide_arms, open_effects

SAFETY = {"adverse event": "adverse events", "noted": "notes by staff"}
"""Kinds of events that concern safety."""


@dataclass(frozen=True)
class Monitored:
    """A monitoring report.

    Args:
        export: the record; letters replace the arms' names unless it is unblinded.
        date: of the report.
        tables: every table by its name.
        findings: effects; empty unless it is unblinded.
        unblinded: whether arms are named and effects shown.

    """

    export: Export
    date: dt.date
    tables: dict[str, pd.DataFrame]
    findings: list[Finding]
    unblinded: bool


def monitor(
    export: Export, *, date: dt.date, unblinded: bool = False, alerts: Sequence[dict[str, Any]] = ()
) -> Monitored:
    """Make the monitoring report of a trial.

    Args:
        export: the record.
        date: of the report.
        unblinded: name the arms and show effects.
        alerts: open alerts, each with `level`, `code` and `text`.

    """
    export = export if unblinded else hide_arms(export)
    findings = open_effects(export) if unblinded else []
    tables = {
        "flow": flow.flow(export, blinded=not unblinded),
        "safety": safety(export),
        "withdrawals": withdrawals(export),
        "alerts": pd.DataFrame(
            [(a["level"], a["code"], a["text"]) for a in alerts], columns=["level", "code", "alert"]
        ),
        "fidelity": fidelity.fidelity(export),
        "calibration": fidelity.calibration(export),
        "reasons": flow.reasons(export),
        "budget": fidelity.budget(export),
        "pacing": pacing(export),
        "missing": flow.missing(export, blinded=not unblinded),
    }
    if findings:
        tables["effects"] = effects_table(findings)
    return Monitored(export, date, {name: table for name, table in tables.items() if len(table)}, findings, unblinded)


def safety(export: Export) -> pd.DataFrame:
    """Counts from the record that concern safety."""
    rows = export.decisions
    found = [(words, int(export.events.get(kind, 0))) for kind, words in SAFETY.items()]
    escalations = export.beside.get("escalations")
    if escalations is not None:
        waiting = int(escalations["acknowledged_utc"].isna().sum())
        found += [("escalations shown to staff", len(escalations)), ("escalations not yet acknowledged", waiting)]
    if "status" in export.participants:
        found.append(("participants withdrawn", int((export.participants["status"] == "withdrawn").sum())))
    if "mode" in rows:
        found.append(("decisions made by the fallback", int((rows["mode"] == "fallback").sum())))
    chances = rows[[name for name in rows if str(name).startswith("action_probability_")]].to_numpy(dtype=np.float64)
    drawn = np.isfinite(chances).all(axis=1) & (chances.max(axis=1, initial=0.0) < 1.0)
    if drawn.any():
        forbidden = int((chances[drawn] == 0.0).any(axis=1).sum())
        found.append(("decision points at which a rule forbade an action", forbidden))
    return pd.DataFrame(found, columns=["what", "number"])


def withdrawals(export: Export) -> pd.DataFrame:
    """The number of participants who left, by reason."""
    people = export.participants
    if not {"status", "reason"} <= set(people.columns):
        return pd.DataFrame(columns=["reason", "participants"])
    left = people[people["status"] == "withdrawn"]
    counts = left["reason"].fillna("not stated").value_counts()
    return pd.DataFrame({"reason": counts.index, "participants": counts.to_numpy()})


def pacing(export: Export) -> pd.DataFrame:
    """Nudges in each quarter of the study, against an even spread in the arms with nudges; shows early spending."""
    planned = fidelity.planned_budget(export)
    if planned is None or export.study is None:
        return pd.DataFrame(columns=["decision points", "nudges", "even course"])
    horizon = export.study.settings.study.horizon
    rows, share = export.decisions, share_nudged(export.study.settings)
    part = np.minimum((rows["step"] - 1) * 4 // horizon, 3)
    found = []
    for quarter, group in rows.groupby(part):
        found.append(
            {
                "decision points": f"{int(quarter) * horizon // 4 + 1} to {(int(quarter) + 1) * horizon // 4}",
                "participants": int(group[PARTICIPANT].nunique()), "nudges": int(group["nudge"].sum()),
                "even course": round(len(group) * share * planned / horizon, 1),
            }
        )  # fmt: skip
    return pd.DataFrame(found)
