"""What authors of revealers, recommenders and worlds import (docs/extending.md): everything their own files need."""

from opportune import checks
from opportune.core.budget import budget_left, raise_price, spent_so_far
from opportune.core.compiled import inner_function, step_function
from opportune.core.model import best
from opportune.core.protocol import Judged, Moment
from opportune.core.rng import TREATMENT, draw, normal
from opportune.core.scores import score_blind, score_full
from opportune.core.snapshot import blind_features, informed_features, score_frozen
from opportune.errors import InputError
from opportune.extensions import register
from opportune.recommenders import Recommender
from opportune.revealers import Revealer
from opportune.revealers.base import ScaledRevealer
from opportune.worlds.common import HEAD, NOISE_SD, Happenings
from opportune.worlds.linear import LinearWorld

__all__ = [
    "HEAD", "NOISE_SD", "TREATMENT", "Happenings", "InputError", "Judged", "LinearWorld", "Moment", "Recommender",
    "Revealer", "ScaledRevealer", "best", "blind_features", "budget_left", "checks", "draw", "informed_features",
    "inner_function", "normal", "raise_price", "register", "score_blind", "score_frozen", "score_full",
    "spent_so_far", "step_function",
]  # fmt: skip
