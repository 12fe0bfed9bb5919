"""A slow second reading of the paper (docs/paper.md; unknown p by `plugin`) and of docs/live.md.

Nothing here is clever. Every quantity is worked out anew, at each decision, from the list of everything an agent has
been told: no running inverse, no running determinant, no running mean; a reward that is corrected is corrected in the
list. It must stay independent of `opportune`, so it imports nothing from there.

    participant.propose(sensed, coin=0.3)           what the revealer sees, and whether it nudges
    participant.settle(revealed=True, context=k)    what became of it, and the action
    participant.learn(reward, step=3)               whenever it comes; `correct` changes it

What a context is depends on the contexts: `Finite` (numbers) or `Continuous` ({variable: value}).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TIE = 1e-12
SMALLEST_DIVISOR = 1e-12
RULES = ("fixed_rate", "primal_dual", "learning_primal_dual", "never", "always", "periodic")
RULES_WITHOUT_LIMIT = ("never", "always", "periodic")


def best(values: Sequence[float]) -> int:
    """The lowest index among the values that tie with the maximum."""
    highest = max(values)
    return next(index for index, value in enumerate(values) if value >= highest - TIE)


# Section 1: who sees which part of a context.


class Contexts(Protocol):
    """Contexts of some kind. `seen` lists those that an agent may count; vectors come one row per action."""

    has_reported: bool

    def blind(self, seen: list[Any], sensed: Any) -> Floats:
        """bar(z, a): what the recommender goes by without a reveal."""

    def sensed(self, seen: list[Any], sensed: Any) -> Floats:
        """sen(q, a): what the revealer judges the moment by."""

    def all_sensed(self, seen: list[Any], sensed: Any) -> list[Floats]:
        """The same for everything that could be sensed."""

    def full(self, context: Any) -> Floats:
        """phi[k, a]."""

    def least_distance(self) -> float:
        """Dmin."""


class Finite:
    """Contexts 0..K-1 with features phi[K, A, d].

    `p` are their probabilities, or None to go by counts; `public` and `sensed_part` label each context with z(k) and
    q(k). What is sensed of a moment is q.
    """

    def __init__(self, phi: Any, p: Any, public: Any, sensed_part: Any) -> None:
        self.phi: Floats = np.array(phi, dtype=np.float64)
        self.p: list[float] | None = None if p is None else [float(x) for x in p]
        self.z = [int(x) for x in public]
        self.q = [int(x) for x in sensed_part]
        self.has_reported = len(set(self.q)) < len(self.q)

    def _mean(self, seen: list[Any], members: list[int]) -> Floats:
        """E[phi(S, a) | S is one of these], by p or by the frequencies seen; uniform before any."""
        weights = [float(seen.count(k)) if self.p is None else self.p[k] for k in members]
        if sum(weights) <= 0.0:
            weights = [1.0 for _ in members]
        return np.asarray(sum(w / sum(weights) * self.phi[k] for k, w in zip(members, weights, strict=True)))

    def blind(self, seen: list[Any], sensed: Any) -> Floats:
        """bar(z, a)."""
        z = self.z[self.q.index(sensed)]
        return self._mean(seen, [k for k in range(len(self.z)) if self.z[k] == z])

    def sensed(self, seen: list[Any], sensed: Any) -> Floats:
        """sen(q, a)."""
        return self._mean(seen, [k for k in range(len(self.q)) if self.q[k] == sensed])

    def all_sensed(self, seen: list[Any], sensed: Any) -> list[Floats]:
        """sen(q, a) of every q."""
        return [self.sensed(seen, q) for q in sorted(set(self.q))]

    def full(self, context: Any) -> Floats:
        """phi(s, a)."""
        return np.asarray(self.phi[context])

    def least_distance(self) -> float:
        """Dmin."""
        return least_distance(list(self.phi))


class Continuous:
    """Contexts {variable: value}, features computed by a plain function phi(context) -> [A, d].

    Coordinates named in `hidden` depend on something that is not public: blindly they are at their means over the
    contexts seen in the moment's stratum, the public ones as they are now. Those in `unsensed` depend on something
    reported: the revealer too goes by their means. Before anything was seen in a stratum, means are `start(stratum)`.
    What is sensed of a moment is a context with stand-ins for what is reported.
    """

    def __init__(
        self,
        phi: Callable[[Mapping[str, Any]], Any],
        *,
        stratum: Callable[[Mapping[str, Any]], Any],
        hidden: Sequence[int],
        unsensed: Sequence[int],
        start: Callable[[Any], Any],
        corners: Sequence[Mapping[str, Any]],
        least: float,
        known: bool = False,
    ) -> None:
        self.phi, self.stratum, self.start, self.corners = phi, stratum, start, corners
        self.hidden, self.unsensed, self.least, self.known = list(hidden), list(unsensed), least, known
        self.has_reported = bool(self.unsensed)

    def _averaged(self, seen: list[Any], context: Mapping[str, Any], coordinates: list[int]) -> Floats:
        """The features of a context with some coordinates at their means in its stratum."""
        z = self.stratum(context)
        alike = [] if self.known else [self.full(other) for other in seen if self.stratum(other) == z]
        means = np.mean(alike, axis=0) if alike else np.array(self.start(z), dtype=np.float64)
        x = self.full(context).copy()
        x[:, coordinates] = means[:, coordinates]
        return x

    def blind(self, seen: list[Any], sensed: Any) -> Floats:
        """bar(z, a)."""
        return self._averaged(seen, sensed, self.hidden)

    def sensed(self, seen: list[Any], sensed: Any) -> Floats:
        """sen(q, a)."""
        return self._averaged(seen, sensed, self.unsensed)

    def all_sensed(self, seen: list[Any], sensed: Any) -> list[Floats]:
        """sen(q, a) of every q."""
        return [self.sensed(seen, {**sensed, **corner}) for corner in self.corners]

    def full(self, context: Any) -> Floats:
        """phi(s, a)."""
        return np.array(self.phi(context), dtype=np.float64)

    def least_distance(self) -> float:
        """Dmin."""
        return self.least


def least_distance(blocks: Sequence[Floats]) -> float:
    """The least distance between two actions' features in the same context."""
    pairs = [(x[a], x[b]) for x in blocks for a in range(len(x)) for b in range(a)]
    return min((float(np.linalg.norm(one - other)) for one, other in pairs), default=math.inf)


