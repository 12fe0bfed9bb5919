"""The synthetic study as plain arrays, which every contestant gets, and the package's own result."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from opportune.algorithm.rng import ARRIVAL, COIN, NOISE, categorical, draw, normal
from opportune.policy import Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.revealers.learning_primal_dual import paper_tolerance
from opportune.simulation import simulate
from opportune.worlds.linear import LinearWorld, synthetic_worlds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUDGET = 10.0
TIE = 1e-12  # values this close are tied, and the lowest action wins
LEAST_SCALE = 1e-12


class Runs(NamedTuple):
    """Some runs, one entry each. A run with a rate is naive, any other PD2; PD1 is PD2 with infinite tolerance."""

    world: Ints
    stream: NDArray[np.uint64]
    rate: Floats  # B/T, or nan
    tolerance: Floats  # beta_0

    def pick(self, which: Ints) -> "Runs":
        """A selection of these runs."""
        return Runs(self.world[which], self.stream[which], self.rate[which], self.tolerance[which])


class Draws(NamedTuple):
    """All random numbers of runs [N] over steps [T]."""

    context: Ints
    noise: Floats  # standard normal
    coin: Floats

    def pick(self, which: Ints) -> "Draws":
        """The draws of a selection of runs."""
        return Draws(self.context[which], self.noise[which], self.coin[which])


@dataclass(frozen=True)
class Study:
    """Naive, PD1 and PD2 at B = 10 in synthetic worlds with known p; results have axes policy, world, run."""

    worlds: list[LinearWorld]
    replicates: int
    horizon: int
    adaptive: bool
    seed: int = 1

    @property
    def scale(self) -> str:
        """The name of the scale."""
        return "adaptive" if self.adaptive else "range"

    @property
    def policies(self) -> list[Policy]:
        """The contestants' common task, as policies of the package."""
        return [naive_ucb(BUDGET), pd1_ucb(BUDGET, scale=self.scale), pd2_ucb(BUDGET, scale=self.scale)]

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.policies) * len(self.worlds) * self.replicates

    @cached_property
    def phi(self) -> Floats:
        """phi[K, A, d], the same in every world."""
        return self.worlds[0].problem.features

    @cached_property
    def bar(self) -> Floats:
        """bar[W, A, d]: each world's blind features."""
        return np.tensordot(self.probs, self.phi, axes=1)

    @cached_property
    def probs(self) -> Floats:
        """Context probabilities [W, K]."""
        return np.stack([w.context_probs for w in self.worlds])

    @cached_property
    def theta(self) -> Floats:
        """The true parameters [W, d]."""
        return np.stack([w.theta for w in self.worlds])

    @cached_property
    def ranges(self) -> Floats:
        """u_max - u_min of each world, the divisor of scale `range`."""
        return np.array([high - low for low, high in (w.problem.value_range or (0, 1) for w in self.worlds)])

    @cached_property
    def streams(self) -> NDArray[np.uint64]:
        """The stream of every run [W, R], as `simulate` numbers them."""
        world = np.arange(len(self.worlds), dtype=np.uint64) << np.uint64(32)
        return world[:, None] | np.arange(self.replicates, dtype=np.uint64)

    @cached_property
    def rules(self) -> list[tuple[float, float]]:
        """(rate, tolerance) of each policy."""
        tolerance = paper_tolerance(self.worlds[0].problem.least_distance, BUDGET)
        return [(BUDGET / self.horizon, np.inf), (np.nan, np.inf), (np.nan, tolerance)]

    @cached_property
    def runs(self) -> Runs:
        """Every run, in the order policy, world, replicate."""
        policies, worlds = len(self.rules), len(self.worlds)
        each = worlds * self.replicates
        rate, tolerance = (np.repeat(column, each) for column in zip(*self.rules, strict=True))
        world = np.repeat(np.arange(worlds), self.replicates)
        return Runs(np.tile(world, policies), np.tile(self.streams.ravel(), policies), rate, tolerance)

    def sample(self, n: int) -> Ints:
        """The indices of about n runs, spread evenly over policies, worlds and replicates."""
        return np.unique(np.linspace(0, self.size - 1, min(n, self.size)).astype(np.int64))

    def draws(self, runs: Runs) -> Draws:
        """The draws of some runs, computed on all cores."""
        return Draws(
            *draw_runs(np.uint64(self.seed), runs.stream, np.cumsum(self.probs, axis=1)[runs.world], self.horizon)
        )


def make_study(*, worlds: int, replicates: int, horizon: int = 300, adaptive: bool) -> Study:
    """The study with these sizes."""
    return Study(synthetic_worlds(worlds, seed=1), replicates, horizon, adaptive)


def simulated(study: Study) -> Floats:
    """The package's own result: the total paper value of every run."""
    data = simulate(
        study.worlds, study.policies, horizon=study.horizon, replicates=study.replicates, seed=study.seed,
        trace=False, progress=False,
    )  # fmt: skip
    return np.asarray(data["total_value"].values).ravel()


@njit(parallel=True, cache=True)
def draw_runs(seed, streams, cumulative, horizon):  # type: ignore[no-untyped-def]
    """Contexts, standard normal noise and coins of every run: [N, T] each."""
    runs = streams.shape[0]
    context = np.empty((runs, horizon), dtype=np.int64)
    noise = np.empty((runs, horizon))
    coin = np.empty((runs, horizon))
    for i in prange(runs):
        for t in range(horizon):
            context[i, t] = categorical(draw(seed, streams[i], t + 1, ARRIVAL), cumulative[i])
            noise[i, t] = normal(draw(seed, streams[i], t + 1, NOISE))
            coin[i, t] = draw(seed, streams[i], t + 1, COIN)
    return context, noise, coin
