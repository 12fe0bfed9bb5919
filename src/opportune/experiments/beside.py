"""A process beside this one that does one kind of work, and ends with the one that started it.

It is an interpreter of its own, which imports what the work needs and nothing of its caller's: scripts need no guard.
It hears of its caller through a pipe: if the caller is gone, however that came, it ends at once, whatever it is doing.
Ctrl-C at the terminal does not reach it. This module imports little, so that it listens from the beginning.
"""

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, Any

from opportune.errors import OpportuneError

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from opportune.experiments.beside import serve; serve()"
)
_LENGTH = 8  # bytes


class Gone(Exception):  # noqa: N818  (not for callers' callers)
    """The process is gone."""


class Beside:
    """The process, seen from the one that started it: does `function` of `module`, one thing at a time."""

    def __init__(self, module: str, function: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), module, function],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def call(self, argument: Any) -> Any:
        """The function's result; an error there is raised here, and `Gone` if the process is no more."""
        try:
            _send(self.process.stdin, pickle.dumps(argument))
            done, result = pickle.loads(_receive(self.process.stdout))
        except (OSError, EOFError):
            raise Gone from None
        if not done:
            raise result
        return result

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let go of the process's pipes, when nobody waits at them."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # what a process that is gone was still to be told
                    stream.close()


_early: dict[tuple[str, str], Beside] = {}


@contextmanager
def early(module: str, function: str) -> Iterator[None]:
    """Start a process for whoever will ask for it (`beside`): it imports what it needs while this one does so."""
    _early[module, function] = Beside(module, function)
    try:
        yield
    finally:
        unused = _early.pop((module, function), None)
        if unused is not None:
            unused.end()
            unused.close()


def beside(module: str, function: str) -> Beside:
    """A process that does this, which may have been started already."""
    return _early.pop((module, function), None) or Beside(module, function)


def serve() -> None:
    """Do what is asked for and answer, for as long as the caller is there."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not come between answers
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, inbox), daemon=True).start()
    function = getattr(import_module(sys.argv[2]), sys.argv[3])
    while True:
        try:
            answer = (True, function(pickle.loads(inbox.get())))
        except Exception as error:
            if not isinstance(error, OpportuneError):  # whose sentence says it all
                error.add_note(traceback.format_exc())  # else nobody would learn where it went wrong
            answer = (False, error)
        _send(answers, _packed(answer))


def _listen(caller: IO[bytes], inbox: "queue.SimpleQueue[bytes]") -> None:
    """Take in what the caller sends; end this process when there is nothing more to come."""
    try:
        while True:
            inbox.put(_receive(caller))
    finally:
        os._exit(0)


def _packed(answer: tuple[bool, Any]) -> bytes:
    try:
        packed = pickle.dumps(answer)
        pickle.loads(packed)  # some errors can be packed but not unpacked
    except Exception:
        packed = pickle.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
    return packed


def _send(stream: IO[bytes] | None, content: bytes) -> None:
    assert stream is not None
    stream.write(len(content).to_bytes(_LENGTH, "little") + content)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    head = stream.read(_LENGTH)
    content = stream.read(int.from_bytes(head, "little"))
    if len(head) < _LENGTH or len(content) < int.from_bytes(head, "little"):
        raise EOFError
    return content
