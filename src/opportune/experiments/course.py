"""The course of a reproduction: which experiment is run when, and by which of two processes."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
from rich.progress import Progress, TaskID

from opportune.experiments.base import Experiment, Planned
from opportune.experiments.running import Running
from opportune.experiments.second import Done, Second
from opportune.experiments.writer import Writer, told


def chains(todo: Sequence[Planned]) -> list[list[Planned]]:
    """Experiments in the order in which they are run, those together that share runs: what takes longest comes first.

    So two processes that take them one by one are done at about the same time.
    """
    named = {experiment.name: (experiment, config) for experiment, config in todo}
    chained: dict[str, list[Planned]] = {}
    for planned in sorted(todo, key=lambda planned: len(_before(planned[0], named))):
        first = [planned[0].name, *_before(planned[0], named)][-1]
        chained.setdefault(first, []).append(planned)
    return sorted(chained.values(), key=lambda chain: -sum(experiment.seconds for experiment, _ in chain))


def _before(experiment: Experiment, named: Mapping[str, Planned]) -> list[str]:
    """The experiments that this one comes after, of those that are run, the nearest first."""
    before = []
    while experiment.after in named:
        before.append(experiment.after)
        experiment, _ = named[experiment.after]
    return before


class Course:
    """Experiments on their way: run and written by this process and a second one, which take them in turn.

    That is if simulations run `here`, on cores of this machine. Where they run elsewhere, on a GPU or on workers, this
    process has them run and the other only writes.
    """

    def __init__(
        self, progress: Progress, whole: TaskID, todo: list[list[Planned]], out: Path, force: bool, *, here: bool
    ) -> None:  # fmt: skip
        self.progress, self.whole, self.out, self.force, self.here = progress, whole, out, force, here
        self.todo = deque(todo)
        self.cores: int = numba.get_num_threads()
        self.shares = (self.cores + 1) // 2, self.cores // 2
        self.idle = False  # this process has nothing more to do

    def run(self) -> None:
        """Run and write all of them."""
        experiments = sum(map(len, self.todo))
        if not self.todo:
            return
        with ExitStack() as stack:
            mine = deque([self.todo.popleft()])
            second = None
            if self.here and self.todo and self.cores > 1:
                second = stack.enter_context(
                    Second(self.todo, out=self.out, force=self.force, threads=self._share, report=self._report)
                )
            aside = not self.here and experiments > 1 and self.cores > 1
            writer = stack.enter_context(Writer(self.progress.console, aside=aside))
            try:
                self._work(mine, second, writer)
            finally:
                numba.set_num_threads(self.cores)
            self.progress.update(self.whole, description="writing")

    def _share(self) -> int:
        """How many threads the second process may use."""
        return self.cores if self.idle else self.shares[1]

    def _work(self, mine: deque[list[Planned]], second: Second | None, writer: Writer) -> None:
        while True:
            try:
                chain = (mine or self.todo).popleft()
            except IndexError:
                if second is None or second.work.done():
                    return
                self.idle = True
                second.finish()  # puts back what it had, should it be lost
                self.idle = False
                continue
            for experiment, config in chain:
                self._run(experiment, config, second, writer)

    def _run(self, experiment: Experiment, config: dict[str, Any], second: Second | None, writer: Writer) -> None:
        running = Running(experiment, config, self.out, self.force, self._tell)
        for task in experiment.tasks(config):
            alone = second is None or second.work.done()
            numba.set_num_threads(self.cores if alone else self.shares[0])
            self.progress.update(self.whole, description=f"{experiment.name}: {task}")
            running.run(task)
            self.progress.advance(self.whole)
            writer.poll()
            if second is not None:
                second.poll()
        writer.write(running.ran())

    def _report(self, _: Experiment, task: str | None, done: Done) -> None:
        """What the second process has done."""
        for text in done.said:
            self._tell(text)
        if task is not None:
            self.progress.advance(self.whole)
        if done.record is not None:
            self.progress.console.print(told(done.record))

    def _tell(self, text: str) -> None:
        self.progress.console.print(text, soft_wrap=True, markup=False)
