"""`Timetable`: when each participant's decision points are, and where the calendar allows no nudge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.reasons import ELIGIBLE, OUTSIDE, WORDS
from opportune.errors import InputError
from opportune.policy import Policy

MOST_SLOTS = 10_000_000
MOST_DAYS = 1_000_000
MOST_HOURS = 24.0 * MOST_DAYS
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Timetable:
    """The calendar of a study: where each participant's decision points lie. Rows are participants, columns steps.

    `simulate` accepts one; `point` returns the arguments of `Agent.propose` for one decision point.

    Args:
        closed: why no nudge may be made at a decision point, by `opportune.algorithm.reasons`; 0 if one may be made.
        hours: real hours since the study's epoch, for limits on one participant's nudges.
        day: the number of the staff's day, for a limit on their nudges.
        start: the slot of each participant's first decision point, from 0: participants who share something decide
            slot by slot. By default all begin together.

    """

    closed: Any
    hours: Any = None
    day: Any = None
    start: Any = None

    def __post_init__(self) -> None:
        closed = _whole_table("closed", self.closed, ("participants", "steps"), least=0, most=max(OUTSIDE))
        for reason in np.unique(closed):
            check_closed("closed", int(reason))
        checks.keep(self, closed=closed)
        if self.hours is not None:
            hours = _table("hours", self.hours, closed.shape, least=-MOST_HOURS, most=MOST_HOURS)
            late = np.argwhere(np.diff(hours, axis=1) < 0)
            if late.size:
                who, step = late[0].tolist()
                raise InputError(f"hours of participant {who} fall after step {step + 1}; expected them in order")
            checks.keep(self, hours=hours)
        if self.day is not None:
            checks.keep(self, day=_whole_table("day", self.day, closed.shape, least=-MOST_DAYS, most=MOST_DAYS))
        start = np.zeros(len(closed)) if self.start is None else self.start
        checks.keep(self, start=_whole_table("start", start, closed.shape[:1], least=0, most=MOST_SLOTS))

    @property
    def participants(self) -> int:
        """The number of participants."""
        return len(self.closed)

    @property
    def steps(self) -> int:
        """The number of decision points of each participant."""
        return int(self.closed.shape[1])

    @property
    def open_left(self) -> Whole:
        """The number of open decision points of each participant from each step on, including that step."""
        is_open = self.closed == ELIGIBLE
        left: Whole = np.cumsum(is_open[:, ::-1], axis=1)[:, ::-1]
        return left

    def tables(self) -> dict[str, NDArray[Any]]:
        """The arrays of a simulated calendar, named as in engine.declared."""
        given = {"closed": self.closed, "hours": self.hours, "day": self.day, "open_left": self.open_left}
        return {name: table for name, table in given.items() if table is not None}

    def point(self, participant: int, step: int, *, run_in: int = 0) -> dict[str, Any]:
        """One decision point, as arguments of `Agent.propose`; steps count from 1.

        `run_in` is that of the policy's limits: points inside it do not count as open points to come.
        """
        who = checks.whole("participant", participant, least=0, most=self.participants - 1)
        number = checks.whole("step", step, least=1, most=self.steps)
        first = max(number, checks.whole("run_in", run_in, least=0) + 1)
        return {
            "closed": int(self.closed[who, number - 1]),
            "hours": None if self.hours is None else float(self.hours[who, number - 1]),
            "day": None if self.day is None else int(self.day[who, number - 1]),
            "open_left": int(np.count_nonzero(self.closed[who, first - 1 :] == ELIGIBLE)),
        }


def check_closed(name: str, value: int) -> int:
    """Why no nudge may be made at a decision point, checked against the reasons that a caller may give."""
    if value not in OUTSIDE:
        known = ", ".join(f"{reason} ({WORDS[reason]})" for reason in OUTSIDE)
        raise InputError(f"{name} is {value}; expected one of {known}")
    return value


def check_timetable(given: Any, policies: Sequence[Any], *, participants: int, horizon: int) -> Timetable | None:
    """A timetable with this number of participants and steps, and with the data that the policies' limits need."""
    if given is not None and not isinstance(given, Timetable):
        raise InputError(f"timetable is {checks.brief(given)}; expected a Timetable")
    in_python = [policy.name for policy in policies if not isinstance(policy, Policy)]
    if given is not None and in_python:
        raise InputError(f"policy {in_python[0]!r} is in plain Python and cannot follow a timetable; expected none")
    limits = [policy.limits for policy in policies if isinstance(policy, Policy) and policy.limits is not None]
    if any(each.by_the_clock for each in limits) and (given is None or given.hours is None):
        raise InputError("the timetable has no hours; expected them, as a policy's limits need them")
    if any(each.per_day is not None for each in limits) and (given is None or given.day is None):
        raise InputError("the timetable has no days; expected them, as a policy limits nudges per day")
    if given is not None and (given.participants, given.steps) != (participants, horizon):
        raise InputError(
            f"the timetable is for {given.participants} participants and {given.steps} steps; expected {participants} "
            f"and {horizon}, the numbers of worlds and steps"
        )
    return given


def _table(name: str, given: Any, shape: tuple[int | str, ...], *, least: float, most: float) -> Floats:
    """Numbers of this shape, between `least` and `most`."""
    found = checks.array(name, given, shape)
    bad = found[(found < least) | (found > most)]
    if bad.size:
        raise InputError(f"{name} holds {bad[0]:g}; expected numbers from {least:g} to {most:g}")
    return found


def _whole_table(name: str, given: Any, shape: tuple[int | str, ...], *, least: float, most: float) -> Whole:
    """Whole numbers of this shape, between `least` and `most`."""
    found = _table(name, given, shape, least=least, most=most)
    bad = found[found != np.floor(found)]
    if bad.size:
        raise InputError(f"{name} holds {bad[0]:g}; expected whole numbers")
    return found.astype(np.int64)
