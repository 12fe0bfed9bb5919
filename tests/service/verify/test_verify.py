"""Verifying a record: all that can happen is folded again, and nothing that is wrong goes unnoticed."""

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from course import BEGIN, answer_of, launch, run_course
from sqlalchemy import select, update
from study_text import numeric, study_text

from opportune.problems.continuous import ContinuousProblem
from opportune.service.accounts.changes import Administer
from opportune.service.commands.administration import Amend, Close, ConfirmClock
from opportune.service.commands.calls import Try
from opportune.service.commands.corrections import CorrectOutcome, CorrectReported, CorrectZone, Reinstate
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import GiveUp
from opportune.service.commands.openings import Open
from opportune.service.commands.participants import Enrol, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.commands.safety import Acknowledge, ReportAdverse, WantCalls
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.verify.check import _events, verify
from opportune.service.verify.replay import Replay, Verdict
from opportune.service.verify.rounding import CLOSE

SHARING: dict[str, dict[str, Any]] = {
    "own": {},
    "shared": {"shared": True},
    "pooled": {"pooled": True},
    "in part": {"pooled": "partial"},
    "both, hard": {"shared": True, "pooled": True, "hard": True, "budget": 5},
}
NOT_REWRITTEN = {events.LAUNCHED, events.AMENDED, events.POOLED}  # of the last see state/test_pooling.py
SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}
LATER = BEGIN + 2 * clock.HOUR


def live(database: Database, text: str, *, people: int = 3, steps: int = 12) -> Writer:
    """A study in which everything has happened that can happen."""
    writer = Writer(database)
    launch(writer, text)
    run_course(writer.write, people=people, steps=steps)
    writer.do(Enrol(who="staff", received=LATER, participant="late", timezone="Asia/Tokyo"))

    def ask(**given: Any) -> dict[str, Any]:
        asked = Propose(who="app", received=LATER, participant="late", given={"sensed": SENSED, **given})
        return answer_of(writer.do(asked))

    def answer(decision: str, **said: Any) -> None:
        writer.do(Answer(who="staff", received=LATER + 5, decision=decision, **said))

    made = [ask(shown="rest"), ask(opened=True, reported={"mood": "low"})]
    writer.do(Note(who="staff", received=LATER, participant="late", text="called back"))
    unanswered = [ask() for _ in range(3)]
    writer.do(Propose(who="app", received=LATER, at=LATER - 7, participant="late", given={"sensed": SENSED}))
    made += unanswered
    while True:
        decision = ask()
        made.append(decision)
        if decision["status"] == "nudge" or len(made) > 60:
            break
    told = {str(step): {"mood": "good"} for step in (unanswered[0]["step"], unanswered[2]["step"])}
    if decision["status"] == "nudge":
        writer.do(Try(who="staff", received=LATER, decision=decision["decision"]))
        writer.do(Reward(who="app", received=LATER, decision=unanswered[2]["decision"], reward=0.25))
        answer(decision["decision"], answered=True, reported={"mood": "low"}, earlier=told)
    writer.do(GiveUp(who="service", received=LATER + 400 * clock.HOUR, decision=made[0]["decision"]))
    changed = text.replace("minutes = 6 ", "minutes = 7 ")
    assert changed != text
    writer.do(Amend(who="boss", received=LATER, file=changed, source="study.toml", reason="calls take longer"))
    if "partial" in text:  # on the next day what participants have in common is brought up to date
        tomorrow = BEGIN + 24 * clock.HOUR
        writer.do(Propose(who="app", received=tomorrow, participant="late", given={"sensed": SENSED}))
    writer.do(Enrol(who="staff", received=LATER + 24 * clock.HOUR, participant="ahead"))
    writer.do(ConfirmClock(who="boss", received=LATER, reason="set right"))
    for status in ("paused", "active"):
        writer.do(SetStatus(who="staff", received=LATER, participant="P001", status=status, reason="on holiday"))
        asked = Propose(who="app", received=LATER, participant="P001", given={"sensed": SENSED})
        writer.do(asked)
    happen_besides(writer, database, made[1]["decision"])
    return writer


