"""JAX: one run as a `scan` over steps, all runs by `vmap`, in double precision, compiled for this machine.

The package does not depend on JAX; if it is missing, this opponent is left out.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.study import BUDGET, LEAST_SCALE, TIE, Floats, Runs, Study

AVAILABLE = find_spec("jax") is not None and find_spec("jaxlib") is not None


def total_values(study: Study, runs: Runs) -> Floats:
    """The total paper value of every run."""
    import jax  # noqa: PLC0415  (not a dependency)

    jax.config.update("jax_enable_x64", True)
    problem = study.worlds[0].problem
    world = runs.world
    answer = batch_of(study.adaptive)(
        study.phi, study.bar[world], study.theta[world], study.ranges[world], runs.rate, runs.tolerance,
        *study.draws(runs), problem.noise_sd, problem.theta_bound, problem.delta,
    )  # fmt: skip
    return np.asarray(answer)


@cache
def batch_of(adaptive: bool) -> Callable[..., Any]:
    """`run_one` over a leading axis of runs, compiled."""
    import jax  # noqa: PLC0415

    def one(*arguments: Any) -> Any:
        return run_one(adaptive, *arguments)

    return jax.jit(jax.vmap(one, in_axes=(None, *[0] * 8, *[None] * 3)))  # type: ignore[no-any-return]


def run_one(
    adaptive: bool, phi: Any, bar: Any, truth: Any, scale: Any, rate: Any, tolerance: Any,
    contexts: Any, noises: Any, coins: Any, noise_sd: Any, theta_bound: Any, delta: Any,
) -> Any:  # fmt: skip
    """The total paper value of one run."""
    import jax  # noqa: PLC0415
    from jax import numpy as jnp  # noqa: PLC0415

    d = bar.shape[1]
    lam = 1.0 / theta_bound**2
    growth = (1.0 + 1.0 / BUDGET) ** BUDGET
    naive = ~jnp.isnan(rate)
    values, blind = phi @ truth, bar @ truth

    def ucb(rows: Any, theta: Any, cov: Any, radius: Any) -> Any:
        width2 = ((rows @ cov) * rows).sum(axis=-1)
        return rows @ theta + radius * jnp.sqrt(jnp.maximum(width2, 0.0))

    def best(scores: Any) -> tuple[Any, Any]:
        top = scores.max()
        return top, jnp.argmax(scores >= top - TIE)

    def radius_of(log_det: Any) -> Any:
        return noise_sd * jnp.sqrt(2.0 * jnp.log(1.0 / delta) + log_det) + jnp.sqrt(lam) * theta_bound

    def step(state: Any, now: Any) -> tuple[Any, None]:
        theta, cov, log_det, price, spent, stale, total = state
        t, k, noise, coin = now
        radius = radius_of(log_det)
        u, informed = best(ucb(phi[k], theta, cov, radius))
        v, fresh = best(ucb(bar, theta, cov, radius))
        divisor = jnp.maximum(ucb(phi, theta, cov, radius).max() - v, LEAST_SCALE) if adaptive else scale
        gap = jnp.where(jnp.abs(u - v) > TIE, (u - v) / divisor, 0.0)
        disagreement = jnp.sqrt(((bar[fresh] - bar[stale]) ** 2).sum())
        beta = tolerance / jnp.sqrt(t)
        boosted = (disagreement > 0.0) & (beta < disagreement) & (gap > 0.0) & (gap > price)
        boost = jnp.where(boosted, 1.0 - beta / jnp.where(boosted, disagreement, 1.0), 0.0)
        spend = (price < 1.0) & (gap - price + boost > 0.0)
        o = jnp.where(spend, jnp.clip(jnp.minimum(gap + boost, BUDGET - spent), 0.0, 1.0), 0.0)
        o = jnp.where(naive, rate, o)
        price = jnp.where(naive, 0.0, price * (1.0 + o / BUDGET) + o / ((growth - 1.0) * BUDGET))
        revealed = coin < o
        action = jnp.where(revealed, informed, stale)
        total += jnp.where(revealed, values[k, action], blind[action])
        x = phi[k, action]
        w = cov @ x
        q = x @ w
        err = values[k, action] + noise_sd * noise - x @ theta
        theta += w * (err / (1.0 + q))
        cov -= jnp.outer(w, w / (1.0 + q))
        stale = jnp.where(revealed, fresh, stale)
        return (theta, cov, log_det + jnp.log1p(q), price, spent + o, stale, total), None

    theta, cov = jnp.zeros(d), jnp.eye(d) / lam
    stale = best(ucb(bar, theta, cov, radius_of(0.0)))[1]
    steps = jnp.arange(1.0, contexts.shape[0] + 1.0)
    final, _ = jax.lax.scan(step, (theta, cov, 0.0, 0.0, 0.0, stale, 0.0), (steps, contexts, noises, coins))
    return final[-1]
