"""Records folded in bulk: judged as they are one by one, and nothing that is wrong goes unnoticed."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from course import BEGIN, answer_of, launch, run_course
from sqlalchemy import func, select, update
from study_text import numeric, study_text

from opportune.live.rounding import CLOSE
from opportune.problems.continuous import ContinuousProblem
from opportune.service import clock, events, tables
from opportune.service import verify as module
from opportune.service.administration import Amend, Close
from opportune.service.bulk import Bulk, Lot
from opportune.service.calls import Try
from opportune.service.commands import Answer, Enrol, Note, Propose, Reward, SetStatus
from opportune.service.compared import Part
from opportune.service.database import Database
from opportune.service.read import Links, Row, _moments, read, whole
from opportune.service.refold import Refold, Verdict
from opportune.service.statements import stream, update_all
from opportune.service.tracks import Doubt
from opportune.service.upkeep import GiveUp
from opportune.service.verify import divided, in_bulk, verify
from opportune.service.writer import Writer

SHARING: dict[str, dict[str, Any]] = {
    "own": {},
    "shared": {"shared": True},
    "pooled": {"pooled": True},
    "both, hard": {"shared": True, "pooled": True, "hard": True, "budget": 5},
}
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
    for status in ("paused", "active"):
        writer.do(SetStatus(who="staff", received=LATER, participant="P001", status=status, reason="on holiday"))
        asked = Propose(who="app", received=LATER, participant="P001", given={"sensed": SENSED})
        writer.do(asked)
    return writer


def agree(database: Database, sharing: str) -> None:
    """Folding in bulk, by one process or two, finds what folding one by one finds: nothing wrong."""
    one_by_one = verify(database, bulk=False)
    together = bool(SHARING[sharing])
    assert one_by_one.findings == []
    for processes in (1, 2):
        assert in_bulk(database, processes=processes, together=together) == one_by_one


@pytest.mark.parametrize("sharing", SHARING)
def test_bulk_finds_what_one_by_one_finds(database: Database, sharing: str) -> None:
    """On either database, whatever participants share: all that can happen is folded to the same states and rows."""
    writer = live(database, study_text(**SHARING[sharing]))
    agree(database, sharing)
    writer.do(SetStatus(who="staff", received=LATER, participant="P001", status="completed"))
    writer.do(Close(who="boss", received=LATER, reason="over"))
    agree(database, sharing)
    kinds = set(record(database).values())
    if "hard" not in sharing:  # whose few nudges are spent early
        assert kinds == set(events.KINDS), "the control: everything has happened"


@pytest.mark.parametrize("lot", [3, 1000])
@pytest.mark.parametrize("sharing", ["pooled", "both, hard"])
def test_who_joins_late_begins_with_what_all_have_learned(
    sqlite: Database, sharing: str, lot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of all is as it was when someone was enrolled, also if that is folded with what came before and after."""
    monkeypatch.setattr(module, "LOT", lot)
    writer = live(sqlite, study_text(**SHARING[sharing]), people=2, steps=8)
    agree(sqlite, sharing)
    writer.do(Enrol(who="staff", received=LATER, participant="last"))
    agree(sqlite, sharing)
    writer.do(Propose(who="app", received=LATER, participant="last", given={"sensed": SENSED}))
    agree(sqlite, sharing)


@pytest.mark.parametrize("number", range(1, 20))
def test_parts_have_everybody_once(number: int) -> None:
    """However many processes there are; where one makes the calls of all, it has fewer participants than the others."""
    for together in (False, True):
        parts = divided(number, together=together)
        assert len(parts) == number
        assert len({part.of for part in parts}) == 1
        assert sorted(share for part in parts for share in part.numbers) == list(range(parts[0].of))
        assert 0 in parts[0].numbers, "what concerns all falls to the first"
    assert len(parts[0].numbers) < len(parts[1].numbers) if number == 2 else True


