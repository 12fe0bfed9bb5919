"""A study's export as data frames: every decision point, with what its analysis needs.

Exports of earlier versions lack some columns. These are computed from the others, and a note says so.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from opportune.errors import DataError, InputError
from opportune.inference.questions import ARM, CHANCE, ELIGIBLE, NOT_RANDOMISED, NUDGE, PARTICIPANT, REASON, TIME
from opportune.inference.wcls import LEAST_PROBABILITY
from opportune.revealers import Pace
from opportune.study import Study, parse_study
from opportune.study.serving import live
from opportune.trial.registered import registered

NEEDED = (PARTICIPANT, TIME, NUDGE, CHANCE, "action", "reward")
BESIDE = ("calls", "escalations", "alerts")
ABOUT = {
    "participant", "number", "stream", "timezone", "status", "reason", "enrolled_utc", "steps", "spent", "nudges",
    "last_decision_utc", "last_reveal_utc", ARM,
}  # fmt: skip
"""Columns of participants.csv that are not values given at enrolment."""


@dataclass(frozen=True)
class Export:
    """The contents of an export.

    Args:
        source: the folder.
        decisions: a row for each decision point, with `eligible` and `ineligible_reason`, and with the participant's
            values known at enrolment.
        participants: a row for each participant.
        events: the number of events of each kind; empty if the export has none.
        study: the study file in force; None if the export has none.
        notes: what the export lacks, and what replaces it.

    """

    source: str
    decisions: pd.DataFrame
    participants: pd.DataFrame
    events: pd.Series
    study: Study | None
    notes: tuple[str, ...] = field(default=())
    registered: str = ""
    """When the primary analysis was fixed, in words."""
    beside: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Calls, escalations and alerts, as far as the export has them."""
    least: tuple[float, float] = (LEAST_PROBABILITY, LEAST_PROBABILITY)
    """The minimum probabilities of the protocol: of a nudge (and of none) at eligible points, and of an action."""
    blinded: bool = False
    """Whether letters replace the arms' names."""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name if self.study is not None else "study"

    @cached_property
    def arms(self) -> list[str]:
        """The arms to which participants were randomised; empty without arms."""
        return sorted(self.decisions[ARM].dropna().unique()) if ARM in self.decisions else []

    @cached_property
    def variables(self) -> list[str]:
        """The columns of the study file's variables that are known before a decision: public and sensed ones."""
        if self.study is None:
            return []
        found = []
        for name, table in self.study.settings.variables.items():
            known = table.schedule is not None or table.visibility != "reported"
            column = f"variable_{name}" if f"variable_{name}" in self.decisions else name
            if known and column in self.decisions:
                found.append(column)
        return found


def read_export(folder: Path) -> Export:
    """Read a folder that `opportune export` wrote."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; expected one that opportune export wrote")
    decisions, participants = (_read(folder / f"{name}.csv") for name in ("decisions", "participants"))
    lacking = [name for name in NEEDED if name not in decisions]
    if lacking:
        raise DataError(f"{folder / 'decisions.csv'} has no column {lacking[0]}; expected what opportune export writes")
    if decisions.empty:
        raise DataError(f"{folder / 'decisions.csv'} has no rows; expected at least one decision point")
    _check_rows(folder / "decisions.csv", decisions, participants)
    notes: list[str] = []
    study = _study(folder / "study.toml", notes)
    events = _read(folder / "events.csv") if (folder / "events.csv").is_file() else pd.DataFrame({"kind": []})
    nudge, actions = least_probabilities(study, decisions)
    decisions = with_eligibility(_with_person(decisions, participants), notes, promised=nudge is not None)
    return Export(
        source=str(folder),
        decisions=decisions,
        participants=participants,
        events=events["kind"].value_counts(),
        study=study,
        notes=tuple(notes),
        registered=registered(study, events),
        least=(nudge or LEAST_PROBABILITY, actions or LEAST_PROBABILITY),
        beside={name: _read(folder / f"{name}.csv") for name in BESIDE if (folder / f"{name}.csv").is_file()},
    )


def _check_rows(file: Path, decisions: pd.DataFrame, participants: pd.DataFrame) -> None:
    """Refuse rows that would count twice, or that belong to no participant."""
    if participants[PARTICIPANT].duplicated().any():
        again = participants.loc[participants[PARTICIPANT].duplicated(), PARTICIPANT].iloc[0]
        raise DataError(f"{file.with_name('participants.csv')} contains participant {again} twice; expected each once")
    twice = decisions.duplicated([PARTICIPANT, TIME])
    if twice.any():
        who, step = decisions.loc[twice, [PARTICIPANT, TIME]].iloc[0]
        raise DataError(f"{file} contains decision point {step} of participant {who} twice; expected each once")
    unknown = ~decisions[PARTICIPANT].isin(participants[PARTICIPANT])
    if unknown.any():
        who = decisions.loc[unknown, PARTICIPANT].iloc[0]
        raise DataError(f"{file} contains participant {who}, who is not in participants.csv; expected everyone there")


def _read(file: Path) -> pd.DataFrame:
    if not file.is_file():
        raise InputError(f"{file} does not exist; expected all files that opportune export wrote")
    try:
        found = pd.read_csv(
            file, keep_default_na=False, na_values=[""], dtype={"participant": str, "decision": str}, low_memory=False
        )
    except (ValueError, pd.errors.ParserError) as error:
        raise DataError(f"{file} cannot be read as CSV: {error}") from None
    for name in found.columns:
        if pd.api.types.is_string_dtype(found[name]):  # remove the apostrophe that the export puts before formulas
            found[name] = found[name].str.replace(r"^'(?=[=+\-@\t\r])", "", regex=True)
    return found


def _study(file: Path, notes: list[str]) -> Study | None:
    if not file.is_file():
        notes.append(
            "The export has no study.toml: the primary analysis is the effect of a nudge on the reward, without "
            "controls."
        )
        return None
    return parse_study(file.read_text(encoding="utf-8"), source=str(file))


def _with_person(decisions: pd.DataFrame, participants: pd.DataFrame) -> pd.DataFrame:
    """The decisions with their participant's arm and values known at enrolment."""
    wanted = [name for name in participants if name not in ABOUT - {ARM} and name not in decisions]
    if not wanted:
        return decisions
    return decisions.merge(participants[[PARTICIPANT, *wanted]], on=PARTICIPANT, how="left", validate="many_to_one")


