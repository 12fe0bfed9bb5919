"""Weekly staff hours, in minutes after midnight."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opportune.errors import InputError

DAY = 24 * 60
"""Minutes in a day."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
GROUPS = {"every_day": range(7), "weekdays": range(5), "weekend": range(5, 7)}
"""Names for several weekdays. A weekday's own name overrides them, and a smaller group overrides a larger one."""
NAMES = (*GROUPS, *WEEKDAYS)
EXPECTED_TIMES = "start and end, such as ['09:00', '17:00'], or several such pairs in order"

Spans = tuple[tuple[int, int], ...]
"""Pairs of start and end in minutes after midnight; 24:00 is 1440. The end is excluded."""


def minutes_of(text: str) -> int:
    """A time of day in minutes after midnight; '24:00' is the end of the day."""
    if text == "24:00":
        return DAY
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise InputError(f"{text!r} is not a time of day; expected one such as '09:00'")
    return int(text[:2]) * 60 + int(text[3:])


def spans_of(times: Sequence[str]) -> Spans:
    """Times such as ['09:00', '12:00', '13:00', '17:00'] as spans; an empty list is a day off."""
    minutes = [minutes_of(text) for text in times]
    if len(minutes) % 2 or any(a >= b for a, b in itertools.pairwise(minutes)):
        raise InputError(f"{list(times)} are not in order or not in pairs; expected {EXPECTED_TIMES}")
    return tuple(zip(minutes[::2], minutes[1::2], strict=True))


@dataclass(frozen=True)
class WeeklyHours:
    """Staff hours in an ordinary week: spans by weekday, Monday first. A day without spans is a day off."""

    days: tuple[Spans, ...]

    @classmethod
    def from_names(cls, hours: Mapping[str, Sequence[str]]) -> "WeeklyHours":
        """Build hours from names: `{"weekdays": ["09:00", "17:00"], "saturday": ["10:00", "13:00"]}`."""
        days: list[Spans] = [()] * 7
        for name, times in sorted(hours.items(), key=lambda item: NAMES.index(item[0])):
            for weekday in GROUPS.get(name) or (WEEKDAYS.index(name),):
                days[weekday] = spans_of(times)
        return cls(tuple(days))

    @property
    def minutes(self) -> int:
        """The minutes worked in an ordinary week."""
        return sum(end - start for spans in self.days for start, end in spans)