def test_every_row_is_one_parts(database: Database) -> None:
    """Also what is about nobody, and what is about somebody who was never enrolled: these are the first's."""
    live(database, study_text(), people=3, steps=3)
    with database.writing.begin() as connection:
        stranger = connection.execute(select(func.max(tables.events.c.seq))).scalar_one()
        connection.execute(update(tables.events).where(tables.events.c.seq == stranger).values(participant="nobody"))
    for parts in (divided(1), divided(3), divided(2, together=True)):
        with database.reading.connect() as connection:
            queries = [f"SELECT seq FROM events WHERE {part.mine('participant')}" for part in parts]
            found = [[seq for some in stream(connection, query) for (seq,) in some] for query in queries]
        assert sorted(seq for some in found for seq in some) == [*range(1, stranger + 1)]
        assert {1, stranger} <= {*found[0]}
        assert all(found), "the control: everyone has some"


@pytest.fixture
def rows(lived: Database) -> list[Row]:
    """Some events as they are read."""
    query = module._query(Part(), "", body="CAST(events.body AS BLOB)", only="events.seq <= 30")
    with lived.reading.connect() as connection:
        return [row for some in stream(connection, query) for row in some]


@pytest.mark.parametrize("letters", [str.upper, lambda text: " " + text[1:], lambda text: text[:-1] + "g"])
def test_a_hash_in_other_letters_is_doubted(rows: list[Row], letters: Callable[[str], str]) -> None:
    """As written beside an event, or in it, where its own hash is mended."""
    assert len(read(rows).events) == len(rows) == 30, "the control"
    for place in range(30):
        *head, hashed, body, own = rows[place]
        other = msgspec.json.decode(body)
        other = msgspec.json.encode({**other, "before": letters(other["before"])})
        for changed in ((*head, letters(hashed), body, own), (*head, events.hash_of(other), other, own)):
            if changed == rows[place]:
                continue  # hashes of digits alone have no capitals
            with pytest.raises((Doubt, ValueError)):
                read([*rows[:place], changed, *rows[place + 1 :]])  # type: ignore[list-item]


def test_a_chain_is_whole_or_doubted(rows: list[Row]) -> None:
    """However its events are divided; not with one that is missing, twice there, or after another one."""
    links = [read([row]).links for row in rows]
    assert whole(links) == whole([Links(*map(b"".join, zip(*links[::2], strict=True))), *links[1::2][::-1]]) == 30
    assert whole(links[:7]) == 7
    third = links[2]
    for wrong in (
        links[1:], [*links[:5], *links[6:]], [*links, links[4]], [*links[:4], links[3], *links[5:]],
        [*links[:2], third._replace(befores=third.hashes), *links[3:]],
        [*links[:2], third._replace(hashes=third.befores), *links[3:]],
        *([third._replace(numbers=number.to_bytes(8, "little", signed=True)), *links[:2], *links[3:]]
          for number in (0, -1, 4, 31, 2**62)),
    ):  # fmt: skip
        with pytest.raises(Doubt):
            whole(wrong)


def record(database: Database) -> dict[int, str]:
    """The kinds of all events, by number."""
    with database.reading.connect() as connection:
        rows = connection.execute(select(tables.events.c.seq, tables.events.c.kind)).all()
    return {seq: kind for seq, kind in rows}  # noqa: C416  (rows are not pairs to a type checker)


@pytest.mark.parametrize("policy", ["naive", "PD1", "PD2", "periodic", "never", "always"])
def test_bulk_follows_every_policy(sqlite: Database, policy: str) -> None:
    """Rules that have no notes, no price or no budget are folded like the others."""
    live(sqlite, study_text(policy=policy), people=2, steps=6)
    agree(sqlite, "own")


@pytest.mark.parametrize("sharing", ["own", "both, hard"])
def test_bulk_follows_numbers(sqlite: Database, sharing: str) -> None:
    """Contexts that are not a finite set are written down call by call."""
    writer = live(sqlite, numeric(study_text(**SHARING[sharing])))
    assert isinstance(writer.memory.fold.cohort.problem, ContinuousProblem)  # type: ignore[union-attr]
    agree(sqlite, sharing)


@pytest.fixture
def lived(sqlite: Database) -> Database:
    """A study that verifies in bulk."""
    live(sqlite, study_text(), people=2, steps=8)
    assert in_bulk(sqlite).holds, "the control: nothing is wrong yet"
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
        update_all(connection, tables.events, ("seq",), ("body", "hash"), rows)
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


