"""A Numba that was not tried: compiled by Numba alone, with the same decisions."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opportune as op
from opportune.engine.versions import END, FIRST, tried

SCRIPT = """
import json, sys
import numba
if sys.argv[1] != "as it is":
    numba.__version__ = sys.argv[1]
import numpy as np
import opportune as op
from opportune.engine import compiled, versions
from opportune.live import steps
from opportune.simulation import cpu

worlds = op.synthetic_worlds(2, seed=1, contexts=4, actions=3)
small = dict(horizon=12, replicates=2, seed=1, progress=False)
known = op.simulate(worlds, [op.pd2_ucb(3), op.pace_ucb(3)], **small)
agent = op.Agent(worlds[0].problem, op.pace_ucb(3), horizon=10, seed=1, stream=1)
decided = []
for k in range(8):
    made = agent.decide(k % 4)
    agent.learn(0.1 * k)
    decided += [made.action, made.probability.hex(), made.gap.hex()]
values = [data[name].values.tolist() for data in (known,) for name in ("action", "gap", "price", "value")]
signatures = [len(driver.signatures) for driver in (cpu.run_alone, steps.propose_live, steps.learn_live)]
folder = str(compiled.cache_folder())
print(json.dumps({"linked": versions.LINKED, "linking": "opportune.engine.linking" in sys.modules,
                  "found": [values, decided], "compiled": signatures, "folder": folder}))
"""


def run(version: str) -> Any:
    """What an interpreter with that version of Numba finds."""
    paths = {"PYTHONPATH": str(Path(op.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, version],
        env={**os.environ, **paths}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_versions_that_were_tried() -> None:
    """The range that the package's requirements name, and nothing else."""
    assert [tried(version) for version in ("0.62.1", "0.63.0", "0.68.1", "0.69.0", "1.0.0", "0.63.0rc1")] == [
        False, True, True, False, False, True,
    ]  # fmt: skip
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'"numba>=(\d+)\.(\d+),<(\d+)\.(\d+)"', project)
    assert found is not None
    numbers = tuple(map(int, found.groups()))
    assert (numbers[:2], numbers[2:]) == (FIRST, END)


@pytest.mark.slow
def test_an_unknown_numba_compiles_to_the_same_decisions() -> None:
    """Without the linking that reaches into Numba's inside: other machine code, kept apart, with equal bits."""
    usual, other = run("as it is"), run("0.99.0")
    assert (usual["linked"], usual["linking"]) == (True, True), "the control: this Numba is a known one"
    assert (other["linked"], other["linking"]) == (False, False)
    assert other["found"] == usual["found"]
    assert min(other["compiled"]) > 0, "it is compiled, not run as Python"
    assert other["folder"] != usual["folder"]
