"""Whatever happens in whatever order, everyone can be decided for, and the record verifies.

A random walk over every command there is, with restarts, amendments, a policy that fails, states that are damaged, and
ends of the record that are lost and grow again.
"""

import os
import random
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from course import BEGIN, launch, sensed
from sqlalchemy import select, update
from study_text import numeric, study_text

from opportune.live.agent import Agent
from opportune.service.commands.administration import Amend
from opportune.service.commands.base import Command
from opportune.service.commands.corrections import CorrectOutcome, CorrectReported, CorrectZone, Reinstate
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import Expire, GiveUp
from opportune.service.commands.openings import Open
from opportune.service.commands.participants import Enrol, FetchBundle, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.commands.safety import Acknowledge, ReportAdverse, WantCalls
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock
from opportune.service.verify.check import verify

SEEDS, TURNS = int(os.environ.get("OPPORTUNE_WALKS", "2")), int(os.environ.get("OPPORTUNE_TURNS", "120"))
PACE = 'kind = "PACE"\n'
WEEKLY = '\n[learning]\nupdate = "week"\n'
STUDIES: dict[str, Callable[[], str]] = {
    "own": lambda: study_text(horizon=400),
    "together, hard": lambda: study_text(shared=True, pooled=True, hard=True, budget=40.0, horizon=400),
    "thompson": lambda: study_text(horizon=400).replace(PACE, f'{PACE}recommender = "thompson"\n', 1),
    "learned weekly": lambda: study_text(horizon=400, extra=WEEKLY),
    "numbers": lambda: numeric(study_text(horizon=400)),
    "by the clock": lambda: study_text(times=True, horizon=400),
}
MOODS = ("good", "low")
ZONES = ("Europe/Berlin", "Asia/Tokyo", "America/St_Johns", "UTC", "Pacific/Apia")


