"""Finding what there is in experiments' results, and writing it; by a process beside the one that runs them.

Since files are whole or not there, that process may end at any moment.
"""

import shutil
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Self

from rich.console import Console

from opportune.analysis.plots import save_figure
from opportune.analysis.results import save
from opportune.experiments.beside import Beside, Gone
from opportune.experiments.claims import Verdict
from opportune.experiments.found import Ran, put_together
from opportune.experiments.record import Record, write_record
from opportune.files import digest_of

GRACE = 1.0  # seconds for what is being written when something goes wrong, or Ctrl-C comes


class Writer:
    """Writes what experiments found; `aside`, in a process of its own while this one runs the next experiment.

    At the end this process helps with what is waiting. After an error or Ctrl-C, what is being written has a moment to
    be finished; what is waiting is not begun.
    """

    def __init__(self, console: Console, *, aside: bool) -> None:
        self.console = console
        self.aside = aside
        self.ended = False
        self.waiting: dict[Future[Record], Ran] = {}

    def __enter__(self) -> Self:
        if self.aside:
            self.other = Beside(__name__, write.__name__)
            self.thread = ThreadPoolExecutor(1)  # hands over and waits
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
            else:
                wait([f for f in self.waiting if not f.cancel()], timeout=GRACE)
        finally:
            self.ended = True
            if self.aside:
                self.other.end()
                self.thread.shutdown(cancel_futures=True)  # nothing is there to wait for any more
                self.other.close()

    def write(self, ran: Ran) -> None:
        """Write an experiment's files, or have them written aside."""
        if self.aside:
            self.waiting[self.thread.submit(self._hand_over, ran)] = ran
        else:
            self._tell(write(ran))

    def _hand_over(self, ran: Ran) -> Record:
        """Have an experiment's files written by the other process; if that is gone, write them here."""
        try:
            record: Record = self.other.call(ran)
        except Gone:
            if self.ended:
                raise
            return write(ran)
        return record

    def poll(self) -> None:
        """Say what has been written since the last time; an error there is raised here."""
        for future in [f for f in self.waiting if f.done()]:
            del self.waiting[future]
            self._tell(future.result())

    def _finish(self) -> None:
        """Write what has not been begun, the last first, and wait for the rest."""
        for future, ran in reversed(list(self.waiting.items())):
            if future.cancel():
                del self.waiting[future]
                self._tell(write(ran))
        wait(self.waiting)
        self.poll()

    def _tell(self, record: Record) -> None:
        self.console.print(told(record))


def write(ran: Ran) -> Record:
    """Write what was found: NAME.nc, the figures and, last, NAME.json, which is returned; then drop tasks' results."""
    found = put_together(ran)
    names = [save(found.data, ran.out / f"{ran.name}.nc").name]
    for picture in found.pictures:
        names += save_figure(picture.figure, ran.out, picture.name)
    record = found.record.model_copy(update={"files": {file: digest_of(ran.out / file) for file in names}})
    write_record(record, ran.out / f"{ran.name}.json")
    shutil.rmtree(ran.kept, ignore_errors=True)
    return record


def told(record: Record) -> str:
    """That an experiment is written, in words."""
    return f"{record.experiment}: done in {record.seconds:.1f} s ({score(record)})"


def score(record: Record) -> str:
    """How many claims held, in words."""
    held = sum(claim.verdict is Verdict.HELD for claim in record.claims)
    return f"{held} of {len(record.claims)} claims held"
