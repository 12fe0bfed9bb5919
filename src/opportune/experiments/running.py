"""Running the tasks of an experiment, one by one: finished ones are taken from disk, long ones kept there."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from opportune.errors import DataError, StateError
from opportune.experiments.base import Experiment
from opportune.experiments.found import Ran
from opportune.experiments.kept import load_part, parts_folder, save_part, source_hash

WORTH_KEEPING = 5.0  # seconds


class Running:
    """An experiment that is being run: the results of its tasks so far, and how long they took.

    `tell` is given a sentence where a task is run again.
    """

    def __init__(
        self, experiment: Experiment, config: dict[str, Any], out: Path, force: bool, tell: Callable[[str], None]
    ) -> None:
        self.experiment, self.config, self.out, self.force, self.tell = experiment, config, out, force, tell
        self.parts: dict[str, xr.Dataset] = {}
        self.seconds = 0.0

    def run(self, task: str) -> None:
        """Have a task's results: from disk if an interrupted run with this configuration left them, else run now."""
        began = time.perf_counter()
        self.parts[task] = self._results(task)
        self.seconds += time.perf_counter() - began

    def _results(self, task: str) -> xr.Dataset:
        """A task's results.

        What took less than `WORTH_KEEPING` is not left on disk: it is soon run again, and would be written for nothing
        in every run that is not interrupted.
        """
        name, folder = self.experiment.name, parts_folder(self.experiment, self.config, self.out)
        if not self.force:
            try:
                kept = load_part(folder, task)
            except DataError as error:
                self.tell(f"{name}: {task} is run again ({error})")
            else:
                if kept is not None:
                    return kept
        began = time.perf_counter()
        data = _in_order(self.experiment.run_task(self.config, task, self.config["seed"]))
        if data.attrs.get("interrupted"):
            raise StateError(f"{name}: {task} was interrupted; expected a complete result")
        if time.perf_counter() - began >= WORTH_KEEPING:
            save_part(data, folder, task)
        return data

    def ran(self) -> Ran:
        """The experiment, whose tasks are done, as the writer takes it."""
        return Ran(
            name=self.experiment.name,
            config=self.config,
            parts=self.parts,
            seconds=round(self.seconds, 2),
            code=source_hash(),
            out=self.out,
            kept=parts_folder(self.experiment, self.config, self.out),
        )


def _in_order(data: xr.Dataset) -> xr.Dataset:
    """The same, laid out in memory as a file gives it back: else sums in a resumed run would be rounded differently."""
    return data.copy(data={name: np.ascontiguousarray(values) for name, values in data.data_vars.items()})
