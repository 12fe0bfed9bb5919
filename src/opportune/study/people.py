"""What people need of a study: words for actions and nudges, who takes part, when, and how it is served live."""

import re
from datetime import time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, model_validator

from opportune.study.base import Table, refuse, show
from opportune.study.variables import Weekdays

Words = Annotated[str, Field(min_length=1, max_length=500)]
_TIMES = "a list of times of day in order, such as ['09:00', '18:30']"


class ActionTable(Table):
    """[actions.NAME]: what an action is called where people read it."""

    label: Words | None = Field(default=None, description="a text, what people read")
    description: Words | None = Field(default=None, description="a text for staff and reports")


class NudgeTable(Table):
    """[nudge]: what a nudge is, what it takes and how long an answer is waited for."""

    name: Words = Field(default="nudge", description="a word for one nudge, such as 'call'")
    plural: Words | None = Field(default=None, description="the word for several, such as 'calls'")
    minutes: float | None = Field(default=None, gt=0.0, description="a number > 0, the minutes of staff that one takes")
    per_day: int | None = Field(default=None, ge=1, description="a whole number >= 1, the most that staff can do a day")
    answer_minutes: float = Field(
        default=120.0,
        gt=0.0,
        le=10_080.0,
        description="a number above 0 and up to 10080, the minutes an answer may take",
    )

    @property
    def several(self) -> str:
        """The word for several."""
        return self.plural or f"{self.name}s"


class ParticipantsTable(Table):
    """[participants]: how many there will be, when they begin, and how many leave early."""

    planned: int | None = Field(
        default=None, ge=1, le=1_000_000, description="a whole number from 1 to 1000000, the participants in all"
    )
    enrolment_days: int = Field(
        default=1, ge=1, le=36_500, description="a whole number >= 1, the days over which they begin, evenly"
    )
    dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="a share from 0 to less than 1, of participants who leave before the end",
    )


class ScheduleTable(Table):
    """[schedule]: when decisions are made, in the participants' own time."""

    times: Annotated[list[str], Field(min_length=1)] | None = Field(default=None, description=_TIMES)
    timezone: str = Field(default="UTC", description="a time zone by its IANA name, such as 'Europe/Berlin'")
    first: Weekdays | None = Field(default=None, description="a weekday, on which the study begins, such as 'Monday'")

    @model_validator(mode="after")
    def _check(self) -> "ScheduleTable":
        if self.times is not None:
            good = all(re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", moment) for moment in self.times)
            if not good or sorted(set(self.times)) != self.times:
                raise refuse("times", f"times in [schedule] is {show(self.times)}; expected {_TIMES}")
        try:
            ZoneInfo(self.timezone)
        except (ValueError, OSError, LookupError):
            expected = type(self).model_fields["timezone"].description
            text = f"timezone in [schedule] is {self.timezone!r}"
            raise refuse("timezone", f"{text}; expected {expected}") from None
        return self

    @property
    def clock(self) -> list[time]:
        """The times of day, empty where the file has none."""
        return [time.fromisoformat(moment) for moment in self.times or []]


class ServeTable(Table):
    """[serve]: which of the policies runs live, and what happens when something fails."""

    policy: Words | None = Field(default=None, description="the name or kind of one of [[policies]]")
    budget: float | None = Field(default=None, gt=0.0, description="a number > 0, for each participant")
    fallback: str | None = Field(default=None, description="the name of an action in [study]")
    silent_hours: float = Field(
        default=24.0, gt=0.0, description="a number > 0, the hours without a decision after which there is an alert"
    )
    nudges_by: Literal["staff", "app"] = Field(
        default="staff", description="'staff' or 'app', who shows nudges to participants"
    )
    webhook: str | None = Field(
        default=None, pattern=r"^https?://\S+$", description="an address, 'https://...', that alerts are sent to"
    )
