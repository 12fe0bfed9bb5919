"""What a live decision costs."""

import time

import numpy as np
import pytest

import opportune as op
from opportune.engine.compiled import CHECK_BOUNDS

STEPS = 200  # few, so that some of the runs are not interrupted
MOST_MICROSECONDS = 40.0  # measured: 12 on a quiet core; machines that run tests are not quiet


def microseconds_per_step(problem: op.Problem) -> float:
    """A run of propose, settle and learn; in time of this process, which others' does not count as."""
    agent = op.Agent(problem, op.pd2_ucb(30), horizon=STEPS, seed=1, stream=0)
    rng = np.random.default_rng(0)
    moments = list(zip(rng.integers(10, size=STEPS).tolist(), rng.normal(size=STEPS).tolist(), strict=True))
    began = time.process_time_ns()
    for context, reward in moments:
        proposal = agent.propose(context)
        agent.settle(True if proposal.nudged else None)
        agent.learn(reward)
    return (time.process_time_ns() - began) / STEPS / 1e3


@pytest.mark.slow
@pytest.mark.skipif(CHECK_BOUNDS, reason="the debug build is not for speed")
def test_a_live_step_takes_microseconds() -> None:
    """Propose, settle and learn together at d = 9, A = 5, K = 10: the best of many runs."""
    problem = op.synthetic_worlds(1, seed=1)[0].problem
    assert min(microseconds_per_step(problem) for _ in range(50)) <= MOST_MICROSECONDS
