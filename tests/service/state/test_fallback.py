"""A decision is always answered: the learned policy, the last good state, the record, the study's fallback."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from course import BEGIN, answer_of, launch, run_course
from site_over_http import SENSED
from sqlalchemy import update
from study_text import numeric, study_text

from opportune.live.agent import Agent
from opportune.service.commands.administration import Close
from opportune.service.commands.base import NOT_ASKED
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import Expire
from opportune.service.commands.participants import Enrol, FetchBundle, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.monitoring.alerts import Alerts
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows, decision_rows
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.state import clock
from opportune.service.state.projection import known_of
from opportune.service.verify.check import verify

SHARING: dict[str, dict[str, Any]] = {"own": {}, "shared": {"shared": True}, "pooled": {"pooled": True}}


def writer_on(database: Database) -> Writer:
    """A writer whose alerts are kept."""
    return Writer(database, on_alert=Alerts(database).raise_alert)


def codes(database: Database) -> set[tuple[str, str]]:
    """The open alerts."""
    return {(alert["level"], alert["code"]) for alert in alert_rows(database)}


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("what", ["participant", "shared"])
def test_a_stored_state_that_was_damaged_is_made_from_the_record(sqlite: Database, sharing: str, what: str) -> None:
    """Whatever the bytes hold, the next decision is the learned one; someone is told; everything verifies."""
    if what == "shared" and sharing == "own":
        return
    settings = study_text(**SHARING[sharing])
    writer = writer_on(sqlite)
    launch(writer, settings)
    run_course(writer.write, people=3, steps=8)
    table, column = {"participant": (tables.participants, "state"), "shared": (tables.study, "shared")}[what]
    with sqlite.writing.begin() as connection:
        connection.execute(update(table).values({column: b"damaged"}))
    assert not verify(sqlite).holds, "the control: it is damaged"
    ask = Propose(who="app", received=BEGIN + 10**9, participant="P001", given={"sensed": SENSED})
    assert answer_of(writer_on(sqlite).do(ask))["mode"] == "learned"
    assert codes(sqlite) == {("yellow", "rebuilt")}
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("sharing", SHARING)
def test_others_notice_that_states_were_made_again(database: Database, sharing: str) -> None:
    """Whoever has kept a participant in memory goes on from what is stored now, not from what was stored before."""
    one, other = writer_on(database), writer_on(database)
    launch(one, study_text(**SHARING[sharing]))
    run_course(one.write, people=3, steps=8)
    with database.writing.begin() as connection:
        connection.execute(update(tables.participants).values(state=b"damaged"))
    for number, (writer, name) in enumerate(((other, "P001"), (one, "P002"), (one, "P001"), (other, "P002"))):
        ask = Propose(who="app", received=BEGIN + 10**9 + number, participant=name, given={"sensed": SENSED})
        assert answer_of(writer.do(ask))["mode"] == "learned"
        assert verify(database).findings == []
    assert codes(database) == {("yellow", "rebuilt")}


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Streams whose learned policy gives numbers that are none."""
    streams: set[int] = set()
    meet = Agent.propose_at

    def broken(agent: Agent, *arguments: Any, **named: Any) -> Any:
        found = meet(agent, *arguments, **named)
        if agent.stream in streams:
            agent.numbers.arrays["model"][:] = float("nan")
        return found

    monkeypatch.setattr(Agent, "propose_at", broken)
    yield streams
    monkeypatch.undo()


