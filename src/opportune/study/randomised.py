"""Randomisation with known probabilities: actions with a floor, nudges at candidate moments."""

from dataclasses import fields, replace
from typing import Any

from opportune.recommenders import Recommender, Thompson
from opportune.revealers import Revealer
from opportune.revealers.pace import CANDIDATES, LEAST, Pace
from opportune.study.schema import StudyFile

POINTS = 64
"""Points of Thompson sampling, if the probabilities of actions must be known."""


def least_action(settings: StudyFile, *, served: bool) -> float | None:
    """The least probability of every allowed action; None if actions are not randomised.

    A served study has one by default: 4/T, at least 0.01 and at most 0.1. Its cost grows with the horizon T, but the
    amount of randomisation that is needed does not. Older files, without `schema`, have no default, so that their
    records continue unchanged.
    """
    given = settings.probabilities.actions
    if given is None and served and _new(settings):
        return min(max(4.0 / settings.study.horizon, 0.01), 0.1, 1.0 / len(settings.study.actions))
    return given or None


def least_nudge(settings: StudyFile, *, served: bool) -> float | None:
    """The least probability of a nudge, and of no nudge, at candidate moments; None if nudges are not randomised."""
    given = settings.probabilities.nudge
    if given is None and served and _new(settings):
        return LEAST
    return given or None


def with_candidates(revealer: Revealer, least: float | None) -> Revealer:
    """The revealer, randomising nudges at candidate moments if it can and does not randomise otherwise."""
    if least is None or not isinstance(revealer, Pace) or isinstance(revealer.randomise, float):
        return revealer
    if revealer.least != LEAST:
        return revealer
    return replace(revealer, randomise=CANDIDATES, least=least)


def _new(settings: StudyFile) -> bool:
    """Whether the file sets its edition (`schema`)."""
    return "edition" in settings.model_fields_set


def with_floor(recommender: Recommender, floor: float | None) -> Recommender:
    """The recommender with this least probability of actions, if it can have one and has none of its own."""
    known = {field.name for field in fields(recommender)}
    if floor is None or "floor" not in known or getattr(recommender, "floor", None) is not None:
        return recommender
    changes: dict[str, Any] = {"floor": floor}
    if isinstance(recommender, Thompson) and recommender.points is None:
        changes["points"] = POINTS
    return replace(recommender, **changes)
