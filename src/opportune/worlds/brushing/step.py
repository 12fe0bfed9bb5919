"""The brushing world, one step at a time: state, features and outcome of one user, as compiled functions.

The step functions take the `user` (`Settings`, the user's properties) and the `state` (`State`, the user's recent
behaviour): those of compiled code or, from Python, named tuples of arrays. They allocate nothing and raise nothing, so
the same code runs in a loop over runs on the CPU and in a CUDA kernel. Notation as in the world's definition:

    g = [tod, prior, (day,) prop, weekend, bias],  h = g without prop,  phi(S, a) = [g; a*h]
    p0 = sigmoid(g.w_b - a*max(Delta_B*sum(h), 0)),  lam = exp(g.w_p + a*max(Delta_N*sum(h), 0))
    Q = min(Z*Y, 180),  Z = 0 with probability p0, Y Poisson with rate lam

Only ROBAS 3 has the day among its features.
"""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm import rng
from opportune.engine.compiled import dual_function, inner_dual_function
from opportune.engine.declared import Numbers
from opportune.errors import InputError

CAP = 180.0
"""Seconds of brushing at which the outcome is capped."""
WINDOW = 14
"""Sessions that `prop` looks back on."""
MOST_WEIGHTS = 6
"""Entries of g, with the day among them."""
HORIZON = 140
"""Sessions of the study that the world represents: two a day for 70 days."""
CERTAIN_RATE = 1000.0
"""A Poisson outcome with at least this rate falls below the cap with probability less than 1e-200."""

# The variables in the order of a moment's values, which are followed by the action.
NAMES = ("weekend", "tod", "prior", "prop", "day")
WEEKEND, TOD, PRIOR, PROP, DAY = range(5)


class Settings(NamedTuple):
    """The user's properties as numbers; `pack_params` checks and packs them."""

    has_day: Annotated[Numbers, 1]  # 1 if the day is a feature (ROBAS 3), else 0
    prior_mean: Annotated[Numbers, 1]  # m
    prior_sd: Annotated[Numbers, 1]  # s
    day_centre: Annotated[Numbers, 1]  # the day that scales to 0
    day_half: Annotated[Numbers, 1]  # days from there to the one that scales to 1
    first_weekend: Annotated[Numbers, 1]  # w0
    delta_b: Annotated[Numbers, 1]
    delta_n: Annotated[Numbers, 1]
    w_b: Annotated[Numbers, MOST_WEIGHTS]  # in the order of g
    w_p: Annotated[Numbers, MOST_WEIGHTS]
    message_cost: Annotated[Numbers, 1]  # seconds of brushing that a message must earn


class State(NamedTuple):
    """The user's recent behaviour; all 0 before the first session, so that yesterday counts as 0."""

    flags: Annotated[Numbers, WINDOW]  # a ring over the last sessions: 1 if the outcome was above zero
    brushed: Annotated[Numbers, 1]  # the number of ones in it
    today: Annotated[Numbers, 1]  # this morning's outcome
    yesterday: Annotated[Numbers, 1]  # yesterday's two outcomes


SCALES = {"robas2": (172.0, 118.0), "robas3": (154.0, 163.0)}
"""(m, s) of `prior`, in seconds, for each study."""

_FEATURES = {
    "robas2": ("tod", "prior", "prop", "weekend", "bias"),
    "robas3": ("tod", "prior", "day", "prop", "weekend", "bias"),
}


def feature_names(study: str) -> tuple[str, ...]:
    """The names of g's entries, in order."""
    if study not in _FEATURES:
        raise InputError(f"study is {study!r}; expected one of {', '.join(_FEATURES)}")
    return _FEATURES[study]


def pack_params(
    study: str,
    *,
    w_b: Sequence[float] | NDArray[np.float64],
    w_p: Sequence[float] | NDArray[np.float64],
    first_weekend: int,
    delta_b: float = 0.0,
    delta_n: float = 0.0,
    days: int = HORIZON // 2,
    scale: tuple[float, float] | None = None,
    message_cost: float = 0.0,
) -> Settings:
    """One user's parameters by name, packed for the step functions.

    `w_b` and `w_p` are the weights of g for not brushing and for the rate, `first_weekend` the session w0 at
    which the first weekend begins, `delta_b` and `delta_n` the effects of a message. `days` is the number of days
    over which the feature `day` goes from -1 to 1, `scale` the (m, s) of `prior` if not the study's own.
    `message_cost` is the number of seconds of brushing that a message must earn.
    """
    names = feature_names(study)
    mean, sd = SCALES[study] if scale is None else scale
    packed = {}
    for label, weights in (("w_b", w_b), ("w_p", w_p)):
        values = np.asarray(weights, dtype=np.float64)
        if values.shape != (len(names),):
            raise InputError(f"{label} has shape {values.shape}; expected {len(names)} weights: {', '.join(names)}")
        packed[label] = np.concatenate([values, np.zeros(MOST_WEIGHTS - values.size)])
    if first_weekend < 0:
        raise InputError(f"first_weekend is {first_weekend}; expected a session counted from 0")
    if days < 2:
        raise InputError(f"days is {days}; expected at least 2")
    if not sd > 0:
        raise InputError(f"scale is ({mean}, {sd}); expected a positive second number")
    numbers = {
        "has_day": "day" in names, "prior_mean": mean, "prior_sd": sd, "day_centre": (days + 1) / 2,
        "day_half": (days - 1) / 2, "first_weekend": first_weekend, "delta_b": delta_b, "delta_n": delta_n,
        "message_cost": checks.real("message_cost", message_cost, least=0.0),
    }  # fmt: skip
    user = Settings(**packed, **{name: np.array([number], dtype=np.float64) for name, number in numbers.items()})
    if not all(np.isfinite(part).all() for part in user):
        raise InputError("weights, effects and scale must be finite; found NaN or infinity")
    return user


