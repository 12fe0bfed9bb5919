"""The behaviour that all worlds share: their effect on decision points and rewards.

Compiled code reads it as `p.happenings` (engine.declared). Draws come from `algorithm.rng`, so every policy meets the
same people: arrivals, noise, openings, absences, and each person's readiness to answer.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.rng import ANSWER, AVAILABLE, DELAY, LOST, OPEN, PERSON, SPELL, draw, normal
from opportune.engine.compiled import inner_function
from opportune.engine.declared import BINARY, COUNTED, GAUSSIAN
from opportune.errors import InputError
from opportune.problems.terms import normal_term
from opportune.worlds.rewards import expected_reward

BEYOND = "theta has"
"""The start of the warning about a true parameter beyond its bound."""
FAMILIES = {"gaussian": GAUSSIAN, "binary": BINARY, "count": COUNTED}
WEEK = 7
"""The number of days during which a nudge makes further answers less probable."""
MOST_SPELL = 1_000
"""The most days of a spell."""
ALWAYS = 10**9
"""The patience of a person who answers after any number of nudges."""

Rate = float | tuple[float, ...]


class Happenings:
    """A world's effect on decision points and rewards, checked.

    Args:
        open_rate: the probability that the patient opens the app unasked, at each step; a number, or one for each
            public stratum.
        response_rate: the probability that a nudge is answered; a number, or one for each public stratum.
        available_rate: the probability that the patient is available and sensed values are present.
        reward_rate: the probability that a reward arrives at all.
        reward_delay: the most steps that a reward is late; each delay is equally likely.
        response_spread: how much participants differ in answering: the sd of a number added to the rate's logit, drawn
            once for each participant.
        habituation: the factor of each nudge in the last seven days on the probability of an answer, above 0 to 1.
        spells: {"rate": the daily probability that the participant goes away, "days": for how many days}; meanwhile
            the participant is unavailable. With "silent": True nobody knows: no nudge is answered and the app is not
            opened.
        family: the distribution of rewards: "gaussian", the linear mean plus normal noise; "binary", 1 with the linear
            mean as probability (clipped to 0..1), else 0; "count", like gaussian, then rounded and at least 0.
        bounds: (low, high), to which rewards are clipped, like clipped measurements.

    With a family or bounds, the expected reward of an action is not its linear mean. The outcome and best possible
    outcome that a world reports, and therefore all regret, are expected rewards (of counts, before rounding).

    """

    NAMES = (
        "open_rate", "response_rate", "available_rate", "reward_rate", "reward_delay", "response_spread",
        "habituation", "spells", "family", "bounds",
    )  # fmt: skip

    def __init__(self, open_rate: Any = 0.0, response_rate: Any = 1.0, available_rate: float = 1.0,
                 reward_rate: float = 1.0, reward_delay: int = 0, response_spread: float = 0.0,
                 habituation: float = 1.0, spells: Mapping[str, Any] | None = None, family: str = "gaussian",
                 bounds: tuple[float, float] | None = None) -> None:  # fmt: skip
        self.open_rate: Rate = _rate("open_rate", open_rate)
        self.response_rate: Rate = _rate("response_rate", response_rate)
        self.available_rate = checks.real("available_rate", available_rate, least=0.0, most=1.0)
        self.reward_rate = checks.real("reward_rate", reward_rate, least=0.0, most=1.0)
        self.reward_delay = checks.whole("reward_delay", reward_delay, least=0, most=10_000)
        self.response_spread = checks.real("response_spread", response_spread, least=0.0, most=10.0)
        self.habituation = checks.real("habituation", habituation, above=0.0, most=1.0)
        self.spells = _spells(spells)
        self.family = checks.choice("family", family, FAMILIES)
        self.bounds = _bounds(bounds, self.family)

    @classmethod
    def checked(cls, given: Mapping[str, Any], *, strata: int | None = None) -> "Happenings":
        """Happenings from keyword arguments; rejects unknown names, and lists of rates that are not one per stratum."""
        for name in given:
            checks.choice("a world's setting", name, cls.NAMES)
        made = cls(**given)
        if strata is not None:
            made.check_strata(strata)
        return made

    @staticmethod
    def warn_of_theta(theta: NDArray[np.float64], bound: float) -> None:
        """Warn if the true parameter exceeds the agents' bound, since their confidence sets are then invalid."""
        norm = float(np.linalg.norm(theta))
        if norm > bound * (1.0 + 1e-9):
            checks.warn(
                f"{BEYOND} norm {norm:.4g}, beyond theta_bound = {bound:.4g}, which the agents assume; "
                "expected a theta_bound of at least that"
            )

    def check_strata(self, strata: int) -> None:
        """Reject lists of rates that are not one per stratum."""
        for name in ("open_rate", "response_rate"):
            rate = getattr(self, name)
            if isinstance(rate, tuple) and len(rate) != strata:
                raise InputError(f"{name} has {len(rate)} rates; expected a number, or {strata}, one per stratum")

    @property
    def interrupts(self) -> bool:
        """Whether participants may be unavailable."""
        return self.available_rate < 1.0 or (self.spells is not None and not self.spells["silent"])

    def habituated(self, decisions_per_day: int) -> int:
        """The number of decision points for which a nudge is remembered; 0 without habituation."""
        return WEEK * decisions_per_day if self.habituation < 1.0 else 0

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds of rewards; counts are never below 0."""
        low, high = (-math.inf, math.inf) if self.bounds is None else self.bounds
        return (max(low, 0.0), high) if self.family == "count" else (low, high)

    @property
    def bends(self) -> bool:
        """Whether the expected reward differs from the linear mean."""
        return self.family != "gaussian" or self.bounds is not None

    def expected(self, means: NDArray[np.float64], noise_sd: float) -> NDArray[np.float64]:
        """The expected rewards for these linear means."""
        if not self.bends:
            return means
        family, (low, high) = FAMILIES[self.family], self.limits
        found = [expected_reward(float(mean), noise_sd, family, low, high) for mean in means.ravel()]
        return np.array(found).reshape(means.shape)

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]:
        """The bounds of rewards, if there are any."""
        return {} if self.bounds is None else {"reward_bounds": (("bound",), np.array(self.bounds))}

    def settings(self) -> Mapping[str, Any]:
        """All settings by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def numbers(self, kind: int, opens_hold: int = 1, *, strata: int = 1, per_day: int = 1) -> dict[str, Any]:
        """The settings as numbers, for a world of this kind; an opening lasts for `opens_hold` consecutive steps."""
        self.check_strata(strata)
        spells, (low, high) = self.spells or {"rate": 0.0, "days": 0, "silent": False}, self.limits
        return {
            "kind": kind,
            "open_rate": np.broadcast_to(self.open_rate, strata),
            "opens_hold": opens_hold,
            "response_rate": np.broadcast_to(self.response_rate, strata),
            "response_spread": self.response_spread,
            "habituation": self.habituation,
            "available_rate": self.available_rate,
            "spell_rate": spells["rate"],
            "spell_days": spells["days"],
            "spell_silent": spells["silent"],
            "decisions_per_day": per_day,
            "reward_rate": self.reward_rate,
            "reward_delay": self.reward_delay,
            "family": FAMILIES[self.family],
            "bends": self.bends,
            "least_reward": low,
            "most_reward": high,
        }