class Walk:
    """A study to which anything may happen next."""

    def __init__(self, database: Database, text: str, seed: int) -> None:
        self.database, self.text, self.rnd = database, text, random.Random(seed)
        self.writer, self.now, self.fallbacks = Writer(database), BEGIN, 0
        self.copy: Path | None = None
        launch(self.writer, text, rehearsal=seed % 2 == 0)
        self.names = [f"P{number}" for number in range(3)]
        for name in self.names:
            self.do(Enrol(who="staff", received=self.now, participant=name, timezone="Europe/Berlin"))

    def do(self, *commands: Command) -> "list[Reply | Exception]":
        """Carry out commands at once: each is done, or refused for a reason; nothing else ever comes of one."""
        replies = self.writer.write(commands)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, Exception):
                assert isinstance(reply, Refused), (command, reply)
                assert reply.code not in {"internal", "unavailable"}, (command, str(reply))
        return replies

    def decisions(self, *conditions: Any) -> list[Any]:
        """Rows of decisions."""
        with self.database.reading.connect() as connection:
            return list(connection.execute(select(tables.decisions).where(*conditions)))

    def one_of(self, *conditions: Any) -> Any:
        """A decision, if there is one that fits."""
        found = self.decisions(*conditions)
        return self.rnd.choice(found) if found else None

    def told(self) -> dict[str, Any]:
        """What someone reports."""
        return {"mood": self.rnd.choice(MOODS)}

    def turn(self) -> None:
        """Something happens, later than all before."""
        self.now += round(self.rnd.expovariate(1.0) * 4 * clock.HOUR)
        happenings = [
            (30, self.propose), (12, self.answer), (16, self.reward), (4, self.correct_reward), (6, self.open),
            (6, self.correct_reported), (4, self.correct_outcome), (2, self.correct_zone), (3, self.status),
            (2, self.reinstate), (1, self.note), (4, self.expire), (3, self.give_up), (3, self.restart),
            (2, self.amend), (2, self.fail), (1, self.damage), (2, self.remember), (1, self.lose), (1, self.bundle),
            (2, self.enrol), (2, self.adverse), (2, self.calls),
        ]  # fmt: skip
        (what,) = self.rnd.choices([what for _, what in happenings], [weight for weight, _ in happenings])
        what()

    def moment(self, name: str) -> Propose:
        """A decision point of someone, with all that may come with it."""
        rnd = self.rnd
        given: dict[str, Any] = {"sensed": sensed(rnd), "opened": rnd.random() < 0.15}
        if rnd.random() < 0.5:
            given["reported"] = self.told()
        if given["opened"] and rnd.random() < 0.5:
            given["earlier"] = {str(rnd.randint(1, 8)): self.told()}
        draw = rnd.random()
        if draw < 0.1:
            given |= {"available": False, "reason": "asleep", "opened": False}
        elif draw < 0.2:
            given["sensed"]["sleep"] = None
        elif draw < 0.3 and not given["opened"]:
            given["shown"] = rnd.choice(["rest", "walk"])
        at = self.now - round(rnd.random() * clock.HOUR) if rnd.random() < 0.2 else None
        return Propose(who="app", received=self.now, participant=name, given=given, at=at)

    def propose(self) -> None:
        """Decision points of some, in one transaction."""
        self.do(*(self.moment(name) for name in self.rnd.sample(self.names, self.rnd.randint(1, len(self.names)))))

    def answer(self) -> None:
        """Open or not, in time or late, of this decision point or of earlier ones."""
        row = self.one_of(tables.decisions.c.nudge)
        if row is None:
            return
        answered = self.rnd.random() < 0.7
        earlier = {str(self.rnd.randint(1, row.step)): self.told()} if answered and self.rnd.random() < 0.3 else None
        reported = self.told() if answered and self.rnd.random() < 0.7 else None
        opened = not answered and self.rnd.random() < 0.2
        self.do(
            Answer(
                who="staff", received=self.now, decision=row.id, answered=answered, opened=opened, reported=reported,
                earlier=earlier,
            )
        )  # fmt: skip

    def reward(self) -> None:
        """Rewards of any decisions, some twice."""
        rows = self.decisions()
        chosen = self.rnd.sample(rows, min(len(rows), self.rnd.randint(1, 3)))
        self.do(*(Reward(who="app", received=self.now, decision=row.id, reward=self.rnd.gauss(0, 1)) for row in chosen))

    def correct_reward(self) -> None:
        """Another value for a reward that is there."""
        row = self.one_of(tables.decisions.c.reward.is_not(None))
        if row is not None:
            new = self.rnd.gauss(0, 2)
            self.do(Reward(who="s", received=self.now, decision=row.id, reward=new, corrects=True, reason="misread"))

    def open(self) -> None:
        """The app is opened between decision points."""
        told = self.told() if self.rnd.random() < 0.6 else None
        self.do(Open(who="app", received=self.now, participant=self.rnd.choice(self.names), reported=told))

    def correct_reported(self) -> None:
        """Another value for what was reported."""
        row = self.one_of(tables.decisions.c.reported.is_not(None))
        if row is not None:
            self.do(CorrectReported(who="s", received=self.now, decision=row.id, reported=self.told(), reason="wrong"))

    def correct_outcome(self) -> None:
        """A call ended otherwise."""
        row = self.one_of(tables.decisions.c.nudge)
        if row is not None:
            outcome = self.rnd.choice(["opened", "answered", "unanswered"])
            self.do(CorrectOutcome(who="s", received=self.now, decision=row.id, outcome=outcome, reason="slipped"))

    def correct_zone(self) -> None:
        """Somebody travels."""
        name, zone = self.rnd.choice(self.names), self.rnd.choice(ZONES)
        self.do(CorrectZone(who="s", received=self.now, participant=name, timezone=zone, reason="travels"))

    def status(self) -> None:
        """Paused, resumed, gone."""
        status = self.rnd.choice(["active", "paused", "paused", "withdrawn", "completed"])
        name = self.rnd.choice(self.names)
        self.do(SetStatus(who="s", received=self.now, participant=name, status=status, reason="so"))

    def reinstate(self) -> None:
        """Somebody had not left after all."""
        for name in self.names:
            self.do(Reinstate(who="s", received=self.now, participant=name, reason="mixed up"))

    def note(self) -> None:
        """A remark."""
        self.do(Note(who="s", received=self.now, participant=self.rnd.choice(self.names), text="called twice"))

    def bundle(self) -> None:
        """A phone fetches what it can show offline."""
        self.do(FetchBundle(who="app", received=self.now, participant=self.rnd.choice(self.names)))

    def adverse(self) -> None:
        """Something bad happens, and somebody sees to it."""
        told: dict[str, Any] = {"text": "fell", "severity": "mild", "serious": False, "began": "yesterday"}
        name = self.rnd.choice(self.names)
        (reply,) = self.do(ReportAdverse(who="s", received=self.now, participant=name, **told))
        assert isinstance(reply, Reply)
        event = msgspec.json.decode(reply.body)["event"]
        self.do(Acknowledge(who="s", received=self.now, escalation=f"{event}.0", note="doctor called"))

    def calls(self) -> None:
        """Somebody wants no calls any more, or wants them again."""
        name, wanted = self.rnd.choice(self.names), self.rnd.random() < 0.5
        self.do(WantCalls(who="s", received=self.now, participant=name, wanted=wanted, reason="asked for it"))

    def enrol(self) -> None:
        """Somebody joins, unless all are there."""
        name = f"N{self.now}"
        (reply,) = self.do(Enrol(who="s", received=self.now, participant=name, timezone=self.rnd.choice(ZONES)))
        if isinstance(reply, Reply):
            self.names.append(name)

    def expire(self) -> None:
        """Windows end."""
        self.do(*(Expire(who="service", received=self.now, decision=row.id) for row in self.decisions()[-5:]))

    def give_up(self) -> None:
        """Rewards are no longer waited for."""
        later = self.now + 100 * clock.HOUR
        rows = self.decisions(tables.decisions.c.reward_due.is_not(None))[:2]
        self.do(*(GiveUp(who="service", received=later, decision=row.id) for row in rows))

    def restart(self) -> None:
        """A process that remembers nothing goes on."""
        self.writer = Writer(self.database)

    def amend(self) -> None:
        """Another fallback and another window are in force."""
        self.fallbacks += 1
        action = ("rest", "walk")[self.fallbacks % 2]
        text = self.text.replace('fallback = "rest"', f'fallback = "{action}"')
        text = text.replace("[nudge]\n", f"[nudge]\nanswer_minutes = {60 + self.fallbacks}\n").replace(
            "\nanswer_minutes = 120", "", 1
        )
        self.do(Amend(who="boss", received=self.now, file=text, source="study.toml", reason="ethics"))

    def fail(self) -> None:
        """The learned policy fails for a while."""
        methods = self.rnd.sample(["propose_at", "conclude"], self.rnd.randint(1, 2))
        with ExitStack() as broken:
            for method in methods:
                broken.enter_context(mock.patch.object(Agent, method, _fails))
            self.propose()
            self.status()

    def damage(self) -> None:
        """What is stored of states cannot be read; whoever comes next makes them from the record."""
        with self.database.writing.begin() as connection:
            connection.execute(update(tables.participants).values(state=b"left behind"))
            if self.writer.memory.fold is not None and self.writer.memory.fold.running.together:
                connection.execute(update(tables.study).values(shared=b"left behind"))
        self.restart()
        self.propose()

    def remember(self) -> None:
        """A standby has what is there now."""
        self.copy = self.database.path.with_suffix(".standby")
        self.database.checkpoint()
        shutil.copyfile(self.database.path, self.copy)

    def lose(self) -> None:
        """The standby takes over: what happened since is lost, and the process that goes on has seen it."""
        if self.copy is None:
            return
        self.database.close()
        for ending in ("-wal", "-shm"):
            self.database.path.with_name(self.database.path.name + ending).unlink(missing_ok=True)
        shutil.copyfile(self.copy, self.database.path)
        with self.database.reading.connect() as connection:
            self.names = list(connection.execute(select(tables.participants.c.name)).scalars())


