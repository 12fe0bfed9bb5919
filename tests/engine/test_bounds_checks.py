"""The debug build: every access to an array's part is checked. Each in a process of its own, as it is compiled so."""

import os
import subprocess
import sys

import pytest

BEYOND = """
import opportune as op
from opportune.engine.compiled import driver_function
from opportune.engine.views import participant_at


@driver_function
def read(handle, i):
    return participant_at(handle).model.theta[i]


@driver_function
def write(handle, i):
    participant_at(handle).model.theta[i] = 0.0


agent = op.Agent(op.synthetic_worlds(1, seed=1)[0].problem, op.pace_ucb(3), horizon=9, seed=1, stream=1)
inside, beyond = 0, agent.numbers.at.sizes.stride
for access, place in ((read, beyond), (read, -1), (write, beyond)):
    access(agent.numbers.handle, inside)
    try:
        access(agent.numbers.handle, place)
        print("silence")
    except IndexError as error:
        print(error)
"""


@pytest.mark.parametrize("checked", [True, False])
def test_the_debug_build_names_what_a_usual_one_passes_over(checked: bool) -> None:
    """One number beyond theta lies another part of the model: the debug build refuses to go there."""
    environment = {**os.environ, "OPPORTUNE_CHECK_BOUNDS": "1" if checked else "0"}
    done = subprocess.run(
        [sys.executable, "-c", BEYOND], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = "an access outside an array's part" if checked else "silence"
    assert done.stdout.splitlines() == [said] * 3
