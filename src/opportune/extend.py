"""The imports for authors of revealers, recommenders and worlds (docs/extending.md)."""

from opportune import checks
from opportune.algorithm.budget import budget_left, raise_price, spent_so_far
from opportune.algorithm.masks import blind_mask, forbid, informed_mask
from opportune.algorithm.model import best
from opportune.algorithm.protocol import Judged, Moment
from opportune.algorithm.rng import TREATMENT, draw, normal
from opportune.algorithm.scores import score_blind, score_full
from opportune.algorithm.snapshot import blind_features, informed_features, score_frozen
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import AMOUNT, COUNT, NOT_NEGATIVE, SHARE, Declares, Numbers, Range
from opportune.errors import InputError
from opportune.extensions import register
from opportune.recommenders import Recommender
from opportune.revealers import Revealer
from opportune.revealers.base import ScaledRevealer, Use
from opportune.worlds.common import Happenings
from opportune.worlds.linear import LinearWorld, moment_of
from opportune.worlds.rewards import outcome_of, reward_around

__all__ = [
    "AMOUNT", "COUNT", "NOT_NEGATIVE", "SHARE", "TREATMENT", "Declares", "Happenings", "InputError", "Judged",
    "LinearWorld", "Moment", "Numbers", "Range", "Recommender", "Revealer", "ScaledRevealer", "Use", "best",
    "blind_features", "blind_mask", "budget_left", "checks", "draw", "forbid", "informed_features", "informed_mask",
    "inner_function", "moment_of", "normal", "outcome_of", "raise_price", "register", "reward_around", "score_blind",
    "score_frozen", "score_full",
    "spent_so_far", "step_function",
]  # fmt: skip