def check_persistence(given: Any, variables: Mapping[str, Any], scheduled: Mapping[str, Any]) -> dict[str, float]:
    """The probability, for each persisting variable, that it keeps its value from the previous decision point."""
    if given is None:
        return {}
    found = {}
    for name, stays in checks.mapping("persistence", given, "{variable: a probability}").items():
        checks.choice("variable in persistence", name, variables)
        if name in scheduled:
            raise InputError(f"persistence has {name!r}; expected variables that are drawn")
        found[name] = checks.real(f"persistence of {name!r}", stays, least=0.0, below=1.0)
    return {name: stays for name, stays in found.items() if stays > 0.0}


def _rate(name: str, given: Any) -> Rate:
    """A probability, or one for each public stratum."""
    if isinstance(given, list | tuple | np.ndarray) and np.ndim(given) > 0:
        rates = checks.listed(name, given, "a probability, or one for each public stratum", most=1_000_000)
        return tuple(checks.real(f"{name}[{i}]", rate, least=0.0, most=1.0) for i, rate in enumerate(rates))
    return checks.real(name, given, least=0.0, most=1.0)


def _spells(given: Any) -> dict[str, Any] | None:
    """The rate and duration of spells."""
    if given is None:
        return None
    spells = checks.mapping("spells", given, '{"rate": a probability per day, "days": how long}')
    for name in spells:
        checks.choice("a setting of spells", name, ("rate", "days", "silent"))
    if not {"rate", "days"} <= set(spells):
        raise InputError(f'spells is {checks.brief(given)}; expected {{"rate": a probability per day, "days": ...}}')
    rate = checks.real("rate of spells", spells["rate"], least=0.0, most=1.0)
    days = checks.whole("days of spells", spells["days"], least=1, most=MOST_SPELL)
    return {"rate": rate, "days": days, "silent": checks.yes_no("silent of spells", spells.get("silent", False))}


def _bounds(given: Any, family: str) -> tuple[float, float] | None:
    """The bounds of rewards."""
    if given is None:
        return None
    pair = checks.listed("bounds", given, "(low, high)", most=2)
    if len(pair) != 2:
        raise InputError(f"bounds is {checks.brief(given)}; expected (low, high)")
    low, high = checks.real("low of bounds", pair[0]), checks.real("high of bounds", pair[1])
    if low >= high:
        raise InputError(f"bounds is from {low:g} to {high:g}; expected low < high")
    if family == "binary" and (low > 0.0 or high < 1.0):
        raise InputError(f"bounds is from {low:g} to {high:g}; expected 0 to 1 or wider, as rewards are binary")
    if family == "count" and high <= 0.0:
        raise InputError(f"bounds is from {low:g} to {high:g}; expected a high above 0, as rewards are counts")
    return low, high


