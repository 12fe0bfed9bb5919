"""`python -m benchmarks.gpu [--quick]`: whether a GPU makes the CPU's decisions, with each edition of PACE; and speed.

Only policies without sharing between participants run on it. Exits with 1 if a decision differs.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

import opportune as op
from opportune.worlds import SimulatedWorld

HORIZON = 300
POLICIES = (
    op.pace_ucb(20, name="PACE, second edition"),
    op.pace_ucb(20, value="paper", name="PACE, pointwise"),
    op.pace_ucb(20, radius="uniform", value="paper", name="PACE, first edition"),
    op.pace_ucb(op.Budget(20, hard=True), randomise=0.1, name="PACE, randomised, hard"),
    op.pace_ucb(20, guard=0.5, name="PACE, guarded"),
    op.pd2_ucb(20, name="PD2 adaptive"),
    op.pd2_ucb(20, rotate=True, radius="pointwise", name="PD2, rotating, pointwise"),
)


class Compared(NamedTuple):
    """The number of decisions that differ, and the largest difference of numbers."""

    decisions: int
    differing: int
    largest: float


def worlds_for(count: int) -> dict[str, list[SimulatedWorld]]:
    """The paper's study with known and unknown p, with unanswered nudges, and with p that agents cannot know."""
    known = op.synthetic_worlds(count, seed=1)
    return {
        "p known": list(known),
        "p unknown": list(op.synthetic_worlds(count, seed=1, known=False)),
        "half answered": [world.replace(response_rate=0.5, open_rate=0.05) for world in known],
    }


def compare(cpu: xr.Dataset, gpu: xr.Dataset) -> Compared:
    """Compare decisions one by one, and probabilities and rewards as numbers."""
    differing = sum(int((cpu[name] != gpu[name]).sum()) for name in ("nudged", "action", "revealed"))
    largest = max(float(np.abs(cpu[name] - gpu[name]).max()) for name in ("probability", "total_reward", "spent"))
    return Compared(int(cpu["action"].size), differing, largest)


def rate(worlds: Sequence[SimulatedWorld], policy: op.Policy, *, device: str, replicates: int) -> float:
    """Steps per second of a warm call."""
    fastest = float("inf")
    for seed in range(3):  # the first call builds the kernel
        begun = time.perf_counter()
        op.simulate(
            worlds, policy, horizon=HORIZON, replicates=replicates, seed=seed, trace=False, device=device,
            progress=False,
        )  # fmt: skip
        fastest = min(fastest, time.perf_counter() - begun)
    return len(worlds) * replicates * HORIZON / fastest


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="PACE on a GPU beside the CPU.")
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    quick = parser.parse_args(arguments).quick
    wrong = 0
    for name, worlds in worlds_for(10 if quick else 50).items():
        settings = {"horizon": HORIZON, "replicates": 2 if quick else 20, "seed": 1, "progress": False}
        cpu = op.simulate(worlds, POLICIES, device="cpu", **settings)
        gpu = op.simulate(worlds, POLICIES, device="cuda", **settings)
        for policy in POLICIES:
            found = compare(cpu.sel(policy=policy.name), gpu.sel(policy=policy.name))
            wrong += found.differing
            print(f"{name:14} {policy.name:26} {found.differing} of {found.decisions} differ, {found.largest:.1e}")
    worlds = worlds_for(50)["p known"]
    for policy in POLICIES:
        rates = {d: rate(worlds, policy, device=d, replicates=20 if quick else 2000) for d in ("cpu", "cuda")}
        print(f"{policy.name:26} steps per second: cpu {rates['cpu']:,.0f}, cuda {rates['cuda']:,.0f}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
