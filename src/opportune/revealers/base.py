"""What a revealer consists of: settings that people choose, and two compiled functions that the core calls.

A revealer is a frozen dataclass below `Revealer`. Its two functions are attached as static methods:

- `consult(p, moment, judged)` gives (probability of a reveal, final tolerance). It may read anything of the
  participant `p` (engine.layout) and change nothing but `p.budget.price` and what the rule remembers for itself,
  `p.trail.own`; the core charges the probability.
- `conclude(p, moment, judged, nudged, revealed)` is called when the step is settled, for rules that remember how.

Adding one takes a file like those beside this one and a line in the list of `opportune.revealers`; from outside the
package, `opportune.register` (docs/extending.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.engine.compiled import inner_function

SCALES = ("adaptive", "range", "gap")


@inner_function
def nothing(p, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """For rules that remember nothing."""


@dataclass(frozen=True, kw_only=True)
class Revealer:
    """When to reveal. Subclasses say how."""

    number: ClassVar[int]  # given by the registry
    label: ClassVar[str]  # the name of a policy with it, unless it is given one
    kind: ClassVar[str]  # its name in study files
    needs_budget: ClassVar[bool] = True
    spends: ClassVar[bool] = True  # whether a budget means anything to it
    priced: ClassVar[bool] = False  # whether it compares the gap with a price
    resigned: ClassVar[bool] = False  # whether the recommender stops exploring once nothing can be told any more
    consult: ClassVar[Any]
    conclude: ClassVar[Any] = staticmethod(nothing)

    def numbers(self, problem: Any, *, budget: float, decisions: int, horizon: int) -> tuple[float, ...]:
        """The rule's own settings in numbers, for `p.rule.settings`: at most engine.layout.SETTINGS of them."""
        return ()

    @staticmethod
    def words(notes: Sequence[float]) -> str:
        """What the rule went by (`p.scratch.notes`), in words; only for rules that rank moments."""
        return ""

    def form(self, *, budget: float, horizon: int, sharers: int) -> dict[str, Any]:
        """What the rule needs room for, as arguments of engine.layout.layout."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ScaledRevealer(Revealer):
    """A revealer that goes by the gap, scaled (docs/paper.md, Revealing).

    scale: "adaptive" divides by the revealer's present largest gap and needs no prior knowledge; "range" by the range
    of the problem's best values; "gap" by the largest true gap.
    """

    scale: str = "adaptive"
    priced: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.keep(self, scale=checks.choice("scale", self.scale, SCALES))
