"""Mean sensed values of a fitted user in each stratum, from simulated courses without messages."""

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm import rng
from opportune.engine.compiled import driver_function
from opportune.worlds.brushing import step

FloatArray = NDArray[np.float64]

COURSES = 2000
"""The default number of simulated courses without messages behind each user's means."""
SEED = 20240502
"""Seed of those courses; the user's number and the course make the stream."""


def stratum_means(
    user: step.Settings, *, stream: int, replicates: int = COURSES, horizon: int = step.HORIZON
) -> FloatArray:
    """Means of prior (row 0) and prop (row 1) in each stratum tod + 2*weekend when no message is ever sent.

    The courses use the streams from `stream` on, so that the result is always the same.
    """
    sums, counts = np.zeros((2, 4)), np.zeros(4)
    x = step.new_features(user)
    for replicate in range(replicates):
        _add_course(user, step.new_state(), stream + replicate, horizon, x, sums, counts)
    return np.asarray(sums / np.maximum(counts, 1.0))


@driver_function
def _add_course(user, state, stream, horizon, x, sums, counts):  # type: ignore[no-untyped-def]
    """Add the prior and prop of a course without messages to the sums of each stratum."""
    for t in range(horizon):
        stratum = step.arrive(user, state, t, x)
        prior, prop = step.sensed(user, state, t)
        sums[0, stratum] += prior
        sums[1, stratum] += prop
        counts[stratum] += 1.0
        u_zero = rng.draw(SEED, stream, t, rng.ZERO)
        u_poisson = rng.draw(SEED, stream, t, rng.NOISE)
        step.advance(state, t, step.outcome(user, x, 0, u_zero, u_poisson))
