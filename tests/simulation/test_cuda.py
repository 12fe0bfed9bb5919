"""The CUDA kernel runs the same step functions: here in Numba's simulator, on small cases."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opportune as op

# What both processes run: the same cases, on the CPU here and in the simulator there.
CASES = """
import opportune as op
from opportune.worlds.distributions import Choice, LogNormal, Normal
from opportune.worlds.brushing.world import brushing_world

baselines = [
    op.Policy(revealer=op.Always()),
    op.Policy(revealer=op.Never(), recommender=op.FixedAction(action=1), name="fixed"),
    op.Policy(revealer=op.Periodic(every=3), recommender=op.RandomAction(), budget=3, name="periodic"),
]
three = [op.naive_ucb(5), op.pd1_ucb(5, scale="range"), op.pd2_ucb(5)]
small = op.synthetic_worlds(2, seed=1, contexts=4, actions=3)
unknown = op.synthetic_worlds(2, seed=1, contexts=4, actions=3, known=False)
one = unknown[:1] * 2  # two participants with one problem
rated = [w.replace(open_rate=0.3, response_rate=0.5) for w in small]
late = [w.replace(reward_delay=3, reward_rate=0.7, available_rate=0.8, open_rate=0.2) for w in unknown]
thompson = op.Policy(recommender=op.Thompson(), budget=5, name="Thompson")
pooled = op.Policy(budget=5, pooled=True, name="pooled")
both = op.Policy(budget=op.Budget(6, shared=True), pooled=True, name="both")

variables = {"tod": op.TimeOfDay(["am", "pm"]), "stress": (0, 1), "mood": (0, 1)}
scheduled = op.Problem.from_formula(
    "1 + tod + action * stress + mood", variables, 2, [0.1, 0.2, 0.05, 0.15, 0.1, 0.2, 0.1, 0.1],
    visibility={"mood": "reported"},
)
scheduled_world = op.LinearWorld(scheduled, theta=[0.1] * scheduled.d, open_rate=0.3)
late_reported = scheduled_world.replace(problem=scheduled.replace(context_probs=None), reward_delay=2)
continuous = op.Problem.from_formula(
    "1 + tod + x + log1p(y):action + action * mood",
    {"tod": op.TimeOfDay(["am", "pm"]), "x": op.Number(-1, 1), "y": op.Number(0, 9), "mood": ("low", "high")}, 2,
)
draws = {"x": Normal(0, 1), "y": LogNormal(2, 0.5), "mood": Choice({"low": 0.4, "high": 0.6})}
continuous_world = op.ContinuousWorld(continuous, theta=[0.2] * continuous.d, distributions=draws, open_rate=0.2)
reported = continuous_world.replace(problem=continuous.replace(visibility={"x": "reported"}), reward_delay=2)

CASES = {
    "traced": (op.synthetic_worlds(2, seed=1), three + baselines, 12, 2, True),
    "totals": (small, three, 12, 3, False),
    "unknown": (unknown, [op.pd2_ucb(5)], 12, 2, True),
    "hard": (rated, [op.pd2_ucb(op.Budget(5, hard=True))], 12, 2, True),
    "brushing": (brushing_world(users=2), [op.pd2_ucb(5, scale="range"), op.pd1_ucb(5)], 8, 1, True),
    "shared": (rated, [op.pd2_ucb(op.Budget(6, shared=True)), op.pd2_ucb(5, name="own")], 10, 3, True),
    "pooled": (one, [pooled, both], 10, 3, True),
    "late, lost and absent": (late, [op.pd2_ucb(5), thompson], 14, 2, True),
    "late and pooled": ([late[0]] * 2, [pooled], 10, 1, True),
    "Thompson": (small, [thompson, op.Policy(recommender=op.Thompson(inflation=2.0), budget=5, pooled=False, name="2")],
                 12, 2, True),
    "schedule, reported": ([scheduled_world], [op.pd2_ucb(5), thompson], 12, 2, True),
    "schedule, reported, late": ([late_reported], [op.pd2_ucb(5)], 12, 2, True),
    "continuous": ([continuous_world], [op.pd2_ucb(4), thompson], 10, 2, True),
    "continuous, reported, late": ([reported], [op.pd2_ucb(4)], 10, 2, True),
    "continuous, pooled": ([continuous_world] * 2, [pooled, both], 8, 1, False),
    "PACE": (rated, [op.pace_ucb(5), op.pace_ucb(op.Budget(6, shared=True), name="shared")], 10, 2, True),
}

