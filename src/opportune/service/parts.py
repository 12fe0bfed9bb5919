"""Processes that work on one database as of the same moment: one per core, this one among them.

Forked, so that nothing is imported or compiled again. Each opens a transaction of its own, and all of them must see the
same last event; while someone writes this may take a few attempts.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection as Pipe
from typing import Any

from sqlalchemy import Connection, select

from opportune.errors import DataError, OpportuneError
from opportune.service import tables
from opportune.service.database import Database

ATTEMPTS = 20
LITTLE = -1024
"""Kilobytes that SQLite keeps of what it has read, which is not read twice: more would not stay near the processor."""
Work = Callable[[Connection, int, list[Pipe]], Any]
"""What a process does: with its transaction, its number, and pipes: to all others for the first, to it for those.

Whatever others send to the first one before what they have found is its own to receive.
"""


def cores() -> int:
    """How many processes may work at once: forked ones, so only where no other thread could hold a lock."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    if not sys.platform.startswith("linux") or not alone:
        return 1
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A transaction that sees everything as of one moment, while others write; to read all of it once."""
    with database.moment() as connection:
        if not database.sqlite:
            yield connection
            return
        usual = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
        connection.exec_driver_sql(f"PRAGMA cache_size = {LITTLE}")
        try:
            yield connection
        finally:
            connection.exec_driver_sql(f"PRAGMA cache_size = {usual}")


def work_in_parts(database: Database, number: int, work: Work, then: Callable[[Connection, list[Any]], Any]) -> Any:
    """Let some processes work, as of one moment; `then` has the same transaction and all that was found.

    Hands back None if the processes never saw the same moment, as others write all the time.
    """
    database.close()  # what is open must not be in two processes
    context = multiprocessing.get_context("fork")
    pipes: list[Pipe] = []
    children = []
    try:
        for index in range(1, number):
            ours, theirs = context.Pipe()
            pipes.append(ours)
            child = context.Process(target=_child, args=(theirs, database.url, index, work), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, which hold nothing of ours
                child.start()
            theirs.close()
            children.append(child)
        for _ in range(ATTEMPTS):
            with snapshot(database) as connection:
                last = _last(connection)
                seen = [pipe.recv() for pipe in pipes]
                if all(other == last for other in seen):
                    _tell(pipes, True)
                    found = [work(connection, 0, pipes), *(_result(pipe) for pipe in pipes)]
                    return then(connection, found)
            _tell(pipes, False)
    except (EOFError, ConnectionError):
        raise DataError("a process that read a part of the record has ended before its time") from None
    finally:
        for pipe in pipes:
            pipe.close()
        for child in children:
            child.terminate()
            child.join()
    return None


def _last(connection: Connection) -> int | None:
    return connection.execute(select(tables.study.c.seq)).scalar()


def _tell(pipes: list[Pipe], go: bool) -> None:
    for pipe in pipes:
        pipe.send(go)


def _result(pipe: Pipe) -> Any:
    found = pipe.recv()
    if isinstance(found, Exception):
        raise found
    return found


def _child(pipe: Pipe, url: str, index: int, work: Work) -> None:
    """A process of its own; ends with its parent, as the pipe does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent hears it, and ends this one
    with contextlib.suppress(EOFError, ConnectionError):
        database = Database(url)
        while True:
            with snapshot(database) as connection:
                pipe.send(_last(connection))
                if pipe.recv():
                    try:
                        pipe.send(work(connection, index, [pipe]))
                    except OpportuneError as error:
                        pipe.send(error)
                    return
