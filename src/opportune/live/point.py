"""A decision point of a live agent: what was given and reported of it, and what has become of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opportune import checks
from opportune.algorithm.allowance import UNFORESEEN, Slot
from opportune.errors import InputError, StateError
from opportune.limits import Limits
from opportune.live.decision import Proposal
from opportune.problems.settings import Located
from opportune.simulation.timetable import MOST_DAYS, MOST_HOURS, check_closed

UNKNOWN = -1  # a context that nobody has seen yet
UNDECIDED = -1  # the action of a step that is not settled

# What has become of a step's reward.
WAITING = "waiting"
LEARNED = "learned"
SKIPPED = "skipped"
NOTHING = "nothing"  # the participant was not available: nothing is learned from the step


@dataclass(slots=True)
class Step:
    """A decision point, for as long as its agent lives."""

    step: int
    given: Any  # the context, as given
    reported: dict[str, Any] | None  # likewise, also where no reveal has uncovered it yet
    place: Located  # what the algorithm makes of both
    action: int = UNDECIDED
    settled: bool = False
    seen: bool = True  # its context is known to the revealer
    unanswered: bool = False  # it made a nudge that went unanswered
    status: str = WAITING
    reward: float = 0.0

    @property
    def where(self) -> tuple[int, int, int, int]:
        """Step, stratum, sensed part and context, as compiled code takes them."""
        return self.step, self.place.stratum, self.place.sense, self.place.context


def check_horizon(problem: Any, horizon: Any) -> int:
    """The number of decision points, which the problem's schedule must have."""
    number = checks.whole("horizon", horizon, least=1, most=checks.MOST_STEPS)
    last = problem.schedule.last_step
    if last is not None and number > last:
        raise InputError(f"horizon is {number}; expected at most {last}, the last decision point of the schedule")
    return number


def new_step(problem: Any, reported_names: Sequence[str], number: int, context: Any, reported: Any) -> Step:
    """A step as it was given, checked."""
    given = plain(context)
    if reported_names:
        if not isinstance(given, dict):
            raise InputError(
                f"context is {checks.brief(given)}; expected {{variable: value}}, as some variables are reported"
            )
        for name in given:
            if name in reported_names:
                raise InputError(f"{name!r} is reported; expected it in reported={{...}}, not in context")
    if reported is None:
        return Step(number, given, None, problem.locate(given, number))
    sealed = check_reported(reported, reported_names)
    return Step(number, given, sealed, problem.locate({**given, **sealed}, number))


def refuse_history(problem: Any, context: Any) -> None:
    """Refuse a value that only the participant's own record can give."""
    for name in problem.histories:
        if isinstance(context, Mapping) and name in context:
            raise InputError(f"context has {name!r}; expected it left out, as it is computed from what is on record")


def with_reported(problem: Any, reported_names: Sequence[str], step: Step, reported: Any) -> tuple[Any, Located]:
    """All that was reported of a step by now, and its place with that filled in."""
    told = {**(step.reported or {}), **check_reported(reported, reported_names)}
    return told, problem.locate({**step.given, **told}, step.step)


def check_reported(reported: Any, reported_names: Sequence[str]) -> dict[str, Any]:
    """Reported values, checked as far as names go."""
    if not isinstance(reported, Mapping):
        raise InputError(f"reported is {checks.brief(reported)}; expected {{variable: value}}")
    if not reported_names:
        raise InputError(f"reported is {checks.brief(dict(reported))}; expected none, as no variable is reported")
    for name in reported:
        checks.choice("reported variable", name, reported_names)
    return dict(plain(reported))


def plain(given: Any) -> Any:
    """A copy of what was given, in values that can be written as JSON."""
    if isinstance(given, Mapping):
        return {name: _plain_value(value) for name, value in given.items()}
    return _plain_value(given)


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.longdouble):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def absence(reason: str | None, missing: Sequence[str]) -> str:
    """Why a decision point is missing: the reason that was given, else which values lack, if any do."""
    return reason or (f"no value of {', '.join(missing)}" if missing else "the participant is not available")


def check_outcome(made: Proposal, answered: bool | None, opened: bool, *, told: bool) -> bool:
    """Whether what became of a proposal is a reveal; raises where that cannot have become of it."""
    if answered is not None:
        checks.yes_no("answered", answered)
        if not made.nudged:
            raise StateError(f"step {made.step} made no nudge that could be answered; call settle() without it")
    elif made.nudged and not opened:
        raise StateError(f"step {made.step} made a nudge; say settle(answered=True) or settle(answered=False)")
    if not made.available and opened:
        raise StateError(f"step {made.step} is not available ({made.reason}); it cannot be opened")
    revealed = bool(opened or answered)
    if told and not revealed:
        raise StateError("reported values were given, but nothing was revealed; say answered=True or opened=True")
    return revealed


def standing_action(names: tuple[str, ...], proposed: str, shown: str | None, revealed: bool) -> int:
    """The number of the action that stands without a reveal: what the phone showed offline, or what was proposed."""
    if shown is None:
        return names.index(proposed)
    checks.choice("shown", shown, names)
    if revealed:
        raise StateError("an action was shown offline, but something was revealed; expected one of the two")
    return names.index(shown)


def check_slot(
    limits: Limits | None, steps_left: int, closed: int, hours: float | None, day: int | None, open_left: int | None
) -> Slot:
    """Where the next decision point lies in the calendar; `Agent.propose` says what is what."""
    if limits is not None and limits.by_the_clock and hours is None:
        raise InputError("hours is None; expected hours since the study's epoch, as the policy's limits go by them")
    if limits is not None and limits.per_day is not None and day is None:
        raise InputError("day is None; expected the number of staff's day, as the policy limits nudges per day")
    return Slot(
        check_closed("closed", checks.whole("closed", closed, least=0)),
        0.0 if hours is None else checks.real("hours", hours, least=-MOST_HOURS, most=MOST_HOURS),
        0 if day is None else checks.whole("day", day, least=-MOST_DAYS, most=MOST_DAYS),
        UNFORESEEN if open_left is None else checks.whole("open_left", open_left, least=0, most=steps_left),
    )
