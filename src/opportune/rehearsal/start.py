"""Checks before a rehearsal begins: the service answers, is in rehearsal, and serves this study."""

import datetime as dt
import re
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from opportune.client import Client, ServiceError, Unreachable
from opportune.errors import InputError
from opportune.service.state.study import StudyInForce

MOST_SPEED = 100_000.0


def speed_of(text: str) -> float | None:
    """Seconds of study time per second, from "60x"; None for "max", full speed."""
    if text == "max":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x", text)
    factor = float(found[1]) if found else 0.0
    if not 0.0 < factor <= MOST_SPEED:
        raise InputError(f"--speed is {text!r}; expected max, or a factor such as 60x: a minute passes in a second")
    return factor


def address_of(text: str) -> str:
    """Check the address of a service."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isprintable() or " " in text:
        raise InputError(f"--url is {text!r}; expected the address of a service, such as http://127.0.0.1:8000")
    return text.rstrip("/")


def check_size(running: StudyInForce, *, people: int, days: int) -> None:
    """Refuse more participants than are planned, and impossible numbers of days."""
    if not 1 <= people <= running.participants:
        planned = f"[participants] planned = {running.participants}"
        raise InputError(f"--participants is {people}; expected a whole number from 1 to {planned} in the study file")
    if not 1 <= days <= 3660:
        raise InputError(f"--days is {days}; expected a whole number from 1 to 3660")


def enter(client: Client, address: str, running: StudyInForce) -> dict[str, Any]:
    """The service's study, if this rehearsal may begin there; raises `InputError` with the reason if not."""
    attempts, client.attempts = client.attempts, 1
    try:
        found = client.get("study")
    except Unreachable as error:
        begin = f"opportune serve {running.study.source} --rehearsal"
        raise InputError(f"no service answers at {address}; expected one that was started with {begin}") from error
    except ServiceError as refused:
        if refused.status == 401:
            text = (
                "the service does not know this key; expected one of role admin (opportune keys add NAME --role admin)"
            )
            raise InputError(text) from refused
        raise InputError(f"{address} does not answer as a service of Opportune ({refused.status})") from refused
    except ValueError as error:
        raise InputError(f"{address} does not answer as a service of Opportune") from error
    finally:
        client.attempts = attempts
    if not found.get("rehearsal"):
        raise InputError(f"the service at {address} is not in rehearsal; expected one started with --rehearsal")
    if found["role"] != "admin":
        text = f"the key's role is {found['role']!r}; expected admin, which may act for apps and staff in a rehearsal"
        raise InputError(text)
    if found["hash"] != running.hash:
        text = f"the service at {address} serves another study file ({found['study']}, {found['hash'][:12]})"
        raise InputError(f"{text} than {running.study.source} ({running.hash[:12]}); expected the same")
    if found["status"] != "open":
        raise InputError(f"the study at {address} is {found['status']}; expected an open one")
    return found


def first_day(now: dt.datetime, running: StudyInForce) -> dt.date:
    """The first day of a rehearsal that begins now: tomorrow in the study's time zone."""
    return now.astimezone(ZoneInfo(running.timezone)).date() + dt.timedelta(days=1)
