"""A participant in memory: the agent that decides, and what the service knows of it besides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opportune.live.agent import Agent
from opportune.live.packing import UNSOUND, Stored, Unsound, healthy, merged, pack, pack_changes, unpack
from opportune.live.point import UNDECIDED, Step
from opportune.live.saving import restore_step

ACTIVE, PAUSED, WITHDRAWN, COMPLETED = "active", "paused", "withdrawn", "completed"
STATUSES = (ACTIVE, PAUSED, WITHDRAWN, COMPLETED)
LEARNED_MODE, FALLBACK_MODE = "learned", "fallback"
"""By what a decision was made."""
CHANGING = (
    "status", "reason", "seq", "step", "latest", "open_decision", "last_decided", "last_reveal", "spent", "nudges",
)  # fmt: skip
"""Columns of `participants` that are not as they were at enrolment."""


@dataclass(slots=True)
class Person:
    """A participant, as of event `seq`."""

    name: str
    number: int
    stream: int
    timezone: str
    status: str
    reason: str | None
    enrolled: int
    seq: int
    agent: Agent
    latest: str | None = None
    """The latest decision."""
    open_decision: str | None = None
    open_row: dict[str, Any] | None = None
    """Its row, if it was made by this process, which need not be read then."""
    last_decided: int | None = None
    last_reveal: int | None = None
    stored: Stored | None = None
    """The state that is stored whole, which may be an earlier one."""
    changes: bytes | None = None
    """What is stored of how the state differs from it."""
    unseen: dict[int, str] = field(default_factory=dict)
    """Decisions whose context is not known to the revealer, by their steps."""

    def row(self, *, shared: bool) -> dict[str, Any]:
        """The row of `participants`, but for `changes`; what is spent of a shared budget stands in `study`."""
        budget = self.agent.policy.budget
        return {
            "name": self.name, "number": self.number, "stream": self.stream, "timezone": self.timezone,
            "enrolled": self.enrolled, "amount": None if shared or budget is None else budget.amount,
            "hard": int(budget is not None and budget.hard),
            **dict(zip(CHANGING, self.changing(shared=shared), strict=True)),
        }  # fmt: skip

    def changing(self, *, shared: bool) -> tuple[Any, ...]:
        """What of it may change after enrolment: `CHANGING`."""
        spent, nudges = self.spending() if not shared else (0.0, 0)
        return (
            self.status, self.reason, self.seq, self.agent.step, self.latest, self.open_decision, self.last_decided,
            self.last_reveal, spent, nudges,
        )  # fmt: skip

    def spending(self) -> tuple[float, int]:
        """What the budget that the agent draws on has spent: probabilities, and nudges."""
        budget = self.agent._spent
        return float(budget.spent[0]), int(budget.nudges[0])

    def sealed(self, earlier: Iterable[str] | None = None) -> list[int]:
        """The steps that a reveal would uncover: those whose reported values are known, and those told with it."""
        sealed = self.agent._pending.sealed
        return sorted({*sealed, *map(int, earlier or ())}) if sealed or earlier else []

    def pack(self) -> bytes:
        """The state as bytes."""
        return pack(self.agent)

    def pack_what_is_new(self, *, whole: bool = False) -> tuple[bytes | None, bytes | None]:
        """What is to be stored: what has changed since a state was stored whole, or else the state; or that anyway.

        Raises `Unsound` where it must not be stored. What is stored whole counts as stored from now on.
        """
        self.changes = None if self.stored is None or whole else pack_changes(self.agent, self.stored)
        if self.changes is not None:
            return self.changes, None
        if not healthy(self.agent):
            raise Unsound(UNSOUND)
        data = pack(self.agent)
        self.stored = Stored.of(data, self.agent)
        return None, data

    def leave(self) -> None:
        """The state is stored later; raises `Unsound` where it could not be."""
        if not healthy(self.agent):
            raise Unsound(UNSOUND)
        self.changes = None

    def unpack(self, data: bytes, changes: bytes | None, rows: Iterable[Mapping[Any, Any]]) -> None:
        """Bring the agent to where it was stored; `rows` are its decisions that changed since."""
        entries = []
        for row in rows:
            entries.append(step_of(self.agent, row))
            self._note_seen(row["id"], row["step"], seen=row["seen"])
        unpack(self.agent, merged(data, changes), entries)
        self.stored, self.changes = Stored.of(data, self.agent), changes

    def follow(self, new: bool, values: dict[str, Any], step: int, happened: int) -> None:
        """What a change to the row of a decision says of the participant."""
        if new:
            self.latest, self.last_decided = values["id"], happened
        if "status" in values:
            waits = values["status"] == "nudge"
            self.open_decision, self.open_row = (values["id"], values) if waits else (None, None)
        if values.get("revealed"):
            self.last_reveal = happened
        if "seen" in values:
            self._note_seen(values["id"], step, seen=values["seen"])

    def _note_seen(self, decision: str, step: int, *, seen: bool) -> None:
        if seen:
            self.unseen.pop(step, None)
        else:
            self.unseen[step] = decision


def person_of(row: Mapping[Any, Any], agent: Agent, unseen: dict[int, str]) -> Person:
    """The participant that a row of `participants` describes, with an agent that is yet to be brought there."""
    names = (
        "name", "number", "stream", "timezone", "status", "reason", "enrolled", "seq", "latest", "open_decision",
        "last_decided", "last_reveal",
    )  # fmt: skip
    return Person(agent=agent, unseen=unseen, **{name: row[name] for name in names})


def step_of(agent: Agent, row: Mapping[Any, Any]) -> Step:
    """The agent's step that a row of `decisions` describes; one by the fallback is over for it at once."""
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
