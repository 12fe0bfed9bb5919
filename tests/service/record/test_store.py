"""The record and what follows from it: exact, whole, the same after every restart."""

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from course import BEGIN, answer_of, launch, run_course
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from study_text import study_text

from opportune.service.commands.base import Command
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Reply, Writer
from opportune.service.state.packing import pack
from opportune.service.verify.check import rebuilt, verify
from opportune.service.verify.replay import Replay, Verdict

SHARING: dict[str, dict[str, Any]] = {
    "own": {},
    "shared": {"shared": True},
    "pooled": {"pooled": True},
    "both, hard": {"shared": True, "pooled": True, "hard": True, "budget": 5},
}


def bodies(replies: list[Reply | Exception]) -> list[Any]:
    """Answers as they can be compared."""
    return [reply if isinstance(reply, Reply) else str(reply) for reply in replies]


@pytest.mark.parametrize("sharing", SHARING)
def test_a_course_verifies_and_does_not_depend_on_restarts(database: Database, sharing: str) -> None:
    """Whatever happened can be folded again; a service that forgets everything at each request decides the same."""
    writer = Writer(database)
    launch(writer, study_text(**SHARING[sharing]))
    whole = run_course(writer.write, people=3, steps=12)
    verdict = verify(database)
    assert verdict.findings == []
    assert verdict.decisions == 36
    assert verdict.count == len(event_rows(database, limit=10_000)) > 70
    with database.writing.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(table.delete())
    launch(Writer(database), study_text(**SHARING[sharing]))

    def forgetful(commands: Sequence[Command]) -> list[Reply | Exception]:
        return [Writer(database).write([command])[0] for command in commands]

    again = run_course(forgetful, people=3, steps=12)
    assert bodies(again) == bodies(whole)
    assert verify(database).findings == []


def test_two_writers_take_turns(database: Database) -> None:
    """Two services over one database, each with agents of its own in memory, decide as one does."""
    one = Writer(database)
    launch(one, study_text(shared=True))
    whole = bodies(run_course(one.write, people=3, steps=10))
    with database.writing.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(table.delete())
    writers = [Writer(database), Writer(database)]
    launch(writers[0], study_text(shared=True))

    def take_turns(commands: Sequence[Command]) -> list[Reply | Exception]:
        writers.reverse()
        return writers[0].write(commands)

    taken = run_course(take_turns, people=3, steps=10)
    assert bodies(taken) == whole
    assert verify(database).findings == []


TAMPERED = {
    "an event's text": "UPDATE events SET body = replace(body, '\"nudged\":false', '\"nudged\":true') WHERE seq = 20",
    "an event's hash": "UPDATE events SET hash = 'aa' WHERE seq = 20",
    "an event is gone": "DELETE FROM events WHERE seq = 20",
    "the last event is gone": "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
    "an event's author": "UPDATE events SET who = 'someone' WHERE seq = 20",
    "a reward": "UPDATE decisions SET reward = 9 WHERE reward IS NOT NULL",
    "a decision is gone": "DELETE FROM decisions WHERE step = 3",
    "an open decision": "UPDATE participants SET open_decision = 'd1'",
    "a budget": "UPDATE participants SET spent = 0, nudges = 0",
    "a status": "UPDATE participants SET status = 'paused' WHERE number = 1",
    "a state": "UPDATE participants SET state = (SELECT state FROM participants WHERE name = 'P001')",
    "the study file": "UPDATE study SET hash = 'aa'",
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_record_that_was_edited_does_not_verify(sqlite: Database, what: str) -> None:
    """Whatever is changed by hand is found."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=8)
    assert verify(sqlite).holds
    with sqlite.writing.begin() as connection:
        changed = connection.exec_driver_sql(TAMPERED[what]).rowcount
    assert changed > 0, "the control: something was changed"
    assert not verify(sqlite).holds


def test_a_chain_that_was_hashed_again_still_has_wrong_decisions(sqlite: Database) -> None:
    """Someone who changes an event and mends every hash after it is found by folding."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=8)

    def raise_probability(event: Any) -> dict[str, Any]:
        if event.kind != events.PROPOSED or not event.answer["available"]:
            return {}
        return {"answer": {**event.answer, "probability": min(1.0, event.answer["probability"] + 0.01)}}

    rehash(sqlite, raise_probability)
    findings = verify(sqlite).findings
    assert findings
    assert not any("hash" in finding for finding in findings)


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_a_retry_gets_the_original_answer(database: Database) -> None:
    """The same key and content give the same bytes, also by another process; other content is refused."""
    writer = Writer(database)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}
    ask = Propose(who="app", received=BEGIN, participant="P1", given=given, key="app:1", fingerprint="a")
    first = writer.do(ask)
    again = Propose(who="app", received=BEGIN + 9, participant="P1", given=given, key="app:1", fingerprint="a")
    assert writer.do(again) == first
    assert Writer(database).do(again) == first
    both = writer.write([again, again])
    assert both == [first, first]
    other = Propose(who="app", received=BEGIN, participant="P1", given=given, key="app:1", fingerprint="b")
    with pytest.raises(Refused, match="used before"):
        writer.do(other)
    assert answer_of(first)["step"] == 1
    assert verify(database).decisions == 1


