"""How a command ends: soon after Ctrl-C, at once after the second, and quietly if its output is closed."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from opportune.cli.shared import FAILED, INTERRUPTED, Interrupted
from opportune.errors import WriteError

PATIENCE = 2.0  # seconds in which a command must respond to the first Ctrl-C
AGAIN = 0.02  # seconds after which Ctrl-C is raised again if LLVM would have swallowed it
LLVM = "llvmlite.binding.executionengine"
_NOTHING = "nothing was written"
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


class _Listener:
    """Handles Ctrl-C, and knows what to report if the command cannot."""

    def __init__(self) -> None:
        self.kept = _NOTHING
        self.heard = False
        self.timer: threading.Timer | None = None

    def hear(self, _number: int, frame: FrameType | None) -> None:
        if self.heard:
            self.end()
        if _called_back(frame):
            again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
            return
        self.heard = True
        self.timer = threading.Timer(PATIENCE, self.end)
        self.timer.daemon = True
        self.timer.start()
        raise KeyboardInterrupt

    def answered(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def end(self) -> None:
        """End the process and its children now; files are complete or absent, so nothing breaks."""
        for process in _started_by(os.getpid()):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        shown = _SHOW_CURSOR if sys.stderr is not None and sys.stderr.isatty() else ""
        with suppress(OSError):  # standard error is closed
            os.write(2, f"{shown}\nopportune: interrupted: {self.kept}\n".encode(errors="replace"))
        os._exit(INTERRUPTED)


def _called_back(frame: FrameType | None) -> bool:
    """Whether LLVM is calling Python: an exception raised there would be printed and lost."""
    while frame is not None and frame.f_globals.get("__name__") != LLVM:
        frame = frame.f_back
    return frame is not None


def _started_by(process: int) -> list[int]:
    """The process's descendants; none on systems without /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found = children.get(process, []).copy()
    for child in found:  # grows as it goes
        found += children.get(child, [])
    return found


_listener = _Listener()


def listen() -> None:
    """Handle Ctrl-C from now on, unless this process was started to ignore it, as by nohup."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _listener.hear)


def answered() -> None:
    """Note that the command responds to Ctrl-C and saves what is finished: it may take its time, until the second."""
    _listener.answered()


def leave(code: int) -> None:
    """Exit with a code; after Ctrl-C, without waiting for other work, such as a compilation."""
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:  # a closed pipe or a full disk: Python would try to flush again at exit, and complain
        os._exit(code or FAILED)
    if code == INTERRUPTED:
        os._exit(code)
    sys.exit(code)


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Report what was kept if the block is interrupted by Ctrl-C, or if a file cannot be written."""
    before, _listener.kept = _listener.kept, what
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(what) from None
    except WriteError as error:
        raise WriteError(f"{error}; {what}") from error
    _listener.kept = before
