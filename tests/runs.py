"""Random runs to compare drivers with the reference on: problems, policies, patients."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import opportune as op
from opportune.algorithm.rng import ARRIVAL, SAMPLE, VARIABLE, categorical, draw, normal
from opportune.worlds.distributions import Choice, Uniform
from reference import Contexts, Continuous, Finite

REVEALERS: dict[str, Any] = {
    "fixed rate": op.FixedRate(),
    "never": op.Never(),
    "always": op.Always(),
    "periodic": op.Periodic(every=3),
    **{f"PD1 {scale}": op.PrimalDual(scale=scale) for scale in ("range", "gap", "adaptive")},
    **{f"PD2 {scale}": op.LearningPrimalDual(scale=scale) for scale in ("range", "gap", "adaptive")},
}
VISIBLE: dict[str, tuple[str, ...]] = {
    "sensed": ("sensed",),
    "public, sensed": ("public", "sensed"),
    "scheduled, sensed": ("scheduled", "sensed"),
    "sensed, reported": ("sensed", "reported"),
    "public, sensed, reported": ("public", "sensed", "reported"),
    "reported, public": ("reported", "public"),
}
FORMULAS = {  # contexts not finite
    "sensed": "1 + steps + place + action + action:steps",
    "scheduled, public, sensed": "1 + tod + steps + action + action:steps + action:dose",
    "sensed, reported": "1 + steps + action + action:place + action:mood",
    "public, sensed, reported": "1 + ward + tod + action + action:steps + action:mood + action:pain + dose",
}
VARIABLES: dict[str, Any] = {
    "tod": op.TimeOfDay(("am", "pm")),
    "ward": ("a", "b"),
    "dose": op.Number(-1.0, 1.0),
    "steps": op.Number(0.0, 2.0),
    "place": ("home", "out", "away"),
    "mood": op.Number(-1.0, 3.0),
    "pain": ("no", "yes"),
}
SEEN: dict[str, Any] = {
    "ward": "public", "dose": "public", "steps": "sensed", "place": "sensed", "mood": "reported", "pain": "reported",
}  # fmt: skip
ACTIONS = ("rest", "walk", "call")
SHARING = ("nothing", "budget", "model", "both")


@dataclass(frozen=True)
class Case:
    """One combination of what a run can be."""

    revealer: str
    hard: bool
    known: bool
    visible: str
    lively: bool  # patients open the app unasked, leave nudges unanswered, are away; rewards are late or never come
    sharing: str
    sampled: bool  # Thompson sampling instead of LinUCB
    finite: bool = True

    def __str__(self) -> str:
        parts = (
            self.revealer, "hard" if self.hard else "expected", "known" if self.known else "plugin",
            self.visible, "lively" if self.lively else "worst case", f"sharing {self.sharing}",
            "Thompson" if self.sampled else "LinUCB", "finite" if self.finite else "continuous",
        )  # fmt: skip
        return ", ".join(parts)


@dataclass
class Run:
    """A drawn run: what is known, who decides, how long, and what the patients are like."""

    case: Case
    problem: Any
    policy: op.Policy
    horizon: int
    participants: int
    thetas: list[NDArray[np.float64]]
    happenings: dict[str, Any]
    rng: np.random.Generator
    seed: int
    p: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # of the contexts, where they are finite

    def normals(self, who: int, step: int) -> list[float] | None:
        """The normal draws that Thompson sampling makes at a step."""
        if not self.case.sampled:
            return None
        return [normal(draw(self.seed, who << 32, step, SAMPLE + k)) for k in range(self.problem.d)]


class FiniteRun(Run):
    """Contexts are numbers."""

    def contexts(self) -> Contexts:
        """What the reference takes for the contexts."""
        problem = self.problem
        return Finite(problem.features, problem.context_probs, problem.stratum_of, problem.sense_of)

    def world(self, who: int) -> Any:
        """A participant's world, for `simulate`."""
        return op.LinearWorld(self.problem, theta=self.thetas[who], context_probs=self.p, **self.happenings)

    def arriving(self, step: int) -> NDArray[np.float64]:
        """The probabilities of contexts at a step: of those that the schedule has there."""
        times = self.problem.schedule.values(step)
        fits = [all(self.problem.levels(k)[name] == times[name] for name in times) for k in range(len(self.p))]
        kept = np.where(fits, self.p, 0.0)
        if not kept.sum():
            kept = np.array(fits, dtype=np.float64)
        return self.p if all(fits) else np.asarray(kept / kept.sum())

    def any_context(self, step: int) -> Any:
        """A context for a live run."""
        return int(self.rng.choice(len(self.p), p=self.arriving(step)))

    def drawn_context(self, who: int, step: int) -> Any:
        """The context that arrives in a simulation."""
        return categorical(draw(self.seed, who << 32, step, ARRIVAL), np.cumsum(self.arriving(step)))

    def levels(self, context: Any) -> dict[str, Any]:
        """A context by names, as an agent takes it."""
        return dict(self.problem.levels(context))

    def sensed(self, context: Any) -> Any:
        """What the reference is told of a context when it proposes."""
        return int(self.problem.sense_of[context])

    def features(self, context: Any) -> NDArray[np.float64]:
        """phi[A, d] of a context."""
        return np.asarray(self.problem.features[context])