def least_probabilities(study: Study | None, decisions: pd.DataFrame) -> tuple[float | None, float | None]:
    """The minimum probability that the study file guarantees for a nudge (and for none), and for an action.

    None without a guarantee, and if the file was amended: earlier decisions may have had a different one.
    """
    if study is None or ("policy_version" in decisions and decisions["policy_version"].nunique() > 1):
        return None, None
    try:
        policies = list(live(study).policies.values())
    except InputError:  # the file cannot be served
        return None, None
    nudging = [policy.revealer for policy in policies if policy.budget is not None]
    nudge = [revealer.least for revealer in nudging if isinstance(revealer, Pace) and revealer.by_candidates]
    floors = [getattr(policy.recommender, "floor", None) for policy in policies]
    return (
        min(nudge) if nudge and len(nudge) == len(nudging) else None,
        min(filter(None, floors), default=None),
    )


def with_eligibility(decisions: pd.DataFrame, notes: list[str], *, promised: bool = False) -> pd.DataFrame:
    """The decisions with `eligible` and `ineligible_reason`, computed if an earlier version did not record them.

    If the protocol has `promised` a minimum probability, the record's `eligible` is kept: the analysis refuses rows
    that break the promise.
    """
    p = decisions[CHANCE].to_numpy(dtype=np.float64)
    fair = np.nan_to_num((p >= LEAST_PROBABILITY - 1e-9) & (p <= 1.0 - LEAST_PROBABILITY + 1e-9), nan=False)
    if ELIGIBLE in decisions:
        stated = decisions[ELIGIBLE].fillna(0).to_numpy() == 1
        fair = fair | promised
        rare = int((stated & ~fair).sum())
        if rare:
            notes.append(
                f"At {rare:,} eligible decision points the probability of a nudge was below {LEAST_PROBABILITY:g} or "
                f"above {1 - LEAST_PROBABILITY:g}; they count as not eligible."
            )
        reason = decisions[REASON] if REASON in decisions else pd.Series(np.nan, index=decisions.index, dtype=object)
        return decisions.assign(
            **{ELIGIBLE: (stated & fair).astype(int), REASON: reason.mask(stated & ~fair, NOT_RANDOMISED[0])}
        )
    notes.append(
        "The export has no column eligible, which later versions record: a decision point counts as eligible if a "
        f"nudge was possible and its probability was between {LEAST_PROBABILITY:g} and {1 - LEAST_PROBABILITY:g}."
    )

    def marked(name: str, value: object = 1) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if name not in decisions:
            return np.zeros(len(decisions), dtype=np.bool_)
        return np.asarray(decisions[name] == value)

    away = ~marked("available") if "available" in decisions else np.zeros(len(decisions), dtype=np.bool_)
    reason = np.select(
        [away, marked("past"), marked("mode", "fallback"), ~fair],
        ["unavailable", "past", "fallback", NOT_RANDOMISED[1]],
        "",
    )
    return decisions.assign(
        **{ELIGIBLE: (reason == "").astype(int), REASON: pd.Series(reason).replace("", None).values}
    )
