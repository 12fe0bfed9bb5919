"""The participants of a plan as simulated worlds, according to the file or with one assumption changed."""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from opportune.planning.settings import Settings
from opportune.worlds import ContinuousWorld, LinearWorld
from opportune.worlds.common import BEYOND
from opportune.worlds.distributions import Choice, Distribution, LogNormal, Normal, Uniform


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """A change to the world of the file; the agents' prior beliefs stay."""

    name: str
    text: str
    answers: float = 1.0
    """Factor on the probability of an answer."""
    openings: float = 0.0
    """Added to the probability of an unasked opening."""
    effects: float = 1.0
    """Factor on the effects of actions."""
    noise: float = 1.0
    """Factor on the noise's standard deviation."""
    contexts: bool = False
    """Whether contexts arrive with other probabilities."""
    shift: tuple[float, ...] = ()
    """Added to the effects of all participants, one number per term."""
    dropout: float | None = None
    """The share of participants who leave before the end."""


def participants_of(settings: Settings, changed: Assumption | None = None) -> list[Any]:
    """One world per participant, each with its own effects."""
    if changed is None:
        return settings.worlds
    acts = np.array([bool(re.search(r"\baction\b", term)) for term in settings.study.terms])
    scale = np.where(acts, changed.effects, 1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=BEYOND, category=UserWarning)  # agents believe what the file says
        return [_changed(world, changed, scale) for world in settings.worlds]


def _changed(world: LinearWorld | ContinuousWorld, changed: Assumption, scale: Any) -> LinearWorld | ContinuousWorld:
    happens = world.happenings
    made: dict[str, Any] = {
        "theta": world.theta * scale + (np.array(changed.shift) if changed.shift else 0.0),
        "noise_sd": world.noise_sd * changed.noise,
        "response_rate": np.multiply(happens.response_rate, changed.answers).tolist(),
        "open_rate": np.minimum(1.0, np.add(happens.open_rate, changed.openings)).tolist(),
    }
    if isinstance(world, LinearWorld):
        if changed.contexts:
            possible = world.context_probs > 0
            made["context_probs"] = (world.context_probs + possible / possible.sum()) / 2.0
        return world.replace(**made)
    if changed.contexts:
        made["distributions"] = {name: shifted(d) for name, d in world.distributions.items()}
    return world.replace(**made)


def shifted(distribution: Distribution) -> Distribution:
    """A changed distribution: numbers are one sd higher, levels half as unequal."""
    if isinstance(distribution, Normal):
        return Normal(distribution.mean + distribution.sd, distribution.sd)
    if isinstance(distribution, LogNormal):
        return LogNormal(distribution.median * float(np.exp(distribution.sigma)), distribution.sigma)
    if isinstance(distribution, Uniform):
        return Uniform((distribution.low + distribution.high) / 2.0, distribution.high)
    if isinstance(distribution, Choice):
        n = len(distribution.probabilities)
        return Choice({level: (p + 1.0 / n) / 2.0 for level, p in distribution.probabilities.items()})
    return distribution


def survival(settings: Settings, dropout: float) -> Any:
    """The probability that a participant is still there at each decision, with a constant hazard."""
    steps = np.arange(settings.horizon)
    return (1.0 - dropout) ** (steps / settings.horizon)