@inner_function
def opens(p, draws, moment):  # type: ignore[no-untyped-def]
    """Whether the patient opens the app unasked."""
    rate = p.happenings.open_rate[moment.stratum]
    if rate <= 0.0 or is_silent(p, draws, moment.step):
        return False
    step, hold = moment.step, int(p.happenings.opens_hold[0])
    when = (step - 1) // hold * hold + 1 if hold > 1 else step  # the step, or the first one of its day
    return draw(draws.seed, draws.stream, when, OPEN) < rate


@inner_function
def base_rate(p, draws, stratum):  # type: ignore[no-untyped-def]
    """The probability that this participant answers a nudge if there were no others recently."""
    rate, spread = p.happenings.response_rate[stratum], p.happenings.response_spread[0]
    if spread > 0.0 and 0.0 < rate < 1.0:
        own = spread * normal(draw(draws.seed, draws.stream, 0, PERSON))
        rate = 1.0 / (1.0 + (1.0 - rate) / rate * math.exp(-own))
    return rate


@inner_function
def answers(p, draws, moment):  # type: ignore[no-untyped-def]
    """Whether the patient answers a nudge, given the nudges of the last seven days."""
    if is_silent(p, draws, moment.step):
        return False
    rate = base_rate(p, draws, moment.stratum)
    if p.sizes.habituated > 0:
        rate *= p.happenings.habituation[0] ** p.lately.nudges[0]
    return rate >= 1.0 or draw(draws.seed, draws.stream, moment.step, ANSWER) < rate


@inner_function
def patience(p, draws, moment):  # type: ignore[no-untyped-def]
    """The most nudges in the last seven days after which the patient still answers one; -1: never answers."""
    rate, factor = base_rate(p, draws, moment.stratum), p.happenings.habituation[0]
    u = draw(draws.seed, draws.stream, moment.step, ANSWER)
    if is_silent(p, draws, moment.step) or not (rate >= 1.0 or u < rate):
        return -1
    if factor >= 1.0:
        return ALWAYS
    most = 0
    while u < rate * factor ** (most + 1.0) and most < ALWAYS:
        most += 1
    return most


@inner_function
def remember_nudge(p, step, nudged):  # type: ignore[no-untyped-def]
    """Record whether there was a nudge at this step, in place of the step a week before."""
    lately, window = p.lately, p.sizes.habituated
    lately.nudged[step % window] = nudged
    following = (step + 1) % window  # this entry is a week before the next decision point
    total = 0.0
    for i in range(window):
        total += lately.nudged[i]
    lately.nudges[0] = total - lately.nudged[following]


@inner_function
def is_available(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the patient is available and sensed values are present."""
    rate = p.happenings.available_rate[0]
    if rate < 1.0 and draw(draws.seed, draws.stream, step, AVAILABLE) >= rate:
        return False
    if p.happenings.spell_rate[0] <= 0.0 or p.happenings.spell_silent[0] > 0.0:
        return True
    return not is_away(p, draws, step)


@inner_function
def is_silent(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the participant is away and nobody knows."""
    return p.happenings.spell_silent[0] > 0.0 and p.happenings.spell_rate[0] > 0.0 and is_away(p, draws, step)


@inner_function
def is_away(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether a spell that began today or earlier is still going on."""
    per_day = int(p.happenings.decisions_per_day[0])
    today = (step - 1) // per_day
    for day in range(max(0, today - int(p.happenings.spell_days[0]) + 1), today + 1):
        if draw(draws.seed, draws.stream, day * per_day + 1, SPELL) < p.happenings.spell_rate[0]:
            return True
    return False


@inner_function
def is_rewarded(p, draws, step):  # type: ignore[no-untyped-def]
    """Whether the step's reward will ever arrive."""
    rate = p.happenings.reward_rate[0]
    return rate >= 1.0 or draw(draws.seed, draws.stream, step, LOST) < rate


@inner_function
def lateness(p, draws, step):  # type: ignore[no-untyped-def]
    """The number of steps by which the step's reward is late."""
    most = int(p.happenings.reward_delay[0])
    if most == 0:
        return 0
    return min(int(draw(draws.seed, draws.stream, step, DELAY) * (most + 1)), most)


def true_parameter(problem: Any, theta: Any) -> NDArray[np.float64]:
    """The true parameter of a world, checked: a number for each feature, or {term: effect}, with 0 for other terms."""
    if isinstance(theta, Mapping):
        if problem.formula is None:
            raise InputError(
                "theta is given by terms; expected numbers, or a problem of Problem.from_formula, which names terms"
            )
        place = {normal_term(term): i for i, term in enumerate(problem.terms)}
        given = np.zeros(problem.d)
        for name, effect in theta.items():
            if normal_term(str(name)) not in place:
                checks.choice("term in theta", name, problem.terms)
            given[place[normal_term(str(name))]] = checks.real(f"theta[{name!r}]", effect)
        return given
    return checks.array("theta", theta, (problem.d,))
