"""What all worlds have in common: the numbers they begin with, and what the world does to a decision point.

A world is one flat array: the numbers below, then what its own kind says. Its draws come from `algorithm.rng`, so that
every policy meets the same arrivals, noise and openings.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.rng import ANSWER, AVAILABLE, DELAY, LOST, OPEN, draw
from opportune.engine.compiled import inner_function

# The numbers that every world begins with.
NOISE_SD = 0
OPEN_RATE = 1
OPENS_HOLD = 2  # an opening holds for this many steps in a row (a day's)
RESPONSE_RATE = 3
AVAILABLE_RATE = 4
REWARD_RATE = 5
REWARD_DELAY = 6
HEAD = 7

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
        """Them from keyword arguments; a name that is none of them is refused."""
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
        """Them by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def head(self, noise_sd: float, opens_hold: int = 1) -> list[float]:
        """The numbers that a world's array begins with."""
        return [
            noise_sd, self.open_rate, opens_hold, self.response_rate, self.available_rate, self.reward_rate,
            self.reward_delay,
        ]  # fmt: skip


@inner_function
def opens(world, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient opens the app unasked."""
    if world[OPEN_RATE] <= 0.0:
        return False
    hold = int(world[OPENS_HOLD])
    when = (step - 1) // hold * hold + 1 if hold > 1 else step  # step, or the first of its day
    return draw(draws.seed, draws.stream, when, OPEN) < world[OPEN_RATE]


@inner_function
def answers(world, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient answers a nudge."""
    return world[RESPONSE_RATE] >= 1.0 or draw(draws.seed, draws.stream, step, ANSWER) < world[RESPONSE_RATE]


@inner_function
def is_available(world, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient is available and sensed values are there."""
    return world[AVAILABLE_RATE] >= 1.0 or draw(draws.seed, draws.stream, step, AVAILABLE) < world[AVAILABLE_RATE]


@inner_function
def is_rewarded(world, draws, step):  # type: ignore[no-untyped-def]
    """Whether the step's reward will ever arrive."""
    return world[REWARD_RATE] >= 1.0 or draw(draws.seed, draws.stream, step, LOST) < world[REWARD_RATE]


@inner_function
def lateness(world, draws, step):  # type: ignore[no-untyped-def]
    """How many steps late the step's reward arrives."""
    most = int(world[REWARD_DELAY])
    if most == 0:
        return 0
    return min(int(draw(draws.seed, draws.stream, step, DELAY) * (most + 1)), most)
