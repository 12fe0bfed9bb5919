"""Verify: fold the record again; compare every decision with what was answered, every row with what is stored."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
from sqlalchemy import Connection, func, select

from opportune.errors import DataError, OpportuneError
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.record.events import Event
from opportune.service.state import clock
from opportune.service.verify.compare import Spending, compare_decisions, compare_people, compare_study, read_rows
from opportune.service.verify.replay import Replay, Verdict

Progress = Callable[[int, int], None]


def verify(database: Database, progress: Progress | None = None) -> Verdict:
    """Check the chain, the decisions, the budgets and the tables of a study; one event after the other.

    Args:
        database: of the study.
        progress: is told how many events of how many are folded.

    """
    replay = Replay(Verdict())
    verdict, spending = replay.verdict, Spending(0.0, 0)
    with database.moment() as connection:
        total = connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
        for event, received in _events(connection, verdict):
            try:
                replay.take(event, received)
            except (OpportuneError, LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
                verdict.add(f"event {event.seq} ({event.kind}) cannot be folded: {error}")
            if progress is not None and event.seq % 1000 == 0:
                progress(event.seq, total)
        if replay.fold is not None:
            compare_people(connection, replay)
            spending = compare_decisions(connection, replay)
        compare_study(connection, replay, spending)
    if progress is not None:
        progress(total, total)
    return verdict


def rebuilt(connection: Connection) -> Replay:
    """The whole state of a study from its record alone; raises `DataError` if the record itself is not whole."""
    replay = Replay(Verdict(), words=True)
    for event, received in _events(connection, replay.verdict):
        if not replay.verdict.holds:
            break
        replay.take(event, received)
    if not replay.verdict.holds or replay.fold is None:
        raise DataError(f"the state cannot be made from the record: {'; '.join(replay.verdict.findings[:3])}")
    return replay


def _events(connection: Connection, verdict: Verdict) -> Iterator[tuple[Event, int]]:
    """Events in their order and when they were received; each is checked against its hash, its columns and the chain.

    The verdict gets to know how many there are, and the last one's hash.
    """
    table = tables.events
    for row in read_rows(connection, select(table).order_by(table.c.seq)):
        seq, kind, participant, decision, who, received, hashed, body = row
        if seq != verdict.count + 1:
            verdict.add(f"event {seq} follows event {verdict.count}: there is a gap in the record")
        before, verdict.count, verdict.head = verdict.head, seq, hashed
        data = body.encode()
        try:
            event = events.decode(data)
            at = clock.from_iso(event.received)
        except (OpportuneError, ValueError) as error:
            verdict.add(f"event {seq}: {error}")
            continue
        if events.hash_of(data) != hashed or event.before != before:
            verdict.add(f"event {seq} is not what was written: its hash does not fit it, or the one before")
        if (event.seq, event.kind, event.participant, event.decision, event.who, at) != (
            seq, kind, participant, decision, who, received,
        ):  # fmt: skip
            verdict.add(f"event {seq}: its columns are not what its body says")
        yield event, at


def verify_beside(url: str) -> Verdict:
    """Verify in a process of its own, at low priority: decisions must not wait for it."""
    done = subprocess.run(
        [sys.executable, "-m", "opportune.service.verify.check"], input=url.encode(), capture_output=True, check=False
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
