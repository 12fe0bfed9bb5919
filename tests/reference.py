"""A slow second reading of SPEC.md, sections 1 to 5 and 8 (`plugin`), to check the compiled one against.

Nothing here is clever. Every quantity is worked out anew, at each decision, from the list of everything an
agent has been told: no running inverse, no running determinant, no running mean. It must stay independent
of `opportune`, so it imports nothing from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIE = 1e-12
SMALLEST_DIVISOR = 1e-12
RULES = ("fixed_rate", "primal_dual", "learning_primal_dual", "never", "always", "periodic")
RULES_WITHOUT_LIMIT = ("never", "always", "periodic")


@dataclass
class Knowledge:
    """What one agent has been told: rewards with their features, and the contexts it may count."""

    features: list[Floats] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    contexts: list[int] = field(default_factory=list)

    def copy(self) -> Knowledge:
        """The same knowledge, which later additions to this one leave alone."""
        return Knowledge(list(self.features), list(self.rewards), list(self.contexts))


@dataclass
class Step:
    """A decision whose reward has arrived or was lost (None)."""

    context: int
    action: int
    reward: float | None


@dataclass
class Estimate:
    """Ridge regression with its confidence radius (SPEC section 2)."""

    V: Floats
    theta_bar: Floats
    radius: float

    def ucb(self, x: Floats) -> float:
        """Upper confidence bound: <x, theta_bar> + radius * sqrt(x' V^-1 x)."""
        width = math.sqrt(float(x @ np.linalg.solve(self.V, x)))
        return float(x @ self.theta_bar) + self.radius * width

    def ucbs(self, vectors: Floats) -> list[float]:
        """Upper confidence bounds of the rows of `vectors`, one for each action."""
        return [self.ucb(x) for x in vectors]


def best(values: list[float]) -> int:
    """The lowest index among the values that tie with the maximum."""
    highest = max(values)
    return next(index for index, value in enumerate(values) if value >= highest - TIE)


class Reference:
    """One patient: the revealer, the recommender, and the rule that decides on nudges.

    `features` is phi[K, A, d]; `context_probs` is p[K], or None to go by counts; `public` and `sensed` label
    each context with z(k) and q(k); `scale` is "adaptive" or the number to divide gaps by.
    Call `decide`, then either `learn` or `skip`, once a step.
    """

    def __init__(
        self,
        *,
        features: ArrayLike,
        context_probs: ArrayLike | None,
        public: ArrayLike,
        sensed: ArrayLike,
        noise_sd: float,
        theta_bound: float,
        regularisation: float,
        delta: float,
        horizon: int,
        rule: str,
        every: int,
        budget: float,
        hard: bool,
        scale: str | float,
    ) -> None:
        self.phi: Floats = np.array(features, dtype=np.float64)
        self.p: Floats | None = None if context_probs is None else np.array(context_probs, dtype=np.float64)
        self.z: Ints = np.array(public, dtype=np.int64)
        self.q: Ints = np.array(sensed, dtype=np.int64)
        self.R = float(noise_sd)
        self.W = float(theta_bound)
        self.lam = float(regularisation)
        self.delta = float(delta)
        self.T = int(horizon)
        self.rule = rule
        self.every = int(every)
        self.B = float(budget)
        self.hard = bool(hard)
        self.scale = scale
        self._check()

        self.K, self.A, self.d = self.phi.shape
        self.has_reported = len(set(self.q.tolist())) < self.K

        self.t = 0
        self.price = 0.0
        self.spent = 0.0
        self.nudges = 0
        self.revealer = Knowledge()
        self.recommender = Knowledge()
        self.pending: list[Step] = []
        self.awaiting: SimpleNamespace | None = None

    def _check(self) -> None:
        """Refuse what the equations cannot mean, so that a wrong test does not pass by accident."""
        if self.rule not in RULES:
            raise ValueError(f"rule is {self.rule!r}; expected one of {RULES}")
        if math.isinf(self.B) and self.rule not in RULES_WITHOUT_LIMIT:
            raise ValueError(f"budget is infinite; rule {self.rule!r} needs a finite one")
        if not self.B > 0:
            raise ValueError(f"budget is {self.B}; expected a positive number")
        if isinstance(self.scale, str) and self.scale != "adaptive":
            raise ValueError(f"scale is {self.scale!r}; expected 'adaptive' or a number")
        if not isinstance(self.scale, str) and not self.scale > 0:
            raise ValueError(f"scale is {self.scale}; expected a positive number")
        if self.phi.ndim != 3:
            raise ValueError(f"features has {self.phi.ndim} axes; expected contexts, actions and coordinates")
        number = self.phi.shape[0]
        if self.z.shape != (number,) or self.q.shape != (number,):
            raise ValueError("public and sensed must give one label to each context")
        if self.p is not None and self.p.shape != (number,):
            raise ValueError("context_probs must give one probability to each context")
        for label in set(self.q.tolist()):
            if len(set(self.z[self.q == label].tolist())) > 1:
                raise ValueError(f"sensed part {label} spans several public parts")

    # Section 2: learning the reward.

    def _estimate(self, known: Knowledge) -> Estimate:
        """V, theta_bar and the radius from every observation in `known`."""
        V = self.lam * np.eye(self.d)
        total = np.zeros(self.d)
        for x, reward in zip(known.features, known.rewards, strict=True):
            V = V + np.outer(x, x)
            total = total + x * reward
        theta_bar = np.asarray(np.linalg.solve(V, total), dtype=np.float64)
        log_det = float(np.linalg.slogdet(V)[1])
        inside = 2.0 * math.log(1.0 / self.delta) + log_det - self.d * math.log(self.lam)
        radius = self.R * math.sqrt(max(inside, 0.0)) + math.sqrt(self.lam) * self.W
        return Estimate(V, theta_bar, radius)

    # Sections 1 and 8: features of a part of the context.

    def _mean_features(self, known: Knowledge, labels: Ints, label: int) -> Floats:
        """E[phi(S, a) | label of S], one row an action, with p itself or the frequencies in `known`."""
        members = [k for k in range(self.K) if labels[k] == label]
        if self.p is not None:
            weights = [float(self.p[k]) for k in members]
        else:
            weights = [float(known.contexts.count(k)) for k in members]
        if sum(weights) <= 0.0:
            weights = [1.0 for _ in members]
        mean = np.zeros((self.A, self.d))
        for k, weight in zip(members, weights, strict=True):
            mean = mean + (weight / sum(weights)) * self.phi[k]
        return mean

    def _blind(self, known: Knowledge, context: int) -> Floats:
        """bar(z, a) for the public part of `context`."""
        return self._mean_features(known, self.z, int(self.z[context]))

    def _sensed(self, known: Knowledge, label: int) -> Floats:
        """sen(q, a) for the sensed part `label`."""
        return self._mean_features(known, self.q, label)

    # Section 5: scale of the gap.

    def _divisor(self, estimate: Estimate, v: float) -> float:
        """What u - v is divided by."""
        if not isinstance(self.scale, str):
            return float(self.scale)
        every_u = [max(estimate.ucbs(self._sensed(self.revealer, q))) for q in sorted(set(self.q.tolist()))]
        return max(max(every_u) - v, SMALLEST_DIVISOR)

    # Section 4: the rules.

    def _left(self) -> float:
        """Expected budget still unspent."""
        return max(self.B - self.spent, 0.0)

    def _raise_price(self, o: float) -> None:
        """The price after a step: y <- y(1 + o/B) + o/((c - 1)B)."""
        c = (1.0 + 1.0 / self.B) ** self.B
        self.price = self.price * (1.0 + o / self.B) + o / ((c - 1.0) * self.B)

    def _primal_dual(self, gap: float) -> float:
        """Algorithm C.1."""
        if self.price < 1.0 and gap - self.price > 0.0:
            o = min(gap, self._left(), 1.0)
            self._raise_price(o)
            return o
        return 0.0

    def _initial_tolerance(self) -> float:
        """beta_0 / sqrt(t), infinite for B <= 1."""
        if self.B <= 1.0:
            return math.inf
        distances = [
            float(np.linalg.norm(self.phi[k, a] - self.phi[k, b]))
            for k in range(self.K)
            for a in range(self.A)
            for b in range(self.A)
            if a != b
        ]
        least = min(distances, default=math.inf)
        beta_0 = 1.2 * least * math.log(10.0) * math.sqrt(10.0) / math.log(self.B)
        return beta_0 / math.sqrt(self.t)

    def _learning_primal_dual(self, gap: float, n: float) -> tuple[float, float]:
        """Algorithm 1: the probability and the tolerance the step ends with."""
        beta = self._initial_tolerance()
        if n > 0.0 and beta < n and gap > 0.0 and gap - self.price > 0.0:
            boost = 1.0 - beta / n
        else:
            boost = 0.0
            beta = n
        if self.price < 1.0 and gap - self.price + boost > 0.0:
            beta = max(beta, n * (1.0 - self._left()))
            o = min(gap + boost, self._left(), 1.0)
            self._raise_price(o)
            return o, beta
        return 0.0, n

    def _consult(self, gap: float, n: float) -> tuple[float, float]:
        """The rule's probability, clipped to the budget left, and its tolerance."""
        tolerance = 0.0
        if self.rule == "primal_dual":
            o = self._primal_dual(gap)
        elif self.rule == "learning_primal_dual":
            o, tolerance = self._learning_primal_dual(gap, n)
        elif self.rule == "fixed_rate":
            o = min(self.B / self.T, 1.0)
        elif self.rule == "always":
            o = 1.0
        elif self.rule == "periodic":
            o = 1.0 if self.t % self.every == 0 else 0.0
        else:
            o = 0.0
        return min(o, self._left()), tolerance

    def _budget_left(self) -> float:
        left = self.B - self.spent
        return min(left, self.B - self.nudges) if self.hard else left

    # Section 3: one decision.

    def decide(self, context: int, coin: float, opened: bool = False, answered: bool = True) -> SimpleNamespace:
        """The decision on `context`, given the coin and what the patient would do."""
        if self.awaiting is not None:
            raise RuntimeError("the last decision still waits for learn or skip")
        self.t += 1

        told = self._estimate(self.revealer)
        bar = self._blind(self.revealer, context)
        u = max(told.ucbs(self._sensed(self.revealer, int(self.q[context]))))
        v = max(told.ucbs(bar))
        fresh = best(told.ucbs(bar))
        stale = best(self._estimate(self.recommender).ucbs(self._blind(self.recommender, context)))
        gap = (u - v) / self._divisor(told, v) if abs(u - v) > TIE else 0.0
        n = 0.0 if fresh == stale else float(np.linalg.norm(bar[fresh] - bar[stale]))

        price = self.price
        o, tolerance = 0.0, 0.0
        used_up = self.hard and self.nudges >= self.B
        if not opened and not used_up:
            o, tolerance = self._consult(gap, n)
        elif used_up and not opened and self.rule == "learning_primal_dual":
            tolerance = n
        self.spent += o
        nudged = not opened and coin < o
        if nudged:
            self.nudges += 1
        revealed = opened or (nudged and answered)

        action = self._reveal(context) if revealed else stale
        self.awaiting = SimpleNamespace(context=context, action=action, revealed=revealed)
        return SimpleNamespace(
            probability=o,
            revealed=revealed,
            action=action,
            fresh_action=fresh,
            stale_action=stale,
            gap=gap,
            price=price,
            budget_left=self._budget_left(),
            disagreement=n,
            tolerance=tolerance,
        )

    def _reveal(self, context: int) -> int:
        """Uncover the pending steps, bring the recommender up to date, and act on the full context."""
        for step in self.pending:
            self._absorb(step)
        self.pending = []
        self.recommender = self.revealer.copy()
        return best(self._estimate(self.recommender).ucbs(self.phi[context]))

    def _absorb(self, step: Step) -> None:
        """Let the revealer count a step, and learn from its reward if there was one."""
        self.revealer.contexts.append(step.context)
        if step.reward is not None:
            self.revealer.features.append(self.phi[step.context, step.action])
            self.revealer.rewards.append(step.reward)

    def _finish(self, reward: float | None) -> None:
        if self.awaiting is None:
            raise RuntimeError("no decision waits for a reward")
        step = Step(self.awaiting.context, self.awaiting.action, reward)
        if self.has_reported and not self.awaiting.revealed:
            self.pending.append(step)
        else:
            self._absorb(step)
        self.awaiting = None

    def learn(self, reward: float) -> None:
        """The reward of the last decision arrived."""
        self._finish(float(reward))

    def skip(self) -> None:
        """The reward of the last decision will never come: its context still counts."""
        self._finish(None)


def random_problem(
    rng: np.random.Generator,
    *,
    K: int | None = None,
    A: int | None = None,
    d: int | None = None,
    reported: bool = False,
    public: bool = False,
) -> dict[str, Any]:
    """A small random problem, as the keyword arguments of `Reference` that describe it.

    With `public` the recommender always sees something but not everything; with `reported` some contexts
    look alike to the revealer, and it still sees more than is public.
    """
    least = 2 + int(reported) + int(public)
    K = int(rng.integers(least, 7)) if K is None else K
    A = int(rng.integers(2, 5)) if A is None else A
    d = int(rng.integers(2, 6)) if d is None else d
    if least > K:
        raise ValueError(f"K is {K}; expected at least {least} with reported={reported}, public={public}")

    while True:
        z = rng.integers(0, 2 + K // 3, size=K) if public else np.zeros(K, dtype=np.int64)
        sub = rng.integers(0, 2, size=K) if reported else np.arange(K)
        pairs = list(zip(z.tolist(), sub.tolist(), strict=True))
        cells = sorted(set(pairs))
        parts = sorted(set(z.tolist()))
        shown_enough = (1 < len(parts) < K) if public else True
        hidden_enough = (len(parts) < len(cells) < K) if reported else True
        if shown_enough and hidden_enough:
            break

    weights = rng.random(K) + 1e-3
    return {
        "features": rng.normal(size=(K, A, d)),
        "context_probs": weights / weights.sum(),
        "public": np.array([parts.index(part) for part in z.tolist()], dtype=np.int64),
        "sensed": np.array([cells.index(pair) for pair in pairs], dtype=np.int64),
    }
