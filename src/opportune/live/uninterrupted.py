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

_waits = False  # whether a call is under way that Ctrl-C waits for; the main thread alone reads and writes it

# The C functions below those of `signal`, which turn numbers into enums: that takes longer than a decision.
_signal: Any = sys.modules.get("_signal", signal)


def uninterrupted(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator: an interrupt that comes meanwhile is handled when the call has ended.

    Python hands interrupts to the main thread only, so in other threads nothing need be done; nor where interrupts are
    ignored, end the process at once, or are not handled by Python.
    """

    @functools.wraps(call)
    def whole(*given: Given.args, **named: Given.kwargs) -> Result:
        global _waits  # noqa: PLW0603  (signals are the process's)
        if _waits or threading.current_thread() is not threading.main_thread():
            return call(*given, **named)
        before = _signal.getsignal(signal.SIGINT)
        if not callable(before):
            return call(*given, **named)
        came: list[tuple[int, FrameType | None]] = []
        _signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
        _waits = True
        try:
            return call(*given, **named)
        finally:
            _waits = False
            _signal.signal(signal.SIGINT, before)
            if came:
                before(*came[-1])

    return whole