class ContinuousRun(Run):
    """Contexts are {variable: value}."""

    def contexts(self) -> Contexts:
        """What the reference takes for the contexts."""
        names, seen = self.problem.program.names, self.problem.visibility

        def depends(name: str, *kinds: str) -> bool:
            return any(seen.get(part.split("=")[0]) in kinds for part in name.split(":"))

        def unseen(kinds: tuple[str, ...]) -> list[int]:
            return [j for j, name in enumerate(names) if depends(name, *kinds)]

        def start(stratum: tuple[Any, ...]) -> Any:
            if self.problem.known_means is not None:
                return self.problem.known_means[self.strata().index(stratum)]
            middle = {name: v.middle for name, v in self.variables.items() if isinstance(v, op.Number)}
            fixed = {**middle, **dict(zip(self.stratified(), stratum, strict=True))}
            free = [name for name in self.variables if name not in fixed]
            levels = itertools.product(*(self.variables[name] for name in free))
            return np.mean([self.features({**fixed, **dict(zip(free, each, strict=True))}) for each in levels], axis=0)

        used = {part.split("=")[0] for name in names for part in name.split(":")}
        extremes = {
            name: (v.low, v.high) if isinstance(v, op.Number) else v
            for name, v in self.variables.items()
            if seen[name] == "sensed" and name in used
        }
        corners = [dict(zip(extremes, each, strict=True)) for each in itertools.product(*extremes.values())]
        return Continuous(
            self.features, stratum=lambda context: tuple(context[name] for name in self.stratified()),
            hidden=unseen(("sensed", "reported")), unsensed=unseen(("reported",)), start=start, corners=corners,
            least=self.problem.least_distance, known=self.problem.known_means is not None,
        )  # fmt: skip

    @property
    def variables(self) -> dict[str, Any]:
        """Numbers as they are, others by their levels."""
        return {name: v.levels if isinstance(v, op.TimeOfDay) else v for name, v in self.problem.variables.items()}

    def stratified(self) -> list[str]:
        """The public variables with levels."""
        seen = self.problem.visibility
        return [n for n, v in self.variables.items() if seen[n] == "public" and not isinstance(v, op.Number)]

    def strata(self) -> list[tuple[Any, ...]]:
        """Their combinations."""
        return list(itertools.product(*(self.variables[name] for name in self.stratified())))

    def world(self, who: int) -> Any:
        """A participant's world, for `simulate`."""
        distributions = {
            name: Uniform(v.low, v.high) if isinstance(v, op.Number) else Choice(dict.fromkeys(v, 1.0 / len(v)))
            for name, v in self.variables.items()
            if name != "tod"
        }
        return op.ContinuousWorld(self.problem, theta=self.thetas[who], distributions=distributions, **self.happenings)

    def context(self, step: int, uniforms: Iterator[float]) -> dict[str, Any]:
        """The context that these uniforms give."""
        made: dict[str, Any] = {}
        for name, v in self.variables.items():
            if name == "tod":
                made[name] = v[(step - 1) % 2]
                continue
            u = next(uniforms)
            made[name] = v.low + (v.high - v.low) * u if isinstance(v, op.Number) else v[int(u * len(v))]
        return made

    def any_context(self, step: int) -> Any:
        """A context for a live run."""
        return self.context(step, (float(self.rng.random()) for _ in itertools.count()))

    def drawn_context(self, who: int, step: int) -> Any:
        """The context that arrives in a simulation."""
        return self.context(step, (draw(self.seed, who << 32, step, VARIABLE + i) for i in itertools.count()))

    def levels(self, context: Any) -> dict[str, Any]:
        """A context by names, as an agent takes it."""
        return {name: value for name, value in context.items() if name != "tod"}

    def sensed(self, context: Any) -> Any:
        """What the reference is told of a context when it proposes."""
        unknown = {"mood": 0.0, "pain": "no"}
        return {**context, **{name: value for name, value in unknown.items() if name in context}}

    def features(self, context: Any) -> NDArray[np.float64]:
        """The features by their names: "action=walk:steps" is steps where the action is walk, else 0."""

        def factor(part: str, action: str) -> float:
            if part == "intercept":
                return 1.0
            if "=" in part:
                name, level = part.split("=")
                return float({**context, "action": action}[name] == level)
            return float(context[part])

        names = self.problem.program.names
        return np.array([[math.prod(factor(p, a) for p in name.split(":")) for name in names] for a in ACTIONS])


