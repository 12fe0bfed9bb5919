"""What a revealer consists of: settings that people choose, and two compiled functions that the core calls.

A revealer is a frozen dataclass below `Revealer`. Its two functions are attached as static methods:

- `consult(p, own, moment, judged)` gives (probability of a reveal, final tolerance). It may read anything of the
  participant `p` (engine.declared), and write to what the rule declares for itself (`own.state`, `own.shared`,
  `own.scratch`, `own.notes`) and, through functions of `algorithm.budget`, to the price; the core charges the
  probability.
- `conclude(p, own, moment, judged, nudged, revealed)` is called when the step is settled, for rules that remember how.

Adding one takes a file like those beside this one, and a line in `opportune.revealers` that imports it; from outside
the package, `opportune.register` (docs/extending.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares
from opportune.engine.sizes import Sizes

SCALES = ("adaptive", "range", "gap")


class Use(NamedTuple):
    """What a policy is used for."""

    problem: Any
    sizes: Sizes
    budget: float  # infinite where there is none
    horizon: int
    sharers: int  # participants that the budget is for
    resigned: bool  # whether the revealer wants the recommender to stop exploring once nothing can be told any more

    @property
    def decisions(self) -> int:
        """The decisions that the budget is for."""
        return self.horizon * self.sharers


@inner_function
def remember_nothing(p, own, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """For rules that remember nothing."""


@dataclass(frozen=True, kw_only=True)
class Revealer:
    """When to reveal: the base class of all revealers."""

    number: ClassVar[int]  # given by the registry
    label: ClassVar[str]  # the name of a policy with it, unless it is given one
    kind: ClassVar[str]  # its name in study files
    needs_budget: ClassVar[bool] = True
    spends: ClassVar[bool] = True  # whether a budget means anything to it
    priced: ClassVar[bool] = False  # whether it compares the gap with a price
    resigned: ClassVar[bool] = False  # whether the recommender stops exploring once nothing can be told any more
    suits: ClassVar[Mapping[str, Any]] = {}  # settings that LinUCB has with it in a study file that does not say
    restraint: ClassVar[str] = ""  # why it nudges less than it could where nothing limits it: "it ... {nudges} ..."
    declares: ClassVar[Declares] = Declares()  # settings in numbers, state, ... of its own
    consult: ClassVar[Any]
    conclude: ClassVar[Any] = staticmethod(remember_nothing)

    def numbers(self, use: Use) -> Mapping[str, float]:
        """The rule's own settings in numbers, for the fields of `declares.settings`."""
        return {}

    def extents(self, use: Use) -> Mapping[str, int]:
        """The lengths of dimensions that its declarations name and problems do not have."""
        return {}

    @property
    def auxiliary(self) -> Literal["rate", "price", "rank"] | None:
        """The rule for known theta, if analysis.metrics can run it: B/T, PD1's price, or PACE's ranks."""
        return None

    @property
    def needs_sharing(self) -> bool:
        """Whether the rule can be used only with a budget that participants share."""
        return False

    @property
    def randomised(self) -> bool:
        """Whether it mixes in a coin, so that the probabilities before and after it differ."""
        return False

    def before_coin(self, probability: float, notes: Any) -> float:
        """The probability of a nudge by the rule alone, without its coin, from its notes (`declares.notes`)."""
        return probability

    def class_of(self, notes: Any) -> str | None:
        """Why a nudge was considered at an eligible moment, in a word for analysts; None if the rule has none."""
        return None

    @staticmethod
    def words(notes: Any) -> str:
        """The rule's notes on a decision (`declares.notes`) in words; empty for rules that take none."""
        return ""


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
