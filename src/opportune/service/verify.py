"""Verify: fold the record again; compare every decision with what was answered, every row with what is stored.

Participants who share nothing are folded independently of each other, so a long record is divided between processes:
each takes some participants, and what is common falls to the first.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from opportune.errors import DataError, OpportuneError
from opportune.service import clock, events, tables
from opportune.service.compared import Part, Spending, compare_people, compare_study
from opportune.service.database import Database
from opportune.service.events import Event
from opportune.service.parts import cores, snapshot, uncollected, work_in_parts
from opportune.service.refold import Refold, Verdict
from opportune.service.running import Running
from opportune.service.statements import stream

Progress = Callable[[int, int], None]
LONG = 20_000
"""Events from which on a record is divided between processes."""
MOST_PROCESSES = 8
_COMMON = (events.LAUNCHED, events.ENROLLED, events.AMENDED, events.CLOSED)


def verify(database: Database, progress: Progress | None = None, *, processes: int | None = None) -> Verdict:
    """Check the chain, the decisions, the budgets and the tables of a study.

    Args:
        database: of the study.
        progress: is told how many events of how many are folded.
        processes: how many share the work; unless given, one per core for a long record, where that is possible.

    """
    with uncollected():
        number = _parts(database) if processes is None else processes
        if number > 1:
            work = partial(_work, progress)
            verdict: Verdict | None = work_in_parts(database, number, work, _put_together)
            if verdict is not None:
                return verdict
        with snapshot(database) as connection:
            return _put_together(connection, [_work(progress, connection, 0, 1)])


class Checked(NamedTuple):
    """What a process found about its part."""

    verdict: Verdict
    spending: Spending
    refold: Refold | None  # the first one's, as agents stay where they are


def _work(progress: Progress | None, connection: Connection, index: int, number: int) -> Checked:
    refold, spending = check_part(connection, Part(index, number), progress if index == 0 else None)
    return Checked(refold.verdict, spending, refold if index == 0 else None)


def _put_together(connection: Connection, parts: list[Checked]) -> Verdict:
    """What all parts found, and what is common."""
    refold = parts[0].refold
    assert refold is not None
    for part in parts[1:]:
        refold.verdict.decisions += part.verdict.decisions
        for finding in part.verdict.findings:
            refold.verdict.add(finding)
    spent, nudges = (sum(part.spending[i] for part in parts) for i in (0, 1))
    compare_study(connection, refold, Spending(spent, int(nudges)))
    return refold.verdict


def _parts(database: Database) -> int:
    """How many processes are worth their while: as many as there are cores, if participants share nothing."""
    with database.reading.connect() as connection:
        found = connection.execute(select(tables.study.c.seq, tables.study.c.file)).one_or_none()
    if found is None or found.seq < LONG:
        return 1
    try:
        together = Running.from_text(found.file).policy.together
    except OpportuneError:
        return 1
    return 1 if together else min(cores(), MOST_PROCESSES)


def check_part(connection: Connection, part: Part, progress: Progress | None) -> tuple[Refold, Spending]:
    """Fold the events of some participants, and compare what follows with what is stored."""
    verdict = Verdict()
    refold = Refold(verdict)
    total = connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
    for event, received, mine in _events(connection, part, verdict):
        try:
            refold.take(event, received, mine=mine)
        except (OpportuneError, LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            verdict.add(f"event {event.seq} ({event.kind}) cannot be folded: {error}")
        if progress is not None and event.seq % 1000 < part.of:
            progress(event.seq, total)
    if refold.fold is None:
        return refold, Spending(0.0, 0)
    return refold, compare_people(connection, refold, part)


def rebuilt(connection: Connection) -> Refold:
    """The whole state of a study from its record alone; raises `DataError` if the record itself is not whole."""
    refold = Refold(Verdict(), words=True)
    for event, received, _mine in _events(connection, Part(), refold.verdict):
        if not refold.verdict.holds:
            break
        refold.take(event, received)
    if not refold.verdict.holds or refold.fold is None:
        raise DataError(f"the state cannot be made from the record: {'; '.join(refold.verdict.findings[:3])}")
    return refold


def _events(connection: Connection, part: Part, verdict: Verdict) -> Iterator[tuple[Event, int, bool]]:
    """A part's events in order, each whole and linked to the one before; when received; whether they are its own."""
    common = ", ".join(f"'{kind}'" for kind in _COMMON)
    join, mine = part.mine("events.participant")
    columns = "seq, kind, participant, decision, who, received, hash, body"
    names = ", ".join(f"events.{name}" for name in columns.split(", "))
    query = f"SELECT {names}, before.hash, {mine} FROM events LEFT JOIN events AS before ON before.seq = events.seq - 1"
    only = "" if part.of == 1 else f"WHERE {mine} OR events.kind IN ({common})"
    decode, hash_of, from_iso = events.decode, events.hash_of, clock.from_iso
    for rows in stream(connection, f"{query} {join} {only} ORDER BY events.seq"):
        for seq, kind, participant, decision, who, received, found, body, before, own in rows:
            if before is None and own and seq != 1:
                verdict.add(f"event {seq} follows none that is there: there is a gap in the record")
            data = body.encode()
            try:
                event = decode(data)
                at = from_iso(event.received)
            except (OpportuneError, ValueError) as error:
                verdict.add(f"event {seq}: {error}")
                continue
            if own and (hash_of(data) != found or event.before != (before or events.START)):
                verdict.add(f"event {seq} is not what was written: its hash does not fit it, or the one before")
            if own and (
                event.seq != seq or event.kind != kind or event.participant != participant
                or event.decision != decision or event.who != who or at != received
            ):  # fmt: skip
                verdict.add(f"event {seq}: its columns are not what its body says")
            yield event, at, own
    table = tables.events.c
    last = connection.execute(select(table.seq, table.hash).order_by(table.seq.desc()).limit(1)).one_or_none()
    if last is not None:
        verdict.count, verdict.head = last


def verify_beside(url: str) -> Verdict:
    """Verify in a process of its own, at low priority: decisions must not wait for it."""
    done = subprocess.run(
        [sys.executable, "-m", "opportune.service.verify"], input=url.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise DataError(f"the record could not be verified: {done.stderr.decode(errors='replace')[-300:]}")
    return msgspec.json.decode(done.stdout, type=Verdict)


def main() -> None:
    """The database's address on standard input, the verdict on standard output."""
    os.nice(10)
    database = Database(sys.stdin.read())
    sys.stdout.buffer.write(msgspec.json.encode(verify(database)))


if __name__ == "__main__":
    main()
