"""Writing what experiments found: data, figures and, last, the result; by a process beside the one that runs them."""

import json
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import xarray as xr
from rich.console import Console

from opportune.analysis.plots import save_figure
from opportune.analysis.results import save
from opportune.errors import InputError
from opportune.experiments.base import Picture
from opportune.experiments.claims import Verdict
from opportune.experiments.record import Record


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is to be written of an experiment: its files to be, and where its tasks' results are."""

    record: Record
    pictures: list[Picture]
    data: xr.Dataset
    out: Path
    parts: Path


class Writer:
    """Writes what experiments found; `aside`, in a process of its own while this one goes on with the next experiment.

    At the end this process helps with what is waiting. After an error or Ctrl-C what is being written is finished;
    what is waiting is not begun.
    """

    def __init__(self, console: Console, *, aside: bool) -> None:
        self.console = console
        self.waiting: dict[Future[Record], Found] = {}
        self.pool: ProcessPoolExecutor | None = None
        if aside:
            self.pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_ignore_interrupts)

    def __enter__(self) -> Self:
        if self.pool is not None:
            with _deaf():
                self.pool.submit(_get_ready)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self.pool is not None:
                self.pool.shutdown(cancel_futures=True)

    def write(self, found: Found) -> None:
        """Write an experiment's files, or have them written aside."""
        if self.pool is None:
            self._tell(write(found))
        else:
            self.waiting[self.pool.submit(write, found)] = found

    def poll(self) -> None:
        """Say what has been written since the last time; an error there is raised here."""
        for future in [f for f in self.waiting if f.done()]:
            del self.waiting[future]
            self._tell(future.result())

    def _finish(self) -> None:
        """Write what has not been begun, the last first, and wait for the rest."""
        for future, found in reversed(list(self.waiting.items())):
            if future.cancel():
                del self.waiting[future]
                self._tell(write(found))
        wait(self.waiting)
        self.poll()

    def _tell(self, record: Record) -> None:
        self.console.print(f"{record.experiment}: done in {record.seconds:.1f} s ({score(record)})")


def _get_ready() -> None:
    """Nothing: with the first thing that it is asked to do, a process starts and imports what it needs."""


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start meanwhile leave Ctrl-C, which all processes of a terminal get, to the one that waits."""
    if threading.current_thread() is not threading.main_thread():  # others may not
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_interrupts() -> None:
    """The same where it is not inherited: on Windows, or if another thread started the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def write(found: Found) -> Record:
    """Write NAME.nc, the figures and, last, NAME.json; then drop its tasks' results. Returns what is in NAME.json."""
    name = found.record.experiment
    save(found.data, found.out / f"{name}.nc")
    for picture in found.pictures:
        save_figure(picture.figure, found.out, picture.name)
    path = found.out / f"{name}.json"
    part = path.with_suffix(".json.part")
    try:
        part.write_text(json.dumps(found.record.model_dump(mode="json"), indent=1, allow_nan=False), encoding="utf-8")
    except ValueError as error:
        raise InputError(f"{name} found a number that is not finite: {error}") from None
    part.replace(path)
    shutil.rmtree(found.parts, ignore_errors=True)
    return found.record


def score(record: Record) -> str:
    """How many claims held, in words."""
    held = sum(claim.verdict is Verdict.HELD for claim in record.claims)
    return f"{held} of {len(record.claims)} claims held"
