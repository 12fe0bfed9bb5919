"""Probabilities of each decision, from the record: of a nudge before randomisation, and of each action."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select

from opportune.engine.declared import CERTAIN
from opportune.policy import Policy
from opportune.service.record import events, tables
from opportune.service.record.database import Database


class Drawn(NamedTuple):
    """How an action was drawn: the probability of each action, the draw, and the number of the intended action."""

    probabilities: list[float | None]
    draw: float | None
    intended: int


class Answers(NamedTuple):
    """The algorithm's answers at a participant's decision points, and when their nudges were settled."""

    proposed: dict[str, dict[str, Any]]
    settled: dict[str, dict[str, Any]]

    def drawn(self, decision: str) -> Drawn | None:
        """How the action was drawn; None while a nudge waits, or if no action was drawn."""
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
    """The probability with which the rule alone would have nudged, computed from its recorded `notes`."""
    probability, notes = float(answer["probability"]), answer.get("notes")
    revealer = policy.revealer
    return probability if notes is None else revealer.before_coin(probability, revealer.declares.notes(*notes))


def nudge_class(policy: Policy, answer: Mapping[str, Any]) -> str | None:
    """The class of the moment at which a nudge was considered; None if it was ineligible or the rule has no classes."""
    notes, revealer = answer.get("notes"), policy.revealer
    if notes is None or "ineligible" in answer:
        return None
    return revealer.class_of(revealer.declares.notes(*notes))


def of_action(policy: Policy, names: Sequence[str], row: Mapping[str, Any], name: str) -> float | None:
    """The probability of an action, given the state and whether there was a reveal; None if it is unknown."""
    if row["mode"] != "fallback" and policy.randomised:
        drawn: Drawn | None = row["drawn"]
        return None if drawn is None else drawn.probabilities[names.index(name)]
    if row["mode"] == "fallback" or policy.recommender.chances == CERTAIN:
        return float(row["action"] == name)
    return None


def intended(names: Sequence[str], row: Mapping[str, Any]) -> str | None:
    """The action that was most probable before the minimum probability was applied; None while a nudge waits."""
    drawn: Drawn | None = row["drawn"]
    if drawn is not None:
        return names[drawn.intended]
    settled = row["status"] == "settled" and row["mode"] != "fallback"
    certain = not row["policy"].randomised and row["policy"].recommender.chances == CERTAIN
    return row["action"] if settled and certain and not row["offline"] else None