@pytest.mark.parametrize("sharing", ["own", "shared"])
def test_the_fallback_decides_where_the_learned_policy_cannot(
    sqlite: Database, failing: set[int], monkeypatch: pytest.MonkeyPatch, sharing: str
) -> None:
    """The study's action with the naive rule's probability, marked, charged, not learned from."""
    writer = writer_on(sqlite)
    launch(writer, study_text(budget=60, hard=sharing == "shared", **SHARING[sharing]))
    for name in ("P1", "P2"):
        writer.do(Enrol(who="staff", received=BEGIN, participant=name))
    failing.add(0)
    nudged = []
    for number in range(12):
        asked = [
            Propose(who="app", received=BEGIN + number, participant=name, given={"sensed": SENSED})
            for name in ("P1", "P2")
        ]
        broken, fine = (answer_of(reply) for reply in writer.write(asked))
        assert (broken["mode"], broken["action"]) == ("fallback", "rest")
        assert broken["probability"] == pytest.approx(60 / 200)
        assert fine["mode"] == "learned"
        if broken["status"] == "nudge":
            nudged.append(broken)
            answer = Answer(who="staff", received=BEGIN, decision=broken["decision"], answered=True)
            assert answer_of(writer.do(answer))["outcome"] == "answered"
        reward = Reward(who="app", received=BEGIN, decision=broken["decision"], reward=0.5)
        assert not answer_of(writer.do(reward))["learned"]
    assert nudged, "the control: the fallback nudges, too"
    assert codes(sqlite) == {("red", "fallback")}
    failing.clear()
    ask = Propose(who="app", received=BEGIN + 99, participant="P1", given={"sensed": SENSED})
    assert answer_of(writer.do(ask))["mode"] == "learned", "as soon as it can be used again"
    assert verify(sqlite).findings == []


def test_a_record_that_was_damaged_decides_nothing(sqlite: Database) -> None:
    """Where neither the state nor the record can be used, the caller is told so: nothing is made up."""
    writer = writer_on(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=5)
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.participants).values(state=b"damaged"))
        connection.exec_driver_sql("UPDATE events SET hash = 'aa' WHERE seq = 5")
    ask = Propose(who="app", received=BEGIN + 10**9, participant="P001", given={"sensed": SENSED})
    (refused,) = writer_on(sqlite).write([ask])
    assert getattr(refused, "code", None) in {"internal", "unavailable"}
    assert ("red", "undecided") in codes(sqlite)


