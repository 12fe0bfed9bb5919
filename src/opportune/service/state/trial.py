"""A trial's design, live: when nudges are possible, who belongs to which arm, and what is known at enrolment."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.allowance import ANYTIME, UNFORESEEN, Slot
from opportune.algorithm.reasons import ARM, ELIGIBLE, OPTED_OUT, WORDS
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.variables import WEEKDAYS, TimeOfDay, Weekday, Weekend
from opportune.service.problems import Refused
from opportune.service.state import clock, schedule
from opportune.service.state.participant import Participant
from opportune.service.state.study import StudyInForce
from opportune.study.arms import arm_at, stratum_of
from opportune.study.people import is_range

Given = Mapping[str, Any]


def slot_given(running: StudyInForce, person: Participant, *, happened: int, step: int) -> dict[str, Any] | None:
    """A decision point's slot in the calendar, as its event records it; None if nudges are possible at all times."""
    calendar, timezone = running.calendar, person.zone_at(happened)
    without = None if person.calls else WORDS[OPTED_OUT]
    if person.arm and not person.agent.policy.revealer.spends:
        without = WORDS[ARM]
    if calendar is None:
        return {"closed": without, "hours": 0.0, "day": 0} if without else None
    opening = calendar.at(_moment(happened), timezone)
    given: dict[str, Any] = {"hours": opening.hours, "day": opening.day}
    if without:
        given["closed"] = without
    elif opening.closed:
        given["closed"] = opening.closed
    else:
        given["until"] = clock.from_datetime(opening.until)
    if running.times:
        left = open_points(running, person.began, timezone)
        given["open_left"] = int(left[min(step, running.horizon) - 1])
    return given


def slot_of(given: Given) -> Slot:
    """The slot of a decision point, read from its event."""
    found = given.get("slot")
    if found is None:
        return ANYTIME
    closed = WORDS.index(found["closed"]) if "closed" in found else ELIGIBLE
    return Slot(closed, float(found["hours"]), int(found["day"]), int(found.get("open_left", UNFORESEEN)))


_OPEN: dict[tuple[str, dt.date, str], NDArray[np.int64]] = {}
"""The cache of `open_points`."""
MOST_COUNTED = 4096


def open_points(running: StudyInForce, date: dt.date, timezone: str) -> NDArray[np.int64]:
    """The number of open decision points from each step on, for participants who enrolled on this local date.

    The run-in, which has no nudges, does not count. The result is cached for all who enrolled on that date.
    """
    key = (running.hash, date, timezone)
    if key not in _OPEN:
        if len(_OPEN) >= MOST_COUNTED:
            _OPEN.clear()
        _OPEN[key] = _count_open(running, date, timezone)
    return _OPEN[key]


def _count_open(running: StudyInForce, date: dt.date, timezone: str) -> NDArray[np.int64]:
    assert running.calendar is not None
    is_open = np.zeros(running.horizon, dtype=np.int64)
    for step in range(running.run_in + 1, running.horizon + 1):
        at = schedule.time_of(running, step, date, timezone)
        is_open[step - 1] = not running.calendar.at(_moment(at), timezone).closed
    left: NDArray[np.int64] = np.cumsum(is_open[::-1])[::-1]
    return left


def _moment(at: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at / 1e6, dt.UTC)


def check_baseline(running: StudyInForce, given: Given | None) -> dict[str, Any]:
    """Check the values given at enrolment: every baseline variable of the study file, and no others."""
    wanted, values = running.study.settings.participants.baseline, dict(given or {})
    for name in values:
        if name not in wanted:
            expected = f"expected {', '.join(map(repr, wanted))}" if wanted else "the study file sets no baseline"
            raise Refused("invalid", f"baseline has {checks.brief(name)}; {expected}")
    for name, levels in wanted.items():
        if values.get(name) is None:
            raise Refused("invalid", f"baseline lacks {name!r}, which the study needs from everybody at enrolment")
        try:
            if is_range(levels):
                values[name] = checks.real(f"{name!r} in baseline", values[name], least=levels[0], most=levels[1])
            else:
                checks.choice(f"{name!r} in baseline", values[name], levels)
        except InputError as error:
            raise Refused("invalid", str(error)) from None
    return values