def test_two_callers_may_choose_the_same_key(sqlite: Database) -> None:
    """Whatever their names have in common: each gets a decision of its own."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}
    asked = [
        Propose(who=who, received=BEGIN, participant="P1", given=given, key=key, fingerprint="a")
        for who, key in (("a", "b:1"), ("a:b", "1"), ("a", "1"))
    ]
    assert len({answer_of(reply)["decision"] for reply in writer.write([*asked, *asked])}) == 3


def test_the_same_key_twice_in_one_batch_is_one_decision(sqlite: Database) -> None:
    """A client that sends a request twice at once gets one decision."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}
    asked = [
        Propose(who="app", received=BEGIN, participant="P1", given=given, key="app:1", fingerprint="a") for _ in "ab"
    ]
    one, two = writer.write(asked)
    assert one == two
    assert verify(sqlite).decisions == 1


def test_what_is_refused_stores_nothing(sqlite: Database) -> None:
    """One bad request in a batch is refused; the others are carried out, and the record knows nothing of it."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    good: dict[str, Any] = {"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}
    bad = [
        {"sensed": {"time_of_day": "noon", "stress": 3, "sleep": "poor"}},
        {"sensed": {"stress": float("nan"), "sleep": "poor", "time_of_day": "morning"}},
        {"sensed": {**good["sensed"], "mood": "low"}},
        {**good, "shown": "dance"},
        {**good, "reported": {"sleep": "poor"}},
    ]
    commands = [Propose(who="app", received=BEGIN, participant="P1", given=given) for given in [good, *bad, good]]
    first, *refused, last = writer.write(commands)
    assert (answer_of(first)["step"], answer_of(last)["step"]) == (1, 2)
    assert all(isinstance(found, Refused) and found.code == "invalid" for found in refused), refused
    assert verify(sqlite).findings == []
    assert len(event_rows(sqlite, limit=100)) == 4


def test_the_database_itself_refuses_an_overspent_budget(database: Database) -> None:
    """Not even a faulty program can store more nudges than there are."""
    writer = Writer(database)
    launch(writer, study_text(hard=True, budget=3))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    for values in ({"nudges": 4}, {"spent": 3.1}, {"spent": -0.5}):
        with pytest.raises(IntegrityError), database.writing.begin() as connection:
            connection.execute(update(tables.participants).values(values))
    with database.writing.begin() as connection:
        connection.execute(update(tables.participants).values(nudges=3, spent=3.0))  # the control: that much is there


def test_what_is_told_of_earlier_steps_outlives_a_restart(sqlite: Database) -> None:
    """Reported values of steps that a reveal uncovers later are stored, and learned from in the same order."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy="always"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    sensed = {"sensed": FULL["sensed"]}
    asked = [Propose(who="app", received=BEGIN, participant="P1", given=sensed) for _ in range(4)]
    made = [answer_of(reply)["decision"] for reply in writer.write(asked)]
    writer.do(Reward(who="app", received=BEGIN, decision=made[1], reward=0.3))
    told = {"1": {"mood": "low"}, "2": {"mood": "good"}}
    answer = Answer(
        who="staff", received=BEGIN, decision=made[3], answered=True, reported={"mood": "low"}, earlier=told
    )
    writer.do(answer)
    again = Writer(sqlite)
    later = {**sensed, "reported": {"mood": "low"}}
    for one in (writer, again, writer, again):
        assert answer_of(one.do(Propose(who="app", received=BEGIN, participant="P1", given=later)))["mode"] == "learned"
        last = one.memory.participants["P1"]
        nudge = Answer(who="staff", received=BEGIN, decision=str(last.open_decision), answered=True)
        assert answer_of(one.do(nudge))["revealed"]
    assert [s.seen for s in again.memory.participants["P1"].agent.steps.values()] == [True, True, False, *[True] * 5]
    assert verify(sqlite).findings == []


