"""Variables of a context and the schedule of decision points: what they give, and what is refused."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.problems import variables
from opportune.problems.variables import (
    WEEKDAYS,
    DayOfStudy,
    Number,
    Schedule,
    TimeOfDay,
    Weekday,
    Weekend,
    bounds_of,
    check_variable,
    entered_as_numbers,
    level_number,
    levels_of,
)


def test_number() -> None:
    """A number has bounds as floats and a middle, and equals another with the same bounds."""
    number = Number(0, 20_000)
    assert (number.low, number.high, number.middle) == (0.0, 20_000.0, 10_000.0)
    assert number == Number(0.0, 20_000.0)
    assert isinstance(number.low, float)


def test_mornings_and_evenings_alternate() -> None:
    """Times of day cycle in order, from the first decision point on."""
    schedule = Schedule({"tod": TimeOfDay(["morning", "evening"])})
    assert schedule.decisions_per_day == 2
    assert schedule.period == 2
    assert [schedule.values(step)["tod"] for step in range(1, 5)] == ["morning", "evening", "morning", "evening"]


@given(step=st.integers(1, 10_000), per_day=st.integers(1, 5), first=st.sampled_from(WEEKDAYS))
def test_days_of_the_week(step: int, per_day: int, first: str) -> None:
    """Weekdays change after a day's decisions, weekends are Saturday and Sunday, and all repeats after the period."""
    schedule = Schedule({"day": Weekday(first=first), "free": Weekend(first=first)}, decisions_per_day=per_day)
    values = schedule.values(step)
    assert values["day"] == WEEKDAYS[(WEEKDAYS.index(first) + (step - 1) // per_day) % 7]
    assert (values["free"] == "weekend") == (values["day"] in {"Saturday", "Sunday"})
    assert schedule.period == 7 * per_day
    assert schedule.values(step + schedule.period) == values


def test_day_of_study() -> None:
    """The day counts from 1; scaled it runs from -1 to 1; the study ends after the last."""
    schedule = Schedule({"day": DayOfStudy(70), "scaled": DayOfStudy.scaled(70)}, decisions_per_day=2)
    assert schedule.values(1) == {"day": 1.0, "scaled": -1.0}
    assert schedule.values(140) == {"day": 70.0, "scaled": 1.0}
    assert schedule.period is None
    assert schedule.last_step == 140
    assert DayOfStudy.scaled(70).number == Number(-1, 1)
    assert DayOfStudy(70, centre=35.5, scale=34.5) == DayOfStudy.scaled(70)


def test_table_has_level_numbers() -> None:
    """As a table, levels are numbers from 0 and days are as they are, one row per decision point."""
    schedule = Schedule({"tod": TimeOfDay(["am", "pm"]), "free": Weekend(first="Friday"), "day": DayOfStudy(3)})
    expected = [[0, 0, 1], [1, 0, 1], [0, 1, 2], [1, 1, 2], [0, 1, 3], [1, 1, 3]]
    np.testing.assert_array_equal(schedule.table(6), expected)


def test_nothing_scheduled() -> None:
    """A schedule without variables has one decision a day unless told otherwise, and nothing to repeat."""
    schedule = Schedule({})
    assert (schedule.decisions_per_day, schedule.period, schedule.last_step) == (1, 1, None)
    assert schedule.values(5) == {}
    assert repr(schedule) == "Schedule(no variables; 1 decisions per day)"
    assert schedule == Schedule({}, decisions_per_day=1) != Schedule({}, decisions_per_day=2)
    assert hash(schedule) == hash(Schedule({}))
    assert schedule != "schedule"


def test_levels_and_bounds() -> None:
    """A variable has either levels or bounds."""
    assert levels_of(check_variable("mood", ["low", "high"])) == ("low", "high")
    assert levels_of(Weekend()) == ("weekday", "weekend")
    assert levels_of(Number(0, 1)) is None
    assert bounds_of(Number(0, 1)) == Number(0, 1)
    assert bounds_of(DayOfStudy(4)) == Number(1, 4)
    assert bounds_of(("low", "high")) is None
    assert check_variable("n", np.arange(3)) == (0, 1, 2)
    assert entered_as_numbers((1, 2.5))
    assert not entered_as_numbers((1, "2"))


ANY: Any = variables  # the wrong types are given on purpose


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ANY.Number(1, 1), "Number is from 1 to 1; expected low < high"),
        (lambda: ANY.Number(2, 1), "Number is from 2 to 1; expected low < high"),
        (lambda: ANY.Number(0, math.inf), "high of Number is inf; expected a finite number"),
        (lambda: ANY.Number(math.nan, 1), "low of Number is nan; expected a finite number"),
        (lambda: ANY.Number(False, 1), "low of Number is False; expected a finite number"),
        (lambda: ANY.Number("0", 1), "low of Number is '0'; expected a finite number"),
        (
            lambda: ANY.Number(-1.7e308, 1.7e308),
            "low of Number is -1.7e+308; expected a finite number of at most 1e+30 in size",
        ),
        (lambda: ANY.TimeOfDay("am"), "names of TimeOfDay is 'am'; expected a list of names, one per decision point"),
        (lambda: ANY.TimeOfDay(2), "names of TimeOfDay is 2; expected a list of names, one per decision point"),
        (lambda: ANY.TimeOfDay([]), "names of TimeOfDay has 0 names; expected 1 to 1440"),
        (lambda: ANY.TimeOfDay(["am", 2]), "an entry of names of TimeOfDay is 2; expected text"),
        (lambda: ANY.TimeOfDay(["am", ""]), "an entry of names of TimeOfDay is ''; expected text"),
        (lambda: ANY.TimeOfDay(["am", "am"]), "names of TimeOfDay has a name twice: ['am', 'am']"),
        (
            lambda: ANY.Weekday(first="monday"),
            "first of Weekday is 'monday'; expected one of 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', "
            "'Saturday', 'Sunday'; did you mean 'Monday'?",
        ),
        (
            lambda: ANY.Weekend(first=0),
            "first of Weekend is 0; expected one of 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', "
            "'Saturday', 'Sunday'",
        ),
        (lambda: ANY.DayOfStudy(1), "days of DayOfStudy is 1; expected a whole number from 2 to 100000"),
        (lambda: ANY.DayOfStudy(7.0), "days of DayOfStudy is 7.0; expected a whole number from 2 to 100000"),
        (lambda: ANY.DayOfStudy.scaled(1), "days of DayOfStudy is 1; expected a whole number from 2 to 100000"),
        (lambda: ANY.DayOfStudy(7, centre=math.nan), "centre of DayOfStudy is nan; expected a finite number"),
        (lambda: ANY.DayOfStudy(7, scale=0), "scale of DayOfStudy is 0; expected a finite number > 0"),
        (
            lambda: ANY.Schedule([Weekday()]),
            "variables of the schedule is [Weekday(first='Monday')]; expected {name: variable}",
        ),
        (
            lambda: ANY.Schedule({"mood": ["low"]}),
            "variable 'mood' of the schedule is ['low']; expected TimeOfDay, Weekday, Weekend or DayOfStudy",
        ),
        (
            lambda: ANY.Schedule({}, decisions_per_day=0),
            "decisions_per_day is 0; expected a whole number from 1 to 1440",
        ),
        (
            lambda: ANY.Schedule({"tod": TimeOfDay(["am", "pm"])}, decisions_per_day=3),
            "variable 'tod' has 2 times of day; expected 3, one for each decision of the day",
        ),
        (
            lambda: ANY.Schedule({"a": TimeOfDay(["am", "pm"]), "b": TimeOfDay(["x"])}),
            "variable 'b' has 1 times of day; expected 2, one for each decision of the day",
        ),
        (lambda: ANY.Schedule({}).values(0), "step is 0; expected a whole number >= 1"),
        (lambda: ANY.Schedule({}).values(1.0), "step is 1.0; expected a whole number >= 1"),
        (
            lambda: ANY.Schedule({"day": DayOfStudy(3)}, decisions_per_day=2).values(7),
            "step is 7; expected at most 6, the last decision point of the study's 3 days",
        ),
        (
            lambda: check_variable("mood", 4),
            "variable 'mood' is 4; expected its levels, a Number or a scheduled variable",
        ),
        (lambda: check_variable("mood", []), "variable 'mood' has no levels; expected at least one"),
        (lambda: check_variable("mood", [1, 1]), "variable 'mood' has a level twice: [1, 1]"),
        (
            lambda: check_variable("mood", [1.0, math.nan]),
            "variable 'mood' has NaN among its levels [1.0, nan]; expected numbers or text",
        ),
        (
            lambda: check_variable("mood", [True, 2]),
            "variable 'mood' has truths and numbers among its levels [True, 2]; expected one kind",
        ),
        (lambda: level_number("mood", 1, (False, True)), "mood is 1; expected one of [False, True]"),
        (lambda: level_number("mood", np.float64(0), (False, True)), "mood is 0.0; expected one of [False, True]"),
        (lambda: level_number("mood", True, (0, 1)), "mood is True; expected one of [0, 1]"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    """What makes no sense is refused with what was given and what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        make()
