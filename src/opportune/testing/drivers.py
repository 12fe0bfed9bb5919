"""Rules for simulated runs with any driver: probabilities, budgets, purity, the CUDA kernel."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import xarray as xr

from opportune.engine.declared import PUBLIC_PART, WHOLE
from opportune.errors import InputError
from opportune.policy import Policy
from opportune.rehearsal.conditions import stream_of
from opportune.testing.cases import Case, must, simulated, simulated_context

TOLERANCE = 1e-9  # between the CPU and a GPU, which add in different orders


def check_record(who: str, case: Case, policies: Sequence[Policy], data: xr.Dataset) -> None:
    """Check the probabilities, budgets and actions of simulated runs."""
    check_allowed(who, case, data)
    actions = case.worlds[0].informed_problem().actions
    for i, policy in enumerate(policies):
        run = data.isel(policy=i)
        where = f"{case.name}, policy {policy.name!r}"
        o = run["probability"].values
        bad = o[~((o >= 0.0) & (o <= 1.0))]
        must(bad.size == 0, who, where, f"a probability is {bad[:1]}; expected numbers from 0 to 1")
        for name in ("action", "fresh_action", "stale_action"):
            a = run[name].values
            bad = a[(a < 0) | (a >= actions)]
            must(bad.size == 0, who, where, f"{name} is {bad[:1]}; expected one of the actions 0 to {actions - 1}")
        if policy.budget is None:
            continue
        amount, over = policy.budget.amount, ("world", "step") if policy.shared else ("step",)
        spent = float(run["probability"].sum(over).max())
        must(
            spent <= amount + 1e-9, who, where,
            f"probabilities of a run sum to {spent:g}; expected at most the budget, {amount:g}",
        )  # fmt: skip
        if policy.budget.hard:
            nudges = int(run["nudged"].sum(over).max())
            must(nudges <= amount, who, where, f"a run made {nudges} nudges; the budget is hard, expected {amount:g}")


def check_allowed(who: str, case: Case, data: xr.Dataset) -> None:
    """Check that no action was forbidden: a blind one by public variables, one at a reveal by the whole context."""
    for w, world in enumerate(case.worlds):
        problem = world.informed_problem()
        if len(problem.always_allowed) == problem.actions:
            continue
        for replicate in range(data.sizes["replicate"]):
            runs = data.isel(world=w, replicate=replicate)
            for t, step in enumerate(runs["step"].values.tolist()):
                index = int(runs["context"].values[0, t])  # the same for every policy
                context, reported = simulated_context(world, index, step, stream_of(w, replicate))
                place = problem.locate({**context, **reported}, step)
                by_view = problem.forbids(place, PUBLIC_PART), problem.forbids(place, WHOLE)
                for name in ("action", "fresh_action", "stale_action"):
                    informed = (
                        runs["revealed"].values[:, t] if name == "action" else np.zeros(runs.sizes["policy"], int)
                    )
                    for i, action in enumerate(runs[name].values[:, t]):
                        bad = by_view[int(informed[i])][action]
                        text = f"{name} of step {step} is {action}, which is forbidden there; expected an allowed one"
                        must(not bad, who, f"{case.name}, policy {str(data['policy'].values[i])!r}", text)


def check_purity(who: str, case: Case, policies: Sequence[Policy], data: xr.Dataset) -> None:
    """Check that a run depends only on its seed and stream, not on other runs or the number of threads."""
    again = simulated(case, policies)
    check_equal(who, case.name, data, again, "a repeated simulation gave other numbers")
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = [
            simulated(case, [policy], worlds=case.worlds[:1], replicates=1).drop_vars("policy") for policy in policies
        ]
    finally:
        numba.set_num_threads(before)
    part = data.isel(world=slice(1), replicate=slice(1)).drop_vars("policy")
    for i, (policy, one) in enumerate(zip(policies, alone, strict=True)):
        text = "a run alone, in one thread, gave other numbers than together with others"
        check_equal(who, f"{case.name}, policy {policy.name!r}", part.isel(policy=slice(i, i + 1)), one, text)


def check_equal(who: str, where: str, expected: xr.Dataset, got: xr.Dataset, otherwise: str, *,
                 within: float = 0.0) -> None:  # fmt: skip
    """Check that two simulations agree in every number, or nearly so if they ran on different hardware."""
    for name in expected.data_vars:
        a, b = expected[name].values, got[name].values
        allowed = within if a.dtype.kind == "f" else 0.0
        if not np.allclose(a, b, rtol=allowed, atol=allowed, equal_nan=True):
            must(False, who, where, f"{otherwise} ({name}); expected the same, bit for bit" + " nearly" * bool(within))


def check_simulator(who: str, runs: list[tuple[Case, list[Policy]]]) -> None:
    """Check that the CUDA kernel, in Numba's simulator, makes the CPU's decisions."""
    small = [(case._replace(horizon=9, worlds=case.worlds[:1]), policies[:2]) for case, policies in runs]
    given = [(case, policies, {"replicates": 1}) for case, policies in small]
    with _environment(NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1"):
        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                results = pool.submit(_run_in_simulator, given).result()
        except BrokenProcessPool:
            raise InputError(
                "the CUDA simulator's process did not start; expected 'if __name__ == \"__main__\":' around the check "
                "if it is in a script, or simulator=False"
            ) from None
    for (case, policies), there in zip(small, results, strict=True):
        here = simulated(case, policies, replicates=1)
        text = "the CUDA kernel (in Numba's simulator) decided differently from the CPU"
        check_equal(who, case.name, here, there, text, within=TOLERANCE)


def _run_in_simulator(given: list[tuple[Case, list[Policy], dict[str, Any]]]) -> list[xr.Dataset]:
    """Run simulations in the simulator's process."""
    from opportune.simulation import cuda  # noqa: PLC0415  (Numba uses its simulator in this process)

    cuda.THREADS = 16  # the simulator starts a Python thread for each GPU thread
    return [simulated(case, policies, device="cuda", **settings) for case, policies, settings in given]


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set these environment variables for processes started inside this context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
