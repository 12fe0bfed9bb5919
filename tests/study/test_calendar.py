"""Calendars: staff hours, holidays, quiet hours and answer windows, on any day and in any time zone."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.study.calendar import Calendar, enrolment_dates, instant, local
from opportune.study.hours import DAY, WeeklyHours, minutes_of

BERLIN = "Europe/Berlin"
ZONES = [
    "UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
    "Africa/Casablanca",
]  # fmt: skip
OFFICE = WeeklyHours.from_names({"weekdays": ["09:00", "17:00"], "saturday": ["10:00", "13:00"]})
CLINIC = Calendar(
    staff_zone=BERLIN,
    hours=OFFICE,
    holidays=frozenset({dt.date(2026, 12, 25)}),
    quiet=(20 * 60, 8 * 60),
)
moments = st.datetimes(dt.datetime(2011, 1, 1), dt.datetime(2029, 12, 31), timezones=st.just(dt.UTC))
minutes = st.integers(0, DAY - 1)


def at(text: str, zone: str = BERLIN) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC)


def minutes_apart(a: dt.datetime, b: dt.datetime) -> float:
    return (b - a).total_seconds() / 60


@pytest.mark.parametrize(
    ("moment", "closed"),
    [
        ("2026-12-01T08:59", "hours"),
        ("2026-12-01T09:00", ""),
        ("2026-12-01T16:45", ""),
        ("2026-12-01T16:46", "hours"),  # a quarter of an hour is the least window
        ("2026-12-01T17:00", "hours"),
        ("2026-12-05T10:30", ""),  # Saturday
        ("2026-12-05T13:30", "hours"),
        ("2026-12-06T11:00", "hours"),  # Sunday
        ("2026-12-25T11:00", "hours"),  # a Friday, and a holiday
        ("2027-03-28T11:00", "hours"),  # Sunday, and clocks go forward
        ("2028-02-29T11:00", ""),  # leap day, a Tuesday
    ],
)
def test_staff_hours_on_real_days(moment: str, closed: str) -> None:
    """Staff hours hold on their weekdays, holidays are free, and the end of the day leaves time for an answer."""
    assert CLINIC.at(at(moment), BERLIN).closed == closed


def test_the_answer_window_ends_with_the_staff_hours() -> None:
    """An answer is waited for two hours, but never past the end of staff hours or into quiet hours."""
    assert CLINIC.at(at("2026-12-01T10:00"), BERLIN).until == at("2026-12-01T12:00")
    assert CLINIC.at(at("2026-12-01T16:00"), BERLIN).until == at("2026-12-01T17:00")
    night = Calendar(staff_zone=BERLIN, quiet=(20 * 60, 8 * 60))
    assert night.at(at("2026-12-01T19:00"), BERLIN).until == at("2026-12-01T20:00")
    assert night.at(at("2026-12-01T19:50"), BERLIN).closed == "quiet"


def test_quiet_hours_are_the_participants() -> None:
    """Quiet hours go by the participant's clock, staff hours by the staff's."""
    nine = at("2026-12-01T09:00")
    assert CLINIC.at(nine, BERLIN).closed == ""
    assert CLINIC.at(nine, "America/New_York").closed == "quiet"  # 3 at night there
    assert CLINIC.at(at("2026-12-01T16:00"), "America/New_York").closed == ""  # 10 in the morning there


def test_hours_across_midnight_are_one_shift() -> None:
    """Hours that end at 24:00 go on where the next day's begin at 00:00, unless that day is a holiday."""
    hours = WeeklyHours.from_names({"friday": ["20:00", "24:00"], "saturday": ["00:00", "02:00"]})
    shift = Calendar(staff_zone=BERLIN, hours=hours, answer=dt.timedelta(hours=5))
    assert shift.at(at("2026-12-04T23:50"), BERLIN).until == at("2026-12-05T02:00")
    free = Calendar(staff_zone=BERLIN, hours=hours, holidays=frozenset({dt.date(2026, 12, 5)}))
    assert free.at(at("2026-12-04T23:50"), BERLIN).closed == "hours"


def test_a_single_day_goes_before_a_group() -> None:
    """A weekday's own hours replace those of its group, whatever the order, and an empty list is a day off."""
    hours = WeeklyHours.from_names({"wednesday": [], "every_day": ["08:00", "18:00"], "weekend": ["10:00", "12:00"]})
    assert hours.days[0] == ((480, 1080),)
    assert hours.days[2] == ()
    assert hours.days[6] == ((600, 720),)
    assert hours.minutes == 4 * 600 + 2 * 120


@pytest.mark.parametrize("times", [["9:00", "17:00"], ["17:00", "09:00"], ["09:00"], ["09:00", "25:00"]])
def test_hours_that_are_none_are_refused(times: list[str]) -> None:
    """Times are written HH:MM, in order and in pairs."""
    with pytest.raises(InputError):
        WeeklyHours.from_names({"monday": times})


