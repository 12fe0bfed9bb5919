"""Times: microseconds since 1970 in tables, ISO 8601 in UTC in the record, days by the participant's time zone."""

import datetime as dt
import time
from functools import lru_cache
from zoneinfo import ZoneInfo

from opportune.errors import InputError

MICROSECONDS = 1_000_000
MINUTE = 60 * MICROSECONDS
HOUR = 60 * MINUTE
SLACK = 5 * MINUTE
"""How far two clocks may differ; a date further ahead was written while a clock was wrong."""
_NO_PLACES = {"localtime", "posixrules", "Factory"}
"""Names of zoneinfo files that depend on the machine, or are no time zone."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = (moment.replace(tzinfo=dt.UTC) - _EPOCH for moment in (dt.datetime.min, dt.datetime.max))
_NAIVE = dt.datetime(1970, 1, 1)  # the epoch without a time zone: faster where all is UTC


def now() -> int:
    """The current time, in microseconds since 1970."""
    return time.time_ns() // 1000


def iso(moment: int) -> str:
    """A time as in the record: 2026-03-29T01:30:00.000000Z."""
    seconds, rest = divmod(moment, MICROSECONDS)
    return f"{_to_the_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    return (_NAIVE + dt.timedelta(seconds=seconds)).isoformat()


def from_iso(text: str) -> int:
    """The time, in microseconds since 1970, of ISO 8601 text with a time zone."""
    return from_datetime(dt.datetime.fromisoformat(text))


def from_datetime(moment: dt.datetime) -> int:
    """A `datetime` with a time zone, in microseconds since 1970."""
    if moment.tzinfo is None:
        raise InputError(f"the time {moment.isoformat()} has no time zone; expected one, such as 2026-03-29T09:00:00Z")
    since = moment - _EPOCH
    if not _FIRST <= since <= _LAST:
        raise InputError(f"the time is {moment.isoformat()}; expected a time in the years 1 to 9999 in UTC")
    return (since.days * 86_400 + since.seconds) * MICROSECONDS + since.microseconds


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InputError(f"timezone is {name!r}; expected an IANA name, such as 'Europe/Berlin'") from None


def check_zone(name: str) -> None:
    """Refuse a name that is no time zone, or whose meaning depends on the machine."""
    if name in _NO_PLACES:
        raise InputError(f"timezone is {name!r}; expected the time zone of a place, such as 'Europe/Berlin'")
    zone(name)


def local(moment: int, timezone: str) -> dt.datetime:
    """The local time in a time zone."""
    return (_EPOCH + dt.timedelta(microseconds=moment)).astimezone(zone(timezone))
