"""What a study may expect to spend, decision point by decision point, by simulating it as its file describes it.

Rules do not spend evenly: some pay early, to learn. Where the file says what is thought to be true ([effects]), the
policy that is served is simulated once, in a process of its own, and what came of it is kept by the file's hash. The
pages draw it, and pacing is judged by it.
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
"""For each participant that is drawn from the file's distributions."""
MOST_GRID = 40
MOST_FACTOR = 3.0
"""What is left of a budget may speed up what the simulation had by no more than this."""
MOST_SECONDS = 600
log = structlog.get_logger()


class Forecast(msgspec.Struct, frozen=True):
    """What one participant spends by each decision point, on average, and by how much participants differ."""

    mean: list[float]
    sd: list[float]
    grid: list[int]
    """Decision points, from 0 to the last, some of all."""
    spread: list[list[float]]
    """By how much participants differ in what they spend from one point of the grid to a later one."""

    def by(self, step: int) -> tuple[float, float]:
        """Mean and sd by a decision point; nothing before the first."""
        if step < 1:
            return 0.0, 0.0
        place = min(step, len(self.mean)) - 1
        return self.mean[place], self.sd[place]

    def between(self, step: int, later: int) -> tuple[float, float]:
        """Mean and sd of what is spent after one decision point and up to a later one."""
        places = np.searchsorted(self.grid, [step, later]).clip(0, len(self.grid) - 1)
        return self.by(later)[0] - self.by(step)[0], self.spread[places[0]][places[1]]


def scale(known: Forecast, amount: float, steps: Sequence[int], left: float) -> float:
    """How much more or less is left than the simulation has left of an amount for each, after these points."""
    expected = math.fsum(amount - known.by(step)[0] for step in steps)
    return min(MOST_FACTOR, max(0.0, left) / expected) if expected > 0.0 else 0.0


def simulated(running: StudyInForce) -> Forecast | None:
    """Simulate what is served; None for a study without a budget, or whose file does not say what is true."""
    if running.amount is None or not running.study.has_truth:
        return None
    from opportune.simulation.run import simulate  # noqa: PLC0415  (which compiles)

    policy, worlds = running.policy, running.study.worlds()
    if policy.budget is not None and policy.shared:  # as if each had an equal part of it
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
    """What was worked out for the study: by the file in force or, as amendments change no decisions, an earlier one."""
    table = tables.forecasts.c
    mine = case((table.hash == running.hash, 0), else_=1)
    body = connection.execute(select(table.body).order_by(mine).limit(1)).scalar()
    return None if body is None else msgspec.json.decode(body, type=Forecast)


def keep(database: Database, running: StudyInForce, found: Forecast) -> None:
    """Keep what was worked out."""
    with database.writing.begin() as connection:
        if stored(connection, running) is None:
            row = {"hash": running.hash, "body": msgspec.json.encode(found).decode()}
            connection.execute(insert(tables.forecasts), row)


def compute_forecast(database: Database, running: StudyInForce) -> None:
    """Have it worked out in a process of its own, at low priority: decisions must not wait for it."""
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
    """Begin to work it out, and go on."""

    def work() -> None:
        database = Database(url)
        try:
            compute_forecast(database, running)
        except Exception as error:
            log.warning("what to expect could not be worked out", **described(error))
        finally:
            database.close()

    thread = threading.Thread(target=work, name="expected", daemon=True)
    thread.start()
    return thread


def _end_with(parent: int) -> None:
    """End when the process that asked has ended: nobody waits for it any more."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main() -> None:
    """A study file on standard input, what to expect of it on standard output."""
    os.nice(10)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    running = StudyInForce.from_text(sys.stdin.buffer.read().decode(), sys.argv[1])
    found = simulated(running)
    assert found is not None
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
