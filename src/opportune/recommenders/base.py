"""The parts of a recommender: settings that people choose, and four compiled functions that the core calls.

A recommender is a frozen dataclass derived from `Recommender`. Its functions are attached as static methods:

- `freeze(p, own)`: prepare for blind actions at a reveal; `p.snapshot` contains the knowledge of that moment;
- `act_blind(p, own, moment, draws)`: the action from the snapshot and the public part of the context;
- `act_informed(p, own, moment, draws)`: the action at a reveal, from the full context (`moment.context` >= 0) or, if
  reported values are missing, its sensed part;
- `after_blind(p, own, moment, action)`: update the state after a blind action.

If actions are drawn (`chances`, or a `floor`), these functions return the intended, most probable action; those that
mix several write the probability of each to `p.scratch.chance` (algorithm.chances).

`own` contains the groups that the recommender declares: `own.settings`, `own.state`, `own.scratch`.
`algorithm.snapshot` has the features that each function may use. Outside the package, `opportune.register` adds a
recommender (docs/extending.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import EQUAL, MIXED, UNTOLD, Declares
from opportune.revealers.base import Use


def check_floor(floor: Any) -> float | None:
    """The least probability of every allowed action, or None."""
    return None if floor is None else checks.real("floor", floor, above=0.0, most=0.5)


@inner_function
def prepare_nothing(p, own):  # type: ignore[no-untyped-def]
    """`freeze` for recommenders that need only the snapshot."""


@inner_function
def remember_nothing(p, own, moment, action):  # type: ignore[no-untyped-def]
    """`after_blind` for recommenders that ignore blind actions."""


@dataclass(frozen=True, kw_only=True)
class Recommender:
    """What to recommend: the base class of all recommenders."""

    number: ClassVar[int]  # assigned by the registry
    kind: ClassVar[str]  # its name in study files
    chances: ClassVar[int] = UNTOLD  # how its actions arise: CERTAIN if they depend only on the state
    declares: ClassVar[Declares] = Declares()  # its own settings as numbers, state, ...
    freeze: ClassVar[Any] = staticmethod(prepare_nothing)
    act_blind: ClassVar[Any]
    act_informed: ClassVar[Any]
    after_blind: ClassVar[Any] = staticmethod(remember_nothing)

    @property
    def randomised(self) -> bool:
        """Whether the core draws its actions, with known probabilities."""
        return self.chances in {MIXED, EQUAL} or getattr(self, "floor", None) is not None

    def numbers(self, use: Use) -> Mapping[str, Any]:
        """The recommender's own settings as numbers, for the fields of `declares.settings`."""
        return {}

    def extents(self, use: Use) -> Mapping[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        return {}
