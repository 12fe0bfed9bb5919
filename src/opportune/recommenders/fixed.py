"""FixedAction, a reference: always the same action."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.recommenders.base import Recommender

MOST_ACTION = 126  # the last that a problem may have


@inner_function
def act(p, moment, draws):  # type: ignore[no-untyped-def]
    """The action of the settings."""
    return int(p.rule.options[0])


@dataclass(frozen=True, kw_only=True)
class FixedAction(Recommender):
    """A reference recommender: always the same action."""

    action: int
    kind: ClassVar[str] = "fixed"
    act_blind: ClassVar[Any] = staticmethod(act)
    act_informed: ClassVar[Any] = staticmethod(act)

    def __post_init__(self) -> None:
        checks.keep(self, action=checks.whole("action", self.action, least=0, most=MOST_ACTION))

    def numbers(self, problem: Any) -> tuple[float, ...]:
        """The action's number, if the problem has it."""
        return (float(checks.whole("action", self.action, least=0, most=problem.actions - 1)),)
