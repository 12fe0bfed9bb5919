"""The tables of a trial: staff, arms, least probabilities, learning and priors."""

import datetime as dt
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, ConfigDict, Field

from opportune.errors import InputError
from opportune.study.base import Mistakes, Table, show
from opportune.study.hours import EXPECTED_TIMES, NAMES, WeeklyHours, minutes_of, spans_of

Words = Annotated[str, Field(min_length=1, max_length=500)]
ZONE = "a time zone by its IANA name, such as 'Europe/Berlin'"
DATE = "a date, such as 2026-12-01"
TIMES = f"times of day, {EXPECTED_TIMES}; [] for a day off"
_TIMES = Field(default=None, description=TIMES)
_NO_PLACES = {"localtime", "posixrules", "Factory"}
"""Names that are not the time zone of a place."""


def _as_date(given: Any) -> Any:
    """Convert a text to a date; leave other values as they are."""
    if isinstance(given, str):
        try:
            return dt.date.fromisoformat(given)
        except ValueError:
            return given
    return given


Date = Annotated[dt.date, BeforeValidator(_as_date)]


def known_zone(name: str) -> bool:
    """Whether this is the time zone of a place, and so the same on every machine."""
    try:
        return name not in _NO_PLACES and bool(ZoneInfo(name))
    except (ValueError, OSError, LookupError):
        return False


class HoursTable(Table):
    """`hours` in [staff] and `on_call` in [serve]: hours by weekday; days that are not named are days off."""

    every_day: list[str] | None = _TIMES
    weekdays: list[str] | None = _TIMES
    weekend: list[str] | None = _TIMES
    monday: list[str] | None = _TIMES
    tuesday: list[str] | None = _TIMES
    wednesday: list[str] | None = _TIMES
    thursday: list[str] | None = _TIMES
    friday: list[str] | None = _TIMES
    saturday: list[str] | None = _TIMES
    sunday: list[str] | None = _TIMES

    def mistakes(self) -> Mistakes:
        """Times must be pairs in order, and some day must have hours."""
        for name in NAMES:
            yield self._mistakes_of_times(name)
        yield self._mistakes_of_week()

    def _mistakes_of_times(self, name: str) -> Mistakes:
        times = getattr(self, name)
        try:
            spans_of(times or [])
        except InputError:
            yield name, f"is {show(times)}; expected {TIMES}"

    def _mistakes_of_week(self) -> Mistakes:
        try:
            minutes = self.weekly.minutes
        except InputError:
            return  # each day reports its own times
        if not minutes:
            yield "", "has no day on which anybody works; expected at least one"

    @property
    def weekly(self) -> WeeklyHours:
        """The hours of an ordinary week."""
        return WeeklyHours.from_names({name: times for name in NAMES if (times := getattr(self, name)) is not None})


class StaffTable(Table):
    """[staff]: working hours, holidays and the daily cap of the people who make nudges."""

    timezone: str | None = Field(default=None, description=ZONE)
    hours: HoursTable | None = Field(
        default=None, description="a table such as { weekdays = ['09:00', '17:00'], saturday = ['10:00', '13:00'] }"
    )
    holidays: list[Date] = Field(default=[], description="a list of dates, such as ['2026-12-25', '2027-01-01']")
    per_day: int | None = Field(default=None, ge=1, description="a whole number >= 1, the most nudges per day of staff")

    def mistakes(self) -> Mistakes:
        """The time zone must be known."""
        if self.timezone is not None and not known_zone(self.timezone):
            yield "timezone", f"is {self.timezone!r}; expected {ZONE}"


QUIET = "start and end, such as ['20:00', '08:00']"


def quiet_minutes(times: list[str]) -> tuple[int, int] | None:
    """Quiet hours in minutes after midnight; None if they are not two different times of day."""
    try:
        start, end = (minutes_of(text) for text in times)
    except (InputError, ValueError):
        return None
    return None if start == end else (start, end)


class ArmTable(Table):
    """An arm of the trial: its share and its policy."""

    share: int = Field(ge=1, le=1000, description="a whole number >= 1, the arm's share of each block")
    policy: Words | None = Field(
        default=None, description="the name or kind of one of [[policies]], or 'never' for an arm without nudges"
    )
    recommender: Words | None = Field(default=None, description="the name of a recommender, such as 'random'")
    action: Words | None = Field(
        default=None, description="the name of an action in [study], for recommender = 'fixed'"
    )
    label: Words | None = Field(default=None, description="a text, shown to people instead of the arm's name")


class ArmsTable(Table):
    """[arms]: the arms to which participants are randomised, in permuted blocks."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ArmTable]

    block: Annotated[int, Field(ge=2, le=1000)] | None = Field(
        default=None, description="a whole number from 2 to 1000, the participants in a permuted block"
    )
    strata: list[Words] = Field(
        default=[], description="a list of variables in baseline of [participants], each with blocks of its own"
    )

    def mistakes(self) -> Mistakes:
        """A block must fit the shares, and strata must be different."""
        yield self._mistakes_of_block()
        yield self._mistakes_of_strata()

    def _mistakes_of_block(self) -> Mistakes:
        shares = sum(arm.share for arm in self.named.values())
        if self.block is not None and shares and self.block % shares:
            yield "block", f"is {self.block}, and shares sum to {shares}; expected a multiple of {shares}"

    def _mistakes_of_strata(self) -> Mistakes:
        if len(set(self.strata)) < len(self.strata):
            yield "strata", f"is {show(self.strata)}; expected different names"

    @property
    def named(self) -> dict[str, ArmTable]:
        """The arms by name, in the order of the file."""
        return dict(self.__pydantic_extra__)

    @property
    def block_size(self) -> int:
        """The participants in a permuted block; by default twice the sum of shares."""
        return self.block or 2 * sum(arm.share for arm in self.named.values())

    def block_of_arms(self) -> list[str]:
        """The arms of one block before permutation."""
        times = self.block_size // sum(arm.share for arm in self.named.values())
        return [name for name, arm in self.named.items() for _ in range(arm.share * times)]


class ProbabilitiesTable(Table):
    """[probabilities]: least probabilities of actions and nudges, so that their effects can be estimated."""

    actions: float | None = Field(
        default=None,
        ge=0.0,
        le=0.5,
        description="a number from 0 (off) to 0.5, the least probability of every allowed action",
        json_schema_extra={"$comment": "default when served, with `schema = 1`: 4 / `horizon`, from 0.01 to 0.1"},
    )
    nudge: float | None = Field(
        default=None,
        ge=0.0,
        le=0.5,
        description="a number from 0 (off) to 0.5, the least probability of a nudge, and of none, at candidate moments",
        json_schema_extra={"$comment": "default when served, with `schema = 1`: `0.2`"},
    )


class LearningTable(Table):
    """[learning]: how often models are updated."""

    update: Literal["each reward", "day", "week"] = Field(
        default="each reward", description="'each reward', 'day' or 'week', how often the model is updated"
    )
    pooling: Literal["day", "week"] = Field(
        default="day", description="'day' or 'week', how often the common model is updated"
    )


class PriorEffect(Table):
    """[prior]: the prior distribution of a term's effect."""

    mean: float = Field(description="a number")
    sd: float = Field(gt=0.0, description="a number > 0, the prior standard deviation")
