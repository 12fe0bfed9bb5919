"""Probabilities that analysts weigh by: of a nudge before the coin of `randomise` was mixed in, and of each action."""

from collections.abc import Mapping
from typing import Any

from opportune.policy import Policy
from opportune.recommenders import LinUCB, RandomAction
from opportune.recommenders.fixed import FixedAction


def before_randomising(policy: Policy, answer: Mapping[str, Any]) -> float:
    """With which probability the rule alone would have nudged, by what it went by (`notes` of the record)."""
    probability, notes = float(answer["probability"]), answer.get("notes")
    revealer = policy.revealer
    return probability if notes is None else revealer.before_coin(probability, revealer.declares.notes(*notes))


def of_action(policy: Policy, actions: int, row: Mapping[str, Any], name: str) -> float | None:
    """The probability of an action at a decision, given the state and whether there was a reveal; None if not known."""
    if row["mode"] == "fallback" or isinstance(policy.recommender, LinUCB | FixedAction):
        return float(row["action"] == name)
    return 1.0 / actions if isinstance(policy.recommender, RandomAction) else None
