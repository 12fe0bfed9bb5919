"""A Numba that was not tried: the same decisions on plain arrays, and a warning."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opportune as op
from opportune.engine.versions import fits

SCRIPT = """
import json, sys
import numba
if sys.argv[1] != "as it is":
    numba.__version__ = sys.argv[1]
import opportune as op
from opportune.engine import versions as fitting

worlds = op.synthetic_worlds(2, seed=1, contexts=4, actions=3)
unknown = op.synthetic_worlds(1, seed=1, contexts=4, actions=3, known=False)
small = dict(horizon=12, replicates=2, seed=1, progress=False)
known = op.simulate(worlds, [op.pd2_ucb(3), op.pace_ucb(3)], **small)
searched = op.simulate(unknown, op.pd1_ucb(3, unknown="optimistic"), **small)
agent = op.Agent(worlds[0].problem, op.pace_ucb(3), horizon=10, seed=1, stream=1)
actions = [agent.decide(k % 4).action for k in range(5)]
found = [known["action"].values.tolist(), known["total_value"].values.tolist(), searched["action"].values.tolist()]
print(json.dumps([fitting.PLAIN, found, actions]))
"""


def run(version: str, **environment: str) -> tuple[Any, str]:
    """What an interpreter with that version of Numba finds, and its warnings."""
    paths = {"PYTHONPATH": str(Path(op.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, version],
        env={**os.environ, **paths, **environment}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


def test_versions_that_were_tried() -> None:
    """The range that the package's requirements name, and nothing else."""
    assert [fits(version) for version in ("0.62.1", "0.63.0", "0.68.1", "0.69.0", "1.0.0")] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "environment", "warned"),
    [("0.99.0", {}, True), ("as it is", {"OPPORTUNE_PLAIN_ARRAYS": "1"}, False)],
)
def test_plain_arrays_give_the_same_decisions(version: str, environment: dict[str, str], warned: bool) -> None:
    """Unknown versions are named in a warning; decisions are the compiled code's, values to rounding."""
    (compiled, expected, actions), quiet = run("as it is")
    (plain, found, others), said = run(version, **environment)
    assert (compiled, plain) == (False, True)
    assert (found[0], found[2], others) == (expected[0], expected[2], actions)
    assert found[1] == [[pytest.approx(runs, rel=1e-12) for runs in policy] for policy in expected[1]]
    assert "was not tried" not in quiet
    assert ("Numba 0.99.0 was not tried" in said) == warned
