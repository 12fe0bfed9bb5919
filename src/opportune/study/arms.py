"""The arms of a trial: what each runs, and to which arm a participant is randomised."""

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import ValidationError

from opportune.algorithm.rng import draw
from opportune.recommenders import RECOMMENDERS
from opportune.revealers import REVEALERS
from opportune.study.lines import Place
from opportune.study.schema import PolicyTable, StudyFile, one_of
from opportune.study.trial import ArmsTable, ArmTable

if TYPE_CHECKING:
    from opportune.study.build import Study

ALLOCATION = 2**30
"""The purpose of draws that permute blocks, apart from those of `algorithm.rng`."""


class Entries(NamedTuple):
    """What each arm runs, and what is wrong with arms."""

    policies: dict[str, PolicyTable]
    errors: list[tuple[Place, str]]


def arm_entries(settings: StudyFile) -> Entries:
    """The policy of each arm, as if it were one of [[policies]]; arms that name none have the one that is served."""
    arms = settings.arms
    found: dict[str, PolicyTable] = {}
    errors: list[tuple[Place, str]] = []
    for name, arm in ({} if arms is None else arms.named).items():
        base = _entry(settings, arm)
        if base is None:
            known = [entry.name or entry.kind for entry in settings.policies]
            text = f"policy of {name!r} in [arms] is {arm.policy!r}"
            errors.append(
                (("arms", name, "policy"), f"{text}; expected {one_of(list(dict.fromkeys([*known, 'never'])))}")
            )
            continue
        if arm.recommender is not None and arm.recommender not in RECOMMENDERS.kinds():
            text = f"recommender of {name!r} in [arms] is {arm.recommender!r}"
            errors.append((("arms", name, "recommender"), f"{text}; expected {one_of(list(RECOMMENDERS.kinds()))}"))
            continue
        if arm.action is not None and arm.action not in settings.study.actions:
            text = f"action of {name!r} in [arms] is {arm.action!r}"
            errors.append((("arms", name, "action"), f"{text}; expected {one_of(settings.study.actions)}"))
            continue
        try:
            found[name] = _changed(base, name, arm)
        except ValidationError:
            text = f"{name!r} in [arms] has recommender = {arm.recommender!r}"
            errors.append((("arms", name), f"{text}; expected action = ... with 'fixed', and with no other"))
    return Entries(found, errors)


def share_nudged(settings: StudyFile) -> float:
    """The share of participants who are in an arm with nudges; all, where there are no arms."""
    arms = settings.arms
    if arms is None:
        return 1.0
    entries = arm_entries(settings).policies
    nudged = sum(arm.share for name, arm in arms.named.items() if entries[name].rule.spends)
    return nudged / sum(arm.share for arm in arms.named.values())


def control_arm(settings: StudyFile) -> str | None:
    """The first arm without nudges, with which others are compared; None where there is none."""
    entries = {} if settings.arms is None else arm_entries(settings).policies
    return next((name for name, entry in entries.items() if not entry.rule.spends), None)


def _entry(settings: StudyFile, arm: ArmTable) -> PolicyTable | None:
    """The policy that an arm names, or the one that is served where it names none."""
    wanted = arm.policy if arm.policy is not None else settings.serve.policy
    entries = [entry for entry in settings.policies if wanted in {None, entry.name or entry.kind}]
    if entries:
        return entries[0]
    simple = wanted in REVEALERS.kinds() and not REVEALERS.kinds()[wanted].needs_budget and wanted != "periodic"
    return PolicyTable(kind=str(wanted)) if simple else None


def _changed(entry: PolicyTable, name: str, arm: ArmTable) -> PolicyTable:
    """A policy under the arm's name, with the arm's recommender."""
    content = {**entry.model_dump(exclude_unset=True, exclude={"settings"}), **entry.settings, "name": name}
    if arm.recommender is not None and arm.recommender != entry.recommender:
        others = {field.name for kind in RECOMMENDERS.kinds().values() for field in fields(kind)}
        content = {key: value for key, value in content.items() if key not in others}
        content["recommender"] = arm.recommender
    if arm.action is not None:
        content["action"] = arm.action
    return PolicyTable.model_validate(content)


def arm_at(arms: ArmsTable, seed: int, *, stratum: int, place: int) -> str:
    """The arm of the participant who is number `place` (from 0) in a stratum: permuted blocks, a function of the seed.

    Each stratum has blocks of its own. Within a block every order is equally likely.
    """
    names = arms.block_of_arms()
    block, position = divmod(place, len(names))
    for i in range(len(names) - 1, 0, -1):  # Fisher and Yates
        j = int(float(draw(np.uint64(seed), stratum, block * len(names) + i, ALLOCATION)) * (i + 1))
        names[i], names[j] = names[j], names[i]
    return names[position]


def stratum_of(study: "Study", baseline: dict[str, object]) -> int:
    """The number of a participant's stratum: the combination of baseline levels by which arms are balanced."""
    number = 0
    assert study.settings.arms is not None
    for name in study.settings.arms.strata:
        levels = study.settings.participants.baseline[name]
        number = number * len(levels) + levels.index(baseline[name])
    return number