AnyRun = FiniteRun | ContinuousRun


def cases(revealer: str) -> list[Case]:
    """Every combination of what is budgeted, known, visible and lively, sharing and recommenders taking turns."""
    both = (False, True)
    grid = list(itertools.product(both, both, VISIBLE, both))
    shift = list(REVEALERS).index(revealer)
    return [
        Case(revealer, hard, known, visible, lively, SHARING[(i // 2 + i // 8 + shift) % 4], (i // 3 + shift) % 3 == 0)
        for i, (hard, known, visible, lively) in enumerate(grid)
    ]


def continuous_cases(revealer: str) -> list[Case]:
    """The same with contexts that are not finite."""
    both = (False, True)
    shift = list(REVEALERS).index(revealer)
    return [
        Case(revealer, (i + shift) % 3 == 0, known, visible, lively, SHARING[(i + shift) % 4], sampled, finite=False)
        for i, (known, visible, lively, sampled) in enumerate(itertools.product(both, FORMULAS, both, both))
        if (i + i // 4 + shift) % 2 == 0
    ]


def draw_run(case: Case, seed: int) -> AnyRun:
    """A small random problem with a policy, as the case asks."""
    rng = np.random.default_rng([seed, *str(case).encode()])
    low = float(rng.normal())
    shared: dict[str, Any] = {
        "noise_sd": float(rng.uniform(0.05, 1.0)),
        "theta_bound": float(rng.uniform(0.5, 3.0)),
        "delta": float(rng.uniform(0.01, 0.3)),
        "regularisation": float(rng.uniform(0.1, 2.0)) if rng.random() < 0.5 else None,
        "value_range": (low, low + float(rng.uniform(0.5, 4.0)))
        if case.revealer.endswith("range") or rng.random() < 0.5
        else None,
        "largest_gap": float(rng.uniform(0.3, 3.0)),
    }
    problem, p = finite_problem(case, rng, shared) if case.finite else (continuous_problem(case, rng, shared), None)
    participants = 1 if case.sharing == "nothing" else int(rng.integers(2, 4))
    horizon = int(rng.integers(15, 31)) if participants == 1 else int(rng.integers(8, 13))
    happenings: dict[str, Any] = {}
    if case.lively:
        happenings = {
            "open_rate": float(rng.uniform(0.05, 0.4)),
            "response_rate": float(rng.uniform(0.3, 0.9)),
            "available_rate": float(rng.choice([1.0, 0.8])),
            "reward_rate": float(rng.choice([1.0, 0.8])),
            "reward_delay": int(rng.choice([0, 1, 4])),
        }
    kind = FiniteRun if case.finite else ContinuousRun
    return kind(
        case=case,
        problem=problem,
        policy=draw_policy(case, rng, horizon),
        horizon=horizon,
        participants=participants,
        thetas=[rng.normal(size=problem.d)] * participants
        if rng.random() < 0.5
        else [rng.normal(size=problem.d) for _ in range(participants)],
        happenings=happenings,
        rng=rng,
        seed=seed,
        p=np.zeros(0) if p is None else p,
    )


def draw_policy(case: Case, rng: np.random.Generator, horizon: int) -> op.Policy:
    together = case.sharing in {"budget", "both"}
    budget: op.Budget | None = op.Budget(
        float(rng.choice([0.6, 1.0, rng.uniform(1.2, 2.5), rng.uniform(2.5, 0.8 * horizon)])), shared=together
    )
    if case.hard:
        budget = op.Budget(int(rng.integers(1, 8)), hard=True, shared=together)
    elif case.revealer in {"never", "always", "periodic"} and not together and rng.random() < 0.5:
        budget = None
    return op.Policy(
        recommender=op.Thompson(inflation=float(rng.choice([1.0, 0.3]))) if case.sampled else op.LinUCB(),
        revealer=REVEALERS[case.revealer],
        budget=budget,
        pooled=case.sharing in {"model", "both"},
    )


def finite_problem(case: Case, rng: np.random.Generator, shared: dict[str, Any]) -> tuple[Any, NDArray[np.float64]]:
    seen = VISIBLE[case.visible]
    sizes = [2 if kind == "scheduled" else int(rng.integers(2, 4 if len(seen) < 3 else 3)) for kind in seen]
    K, A, d = math.prod(sizes), int(rng.integers(2, 5)), int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(K, 2.0))
    if K > 2 and rng.random() < 0.25:
        p[rng.integers(K)] = 0.0  # a context that never comes
        p /= p.sum()
    features = rng.normal(size=(K, A, d))
    if rng.random() < 0.5:
        features[0, 1] = features[0, 0] + 0.03 * rng.normal(size=d)  # a small Dmin: PD2 tolerates little
    names = [f"v{i}" for i in range(len(seen))]
    time = op.TimeOfDay(("morning", "evening"))
    problem = op.Problem(
        features,
        p if case.known else None,
        variables={
            n: time if kind == "scheduled" else range(size) for n, kind, size in zip(names, seen, sizes, strict=True)
        },
        visibility={n: kind for n, kind in zip(names, seen, strict=True) if kind != "scheduled"},  # type: ignore[misc]
        **shared,
    )
    return problem, p


def continuous_problem(case: Case, rng: np.random.Generator, shared: dict[str, Any]) -> Any:
    formula = FORMULAS[case.visible]
    used = {name: v for name, v in VARIABLES.items() if name in formula.replace(":", " ").split()}
    problem = op.ContinuousProblem(
        formula,
        used,
        ACTIONS,
        visibility={name: SEEN[name] for name in used if name in SEEN},
        order="written" if rng.random() < 0.5 else "degree",
        least_distance=float(rng.choice([0.03, 0.5])),
        **shared,
    )
    if not case.known:
        return problem
    return problem.replace(known_means=problem.start + 0.3 * rng.normal(size=problem.start.shape))
