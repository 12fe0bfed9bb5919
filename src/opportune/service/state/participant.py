"""A participant in memory: the agent that decides, and what else the service knows of the participant."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opportune.live.agent import Agent
from opportune.live.point import UNDECIDED, Step
from opportune.live.saving import restore_step
from opportune.service.state import clock
from opportune.service.state.packing import unpack

ACTIVE, PAUSED, WITHDRAWN, COMPLETED = "active", "paused", "withdrawn", "completed"
STATUSES = (ACTIVE, PAUSED, WITHDRAWN, COMPLETED)
LEARNED_MODE, FALLBACK_MODE = "learned", "fallback"
"""What made a decision: the learned policy, or the study file's fallback."""
CHANGING = (
    "timezone", "next_timezone", "next_from", "status", "reason", "enrolled", "began", "calls", "seq", "step",
    "open_decision", "last_decided", "last_reveal", "spent", "nudges", "state",
)  # fmt: skip
"""Columns of `participants` that change after enrolment."""


@dataclass(slots=True)
class Participant:
    """A participant after event `seq`."""

    name: str
    number: int
    timezone: str
    status: str
    reason: str | None
    enrolled: int
    began: dt.date
    """The local date of enrolment, day 1 of the study, also after a change of time zone."""
    arm: str
    """The arm of the trial; "" without arms."""
    member: int
    """The participant's number within the arm, from 0."""
    stratum: int
    baseline: str | None
    """The values given at enrolment, as JSON."""
    seq: int
    agent: Agent
    decisions: list[str] = field(default_factory=list)
    """Ids of the decisions; that of decision point t is at index t - 1."""
    next_timezone: str | None = None
    """The time zone from `next_from` on, if a change is planned."""
    next_from: dt.date | None = None
    calls: bool = True
    """Whether the participant wants to be called."""
    open_decision: str | None = None
    last_decided: int | None = None
    last_reveal: int | None = None

    @classmethod
    def from_row(
        cls, row: Mapping[Any, Any], decisions: Iterable[Mapping[Any, Any]], *, agent: Agent, known: "list[str]"
    ) -> "Participant":
        """The participant that a row of `participants` describes.

        Args:
            row: of `participants`.
            decisions: rows of the participant's decisions that the agent lacks or that have changed.
            agent: a new agent, or one with an earlier state; it is brought to the stored state.
            known: ids of the decisions that the agent has.

        """
        names = (
            "name", "number", "timezone", "next_timezone", "next_from", "status", "reason", "enrolled", "began", "arm",
            "member", "stratum", "baseline", "calls", "seq", "open_decision", "last_decided", "last_reveal",
        )  # fmt: skip
        person = cls(agent=agent, decisions=known, **{name: row[name] for name in names})
        changed = []
        for decision in decisions:
            changed.append(step_of(agent, decision))
            if decision["step"] > len(known):
                known.append(decision["id"])
        unpack(agent, row["state"], changed)
        return person

    def row(self, *, shared: bool) -> dict[str, Any]:
        """The row of `participants`, without the state; the spending of a shared budget is in `study`."""
        spent, nudges = self.spending() if not shared else (0.0, 0)
        budget = self.agent.policy.budget
        return {
            "name": self.name, "number": self.number, "timezone": self.timezone,
            "next_timezone": self.next_timezone, "next_from": self.next_from,
            "status": self.status, "reason": self.reason, "enrolled": self.enrolled, "began": self.began,
            "arm": self.arm, "member": self.member, "stratum": self.stratum, "baseline": self.baseline,
            "calls": self.calls, "seq": self.seq, "step": self.agent.step, "open_decision": self.open_decision,
            "last_decided": self.last_decided, "last_reveal": self.last_reveal,
            "amount": None if shared or budget is None else budget.amount,
            "hard": int(budget is not None and budget.hard), "spent": spent, "nudges": nudges,
        }  # fmt: skip

    def zone_on(self, date: dt.date) -> str:
        """The time zone on a local date, including a planned change."""
        if self.next_timezone is not None and self.next_from is not None and date >= self.next_from:
            return self.next_timezone
        return self.timezone

    def zone_at(self, moment: int) -> str:
        """The time zone at a moment; a planned change takes effect at midnight of its date in the new zone."""
        return self.zone_on(clock.local(moment, self.next_timezone or self.timezone).date())

    def spending(self) -> tuple[float, int]:
        """Probabilities and nudges spent from the agent's budget."""
        budget = self.agent.numbers.budget
        return float(budget.spent[0]), int(budget.nudges[0])

    def sealed(self, earlier: Iterable[str] | None = None) -> list[int]:
        """The steps that a reveal may change: those with sealed reported values, and those that it reports itself."""
        sealed = self.agent.pending.sealed
        return sorted({*sealed, *map(int, earlier or ())}) if sealed or earlier else []

    def follow(self, new: bool, values: dict[str, Any], happened: int) -> None:
        """Update the participant from a change to one of their decisions' rows."""
        if new:
            self.decisions.append(values["id"])
            self.last_decided = happened
        if "status" in values:
            self.open_decision = values["id"] if values["status"] == "nudge" else None
        if values.get("revealed"):
            self.last_reveal = happened


def step_of(agent: Agent, row: Mapping[Any, Any]) -> Step:
    """The agent's step of a row of `decisions`; a decision by the fallback counts as settled at once."""
    settled = row["status"] == "settled" or row["mode"] == FALLBACK_MODE
    reported = row["reported"]
    return restore_step(
        agent,
        row["step"],
        {
            "context": msgspec.json.decode(row["sensed"]),
            "reported": None if reported is None else msgspec.json.decode(reported),
            "action": agent.problem.action_names.index(row["action"]) if settled else UNDECIDED,
            "settled": settled,
            "seen": bool(row["seen"]),
            "unanswered": bool(row["unanswered"]),
            "status": row["reward_status"],
            "reward": (row["reward"] or 0.0) if row["reward_status"] == "learned" else 0.0,
        },
    )
