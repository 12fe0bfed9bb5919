"""A slow second reading of docs/pace.md, PACE: rotation, debt and pace, with all that goes with them.

It builds on the reading of sections 1 to 5 in tests/reference.py and is like it: independent of `opportune`, and as
much as possible is worked out anew from what has happened. Leave out one idea (`without`) and it must part from the
compiled code, which the tests use as a control.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from answers_reference import Answers, Happened
from reference import TIE, Contexts, Data, Estimate, Finite, Floats, Frozen, Participant, Purse, Settings, Step, best

EMPTY = 1e-9  # a budget with no more than this left is spent
RANK_TIE = 1e-9
ROUNDING = 2e-13
HALF_LIFE = 15
LEAST_RATIO = 3.0
IDEAS = (
    "rotate",
    "debt",
    "top",
    "ties",
    "fading",
    "grid",
    "peace",
    "shorter peace",
    "openings",
    "others",
    "guard",
    "resignation",
    "response",
    "candidates",
)


@dataclass(frozen=True, kw_only=True)
class PaceSettings(Settings):
    """What sections 2 to 4 need, and the options of section 10. Rules other than "pace" can have a rotating LinUCB."""

    rotate: bool = True
    kappa: float = 1.0
    randomise: float = 0.0
    least: float = 0.0  # of candidates; 0: nudges are not randomised there
    realised: bool = False
    guard: float = 0.0
    response: bool = False
    horizon: int = 1
    sharers: int = 1
    without: str = ""  # an idea left out

    def __post_init__(self) -> None:
        """Section 10 has a rule of its own; others are checked as ever."""
        if self.rule != "pace":
            super().__post_init__()
        if self.without and self.without not in IDEAS:
            raise ValueError(f"without is {self.without!r}; expected one of {IDEAS}")


class Ranked(NamedTuple):
    """A moment to expect: what a reveal would gain in it, and how probable it is."""

    gain: float
    odds: float
    itself: bool = False  # the present moment, where contexts are not finite: tied whatever the debt
    stratum: Any = None  # its public part


@dataclass
class PacePurse(Purse):
    """What was spent, and what those who share a budget know of each other."""

    points: int = 0
    foregone: int = 0
    opened: int = 0
    guard_price: float = 0.0
    guard_spent: float = 0.0
    happened: list[Happened] = field(default_factory=list)  # nudges and openings, in order
    ranked: dict[int, list[Ranked]] = field(default_factory=dict)  # each participant's, as of its latest step


class PaceParticipant(Participant):
    """One patient under section 10. `number` tells apart those who share a purse."""

    settings: PaceSettings
    purse: PacePurse

    def __init__(
        self,
        contexts: Contexts,
        settings: PaceSettings,
        *,
        d: int,
        data: Data | None = None,
        purse: PacePurse | None = None,
        number: int = 0,
    ) -> None:
        super().__init__(contexts, settings, d=d, data=data, purse=PacePurse() if purse is None else purse)
        self.number = number
        self.tried: list[tuple[Any, int]] = []  # blind steps since the last reveal: what was sensed, the action
        self.losses: list[float] = []  # what each of them is estimated to have cost
        self.moments: list[Any] = []  # what was sensed at every step
        self.last_reveal = 0
        self.openings = 0
        self.unanswered = 0  # nudges in a row
        self.peace = 0  # steps for which the patient is left alone
        self.share = 0.0  # rho, when last asked
        self.nudged = False

    def _keeps(self, idea: str) -> bool:
        return self.settings.without != idea

    # Rotate.

    def _kap(self) -> float:
        """Kappa; 0 once nothing that a rotating recommender tries can be told any more."""
        told = self.last_reveal > 0 and self.openings == 0
        resigned = self.settings.rule == "pace" and self.settings.rotate and self._keeps("resignation")
        return 0.0 if resigned and told and self._remaining() <= EMPTY else self.settings.kappa

    def _scores(self, known: Frozen, vectors: Floats, normals: Sequence[float] | None) -> list[float]:
        """By ucb with kappa times the radius, or by the parameter drawn (Thompson sampling)."""
        if self.settings.inflation is not None:
            return super()._scores(known, vectors, normals)
        estimate = self.settings.estimate(known.observations, self.d, known.common)
        return Estimate(estimate.V, estimate.theta, self.settings.kappa * estimate.radius).ucbs(vectors)

    def _stale_scores(self, sensed: Any, normals: Sequence[float] | None) -> list[float]:
        """<bar_rec(z, a), theta_rec> + kap r_rec ||bar_rec(z, a)||_{V_h^-1}, V_h = V + sum bar bar' since then."""
        if self.settings.inflation is not None:
            return super()._stale_scores(sensed, normals)
        frozen = self.settings.estimate(self.frozen.observations, self.d, self.frozen.common)
        V = frozen.V
        if self.settings.rotate and self._keeps("rotate"):
            for earlier, action in self.tried:
                x = self.contexts.blind(self.frozen.seen, earlier)[action]
                V = V + np.outer(x, x)
        bar = self.contexts.blind(self.frozen.seen, sensed)
        return Estimate(V, frozen.theta, self._kap() * frozen.radius).ucbs(bar)

    # Pace.

    def _remaining(self) -> float:
        """B - spent; nothing of a hard budget once B nudges have happened."""
        s = self.settings
        return 0.0 if s.hard and self.purse.nudges >= s.budget else s.budget - self.purse.spent

    def _blind_means(self, theta: Floats, sensed: Any) -> list[float]:
        """m(bar(z, a))."""
        return [float(m) for m in self.contexts.blind(self.seen, sensed) @ theta]

    def _gain(self, theta: Floats, sensed: Any) -> float:
        """G(q): what fresh advice is worth, against the best blind action on average, or for this patient now."""
        means = self.contexts.sensed(self.seen, sensed) @ theta
        blind = self._blind_means(theta, sensed)
        return float(means.max() - (means[best(blind)] if self.settings.realised else max(blind)))

    def _fading(self, q: int) -> float:
        """How often a sensed part was met in the steps before this one, each counting half every 15 steps."""
        half = HALF_LIFE if self._keeps("fading") else math.inf
        return float(sum(0.5 ** (age / half) for age, met in enumerate(reversed(self.moments)) if met == q))

    def _kept(self) -> list[Any]:
        """The recent moments that count, where contexts are not finite."""
        return self.moments[-max(64, math.ceil(self.settings.decisions / self.settings.budget)) :]

    def _to_expect(self, theta: Floats, sensed: Any) -> list[Ranked]:
        """The moments that this participant expects."""
        if not isinstance(self.contexts, Finite):
            odds = 1.0 / (len(self._kept()) + 1)
            recent = [Ranked(self._gain(theta, m), odds, stratum=self._stratum(m)) for m in self._kept()]
            return [Ranked(self._gain(theta, sensed), odds, itself=True, stratum=self._stratum(sensed)), *recent]
        parts = sorted(set(self.contexts.q))
        if self.contexts.p is None:
            counts = [self._fading(q) + 1.0 for q in parts]
        else:
            counts = [sum(p for p, of in zip(self.contexts.p, self.contexts.q, strict=True) if of == q) for q in parts]
        return [
            Ranked(self._gain(theta, q), n / sum(counts), stratum=self._stratum(q))
            for q, n in zip(parts, counts, strict=True)
        ]

    def _all_expected(self) -> Iterator[Ranked]:
        """The mean over participants who had a step already, each as of its latest."""
        known = self.purse.ranked if self._keeps("others") else {self.number: self.purse.ranked[self.number]}
        for number, moments in known.items():
            for gain, odds, itself, stratum in moments:
                yield Ranked(gain, odds / len(known), itself and number == self.number, stratum)

    def _share(self) -> float:
        """Rho: for which share of the decisions to come the budget reaches."""
        purse = self.purse
        h = purse.opened / purse.points if purse.points and self._keeps("openings") else 0.0
        to_come = self.settings.decisions - purse.points - purse.foregone
        return min(1.0, max(self._remaining(), 0.0) / max(1.0, (1.0 - h) * to_come))

    def _stratum(self, sensed: Any) -> Any:
        """z(q)."""
        contexts: Any = self.contexts
        return contexts.z[contexts.q.index(sensed)] if isinstance(contexts, Finite) else contexts.stratum(sensed)

    def _answers(self, known: Answers, sensed: Any, rho: float, edges: list[float]) -> float:
        """How probable an answer is now; as usual in this public part, if it is near enough."""
        step = len(self.steps) + 1
        now, usual = known.now(self.number, step, self._stratum(sensed)), known.usual(self._stratum(sensed), rho)
        edges += [abs(now - usual) - 0.25 * usual, *known.margins()]
        return usual if abs(now - usual) <= 0.25 * usual else now

    def _pace(self, told: Estimate, sensed: Any, fresh: int, stale: int) -> SimpleNamespace:
        """x, by all that section 10 says, and how near it was to another."""
        s = self.settings
        blind = self._blind_means(told.theta, sensed)
        greedy = best(blind)
        self.losses.append(blind[greedy] - blind[stale] if fresh != stale else 0.0)
        debt = sum(self.losses) if self._keeps("debt") else 0.0
        gain = self._gain(told.theta, sensed)
        worth = gain + debt
        self.purse.ranked[self.number] = self._to_expect(told.theta, sensed)
        rho = self._share()
        answers: list[float] = []
        likely, expected = 1.0, [moment for moment in self._all_expected() if moment.odds > 0.0]
        if s.response and self._keeps("response"):  # every gain counts by how probable an answer usually is there
            known = Answers(self.purse.happened)
            likely = self._answers(known, sensed, rho, answers)
            expected = [m._replace(gain=m.gain * known.usual(m.stratum, rho)) for m in expected]
        tied = sum(m.odds for m in expected if m.itself or abs(m.gain - likely * worth) <= TIE)
        above = sum(m.odds for m in expected if not m.itself and m.gain - likely * worth > TIE)
        self.share = rho
        weight = 0.25 if self._keeps("ties") else 1.0
        edges = [apart(m.gain - likely * worth) for m in expected if not m.itself] + [apart(worth), *answers]
        x = 0.0
        if s.randomise:
            if worth > TIE:
                x = min(max((rho - above) / tied, 0.0), 1.0) if tied > 0.0 else float(above <= rho)
        elif worth > TIE:
            edges.append(10.0 * (above + weight * tied - rho - RANK_TIE))
            top = isinstance(self.contexts, Finite) and above <= RANK_TIE and fresh == greedy and self._keeps("top")
            x = float(above + weight * tied <= rho + RANK_TIE or top)
        if self.contexts.has_reported and self._grid(edges) and self._keeps("grid"):
            x = 1.0
        if s.randomise:
            x = (1.0 - s.randomise) * x + s.randomise * rho
        if s.guard and self._behind(max(0.0, gain), max(m.gain for m in expected), edges) and self._keeps("guard"):
            x = 1.0
        resting = self.peace > 0 and self._keeps("peace")
        self.peace = max(0, self.peace - 1)
        if s.least:
            if x < 1.0:
                edges.append(10.0 * (above + weight * tied - 2.0 * rho - RANK_TIE))
            near = worth > TIE and above + weight * tied <= (2.0 if self._keeps("candidates") else 1.0) * rho + RANK_TIE
            left = self._remaining()
            edges.append(10.0 * (left - 1.0 + EMPTY))
            x = 0.0 if left < 1.0 - EMPTY else 1.0 - s.least if x == 1.0 else s.least if near else 0.0
        if resting:
            x = 0.0
        return SimpleNamespace(x=x, worth=worth, debt=debt, gain=gain, edges=edges, blind=blind)

    def _grid(self, edges: list[float]) -> bool:
        """Whether a reveal is due on the geometric grid, as steps are pending."""
        s, now = self.settings, len(self.steps) + 1
        since = max(1, self.last_reveal)
        ratio = (s.horizon / since) ** (1.0 / (max(self._remaining(), 0.0) / s.sharers + 1.0))
        due = now - since * max(LEAST_RATIO, ratio)
        edges.append(10.0 * (due + RANK_TIE))
        return bool(self.tried) and due >= -RANK_TIE

    def _behind(self, gain: float, most: float, edges: list[float]) -> bool:
        """A virtual PD1 runs beside; whether it has got ahead by c B."""
        B, purse = self.settings.budget, self.purse
        gap = gain / most if most > TIE else 0.0
        edges += [purse.guard_price - 1.0, apart(gap - purse.guard_price)]
        if not (purse.guard_price < 1.0 and gap > purse.guard_price):
            return False
        o = max(0.0, min(gap, B - purse.guard_spent, 1.0))
        growth = (1.0 + 1.0 / B) ** B
        purse.guard_price = purse.guard_price * (1.0 + o / B) + o / ((growth - 1.0) * B)
        purse.guard_spent += o
        ahead = purse.guard_spent - purse.spent - self.settings.guard * B
        edges.append(apart(ahead))
        return ahead >= 0.0

    # One decision.

    def propose(
        self,
        sensed: Any,
        *,
        coin: float,
        opened: bool = False,
        available: bool = True,
        normals: Sequence[float] | None = None,
    ) -> SimpleNamespace:
        """Weigh a moment and toss the coin; charges the budget."""
        self.nudged = False
        if not available:
            found = super().propose(sensed, coin=coin, available=False, normals=normals)
            self.purse.points += 1
            return found
        stale_scores = self._stale_scores(sensed, normals)
        stale = best(stale_scores)
        told = self.settings.estimate(self.data.observations, self.d, self.data.common)
        bar = self.contexts.blind(self.seen, sensed)
        u, v = max(told.ucbs(self.contexts.sensed(self.seen, sensed))), max(told.ucbs(bar))
        fresh_scores = Estimate(told.V, told.theta, self.settings.kappa * told.radius).ucbs(bar)
        fresh = best(fresh_scores)
        divisor = self._divisor(told, sensed, v)
        gap = (u - v) / divisor if abs(u - v) > TIE else 0.0
        n = 0.0 if fresh == stale else float(np.linalg.norm(bar[fresh] - bar[stale]))
        price, o, tolerance, more = self.purse.price, 0.0, 0.0, SimpleNamespace(edges=[], blind=[0.0])
        if not opened and self.settings.rule == "pace":
            more = self._pace(told, sensed, fresh, stale)
            left = self._remaining()
            o = 0.0 if left <= EMPTY else min(more.x, left)
        elif not opened:
            more.edges = self._edges(gap, n)
            o, tolerance = self._consult(gap, n)
        self.purse.spent += o
        self.purse.points += 1
        self.nudged = coin < o
        self.purse.nudges += int(self.nudged)
        if self.settings.hard and self.settings.least:
            self.purse.spent = float(self.purse.nudges)  # nudges are charged, not their probabilities
        self.steps.append(Step(sensed, True, stale, opened))
        return SimpleNamespace(
            probability=o, nudged=self.nudged, action=stale, fresh_action=fresh, gap=gap, price=price, disagreement=n,
            tolerance=tolerance, budget_left=self.budget_left(), scores=[stale_scores, fresh_scores, more.blind],
            edges=[u - v, coin - o, divisor, *more.edges],
        )  # fmt: skip

    def settle(
        self,
        *,
        revealed: bool,
        context: Any = None,
        earlier: Mapping[int, Any] | None = None,
        normals: Sequence[float] | None = None,
    ) -> SimpleNamespace:
        """What became of the latest step: a reveal pays the debt, without one the action counts as tried."""
        found = super().settle(revealed=revealed, context=context, earlier=earlier, normals=normals)
        step = self.steps[-1]
        if not step.available:
            return found
        self.moments.append(step.sensed)
        less = 1.0
        if self.settings.response and (self.nudged or revealed):
            stratum, number = self._stratum(step.sensed), len(self.steps)
            self.purse.happened.append(Happened(self.number, number, stratum, revealed if self.nudged else None))
            if self.nudged and not revealed:
                less = Answers(self.purse.happened).less(self.number, number, stratum)
        if revealed:
            self.tried, self.losses, self.unanswered, self.peace = [], [], 0, 0
            self.last_reveal = len(self.steps)
            self.openings += int(not self.nudged)
            self.purse.opened += int(not self.nudged)
            return found
        self.tried.append((step.sensed, step.stale))
        if self.nudged:
            self.unanswered += 1
            spared = self.share if self._keeps("shorter peace") else 0.0
            self.peace = math.floor(self.unanswered * less * (1.0 - spared) + 0.5 + RANK_TIE)
        return found

    def withdraw(self) -> None:
        """The participant leaves: its decisions are no longer to come."""
        self.purse.foregone += self.settings.horizon - len(self.steps)


def apart(difference: float) -> float:
    """A difference whose sign decides; certain where rounding cannot reach it."""
    return 1.0 if abs(difference) <= ROUNDING else difference
