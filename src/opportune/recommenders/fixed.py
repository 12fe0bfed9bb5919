"""FixedAction, a reference: always the same action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import CERTAIN, Declares, Numbers
from opportune.engine.hooks import RECOMMENDERS
from opportune.errors import InputError
from opportune.recommenders.base import Recommender
from opportune.revealers.base import Use

MOST_ACTION = 126  # the largest action number of any problem


class Settings(NamedTuple):
    """The setting as a number."""

    action: Annotated[Numbers, 1]


@inner_function
def act(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """The action of the settings."""
    return int(own.settings.action[0])


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class FixedAction(Recommender):
    """A reference recommender: always the same action."""

    action: int
    kind: ClassVar[str] = "fixed"
    chances: ClassVar[int] = CERTAIN
    declares: ClassVar[Declares] = Declares(settings=Settings)
    act_blind: ClassVar[Any] = staticmethod(act)
    act_informed: ClassVar[Any] = staticmethod(act)

    def __post_init__(self) -> None:
        checks.keep(self, action=checks.whole("action", self.action, least=0, most=MOST_ACTION))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """The action's number, if the problem has the action and never forbids it."""
        return {"action": float(check_always_allowed("action", self.action, use.problem))}


def check_always_allowed(name: str, value: int, problem: Any) -> int:
    """The number of an action that a problem has and never forbids; messages call it `name`."""
    action = checks.whole(name, value, least=0, most=problem.actions - 1)
    if action not in problem.always_allowed:
        known = problem.action_names[action]
        raise InputError(f"{name} is {action}, {known!r}, which some moments forbid; expected one that none forbids")
    return action
