"""Tables for people and live studies: actions, nudges, participants, schedule, REDCap and serving."""

import re
from datetime import time
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from opportune.study.base import PASS_WRONG, Mistakes, Table, refuse, show
from opportune.study.trial import DATE, QUIET, ZONE, Date, HoursTable, Words, known_zone, quiet_minutes
from opportune.study.variables import Weekdays, good_levels

_TIMES = "a list of times of day in order, such as ['09:00', '18:30']"


class ActionTable(Table):
    """[actions.NAME]: an action's label and description, and when it is forbidden."""

    label: Words | None = Field(default=None, description="a text, shown to people")
    description: Words | None = Field(default=None, description="a text for staff and reports")
    never_if: Words | None = Field(
        default=None, description="a condition, such as 'pain == \"strong\" or day < 3', under which it is forbidden"
    )
    when_unknown: Literal["forbid", "allow"] | None = Field(
        default=None, description="'forbid' or 'allow', for moments at which something in never_if is unknown"
    )

    def mistakes(self) -> Mistakes:
        """`when_unknown` needs a condition."""
        if self.when_unknown is not None and self.never_if is None:
            yield "when_unknown", "has when_unknown without never_if; expected a condition with it"


class NudgeTable(Table):
    """[nudge]: the word for a nudge, its duration, its limits and its answer window."""

    name: Words = Field(default="nudge", description="a word for one nudge, such as 'call'")
    plural: Words | None = Field(default=None, description="the word for several, such as 'calls'")
    minutes: float | None = Field(default=None, gt=0.0, description="a number > 0, the minutes of staff time per nudge")
    per_day: int | None = Field(default=None, ge=1, description="a whole number >= 1, the most nudges per day")
    answer_minutes: float = Field(
        default=120.0,
        gt=0.0,
        le=10_080.0,
        description="a number above 0 and up to 10080, the minutes an answer may take",
    )
    quiet: list[str] | None = Field(default=None, description=f"{QUIET}, by the participant's clock")
    per_week: int | None = Field(
        default=None, ge=1, le=1000, description="a whole number >= 1, the most for one person in any seven days"
    )
    least_hours_between: float | None = Field(
        default=None, gt=0.0, le=8760.0, description="a number > 0, the least hours between two for the same person"
    )
    least_window: float = Field(
        default=15.0,
        ge=0.0,
        le=1440.0,
        description="a number from 0 to 1440, the shortest answer window in minutes",
    )

    def mistakes(self) -> Mistakes:
        """Quiet hours must be two times of day."""
        if self.quiet is not None and quiet_minutes(self.quiet) is None:
            yield "quiet", f"is {show(self.quiet)}; expected {QUIET}"

    @property
    def several(self) -> str:
        """The plural of the word for a nudge."""
        return self.plural or f"{self.name}s"


def is_range(values: list[Any]) -> bool:
    """Whether a baseline variable is a number in a range: two numbers are the ends of a range."""
    return len(values) == 2 and not any(isinstance(value, str) for value in values)


def _check_baseline(values: list[Any]) -> list[Any]:
    """Validate the levels or the range of a baseline variable."""
    if not good_levels(values) or (is_range(values) and values[0] >= values[1]):
        raise refuse("", f"is {show(values)}; expected a list of different levels, or [lowest, highest]")
    return values


class ParticipantsTable(Table):
    """[participants]: their number, when they begin, how many leave early, and what is known at enrolment."""

    planned: int | None = Field(
        default=None, ge=1, le=1_000_000, description="a whole number from 1 to 1000000, the number of participants"
    )
    enrolment_days: int = Field(
        default=1, ge=1, le=36_500, description="a whole number >= 1, the days over which participants begin"
    )
    dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="a number from 0 to less than 1, the share of participants who leave early",
    )
    first_day: Date | None = Field(default=None, description=f"{DATE}, on which the first participants begin")
    baseline: dict[str, Annotated[list[Any], AfterValidator(_check_baseline), PASS_WRONG]] = Field(
        default={}, description="a table of variables known at enrolment, such as { site = ['A', 'B'], age = [18, 90] }"
    )


