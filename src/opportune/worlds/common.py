"""What all worlds have in common: what the world does to a decision point besides rewards.

Compiled code reads it as `p.happenings` (engine.declared). Draws come from `algorithm.rng`, so that every policy meets
the same arrivals, noise and openings.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.rng import ANSWER, AVAILABLE, DELAY, LOST, OPEN, draw
from opportune.engine.compiled import inner_function

BEYOND = "theta has"
"""How the warning of a true parameter beyond its bound begins."""


class Happenings:
    """What the world does to decision points besides rewards, checked.

    Args:
        open_rate: how probable it is that the patient opens the app unasked, at each step.
        response_rate: how probable it is that a nudge is answered.
        available_rate: how probable it is that the patient is available and sensed values are there.
        reward_rate: how probable it is that a reward arrives at all.
        reward_delay: a reward arrives up to so many steps late, each delay equally likely.

    """

    NAMES = ("open_rate", "response_rate", "available_rate", "reward_rate", "reward_delay")

    def __init__(self, open_rate: float = 0.0, response_rate: float = 1.0, available_rate: float = 1.0,
                 reward_rate: float = 1.0, reward_delay: int = 0) -> None:  # fmt: skip
        self.open_rate = checks.real("open_rate", open_rate, least=0.0, most=1.0)
        self.response_rate = checks.real("response_rate", response_rate, least=0.0, most=1.0)
        self.available_rate = checks.real("available_rate", available_rate, least=0.0, most=1.0)
        self.reward_rate = checks.real("reward_rate", reward_rate, least=0.0, most=1.0)
        self.reward_delay = checks.whole("reward_delay", reward_delay, least=0, most=10_000)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> "Happenings":
        """Happenings from keyword arguments; an unknown name is refused."""
        for name in given:
            checks.choice("a world's setting", name, cls.NAMES)
        return cls(**given)

    @staticmethod
    def warn_of_theta(theta: NDArray[np.float64], bound: float) -> None:
        """Warn if the true parameter is beyond what the agents believe: their confidence sets do not hold then."""
        norm = float(np.linalg.norm(theta))
        if norm > bound * (1.0 + 1e-9):
            checks.warn(
                f"{BEYOND} norm {norm:.4g}, beyond theta_bound = {bound:.4g}, which the agents go by; "
                "expected a theta_bound of at least that"
            )

    def settings(self) -> Mapping[str, Any]:
        """All rates and the delay by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def numbers(self, kind: int, opens_hold: int = 1) -> dict[str, float]:
        """What happens in numbers, in a world of this kind; an opening holds for so many steps in a row."""
        return {"kind": kind, "opens_hold": opens_hold, **self.settings()}


@inner_function
def opens(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient opens the app unasked."""
    rate = p.happenings.open_rate[0]
    if rate <= 0.0:
        return False
    hold = int(p.happenings.opens_hold[0])
    when = (step - 1) // hold * hold + 1 if hold > 1 else step  # step, or the first of its day
    return draw(draws.seed, draws.stream, when, OPEN) < rate


@inner_function
def answers(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient answers a nudge."""
    rate = p.happenings.response_rate[0]
    return rate >= 1.0 or draw(draws.seed, draws.stream, step, ANSWER) < rate


@inner_function
def is_available(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient is available and sensed values are there."""
    rate = p.happenings.available_rate[0]
    return rate >= 1.0 or draw(draws.seed, draws.stream, step, AVAILABLE) < rate


@inner_function
def is_rewarded(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the step's reward will ever arrive."""
    rate = p.happenings.reward_rate[0]
    return rate >= 1.0 or draw(draws.seed, draws.stream, step, LOST) < rate


@inner_function
def lateness(p, draws, step):  # type: ignore[no-untyped-def]
    """How many steps late the step's reward arrives."""
    most = int(p.happenings.reward_delay[0])
    if most == 0:
        return 0
    return min(int(draw(draws.seed, draws.stream, step, DELAY) * (most + 1)), most)
