"""A second process that runs and writes experiments of one list, beside the first: each has half of the cores.

What lies between the compiled parts of tasks, and what is drawn and written, is done by one core; by two processes, two
are busy all the time.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numba

from opportune.experiments import find
from opportune.experiments.base import Experiment, Planned
from opportune.experiments.beside import Gone, beside
from opportune.experiments.record import Record
from opportune.experiments.running import Running
from opportune.experiments.writer import GRACE, write


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the second process is asked for: to run a task with so many threads, or to write what it ran (no task)."""

    name: str
    config: dict[str, Any]
    task: str | None
    out: Path
    force: bool
    threads: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of an order: what is to be told and, if the experiment was written, its record."""

    said: list[str]
    record: Record | None


class Second:
    """The second process, seen from the first: takes experiments from `todo`, one chain after the other.

    `report` is told what goes on there: (experiment, task that is done or None, what came of it). If the process is
    lost, what it had not written is put back. `threads` says how many it may use just now.
    """

    def __init__(
        self, todo: deque[list[Planned]], *, out: Path, force: bool, threads: Callable[[], int],
        report: Callable[[Experiment, str | None, Done], None],
    ) -> None:  # fmt: skip
        self.todo, self.out, self.force, self.threads, self.report = todo, out, force, threads, report
        self.writing = False
        self.ended = False

    def __enter__(self) -> Self:
        self.other = beside(__name__, obey.__name__)
        self.pool = ThreadPoolExecutor(1)  # hands over and waits
        self.work: Future[None] = self.pool.submit(self._drive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
            elif self.writing:
                wait([self.work], timeout=GRACE)
        finally:
            self.ended = True
            self.other.end()
            self.pool.shutdown()  # nothing is there to wait for any more
            self.other.close()

    def poll(self) -> None:
        """Raise here what went wrong there."""
        if self.work.done():
            self.work.result()

    def finish(self) -> None:
        """Wait until the process has nothing more to do."""
        while not self.work.done():
            wait([self.work], timeout=0.1)  # not for good: on Windows Ctrl-C would not be heard
        self.poll()

    def _drive(self) -> None:
        while not self.ended:
            try:
                chain = self.todo.popleft()
            except IndexError:
                return
            while chain:
                try:
                    self._have_done(*chain[0])
                except Gone:
                    if not self.ended:
                        self.todo.appendleft(chain)
                    return
                del chain[0]

    def _have_done(self, experiment: Experiment, config: dict[str, Any]) -> None:
        for task in [*experiment.tasks(config), None]:
            if self.ended:
                return
            self.writing = task is None
            order = Order(
                name=experiment.name, config=config, task=task, out=self.out, force=self.force, threads=self.threads()
            )
            done: Done = self.other.call(order)
            self.writing = False
            self.report(experiment, task, done)


_running: dict[str, Running] = {}  # of the second process: what it is running
_said: list[str] = []


def obey(order: Order) -> Done:
    """Do what is asked for; this is what the second process does."""
    numba.set_num_threads(order.threads)
    running = _running.get(order.name)
    if running is None:
        running = _running[order.name] = Running(find(order.name), order.config, order.out, order.force, _said.append)
    record = None
    if order.task is not None:
        running.run(order.task)
    else:
        record = write(running.ran())
        running.parts.clear()
    said = _said.copy()
    _said.clear()
    return Done(said=said, record=record)