# Section 2: learning the reward.


@dataclass
class Estimate:
    """Ridge regression with its confidence radius."""

    V: Floats
    theta: Floats
    radius: float

    def ucbs(self, vectors: Floats) -> list[float]:
        """<x, theta> + radius sqrt(x' V^-1 x) for each row x."""
        width2 = [max(float(x @ np.linalg.solve(self.V, x)), 0.0) for x in vectors]
        return [float(x @ self.theta) + self.radius * math.sqrt(w) for x, w in zip(vectors, width2, strict=True)]


@dataclass(frozen=True)
class Prior:
    """What theta is expected to be, and Lambda's diagonal."""

    mean: Floats
    precision: Floats


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What both agents know beforehand, and the policy. `scale` is "adaptive" or the number to divide gaps by."""

    noise_sd: float
    theta_bound: float
    regularisation: float
    delta: float
    rule: str
    budget: float
    hard: bool
    scale: str | float
    decisions: int  # that the budget is for
    every: int = 1
    inflation: float | None = None  # of Thompson sampling; None: LinUCB
    pointwise: bool = False  # the radius; `regularisation` is the one that goes with it
    prior_mean: Floats | None = None
    prior_sd: Floats | None = None  # in place of `regularisation`

    def __post_init__(self) -> None:
        """Refuse what the equations cannot mean, so that a wrong test does not pass by accident."""
        if self.rule not in RULES:
            raise ValueError(f"rule is {self.rule!r}; expected one of {RULES}")
        if math.isinf(self.budget) and self.rule not in RULES_WITHOUT_LIMIT:
            raise ValueError(f"budget is infinite; rule {self.rule!r} needs a finite one")
        if not self.budget > 0:
            raise ValueError(f"budget is {self.budget}; expected a positive number")
        if self.scale != "adaptive" and not (isinstance(self.scale, float) and self.scale > 0.0):
            raise ValueError(f"scale is {self.scale!r}; expected 'adaptive' or a positive number")

    def start(self, d: int) -> Prior:
        """The prior before anything is learned from others; sds are as W / sqrt(d) for every feature would be."""
        mean = np.zeros(d) if self.prior_mean is None else self.prior_mean
        if self.prior_sd is None:
            return Prior(mean, np.full(d, self.regularisation))
        return Prior(mean, (self.noise_sd / self.prior_sd) ** 2 if self.pointwise else 1.0 / (d * self.prior_sd**2))

    def estimate(self, observations: Sequence[tuple[Floats, float]], d: int, common: Prior | None = None) -> Estimate:
        """V, theta and the radius from every observation, and what participants have in `common` if models are so."""
        prior = self.start(d) if common is None else common
        V = np.diag(prior.precision)
        total = prior.precision * prior.mean
        for x, reward in observations:
            V = V + np.outer(x, x)
            total = total + x * reward
        theta = np.asarray(np.linalg.solve(V, total))
        confidence, away = 2.0 * math.log(1.0 / self.delta), math.sqrt(self.regularisation) * self.theta_bound
        if self.prior_sd is not None:
            away = math.sqrt(prior.precision @ self.prior_sd**2)
        if common is None and not self.pointwise:
            confidence += float(np.linalg.slogdet(V)[1]) - float(np.log(prior.precision).sum())
        elif common is not None or observations:
            variance = self.noise_sd**2 * np.diag(np.linalg.inv(V))
            away = math.sqrt(prior.precision @ ((theta - prior.mean) ** 2 + variance))
        return Estimate(V, theta, self.noise_sd * math.sqrt(max(confidence, 0.0)) + away)


@dataclass
class Data:
    """Rewards with their features: one list per participant, or one for all of them (pooled)."""

    observations: list[tuple[Floats, float]] = field(default_factory=list)
    common: Prior | None = None  # what participants have in common, if models are pooled in part


@dataclass
class Purse:
    """What was spent: one per participant, or one for all of them (shared)."""

    price: float = 0.0
    spent: float = 0.0
    nudges: int = 0


@dataclass
class Frozen:
    """What the recommender was told at the last reveal."""

    observations: list[tuple[Floats, float]]
    seen: list[Any]
    common: Prior | None


@dataclass
class Step:
    """A decision point: what was sensed, what is known of its context by now, and what became of it."""

    sensed: Any
    available: bool
    stale: int
    opened: bool
    context: Any = None
    action: int | None = None
    pending: bool = False
    reward: float | None = None
    place: int | None = None  # of its observation in the data, once it is there


class Participant:
    """One patient: the revealer, the recommender, and the rule that decides on nudges.

    Participants who share a model are given the same `data`, those who share a budget the same `purse`.
    """

    def __init__(
        self, contexts: Contexts, settings: Settings, *, d: int, data: Data | None = None, purse: Purse | None = None
    ) -> None:
        self.contexts, self.settings, self.d = contexts, settings, d
        self.data = Data() if data is None else data
        self.purse = Purse() if purse is None else purse
        self.seen: list[Any] = []
        self.steps: list[Step] = []
        self.frozen = self._freeze()

    def _freeze(self) -> Frozen:
        return Frozen(list(self.data.observations), list(self.seen), self.data.common)

    # Section 4: the rules.

    def _left(self) -> float:
        """Expected budget still unspent."""
        return max(self.settings.budget - self.purse.spent, 0.0)

    def _raise_price(self, o: float) -> None:
        """The price after a step: y <- y(1 + o/B) + o/((c - 1)B)."""
        B = self.settings.budget
        c = (1.0 + 1.0 / B) ** B
        self.purse.price = self.purse.price * (1.0 + o / B) + o / ((c - 1.0) * B)

    def _primal_dual(self, gap: float) -> float:
        """Algorithm C.1."""
        if self.purse.price < 1.0 and gap - self.purse.price > 0.0:
            o = min(gap, self._left(), 1.0)
            self._raise_price(o)
            return o
        return 0.0

    def initial_tolerance(self) -> float:
        """beta_0 / sqrt(t), infinite for B <= 1."""
        B = self.settings.budget
        if B <= 1.0:
            return math.inf
        beta_0 = 1.2 * self.contexts.least_distance() * math.log(10.0) * math.sqrt(10.0) / math.log(B)
        return beta_0 / math.sqrt(len(self.steps) + 1)

    def _learning_primal_dual(self, gap: float, n: float) -> tuple[float, float]:
        """Algorithm 1: the probability and the tolerance the step ends with."""
        beta, price = self.initial_tolerance(), self.purse.price
        if n > 0.0 and beta < n and gap > 0.0 and gap - price > 0.0:
            boost = 1.0 - beta / n
        else:
            boost = 0.0
            beta = n
        if price < 1.0 and gap - price + boost > 0.0:
            beta = max(beta, n * (1.0 - self._left()))
            o = min(gap + boost, self._left(), 1.0)
            self._raise_price(o)
            return o, beta
        return 0.0, n

    def _consult(self, gap: float, n: float) -> tuple[float, float]:
        """The rule's probability, clipped to the budget left, and its tolerance."""
        s, tolerance = self.settings, 0.0
        if s.hard and self.purse.nudges >= s.budget:
            return 0.0, n if s.rule == "learning_primal_dual" else 0.0
        if s.rule == "primal_dual":
            o = self._primal_dual(gap)
        elif s.rule == "learning_primal_dual":
            o, tolerance = self._learning_primal_dual(gap, n)
        elif s.rule == "fixed_rate":
            o = min(s.budget / s.decisions, 1.0)
        elif s.rule == "always":
            o = 1.0
        elif s.rule == "periodic":
            o = 1.0 if (len(self.steps) + 1) % s.every == 0 else 0.0
        else:
            o = 0.0
        return min(o, self._left()), tolerance

    def budget_left(self) -> float:
        """Expected budget left, and with a hard one also counted."""
        left = self.settings.budget - self.purse.spent
        return min(left, self.settings.budget - self.purse.nudges) if self.settings.hard else left

    # One decision, in the two calls of docs/live.md.

    def _scores(self, known: Frozen, vectors: Floats, normals: Sequence[float] | None) -> list[float]:
        """What the recommender thinks of each action: by ucb, or by the parameter drawn (Thompson sampling).

        theta~ = theta + inflation R L e with L the Cholesky root of V^-1 and e the given normal draws.
        """
        estimate = self.settings.estimate(known.observations, self.d, known.common)
        if self.settings.inflation is None:
            return estimate.ucbs(vectors)
        root = np.linalg.cholesky(np.linalg.inv(estimate.V))
        scale = self.settings.inflation * self.settings.noise_sd
        drawn = estimate.theta + scale * root @ np.array(normals, dtype=np.float64)
        return [float(x @ drawn) for x in vectors]

    def _stale_scores(self, sensed: Any, normals: Sequence[float] | None) -> list[float]:
        return self._scores(self.frozen, self.contexts.blind(self.frozen.seen, sensed), normals)

    def propose(
        self,
        sensed: Any,
        *,
        coin: float,
        opened: bool = False,
        available: bool = True,
        normals: Sequence[float] | None = None,
    ) -> SimpleNamespace:
        """Weigh a moment and toss the coin; charges the budget. Says besides how near it was to going another way."""
        stale_scores = self._stale_scores(sensed, normals)
        stale = best(stale_scores)
        price = self.purse.price
        if not available:
            self.steps.append(Step(sensed, False, stale, False))
            return SimpleNamespace(
                probability=0.0, nudged=False, action=stale, fresh_action=stale, gap=0.0, price=price,
                disagreement=0.0, tolerance=0.0, budget_left=self.budget_left(), scores=[stale_scores], edges=[],
            )  # fmt: skip
        told = self.settings.estimate(self.data.observations, self.d, self.data.common)
        bar = self.contexts.blind(self.seen, sensed)
        fresh_scores = told.ucbs(bar)
        fresh, v = best(fresh_scores), max(fresh_scores)
        u = max(told.ucbs(self.contexts.sensed(self.seen, sensed)))
        divisor = self._divisor(told, sensed, v)
        gap = (u - v) / divisor if abs(u - v) > TIE else 0.0
        n = 0.0 if fresh == stale else float(np.linalg.norm(bar[fresh] - bar[stale]))
        edges = [u - v, coin, divisor, *self._edges(gap, n)]
        o, tolerance = (0.0, 0.0) if opened else self._consult(gap, n)
        self.purse.spent += o
        nudged = coin < o
        self.purse.nudges += int(nudged)
        edges[1] -= o
        self.steps.append(Step(sensed, True, stale, opened))
        return SimpleNamespace(
            probability=o, nudged=nudged, action=stale, fresh_action=fresh, gap=gap, price=price, disagreement=n,
            tolerance=tolerance, budget_left=self.budget_left(), scores=[stale_scores, fresh_scores], edges=edges,
        )  # fmt: skip

    def _divisor(self, told: Estimate, sensed: Any, v: float) -> float:
        """Section 5: what u - v is divided by."""
        if not isinstance(self.settings.scale, str):
            return self.settings.scale
        every_u = [max(told.ucbs(x)) for x in self.contexts.all_sensed(self.seen, sensed)]
        return max(max(every_u) - v, SMALLEST_DIVISOR)

    def _edges(self, gap: float, n: float) -> list[float]:
        """Differences whose sign decides what a primal-dual rule does."""
        if not self.settings.rule.endswith("primal_dual") or gap == 0.0 or self._left() <= 1e-9:
            return []
        beta, price = self.initial_tolerance(), self.purse.price
        boost = max(0.0, 1.0 - beta / n) if n > 0.0 else 0.0
        return [gap - price, gap - price + boost, price - 1.0, n - beta if n > 0.0 else 1.0]

    def settle(
        self,
        *,
        revealed: bool,
        context: Any = None,
        earlier: Mapping[int, Any] | None = None,
        normals: Sequence[float] | None = None,
    ) -> SimpleNamespace:
        """What became of the latest step. `context` is all of it, where it is known: without a reveal it is sealed.

        `earlier` holds contexts of earlier steps that the patient tells with this reveal.
        """
        step = self.steps[-1]
        step.action, scores = step.stale, [0.0]
        if not step.available:
            return SimpleNamespace(action=step.action, scores=[])
        step.context = context
        for number, told in (earlier or {}).items():
            self.steps[number - 1].context = told
        if revealed:
            self._uncover()
            self.frozen = self._freeze()
            known = context is not None
            vectors = self.contexts.full(context) if known else self.contexts.sensed(self.seen, step.sensed)
            scores = self._scores(self.frozen, vectors, normals)
            step.action = best(scores)
        if context is not None and (revealed or not self.contexts.has_reported):
            self.seen.append(context)
        else:
            step.pending = True
        return SimpleNamespace(action=step.action, scores=[scores])

    def _uncover(self) -> None:
        """Count every pending step whose context is known now, and learn from its reward if that has come."""
        for step in self.steps[:-1]:
            if step.pending and step.context is not None:
                step.pending = False
                self.seen.append(step.context)
                if step.reward is not None:
                    self._observe(step)

    def _observe(self, step: Step) -> None:
        assert step.action is not None
        assert step.reward is not None
        step.place = len(self.data.observations)
        self.data.observations.append((self.contexts.full(step.context)[step.action], step.reward))

    # Rewards, whenever they come.

    def seal(self, step: int, context: Any) -> None:
        """What was reported of a step, too late to reveal anything then."""
        if self.steps[step - 1].pending:
            self.steps[step - 1].context = context

    def learn(self, reward: float, *, step: int) -> None:
        """The reward of a step has come."""
        entry = self.steps[step - 1]
        entry.reward = float(reward)
        if not entry.pending:
            self._observe(entry)

    def correct(self, reward: float, *, step: int) -> None:
        """The reward of a step was another one: the list is put right, and everything follows from the list."""
        entry = self.steps[step - 1]
        entry.reward = float(reward)
        if entry.place is not None:
            self.data.observations[entry.place] = (self.data.observations[entry.place][0], float(reward))


# Section 11: random effects.

NU = 0.5


def meet(participants: Sequence[Participant]) -> None:
    """Mu and tau by one step over all participants, each of whom then goes by Lambda = diag(R^2 / tau^2)."""
    settings, d, N = participants[0].settings, participants[0].d, len(participants)
    told = [settings.estimate(each.data.observations, d, each.data.common) for each in participants]
    mu = np.mean([each.theta for each in told], axis=0)
    first = settings.noise_sd**2 / settings.start(d).precision
    spread = sum((each.theta - mu) ** 2 + settings.noise_sd**2 * np.diag(np.linalg.inv(each.V)) for each in told)
    tau2 = (NU * first + spread) / (N + NU)
    for each in participants:
        each.data.common = Prior(mu, settings.noise_sd**2 / tau2)
