"""The flow of participants and decision points through a trial, as CONSORT requires, and missing data."""

import pandas as pd

from opportune.inference.questions import ARM, ELIGIBLE, NUDGE, PARTICIPANT, REASON, TIME
from opportune.trial.export import Export

EVERYONE = "all"


def flow(export: Export, *, blinded: bool = False) -> pd.DataFrame:
    """The number of participants and decision points at each stage, in total and by arm.

    Args:
        export: the record.
        blinded: leave out, by arm, the stages that would reveal which arms have nudges.

    """
    columns = {EVERYONE: _stages(export, export.participants, export.decisions)}
    for arm in export.arms:
        rows = export.decisions[export.decisions[ARM] == arm]
        people = export.participants[export.participants[PARTICIPANT].isin(rows[PARTICIPANT].unique())]
        if ARM in export.participants:
            people = export.participants[export.participants[ARM] == arm]
        stages = _stages(export, people, rows)
        columns[arm] = {name: n for name, n in stages.items() if not blinded or name not in REVEALING}
    return pd.DataFrame(columns).rename_axis("stage").reset_index()


REVEALING = ("eligible for a nudge", "nudged", "answered in time")
"""Stages that reveal which arms have nudges."""


def _stages(export: Export, people: pd.DataFrame, rows: pd.DataFrame) -> dict[str, int]:
    found = {"participants enrolled": len(people)}
    if "status" in people:
        for status in ("completed", "withdrawn", "paused", "active"):
            found[f"participants {status}"] = int((people["status"] == status).sum())
    if export.study is not None:  # whatever their status
        last = rows.loc[rows[TIME] >= export.study.settings.study.horizon, PARTICIPANT]
        found["participants at the last decision point"] = int(last.nunique())
    found["participants with a decision"] = int(rows[PARTICIPANT].nunique())
    found["decision points"] = len(rows)
    if "available" in rows:
        found["available"] = int((rows["available"] == 1).sum())
    found["eligible for a nudge"] = int((rows[ELIGIBLE] == 1).sum())
    found["nudged"] = int((rows[NUDGE] == 1).sum())
    if "answered" in rows:
        found["answered in time"] = int((rows["answered"] == 1).sum())
    found["with a reward"] = int(_known(rows).sum())
    return found


def _known(rows: pd.DataFrame) -> pd.Series:
    """Whether the reward was measured: present and not filled in."""
    known = rows["reward"].notna()
    return known & (rows["reward_imputed"] != 1) if "reward_imputed" in rows else known


def reasons(export: Export) -> pd.DataFrame:
    """Why decision points were not eligible for a nudge."""
    rows = export.decisions[export.decisions[ELIGIBLE] != 1]
    counts = rows[REASON].fillna("not stated").value_counts()
    share = counts / len(export.decisions)
    return pd.DataFrame(
        {"reason": counts.index, "decision points": counts.to_numpy(), "share of all": share.to_numpy()}
    )


def missing(export: Export, *, blinded: bool = False) -> pd.DataFrame:
    """Rewards that are missing or filled in: at eligible decision points with and without a nudge, and by arm."""
    rows = export.decisions
    groups = {"all decision points": rows, "eligible": rows[rows[ELIGIBLE] == 1]}
    groups |= {f"eligible, {words}": groups["eligible"].loc[groups["eligible"][NUDGE] == value]
               for value, words in ((1, "nudged"), (0, "not nudged")) if not blinded}  # fmt: skip
    groups |= {arm if export.blinded else f"arm {arm}": rows[rows[ARM] == arm] for arm in export.arms}
    found = []
    for name, group in groups.items():
        imputed = int((group["reward_imputed"] == 1).sum()) if "reward_imputed" in group else 0
        lost = int(group["reward"].isna().sum())
        found.append(
            {
                "decision points": name, "number": len(group), "missing": lost, "filled in": imputed,
                "share without a measurement": (lost + imputed) / max(1, len(group)),
            }
        )  # fmt: skip
    return pd.DataFrame(found)
