"""The rehearsal itself: simulated participants go through their days, and simulated staff may answer calls.

Each participant's order is always kept: decision, answer, rewards that have arrived, oldest first. Different
participants run in parallel, unless the order of their decisions matters; then they run one after the other, as in
`simulate`.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opportune.client import ServiceError
from opportune.errors import StateError
from opportune.rehearsal.access import ANSWER, DECIDE, ENROL, REWARD, Access, Write
from opportune.rehearsal.calendar import Calendar, Moment, first_days
from opportune.rehearsal.people import People
from opportune.service.state.participant import LEARNED_MODE
from opportune.service.state.study import StudyInForce

OVER = {"not_active", "over"}
"""Refusals after which a participant makes no more decisions."""
ALREADY = {"decided_already", "key_reused"}
"""Refusals that mean that someone else has asked for the decision."""
REWARDS_AT = 0.75
"""When rewards arrive, between a decision point (0) and the next (1)."""
CALLED_AT = 0.25
"""When simulated staff call, between a nudge (0) and the end of its window (1)."""
BEAT = 1.0
"""Seconds between two updates of the service's time while nothing happens."""


class Waiting(NamedTuple):
    """A decision whose reward has not arrived; the action is unknown while a nudge is open."""

    decision: str
    action: str | None
    arrives: int
    """The step at whose end the reward arrives."""


@dataclass
class Member:
    """A simulated participant, and their progress."""

    name: str
    number: int
    step: int = 0
    active: bool = True
    arm: str = ""
    open_step: int | None = None
    waiting: dict[int, Waiting] = field(default_factory=dict)
    nudged: set[int] = field(default_factory=set)
    """The steps with a nudge."""


class Pace:
    """The speed of study time: `factor` seconds of it per second, or full speed (None)."""

    def __init__(self, factor: float | None, set_time: Callable[[dt.datetime], None]) -> None:
        self._factor, self._set_time = factor, set_time
        self._origin: tuple[float, dt.datetime] | None = None

    def until(self, at: dt.datetime) -> None:
        """Wait until a time has come."""
        if self._factor is None:
            return
        if self._origin is None:
            self._origin = time.monotonic(), at - dt.timedelta(seconds=2.0 * self._factor)
        begin, first = self._origin
        while (left := begin + (at - first).total_seconds() / self._factor - time.monotonic()) > 0.0:
            self._set_time(first + dt.timedelta(seconds=(time.monotonic() - begin) * self._factor))
            time.sleep(min(BEAT, left))


def name_of(place: int) -> str:
    """The pseudonym of participant number `place` of a rehearsal."""
    return f"P{place + 1:03d}"