@given(moments, st.sampled_from(ZONES), st.sampled_from(ZONES), minutes, minutes, st.integers(0, 300))
@example(at("2027-03-28T01:30"), BERLIN, BERLIN, 120, 180, 120)
@example(at("2026-10-25T02:30"), BERLIN, BERLIN, 120, 180, 120)
def test_what_is_open_is_open_to_the_end(
    moment: dt.datetime, staff_zone: str, zone: str, start: int, end: int, answer: int
) -> None:
    """Until the answer window ends, staff work and the participant is not in quiet hours, minute by minute."""
    quiet = None if start == end else (start, end)
    calendar = Calendar(
        staff_zone=staff_zone, hours=OFFICE, quiet=quiet, answer=dt.timedelta(minutes=answer),
        least_window=dt.timedelta(minutes=15),
    )  # fmt: skip
    found = calendar.at(moment, zone)
    assert found.day == (local(moment, staff_zone).date() - dt.date(1970, 1, 1)).days
    if found.closed:
        assert found.until == moment
        return
    assert minutes_apart(moment, found.until) <= answer
    instants = calendar.at(found.until - dt.timedelta(microseconds=1), zone)
    for later in range(0, int(minutes_apart(moment, found.until)), 7):
        seen = moment + dt.timedelta(minutes=later)
        assert works(OFFICE, seen, staff_zone)
        assert awake(quiet, seen, zone)
    assert instants.hours >= found.hours or found.until == moment


def works(hours: WeeklyHours, moment: dt.datetime, zone: str) -> bool:
    """Second reading: by the staff's wall clock alone."""
    there = local(moment, zone)
    minute = there.hour * 60 + there.minute
    return any(start <= minute < end for start, end in hours.days[there.weekday()])


def awake(quiet: tuple[int, int] | None, moment: dt.datetime, zone: str) -> bool:
    """Second reading: by the participant's wall clock alone."""
    if quiet is None:
        return True
    there = local(moment, zone)
    minute, (start, end) = there.hour * 60 + there.minute, quiet
    return not (start <= minute < end if start < end else minute >= start or minute < end)


@given(moments, st.sampled_from(ZONES), st.integers(0, 60))
def test_what_is_closed_has_a_reason(moment: dt.datetime, zone: str, least: int) -> None:
    """Where a nudge is refused, staff are away, quiet hours hold, or less than the least window is left of the two."""
    calendar = Calendar(
        staff_zone=BERLIN, hours=OFFICE, quiet=(20 * 60, 8 * 60), least_window=dt.timedelta(minutes=least)
    )
    found = calendar.at(moment, zone)
    ahead = [moment + dt.timedelta(minutes=m) for m in range(least + 1)]
    staffed = all(works(OFFICE, seen, BERLIN) for seen in ahead[:-1] or ahead)
    undisturbed = all(awake((20 * 60, 8 * 60), seen, zone) for seen in ahead[:-1] or ahead)
    if found.closed == "":
        assert staffed
        assert undisturbed
    else:
        last = [moment + dt.timedelta(minutes=least, seconds=1), *ahead]
        assert not all(works(OFFICE, s, BERLIN) and awake((20 * 60, 8 * 60), s, zone) for s in last)


@given(
    st.dates(dt.date(2009, 1, 1), dt.date(2030, 1, 1)), st.integers(0, DAY), st.sampled_from(ZONES)
)  # fmt: skip
@example(dt.date(2011, 12, 30), 540, "Pacific/Apia")  # a day that Samoa never had
@example(dt.date(2027, 3, 28), 150, BERLIN)
def test_an_instant_is_the_first_moment_with_that_time(date: dt.date, minute: int, zone: str) -> None:
    """The clock shows the time, or later where it is skipped; one minute before it showed an earlier time."""
    found = instant(date, minute, zone)
    wanted = dt.datetime.combine(date, dt.time()) + dt.timedelta(minutes=minute)
    assert local(found, zone).replace(tzinfo=None) >= wanted
    assert local(found - dt.timedelta(minutes=1), zone).replace(tzinfo=None) < wanted


def test_clocks_that_change_keep_decision_times_in_order() -> None:
    """On the two days when clocks change, all decision times of the day still come, in order."""
    for date in (dt.date(2027, 3, 28), dt.date(2026, 10, 25)):
        found = [instant(date, minute, BERLIN) for minute in (60, 120, 150, 180, 540)]
        assert found == sorted(found)


@given(st.integers(1, 200), st.integers(1, 60))
def test_enrolment_is_spread_evenly(people: int, days: int) -> None:
    """Participants begin in order, on the first of the days at the earliest, evenly within one person a day."""
    first = dt.date(2026, 12, 1)
    dates = enrolment_dates(first, days, people)
    assert len(dates) == people
    assert dates == sorted(dates)
    assert dates[0] == first
    assert dates[-1] < first + dt.timedelta(days=days)
    counts = [dates.count(first + dt.timedelta(days=day)) for day in range(days)]
    assert max(counts) - min(counts) <= 1


def test_minutes_of_a_time() -> None:
    """24:00 is the end of a day."""
    assert [minutes_of(text) for text in ("00:00", "09:30", "24:00")] == [0, 570, DAY]