def another(value: Any) -> list[Any]:
    """Other values of the same kind, and of another; whole numbers by one, real ones by rounding and just not."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, float):
        return [math.nextafter(value, math.inf), beyond_rounding(value), value + 0.5, None]
    if isinstance(value, int):
        return [value + 1, None]
    if isinstance(value, str):
        return [f"{value}x", None]
    return ["x", True]


def with_value(body: Any, path: tuple[str, ...], value: Any) -> Any:
    """An event with one value changed, or without it."""
    name, *rest = path
    if rest:
        return {**body, name: with_value(body[name], tuple(rest), value)}
    return {key: known for key, known in body.items() if key != name} if value is ... else {**body, name: value}


@pytest.mark.parametrize("kind", [kind for kind in events.KINDS if kind not in {events.LAUNCHED, events.AMENDED}])
def test_whatever_is_found_one_by_one_is_doubted_in_bulk(lived: Database, kind: str) -> None:
    """Every value of an event, changed by whatever little or taken away, with all hashes mended."""
    Writer(lived).do(Close(who="boss", received=LATER, reason="over"))
    whole = bodies_of(lived)
    seqs = [seq for seq, body in whole.items() if body["kind"] == kind]
    tried = found = 0
    last: list[str] = []
    for path in {path: None for seq in seqs for path in leaves(whole[seq])}:
        seq = next(seq for seq in reversed(seqs) if path in set(leaves(whole[seq])))
        value: Any = whole[seq]
        for name in path:
            value = value[name]
        for changed in [*another(value), ...]:
            rewrite(lived, {**whole, seq: with_value(whole[seq], path, changed)})
            findings = verify(lived, bulk=False).findings
            tried += 1
            if findings:
                found += 1
                with pytest.raises(Doubt):
                    in_bulk(lived)
                last = findings
    assert verify(lived, bulk=True).findings == last, "who doubts asks again, one by one"
    rewrite(lived, whole)
    assert in_bulk(lived).holds
    assert tried > found > 10, "the control: most changes are found, but words are anybody's"


def reasoned(database: Database, body: Body) -> None:
    """Mend the row of `decisions` that follows from an event's reason, too."""
    values = {"reason": body["answer"]["reason"]}
    set_to(database, tables.decisions, tables.decisions.c.id == body["decision"], values)


@pytest.mark.parametrize("sharing", SHARING)
def test_reasons_notes_and_time_zones_are_held_to_the_fold(sqlite: Database, sharing: str) -> None:
    """With hashes and rows mended: why nobody was available, what the rule went by, and whose clock it was."""
    writer = live(sqlite, study_text(**SHARING[sharing]), people=2, steps=8)
    writer.do(Propose(who="app", received=LATER, participant="P001", given={"sensed": {**SENSED, "stress": None}}))
    together = bool(SHARING[sharing])
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
        for processes in (1, 2):
            with pytest.raises(Doubt):
                in_bulk(sqlite, processes=processes, together=together)
        found = verify(sqlite, bulk=True, processes=1).findings
        assert [text for text in found if text.startswith(f"event {seq}") and path[-1] in text], (seq, path, found)
        if path[-1] == "reason":
            reasoned(sqlite, whole[seq])
    rounded = [math.nextafter(note, math.inf), *notes]
    rewrite(sqlite, {**whole, first: with_value(whole[first], ("answer", "notes"), rounded)})
    for processes in (1, 2):
        assert in_bulk(sqlite, processes=processes, together=together).holds, "a last digit is another machine's"
    rewrite(sqlite, whole)
    assert in_bulk(sqlite, together=together).holds


@pytest.mark.parametrize("table", [tables.decisions, tables.participants, tables.states], ids=lambda table: table.name)
def test_every_column_is_compared(lived: Database, table: Any) -> None:
    """A change in any column of any table that follows from the record is doubted, and found one by one."""
    key = next(iter(table.primary_key))
    with lived.reading.connect() as connection:
        nudged = table.c.nudge if "nudge" in table.c else key.is_not(None)
        row = connection.execute(select(table).where(nudged).order_by(key).limit(1)).mappings().one()
    for column in table.columns:
        value = row[column.name]
        change = CHANGES.get(column.type.python_type, _larger)
        set_to(lived, table, key == row[key.name], {column.name: change(value)})
        with pytest.raises(Doubt):
            in_bulk(lived)
        assert not verify(lived, bulk=True).holds
        now = key == (change(value) if column is key else row[key.name])
        set_to(lived, table, now, {column.name: value})
    assert in_bulk(lived).holds


