"""Verify: fold the record again; compare every decision with what was answered, every row with what is stored.

Participants who share nothing are folded independently of each other, so a long record is divided between processes:
each takes some participants, and what is common falls to the first.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from opportune.core.fitting import PLAIN
from opportune.errors import DataError, OpportuneError
from opportune.service import clock, events, tables
from opportune.service.bulk import Bulk, Links, State, make_ready, whole
from opportune.service.compared import Part, Spending, Stored, compare_decisions, compare_people, compare_study
from opportune.service.database import Database
from opportune.service.events import Event
from opportune.service.parts import Work, cores, snapshot, uncollected, work_in_parts
from opportune.service.refold import Refold, Verdict
from opportune.service.running import Running
from opportune.service.statements import stream
from opportune.service.tracks import COLUMNS, Calls, Doubt

Progress = Callable[[int, int], None]
LONG = 20_000
"""Events from which on a record is divided between processes."""
MOST_PROCESSES = 8
_COMMON = (events.LAUNCHED, events.ENROLLED, events.AMENDED, events.CLOSED)


def verify(
    database: Database, progress: Progress | None = None, *, processes: int | None = None, bulk: bool | None = None
) -> Verdict:
    """Check the chain, the decisions, the budgets and the tables of a study.

    Args:
        database: of the study.
        progress: is told how many events of how many are folded.
        processes: how many share the work; unless given, one per core for a long record, where that is possible.
        bulk: whether to fold many events at a time (`bulk`); unless given, for a long record. If anything at all is
            not as it should be they are folded one by one, which says what.

    """
    with uncollected():
        known = _known(database)
        number = known.processes if processes is None else processes
        if (known.long and not PLAIN) if bulk is None else bulk:
            if number > 1 and known.running is not None:
                make_ready(known.running)
            with contextlib.suppress(Doubt):
                return in_bulk(database, progress, processes=number, together=known.together)
        alone = known.together and processes is None
        return _share(database, 1 if alone else number, partial(_work, progress), _put_together)


def in_bulk(
    database: Database, progress: Progress | None = None, *, processes: int = 1, together: bool = False
) -> Verdict:
    """The same, many events at a time; raises `Doubt` if anything is not as it should be, or not done in bulk."""
    return _share(database, processes, partial(_follow, progress, together), _hold_together)


def _share(database: Database, number: int, work: Work, then: Callable[[Connection, list[Any]], Verdict]) -> Verdict:
    """Divide the work between processes; one does it all if there are no others, or never see the same moment."""
    if number > 1:
        verdict: Verdict | None = work_in_parts(database, number, work, then)
        if verdict is not None:
            return verdict
    with snapshot(database) as connection:
        return then(connection, [work(connection, 0, 1)])


class Known(NamedTuple):
    """What is known of a record before it is read."""

    running: Running | None = None
    long: bool = False
    processes: int = 1
    """How many are worth their while."""

    @property
    def together(self) -> bool:
        """Whether participants share something, so that they cannot be folded apart."""
        return self.running is not None and self.running.policy.together


def _known(database: Database) -> Known:
    with database.reading.connect() as connection:
        found = connection.execute(select(tables.study.c.seq, tables.study.c.file)).one_or_none()
    running = None if found is None else _running(found.file)
    if found is None or running is None or found.seq < LONG:
        return Known(running)
    return Known(running, True, min(cores(), MOST_PROCESSES))


def _running(file: str) -> Running | None:
    try:
        return Running.from_text(file)
    except OpportuneError:
        return None


class Followed(NamedTuple):
    """What a process made of its part in bulk; nothing if it has doubts."""

    links: Links
    spending: Spending
    decisions: int
    calls: list[Calls]
    states: list[State]
    bulk: Bulk | None  # the first one's


def _follow(
    progress: Progress | None, together: bool, connection: Connection, index: int, number: int
) -> Followed | None:
    """Fold a part in bulk; where participants share something, only as far as that can be done apart."""
    part, wait = Part(index, number), together and number > 1
    total = _total(connection)
    try:
        with contextlib.closing(Stored(connection, part, COLUMNS)) as stored:
            bulk = Bulk(stored, wait=wait, everyone=wait and index == 0)
            for rows in stream(connection, _query(part, "")):
                bulk.take(rows)
                if progress is not None and index == 0:
                    progress(rows[-1][0], total)
            decisions, spending = bulk.finish()
    except Doubt:
        return None
    refold = bulk.refold
    if refold.fold is None:
        return None
    states = bulk.states()
    if not wait:
        bulk.bring(states)
        compare_people(connection, refold, part)
    if not refold.verdict.holds:
        return None
    return Followed(
        bulk.links(), spending, decisions, bulk.waiting, states if wait else [],
        bulk if index == 0 else None,
    )  # fmt: skip


def _hold_together(connection: Connection, parts: list[Followed | None]) -> Verdict:
    """What all parts found, and what is common; raises `Doubt` where anything is not as it should be."""
    followed = [part for part in parts if part is not None]
    if len(followed) < len(parts):
        raise Doubt
    bulk = followed[0].bulk
    assert bulk is not None
    refold, verdict = bulk.refold, bulk.refold.verdict
    waiting = [calls for part in followed for calls in part.calls]
    if waiting:
        bulk.make_calls(waiting)
        bulk.bring([state for part in followed for state in part.states])
        compare_people(connection, refold, Part())
    _see_last(connection, verdict)
    verdict.decisions = sum(part.decisions for part in followed)
    compare_study(connection, refold, _together([part.spending for part in followed]))
    if not verdict.holds or verdict.count != whole([part.links for part in followed]):
        raise Doubt
    return verdict


def _together(spendings: list[Spending]) -> Spending:
    return Spending(sum(part.spent for part in spendings), int(sum(part.nudges for part in spendings)))


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
    compare_study(connection, refold, _together([part.spending for part in parts]))
    return refold.verdict


def check_part(connection: Connection, part: Part, progress: Progress | None) -> tuple[Refold, Spending]:
    """Fold the events of some participants, and compare what follows with what is stored."""
    verdict = Verdict()
    refold = Refold(verdict)
    total = _total(connection)
    for event, received, mine in _events(connection, part, verdict):
        try:
            refold.take(event, received, mine=mine)
        except (OpportuneError, LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            verdict.add(f"event {event.seq} ({event.kind}) cannot be folded: {error}")
        if progress is not None and event.seq % 1000 < part.of:
            progress(event.seq, total)
    if refold.fold is None:
        return refold, Spending(0.0, 0)
    compare_people(connection, refold, part)
    return refold, compare_decisions(connection, refold, part)


def _total(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(tables.events)).scalar_one()


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
    decode, hash_of, from_iso = events.decode, events.hash_of, clock.from_iso
    link = "LEFT JOIN events AS before ON before.seq = events.seq - 1"
    for rows in stream(connection, _query(part, link, "before.hash")):
        for seq, kind, participant, decision, who, received, found, body, own, before in rows:
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
    _see_last(connection, verdict)


def _query(part: Part, joined: str, *more: str) -> str:
    """A part's events, and those that concern all, in order; whether each is its own."""
    common = ", ".join(f"'{kind}'" for kind in _COMMON)
    join, mine = part.mine("events.participant")
    columns = "seq", "kind", "participant", "decision", "who", "received", "hash", "body"
    names = ", ".join([*(f"events.{name}" for name in columns), mine, *more])
    only = "" if part.of == 1 else f"WHERE {mine} OR events.kind IN ({common})"
    return f"SELECT {names} FROM events {joined} {join} {only} ORDER BY events.seq"


def _see_last(connection: Connection, verdict: Verdict) -> None:
    """How many events there are, and the last one's hash."""
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
