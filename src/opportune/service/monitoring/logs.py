"""Logs: lines of JSON on standard error that say what happened but never name a participant."""

import contextlib
import logging
import sys
import threading
import time
import traceback

import structlog

EVERY_SECONDS = 60.0
"""The least time between two equal lines."""
MOST_KINDS = 1000
_lock = threading.Lock()
_logged: dict[tuple[str, ...], tuple[float, int]] = {}
log = structlog.get_logger()


class _StandardError:
    """Prints to the current standard error. If that is closed or full, decisions must still be made."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def log_as_json(*, least: int = logging.INFO) -> None:
    """Log as lines of JSON from now on, from a level on."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=lambda *_names: _StandardError(),
        wrapper_class=structlog.make_filtering_bound_logger(least),
    )


def described(error: BaseException) -> dict[str, str]:
    """The kind and place of an error; its message may contain a participant's data and is left out."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    return {"error": type(error).__name__, "where": where}


def log_sparingly(event: str, **values: str) -> None:
    """Log an error that may occur thousands of times once a minute, with the number of lines left out."""
    key, now = (event, *values.values()), time.monotonic()
    with _lock:
        last, left_out = _logged.get(key, (-EVERY_SECONDS, 0))
        due = now - last >= EVERY_SECONDS
        _logged[key] = (now, 0) if due else (last, left_out + 1)
        if len(_logged) > MOST_KINDS:
            _logged.clear()
    if due:
        log.error(event, **values, **({"not_logged": left_out} if left_out else {}))
