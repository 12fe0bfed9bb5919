"""Probabilities that analysts weigh by: of a nudge before the coin of `randomise` was mixed in, and of each action."""

from collections.abc import Mapping
from typing import Any

from opportune.engine.declared import TIE
from opportune.policy import Policy
from opportune.recommenders import LinUCB, RandomAction
from opportune.recommenders.fixed import FixedAction
from opportune.revealers import Pace
from opportune.revealers import pace as rule


def randomised(policy: Policy) -> bool:
    """Whether the policy's rule mixes in a coin, so that the probabilities before and after it differ."""
    return isinstance(policy.revealer, Pace) and policy.revealer.randomise is not None


def before_randomising(policy: Policy, answer: Mapping[str, Any]) -> float:
    """With which probability the rule alone would have nudged, by what it went by (`notes` of the record).

    With eps = randomise, x = (1 - eps) x_before + eps share; x_before follows from the rank of the moment.
    """
    probability, notes = float(answer["probability"]), answer.get("notes")
    if notes is None or not randomised(policy):
        return probability
    noted = rule.Notes(*notes)
    cause, left = int(noted.cause), noted.left
    if cause == rule.BY_GRID:
        return float(max(0.0, min(1.0, left)))
    if cause != rule.BY_RANK:
        return probability  # the guard, peace after unanswered nudges and an empty budget leave nothing to chance
    above, tied, share = noted.above, noted.tied, noted.share
    x = 0.0
    if noted.worth > TIE:
        x = min(max((share - above) / tied, 0.0), 1.0) if tied > 0.0 else float(above <= share)
    return float(max(0.0, min(x, left)))


def of_action(policy: Policy, actions: int, row: Mapping[str, Any], name: str) -> float | None:
    """The probability of an action at a decision, given the state and whether there was a reveal; None if not known."""
    if row["mode"] == "fallback" or isinstance(policy.recommender, LinUCB | FixedAction):
        return float(row["action"] == name)
    return 1.0 / actions if isinstance(policy.recommender, RandomAction) else None