def test_rows_of_decisions_may_lie_in_any_order(lived: Database) -> None:
    """They are read along with the record, but found wherever they are; and one too many or too few is doubted."""
    with lived.writing.begin() as connection:
        rows = [dict(row) for row in connection.execute(select(tables.decisions)).mappings()]
        connection.execute(tables.decisions.delete())
        connection.execute(tables.decisions.insert(), rows[::-1])
    assert in_bulk(lived).holds
    assert in_bulk(lived, processes=2).holds
    for wrong in (rows[1:], [*rows, {**rows[0], "id": "d0", "step": 1000}]):
        with lived.writing.begin() as connection:
            connection.execute(tables.decisions.delete())
            connection.execute(tables.decisions.insert(), wrong)
        with pytest.raises(Doubt):
            in_bulk(lived)
        assert not verify(lived, bulk=True).holds


@pytest.mark.parametrize(
    "texts",
    [
        [
            clock.iso(moment)
            for moment in (0, 1, 951_782_399_999_999, 951_782_400_000_000, BEGIN, 4_102_444_800_000_001)
        ],
        [clock.iso(BEGIN)] * 3,
        ["2026-03-29T01:30:00+00:00", clock.iso(BEGIN)],
    ],
    ids=["as written", "the same", "as others write"],
)
def test_many_times_are_read_as_one_by_one(texts: list[str]) -> None:
    """To the microsecond, also across a leap day."""
    assert _moments(texts) == [clock.from_iso(text) for text in texts]


def test_a_letter_from_one_hash_to_the_next_is_doubted(lived: Database) -> None:
    """Two events that name those before them one after the other as they should, but cut in the wrong place."""
    whole = bodies_of(lived)
    cut = next(seq for seq in range(20, len(whole)) if whole[seq]["kind"] == whole[seq + 1]["kind"] == events.PROPOSED)
    rewrite(lived, whole, cut=cut)
    changed = bodies_of(lived)
    assert [len(changed[seq]["before"]) for seq in (cut, cut + 1, cut + 2)] == [63, 65, 64]
    with pytest.raises(Doubt):
        in_bulk(lived)
    assert not verify(lived, bulk=True).holds
    rewrite(lived, whole)
    assert in_bulk(lived).holds, "the control"


@pytest.mark.parametrize("where", [0, -3, "1", "2", "1000", "5000"])
def test_an_event_too_many_is_doubted_wherever_it_lies(lived: Database, where: int | str) -> None:
    """Before the first event, just behind the last or far behind it: all that are stored are looked at."""
    with lived.writing.begin() as connection:
        found = connection.execute(select(tables.events).order_by(tables.events.c.seq.desc()).limit(1))
        last = dict(found.mappings().one())
        seq = where if isinstance(where, int) else last["seq"] + int(where)
        connection.execute(tables.events.insert(), {**last, "seq": seq})
    for processes in (1, 2):
        with pytest.raises(Doubt):
            in_bulk(lived, processes=processes)
    assert not verify(lived, bulk=True).holds
    with lived.writing.begin() as connection:
        connection.execute(tables.events.delete().where(tables.events.c.seq == seq))
    assert in_bulk(lived).holds


@pytest.mark.parametrize("kind", [events.SETTLED, events.REWARDED, events.CORRECTED, events.SKIPPED])
def test_a_row_that_missed_its_last_change_is_doubted(lived: Database, kind: str) -> None:
    """A row that was right until some event, and says so itself, is not right after it."""
    table = tables.decisions
    with lived.reading.connect() as connection:
        about = connection.execute(select(tables.events.c.decision).where(tables.events.c.kind == kind)).scalars().all()
        row = connection.execute(select(table).where(table.c.id == about[0])).mappings().one()
        changes = select(tables.events.c.seq).where(tables.events.c.decision == row["id"])
        seqs = connection.execute(changes.order_by(tables.events.c.seq)).scalars().all()
    earlier = Refold(Verdict())
    with lived.reading.connect() as connection:
        for event, received, _mine in module._events(connection, Part(), earlier.verdict):
            if event.seq == seqs[-1]:
                break
            earlier.take(event, received)
    before = dict(zip(earlier.columns, earlier.decisions[row["id"]], strict=True))
    assert before["seq"] < row["seq"], "the control: that event changes the row"
    set_to(lived, table, table.c.id == row["id"], before)
    with pytest.raises(Doubt):
        in_bulk(lived)
    assert not verify(lived, bulk=True).holds
    set_to(lived, table, table.c.id == row["id"], dict(row))
    assert in_bulk(lived).holds


