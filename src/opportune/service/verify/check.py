"""Verify: fold the record again, and compare every decision and every row with what is stored."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
from sqlalchemy import Connection, func, select

from opportune.algorithm.version import ALGORITHM
from opportune.errors import DataError, OpportuneError
from opportune.service.record import events, secret, tables
from opportune.service.record.database import Database
from opportune.service.record.events import Event
from opportune.service.state import clock
from opportune.service.verify.accounts import Accounts, any_stored
from opportune.service.verify.compare import (
    Spending,
    compare_decisions,
    compare_escalations,
    compare_people,
    compare_study,
    read_rows,
)
from opportune.service.verify.replay import Replay, Verdict

Progress = Callable[[int, int], None]


def verify(database: Database, progress: Progress | None = None) -> Verdict:
    """Check the chain, the decisions, the budgets and the tables of a study, one event after the other.

    Args:
        database: of the study.
        progress: called with the number of events folded so far, and their total.

    """
    verdict, spending, accounts = Verdict(), Spending(0.0, 0), Accounts()
    with database.moment() as connection:
        replay = Replay(verdict, secret=_secret(connection))
        total = connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
        for event, received in _events(connection, verdict):
            accounts.take(event)
            try:
                replay.take(event, received)
            except (OpportuneError, LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
                verdict.add(f"event {event.seq} ({event.kind}) cannot be folded: {error}")
            if progress is not None and event.seq % 1000 == 0:
                progress(event.seq, total)
        if replay.fold is not None and not verdict.chain_only:
            compare_people(connection, replay)
            compare_escalations(connection, replay)
            spending = compare_decisions(connection, replay)
        if not verdict.chain_only:
            compare_study(connection, replay, spending)
        for difference in accounts.differences(connection):
            verdict.add(difference)
        if verdict.concealed and any_stored(connection):
            verdict.add("the secret seed is missing, but there are accounts; expected neither, as in an auditor's copy")
        _check_anchors(connection, verdict)
    if progress is not None:
        progress(total, total)
    return verdict


def _check_anchors(connection: Connection, verdict: Verdict) -> None:
    """Check that every anchor, the end of the record on some day, is still on record."""
    anchors, event = tables.anchors.c, tables.events.c
    kept = select(event.seq).where(event.seq == anchors.seq, event.hash == anchors.head).exists()
    for row in connection.execute(select(tables.anchors).where(~kept).order_by(anchors.day)):
        verdict.add(f"the anchor of event {row.seq} is not on record: the record was cut off or rewritten since then")


def rebuilt(connection: Connection) -> Replay:
    """Rebuild the state of a study from its record alone; raises `DataError` if the record is not whole."""
    replay = Replay(Verdict(), secret=_secret(connection), words=True)
    for event, received in _events(connection, replay.verdict):
        if not replay.verdict.holds:
            break
        replay.take(event, received)
    if not replay.verdict.holds or replay.fold is None:
        raise DataError(f"the state cannot be rebuilt from the record: {'; '.join(replay.verdict.findings[:3])}")
    replay.fold.explain(replay.participants.values())  # the writer continues with these, and explains nudges
    return replay


def _secret(connection: Connection) -> secret.Secret | None:
    """The secret seed: the one that the record discloses, else the stored one; None if there is neither."""
    table = tables.events.c
    query = select(table.body).where(table.kind == events.CLOSED).order_by(table.seq).limit(1)
    body = connection.execute(query).scalar()
    disclosed = None
    if body is not None:
        with contextlib.suppress(DataError):  # folding the event will report what is wrong with it
            disclosed = secret.from_disclosure(events.decode(body).given)
    return disclosed or secret.stored(connection)


def _events(connection: Connection, verdict: Verdict) -> Iterator[tuple[Event, int]]:
    """The events in order, with their times of receipt; each is checked against its hash, its columns and the chain.

    Also sets the verdict's number of events and the hash of the last one.
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
            verdict.add(f"event {seq} was changed, or does not follow the event before: the hashes differ")
        if event.algorithm != ALGORITHM:
            verdict.add(
                f"event {seq} was made by algorithm {event.algorithm}; expected {ALGORITHM} in the whole record"
            )
        if (event.seq, event.kind, event.participant, event.decision, event.who, at) != (
            seq, kind, participant, decision, who, received,
        ):  # fmt: skip
            verdict.add(f"event {seq}: its columns differ from its body")
        yield event, at


def verify_beside(url: str) -> Verdict:
    """Verify in a separate process at low priority, so that decisions do not wait for it."""
    done = subprocess.run(
        [sys.executable, "-m", "opportune.service.verify.check"], input=url.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise DataError(f"the record could not be verified: {done.stderr.decode(errors='replace')[-300:]}")
    return msgspec.json.decode(done.stdout, type=Verdict)


def main() -> None:
    """Read the database's address from standard input, verify, and write the verdict to standard output."""
    os.nice(10)
    database = Database(sys.stdin.read())
    sys.stdout.buffer.write(msgspec.json.encode(verify(database)))


if __name__ == "__main__":
    main()
