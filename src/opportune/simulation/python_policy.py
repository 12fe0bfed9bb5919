"""`PythonPolicy`: a policy in plain Python, for `simulate` and `Environment`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from opportune import checks
from opportune.errors import InputError
from opportune.policy import Budget

if TYPE_CHECKING:
    from opportune.simulation.environment import Experience, Observation, Shown

Memory = Any


@dataclass(frozen=True, kw_only=True)
class PythonPolicy:
    """A policy in plain Python, which `simulate` accepts beside compiled ones; about a hundred times slower.

    Its results are NaN for numbers that only compiled rules have: `gap`, `price`, `disagreement`, `tolerance` and
    `final_price`; `fresh_action` and `stale_action` are -1.

    Args:
        propose: propose(moment, memory) returns whether to nudge, or with which probability (`Observation`).
        settle: settle(shown, memory) returns the action, by name or number (`Shown`).
        learn: learn(experience, memory), called for each step whose context and reward are known (`Experience`).
        budget: the number of nudges; unlimited by default.
        start: start() creates the memory of a run; by default a dict. Memory must not outlive a run.
        name: the name in tables and figures.

    """

    propose: "Callable[[Observation, Memory], bool | float]"
    settle: "Callable[[Shown, Memory], str | int]"
    learn: "Callable[[Experience, Memory], None] | None" = None
    budget: float | Budget | None = None
    start: Callable[[], Memory] = dict
    name: str = "python"
    scale: ClassVar[str] = ""
    shared: ClassVar[bool] = False
    pooled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("propose", "settle", "start"):
            if not callable(getattr(self, name)):
                raise InputError(f"{name} is {checks.brief(getattr(self, name))}; expected a function")
        if self.learn is not None and not callable(self.learn):
            raise InputError(f"learn is {checks.brief(self.learn)}; expected a function, or None")
        if self.budget is not None and not isinstance(self.budget, Budget):
            checks.keep(self, budget=Budget(self.budget))
        if isinstance(self.budget, Budget) and self.budget.shared:
            raise InputError("the budget is shared; expected one for each participant if a policy is in Python")
        checks.keep(self, name=checks.text("name of the policy", self.name))

    def describe(self) -> dict[str, Any]:
        """The parts of the policy that can be written down."""
        return {
            "name": self.name,
            "recommender": {"kind": "PythonPolicy"},
            "revealer": {"kind": "PythonPolicy"},
            "budget": None if self.budget is None else dict(vars(self.budget)),
            "pooled": False,
        }
