"""What the record says of chance at each decision: of a nudge before the coin was mixed in, and of each action."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select

from opportune.engine.declared import CERTAIN
from opportune.policy import Policy
from opportune.service.record import events, tables
from opportune.service.record.database import Database


class Drawn(NamedTuple):
    """How an action was drawn: the probability of each, the draw, and the number of the one intended."""

    probabilities: list[float | None]
    draw: float | None
    intended: int


class Answers(NamedTuple):
    """What the algorithm answered to a participant's decision points, and to what became of their nudges."""

    proposed: dict[str, dict[str, Any]]
    settled: dict[str, dict[str, Any]]

    def drawn(self, decision: str) -> Drawn | None:
        """How the action was drawn; None while a nudge waits, and where nothing is drawn."""
        settled = self.proposed[decision].get("settled") or self.settled.get(decision) or {}
        found = settled.get("drawn")
        return None if found is None else Drawn(found[:-2], found[-2], int(found[-1]))


def answers_of(database: Database, participant: str) -> Answers:
    """A participant's answers, from the record."""
    table, found = tables.events.c, Answers({}, {})
    by_kind = {events.PROPOSED: found.proposed, events.SETTLED: found.settled}
    query = select(table.kind, table.decision, table.body).where(
        table.participant == participant, table.kind.in_(by_kind)
    )
    with database.reading.connect() as connection:
        for kind, decision, body in connection.execute(query):
            by_kind[kind][decision] = msgspec.json.decode(body)["answer"]
    return found


def before_randomising(policy: Policy, answer: Mapping[str, Any]) -> float:
    """With which probability the rule alone would have nudged, by what it went by (`notes` of the record)."""
    probability, notes = float(answer["probability"]), answer.get("notes")
    revealer = policy.revealer
    return probability if notes is None else revealer.before_coin(probability, revealer.declares.notes(*notes))


def nudge_class(policy: Policy, answer: Mapping[str, Any]) -> str | None:
    """Why a nudge was considered; None where there could be none, and where the rule has no classes."""
    notes, revealer = answer.get("notes"), policy.revealer
    if notes is None or "ineligible" in answer:
        return None
    return revealer.class_of(revealer.declares.notes(*notes))


def of_action(policy: Policy, names: Sequence[str], row: Mapping[str, Any], name: str) -> float | None:
    """The probability of an action at a decision, given the state and whether there was a reveal; None if not known."""
    if row["mode"] != "fallback" and policy.randomised:
        drawn: Drawn | None = row["drawn"]
        return None if drawn is None else drawn.probabilities[names.index(name)]
    if row["mode"] == "fallback" or policy.recommender.chances == CERTAIN:
        return float(row["action"] == name)
    return None


def intended(names: Sequence[str], row: Mapping[str, Any]) -> str | None:
    """The most probable action before the least probability was kept; None while a nudge waits."""
    drawn: Drawn | None = row["drawn"]
    if drawn is not None:
        return names[drawn.intended]
    settled = row["status"] == "settled" and row["mode"] != "fallback"
    certain = not row["policy"].randomised and row["policy"].recommender.chances == CERTAIN
    return row["action"] if settled and certain and not row["offline"] else None
