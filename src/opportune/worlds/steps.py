"""`StepCountWorld`: messages for physical activity that wear off and may drive people away.

Based on the deterministic dynamics of Karine and Marlin, "StepCountJITAI: simulation environment for RL with
application to physical activity adaptive intervention" (arXiv:2411.00336, 2024), with normal noise around the step
count. There are two contexts, c = 0, 1, each half of the time, and four actions: no message (0), a general one (1), one
for context 0 (2) and one for context 1 (3). Habituation h and disengagement d begin at 0.1 and follow

    h' = (1 - delta_h) h               without a message,
    h' = min(1, h + epsilon_h)         with one,
    d' = d                             without a message,
    d' = (1 - delta_d) d               with a general one, or one for the present context (a = 2 + c),
    d' = min(1, d + epsilon_d)         with one for the other context;

The mean step count is mu; a message adds (1 - h') rho_1 if it is general and (1 - h') rho_2 if it is for the present
context. Once d' has reached 0.99 the participant has gone for good, and no more steps are counted.

The context is not seen but inferred from x = c + sigma z, z normal, as the more probable one; this is wrong with
probability Phi(-1 / (2 sigma)). Here the inferred context is `sensed` and the true one `reported`: it is known once the
participant reports it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import SHARE, Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.problems.finite import Problem
from opportune.worlds.common import Happenings
from opportune.worlds.linear import find_context, moment_of
from opportune.worlds.rewards import outcome_of, reward_around

ACTIONS = ("no message", "general", "for context 0", "for context 1")
CONSTANTS: dict[str, float] = {
    "delta_h": 0.1, "epsilon_h": 0.05, "delta_d": 0.1, "epsilon_d": 0.4, "mu": 0.1, "rho_1": 50.0, "rho_2": 200.0,
}  # fmt: skip
"""The published values."""
START = 0.1
"""Habituation and disengagement before the first decision point."""
GONE = 0.99
"""The disengagement at which a participant leaves for good."""


class Settings(NamedTuple):
    """The dynamics as numbers."""

    noise_sd: Annotated[Numbers, 1]
    cumulative: Annotated[Numbers, "contexts"]
    delta_h: Annotated[Numbers, 1]
    epsilon_h: Annotated[Numbers, 1]
    delta_d: Annotated[Numbers, 1]
    epsilon_d: Annotated[Numbers, 1]
    mu: Annotated[Numbers, 1]
    rho_1: Annotated[Numbers, 1]
    rho_2: Annotated[Numbers, 1]


class State(NamedTuple):
    """The effects of earlier messages."""

    begun: Annotated[Numbers, 1, SHARE]  # 1 from the first decision point on
    habituation: Annotated[Numbers, 1, SHARE]  # h
    disengagement: Annotated[Numbers, 1, SHARE]  # d


@inner_function
def arrive(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The inferred and the true context, from one uniform draw."""
    return moment_of(p, step, find_context(own.settings.cumulative, 0, p.sizes.contexts, arrival))


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The step count, its mean, and the largest possible mean at this step; h and d are updated."""
    truth, state, actual = own.settings, own.state, moment.context % 2
    if state.begun[0] == 0.0:
        state.begun[0], state.habituation[0], state.disengagement[0] = 1.0, START, START
    if state.disengagement[0] >= GONE:
        return 0.0, 0.0, 0.0
    messaged = min(1.0, state.habituation[0] + truth.epsilon_h[0])
    extra = 0.0
    if action == 0:
        state.habituation[0] *= 1.0 - truth.delta_h[0]
    else:
        state.habituation[0] = messaged
        if action == 1 or action == 2 + actual:
            extra = (1.0 - messaged) * (truth.rho_1[0] if action == 1 else truth.rho_2[0])
            state.disengagement[0] *= 1.0 - truth.delta_d[0]
        else:
            state.disengagement[0] = min(1.0, state.disengagement[0] + truth.epsilon_d[0])
    most = truth.mu[0] + (1.0 - messaged) * max(truth.rho_1[0], truth.rho_2[0])
    best = outcome_of(p, most, truth.noise_sd[0])
    if state.disengagement[0] >= GONE:
        return 0.0, 0.0, best
    mean = truth.mu[0] + extra
    return reward_around(p, mean, truth.noise_sd[0], noise), outcome_of(p, mean, truth.noise_sd[0]), best


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """The actual step count; the paper's average over contexts is defined only for worlds without a past."""
    return outcome


