"""The distribution of rewards around the linear mean: normal noise, successes or counts, clipped to bounds."""

import math

from opportune.algorithm.rng import normal
from opportune.engine.compiled import dual_function, inner_function
from opportune.engine.declared import BINARY, COUNTED


@inner_function
def reward_around(p, mean, sd, noise):  # type: ignore[no-untyped-def]
    """The reward of an action with this linear mean; `noise` is a uniform."""
    family = int(p.happenings.family[0])
    if family == BINARY:
        return 1.0 if noise < mean else 0.0
    reward = mean + sd * normal(noise)
    if family == COUNTED:
        reward = math.floor(reward + 0.5)
    return min(max(reward, p.happenings.least_reward[0]), p.happenings.most_reward[0])


@inner_function
def outcome_of(p, mean, sd):  # type: ignore[no-untyped-def]
    """The expected reward of an action with this linear mean."""
    if p.happenings.bends[0] == 0.0:
        return mean
    happens = p.happenings
    return expected_reward(mean, sd, int(happens.family[0]), happens.least_reward[0], happens.most_reward[0])


@dual_function
def expected_reward(mean, sd, family, low, high):  # type: ignore[no-untyped-def]
    """The expectation of `reward_around`; of counts, before rounding."""
    if family == BINARY:
        return min(max(mean, 0.0), 1.0)
    if sd <= 0.0:
        return min(max(mean, low), high)
    found = mean
    if low > -math.inf:
        found += sd * overshoot((low - mean) / sd)
    if high < math.inf:
        found -= sd * overshoot((mean - high) / sd)
    return found


@dual_function
def overshoot(z):  # type: ignore[no-untyped-def]
    """The mean of max(z - Z, 0) for a standard normal Z."""
    return 0.5 * z * math.erfc(-z * math.sqrt(0.5)) + math.exp(-0.5 * z * z) * 0.3989422804014327