def happen_besides(writer: Writer, database: Database, decision: str) -> None:
    """What people say and correct, and what is done about accounts."""
    staff: dict[str, Any] = {"who": "staff", "received": LATER}
    person = {**staff, "participant": "late"}
    with database.reading.connect() as connection:
        made = tables.decisions.c
        nudged = connection.execute(select(made.id).where(made.nudge, made.status == "settled").limit(1)).scalar()
    writer.do(CorrectReported(**staff, decision=decision, reported={"mood": "good"}, reason="misheard"))
    if nudged is not None:
        for outcome in ("opened", "unanswered", "answered"):  # one of them differs
            writer.do(CorrectOutcome(**staff, decision=nudged, outcome=outcome, reason="slipped"))
    writer.do(CorrectZone(**person, timezone="Asia/Seoul", reason="moved"))
    writer.do(SetStatus(**person, status="withdrawn", reason="said so"))
    writer.do(Reinstate(**person, reason="it was somebody else"))
    writer.do(Open(who="app", received=LATER, participant="late", reported={"mood": "low"}))
    adverse: dict[str, Any] = {"text": "fell", "severity": "mild", "serious": False, "began": "yesterday"}
    event = answer_of(writer.do(ReportAdverse(**person, **adverse)))["event"]
    writer.do(Acknowledge(**staff, escalation=f"{event}.0", note="called the doctor"))
    for wanted in (False, True):
        writer.do(WantCalls(**person, wanted=wanted, reason="asked for it"))
    checked = {"item": "staff", "done": True, "note": "seen"}
    for kind, given in ((events.CHECKED, checked), (events.ACCOUNT, {"what": "lock taken back", "account": "an app"}),
                        (events.ACCESS, {"what": "exported", "files": ["decisions"]})):  # fmt: skip
        writer.do(Administer(who="boss", received=LATER, kind=kind, given=given))


@pytest.mark.parametrize("sharing", SHARING)
def test_all_that_can_happen_verifies(database: Database, sharing: str) -> None:
    """On either database, whatever participants share."""
    writer = live(database, study_text(**SHARING[sharing]))
    assert verify(database).findings == []
    writer.do(SetStatus(who="staff", received=LATER, participant="P001", status="completed"))
    writer.do(Close(who="boss", received=LATER, reason="over"))
    assert verify(database).findings == []
    kinds = set(record(database).values())
    if "hard" not in sharing:  # whose few nudges are spent early
        never = set() if sharing == "in part" else {events.POOLED}
        assert kinds == set(events.KINDS) - never, "the control: everything has happened"


def record(database: Database) -> dict[int, str]:
    """The kinds of all events, by number."""
    with database.reading.connect() as connection:
        rows = connection.execute(select(tables.events.c.seq, tables.events.c.kind)).all()
    return {seq: kind for seq, kind in rows}  # noqa: C416  (rows are not pairs to a type checker)


@pytest.mark.parametrize("policy", ["naive", "PD1", "PD2", "periodic", "never", "always"])
def test_every_policy_verifies(sqlite: Database, policy: str) -> None:
    """Rules that have no notes, no price or no budget are folded like the others."""
    live(sqlite, study_text(policy=policy), people=2, steps=6)
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("sharing", ["own", "both, hard"])
def test_numbers_verify(sqlite: Database, sharing: str) -> None:
    """Contexts that are not a finite set."""
    writer = live(sqlite, numeric(study_text(**SHARING[sharing])))
    assert isinstance(writer.memory.fold.cohorts[""].problem, ContinuousProblem)  # type: ignore[union-attr]
    assert verify(sqlite).findings == []


@pytest.fixture
def lived(sqlite: Database) -> Database:
    """A study that verifies."""
    live(sqlite, study_text(), people=2, steps=8)
    assert verify(sqlite).holds, "the control: nothing is wrong yet"
    return sqlite


Body = dict[str, Any]


def rewrite(database: Database, bodies: dict[int, Body], *, cut: int | None = None) -> None:
    """Write the whole record anew, each event with the hash of the one before: someone mends what he has changed.

    The last letter of the hash that event `cut` names goes to the event after it.
    """
    head, carried, rows = events.START, "", []
    for seq, body in bodies.items():
        before = carried + head
        before, carried = (before[:-1], before[-1:]) if seq == cut else (before, "")
        text = msgspec.json.encode({**body, "before": before})
        head = events.hash_of(text)
        rows.append({"seq": seq, "body": text.decode(), "hash": head})
    with database.writing.begin() as connection:
        for row in rows:
            connection.execute(update(tables.events).where(tables.events.c.seq == row["seq"]).values(row))
        connection.execute(update(tables.study).values(head=head))


