"""Logs: lines of JSON on standard error that say what happened, and never to whom."""

import contextlib
import logging
import sys
import threading
import time
import traceback

import structlog

EVERY_SECONDS = 60.0
"""How often the same is logged, however often it happens."""
MOST_KINDS = 1000
_lock = threading.Lock()
_logged: dict[tuple[str, ...], tuple[float, int]] = {}
log = structlog.get_logger()


class _StandardError:
    """Prints to standard error as it is then. One that is closed or full must not keep anything from being decided."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def log_as_json(*, least: int = logging.INFO) -> None:
    """Log from now on as lines of JSON, from some level on."""
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
    """An error by its kind and its place; its message may hold what a participant has told, and stays out."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    return {"error": type(error).__name__, "where": where}


def log_sparingly(event: str, **values: str) -> None:
    """Log an error that may happen thousands of times: once a minute, with how often it was not logged since."""
    key, now = (event, *values.values()), time.monotonic()
    with _lock:
        last, left_out = _logged.get(key, (-EVERY_SECONDS, 0))
        told = now - last >= EVERY_SECONDS
        _logged[key] = (now, 0) if told else (last, left_out + 1)
        if len(_logged) > MOST_KINDS:
            _logged.clear()
    if told:
        log.error(event, **values, **({"not_logged": left_out} if left_out else {}))
