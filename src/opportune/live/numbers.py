"""A live participant's numbers: where they lie, which of them others share, and how compiled code reaches them."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.declared import ARRAYS, BESIDE_CHANCES, STATE, Range, ranges_of
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of
from opportune.errors import InputError
from opportune.live import steps
from opportune.policy import Policy, layout_for, rule_for

Floats = NDArray[np.float64]
SHAREABLE = ("model", "budget", "staff")
"""The arrays that participants may share, in the order in which `begin_live` asks for them."""


class Numbers:
    """The arrays of one participant (engine.declared), ready for the calls of live.steps.

    Args:
        problem: what is known beforehand.
        policy: who recommends, who reveals.
        horizon: number of decision points.
        participants: how many a shared budget is for.
        member: this participant's number among them.
        shared: arrays of the state that others share, by name.
        constants: the problem in numbers, where somebody has worked it out already.

    """

    def __init__(
        self, problem: Any, policy: Policy, *, horizon: int, participants: int = 1, member: int = 0,
        shared: Mapping[str, Floats] | None = None, constants: Floats | None = None,
    ) -> None:  # fmt: skip
        # Steps that no reveal has uncovered are kept with the agent's steps, not here.
        self.at = at = layout_for(policy, problem, horizon=horizon, participants=participants, held=0)
        shared = {} if shared is None else shared
        _check_room(at, shared)
        self.rule = rule_for(policy, problem, at, horizon=horizon, participants=participants, member=member)
        self.shared = tuple(shared)
        self.own = tuple(name for name in STATE if name not in shared)
        self.arrays = {name: shared[name] if name in shared else aligned(at.length(name)) for name in STATE}
        self.constants: Floats = problem.constants(at, horizon) if constants is None else constants
        self.scratch = aligned(at.length("scratch"))
        self._places = at.numbers()
        self._parts: dict[tuple[str, ...], dict[str, Floats]] = {}
        self._places_of: dict[tuple[str, ...], Places] = {}
        self.handle = self.handle_with()
        self.budget: Any = at.views("budget", self.arrays["budget"])
        self.proposed = at.scalars("proposed", self.scratch)
        """What the latest proposal found, in the order of engine.declared.Proposed."""
        self.chance = at.views("scratch", self.scratch).chance[
            : at.sizes.randomised * (at.sizes.actions + BESIDE_CHANCES)
        ]
        """How probable each action was when one was chosen last, and more: see algorithm.chances."""
        self.notes = at.scalars("revealer.notes", self.scratch)
        """What the revealer went by, in the order in which it declares them."""
        rule = at.views("rule", self.rule)
        self.amount, self.hard = float(rule.amount[0]), bool(rule.hard[0])
        each = at.unpadded("constants", self.constants)["regularisation"]
        self.regularisation: Floats = each[int(rule.radius[0])]
        """Lambda's diagonal at the start."""

    def drawn(self) -> tuple[float, ...] | None:
        """What was written of the action chosen last (algorithm.chances); None where nobody can tell."""
        chance = tuple(self.chance.tolist())
        return None if not chance or math.isnan(chance[0]) else chance

    def copies(self) -> dict[str, Floats]:
        """The state as it is now."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def begin(self) -> None:
        """Start the participant; what others share they have begun."""
        steps.begin_live(self.handle, *(name not in self.shared for name in SHAREABLE))

    def handle_with(self, **others: Floats) -> Any:
        """The handle that compiled code takes, with other arrays in place of some; who uses it must keep these."""
        nothing = np.zeros(0)  # a live participant has no world
        arrays = {"constants": self.constants, "rule": self.rule, **self.arrays, "scratch": self.scratch, **others}
        return handle_of(self._places, {**arrays, "world": nothing, "history": nothing})

    @property
    def budget_left(self) -> float:
        """What is left of the budget: expected, and with a hard one also counted."""
        left = self.amount - float(self.budget.spent[0])
        return min(left, self.amount - float(self.budget.nudges[0])) if self.hard else left

    def forgo(self, decisions: int) -> None:
        """The participant leaves: so many decisions will not be made, whatever was foreseen of them."""
        budget, contacts = self.budget, self.at.views("contacts", self.arrays["memory"])
        budget.foregone[0] += decisions
        budget.foreseen[0] -= contacts.foreseen[0]
        budget.open_left[0] -= contacts.open_left[0]
        contacts.foreseen[0] = contacts.open_left[0] = 0.0

    def parts(self, arrays: tuple[str, ...]) -> dict[str, Floats]:
        """The state in these arrays by name ("model.theta"), without padding, as views; they are made once."""
        if arrays not in self._parts:
            self._parts[arrays] = self._make_parts(arrays)
        return self._parts[arrays]

    def _make_parts(self, arrays: tuple[str, ...]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for array in arrays:
            for group in ARRAYS[array]:
                views = self.at.unpadded(group, self.arrays[array])
                found.update((f"{group}.{name}", part) for name, part in views.items() if part.size)
        return found

    def row(self, arrays: tuple[str, ...]) -> Floats:
        """The state in these arrays in one row, in the order of `parts`: a copy."""
        taken: Floats = np.concatenate([np.zeros(0), *(self.arrays[name] for name in arrays)])
        return taken[self.places(arrays).state]

    def sound(self, arrays: tuple[str, ...] = STATE) -> bool:
        """Whether these arrays of the state are finite and their variances positive, so that one can go on."""
        return is_sound(self.row(arrays), self.places(arrays))

    def places(self, arrays: tuple[str, ...]) -> "Places":
        """Where the numbers of a row are; worked out once."""
        if arrays not in self._places_of:
            self._places_of[arrays] = places_of(self.at, arrays)
        return self._places_of[arrays]


class Places(NamedTuple):
    """Where the numbers of a row are."""

    sizes: dict[str, int]  # of its parts, by name
    state: NDArray[np.int64]  # those that are no padding, in the arrays one after the other
    variances: NDArray[np.int64]  # the variances among these


def is_sound(row: Floats, places: Places) -> bool:
    """Whether the numbers of a row are finite and the variances among them positive."""
    return bool(np.isfinite(row).all() and (row[places.variances] > 0.0).all())


def places_of(at: Layout, arrays: tuple[str, ...]) -> Places:
    """Where the parts of these arrays are, and the variances of what was learned and of what is frozen."""
    sizes: dict[str, int] = {}
    state: list[Any] = [[]]
    variances: list[Any] = [[]]
    first = 0
    for array in arrays:
        numbered = first + np.arange(at.length(array), dtype=np.float64)
        for group in ARRAYS[array]:
            for name, part in at.unpadded(group, numbered).items():
                if name == "cov":
                    variances.append(sum(sizes.values()) + np.arange(len(part)) * (len(part) + 1))
                if part.size:
                    sizes[f"{group}.{name}"] = part.size
                    state.append(part.ravel())
        first += numbered.size
    return Places(sizes, *(np.concatenate(each).astype(np.int64) for each in (state, variances)))


@functools.lru_cache(maxsize=64)
def ranges_in(at: Layout, arrays: tuple[str, ...]) -> dict[str, Range]:
    """The declared ranges of the parts of a state, by the names that `Numbers.parts` gives them."""
    groups = [group for array in arrays for group in ARRAYS[array]]
    return {f"{group}.{name}": known for group in groups for name, known in ranges_of(at.declared(group)).items()}


def _check_room(at: Layout, shared: Mapping[str, Floats]) -> None:
    """Refuse a state that does not fit into memory, or not into what participants share."""
    checks.memory("the state of a participant", 8.0 * sum(at.lengths), "fewer features, contexts or participants")
    for name, array in shared.items():
        if array.size != at.length(name):
            raise InputError(
                "the participant's problem has other sizes than the cohort's; "
                f"expected the same, as the {name} is shared"
            )
