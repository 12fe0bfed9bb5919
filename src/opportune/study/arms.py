"""The arms of a trial: the policy of each arm, and the arm to which each participant is randomised."""

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import ValidationError

from opportune.algorithm.rng import draw
from opportune.recommenders import RECOMMENDERS
from opportune.revealers import REVEALERS
from opportune.study.base import WrongValueError, run_checks
from opportune.study.messages import Error, Errors
from opportune.study.schema import PolicyTable, StudyFile, one_of
from opportune.study.trial import ArmsTable, ArmTable

if TYPE_CHECKING:
    from opportune.study.build import Study

ALLOCATION = 2**30
"""The purpose of the draws that permute blocks; it differs from all purposes in `algorithm.rng`."""


class Entries(NamedTuple):
    """The policy of each arm, the mistakes in [arms], and the number of checks that wait for other corrections."""

    policies: dict[str, PolicyTable]
    errors: list[Error]
    waiting: int


def arm_entries(settings: StudyFile) -> Entries:
    """The policy of each arm, as if it were one of [[policies]]; an arm without a policy has the one of [serve]."""
    policies: dict[str, PolicyTable] = {}
    errors: list[Error] = []
    waiting = 0
    for name, arm in ({} if settings.arms is None else settings.arms.named).items():
        found, more = run_checks([_check_arm(settings, name, arm)])
        if not found and not more:
            policies[name] = _policy_of(settings, name, arm)
        errors += found
        waiting += more
    return Entries(policies, errors, waiting)


def _check_arm(settings: StudyFile, name: str, arm: ArmTable) -> Errors:
    yield _check_policy(settings, name, arm)
    yield _check_recommender(name, arm)
    yield _check_action(settings, name, arm)
    yield _check_together(settings, name, arm)


def _check_policy(settings: StudyFile, name: str, arm: ArmTable) -> Errors:
    if _entry(settings, arm) is None:
        if arm.policy is None:
            raise WrongValueError  # of the policy in [serve]
        known = [entry.name or entry.kind for entry in settings.policies]
        text = f"policy of {name!r} in [arms] is {arm.policy!r}"
        yield ("arms", name, "policy"), f"{text}; expected {one_of(list(dict.fromkeys([*known, 'never'])))}"


def _check_recommender(name: str, arm: ArmTable) -> Errors:
    if arm.recommender is not None and arm.recommender not in RECOMMENDERS.kinds():
        text = f"recommender of {name!r} in [arms] is {arm.recommender!r}"
        yield ("arms", name, "recommender"), f"{text}; expected {one_of(list(RECOMMENDERS.kinds()))}"


def _check_action(settings: StudyFile, name: str, arm: ArmTable) -> Errors:
    if arm.action is not None and arm.action not in settings.study.actions:
        text = f"action of {name!r} in [arms] is {arm.action!r}"
        yield ("arms", name, "action"), f"{text}; expected {one_of(settings.study.actions)}"


def _check_together(settings: StudyFile, name: str, arm: ArmTable) -> Errors:
    """Only the recommender 'fixed' has an action, and it needs one."""
    if _entry(settings, arm) is None or any(_check_recommender(name, arm)):
        return  # reported above
    try:
        _policy_of(settings, name, arm)
    except ValidationError:
        text = f"{name!r} in [arms] has recommender = {arm.recommender!r}"
        yield ("arms", name), f"{text}; expected action = ... with 'fixed', and with no other"


def share_nudged(settings: StudyFile) -> float:
    """The share of participants in arms with nudges; 1 in a study without arms."""
    arms = settings.arms
    if arms is None:
        return 1.0
    policies = _all_policies(settings)
    nudged = sum(arm.share for name, arm in arms.named.items() if policies[name].rule.spends)
    return nudged / sum(arm.share for arm in arms.named.values())


def control_arm(settings: StudyFile) -> str | None:
    """The first arm without nudges, with which others are compared; None if every arm has nudges."""
    return next((name for name, entry in _all_policies(settings).items() if not entry.rule.spends), None)


def _all_policies(settings: StudyFile) -> dict[str, PolicyTable]:
    """The policy of every arm; raises `WrongValueError` if one is wrong."""
    entries = arm_entries(settings)
    if entries.waiting:
        raise WrongValueError
    return entries.policies


def _entry(settings: StudyFile, arm: ArmTable) -> PolicyTable | None:
    """The policy that an arm names, by default that of [serve]; None if there is no such policy."""
    wanted = arm.policy if arm.policy is not None else settings.serve.policy
    entries = [entry for entry in settings.policies if wanted in {None, entry.name or entry.kind}]
    if entries:
        return entries[0]
    simple = wanted in REVEALERS.kinds() and not REVEALERS.kinds()[wanted].needs_budget and wanted != "periodic"
    return PolicyTable(kind=str(wanted)) if simple else None


def _policy_of(settings: StudyFile, name: str, arm: ArmTable) -> PolicyTable:
    """The policy of an arm, with the arm's name and recommender."""
    entry = _entry(settings, arm)
    assert entry is not None
    content = {**entry.given(), **entry.settings, "name": name}
    content.pop("settings", None)
    if arm.recommender is not None and arm.recommender != entry.recommender:
        others = {field.name for kind in RECOMMENDERS.kinds().values() for field in fields(kind)}
        content = {key: value for key, value in content.items() if key not in others}
        content["recommender"] = arm.recommender
    if arm.action is not None:
        content["action"] = arm.action
    return PolicyTable.model_validate(content)


def arm_at(arms: ArmsTable, seed: int, *, stratum: int, place: int) -> str:
    """The arm of participant number `place` (from 0) of a stratum, from permuted blocks that the seed determines.

    Each stratum has blocks of its own. Within a block every order is equally likely.
    """
    names = arms.block_of_arms()
    block, position = divmod(place, len(names))
    for i in range(len(names) - 1, 0, -1):  # Fisher and Yates
        j = int(float(draw(np.uint64(seed), stratum, block * len(names) + i, ALLOCATION)) * (i + 1))
        names[i], names[j] = names[j], names[i]
    return names[position]


def stratum_of(study: "Study", baseline: dict[str, object]) -> int:
    """The number of a participant's stratum, one for each combination of the levels of the stratifying variables."""
    number = 0
    assert study.settings.arms is not None
    for name in study.settings.arms.strata:
        levels = study.settings.participants.baseline[name]
        number = number * len(levels) + levels.index(baseline[name])
    return number
