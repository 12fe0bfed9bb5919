"""Calls that happen wholly or not at all: Ctrl-C waits until an agent is whole again."""

import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

# The C function below signal.signal, which turns numbers into enums: that takes longer than a decision.
_set_handler: Callable[..., Any] = sys.modules.get("_signal", signal).signal
_waits = False  # whether a call is under way that Ctrl-C waits for; the main thread alone reads and writes it


def uninterrupted(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator: an interrupt that comes meanwhile is raised when the call has ended.

    Python hands interrupts to the main thread only, so in other threads nothing need be done.
    """

    @functools.wraps(call)
    def whole(*given: Given.args, **named: Given.kwargs) -> Result:
        global _waits  # noqa: PLW0603  (signals are the process's)
        if _waits or threading.current_thread() is not threading.main_thread():
            return call(*given, **named)
        came: list[tuple[int, FrameType | None]] = []
        before = _set_handler(signal.SIGINT, lambda number, frame: came.append((number, frame)))
        _waits = True
        try:
            return call(*given, **named)
        finally:
            _waits = False
            _set_handler(signal.SIGINT, signal.SIG_DFL if before is None else before)
            if came and callable(before):
                before(*came[-1])

    return whole
