"""Logs: lines of JSON on standard error that say what happened, and never to whom."""

import contextlib
import logging
import sys
import traceback

import structlog


class _StandardError:
    """Prints to standard error as it is then. One that is closed or full must not keep anything from being decided."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def log_as_json() -> None:
    """Log from now on as lines of JSON."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=lambda *_names: _StandardError(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


def described(error: BaseException) -> dict[str, str]:
    """An error by its kind and its place; its message may hold what a participant has told, and stays out."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    return {"error": type(error).__name__, "where": where}