@WORLDS.add
class StepCountWorld:
    """Messages for physical activity that wear off, and drive people away if they do not fit (arXiv:2411.00336).

    Args:
        uncertainty: sigma, the difficulty of inferring the context; the inferred context is wrong with probability
            Phi(-1 / (2 sigma)), about 0.1 at 0.4.
        noise_sd: standard deviation of the normal noise around the mean step count.
        constants: {name: value} for constants that differ from the published ones (`CONSTANTS`).
        name: a label for tables and figures.
        happenings: openings, answers, absences, late rewards, bounds: as for LinearWorld.

    Agents see the inferred context; the true one is `reported`, so they see it when a nudge is answered. Their linear
    model is correct except for habituation, which they ignore. `best` is the best for one step and ignores later costs
    of a message.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings, state=State)
    arrive: ClassVar[Any] = staticmethod(arrive)
    respond: ClassVar[Any] = staticmethod(respond)
    blind_value: ClassVar[Any] = staticmethod(blind_value)

    def __init__(
        self,
        *,
        uncertainty: float = 0.4,
        noise_sd: float = 20.0,
        constants: Mapping[str, float] | None = None,
        name: str = "",
        **happenings: Any,
    ) -> None:
        self.uncertainty = checks.real("uncertainty", uncertainty, above=0.0, most=100.0)
        self.noise_sd = checks.real("noise_sd", noise_sd, least=0.0)
        self.constants = dict(CONSTANTS)
        for key, value in checks.mapping("constants", constants or {}, "{name: value}").items():
            name_of = checks.choice("constant", key, CONSTANTS)
            most = 1.0 if name_of[0] in "de" else 1e6
            self.constants[name_of] = checks.real(name_of, value, least=0.0, most=most)
        self.happenings = Happenings.checked(happenings, strata=1)
        self.name = checks.text("name of the world", name, empty=True)

    @property
    def error_rate(self) -> float:
        """The probability that the inferred context is wrong."""
        return float(ndtr(-0.5 / self.uncertainty))

    @cached_property
    def problem(self) -> Problem:
        """The agents' knowledge: how often the inferred context is wrong, and that effects depend on the true one."""
        wrong, mu, most = 0.5 * self.error_rate, self.constants["mu"], self.constants["rho_2"]
        return Problem.from_formula(
            "1 + action * context",
            {"inferred": [0, 1], "context": [0, 1]},
            ACTIONS,
            [0.5 - wrong, wrong, wrong, 0.5 - wrong],
            visibility={"context": "reported"},
            noise_sd=max(self.noise_sd, 1.0),
            theta_bound=2.0 * max(most, 1.0),
            value_range=(mu, mu + max(most, 1.0)),
        )

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        return {}

    def numbers(self) -> dict[str, Any]:
        """The dynamics as numbers, for the fields of its settings."""
        probs = self.problem.context_probs
        assert probs is not None
        return {"noise_sd": self.noise_sd, "cumulative": np.cumsum(probs), **self.constants}

    def informed_problem(self) -> Problem:
        """The agents' knowledge, which is the whole problem."""
        return self.problem

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The error rate of the inferred context. Regret against a clairvoyant needs a world without a past."""
        return {**self.happenings.truth_table(), "error_rate": ((), np.array(self.error_rate))}

    def __repr__(self) -> str:
        return f"StepCountWorld({self.name or 'unnamed'}, uncertainty={self.uncertainty:g})"