class ScheduleTable(Table):
    """[schedule]: the times of decisions, in participants' local time."""

    times: Annotated[list[str], Field(min_length=1)] | None = Field(default=None, description=_TIMES)
    timezone: str = Field(default="UTC", description=ZONE)
    first: Weekdays | None = Field(default=None, description="the weekday on which the study begins, such as 'Monday'")

    def mistakes(self) -> Mistakes:
        """Times must be in order, and the time zone must be known."""
        yield self._mistakes_of_times()
        yield self._mistakes_of_timezone()

    def _mistakes_of_times(self) -> Mistakes:
        if self.times is not None:
            good = all(re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", moment) for moment in self.times)
            if not good or sorted(set(self.times)) != self.times:
                yield "times", f"is {show(self.times)}; expected {_TIMES}"

    def _mistakes_of_timezone(self) -> Mistakes:
        if not known_zone(self.timezone):
            yield "timezone", f"is {self.timezone!r}; expected {ZONE}"

    @property
    def clock(self) -> list[time]:
        """The times of day; empty if the file has none."""
        return [time.fromisoformat(moment) for moment in self.times or []]


FIELD = "the name of a field in REDCap, of lower case letters, digits and '_'"
RedcapField = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}$")]


class RedcapTable(Table):
    """[redcap]: the REDCap project to which outcomes are written and from which participants are enrolled."""

    url: str = Field(
        pattern=r"^(https://\S+|http://(localhost|127\.0\.0\.1)([:/]\S*)?)$",
        description="the address of REDCap's API, 'https://.../api/'",
    )
    push: list[Literal["participants", "decisions"]] = Field(
        default=["participants", "decisions"],
        description="a list of 'participants' and 'decisions', the records to write",
    )
    enrol: RedcapField | None = Field(
        default=None, description=f"{FIELD}: records in which it is 1 are enrolled, none without it"
    )
    record: RedcapField = Field(default="record_id", description=f"{FIELD}, which names the record")
    event: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")] | None = Field(
        default=None, description="the unique name of an event, such as 'study_arm_1', for longitudinal projects"
    )
    timezone: RedcapField | None = Field(default=None, description=f"{FIELD}, which holds the time zone")
    baseline: dict[str, RedcapField] = Field(
        default={}, description="a table such as { age = 'age_years' }, of fields in REDCap with other names"
    )


class ServeTable(Table):
    """[serve]: the policy that runs live, fallback, alerts and access."""

    policy: Words | None = Field(default=None, description="the name or kind of one of [[policies]]")
    budget: float | None = Field(default=None, gt=0.0, description="a number > 0, for each participant")
    fallback: str | None = Field(default=None, description="the name of an action in [study]")
    silent_hours: float = Field(
        default=24.0, gt=0.0, description="a number > 0, the hours without a decision before an alert"
    )
    nudges_by: Literal["staff", "app"] = Field(
        default="staff", description="'staff' or 'app', who shows nudges to participants"
    )
    second_factor: Literal["admins", "everyone", "nobody"] = Field(
        default="admins", description="'admins', 'everyone' or 'nobody', the people who need a second factor to sign in"
    )
    contact_url: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="an address with {participant}, 'https://.../{participant}', where staff find contact details",
    )
    on_call: HoursTable | None = Field(
        default=None,
        description="a table such as { weekdays = ['09:00', '17:00'] }, when unattended calls are reported",
    )
    unblinded: list[Words] = Field(
        default=[], description="a list of account names, the people who see probabilities and coins"
    )
    app_webhook: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="an address, 'https://...', of the app's server, which gets messages about participants",
    )
    webhook: str | None = Field(
        default=None, pattern=r"^https?://\S+$", description="an address, 'https://...', to which alerts are sent"
    )
    mail: list[Annotated[str, Field(pattern=r"^[^@\s,]+@[^@\s,]+$")]] = Field(
        default=[], description="a list of e-mail addresses to which alerts are sent, such as ['team@example.org']"
    )
    messages: list[Literal["call", "settled"]] = Field(
        default=[], description="a list of 'call' and 'settled', further events to send by webhook and mail"
    )

    def mistakes(self) -> Mistakes:
        """The contact address must contain the participant."""
        if self.contact_url is not None and "{participant}" not in self.contact_url:
            expected = type(self).model_fields["contact_url"].description
            yield "contact_url", f"is {show(self.contact_url)}; expected {expected}"