def run(name, **settings):
    worlds, policies, horizon, replicates, trace = CASES[name]
    return op.simulate(
        worlds, policies, horizon=horizon, replicates=replicates, seed=3, trace=trace, progress=False, **settings
    )
"""

SIMULATOR = """
import sys
from opportune.simulation import cuda
cuda.THREADS = 4  # the simulator starts a Python thread for each
cuda._replicates_at_once = lambda *sizes: 2  # a card with room for two replicates at a time
for name in CASES:
    data = run(name, device="auto")
    assert data.attrs["device"] == "cuda"
    op.save(data, f"{sys.argv[1]}/{name}.nc")
"""


def test_kernel_in_simulator_equals_cpu(tmp_path: Path) -> None:
    """In Numba's CUDA simulator the kernels make the CPU's decisions, whatever the problem and whatever is shared."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CASES + SIMULATOR, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    space: dict[str, Any] = {}
    exec(CASES, space)
    for name in space["CASES"]:
        there, here = op.load(tmp_path / f"{name}.nc"), space["run"](name)
        for variable in here.data_vars:
            assert there[variable].dtype == here[variable].dtype, f"{name}: {variable}"
            exact = here[variable].dtype.kind in "ib"
            np.testing.assert_allclose(
                there[variable], here[variable], rtol=0 if exact else 1e-9, atol=0 if exact else 1e-9,
                err_msg=f"{name}: {variable}",
            )  # fmt: skip


def test_missing_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, device="cuda" says what is missing and "auto" runs on the CPU."""
    from opportune.simulation import cuda

    monkeypatch.setattr(cuda, "available", lambda: False)
    world = op.synthetic_worlds(1, seed=1)
    with pytest.raises(op.InputError, match=r"needs an NVIDIA GPU, its driver and the extra .*opportune\[gpu\]"):
        op.simulate(world, op.pd2_ucb(3), horizon=5, replicates=1, seed=1, device="cuda")
    data = op.simulate(world, op.pd2_ucb(3), horizon=5, replicates=1, seed=1, device="auto", progress=False)
    assert data.attrs["device"] == "cpu"


def test_what_a_gpu_cannot_run_is_refused() -> None:
    """The optimistic search is for the CPU: device="cuda" refuses it with the way out, "auto" takes the CPU."""
    worlds = op.synthetic_worlds(2, seed=1, known=False)
    policies = [op.pd2_ucb(3), op.pd2_ucb(3, unknown="optimistic", name="hopeful")]
    with pytest.raises(op.InputError, match=r"^policy 'hopeful' is optimistic; expected device='cpu' for it$"):
        op.simulate(worlds, policies, horizon=5, replicates=1, seed=1, device="cuda")
    data = op.simulate(worlds, policies, horizon=5, replicates=1, seed=1, device="auto", progress=False)
    assert data.attrs["device"] == "cpu"


WITHOUT_EXTRA = """
from importlib import util

from numba.cuda import extending

del extending.overload  # what Numba itself brings has none
find_spec = util.find_spec
util.find_spec = lambda name, *rest: None if name == "numba_cuda" else find_spec(name, *rest)
import opportune as op
from opportune.simulation import cuda
cuda.cuda.is_available = lambda: True  # a card is there

worlds = op.synthetic_worlds(1, seed=1)
print(op.simulate(worlds, op.naive_ucb(5), horizon=9, replicates=1, seed=1, progress=False, device="auto").device)
try:
    op.simulate(worlds, op.naive_ucb(5), horizon=9, replicates=1, seed=1, progress=False, device="cuda")
except op.InputError as error:
    print(error)
"""


def test_without_the_extra_auto_takes_the_cpu_and_cuda_says_what_is_missing() -> None:
    """A card without numba-cuda is no reason to fail, unless it was asked for."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    device, message = done.stdout.splitlines()
    assert device == "cpu"
    assert "opportune[gpu]" in message
