"""Power: the probability that the analysis after the study detects the true effects, and the cost of randomising.

Fresh participants are simulated under the study file, dropout included, and their record is analysed as the study's own
will be. With beta the estimate, k coefficients, and v = n Var(beta), the sum over participants of squared influence,

    power(n) = 1 - F(t_.975; n - k, |beta| sqrt(n / v)),

where F is the distribution function of Student's noncentral t: only findings with the right sign count. Several
contrasts are adjusted by Holm.
"""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import nctdtr, ndtr, stdtrit

from opportune.analysis.intervals import interval
from opportune.errors import InputError
from opportune.inference.design import columns_of
from opportune.inference.questions import ARM, ELIGIBLE, Question, usable_controls
from opportune.inference.record import SPARE_PARTICIPANTS
from opportune.planning.pool import PEOPLE, Pool, in_arms, pools
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations
from opportune.policy import Policy
from opportune.revealers import Pace, pace
from opportune.study.arms import control_arm

Floats = NDArray[np.float64]
LEAST = (0.1, 0.2)
"""Least probabilities at candidate moments to try if the policy leaves no nudge to chance."""
BARE = "nothing left to chance"
"""The policy as planned, without coins and least probabilities: the reference for their cost."""
LEVEL = 0.05
WANTED = 0.8
MOST = 100_000
"""The largest number of participants considered."""
FEWEST = 20
"""With fewer participants intervals are unreliable, and the page warns."""
CLEAR = 3.0
"""An effect of fewer standard errors among all fresh participants counts as undetected."""
NEARLY_NORMAL = 300
"""With more degrees of freedom the normal approximation of noncentral t is exact to four digits."""
DRAWS = 20_000
"""Simulated estimates for power when several contrasts are adjusted by Holm."""
COLUMNS = (
    "design", "effect", "question", "budget", "participants", "power", "participants_for_80", "estimate", "se", "df",
    "eligible", "least_probability", "why", "reference",
)  # fmt: skip


class Power(NamedTuple):
    """What the analysis after the study can detect."""

    table: pd.DataFrame
    coins: pd.DataFrame
    primary: str
    """The primary analysis: the name of its question."""
    people: int
    """The number of fresh participants."""


def designs(settings: Settings, budget: int) -> dict[str, dict[float, Policy]]:
    """The policies whose records are analysed, at each budget: as planned, then without chance or with more of it."""
    budgets = sorted({float(budget), *(b for b in settings.budgets if b > 0.0)})
    main = settings.name(settings.main)
    found = {main: {b: settings.served(settings.main, b) for b in budgets}}
    bare = {b: certain(policy) for b, policy in found[main].items()}
    if bare != found[main]:
        found[BARE] = bare
    if not any(policy.revealer.randomised for policy in found[main].values()):
        for least in LEAST:
            chosen = {b: settings.randomised(least, b) for b in budgets}
            found[next(iter(chosen.values())).name] = chosen
    return found


def certain(policy: Policy) -> Policy:
    """The policy with nothing left to chance: no coin and no least probability of actions."""
    revealer, recommender = policy.revealer, policy.recommender
    if isinstance(revealer, Pace) and revealer.randomised:
        revealer = replace(revealer, randomise=None, least=pace.LEAST)
    if getattr(recommender, "floor", None) is not None:
        recommender = replace(recommender, floor=None)  # type: ignore[call-arg]  # only some recommenders have one
    return replace(policy, revealer=revealer, recommender=recommender)


def count_steps(settings: Settings, budget: int) -> float:
    """The number of steps to simulate."""
    runs = sum(len(chosen) for chosen in designs(settings, budget).values())
    return float(runs * settings.horizon * PEOPLE)


def find_power(settings: Settings, simulations: Simulations, budget: int) -> Power:
    """Power for every design, question and budget, and the cost of randomising."""
    rows: list[dict[str, Any]] = []
    outcomes: dict[str, Floats] = {}
    shares: dict[str, float] = {}
    primary = settings.study.settings.analysis.question("1").name
    for number, (design, chosen) in enumerate(designs(settings, budget).items()):
        data = simulations.run(
            f"power-{number}-{budget}",
            f"power: {design}",
            float(settings.horizon * PEOPLE * len(chosen)),
            lambda chosen=chosen, own=not number: _analysed(settings, chosen, budget, own=own),  # type: ignore[misc]
        )
        for amount, answers in zip(chosen, json.loads(data.attrs["answers"]) if design != BARE else [], strict=False):
            rows += [row for answer in answers for row in _rows(settings, design, amount, answer, budget)]
        outcomes[design], shares[design] = data["outcome"].values, float(data["eligible"][0])
    return Power(pd.DataFrame(rows, columns=list(COLUMNS)), _coins(outcomes, shares), primary, PEOPLE)


