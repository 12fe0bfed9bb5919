"""Verify: fold the record again; compare every decision with what was answered, every row with what is stored.

Participants who share nothing are folded independently of each other, so a long record is divided between processes:
each takes some participants, and what is common falls to the first.
"""

import bisect
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection as Pipe
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from opportune.engine.versions import PLAIN
from opportune.errors import DataError, OpportuneError
from opportune.service import clock, events, tables
from opportune.service.bulk import Bulk, Lot, State, make_ready
from opportune.service.compared import Part, Spending, StoredRows, compare_decisions, compare_people, compare_study
from opportune.service.database import Database
from opportune.service.events import Event
from opportune.service.parts import Work, cores, snapshot, work_in_parts
from opportune.service.read import Links, Row, whole
from opportune.service.refold import Refold, Verdict
from opportune.service.running import Running
from opportune.service.statements import stream
from opportune.service.tracks import COLUMNS, Doubt

Progress = Callable[[int, int], None]
LONG = 20_000
"""Events from which on a record is divided between processes."""
MOST_PROCESSES = 8
LOT = 2000
"""Events whose calls are made at once, in bulk."""
SHARES = 16
CALLING = 0.25
"""What making a decision's calls takes, where the first process makes all, of what reading it takes."""


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
    known = _known(database)
    number = known.processes if processes is None else processes
    if (known.long and not PLAIN) if bulk is None else bulk:
        if number > 1 and known.running is not None:
            make_ready(known.running)
        with contextlib.suppress(Doubt):
            return in_bulk(database, progress, processes=number, together=known.together)
    number = 1 if known.together and processes is None else number
    return _share(database, number, lambda count: partial(_work, progress, divided(count)), _put_together)


def in_bulk(
    database: Database, progress: Progress | None = None, *, processes: int = 1, together: bool = False
) -> Verdict:
    """The same, many events at a time; raises `Doubt` if anything is not as it should be, or not done in bulk."""

    def work(count: int) -> Work:
        return partial(_follow, progress, divided(count, together=together), together)

    return _share(database, processes, work, _hold_together)


def divided(number: int, *, together: bool = False) -> list[Part]:
    """A part for each of some processes: equal ones, or a smaller one for the first, which makes the calls of all."""
    if not together or number == 1:
        return [Part((index,), number) for index in range(number)]
    few = max(1, round(SHARES * ((1 + CALLING) / number - CALLING)))
    first = [share for share in range(SHARES) if share * few % SHARES < few]
    rest = [share for share in range(SHARES) if share not in first]
    return [Part(tuple(shares), SHARES) for shares in (first, *(rest[k :: number - 1] for k in range(number - 1)))]


def _share(
    database: Database, number: int, work: Callable[[int], Work], then: Callable[[Connection, list[Any]], Verdict]
) -> Verdict:
    """Divide the work between processes; one does it all if there are no others, or never see the same moment.

    `work` gives what each of so many does.
    """
    if number > 1:
        verdict: Verdict | None = work_in_parts(database, number, work(number), then)
        if verdict is not None:
            return verdict
    with snapshot(database) as connection:
        return then(connection, [work(1)(connection, 0, [])])


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
    states: list[State] | None  # unless they were compared
    bulk: Bulk | None  # the first one's


