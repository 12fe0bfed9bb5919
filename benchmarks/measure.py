"""The measurements: one function each, which takes sizes and returns plain dicts."""

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import joblib
import numba
import numpy as np
from numba import njit, prange

from benchmarks import batched, jaxed, plain, straightforward
from benchmarks.study import BUDGET, Floats, Ints, Study, make_study, simulated
from benchmarks.timing import best_of, in_turn, installed
from opportune.live.agent import Agent
from opportune.policy import pd2_ucb
from opportune.problems.finite import Problem
from opportune.revealers.learning_primal_dual import paper_tolerance
from opportune.simulation import simulate
from opportune.simulation.cluster import connect
from opportune.worlds.linear import LinearWorld, synthetic_worlds

Result = dict[str, Any]

OURS = "opportune"
STRAIGHTFORWARD = "straightforward loop"
BATCHED = "batched NumPy"
PLAIN = "plain NumPy"
JAX = "JAX"
SCALES = ("range", "adaptive")


@dataclass(frozen=True)
class Sizes:
    """The amount of work. The defaults are those of the full benchmark."""

    worlds: int = 50
    replicates: int = 50
    horizon: int = 300
    repetitions: int = 5
    plain_runs: int = 60  # runs of a slow opponent; the rest is extrapolated
    batched_runs: int = 1_500
    runs: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)
    shape_runs: int = 1_000
    dimensions: tuple[int, ...] = (5, 9, 20, 50)
    actions: tuple[int, ...] = (2, 5, 10, 20)
    contexts: tuple[int, ...] = (2, 10, 50, 200)
    growth_runs: int = 4_000
    decisions: int = 5_000  # live, in each repetition
    starts: int = 5
    sweeps: int = 200_000  # over an array of LANES numbers on each core
    product: int = 1_500  # rows of the matrices multiplied
    sweep_runs: int = 40_000  # of the sweep that threads, processes and clusters all run
    engines: tuple[str, ...] = ("processes", "Dask workers", "Ray workers")


FULL = Sizes()
QUICK = Sizes(
    replicates=5, repetitions=3, plain_runs=30, batched_runs=750, runs=(1, 10, 100, 1_000), shape_runs=300,
    growth_runs=1_000, decisions=1_000, starts=5, sweeps=50_000, product=800, sweep_runs=10_000,
)  # fmt: skip


# 1. The synthetic study


def measure_study(sizes: Sizes) -> Result:
    """Time the synthetic study with all contestants, on both scales."""
    size = {"worlds": sizes.worlds, "replicates": sizes.replicates, "horizon": sizes.horizon}
    return {scale: race(make_study(**size, adaptive=scale == "adaptive"), sizes) for scale in SCALES}


def race(study: Study, sizes: Sizes) -> Result:
    """Seconds of each contestant for the whole study, draws included; partial runs are extrapolated linearly."""
    everything = np.arange(study.size)
    cores = joblib.effective_n_jobs(-1)
    some, few = study.sample(sizes.batched_runs), study.sample(sizes.plain_runs)
    contestants: dict[str, tuple[Ints, Callable[[], Floats]]] = {
        OURS: (everything, partial(simulated, study)),
        STRAIGHTFORWARD: (everything, partial(straightforward.total_values, study)),
        BATCHED: (some, partial(batched.total_values, study, study.runs.pick(some), cores)),
        PLAIN: (few, partial(plain.total_values, study, study.runs.pick(few), cores)),
    }
    if jaxed.AVAILABLE:
        contestants[JAX] = everything, partial(jaxed.total_values, study, study.runs)
    totals = {name: answer() for name, (_, answer) in contestants.items()}  # also compiles everything
    taken = in_turn({name: answer for name, (_, answer) in contestants.items()}, sizes.repetitions)
    seconds = {name: min(taken[name]) * study.size / share.size for name, (share, _) in contestants.items()}
    return {
        name: {
            "seconds": seconds[name],
            "times_ours": seconds[name] / seconds[OURS],
            "steps_per_second": study.size * study.horizon / seconds[name],
            "runs": study.size,
            "measured_runs": int(share.size),
            "measured_seconds": taken[name],
            "agreeing_runs": int(np.isclose(totals[name], totals[OURS][share], rtol=1e-9, atol=0.0).sum()),
        }
        for name, (share, _) in contestants.items()
    }