def _coins(outcomes: dict[str, Floats], shares: dict[str, float]) -> pd.DataFrame:
    """The loss of each design compared with the one that leaves nothing to chance."""
    plain = outcomes.get(BARE, next(iter(outcomes.values())))
    rows = []
    for design, outcome in outcomes.items():
        lost = interval(plain - outcome)
        rows.append(
            {
                "design": design, "eligible": shares[design], "outcome": float(outcome.mean()),
                "lost": lost.mean, "low": lost.low, "high": lost.high,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _analysed(settings: Settings, chosen: dict[float, Policy], budget: int, *, own: bool) -> xr.Dataset:
    """Answers to all questions from the records of one design at each budget; outcomes at the plan's budget.

    The study's own design includes the file's arms, if any: a nudge's effect is estimated from the arms with nudges.
    """
    answers = []
    outcome, eligible = np.zeros(0), 0.0
    for amount, pool in zip(chosen, pools(settings, list(chosen.values())), strict=True):
        asked = in_arms(settings, amount) if own and settings.study.settings.arms is not None else pool
        answers.append([_answer(question, asked) for question in questions(settings, asked.frame, amount)])
        if amount == budget:
            outcome, eligible = pool.outcome, float(pool.frame[ELIGIBLE].mean())
    return xr.Dataset(
        {"outcome": (("person",), outcome), "eligible": (("whole",), np.array([eligible]))},
        attrs={"answers": json.dumps(answers)},
    )


def questions(settings: Settings, frame: pd.DataFrame, budget: float) -> list[Question]:
    """The questions of the study's analysis, the primary one first."""
    names = [name if name in frame else f"variable_{name}" for name in settings.study.variables]
    controls = usable_controls(frame, names, participants=settings.participants)
    table = settings.study.settings.analysis
    lag = min(table.lag or max(2, round(settings.horizon / max(budget, 1.0))), max(2, settings.horizon // 2))
    first = table.question(controls, control=control_arm(settings.study.settings))
    if not set(columns_of(first.controls)) <= set(frame):  # a baseline is not simulated; with it power is higher
        first = replace(first, controls="1" if first.estimand == "arms" else controls)
    every = [first, Question(controls=controls), Question(controls=controls, lag=lag), Question(estimand="actions")]
    every += [Question(estimand="arms", reference=control_arm(settings.study.settings))] if ARM in frame else []
    found: list[Question] = []
    for question in every:
        if all(question.name != other.name for other in found):
            found.append(question)
    return found


def _answer(question: Question, pool: Pool) -> dict[str, Any]:
    """One analysis of the whole pool, as plain values, or the reason why it failed."""
    asked: dict[str, Any] = {
        "question": question.name, "eligible": float(pool.frame[ELIGIBLE].mean()),
        "reference": question.reference_in(pool.frame),
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the file sets how many simulated outcomes are missing
            found = question.answer(pool.frame)
    except InputError as error:
        return {**asked, "why": str(error)}
    people = len(pool.outcome)
    last = slice(-found.effects, None)
    return {
        **asked,
        "names": list(found.names[last]),
        "estimate": found.estimate[last].tolist(),
        "variance": (people * found.plain_covariance[last, last]).tolist(),
        "people": people,
        "share": found.participants / people,
        "k": len(found.names),
        "least": found.least_probability,
    }


def _rows(settings: Settings, design: str, amount: float, answer: dict[str, Any], budget: int) -> list[dict[str, Any]]:
    """Power of each contrast: for a range of participant numbers at the plan's budget, else for the planned one."""
    n = settings.participants
    sizes = sorted({n, *np.unique(np.geomspace(max(8, n // 8), 4 * n, 24).round().astype(int)).tolist()})
    sizes = sizes if amount == budget else [n]
    shared = {
        "design": design, "question": answer["question"], "budget": amount, "eligible": answer["eligible"],
        "reference": answer["reference"],
    }  # fmt: skip
    if "why" in answer:
        nothing = {name: math.nan for name in COLUMNS if name not in {*shared, "effect", "why", "participants"}}
        return [{**shared, **nothing, "effect": answer["question"], "participants": n, "why": answer["why"]}]
    estimate, variance = np.array(answer["estimate"]), np.array(answer["variance"])
    rows = []
    for j, name in enumerate(answer["names"]):
        if abs(estimate[j]) < CLEAR * math.sqrt(variance[j, j] / answer["people"]):
            why, needed = "the effect is not detectable even among all simulated participants", math.nan
        else:
            why, needed = "", participants_for(_power(answer, j))
        for size in sizes:
            rows.append({
                **shared, "effect": answer["question"] if len(answer["names"]) == 1 else name, "participants": size,
                "power": _power(answer, j)(size), "participants_for_80": needed, "estimate": float(estimate[j]),
                "se": math.sqrt(variance[j, j] / size), "df": _freedom(size, answer["share"], answer["k"]),
                "least_probability": answer["least"], "why": why,
            })  # fmt: skip
    return rows


def _power(answer: dict[str, Any], j: int) -> Callable[[int], float]:
    """The power of contrast j of an answer, as a function of the number of participants."""
    estimate, variance = np.array(answer["estimate"]), np.array(answer["variance"])
    if len(estimate) == 1:
        return lambda n: power_of(
            n, float(estimate[0]), float(variance[0, 0]), df=_freedom(n, answer["share"], answer["k"])
        )
    return lambda n: float(holm_power(n, estimate, variance, df=_freedom(n, answer["share"], answer["k"]))[j])


def _freedom(n: int, share: float, k: int) -> int:
    """Degrees of freedom with n participants, of whom this share have rows that count."""
    return math.floor(n * share + 1e-9) - k


def power_of(n: int, effect: float, variance: float, *, df: int) -> float:
    """The probability of detecting an effect with the right sign at the 5% level (two-sided).

    Args:
        n: the number of participants.
        effect: the true effect.
        variance: v, n times the variance of the estimate.
        df: degrees of freedom, n less the number of coefficients.

    """
    if df <= SPARE_PARTICIPANTS:
        return 0.0  # the analysis rejects so few participants
    shift, t = abs(effect) * math.sqrt(n / variance), float(stdtrit(df, 1.0 - LEVEL / 2))
    if df > NEARLY_NORMAL:
        return float(ndtr((shift - t * (1.0 - 1.0 / (4.0 * df))) / math.sqrt(1.0 + t * t / (2.0 * df))))
    return float(1.0 - nctdtr(df, shift, t))


def holm_power(n: int, effects: Floats, variance: Floats, *, df: int) -> Floats:
    """The power of each of several contrasts whose p-values are adjusted by Holm."""
    m = len(effects)
    if df <= SPARE_PARTICIPANTS:
        return np.zeros(m)  # the analysis rejects so few participants
    rng = np.random.default_rng(m)
    sd = np.sqrt(np.diag(variance))
    values, vectors = np.linalg.eigh(variance / np.outer(sd, sd))
    drawn = rng.standard_normal((DRAWS, m)) @ (vectors * np.sqrt(np.clip(values, 0.0, None))).T
    scale = np.sqrt(rng.chisquare(df, DRAWS) / df)
    t = (drawn + effects / sd * math.sqrt(n)) / scale[:, None]
    order = np.argsort(-np.abs(t), axis=1)
    needed = stdtrit(df, 1.0 - LEVEL / 2 / np.arange(m, 0, -1))
    clear = np.logical_and.accumulate(np.take_along_axis(np.abs(t), order, axis=1) > needed, axis=1)
    found = np.zeros_like(clear)
    np.put_along_axis(found, order, clear, axis=1)
    return np.asarray((found & (np.sign(t) == np.sign(effects))).mean(axis=0))


def participants_for(power: Callable[[int], float], wanted: float = WANTED) -> float:
    """The least number of participants with this power; infinity if it takes more than `MOST`."""
    if power(MOST) < wanted:
        return math.inf
    low, high = 1, MOST  # power(low) < wanted <= power(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return float(high)
