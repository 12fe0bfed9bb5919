"""Real processes for tests of signals: started like a command at a terminal, and followed with all they start."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

# Whoever runs the tests may ignore Ctrl-C, and a process inherits that.
HEAR = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
COMMAND = "from opportune.cli.main import main; main()"
MARK = "OPPORTUNE_TEST_MARK"

STUDY = """
[study]
name = "tiny"
horizon = 100
replicates = 40
actions = ["none", "call"]
budgets = [4]

[variables.stress]
range = [1, 3]

[reward]
formula = "action*stress"
noise_sd = 0.2

[effects]
"*" = 0.5

[[policies]]
kind = "PD2"
"""
"""A small study file, with traces of every step."""

needs_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


class Started:
    """A process in a session of its own; whatever it leaves behind is ended at the end."""

    def __init__(self, code: str, *arguments: str, cwd: Path, hearing: bool = True, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self.errors = cwd / f"errors-{self.mark[:6]}.txt"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", (HEAR if hearing else "") + code, *arguments],
                cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                env={**os.environ, **environment, MARK: self.mark},
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def alive(self) -> list[int]:
        """The process and those that it started, as many as are left."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended, or is another user's
        return found

    def until(self, what: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait until something is so while this process runs."""
        end = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, f"it ended early: {self.said()}"
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.01)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the process and those that it started in its group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self, within: float) -> int:
        """The exit code; fails if it takes longer, or if a process is left behind."""
        code = self.process.wait(timeout=within)
        end = time.monotonic() + 2.0
        while self.alive() and time.monotonic() < end:
            time.sleep(0.02)
        assert not self.alive(), "it left a process behind"
        return code

    def said(self) -> list[str]:
        """The lines on standard error."""
        return self.errors.read_text(encoding="utf-8").splitlines()
