"""How much memory a simulation is said to take, and takes."""

import json
import subprocess
import sys

import pytest

MEASURED = """
import json
from pathlib import Path

import opportune as op
from opportune import checks

def resident(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(kind))

worlds, policies = op.synthetic_worlds(2, seed=1), [op.pd2_ucb(10), op.naive_ucb(10)]
settings = {"horizon": 300, "seed": 1, "progress": False}
op.simulate(worlds, policies, replicates=2, **settings)
said = []
checks.memory = lambda what, needed, instead: said.append(needed)
Path("/proc/self/clear_refs").write_text("5")  # the most that was resident counts from now on
before = resident("VmRSS")
op.simulate(worlds, policies, replicates=4_000, **settings)
print(json.dumps([max(said), resident("VmHWM") - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is read from /proc")
def test_what_is_said_is_what_is_taken() -> None:
    """A simulation with a trace takes as much memory as is compared with what there is, copies included."""
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    said, taken = json.loads(done.stdout)
    assert 0.9 * said < taken < 1.05 * said
