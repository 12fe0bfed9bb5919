"""What a recommender consists of: settings that people choose, and four compiled functions that the core calls.

A recommender is a frozen dataclass below `Recommender`. Its functions are attached as static methods:

- `freeze(p, own)`: prepare, at a reveal, what acting blindly needs; `p.snapshot` holds the knowledge of that moment;
- `act_blind(p, own, moment, draws)`: the action by what was frozen and the public part of the context;
- `act_informed(p, own, moment, draws)`: the action at a reveal, by the full context (`moment.context` >= 0) or, where
  reported values are missing, its sensed part;
- `after_blind(p, own, moment, action)`: what to remember of an action taken blindly.

Where actions are drawn (`chances`, or a `floor`) they say which action is intended, the most probable one; those that
mix several write how probable each is to `p.scratch.chance` (algorithm.chances).

`own` has what the recommender declares for itself: `own.settings`, `own.state`, `own.scratch`. `algorithm.snapshot` has
the features that each may go by. From outside the package, `opportune.register` adds one (docs/extending.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import EQUAL, MIXED, UNTOLD, Declares
from opportune.revealers.base import Use


def check_floor(floor: Any) -> float | None:
    """The least probability of every allowed action, if there is one."""
    return None if floor is None else checks.real("floor", floor, above=0.0, most=0.5)


@inner_function
def prepare_nothing(p, own):  # type: ignore[no-untyped-def]
    """For recommenders that need nothing besides the snapshot."""


@inner_function
def remember_nothing(p, own, moment, action):  # type: ignore[no-untyped-def]
    """For recommenders that do not mind what was done blindly."""


@dataclass(frozen=True, kw_only=True)
class Recommender:
    """What to recommend: the base class of all recommenders."""

    number: ClassVar[int]  # given by the registry
    kind: ClassVar[str]  # its name in study files
    chances: ClassVar[int] = UNTOLD  # how its actions come about: CERTAIN, if nothing but the state decides
    declares: ClassVar[Declares] = Declares()  # settings in numbers, state, ... of its own
    freeze: ClassVar[Any] = staticmethod(prepare_nothing)
    act_blind: ClassVar[Any]
    act_informed: ClassVar[Any]
    after_blind: ClassVar[Any] = staticmethod(remember_nothing)

    @property
    def randomised(self) -> bool:
        """Whether the core draws its actions, with probabilities that are known."""
        return self.chances in {MIXED, EQUAL} or getattr(self, "floor", None) is not None

    def numbers(self, use: Use) -> Mapping[str, Any]:
        """The recommender's own settings in numbers, for the fields of `declares.settings`."""
        return {}

    def extents(self, use: Use) -> Mapping[str, int]:
        """The lengths of dimensions that its declarations name and problems do not have."""
        return {}