def _larger(number: Any) -> Any:
    return (number or 0) + 1000


CHANGES: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: not value, bytes: lambda value: (value or b"x")[:-1], str: lambda value: f"{value}x",
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


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("sharing", [sharing for sharing in SHARING if sharing != "own"])
def test_what_is_shared_is_compared(sqlite: Database, sharing: str, processes: int) -> None:
    """By one process or several: the study's row, what all share, and every number that depends on it."""
    live(sqlite, study_text(**SHARING[sharing]), people=2, steps=6)

    def fold() -> bool:
        return in_bulk(sqlite, processes=processes, together=True).holds

    assert fold(), "the control: nothing is wrong yet"
    with sqlite.reading.connect() as connection:
        study = connection.execute(select(tables.study)).mappings().one()
    for name, value in STUDY.items():
        if name in {"spent", "nudges"} and not SHARING[sharing].get("shared"):
            continue  # that of each participant counts
        set_to(sqlite, tables.study, tables.study.c.id == 1, {name: value})
        with pytest.raises(Doubt):
            fold()
        set_to(sqlite, tables.study, tables.study.c.id == 1, {name: study[name]})
    whole = bodies_of(sqlite)
    last = max(seq for seq, body in whole.items() if body["kind"] == events.PROPOSED and body["answer"]["available"])

    def say_that(gap: float) -> None:
        rewrite(sqlite, {**whole, last: with_value(whole[last], ("answer", "gap"), gap)})
        with sqlite.writing.begin() as connection:  # the row that follows from it is mended as well
            connection.execute(update(tables.decisions).where(tables.decisions.c.id == f"d{last}").values(gap=gap))

    said = whole[last]["answer"]["gap"]
    say_that(math.nextafter(said, math.inf))
    assert fold(), "another machine may have rounded it so"
    say_that(beyond_rounding(said))
    with pytest.raises(Doubt):
        fold()
    rewrite(sqlite, whole)
    set_to(sqlite, tables.decisions, tables.decisions.c.id == f"d{last}", {"gap": whole[last]["answer"]["gap"]})
    assert fold()


def test_a_long_record_is_folded_in_bulk(lived: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless told otherwise: a record that is long, and no other; and events in small lots are folded the same."""
    lots, taken = [], [0]

    def take(bulk: Bulk, rows: list[Row]) -> None:
        taken[0] += len(rows)
        followed(bulk, rows)

    def cut(bulk: Bulk) -> Lot:
        lots.append(taken[0])
        taken[0] = 0
        return made(bulk)

    followed, made = Bulk.take, Bulk.cut
    monkeypatch.setattr(Bulk, "take", take)
    monkeypatch.setattr(Bulk, "cut", cut)
    short = verify(lived)
    assert not lots
    monkeypatch.setattr(module, "LONG", 10)
    monkeypatch.setattr(module, "LOT", 7)
    assert verify(lived) == short
    assert len(lots) > 5
    assert max(lots) == 7


def test_an_empty_record_is_judged_one_by_one(sqlite: Database) -> None:
    """Nothing to fold is nothing wrong, unless something is stored."""
    with pytest.raises(Doubt):
        in_bulk(sqlite)
    assert verify(sqlite, bulk=True).findings == []
    writer = Writer(sqlite)
    launch(writer, study_text())
    assert in_bulk(sqlite).count == 1, "the control: with one event there is something"
    with sqlite.writing.begin() as connection:
        connection.execute(tables.events.delete())
    assert verify(sqlite, bulk=True).findings == verify(sqlite, bulk=False).findings != []