# 2. Speed by size


def measure_speed(sizes: Sizes) -> Result:
    """Steps per second of PD2 by number of runs, d, A and K: {what: {series: {size: steps per second}}}."""
    study_worlds = synthetic_worlds(10, seed=1)
    return {
        "runs": {
            scale: speeds(
                {n: (study_worlds if n >= 10 else study_worlds[:1], n) for n in sizes.runs}, sizes, scale=scale
            )
            for scale in SCALES
        },
        "d": {
            "dense features, A = 5": speeds(
                {d: ([random_world(d=d)], sizes.shape_runs) for d in sizes.dimensions}, sizes
            ),
            "the study's features, A = (d + 1) / 2": speeds(
                {
                    d: (synthetic_worlds(1, seed=1, actions=(d + 1) // 2), sizes.shape_runs)
                    for d in (n - 1 + n % 2 for n in sizes.dimensions)
                },
                sizes,
            ),
        },
        "A": {
            "dense features, d = 9": speeds(
                {a: ([random_world(actions=a)], sizes.shape_runs) for a in sizes.actions}, sizes
            )
        },
        "K": {
            "dense features, d = 9": speeds(
                {k: ([random_world(contexts=k)], sizes.shape_runs) for k in sizes.contexts}, sizes
            )
        },
    }


def speeds(
    cases: dict[int, tuple[list[LinearWorld], int]], sizes: Sizes, *, scale: str = "adaptive"
) -> dict[str, float]:
    """Steps per second of each case (worlds, runs)."""
    work = {
        size: partial(run_pd2, worlds, runs=runs, horizon=sizes.horizon, scale=scale)
        for size, (worlds, runs) in cases.items()
    }
    seconds = best_of(work, sizes.repetitions)
    return {str(size): runs * sizes.horizon / seconds[size] for size, (_, runs) in cases.items()}


def run_pd2(worlds: list[LinearWorld], *, runs: int, horizon: int, scale: str = "adaptive", trace: bool = False) -> Any:
    """Run PD2 this many times, spread over the worlds."""
    return simulate(
        worlds, pd2_ucb(min(BUDGET, horizon), scale=scale), horizon=horizon, replicates=runs // len(worlds), seed=1,
        trace=trace, progress=False,
    )  # fmt: skip


def random_world(*, d: int = 9, actions: int = 5, contexts: int = 10) -> LinearWorld:
    """A world whose features are all different and nonzero."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(contexts, actions, d)) / np.sqrt(d)
    theta = rng.normal(size=d)
    best = (features @ theta).max(axis=1)
    problem = Problem(
        features, rng.dirichlet(np.ones(contexts)), noise_sd=0.1, theta_bound=float(np.linalg.norm(theta)),
        value_range=(float(best.min()), float(best.max())),
    )  # fmt: skip
    return LinearWorld(problem, theta=theta)


# 3. Growth of time and memory


def measure_growth(sizes: Sizes) -> Result:
    """Time for one, two and four times the runs and the horizon; memory for one and ten times the horizon."""
    worlds = synthetic_worlds(10, seed=1)
    n, T = sizes.growth_runs, sizes.horizon
    work = {("runs", n * k): partial(run_pd2, worlds, runs=n * k, horizon=T) for k in (1, 2, 4)}
    work |= {("horizon", T * k): partial(run_pd2, worlds, runs=n, horizon=T * k) for k in (1, 2, 4)}
    seconds = best_of(work, sizes.repetitions)
    return {
        **{
            what: {str(size): taken for (kind, size), taken in seconds.items() if kind == what}
            for what in ("runs", "horizon")
        },
        "memory": {
            "without trace": {str(T * k): memory(worlds, T * k, trace=False) for k in (1, 10)},
            "with trace": {str(T * k): memory(worlds, T * k, trace=True) for k in (1, 10)},
        },
    }


def memory(worlds: list[LinearWorld], horizon: int, *, trace: bool) -> dict[str, int]:
    """Bytes of 100 runs: the peak that Python allocates during the runs, and the result's."""
    run = partial(run_pd2, worlds, runs=100, horizon=horizon, trace=trace)
    run()  # so that modules and caches loaded at the first call do not count
    tracemalloc.start()
    data = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"peak": peak, "result": int(data.nbytes)}


# 4. Live


def measure_agent(sizes: Sizes) -> Result:
    """Microseconds of live decide and learn, compared with plain NumPy."""
    world = synthetic_worlds(1, seed=1)[0]
    rng = np.random.default_rng(1)
    n = sizes.decisions
    moments = list(
        zip(
            rng.choice(world.problem.contexts, size=n, p=world.context_probs).tolist(),
            rng.normal(scale=world.noise_sd, size=n).tolist(),
            rng.random(n).tolist(),
            strict=True,
        )
    )
    values = world.values.tolist()
    number_of = {name: number for number, name in enumerate(world.problem.action_names)}
    agent = Agent(world.problem, pd2_ucb(BUDGET), horizon=n * (sizes.repetitions + 1), seed=1, stream=0)
    study = Study([world], 1, n, adaptive=True)
    tolerance = paper_tolerance(world.problem.least_distance, BUDGET)
    other = plain.PlainAgent(plain.task_of(study, 0, np.nan, tolerance))

    def ours() -> None:
        for context, noise, _ in moments:
            decision = agent.decide(context)
            agent.learn(values[context][number_of[decision.action]] + noise)

    def theirs() -> None:
        for context, noise, coin in moments:
            action, _ = other.decide(context, coin)
            other.learn(values[context][action] + noise)

    seconds = best_of({OURS: ours, PLAIN: theirs}, sizes.repetitions)
    return {name: taken / n * 1e6 for name, taken in seconds.items()}


# 5. Starting

IMPORT = """
import time
began = time.perf_counter()
import opportune
print(time.perf_counter() - began)
"""
IMPORT_ALL = """
import time
began = time.perf_counter()
from opportune import *
print(time.perf_counter() - began)
"""
FIRST_RESULT = f"""
import time
import opportune as op
world = op.synthetic_worlds(1, seed=1)[0]
op.simulate(world, op.pd2_ucb({BUDGET}), horizon=300, replicates=10, seed=1, trace=False, progress=False)
print(time.time() - {{began}})
"""


def measure_start(sizes: Sizes) -> Result:
    """Seconds in fresh interpreters: for the import, for loading every public name, and to a first result."""
    scripts = {"import opportune": IMPORT, "every public name": IMPORT_ALL, "first result": FIRST_RESULT}
    taken: dict[str, list[float]] = {name: [] for name in scripts}
    for script in scripts.values():
        fresh(script)  # fills the caches of compiled code and files
    for _ in range(sizes.starts):
        for name, script in scripts.items():
            taken[name].append(fresh(script))
    return {name: min(seconds) for name, seconds in taken.items()}


def fresh(script: str) -> float:
    """The output of a script in a new interpreter; {began} in it is replaced by the time of its start."""
    command = [sys.executable, "-c", script.replace("{began}", repr(time.time()))]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


# 6. Threads, processes and clusters


def measure_workers(sizes: Sizes) -> Result:
    """Seconds of one sweep with one thread, with all threads, and with as many processes of each engine, all local."""
    worlds = synthetic_worlds(10, seed=1)
    cores = numba.get_num_threads()
    places: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "1 thread": partial(joblib.parallel_config, "threading", n_jobs=1),
        f"{cores} threads": nullcontext,
        **{f"{cores} {name}": ENGINES[name] for name in sizes.engines if installed(LIBRARIES.get(name, "joblib"))},
    }
    work = partial(run_pd2, worlds, runs=sizes.sweep_runs, horizon=sizes.horizon)
    seconds = {}
    for name, place in places.items():
        with place():
            seconds[name] = best_of({name: work}, sizes.repetitions)[name]
    return {"steps": sizes.sweep_runs * sizes.horizon, "seconds": seconds}


