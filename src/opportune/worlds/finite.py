"""`FiniteWorld`: consequences of the truth of a world with finite contexts, for any model of rewards."""

import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opportune.problems.finite import Problem
from opportune.problems.tables import part_means
from opportune.worlds.common import Happenings

Floats = NDArray[np.float64]


class FiniteWorld:
    """The agents' knowledge, the arrival of contexts, and the value of each action in each of them."""

    problem: Problem
    context_probs: Floats
    happenings: Happenings
    name: str

    @cached_property
    def outcomes(self) -> Floats:
        """The expected reward of action a in context k: [K, A]."""
        raise NotImplementedError

    @cached_property
    def blind_values(self) -> Floats:
        """The expected reward of action a given only the public part z: [Z, A]."""
        return self._averaged(self.problem.stratum_of, self.problem.strata)

    def _averaged(self, part_of: NDArray[np.int64], parts: int) -> Floats:
        """The expected reward of each action, averaged over the contexts of each part."""
        return np.asarray(part_means(self.outcomes[:, :, None], part_of, parts, self.context_probs)[:, :, 0])

    @cached_property
    def best(self) -> Floats:
        """The value of the best allowed action in each context: [K]."""
        return allowed_best(self.outcomes, self.problem.masks.whole)

    @cached_property
    def best_blind(self) -> Floats:
        """The value of the best blindly allowed action in each public stratum: [Z]."""
        return allowed_best(self.blind_values, self.problem.masks.public)

    @cached_property
    def gaps(self) -> Floats:
        """u* - v* for each context, the value of knowing its sensed part: [K]."""
        problem = self.problem
        sensed = self._averaged(problem.sense_of, problem.senses)
        best = allowed_best(sensed, problem.masks.sensed)[problem.sense_of]
        return np.asarray(best - self.best_blind[problem.stratum_of])

    @cached_property
    def largest_gap(self) -> float:
        """The largest gap of a possible context."""
        return float(self.gaps[self.context_probs > 0].max())

    @cached_property
    def slot_of(self) -> NDArray[np.int64]:
        """The slot of each step of the schedule's period: [L]."""
        return self.problem.slots()[0]

    @cached_property
    def cumulative(self) -> Floats:
        """Cumulative probabilities of the contexts in each slot of the schedule: [slots, K]."""
        slots = self.problem.slots()[1]
        return np.stack([np.cumsum(within(self.context_probs, members)) for members in slots])

    def informed_problem(self) -> Problem:
        """The problem with the largest true gap filled in, which scale `gap` needs."""
        return self._informed

    @cached_property
    def _informed(self) -> Problem:
        """`informed_problem`, built once, since a problem caches its derived arrays for every simulation."""
        if self.problem.largest_gap is not None or self.largest_gap <= 0.0:
            return self.problem
        informed = copy.copy(self.problem)
        informed.largest_gap = self.largest_gap
        return informed

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """The truth that metrics need, as {name: (axes, values)}."""
        bounds = self.problem.value_range or (np.nan, np.nan)
        return {
            **self.happenings.truth_table(),
            "value_range": (("bound",), np.array(bounds)),
            "true_gap": (("contexts",), self.gaps),
            "true_best": (("contexts",), self.best),
            "true_blind": (("contexts",), self.best_blind[self.problem.stratum_of]),
            "context_probs": (("contexts",), self.context_probs),
        }


def allowed_best(values: Floats, forbidden: NDArray[np.bool_]) -> Floats:
    """The largest value of each row among actions that are not forbidden there."""
    return np.asarray(np.where(forbidden, -np.inf, values).max(axis=1))


def within(probs: Floats, members: NDArray[np.bool_]) -> Floats:
    """Probabilities given that the context is one of these; uniform if none of them is possible."""
    if members.all():
        return probs
    kept = np.where(members, probs, 0.0)
    if kept.sum() <= 0.0:
        kept = members.astype(np.float64)
    return np.asarray(kept / kept.sum())
