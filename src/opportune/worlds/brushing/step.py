"""The brushing world, one step at a time: state, features and outcome of one user, as compiled functions.

Everything a step needs lies in two flat arrays: `params` (what the user is like) and `state` (what the user
did lately). The compiled functions allocate nothing and raise nothing, so the same code runs in a loop over
runs on the CPU and inside a CUDA kernel. Notation as in the world's definition:

    g = [tod, prior, (day,) prop, weekend, bias],  h = g without prop,  phi(S, a) = [g; a*h]
    p0 = sigmoid(g.w_b - a*max(Delta_B*sum(h), 0)),  lam = exp(g.w_p + a*max(Delta_N*sum(h), 0))
    Q = min(Z*Y, 180),  Z = 0 with probability p0, Y Poisson with rate lam

Only ROBAS 3 has the day among its features.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm import rng
from opportune.engine.compiled import dual_function, inner_dual_function
from opportune.errors import InputError

CAP = 180.0
"""Seconds of brushing beyond which nothing more is counted."""
WINDOW = 14
"""Sessions that `prop` looks back on."""
HORIZON = 140
"""Sessions of the study that the world stands for: two a day for 70 days."""
CERTAIN_RATE = 1000.0
"""A Poisson outcome of this rate or more falls below the cap with probability less than 1e-200."""

# The places of the variables in a moment's values; the action's follows.
NAMES = ("weekend", "tod", "prior", "prop", "day")
WEEKEND, TOD, PRIOR, PROP, DAY = range(5)

# params: what the user is like
HAS_DAY = 0  # 1 where the day is a feature (ROBAS 3), else 0
PRIOR_MEAN = 1  # m
PRIOR_SD = 2  # s
DAY_CENTRE = 3  # the day that scales to 0
DAY_HALF = 4  # days from there to the one that scales to 1
FIRST_WEEKEND = 5  # w0
DELTA_B = 6
DELTA_N = 7
W_B = 8  # up to six weights, in the order of g
W_P = 14  # likewise
PARAMS_SIZE = 20

# state: what the user did lately
FLAGS = 0  # ring of the last 14 sessions: 1 where the outcome was above zero
FLAGS_SUM = 14  # how many of them are 1
TODAY = 15  # this morning's outcome
YESTERDAY = 16  # yesterday's two outcomes
STATE_SIZE = 17

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


def hidden_mask(study: str) -> NDArray[np.bool_]:
    """Which entries of phi = [g; a*h] are sensed: the recommender goes by their means without a reveal."""
    g = feature_names(study)
    h = [name for name in g if name != "prop"]
    return np.array([name in {"prior", "prop"} for name in (*g, *h)], dtype=np.bool_)


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
) -> NDArray[np.float64]:
    """One user's parameters as the flat array that the compiled functions take.

    `w_b` and `w_p` are the weights of g for not brushing and for the rate, `first_weekend` the session w0 at
    which the first weekend begins, `delta_b` and `delta_n` the effects of a message. `days` is how many days
    the feature `day` stretches from -1 to 1, `scale` the (m, s) of `prior` if not the study's own.
    """
    names = feature_names(study)
    mean, sd = SCALES[study] if scale is None else scale
    params = np.zeros(PARAMS_SIZE)
    for label, start, weights in (("w_b", W_B, w_b), ("w_p", W_P, w_p)):
        values = np.asarray(weights, dtype=np.float64)
        if values.shape != (len(names),):
            raise InputError(f"{label} has shape {values.shape}; expected {len(names)} weights: {', '.join(names)}")
        params[start : start + len(names)] = values
    if first_weekend < 0:
        raise InputError(f"first_weekend is {first_weekend}; expected a session counted from 0")
    if days < 2:
        raise InputError(f"days is {days}; expected at least 2")
    if not sd > 0:
        raise InputError(f"scale is ({mean}, {sd}); expected a positive second number")
    params[HAS_DAY] = "day" in names
    params[PRIOR_MEAN], params[PRIOR_SD] = mean, sd
    params[DAY_CENTRE], params[DAY_HALF] = (days + 1) / 2, (days - 1) / 2
    params[FIRST_WEEKEND] = first_weekend
    params[DELTA_B], params[DELTA_N] = delta_b, delta_n
    if not np.isfinite(params).all():
        raise InputError("weights, effects and scale must be finite; found NaN or infinity")
    return params


@dual_function
def weekend(params, t):  # type: ignore[no-untyped-def]
    """1 if session t, counted from 0, is on a weekend, else 0."""
    since = t - int(params[FIRST_WEEKEND])
    return 1 if since >= 0 and since % 14 < 4 else 0


@dual_function
def scaled_day(params, t):  # type: ignore[no-untyped-def]
    """The day of session t, scaled to run from -1 on the first day to 1 on the last."""
    return (t // 2 + 1 - params[DAY_CENTRE]) / params[DAY_HALF]


@dual_function
def features(params, t, prior, prop, x):  # type: ignore[no-untyped-def]
    """Write phi(S, a) for a = 0, 1 into x[2, d], given the two sensed values; return the public cell.

    The cell is tod + 2*weekend. With means in place of `prior` and `prop` these are the blind features.
    """
    tod = t % 2
    at_weekend = weekend(params, t)
    x[0, 0] = tod
    x[0, 1] = prior
    width = 2
    if params[HAS_DAY] > 0.0:
        x[0, 2] = scaled_day(params, t)
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


@dual_function
def reset(params, state):  # type: ignore[no-untyped-def]
    """The state before the first session: nothing brushed, and yesterday counts as 0."""
    for j in range(STATE_SIZE):
        state[j] = 0.0


@dual_function
def sensed(params, state, t):  # type: ignore[no-untyped-def]
    """The two sensed values (prior, prop) at session t, counted from 0."""
    prior = (state[YESTERDAY] - params[PRIOR_MEAN]) / params[PRIOR_SD]
    prop = state[FLAGS_SUM] / WINDOW if t >= WINDOW else 0.0
    return prior, prop


@dual_function
def arrive(params, state, t, x):  # type: ignore[no-untyped-def]
    """Session t arrives, counted from 0: write phi(S, a) into x[2, d], return the cell tod + 2*weekend."""
    prior, prop = sensed(params, state, t)
    return features(params, t, prior, prop, x)


@dual_function
def corner(params, t, i, x):  # type: ignore[no-untyped-def]
    """The features at t with prior (bit 0 of i) and prop (bit 1) at the low or high end of their ranges."""
    total = 2.0 * CAP if i & 1 else 0.0
    prop = 1.0 if i & 2 else 0.0
    return features(params, t, (total - params[PRIOR_MEAN]) / params[PRIOR_SD], prop, x)


@inner_dual_function
def zero_probability_and_rate(params, x, action):  # type: ignore[no-untyped-def]
    """(p0, lam) from the features: the chance of not brushing, and the rate of the seconds brushed."""
    width = 5 + int(params[HAS_DAY])
    log_odds = 0.0
    log_rate = 0.0
    for j in range(width):
        log_odds += x[action, j] * params[W_B + j]
        log_rate += x[action, j] * params[W_P + j]
    h_sum = 0.0  # sum of a*h: 0 without a message
    for j in range(width, 2 * width - 1):
        h_sum += x[action, j]
    log_odds -= max(params[DELTA_B] * h_sum, 0.0)
    log_rate += max(params[DELTA_N] * h_sum, 0.0)
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
def outcome(params, x, action, u_zero, u_poisson):  # type: ignore[no-untyped-def]
    """The capped outcome Q of a session, from two uniforms in [0, 1): brushes when u_zero >= p0."""
    p0, lam = zero_probability_and_rate(params, x, action)
    if u_zero < p0:
        return 0.0
    if lam >= CERTAIN_RATE:
        return CAP
    return float(rng.poisson(u_poisson, lam, int(CAP)))


@dual_function
def advance(params, state, t, q):  # type: ignore[no-untyped-def]
    """Record the capped outcome q of session t."""
    slot = FLAGS + t % WINDOW
    flag = 1.0 if q > 0.0 else 0.0
    state[FLAGS_SUM] += flag - state[slot]
    state[slot] = flag
    if t % 2 == 0:
        state[TODAY] = q
    else:
        state[YESTERDAY] = state[TODAY] + q