def new_state() -> State:
    """The state before the first session."""
    return State(flags=np.zeros(WINDOW), brushed=np.zeros(1), today=np.zeros(1), yesterday=np.zeros(1))


def new_features(user: Settings) -> NDArray[np.float64]:
    """Space for phi(S, a) of both actions."""
    return np.zeros((2, 9 + 2 * int(user.has_day[0])))


@inner_dual_function
def weekend(user, t):  # type: ignore[no-untyped-def]
    """1 if session t, counted from 0, is on a weekend, else 0."""
    since = t - int(user.first_weekend[0])
    return 1 if since >= 0 and since % 14 < 4 else 0


@inner_dual_function
def scaled_day(user, t):  # type: ignore[no-untyped-def]
    """The day of session t, scaled to run from -1 on the first day to 1 on the last."""
    return (t // 2 + 1 - user.day_centre[0]) / user.day_half[0]


@inner_dual_function
def features(user, t, prior, prop, x):  # type: ignore[no-untyped-def]
    """Write phi(S, a) for a = 0, 1 into x[2, d], given the two sensed values; return the public cell.

    The cell is tod + 2*weekend. Means in place of `prior` and `prop` give the blind features.
    """
    tod = t % 2
    at_weekend = weekend(user, t)
    x[0, 0] = tod
    x[0, 1] = prior
    width = 2
    if user.has_day[0] > 0.0:
        x[0, 2] = scaled_day(user, t)
        width = 3
    x[0, width] = prop
    x[0, width + 1] = at_weekend
    x[0, width + 2] = 1.0
    at_prop = width
    width += 3
    into = width
    for j in range(width):
        x[1, j] = x[0, j]
        if j != at_prop:
            x[0, into] = 0.0
            x[1, into] = x[0, j]
            into += 1
    return tod + 2 * at_weekend


@inner_dual_function
def sensed(user, state, t):  # type: ignore[no-untyped-def]
    """The two sensed values (prior, prop) at session t, counted from 0."""
    prior = (state.yesterday[0] - user.prior_mean[0]) / user.prior_sd[0]
    prop = state.brushed[0] / WINDOW if t >= WINDOW else 0.0
    return prior, prop


@inner_dual_function
def arrive(user, state, t, x):  # type: ignore[no-untyped-def]
    """Session t arrives, counted from 0: write phi(S, a) into x[2, d], return the cell tod + 2*weekend."""
    prior, prop = sensed(user, state, t)
    return features(user, t, prior, prop, x)


@inner_dual_function
def zero_probability_and_rate(user, x, action):  # type: ignore[no-untyped-def]
    """(p0, lam) from the features: the probability of not brushing, and the rate of the seconds brushed."""
    width = 5 + int(user.has_day[0])
    log_odds = 0.0
    log_rate = 0.0
    for j in range(width):
        log_odds += x[action, j] * user.w_b[j]
        log_rate += x[action, j] * user.w_p[j]
    h_sum = 0.0  # sum of a*h: 0 without a message
    for j in range(width, 2 * width - 1):
        h_sum += x[action, j]
    log_odds -= max(user.delta_b[0] * h_sum, 0.0)
    log_rate += max(user.delta_n[0] * h_sum, 0.0)
    if log_odds >= 0.0:
        p0 = 1.0 / (1.0 + math.exp(-log_odds))
    else:
        odds = math.exp(log_odds)
        p0 = odds / (1.0 + odds)
    return p0, math.exp(min(log_rate, 700.0))


@dual_function
def expected_outcome(p0, lam):  # type: ignore[no-untyped-def]
    """E[min(Z*Y, 180)] = (1 - p0) * (180 - sum over y < 180 of (180 - y) P(Y = y))."""
    if lam >= CERTAIN_RATE:
        return (1.0 - p0) * CAP
    mass = math.exp(-lam)
    short = CAP * mass
    for y in range(1, int(CAP)):
        mass *= lam / y
        short += (CAP - y) * mass
    return (1.0 - p0) * (CAP - short)


@inner_dual_function
def outcome(user, x, action, u_zero, u_poisson):  # type: ignore[no-untyped-def]
    """The capped outcome Q of a session, from two uniforms in [0, 1): the user brushes if u_zero >= p0."""
    p0, lam = zero_probability_and_rate(user, x, action)
    if u_zero < p0:
        return 0.0
    if lam >= CERTAIN_RATE:
        return CAP
    return float(rng.poisson(u_poisson, lam, int(CAP)))


@inner_dual_function
def advance(state, t, q):  # type: ignore[no-untyped-def]
    """Record the capped outcome q of session t."""
    slot = t % WINDOW
    flag = 1.0 if q > 0.0 else 0.0
    state.brushed[0] += flag - state.flags[slot]
    state.flags[slot] = flag
    if t % 2 == 0:
        state.today[0] = q
    else:
        state.yesterday[0] = state.today[0] + q