def _fails(*_arguments: Any, **_named: Any) -> Any:
    raise ValueError("on purpose")


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("study", STUDIES)
def test_anything_may_happen(sqlite: Database, study: str, seed: int) -> None:
    """Nothing that a command can do leaves anybody undecidable, or the record in disagreement with what is stored."""
    walk = Walk(sqlite, STUDIES[study](), seed)
    for _ in range(TURNS):
        walk.turn()
    assert verify(sqlite).findings == []
    kinds = {row.kind for row in _events(sqlite)}
    assert len(kinds) > 8, "the control: much has happened"
    for writer in (walk.writer, Writer(sqlite)):
        walk.writer = writer
        walk.now += 30 * clock.HOUR
        for name in walk.names:
            walk.do(Reinstate(who="s", received=walk.now, participant=name, reason="for the test"))
            walk.do(SetStatus(who="s", received=walk.now, participant=name, status="active"))
            asked = walk.moment(name)
            asked.given.pop("earlier", None)  # of a step that may be uncovered already, which is refused
            (reply,) = walk.do(asked)
            assert isinstance(reply, Reply) or reply.code in {"over", "decided_already"}, str(reply)  # type: ignore[attr-defined]
    assert verify(sqlite).findings == []


def test_a_state_that_is_not_the_records_is_found(sqlite: Database) -> None:
    """The control: a participant who remembers a reward that is not on record."""
    walk = Walk(sqlite, STUDIES["own"](), 1)
    for _ in range(5):
        walk.propose()
        walk.reward()
    person = walk.writer.memory.participants["P0"]
    person.agent.numbers.parts(person.agent.numbers.own)["model.theta"][0] += 0.5
    walk.now += clock.HOUR
    walk.do(Note(who="s", received=walk.now, participant="P0", text="writes the state"))
    assert not verify(sqlite).holds


def _events(database: Database) -> list[Any]:
    with database.reading.connect() as connection:
        return list(connection.execute(select(tables.events)))
