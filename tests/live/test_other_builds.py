"""Saved states between builds: the usual one, and the debug build, which checks every access to an array's part."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import opportune as op
from live_examples import mixed_problem

BUILD = """
import json, sys
import opportune as op
from opportune.engine.compiled import CHECK_BOUNDS

given = json.load(sys.stdin)
agent = op.Agent.from_dict(given["state"])
made = []
for i, (context, reported) in enumerate(given["moments"]):
    proposal = agent.propose(context, reported=reported)
    decision = agent.settle(i % 3 > 0 if proposal.nudged else None)
    agent.learn(0.1 * (i % 5))
    made.append([decision.action, decision.nudged, decision.probability.hex(), decision.gap.hex()])
print(json.dumps([CHECK_BOUNDS, made, agent.to_dict()]))
"""


def by_build(checked: bool, state: dict[str, Any], moments: list[Any]) -> list[Any]:
    """What a build, with every access checked or without, makes of a state and of the moments that follow."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD], input=json.dumps({"state": state, "moments": moments}),
        env={**os.environ, "OPPORTUNE_CHECK_BOUNDS": str(int(checked))}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    build, made, after = json.loads(done.stdout)
    assert build is checked, "the control: it is that build"
    return [made, after]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["PACE", "PD2"])
def test_a_state_of_one_build_goes_on_in_the_other(rule: str) -> None:
    """The debug build and the usual one read each other's states, and go on with equal bits."""
    policy = op.Policy(revealer=op.Pace(guard=0.5), recommender=op.Thompson(), budget=op.Budget(8))
    problem = mixed_problem(known=False)
    agent = op.Agent(problem, policy if rule == "PACE" else op.pd2_ucb(8), horizon=40, seed=1, stream=3)
    moments = [({"hour": ("am", "pm")[i % 2], "place": i // 2 % 2}, {"mood": "abc"[i % 3]}) for i in range(24)]
    first, second = moments[:12], moments[12:]
    early, middle = by_build(True, agent.to_dict(), first)
    assert by_build(False, agent.to_dict(), first) == [early, middle]
    assert by_build(True, middle, second) == by_build(False, middle, second)
    assert any(nudged for _, nudged, *_ in early), "the control: something was revealed and learned"
