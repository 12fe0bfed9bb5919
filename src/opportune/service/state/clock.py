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
"""How far clocks may be apart; what is dated further ahead was written while the clock was wrong."""
_NO_PLACES = {"localtime", "posixrules", "Factory"}
"""Names that mean another zone on another machine, or none at all."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = (moment.replace(tzinfo=dt.UTC) - _EPOCH for moment in (dt.datetime.min, dt.datetime.max))
_NAIVE = dt.datetime(1970, 1, 1)  # the same, for arithmetic in UTC alone


def now() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


def iso(moment: int) -> str:
    """A time as the record writes it: 2026-03-29T01:30:00.000000Z."""
    seconds, rest = divmod(moment, MICROSECONDS)
    return f"{_to_the_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    return (_NAIVE + dt.timedelta(seconds=seconds)).isoformat()


def from_iso(text: str) -> int:
    """The time that `iso` wrote."""
    return from_datetime(dt.datetime.fromisoformat(text))


def from_datetime(moment: dt.datetime) -> int:
    """An aware time in microseconds since 1970."""
    if moment.tzinfo is None:
        raise InputError(f"the time {moment.isoformat()} has no time zone; expected one, such as 2026-03-29T09:00:00Z")
    since = moment - _EPOCH
    if not _FIRST <= since <= _LAST:
        raise InputError(f"the time {moment.isoformat()} is not in the years 1 to 9999 in UTC; expected one that is")
    return (since.days * 86_400 + since.seconds) * MICROSECONDS + since.microseconds


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InputError(f"timezone is {name!r}; expected an IANA name, such as 'Europe/Berlin'") from None


def check_zone(name: str) -> None:
    """Refuse a time zone that is none, or is another one on another machine."""
    if name in _NO_PLACES:
        raise InputError(f"timezone is {name!r}; expected that of a place, such as 'Europe/Berlin'")
    zone(name)


def local(moment: int, timezone: str) -> dt.datetime:
    """A time as the participant's clock shows it."""
    return (_EPOCH + dt.timedelta(microseconds=moment)).astimezone(zone(timezone))