class Rehearsal:
    """The course of simulated participants through a study.

    Args:
        running: the study.
        access: how it is reached.
        people: the simulated participants' worlds.
        count: the number of participants.
        days: the number of days to rehearse.
        first: the first day of a new rehearsal; one that is resumed keeps its own.
        now: the present time; participants who should have begun earlier begin on the next day.
        staff: whether calls are answered.
        factor: seconds of study time per second; None: full speed.
        progress: called with the number of decisions made so far, and their total.

    """

    def __init__(
        self, running: StudyInForce, access: Access, people: People, *, count: int, days: int, first: dt.date,
        staff: bool, now: dt.datetime | None = None, factor: float | None = None,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> None:  # fmt: skip
        self.running, self.access, self.people, self.staff, self.days = running, access, people, staff, days
        self.members: dict[int, Member] = {}
        self.made = 0
        """The number of decisions made in this run."""
        self._show = progress
        self._pace = Pace(factor, access.set_time)
        self.calendar = Calendar(running, first, first_days(count, running))
        self._find(count)
        for place in set(range(count)) - set(self.members):
            if now is not None and self.calendar.at(self.calendar.begins[place], 0) < now:
                self.calendar.begins[place] = (self.calendar.date_of(now) - self.calendar.first).days + 1
        self._before, self._total = self._progress()
        progress(self._before, self._total)

    def _find(self, count: int) -> None:
        """Find participants of an earlier run, and their progress."""
        names = {name_of(place): place for place in range(count)}
        found = {names[row["participant"]]: row for row in self.access.participants() if row["participant"] in names}
        if not found:
            return
        dates = {
            place: self.calendar.date_of(dt.datetime.fromisoformat(row["enrolled"])) for place, row in found.items()
        }
        begun = min(found)
        self.calendar.first = dates[begun] - dt.timedelta(days=self.calendar.begins[begun])
        for place, row in sorted(found.items()):
            self.calendar.begins[place] = (dates[place] - self.calendar.first).days
            active = row["status"] in {"active", "paused"}
            member = Member(row["participant"], row["number"], row["step"], active, row["arm"] or "")
            for made in self.access.decisions(member.name):
                self._note(member, made["step"], made)
                if made["reward"] is not None or made["skipped"]:
                    member.waiting.pop(made["step"], None)
            self.members[place] = member

    @property
    def count(self) -> int:
        """The number of participants, including those who begin later."""
        return len(self.calendar.begins)

    def _progress(self) -> tuple[int, int]:
        """The number of decisions made before this run, and the total at its end."""
        last = [self.calendar.last_step(place, self.days) for place in range(self.count)]
        return sum(min(member.step, last[place]) for place, member in self.members.items()), sum(last)

    def run(self) -> None:
        """Go through all days; an interrupted run is resumed."""
        for moment in self.calendar.moments(self.days):
            self.pass_moment(moment)

    def pass_moment(self, moment: Moment) -> None:
        """Go through one moment, for all who have a decision point then."""
        todo = {place: step for place, step in moment.steps.items() if self._asks(place, step)}
        held = [member for place, member in self.members.items() if moment.steps.get(place) == member.step]
        if not todo and not any(self._due(member) or member.open_step for member in held):
            return
        self._pace.until(moment.at)
        self._enrol([place for place in todo if place not in self.members], moment)
        for group in self._groups(moment, todo):
            self._pass(group, todo, moment)
            self._show(self._before + self.made, self._total)

    def _asks(self, place: int, step: int) -> bool:
        member = self.members.get(place)
        return member is None or (member.active and member.step < step)

    def _groups(self, moment: Moment, todo: dict[int, int]) -> Iterable[list[int]]:
        """The groups of participants that run in parallel at a moment."""
        everyone = [place for place, step in moment.steps.items() if place in todo or self._interrupted(place, step)]
        return [[place] for place in everyone] if self.running.in_turn else [everyone]

    def _interrupted(self, place: int, step: int) -> bool:
        """Whether an earlier run was interrupted in the middle of a participant's step."""
        member = self.members.get(place)
        return member is not None and member.step == step

    def _pass(self, group: Sequence[int], todo: dict[int, int], moment: Moment) -> None:
        """Go through one decision point of some participants: decisions, calls, rewards."""
        at = moment.at
        self.ask([(self.members[place], todo[place]) for place in group if place in todo], at)
        members = [self.members[place] for place in group]
        if self.staff and any(member.open_step for member in members):
            if not self.running.in_turn:
                window = dt.timedelta(microseconds=self.running.answer_window)
                if self.running.calendar is not None:  # the window may end earlier, with the staff's hours
                    window = min(window, self.running.calendar.least_window)
                at = min(at + CALLED_AT * window, moment.at + 0.5 * (moment.following - moment.at))
                self._pace.until(at)
            self.call(members, at)
        if any(self._due(member) for member in members):
            if not self.running.in_turn:
                at = moment.at + REWARDS_AT * (moment.following - moment.at)
                self._pace.until(at)
            self._reward(members, at)

    def _write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        return self.access.write(writes, at) if writes else []

    def _enrol(self, places: Sequence[int], moment: Moment) -> None:
        writes = []
        for place in places:
            name, baseline = name_of(place), self.people.baseline(place)
            body = {"participant": name, **({"baseline": baseline} if baseline else {})}
            writes.append(Write(ENROL, name, body, name))
        for place, reply in zip(places, self._write(writes, moment.at), strict=True):
            answer = _good(reply)
            self.members[place] = Member(answer["participant"], answer["number"], arm=answer["arm"] or "")

    def ask(self, asked: Sequence[tuple[Member, int]], at: dt.datetime) -> None:
        """Let phones ask for decisions."""
        writes = [
            Write(DECIDE, member.name, self._moment(member, step, at), f"{member.name}.{step}.{self.people.seed}")
            for member, step in asked
        ]
        for (member, step), reply in zip(asked, self._write(writes, at), strict=True):
            if isinstance(reply, ServiceError) and reply.code in OVER:
                member.active = False
                continue
            if isinstance(reply, ServiceError) and reply.code in ALREADY:
                member.step = step
                continue
            answer = _good(reply)
            if answer["step"] != step:
                text = f"the service made decision {answer['step']} of {member.name} instead of {step}"
                raise StateError(f"{text}; expected that nobody else asks for decisions during the rehearsal")
            self._note(member, step, answer)
            member.step = step
            self.made += 1

    def _moment(self, member: Member, step: int, at: dt.datetime) -> dict[str, Any]:
        """The body of a phone's request; it includes reported values if the app is open."""
        conditions, number = self.people.conditions(member.number, step), member.number
        sensed, _ = conditions.context(number, step)
        body: dict[str, Any] = {"sensed": sensed, "at": at.isoformat()}
        if not conditions.available(number, step):
            body |= {"available": False, "reason": "away"}
        elif conditions.opened(number, step):
            body |= {"opened": True, **self._reports(member, step)}
        return body

    def _reports(self, member: Member, step: int) -> dict[str, Any]:
        """The values that a participant reports at a contact: of now, and of the steps since the last reveal."""
        conditions, number = self.people.conditions(member.number, step), member.number
        _, reported = conditions.context(number, step)
        if not reported:
            return {}
        made = list(self.access.decisions(member.name))
        last = max((row["step"] for row in made if row["revealed"]), default=0)
        sealed = [
            row["step"] for row in made if row["step"] > last and row["available"] and row["mode"] == LEARNED_MODE
        ]
        earlier = {str(n): conditions.context(number, n)[1] for n in sealed if n < step}
        return {"reported": reported, **({"earlier": earlier} if earlier else {})}

    def _note(self, member: Member, step: int, answer: dict[str, Any]) -> None:
        """Note a decision: its reward, which will arrive later, and whether its nudge is open."""
        settled = answer["status"] == "settled"
        member.open_step = None if settled else step
        if answer["nudge"]:
            member.nudged.add(step)
        conditions = self.people.conditions(member.number, step)
        if conditions.reward(member.number, step, answer["action"]) is not None:
            action = answer["action"] if settled else None
            member.waiting[step] = Waiting(answer["decision"], action, conditions.arrives(member.number, step))

    def call(self, members: Sequence[Member], at: dt.datetime) -> None:
        """Let staff go through the list of calls."""
        by_name = {member.name: member for member in members}
        calls = [call for call in self.access.calls() if call["participant"] in by_name]
        writes = []
        for call in calls:
            member, step = by_name[call["participant"]], call["step"]
            number, conditions = member.number, self.people.conditions(member.number)
            body: dict[str, Any] = {"answered": conditions.answers(number, step, member.nudged)}
            if body["answered"]:
                body |= self._reports(member, step)
            writes.append(Write(ANSWER, call["decision"], body, call["decision"]))
        for call, reply in zip(calls, self._write(writes, at), strict=True):
            if isinstance(reply, ServiceError) and reply.code == "settled_already":
                continue  # someone else was quicker
            self._note(by_name[call["participant"]], call["step"], _good(reply))

    def _due(self, member: Member) -> list[int]:
        """The steps whose rewards have arrived, the oldest first."""
        return sorted(step for step, reward in member.waiting.items() if reward.arrives <= member.step)

    def _reward(self, members: Sequence[Member], at: dt.datetime) -> None:
        """Report the rewards that have arrived; those of one participant one after the other."""
        left = {member.name: (member, self._due(member)) for member in members}
        while left:
            writes, done = [], []
            for name, (member, due) in list(left.items()):
                while due and (write := self._reward_of(member, due[0])) is None:
                    due.pop(0)
                if not due:
                    del left[name]
                    continue
                assert write is not None
                writes.append(write)
                done.append((member, due.pop(0)))
            for (member, step), reply in zip(done, self._write(writes, at), strict=True):
                if isinstance(reply, ServiceError) and reply.code == "not_settled":
                    continue  # reported again later
                if not (isinstance(reply, ServiceError) and reply.code == "reward_differs"):
                    _good(reply)
                member.waiting.pop(step)

    def _reward_of(self, member: Member, step: int) -> Write | None:
        """The report of a reward; None while the nudge is open."""
        decision, action, _ = member.waiting[step]
        conditions, context = self.people.conditions(member.number), None
        if action is None or conditions.remembers:
            stored = self.access.decision(decision)
            if stored["status"] != "settled":
                return None
            action = stored["action"]
            context = {**stored["sensed"], **conditions.context(member.number, step)[1]}
        reward = conditions.reward(member.number, step, action, context)
        assert reward is not None
        return Write(REWARD, decision, {"reward": reward}, decision)


def _good(reply: "dict[str, Any] | ServiceError") -> dict[str, Any]:
    """A successful answer; a refusal ends the rehearsal."""
    if isinstance(reply, ServiceError):
        if reply.code in {"closed", "full"}:
            raise StateError(f"the service answered: {reply.detail}")
        raise reply
    return reply
