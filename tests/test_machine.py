"""The machine as it may be: few cores allowed, scripts as people write them, libraries that are not there."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from opportune import threads
from opportune.errors import InputError
from processes import STUDY

UNGUARDED = """
from pathlib import Path

import opportune as op
from opportune.experiments.runner import reproduce
from opportune.simulation.cluster import connect

print("begun")
with connect("local"):
    data = op.simulate(op.synthetic_worlds(2, seed=1), op.pd2_ucb(5), horizon=20, replicates=4, seed=1, progress=False)
print(data.sizes["replicate"])
print(reproduce(["table", "opens"], out=Path("out"), quick=True).name)
"""

ANY_PROCESSOR = """
import hashlib
import numpy as np
import opportune as op
from opportune.service.state.packing import pack

rng = np.random.default_rng(1)
problem = op.Problem(rng.normal(size=(23, 4, 7)), rng.dirichlet(np.ones(23)), noise_sd=0.3, theta_bound=2.0)
agent = op.Agent(problem, op.pd2_ucb(20), horizon=200, seed=1, stream=0)
for step in range(200):
    agent.decide(int(rng.integers(23)))
    agent.learn(float(rng.normal()))
print(hashlib.sha256(pack(agent)).hexdigest())
print(hashlib.sha256((rng.normal(size=(40, 301)) @ rng.normal(size=(301, 28))).tobytes()).hexdigest())
"""

ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from opportune.cli.main import main
main()
"""

WITHOUT_JOBLIB = """
import sys
sys.modules["joblib"] = None
from pathlib import Path
import opportune as op
from opportune.experiments import runner
from opportune.simulation import run
data = op.simulate(op.synthetic_worlds(2, seed=1), op.pd2_ucb(5), horizon=20, replicates=4, seed=1, progress=False)
op.load(op.save(data, "data.nc"))
from opportune.simulation.cluster import connect
try:
    with connect("local"):
        pass
except op.OpportuneError as error:
    print(error)
"""


def run(code: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, whose environment says nothing of threads unless told."""
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env={**inherited, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    """A plain script calls `reproduce` and starts a local cluster, whose processes do not run it again."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED, encoding="utf-8")
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["begun", "4", "report.html"]
    assert all((tmp_path / "out" / f"{name}.json").is_file() for name in ("table", "opens"))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
@pytest.mark.parametrize("command", [["simulate", "tiny.toml"], ["reproduce", "table", "--quick"]])
def test_more_jobs_than_may_be_used_are_refused(command: list[str], tmp_path: Path) -> None:
    """Under `taskset -c 0`, --jobs 2 ends with code 2 and one line that says how many there are."""
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")
    done = run(ONE_CORE, *command, "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 2
    cores = os.cpu_count() or 1
    why = "the cores of this machine" if cores == 1 else f"the cores that this process may use, of {cores}"
    name = "--jobs" if command[0] == "simulate" else "jobs"
    assert done.stderr == f"opportune: error: {name} is 2; expected a whole number from 1 to 1, {why}\n"
    assert not (tmp_path / "out").exists()


def test_the_number_of_threads_is_put_back() -> None:
    """While it lasts there are as many as asked for, afterwards as before, also after an error; None is all of them."""
    before = numba.get_num_threads()
    with threads.limited(1):
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before
    with pytest.raises(KeyError), threads.limited(1):
        raise KeyError
    with threads.limited(None):
        assert numba.get_num_threads() == before
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5, "2", 10**6])
def test_numbers_of_jobs_that_are_none(jobs: object) -> None:
    """Each is refused with what it is and how many there may be."""
    most: int = numba.config.NUMBA_NUM_THREADS
    expected = f"^jobs is {jobs!r}; expected a whole number from 1 to {most}, as NUMBA_NUM_THREADS says$"
    with pytest.raises(InputError, match=expected), threads.limited(jobs):
        pass


def test_numba_s_own_limit_is_respected(tmp_path: Path) -> None:
    """NUMBA_NUM_THREADS=1 is a limit for --jobs, and the message names it."""
    code = "from opportune import threads\nwith threads.limited(2): pass"
    done = run(code, cwd=tmp_path, NUMBA_NUM_THREADS="1")
    assert done.stderr.splitlines()[-1].endswith("expected a whole number from 1 to 1, as NUMBA_NUM_THREADS says")


def test_joblib_is_needed_for_clusters_only(tmp_path: Path) -> None:
    """Without it simulations and files work; who asks for a cluster is told which extra to install."""
    done = run(WITHOUT_JOBLIB, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = done.stdout.splitlines()
    assert line.startswith("joblib is not installed")
    assert line.endswith("expected it: pip install 'opportune[cluster]'")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of another kind")
def test_agents_have_the_same_bits_whatever_compiled_code_may_use(tmp_path: Path) -> None:
    """A processor that cannot multiply and add at once, as some virtual machines have, gives what others give."""
    kinds = {"x86-64": "without", "haswell": "with"}
    done = [
        run(ANY_PROCESSOR, cwd=tmp_path, NUMBA_CPU_NAME=kind, NUMBA_CPU_FEATURES="", OPENBLAS_CORETYPE="Haswell",
            OPPORTUNE_CACHE_DIR=str(tmp_path / kind))
        for kind in kinds
    ]  # fmt: skip
    assert [one.stderr for one in done] == ["", ""]
    assert len({one.stdout.split()[0] for one in done}) == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of another kind")
def test_agents_have_the_same_bits_whatever_multiplies_matrices(tmp_path: Path) -> None:
    """NumPy's library for matrices adds in another order on another processor; what agents learn does not."""
    kinds = ("Prescott", "Nehalem", "Sandybridge", "Haswell")  # whose instructions later ones have, too
    done = [run(ANY_PROCESSOR, cwd=tmp_path, OPENBLAS_CORETYPE=kind) for kind in kinds]
    assert [one.stderr for one in done] == [""] * len(kinds)
    states, products = ({one.stdout.split()[place] for one in done} for place in (0, 1))
    if len(products) == 1:
        pytest.skip("NumPy multiplies matrices by another library, which cannot be told the processor")
    assert len(states) == 1