@contextmanager
def dask_here() -> Iterator[None]:
    """A Dask cluster on this machine with one process per core."""
    distributed = import_module("distributed")
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=numba.get_num_threads(), **settings) as cluster,
        connect(cluster.scheduler_address.replace("tcp", "dask")),
    ):
        yield


LIBRARIES = {"Dask workers": "distributed", "Ray workers": "ray"}
ENGINES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "processes": partial(connect, "local"),
    "Dask workers": dask_here,
    "Ray workers": partial(connect, "ray://local"),
}


# 7. The arithmetic limit

LANES = 1_024  # numbers in an array that fits into the first-level cache


def measure_arithmetic(sizes: Sizes) -> Result:
    """Floating point operations per second of PD2 in the study's worlds, and the most that this machine can do."""
    worlds = synthetic_worlds(10, seed=1)
    problem = worlds[0].problem
    n, threads = sizes.growth_runs, numba.get_num_threads()
    matrix = np.random.default_rng(1).random((sizes.product, sizes.product))
    seconds = best_of(
        {
            **{scale: partial(run_pd2, worlds, runs=n, horizon=sizes.horizon, scale=scale) for scale in SCALES},
            "loop": partial(multiply_add, threads, sizes.sweeps, LANES),
            "product": partial(np.matmul, matrix, matrix),
        },
        sizes.repetitions,
    )
    nonzeros = float((problem.features != 0.0).sum(axis=2).mean())
    per_step = {
        scale: operations(problem.d, problem.actions, problem.contexts, nonzeros, adaptive=scale == "adaptive")
        for scale in SCALES
    }
    done = {scale: per_step[scale] * n * sizes.horizon for scale in SCALES}
    done |= {"loop": 2.0 * LANES * sizes.sweeps * threads, "product": 2.0 * sizes.product**3}
    return {
        "operations_per_step": per_step,
        "gflops": {name: done[name] / seconds[name] / 1e9 for name in done},
    }


