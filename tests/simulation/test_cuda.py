"""The CUDA kernel runs the same step functions: here in Numba's simulator, on small cases."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden
import opportune as op
from cuda_cases import CASES

SIMULATOR = """
import sys
from numba import cuda as card
from opportune.simulation import cuda

fresh = card.device_array
def used(*shape, **options):  # memory of a card holds whatever was there before
    array = fresh(*shape, **options)
    array[...] = 77
    return array
card.device_array = used

cuda.THREADS = 4  # the simulator starts a Python thread for each
cuda._replicates_at_once = lambda *sizes: 2  # a card with room for two replicates at a time
for name in CASES:
    data = run(name, device="auto")
    assert data.attrs["device"] == "cuda"
    op.save(data, f"{sys.argv[1]}/{name}.nc")
"""


def test_kernel_in_simulator_equals_cpu(tmp_path: Path) -> None:
    """In Numba's CUDA simulator the kernels make the CPU's decisions, and the pinned ones, whatever is shared."""
    expected = golden.stored()["cuda"]
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
        pinned = golden.of_dataset(there)
        assert pinned.decisions == expected[name].decisions, name
        assert pinned.numbers == pytest.approx(expected[name].numbers, rel=1e-9), name
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
