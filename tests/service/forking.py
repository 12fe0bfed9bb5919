"""A program that loads everything, then forks a server for each line "PORT URL" on standard input.

With `early` its servers answer before they commit: the control that tests of durability must catch. With `failing` the
learned policy decides nothing, so that the fallback does. With `rehearsal` they take the time from requests. With `app`
they serve the participants' app, too.
"""

import gc
import os
import signal
import sys
import time
from typing import Any

import uvicorn
from study_text import study_text

from opportune.live.agent import Agent
from opportune.rehearsal.participant_app import PARTICIPANT_APP
from opportune.service.api.app import create_app
from opportune.service.monitoring.logs import log_as_json
from opportune.service.record.database import Database
from opportune.service.record.transaction import Transaction
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.state.fold import Fold
from opportune.service.state.streams import Streams
from opportune.service.state.study import StudyInForce


def answer_early() -> None:
    """Have writers hand out answers before they commit, as careless programs do."""
    flush = Transaction.flush

    def late(transaction: Transaction) -> None:
        time.sleep(0.01)
        flush(transaction)

    def run(writer: Writer) -> None:
        while batch := writer._next(1):
            item = batch[0]
            with writer.database.writing.connect() as connection, connection.begin():
                transaction = Transaction(connection, writer.memory)
                name, decision = item.command.about()
                transaction.read(
                    keys=[(item.command.who, item.command.key)],
                    names=[] if name is None else [name],
                    ids=[] if decision is None else [decision],
                )
                writer.deliver([item], [writer._carry_out(transaction, item.command)])
                late(transaction)
            transaction.committed()

    Writer._run = run  # type: ignore[method-assign, assignment]


def fail(*_arguments: Any, **_named: Any) -> Any:
    """Decide nothing."""
    raise ValueError("on purpose")


def warm() -> None:
    """Compile what a decision needs."""
    fold = Fold(StudyInForce.from_text(study_text()), Streams(1))
    agent = fold.agent(0)
    made = agent.propose(
        {"time_of_day": "morning", "stress": 1, "sleep": "good"}, opened=True, reported={"mood": "low"}
    )
    agent.settle()
    agent.learn(0.1, made.step)
    agent.correct(0.2, made.step)
    agent.propose({"time_of_day": "morning", "stress": None, "sleep": "good"})
    agent.settle()
    agent.bundle()
    create_app(Service(Database(f"sqlite:///{os.devnull}")))
    gc.collect()
    gc.freeze()


def main() -> None:
    """Load, then fork."""
    if "early" in sys.argv:
        answer_early()
    warm()
    if "failing" in sys.argv:
        Agent.propose_at = fail  # type: ignore[method-assign]
    others = [PARTICIPANT_APP] if "app" in sys.argv else []
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever dies is gone
    print("loaded", flush=True)
    for line in sys.stdin:
        port, url = line.split()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            log_as_json()
            service = Service(Database(url))
            uvicorn.run(create_app(service, *others), port=int(port), log_level="error", access_log=False)
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