def bodies_of(database: Database) -> dict[int, Body]:
    """All events as they are stored, by number."""
    table = tables.events.c
    with database.reading.connect() as connection:
        found = connection.execute(select(table.seq, table.body).order_by(table.seq)).all()
    return {seq: msgspec.json.decode(body) for seq, body in found}


def leaves(body: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where values stand in an event."""
    if isinstance(body, dict) and body:
        for name, value in body.items():
            yield from leaves(value, (*path, name))
    elif path != ("before",):
        yield path


def beyond_rounding(value: float) -> float:
    """The least other number that another machine would not have found."""
    return value + 1.01 * CLOSE * max(1.0, abs(value))


def another(value: Any) -> Any:
    """Another value of the same kind: the least that is more than rounding."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return beyond_rounding(value)
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def with_value(body: Any, path: tuple[str, ...], value: Any) -> Any:
    """An event with one value changed, or without it."""
    name, *rest = path
    if rest:
        return {**body, name: with_value(body[name], tuple(rest), value)}
    return {key: known for key, known in body.items() if key != name} if value is ... else {**body, name: value}


NOT_FOLDED = {"why", "because", "text", "version", "salt", "cause", "tries", "reason", "was", "happened"}
"""What nothing follows from, at least in some kinds of events."""
TOLD = {
    events.ADVERSE: {"severity", "serious", "began", "related"}, events.CHECKED: {"item", "done", "note"},
    events.ACCOUNT: {"what", "account"}, events.ACCESS: {"what", "files"},
}  # fmt: skip
"""What some kinds of events say, from which nothing follows: the chain of hashes and its anchors hold it."""


@pytest.mark.parametrize("kind", [kind for kind in events.KINDS if kind not in NOT_REWRITTEN])
def test_every_value_of_an_event_is_held_to_the_fold(lived: Database, kind: str) -> None:
    """Each is changed beyond rounding or taken away, with all hashes mended; of one of each kind."""
    Writer(lived).do(Close(who="boss", received=LATER, reason="over"))
    whole = bodies_of(lived)
    seqs = [seq for seq, body in whole.items() if body["kind"] == kind]
    tried, missed = 0, set()
    for path in {path: None for seq in seqs for path in leaves(whole[seq])}:
        seq = next(seq for seq in reversed(seqs) if path in set(leaves(whole[seq])))
        value: Any = whole[seq]
        for name in path:
            value = value[name]
        rewrite(lived, {**whole, seq: with_value(whole[seq], path, another(value))})
        tried += 1
        if verify(lived).holds:
            missed.add(next((name for name in path if name in NOT_FOLDED), path[-1]))
    assert tried > 10
    assert missed <= NOT_FOLDED | TOLD.get(kind, set())
    rewrite(lived, whole)
    assert verify(lived).holds


def reasoned(database: Database, body: Body) -> None:
    """Mend the row of `decisions` that follows from an event's reason, too."""
    values = {"reason": body["answer"]["reason"]}
    set_to(database, tables.decisions, tables.decisions.c.id == body["decision"], values)


@pytest.mark.parametrize("sharing", SHARING)
def test_reasons_notes_and_time_zones_are_held_to_the_fold(sqlite: Database, sharing: str) -> None:
    """With hashes and rows mended: why nobody was available, what the rule went by, and whose clock it was."""
    writer = live(sqlite, study_text(**SHARING[sharing]), people=2, steps=8)
    writer.do(Propose(who="app", received=LATER, participant="P001", given={"sensed": {**SENSED, "stress": None}}))
    whole = bodies_of(sqlite)
    decided = [seq for seq, body in whole.items() if body["kind"] == events.PROPOSED]
    away = [seq for seq in decided if not whole[seq]["answer"]["available"]]
    noted = [seq for seq in decided if "notes" in whole[seq]["answer"]]
    silent = [seq for seq in decided if seq not in noted and seq not in away]
    missing = [seq for seq in away if whole[seq]["answer"]["reason"].startswith("no value of")]
    told = [seq for seq in away if "reason" in whole[seq]["given"]]
    assert min(map(len, (missing, told, silent, noted))) > 0, "the control: all of it has happened"
    first, last = noted[0], noted[-1]
    note, *notes = whole[first]["answer"]["notes"]
    least = [beyond_rounding(note), *notes]
    changes: list[tuple[int, tuple[str, ...], Any]] = [
        *((seq, ("timezone",), "Europe/Rome") for seq in {body["kind"]: seq for seq, body in whole.items()}.values()),
        *((seq, ("timezone",), None) for seq in (decided[0], first, last)),
        *((seq, ("answer", "reason"), "asleep") for seq in (missing[0], told[-1], first)),
        (told[0], ("answer", "reason"), None),
        *((seq, ("answer", "notes"), [9.0] * 8) for seq in (first, last, silent[0], away[0])),
        *((seq, ("answer", "notes"), whole[seq]["answer"]["notes"][:-1]) for seq in (first, last)),
        *((seq, ("answer", "notes"), ...) for seq in (first, last)),
        (first, ("answer", "notes"), least),
    ]
    for seq, path, value in changes:
        changed = with_value(whole[seq], path, value)
        rewrite(sqlite, {**whole, seq: changed})
        if path[-1] == "reason":
            reasoned(sqlite, changed)
        found = verify(sqlite).findings
        assert [text for text in found if text.startswith(f"event {seq}") and path[-1] in text], (seq, path, found)
        if path[-1] == "reason":
            reasoned(sqlite, whole[seq])
    rounded = [math.nextafter(note, math.inf), *notes]
    rewrite(sqlite, {**whole, first: with_value(whole[first], ("answer", "notes"), rounded)})
    assert verify(sqlite).holds, "a last digit is another machine's"
    rewrite(sqlite, whole)
    assert verify(sqlite).holds


@pytest.mark.parametrize("table", [tables.decisions, tables.participants], ids=lambda table: table.name)
def test_every_column_is_compared(lived: Database, table: Any) -> None:
    """A change in any column of a table that follows from the record is found."""
    key = next(iter(table.primary_key))
    with lived.reading.connect() as connection:
        nudged = table.c.nudge if "nudge" in table.c else key.is_not(None)
        row = connection.execute(select(table).where(nudged).order_by(key).limit(1)).mappings().one()
    for column in table.columns:
        value = row[column.name]
        change = CHANGES.get(column.type.python_type, _larger)
        set_to(lived, table, key == row[key.name], {column.name: change(value)})
        assert not verify(lived).holds, column.name
        now = key == (change(value) if column is key else row[key.name])
        set_to(lived, table, now, {column.name: value})
    assert verify(lived).holds


def test_a_letter_from_one_hash_to_the_next_is_found(lived: Database) -> None:
    """Two events that name those before them one after the other as they should, but cut in the wrong place."""
    whole = bodies_of(lived)
    cut = next(seq for seq in range(20, len(whole)) if whole[seq]["kind"] == whole[seq + 1]["kind"] == events.PROPOSED)
    rewrite(lived, whole, cut=cut)
    changed = bodies_of(lived)
    assert [len(changed[seq]["before"]) for seq in (cut, cut + 1, cut + 2)] == [63, 65, 64]
    assert not verify(lived).holds
    rewrite(lived, whole)
    assert verify(lived).holds, "the control"


@pytest.mark.parametrize("where", [0, -3, "1", "2", "1000", "5000"])
def test_an_event_too_many_is_found_wherever_it_lies(lived: Database, where: int | str) -> None:
    """Before the first event, just behind the last or far behind it: all that are stored are looked at."""
    with lived.writing.begin() as connection:
        found = connection.execute(select(tables.events).order_by(tables.events.c.seq.desc()).limit(1))
        last = dict(found.mappings().one())
        seq = where if isinstance(where, int) else last["seq"] + int(where)
        connection.execute(tables.events.insert(), {**last, "seq": seq})
    assert not verify(lived).holds
    with lived.writing.begin() as connection:
        connection.execute(tables.events.delete().where(tables.events.c.seq == seq))
    assert verify(lived).holds


@pytest.mark.parametrize("kind", [events.SETTLED, events.REWARDED, events.CORRECTED, events.SKIPPED])
def test_a_row_that_missed_its_last_change_is_found(lived: Database, kind: str) -> None:
    """A row that was right until some event, and says so itself, is not right after it."""
    table = tables.decisions
    with lived.reading.connect() as connection:
        about = connection.execute(select(tables.events.c.decision).where(tables.events.c.kind == kind)).scalars().all()
        row = connection.execute(select(table).where(table.c.id == about[0])).mappings().one()
        changes = select(tables.events.c.seq).where(tables.events.c.decision == row["id"])
        seqs = connection.execute(changes.order_by(tables.events.c.seq)).scalars().all()
    earlier = Replay(Verdict(), secret=None)
    with lived.reading.connect() as connection:
        for event, received in _events(connection, earlier.verdict):
            if event.seq == seqs[-1]:
                break
            earlier.take(event, received)
    before = dict(zip(earlier.columns, earlier.decisions[row["id"]], strict=True))
    assert before["seq"] < row["seq"], "the control: that event changes the row"
    set_to(lived, table, table.c.id == row["id"], before)
    assert not verify(lived).holds
    set_to(lived, table, table.c.id == row["id"], dict(row))
    assert verify(lived).holds


def _larger(number: Any) -> Any:
    return (number or 0) + 1000


CHANGES: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: not value, bytes: lambda value: (value or b"x")[:-1], str: lambda value: f"{value}x",
    dt.date: lambda value: (value or dt.date(2026, 3, 1)) + dt.timedelta(days=1),
}  # fmt: skip


