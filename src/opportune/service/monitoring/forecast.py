"""A forecast of a study's spending at each decision point, from a simulation of the study file.

Rules do not spend evenly: some spend early in order to learn. Where the file states assumed effects ([effects]), the
served policy is simulated once, in a separate process, and the result is stored by the file's hash. The study page
draws it, and the pacing alert uses it.
"""

import dataclasses
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import msgspec
import numpy as np
import structlog
from sqlalchemy import Connection, case, insert, select

from opportune.service.monitoring.logs import described
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state.study import StudyInForce

RUNS = 240
LEAST_RUNS = 4
"""The fewest runs for each participant drawn from the file's distributions."""
MOST_GRID = 40
MOST_FACTOR = 3.0
"""The budget that is left may raise the simulated spending by at most this factor."""
MOST_SECONDS = 600
log = structlog.get_logger()


class Forecast(msgspec.Struct, frozen=True):
    """The mean spending of one participant by each decision point, and how much participants differ."""

    mean: list[float]
    sd: list[float]
    grid: list[int]
    """Some of the decision points, from 0 to the last."""
    spread: list[list[float]]
    """The standard deviation of a participant's spending between two points of the grid."""

    def by(self, step: int) -> tuple[float, float]:
        """Mean and sd of spending by a decision point; zero before the first."""
        if step < 1:
            return 0.0, 0.0
        place = min(step, len(self.mean)) - 1
        return self.mean[place], self.sd[place]

    def between(self, step: int, later: int) -> tuple[float, float]:
        """Mean and sd of spending after one decision point and up to a later one."""
        places = np.searchsorted(self.grid, [step, later]).clip(0, len(self.grid) - 1)
        return self.by(later)[0] - self.by(step)[0], self.spread[places[0]][places[1]]


def scale(known: Forecast, amount: float, steps: Sequence[int], left: float) -> float:
    """What is left of the budget relative to the simulation, for participants at these decision points."""
    expected = math.fsum(amount - known.by(step)[0] for step in steps)
    return min(MOST_FACTOR, max(0.0, left) / expected) if expected > 0.0 else 0.0


def simulated(running: StudyInForce) -> Forecast | None:
    """Simulate the served policy; None for a study without a budget or without assumed effects."""
    if running.amount is None or not running.study.has_truth:
        return None
    from opportune.simulation.run import simulate  # noqa: PLC0415  (it compiles)

    policy, worlds = running.policy, running.study.worlds()
    if policy.budget is not None and policy.shared:  # as if each participant had an equal share
        budget = dataclasses.replace(
            policy.budget, amount=policy.budget.amount / running.participants, shared=False, hard=False
        )
        policy = dataclasses.replace(policy, budget=budget)
    policy = dataclasses.replace(policy, pooled=False)
    replicates = max(LEAST_RUNS, math.ceil(RUNS / len(worlds)))
    data = simulate(
        worlds, [policy], horizon=running.horizon, replicates=replicates, seed=running.seed, trace=True,
        timetable=running.study.timetable(len(worlds)),
    )  # fmt: skip
    found = data["probability"].transpose("step", ...).to_numpy().reshape(running.horizon, -1)
    spent = np.cumsum(found, axis=0)
    grid = np.unique(np.linspace(0, running.horizon, MOST_GRID + 1).round().astype(int))
    there = np.vstack([np.zeros(spent.shape[1]), spent])[grid]
    spread = np.std(there[None, :, :] - there[:, None, :], axis=2, ddof=1)
    return Forecast(
        mean=spent.mean(axis=1).tolist(), sd=spent.std(axis=1, ddof=1).tolist(), grid=grid.tolist(),
        spread=spread.tolist(),
    )  # fmt: skip


def stored(connection: Connection, running: StudyInForce) -> Forecast | None:
    """The stored forecast: of the file in force or, since amendments change no decisions, of an earlier one."""
    table = tables.forecasts.c
    mine = case((table.hash == running.hash, 0), else_=1)
    body = connection.execute(select(table.body).order_by(mine).limit(1)).scalar()
    return None if body is None else msgspec.json.decode(body, type=Forecast)


def keep(database: Database, running: StudyInForce, found: Forecast) -> None:
    """Store a forecast."""
    with database.writing.begin() as connection:
        if stored(connection, running) is None:
            row = {"hash": running.hash, "body": msgspec.json.encode(found).decode()}
            connection.execute(insert(tables.forecasts), row)


def compute_forecast(database: Database, running: StudyInForce) -> None:
    """Compute the forecast in a separate process at low priority, so that decisions do not wait for it."""
    with database.reading.connect() as connection:
        known = stored(connection, running)
    if known is not None or running.amount is None or not running.study.has_truth:
        return
    command = [sys.executable, "-m", "opportune.service.monitoring.forecast", running.study.source]
    done = subprocess.run(
        command, input=running.text.encode(), capture_output=True, check=True, timeout=MOST_SECONDS,
    )  # fmt: skip
    keep(database, running, msgspec.json.decode(done.stdout, type=Forecast))


def start_forecast(url: str, running: StudyInForce) -> threading.Thread:
    """Compute the forecast in the background."""

    def work() -> None:
        database = Database(url)
        try:
            compute_forecast(database, running)
        except Exception as error:
            log.warning("the forecast could not be computed", **described(error))
        finally:
            database.close()

    thread = threading.Thread(target=work, name="expected", daemon=True)
    thread.start()
    return thread


def _end_with(parent: int) -> None:
    """Exit when the parent process has ended, since nobody waits for the result any more."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main() -> None:
    """Read a study file from standard input and write its forecast to standard output."""
    os.nice(10)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    running = StudyInForce.from_text(sys.stdin.buffer.read().decode(), sys.argv[1])
    found = simulated(running)
    assert found is not None
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
