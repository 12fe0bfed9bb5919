"""What would have been: a copy of a participant as it was before its latest proposal, to ask once more.

The copy has its own arrays, so nothing that is asked of it changes the participant. Every answer comes from the same
compiled functions that decide.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.engine.declared import PUBLIC_PART, SENSED_PART, Proposed
from opportune.live import steps
from opportune.live.agent import Agent
from opportune.live.point import Step
from opportune.problems.finite import Problem
from opportune.problems.settings import Located

Floats = NDArray[np.float64]
SUBSTITUTE = np.uint64(1)
"""The seed of draws that stand in for the participant's own, which nobody may foresee."""


class Asked(NamedTuple):
    """What the rule would have made of a moment."""

    alone: float  # with which probability it would have nudged, before any coin
    worth: float  # what it ranks moments by: the larger, the better


class WhatIf:
    """The participant as it was when its open proposal was made; `agent.explains` must have been on."""

    def __init__(self, agent: Agent, step: Step) -> None:
        assert agent.before is not None
        self.agent, self.step, self.problem = agent, step, agent.problem
        self._before, self._slot = agent.before
        numbers = agent.numbers
        self._arrays = {name: array.copy() for name, array in self._before.items()}
        self._scratch = np.zeros_like(numbers.scratch)
        self._handle = self._raw = numbers.handle_with(**self._arrays, scratch=self._scratch)
        if numbers.at.sizes.masked:  # what actions are worth is asked of those forbidden, too
            self._permitted, self._raw_scratch = self._without_masks(), np.zeros_like(numbers.scratch)
            self._raw = numbers.handle_with(**self._arrays, scratch=self._raw_scratch, constants=self._permitted)
        self._proposed = numbers.at.scalars("proposed", self._scratch)
        self._notes = numbers.at.scalars("revealer.notes", self._scratch)
        self._budget: Any = numbers.at.views("budget", self._arrays["budget"])
        self._finite = isinstance(self.problem, Problem)
        self.given: dict[str, Any] = step.given if isinstance(step.given, dict) else self._levels(step.given)
        budget: Any = numbers.at.views("budget", self._before["budget"])
        left = numbers.amount - float(budget.spent[0])
        self.left: float = min(left, numbers.amount - float(budget.nudges[0])) if numbers.hard else left
        """What of the budget was left before."""

    def _without_masks(self) -> Floats:
        """The problem in numbers, with nothing forbidden where contexts are finite; elsewhere the scratch has masks."""
        constants = self.agent.numbers.constants.copy()
        if isinstance(self.problem, Problem) and self.problem.allowed is not None:
            self.agent.numbers.at.unpadded("constants", constants)["forbidden"][...] = 0.0
        return constants

    def _levels(self, context: Any) -> dict[str, Any]:
        assert isinstance(self.problem, Problem)
        levels, seen = self.problem.levels(self.problem.index(context)), self.problem.visibility
        return {name: level for name, level in levels.items() if seen[name] != "reported"}

    def reset(self) -> None:
        """Forget what was asked before."""
        for name, array in self._before.items():
            self._arrays[name][...] = array

    def place(self, **changed: Any) -> Located:
        """Where the moment would be with other values of some variables."""
        return self.problem.locate({**self.given, **changed}, self.step.step)

    def means(self, place: Located, *, blind: bool = False) -> Floats:
        """What each action is worth on average in a moment, forbidden ones too: by its sensed or its public part."""
        found = np.zeros(len(self.problem.action_names))
        if not self._finite:
            steps.write_values(self._raw, place.values)
        steps.means_live(self._raw, self.step.step, place.stratum, place.sense, place.context, blind, found)
        return found

    def allowed(self, place: Located, *, blind: bool = False) -> NDArray[np.bool_]:
        """Which actions nothing forbids in a moment."""
        found: NDArray[np.bool_] = ~self.problem.forbids(place, PUBLIC_PART if blind else SENSED_PART)
        return found

    def ask(self, place: Located, *, fewer: int = 0) -> Asked:
        """What the rule would have made of another moment, or with fewer nudges left."""
        self.reset()
        self._budget.spent[0] += fewer
        self._budget.nudges[0] += fewer
        if not self._finite:
            steps.write_values(self._handle, place.values)
        where = self.step.step, place.stratum, place.sense, place.context
        steps.propose_live(self._handle, *self.agent.key, *where, *self._slot, False, 0.0)
        made, revealer = Proposed(*self._proposed.tolist()), self.agent.policy.revealer
        notes = revealer.declares.notes(*self._notes.tolist()) if self._notes.size else None
        worth = getattr(notes, "worth", made.gap if revealer.priced else made.probability)
        return Asked(revealer.before_coin(made.probability, notes), float(worth or 0.0))

    def advised(self, place: Located, draw: int, uncovered: Sequence[tuple[Step, Located]] = ()) -> str:
        """What would be advised after a reveal of this moment, by a draw that stands in for the participant's own.

        `uncovered` are earlier steps that the reveal would uncover, each with where it may turn out to have been: the
        model learns from them first.
        """
        self.reset()
        for step, there in uncovered:
            if not self._finite:
                steps.write_values(self._handle, there.values)
            where = step.step, there.stratum, there.sense, there.context
            steps.learn_live(self._handle, *where, step.action, True, step.reward)
        if not self._finite:
            steps.write_values(self._handle, place.values)
        where = self.step.step, place.stratum, place.sense, place.context
        action = int(steps.settle_live(self._handle, SUBSTITUTE, np.uint64(draw), *where, True))
        return self.problem.action_names[action]