def operations(d: int, actions: int, contexts: int, nonzeros: float, *, adaptive: bool) -> float:
    """Additions, multiplications, divisions and square roots of a step of LinUCB with a table of scores.

    With R = (K + 1) A rows in the table and x of z nonzeros:
    w = V^-1 x: 2 z d; x'w, <x, theta>: 4 z; theta: 2 d; V^-1: d + 2 d^2; x_j'w: 2 d R; means and widths: 5 R;
    scores, three operations each: 2 A, and K A more if the scale is adaptive. Draws, the rule and scalars are
    left out.
    """
    rows = (contexts + 1) * actions
    learn = nonzeros * (2 * d + 4) + 3 * d + 2 * d * d + rows * (2 * d + 5)
    return learn + 3 * (2 * actions + (contexts * actions if adaptive else 0))


@njit(parallel=True, cache=True)
def multiply_add(threads, sweeps, size):  # type: ignore[no-untyped-def]
    """Independent multiply-adds on every core, compiled like the package: y <- 0.5 y + x over arrays in cache."""
    total = np.empty(threads)
    for thread in prange(threads):
        x = np.full(size, 1.0 + thread)
        y = np.zeros(size)
        for _ in range(sweeps):
            for j in range(size):
                y[j] = 0.5 * y[j] + x[j]
        total[thread] = y[0]
    return total