class Seat(NamedTuple):
    """A participant's arm, number within the arm, and stratum."""

    arm: str
    member: int
    stratum: int


class Enrolled:
    """How many participants have enrolled in each stratum and each arm."""

    def __init__(self, seats: Iterable[tuple[str, int]] = ()) -> None:
        self.arms: Counter[str] = Counter()
        self.strata: Counter[int] = Counter()
        for arm, stratum in seats:
            self.arms[arm] += 1
            self.strata[stratum] += 1

    def next(self, running: StudyInForce, baseline: Given, *, seed: int | None, arm: str | None = None) -> Seat:
        """Assign the next participant: the seed and the position in the stratum's blocks determine the arm.

        If the seed is unknown (None), `arm` must be the arm on record.
        """
        arms, stratum = running.study.settings.arms, 0
        found = ""
        if arms is not None:
            stratum = stratum_of(running.study, dict(baseline))
            place = self.strata[stratum]
            found = (arm or "") if seed is None else arm_at(arms, seed, stratum=stratum, place=place)
        seat = Seat(found, self.arms[found], stratum)
        self.arms[found] += 1
        self.strata[stratum] += 1
        return seat


def with_known(
    running: StudyInForce, person: Participant, sensed: Given, *, step: int, happened: int
) -> dict[str, Any]:
    """The sensed values, with those that the service knows itself: the baseline and the participant's calendar.

    An app may also send values that the service knows, but only if they agree.
    """
    problem = person.agent.problem
    baseline = {} if person.baseline is None else msgspec.json.decode(person.baseline)
    known = {name: value for name, value in baseline.items() if name in problem.variables}
    known |= _scheduled(running, person, step, happened)
    for name, value in known.items():
        if sensed.get(name, value) != value:
            given = checks.brief(sensed[name])
            raise Refused("invalid", f"{name} is {given}; expected {value!r}, which is known of {person.name!r}")
    return {**sensed, **known}


def _scheduled(running: StudyInForce, person: Participant, step: int, happened: int) -> dict[str, Any]:
    """A decision point's calendar variables; without decision times, the app provides the time of day."""
    schedule_of = person.agent.problem.schedule
    if not schedule_of.variables or step > (schedule_of.last_step or step):
        return {}
    if running.times:
        return schedule_of.values(step)
    day = schedule.day_of(happened, person.began, person.zone_at(happened))
    last = (schedule_of.last_step or day * schedule_of.decisions_per_day) // schedule_of.decisions_per_day
    values = schedule_of.values((min(max(1, day), last) - 1) * schedule_of.decisions_per_day + 1)
    return {name: value for name, value in values.items()
            if not isinstance(schedule_of.variables[name], TimeOfDay)}  # fmt: skip


def problem_from(problem: Problem | ContinuousProblem, began: dt.date) -> Problem | ContinuousProblem:
    """The problem of a participant who enrols on this date: weekdays follow the participant's own calendar."""
    scheduled = problem.schedule.variables
    if not any(isinstance(variable, Weekday | Weekend) for variable in scheduled.values()):
        return problem
    return _beginning(problem, WEEKDAYS[began.weekday()])


@lru_cache(maxsize=64)
def _beginning(problem: Problem | ContinuousProblem, first: str) -> Problem | ContinuousProblem:
    """The problem of a study that begins on the weekday `first`; cached, so that participants share one object."""
    scheduled = problem.schedule.variables
    changed: dict[str, Any] = {
        name: type(scheduled[name])(first=first) if isinstance(scheduled.get(name), Weekday | Weekend)
        else scheduled.get(name, variable)
        for name, variable in problem.variables.items()
    }  # fmt: skip
    return problem.replace(variables=changed)