@pytest.mark.parametrize("text", [study_text(times=True, shared=True, pooled=True), numeric(study_text())])
def test_a_decision_is_tried_out_before_a_server_is_ready(
    sqlite: Database, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one that counts finds everything loaded; nothing of the trial is left, nor does it fail the start."""
    launch(writer_on(sqlite), text)
    tried: list[str] = []
    propose, warned = Agent.propose, []

    def counted(self: Agent, *given: Any, **more: Any) -> Any:
        tried.append("decided")
        return propose(self, *given, **more)

    monkeypatch.setattr(Agent, "propose", counted)
    monkeypatch.setattr("opportune.service.service.log.error", lambda what, **_: warned.append(what), raising=False)
    for failing in (False, True):
        if failing:
            monkeypatch.setattr(Agent, "propose", lambda *_, **__: 1 / 0)
        service = Service(sqlite)
        service.start()
        assert service.ready
        service.stop()
        assert tried == ["decided"]
        assert bool(warned) == failing
    assert verify(sqlite).count == 1  # the launch alone


def broken_by(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the learned policy fails."""

    def meet(*_arguments: Any, **_named: Any) -> Any:
        raise error

    monkeypatch.setattr(Agent, "propose_at", meet)


@pytest.mark.parametrize("error", [ValueError("a number"), IndexError(), TypeError(), np.linalg.LinAlgError()])
def test_whatever_is_wrong_with_the_policy_someone_decides(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Not only what an algorithm may be expected to do wrong."""
    writer = writer_on(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    broken_by(error, monkeypatch)
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    assert answer_of(writer.do(ask))["mode"] == "fallback"
    assert codes(sqlite) == {("red", "fallback")}
    assert verify(sqlite).findings == []


def test_an_alert_that_cannot_be_stored_keeps_nobody_waiting(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is answered, and so is everyone after."""

    def fail(*_about: Any) -> None:
        raise OSError("no room")

    writer = Writer(sqlite, on_alert=fail)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    writer.start()
    try:
        with monkeypatch.context() as patch:
            broken_by(ValueError(), patch)
            ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
            assert answer_of(writer.submit(ask).result(timeout=30))["mode"] == "fallback"
        again = Propose(who="app", received=BEGIN + 1, participant="P1", given={"sensed": SENSED})
        assert answer_of(writer.submit(again).result(timeout=30))["mode"] == "learned"
        assert writer.alive
    finally:
        writer.stop()


def test_what_cannot_be_recorded_is_red(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever said it is told so, and so is whoever looks after the service."""
    writer = writer_on(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    made = answer_of(writer.do(ask))
    monkeypatch.setattr(Agent, "learn", lambda *_: 1 / 0)
    (refused,) = writer.write([Reward(who="app", received=BEGIN, decision=made["decision"], reward=0.5)])
    assert getattr(refused, "code", None) == "internal"
    assert codes(sqlite) == {("red", "unrecorded")}
    assert verify(sqlite).findings == []


def test_a_writer_outlives_what_nobody_foresaw(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone is told, the thread goes on; a service whose writer has ended says that it is not ready."""
    service = Service(sqlite)
    launch(service.writer, study_text())
    service.start()
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write", lambda *_: 1 / 0)
        refused = service.writer.submit(Enrol(who="staff", received=BEGIN, participant="P1")).exception(timeout=30)
        assert getattr(refused, "code", None) == "internal"
    enrol = Enrol(who="staff", received=BEGIN, participant="P1")
    assert service.writer.submit(enrol).result(timeout=30).status == 201
    assert service.healthy() is None
    service.stop()
    service.ready = True
    assert service.healthy() == "the writer's thread has ended"


def test_the_fallback_makes_no_nudge_where_a_value_lacks(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a decision point is missing, whoever decides: no nudge, no charge, and why; so are those before it."""
    writer = writer_on(sqlite)
    launch(writer, study_text(budget=190, times=True))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    broken_by(ValueError(), monkeypatch)
    for day in range(3):
        given = {"sensed": {**SENSED, "stress": None}}
        ask = Propose(who="app", received=BEGIN + (1 + 24 * day) * clock.HOUR, participant="P1", given=given)
        made = answer_of(writer.do(ask))
        assert (made["mode"], made["probability"], made["step"]) == ("fallback", 0.0, 2 * day + 1)
    rows = decision_rows(sqlite, "P1", limit=10)
    assert [row["reason"] for row in rows] == ["no value of stress", NOT_ASKED] * 2 + ["no value of stress"]
    assert not any(row["available"] or row["nudge"] for row in rows)
    assert {row["mode"] for row in rows} == {"fallback"}
    assert verify(sqlite).findings == []


def test_a_nudge_of_the_fallback_outlives_a_restart(sqlite: Database, failing: set[int]) -> None:
    """It is still open then, its state can be read, and it can be answered."""
    writer = writer_on(sqlite)
    launch(writer, study_text(budget=190))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    failing.add(0)
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    made = answer_of(writer.do(ask))
    assert (made["mode"], made["status"]) == ("fallback", "nudge"), "the control"
    failing.clear()
    answer = Answer(who="staff", received=BEGIN + 1, decision=made["decision"], answered=True)
    assert answer_of(writer_on(sqlite).do(answer))["outcome"] == "answered"
    assert codes(sqlite) == {("red", "fallback")}, "nothing had to be made again"
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("anew", [False, True], ids=["same process", "restarted"])
@pytest.mark.parametrize("by", ["next", "window"])
@pytest.mark.parametrize("sharing", SHARING)
def test_a_nudge_that_cannot_be_settled_holds_nobody_up(
    database: Database, sharing: str, by: str, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood stays, marked and not learned from; the next decision is answered, and the learned policy goes on."""
    writer = writer_on(database)
    launch(writer, study_text(policy="always", budget=60, **SHARING[sharing]))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))

    def ask(moment: int) -> dict[str, Any]:
        return answer_of(writer.do(Propose(who="app", received=moment, participant="P1", given={"sensed": SENSED})))

    stuck = ask(BEGIN)
    assert stuck["status"] == "nudge", "the control"
    later = BEGIN + 3 * clock.HOUR
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "conclude", lambda *_: 1 / 0)
        if by == "next":
            assert ask(BEGIN + clock.MINUTE)["mode"] == "fallback"
        else:
            reply = answer_of(writer.do(Expire(who="service", received=later, decision=stuck["decision"])))
            assert (reply["status"], reply["outcome"], reply["action"]) == ("settled", "unanswered", stuck["action"])
    assert codes(database) == {("red", "fallback")}
    (alert,) = alert_rows(database)
    assert alert["participant"] == "P1"
    row = decision_rows(database, "P1", limit=1)[0]
    assert (row["mode"], row["reward_status"], row["reward_due"]) == ("fallback", "nothing", None)
    assert (row["outcome"], row["action"]) == ("unanswered", stuck["action"])
    assert verify(database).findings == []
    if anew:
        writer = writer_on(database)
    reward = Reward(who="app", received=later, decision=stuck["decision"], reward=0.5)
    assert answer_of(writer.do(reward))["learned"] is False
    assert answer_of(writer.do(Answer(who="app", received=later, decision=stuck["decision"], answered=True)))["late"]
    following = ask(later + clock.MINUTE)
    assert (following["mode"], following["outcome"]) == ("learned", "opened"), "the late answer counts"
    Alerts(database).look(later + 2 * clock.MINUTE)
    assert ("red", "fallback") not in codes(database)
    assert verify(database).findings == []


def test_what_records_nothing_is_not_missed_on_record(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that cannot be made is an error for whoever asked, and no red alert about the record."""
    writer = writer_on(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    monkeypatch.setattr(Agent, "bundle", lambda *_: 1 / 0)
    (refused,) = writer.write([FetchBundle(who="app", received=BEGIN, participant="P1")])
    assert getattr(refused, "code", None) == "internal"
    assert codes(sqlite) == set()


def test_only_what_was_stored_shows_that_something_can_be(sqlite: Database) -> None:
    """What is merely read does not; while nobody asks, the service tries by itself."""
    service = Service(sqlite)
    launch(service.writer, study_text())
    service.writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    service.start()
    service.writer.failing = "the disk was full"
    bundle = FetchBundle(who="app", received=BEGIN, participant="P1")
    assert service.writer.submit(bundle).result(timeout=30).status == 200
    assert service.healthy() == "nothing could be stored: the disk was full"
    service.look_after()
    assert service.healthy() is None
    service.stop()
    assert verify(sqlite).findings == []


def test_what_the_policy_can_settle_it_settles(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that it cannot make leaves the nudge before it as it was: learned from, and answered late."""
    writer = writer_on(sqlite)
    launch(writer, study_text(policy="always", budget=60))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    first = answer_of(writer.do(ask))
    assert first["status"] == "nudge", "the control"
    ask = Propose(who="app", received=BEGIN + clock.MINUTE, participant="P1", given={"sensed": SENSED})
    with monkeypatch.context() as patch:
        broken_by(ValueError(), patch)
        assert answer_of(writer.do(ask))["mode"] == "fallback"
    row = decision_rows(sqlite, "P1", limit=1)[0]
    assert (row["mode"], row["outcome"], row["reward_status"]) == ("learned", "unanswered", "waiting")
    reward = Reward(who="app", received=BEGIN + clock.HOUR, decision=first["decision"], reward=0.5)
    assert answer_of(writer.do(reward))["learned"]
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("command", ["withdrawn", "paused", "closed"])
def test_who_leaves_is_not_held_up(sqlite: Database, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nudge that cannot be settled keeps nobody in the study, nor the study open; what was sealed stays so."""
    writer = writer_on(sqlite)
    launch(writer, study_text(policy="always", budget=60))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": SENSED, "reported": {"mood": "low"}}
    made = answer_of(writer.do(Propose(who="app", received=BEGIN, participant="P1", given=given)))
    assert made["status"] == "nudge", "the control"
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "conclude", lambda *_: 1 / 0)
        if command == "closed":
            writer.do(Close(who="boss", received=BEGIN + 1, reason="over"))
        else:
            leave = SetStatus(who="staff", received=BEGIN + 1, participant="P1", status=command, reason="moved")
            assert answer_of(writer.do(leave))["status"] == command
    assert codes(sqlite) == {("red", "fallback")}
    (row,) = decision_rows(sqlite, "P1", limit=1)
    assert (row["status"], row["mode"], known_of(row)) == ("settled", "fallback", None)
    assert verify(sqlite).findings == []
