"""Records to analyse, made as code: participants differ in level and in effect, and probabilities are known."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri


def record(
    seed: int = 1, *, people: int = 30, steps: int = 20, effect: float = 0.4, differ: float = 0.3, **changes: Any
) -> pd.DataFrame:
    """A binary treatment with p from 0.2 to 0.8 by stress, half the rows eligible by chance more or less."""
    rng = np.random.default_rng(seed)
    size = people * steps
    who = np.repeat(np.arange(people), steps)
    stress = rng.integers(3, size=size).astype(float)
    eligible = (rng.random(size) < 0.8).astype(int)
    p = np.array([0.2, 0.5, 0.8])[stress.astype(int)]
    a = (rng.random(size) < p).astype(int) * eligible
    own = rng.normal(effect, differ, people)[who]
    y = rng.normal(0.0, 0.5, people)[who] - stress**2 + a * own + rng.normal(0.0, 1.0, size)
    frame = pd.DataFrame(
        {"id": [f"P{i:02d}" for i in who], "t": np.tile(np.arange(1, steps + 1), people), "stress": stress,
         "eligible": eligible, "p": p, "a": a, "y": y}
    )  # fmt: skip
    return frame.assign(**changes)


def with_actions(
    seed: int = 1, *, people: int = 30, steps: int = 20, gains: tuple[float, ...] = (0.0, 0.5, -0.5)
) -> pd.DataFrame:
    """Three actions, drawn with probabilities that depend on stress."""
    rng = np.random.default_rng(seed)
    size = people * steps
    who = np.repeat(np.arange(people), steps)
    stress = rng.integers(3, size=size)
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])[stress]
    taken = (rng.random(size)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    y = np.asarray(gains)[taken] + rng.normal(0.0, 0.5, people)[who] - stress + rng.normal(0.0, 1.0, size)
    columns = {f"action_probability_{name}": p[:, j] for j, name in enumerate(("rest", "walk", "call"))}
    return pd.DataFrame(
        {"id": who, "stress": stress, "action": np.array(["rest", "walk", "call"])[taken], "y": y, **columns}
    )


def with_risks(seed: int = 1, *, people: int = 60, steps: int = 20, effect: float = 0.3) -> pd.DataFrame:
    """An outcome of 0 or 1 whose logarithm of risk is linear."""
    frame = record(seed, people=people, steps=steps)
    rng = np.random.default_rng(seed + 1000)
    risk = np.exp(-1.6 + 0.2 * frame["stress"] + effect * frame["a"])
    return frame.assign(y=(rng.random(len(frame)) < risk).astype(int))


def pooled(
    seed: int = 1, *, people: int = 100, steps: int = 8, effect: float = 0.0, differ: float = 0.5
) -> tuple[pd.DataFrame, np.ndarray[Any, np.dtype[np.float64]]]:
    """A trial in which one model learns from all participants after each step; the frame and the parameters."""
    rng = np.random.default_rng(seed)
    level, own = rng.normal(0.0, 0.5, people), rng.normal(effect, differ, people)
    last, betas = rng.normal(0.0, 1.0, people), []
    rows: list[pd.DataFrame] = []
    for t in range(steps):
        p = np.full(people, 0.5)
        if rows:
            done = pd.concat(rows)
            x = pooled_columns(done)
            betas.append(np.linalg.solve(x.T @ x + np.eye(4), x.T @ done["y"].to_numpy()))
            p = pooled_chance(pd.DataFrame({"last": last}), betas[-1])
        a = (rng.random(people) < p).astype(int)
        y = level + 0.3 * last + a * own + rng.normal(0.0, 1.0, people)
        rows.append(pd.DataFrame({"id": np.arange(people), "update": t, "last": last, "p": p, "a": a, "y": y}))
        last = y
    return pd.concat(rows, ignore_index=True), np.array(betas)


def pooled_columns(rows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the pooled model's least squares is of."""
    state = np.column_stack([np.ones(len(rows)), rows["last"]])
    return np.column_stack([state, rows["a"].to_numpy()[:, None] * state])


def pooled_score(rows: pd.DataFrame, beta: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Each row's part of an update's equations: ridge regression, its penalty of 1 shared among the rows."""
    x = pooled_columns(rows)
    return np.asarray(x * (rows["y"].to_numpy() - x @ beta)[:, None] - beta / len(rows))


def pooled_chance(rows: pd.DataFrame, beta: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The rule: the larger the learned advantage, the more probable the treatment."""
    state = np.column_stack([np.ones(len(rows)), rows["last"]])
    return np.asarray(0.1 + 0.8 * expit(2.0 * state @ beta[2:]))


class R:
    """R's random numbers (Mersenne Twister, inversion), so that frames of published tests can be made again."""

    def __init__(self, seed: int) -> None:
        numbers = []
        for i in range(50 + 625):
            seed = (69069 * seed + 1) % 2**32
            if i > 50:
                numbers.append(seed)
        self.bits = np.random.MT19937()
        self.bits.state = {"bit_generator": "MT19937", "state": {"key": np.array(numbers, dtype=np.uint32), "pos": 624}}

    def unif(self, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """runif(n)."""
        return self.bits.random_raw(n).astype(np.float64) * 2.3283064365386963e-10

    def norm(self, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """rnorm(n): two uniforms make one with enough digits, which goes through the normal quantile function."""
        u = self.unif(2 * n).reshape(n, 2)
        big = 134217728.0
        return np.asarray(ndtri((np.floor(big * u[:, 0]) + u[:, 1]) / big))

    def coin(self, n: int, p: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        """rbinom(n, 1, p) with p of at most 1/2."""
        return (self.unif(n) >= 1.0 - p).astype(np.float64)