def set_to(database: Database, table: Any, where: Any, values: dict[str, Any]) -> None:
    """Change one row by hand, past the database's own checks."""
    with database.writing.begin() as connection:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        assert connection.execute(update(table).where(where).values(values)).rowcount == 1


STUDY = {
    "seq": 3, "head": "0" * 64, "hash": "0" * 64, "status": "closed", "enrolled": 9, "spent": 0.5, "nudges": 77,
    "shared": b"",
}  # fmt: skip


@pytest.mark.parametrize("sharing", [sharing for sharing in SHARING if sharing != "own"])
def test_what_is_shared_is_compared(sqlite: Database, sharing: str) -> None:
    """The study's row, what all share, and every number that depends on it."""
    live(sqlite, study_text(**SHARING[sharing]), people=2, steps=6)
    assert verify(sqlite).holds, "the control: nothing is wrong yet"
    with sqlite.reading.connect() as connection:
        study = connection.execute(select(tables.study)).mappings().one()
    for name, value in STUDY.items():
        if name in {"spent", "nudges"} and not SHARING[sharing].get("shared"):
            continue  # that of each participant counts
        set_to(sqlite, tables.study, tables.study.c.id == 1, {name: value})
        assert not verify(sqlite).holds, name
        set_to(sqlite, tables.study, tables.study.c.id == 1, {name: study[name]})
    whole = bodies_of(sqlite)
    last = max(seq for seq, body in whole.items() if body["kind"] == events.PROPOSED and body["answer"]["available"])

    def say_that(gap: float) -> None:
        rewrite(sqlite, {**whole, last: with_value(whole[last], ("answer", "gap"), gap)})
        with sqlite.writing.begin() as connection:  # the row that follows from it is mended as well
            connection.execute(update(tables.decisions).where(tables.decisions.c.id == f"d{last}").values(gap=gap))

    said = whole[last]["answer"]["gap"]
    say_that(math.nextafter(said, math.inf))
    assert verify(sqlite).holds, "another machine may have rounded it so"
    say_that(beyond_rounding(said))
    assert not verify(sqlite).holds
    rewrite(sqlite, whole)
    set_to(sqlite, tables.decisions, tables.decisions.c.id == f"d{last}", {"gap": whole[last]["answer"]["gap"]})
    assert verify(sqlite).holds


def test_an_empty_record_verifies(sqlite: Database) -> None:
    """Nothing to fold is nothing wrong, unless something is stored."""
    assert verify(sqlite).findings == []
    launch(Writer(sqlite), study_text())
    assert verify(sqlite).count == 1, "the control: with one event there is something"
    with sqlite.writing.begin() as connection:
        connection.execute(tables.events.delete())
    assert verify(sqlite).findings != []


def test_progress_is_reported(lived: Database) -> None:
    """How many events of how many are folded, up to all of them."""
    told: list[tuple[int, int]] = []
    count = verify(lived, lambda done, total: told.append((done, total))).count
    assert told[-1] == (count, count)
