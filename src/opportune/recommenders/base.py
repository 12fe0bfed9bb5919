"""What a recommender consists of: settings that people choose, and four compiled functions that the core calls.

A recommender is a frozen dataclass below `Recommender`. Its functions are attached as static methods:

- `freeze(p)`: prepare, at a reveal, what acting blindly needs; `p.snapshot` holds the knowledge of that moment;
- `act_blind(p, moment, draws)`: the action by what was frozen and the public part of the context;
- `act_informed(p, moment, draws)`: the action at a reveal, by the full context (`moment.context` >= 0) or, where
  reported values are missing, its sensed part;
- `after_blind(p, moment, action)`: what to remember of an action taken blindly.

`algorithm.snapshot` has the features that each may go by. From outside the package, `opportune.register` adds one
(docs/extending.md).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.engine.compiled import inner_function


@inner_function
def prepare_nothing(p):  # type: ignore[no-untyped-def]
    """For recommenders that need nothing besides the snapshot."""


@inner_function
def remember_nothing(p, moment, action):  # type: ignore[no-untyped-def]
    """For recommenders that do not mind what was done blindly."""


@dataclass(frozen=True, kw_only=True)
class Recommender:
    """What to recommend. Subclasses say how."""

    number: ClassVar[int]  # given by the registry
    kind: ClassVar[str]  # its name in study files
    sampled: ClassVar[bool] = False  # whether it draws from the frozen estimate
    freeze: ClassVar[Any] = staticmethod(prepare_nothing)
    act_blind: ClassVar[Any]
    act_informed: ClassVar[Any]
    after_blind: ClassVar[Any] = staticmethod(remember_nothing)

    def form(self) -> dict[str, Any]:
        """What it needs room for, as arguments of engine.layout.layout."""
        return {"sampled": self.sampled}

    def numbers(self, problem: Any) -> tuple[float, ...]:
        """The recommender's own settings in numbers, for `p.rule.options`: at most engine.layout.SETTINGS of them."""
        return ()