def _follow(
    progress: Progress | None, parts: list[Part], together: bool, connection: Connection, index: int, pipes: list[Pipe]
) -> Followed | None:
    """Fold a part in bulk; where participants share something, the first process makes the calls of all."""
    part, others = parts[index], pipes if together else []
    try:
        with contextlib.closing(StoredRows(connection, part, COLUMNS)) as stored:
            bulk = Bulk(stored, everyone=together and index == 0)
            lots, total = deque[Lot](), _total(connection)
            body = "CAST(events.body AS BLOB)" if connection.dialect.name == "sqlite" else "events.body"
            only = f"events.seq > 0 AND events.seq <= {total}"
            with contextlib.closing(stream(connection, _query(part, "", body=body, only=only))) as coming:
                for rows, end in _in_lots(coming, total):
                    if rows:
                        bulk.take(rows)
                    if end is None:
                        continue
                    lots.append(bulk.cut())
                    if others and index > 0:
                        others[0].send(lots.pop().calls)
                    else:
                        _make_calls(bulk, lots, others)
                    if progress is not None and index == 0:
                        progress(end, total)
            _make_calls(bulk, lots, others, wait=True)
            decisions, spending = bulk.finish()
    except Doubt:
        if others and index > 0:
            others[0].send(None)
        return None
    refold = bulk.refold
    if refold.fold is None:
        return None
    states = bulk.states()
    if not others:
        bulk.bring(states)
        compare_people(connection, refold, part)
    if not refold.verdict.holds:
        return None
    return Followed(
        bulk.links(), spending, decisions, states if others else None, bulk if index == 0 else None,
    )  # fmt: skip


def _in_lots(coming: Iterable[list[Row]], total: int) -> Iterator[tuple[list[Row], int | None]]:
    """Events as they come, cut where lots end, which is at the same events for all parts; which end it is."""
    end = LOT
    for rows in coming:
        left = rows
        while left and left[-1][0] > end:
            place = bisect.bisect_right(left, end, key=itemgetter(0))
            yield left[:place], end
            left, end = left[place:], end + LOT
        yield left, None
    for last in range(end, total + LOT, LOT):
        yield [], min(last, total)


def _make_calls(bulk: Bulk, lots: deque[Lot], others: list[Pipe], *, wait: bool = False) -> None:
    """Make the calls of lots of which the others have sent theirs; or of all."""
    while lots and (wait or all(pipe.poll() for pipe in others)):
        calls = [pipe.recv() for pipe in others]
        if None in calls:
            raise Doubt
        bulk.make_calls(lots.popleft(), calls)


def _hold_together(connection: Connection, parts: list[Followed | None]) -> Verdict:
    """What all parts found, and what is common; raises `Doubt` where anything is not as it should be."""
    followed = [part for part in parts if part is not None]
    if len(followed) < len(parts):
        raise Doubt
    bulk = followed[0].bulk
    assert bulk is not None
    refold, verdict = bulk.refold, bulk.refold.verdict
    waiting = [part.states for part in followed if part.states is not None]
    if waiting:
        bulk.bring([state for states in waiting for state in states])
        compare_people(connection, refold, Part())
    _see_last(connection, verdict)
    verdict.decisions = sum(part.decisions for part in followed)
    compare_study(connection, refold, _together([part.spending for part in followed]))
    if not verdict.holds or not verdict.count == _total(connection) == whole([part.links for part in followed]):
        raise Doubt  # also where an event lies before the first, or far behind the last
    return verdict


def _together(spendings: list[Spending]) -> Spending:
    return Spending(sum(part.spent for part in spendings), int(sum(part.nudges for part in spendings)))


class Checked(NamedTuple):
    """What a process found about its part."""

    verdict: Verdict
    spending: Spending
    refold: Refold | None  # the first one's, as agents stay where they are


def _work(
    progress: Progress | None, parts: list[Part], connection: Connection, index: int, _pipes: list[Pipe]
) -> Checked:
    refold, spending = check_part(connection, parts[index], progress if index == 0 else None)
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


def _query(part: Part, joined: str, *more: str, body: str = "events.body", only: str = "1 = 1") -> str:
    """A part's events, and those that concern all, in order; whether each is its own."""
    common = ", ".join(f"'{kind}'" for kind in events.COMMON)
    mine = part.mine("events.participant")
    columns = "seq", "kind", "participant", "decision", "who", "received", "hash"
    own = f"CASE WHEN events.decision IS NULL THEN {mine} ELSE TRUE END"  # else it is here because it is its own
    names = ", ".join([*(f"events.{name}" for name in columns), body, own, *more])
    where = f"{only} AND ({mine} OR events.kind IN ({common}))"
    return f"SELECT {names} FROM events {joined} WHERE {where} ORDER BY events.seq"


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
