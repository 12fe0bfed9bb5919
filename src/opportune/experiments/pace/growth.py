"""The growth of losses with the horizon, at a budget of a tenth of it."""

import numpy as np
import xarray as xr

from opportune.algorithm.rng import ARRIVAL, categorical, draw
from opportune.analysis.clairvoyant import auxiliary, clairvoyant, pace_ranks, paced_auxiliary
from opportune.analysis.metrics import realised_regret, regret
from opportune.engine.compiled import driver_function
from opportune.experiments.base import Config
from opportune.experiments.pace.policies import ADAPTIVE, PACE, REVEALED, make
from opportune.experiments.studies import study_worlds
from opportune.simulation.pack import streams_of
from opportune.simulation.run import simulate

SHARE = 0.1
PRICE = "primal-dual"
"""PD1 and PD2, which are the same rule if theta is known."""


def run_growth(config: Config, horizon: int, seed: int) -> xr.Dataset:
    """Information reveal loss with theta known, and regret with theta learned, for each instance."""
    return xr.merge([_known(config, horizon, seed), _learned(config, horizon, seed)])


def _known(config: Config, horizon: int, seed: int) -> xr.Dataset:
    """CLV - AUX of PACE and of the primal-dual rule, mean over sequences; needs only arrivals, no rewards."""
    budget = SHARE * horizon
    worlds = study_worlds(config["instances"], seed)
    streams = streams_of(0, config["sequences"], len(worlds))
    contexts = np.empty((config["sequences"], horizon), dtype=np.int64)
    lost = np.empty((2, len(worlds)))
    for i, world in enumerate(worlds):
        _arrivals(np.uint64(seed), streams[:, i].copy(), np.cumsum(world.context_probs), contexts)
        gaps = world.gaps[contexts]
        best = (clairvoyant(gaps, budget) * gaps).sum(axis=1)
        rules = (
            paced_auxiliary(pace_ranks(world.gaps, world.context_probs)[contexts], budget),
            auxiliary(gaps / world.largest_gap, budget),
        )
        lost[:, i] = [(best - (o * gaps).sum(axis=1)).mean() for o in rules]
    return xr.Dataset({"lost": (("rule", "world"), lost)}, coords={"rule": [PACE, PRICE]})


def _learned(config: Config, horizon: int, seed: int) -> xr.Dataset:
    """Regret at the end; for the policy with all steps revealed, realised regret, which needs no budget."""
    policies = [make(name, SHARE * horizon) for name in (PACE, ADAPTIVE, REVEALED)]
    data = simulate(
        study_worlds(config["growth_instances"], seed), policies, horizon=horizon,
        replicates=config["growth_replications"], seed=seed, trace=False, progress=False,
    )  # fmt: skip
    final = xr.Dataset({"final_regret": regret(data), "final_realised": realised_regret(data)})
    return final.mean("replicate").rename(world="learner").drop_vars(["budget", "world_name"], errors="ignore")


@driver_function
def _arrivals(seed, streams, cumulative, out):  # type: ignore[no-untyped-def]
    """The contexts that arrive in each run, as drawn by a simulation."""
    for r in range(streams.shape[0]):
        for t in range(out.shape[1]):
            out[r, t] = categorical(draw(seed, streams[r], t + 1, ARRIVAL), cumulative)
