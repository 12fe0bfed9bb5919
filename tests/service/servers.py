"""Servers as processes of their own, which can be killed: a parent that has loaded everything forks them in no time."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

HERE = Path(__file__).parent


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Parent:
    """A process that has imported and compiled everything, and forks servers."""

    def __init__(self, *options: str) -> None:
        self.log = Path(os.environ.get("TEST_SERVER_LOG", os.devnull)).open("ab")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "forking.py"), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.running: set[int] = set()
        assert self._line() == "loaded"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, url: str, port: int) -> int:
        """Fork a server; hands back its process number once it is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{port} {url}\n")
        self._process.stdin.flush()
        pid = int(self._line())
        self.running.add(pid)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                    return pid
            time.sleep(0.02)
        raise AssertionError("the server did not become ready")

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """End a server, by default at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        self.running.discard(pid)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.005)
        raise AssertionError("the server did not end")

    def close(self) -> None:
        """End everything."""
        for pid in list(self.running):
            self.kill(pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.log.close()


@contextlib.contextmanager
def parent(*options: str) -> Iterator[Parent]:
    """A parent of servers, while this lasts."""
    found = Parent(*options)
    try:
        yield found
    finally:
        found.close()