FULL = {"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}, "opened": True, "reported": {"mood": "low"}}


def test_a_reward_that_would_ruin_the_state_is_refused(sqlite: Database) -> None:
    """A number so large that the learned state is no longer finite is not learned from, and others are not harmed."""
    writer = Writer(sqlite)
    launch(writer, study_text().replace("[reward]\n", "[reward]\nbounds = [-1e30, 1e30]\n"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    made = [answer_of(writer.do(Propose(who="app", received=BEGIN, participant="P1", given=FULL))) for _ in "ab"]
    first, second = (decision["decision"] for decision in made)
    fine, ruinous, after = writer.write([
        Reward(who="app", received=BEGIN, decision=first, reward=1e30),
        Reward(who="app", received=BEGIN, decision=first, reward=-1.7e308, corrects=True, reason="wrong sign"),
        Reward(who="app", received=BEGIN, decision=second, reward=0.5),
    ])  # fmt: skip
    assert answer_of(fine)["learned"]
    assert isinstance(ruinous, Refused)
    assert ruinous.code == "invalid"
    assert answer_of(after)["learned"]
    assert verify(sqlite).findings == []


def test_a_state_that_is_ruined_in_memory_is_read_again(sqlite: Database) -> None:
    """What is stored is the last good state: an agent whose numbers were damaged in memory is replaced by it."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    writer.do(Propose(who="app", received=BEGIN, participant="P1", given=FULL))
    writer.memory.participants["P1"].agent.numbers.arrays["model"][:] = float("nan")
    made = answer_of(writer.do(Propose(who="app", received=BEGIN, participant="P1", given=FULL)))
    assert made["mode"] == "learned"
    assert verify(sqlite).findings == []


def test_rewards_that_cannot_be_right_are_refused(sqlite: Database) -> None:
    """Rewards lie within the study's bounds, or at least within reason."""
    for bounds, bad, good in (("", 1e13, 1e6), ("bounds = [-5, 5]\n", 5.5, 5.0)):
        writer = Writer(sqlite)
        with sqlite.writing.begin() as connection:
            for table in tables.metadata.sorted_tables:
                connection.execute(table.delete())
        launch(writer, study_text().replace("[reward]\n", f"[reward]\n{bounds}"))
        writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
        made = answer_of(writer.do(Propose(who="app", received=BEGIN, participant="P1", given=FULL)))
        with pytest.raises(Refused, match="expected a number from"):
            writer.do(Reward(who="app", received=BEGIN, decision=made["decision"], reward=bad))
        writer.do(Reward(who="app", received=BEGIN, decision=made["decision"], reward=good))


def test_verify_sees_one_moment(database: Database) -> None:
    """While others write, every process sees the same last event; nothing that is newer is taken for wrong."""
    writer = Writer(database)
    launch(writer, study_text(horizon=2000))
    run_course(writer.write, people=2, steps=20)
    database.close()
    fork = multiprocessing.get_context("fork")
    enough = fork.Event()
    writing = fork.Process(target=run_more, args=(database.url, enough))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        writing.start()
    verdicts: list[Verdict] = []
    while writing.is_alive() and len({verdict.count for verdict in verdicts}) < 4:
        verdicts.append(verify(database))
    enough.set()
    writing.join()
    assert [finding for verdict in verdicts for finding in verdict.findings] == []
    assert len({verdict.count for verdict in verdicts}) >= 2, "the control: something was written meanwhile"


def run_more(url: str, enough: Any) -> None:
    """Decisions for a while, in a transaction each."""
    database = Database(url)
    writer = Writer(database)
    for number in itertools.takewhile(lambda _: not enough.is_set(), range(1900)):
        sensed = {"time_of_day": "morning", "stress": 1, "sleep": "poor"}
        answer_of(writer.do(Propose(who="app", received=BEGIN + number, participant="P001", given={"sensed": sensed})))
    database.close()


@pytest.mark.parametrize("sharing", SHARING)
def test_without_words_the_fold_answers_the_same(sqlite: Database, sharing: str) -> None:
    """What verify folds by leaves out sentences, and nothing else."""
    writer = Writer(sqlite)
    launch(writer, study_text(**SHARING[sharing]))
    run_course(writer.write, people=3, steps=12)
    with sqlite.reading.begin() as connection:
        spoken = rebuilt(connection)
        silent = Replay(Verdict(), secret=None)
        for row in event_rows(sqlite, limit=10_000):
            silent.take(events.decode(row["body"]), row["received"])
    assert silent.verdict.findings == []
    assert silent.decisions == spoken.decisions
    assert {n: pack(p.agent) for n, p in silent.participants.items()} == {
        n: pack(p.agent) for n, p in spoken.participants.items()
    }


def test_an_event_whose_time_is_none_is_found(sqlite: Database) -> None:
    """Whatever stands where a time should be, with hashes that fit: verify says so, and goes on."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=8)
    rehash(sqlite, lambda event: {"received": "soon"} if event.seq == 20 else {})
    assert any(finding.startswith("event 20: ") for finding in verify(sqlite).findings)
    rehash(sqlite, lambda event: {"happened": "late"} if event.seq == 21 else {})
    assert any(finding.startswith("event 21 ") for finding in verify(sqlite).findings)


def rehash(database: Database, change: Callable[[Any], dict[str, Any]]) -> None:
    """Change events, and mend every hash after them."""
    head = events.START
    with database.writing.begin() as connection:
        for row in event_rows(database, limit=1000):
            event = events.decode(row["body"])
            body = events.encode(type(event)(**{**_fields(event), **change(event), "before": head}))
            head = events.hash_of(body)
            where = update(tables.events).where(tables.events.c.seq == row["seq"])
            connection.execute(where.values(body=body.decode(), hash=head))
        connection.execute(update(tables.study).values(head=head))
