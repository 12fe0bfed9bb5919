"""Worlds and policies as stacked arrays for the compiled loop, and its results as a Dataset."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.reasons import WORDS
from opportune.analysis.results import label_dataset
from opportune.engine.declared import BESIDE_CHANCES, CERTAIN, Owners
from opportune.engine.hooks import WORLDS
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned
from opportune.errors import InputError
from opportune.policy import Policy, layout_for, rule_for
from opportune.problems.finite import Problem
from opportune.simulation.loop import Batch, Results, stream_of
from opportune.simulation.python_policy import PythonPolicy
from opportune.simulation.record import FIELDS, MARKS, NUMBERS, TOTALS
from opportune.simulation.sizes import check_layout
from opportune.simulation.timetable import Timetable
from opportune.worlds import SimulatedWorld, in_numbers, owner_of

DESCRIPTIONS = {
    **{name: text for name, (_, text) in FIELDS.items()},
    **{name: f"sum of {of}" if of else "price after the last step" for name, (_, of) in TOTALS.items()},
    "action_probability": "probability of each action at the step; NaN where a recommender draws its own",
    "action_draw": "the uniform draw whose inverse cumulative probability is the action; NaN where nothing is drawn",
    "intended_action": "the most probable action, before the floor",
    "context_count": "number of arrivals of each context",
    "action_name": "the name of each action",
    "context_name": "the levels of each context's variables",
    "true_gap": "true gap of each context",
    "true_best": "true value of the best action in each context",
    "true_blind": "true value of the best blind action in each context's public stratum",
}


class Output:
    """The arrays that runs write their results to; the first axes are replicate, policy, world.

    If actions are drawn, `drawn` numbers of each step give their probabilities (algorithm.chances).

    In memory, totals are stored run by run (`totals`) or, with `by_total`, each total of all runs in an array of its
    own type; in both cases each total is one of the `columns`.
    """

    def __init__(
        self, replicates: int, policies: int, worlds: int, traced: int, *, contexts: int, drawn: int = 0,
        by_total: bool = False,
    ) -> None:  # fmt: skip
        lead = (replicates, policies, worlds)
        self.traced = traced
        self.totals: NDArray[np.float64] = np.zeros((0 if by_total else replicates, policies, worlds, len(TOTALS)))
        self.columns: list[NDArray[Any]] = [
            np.empty(lead, dtype=kind) if by_total else self.totals[..., i]
            for i, (kind, _) in enumerate(TOTALS.values())
        ]
        self.numbers: NDArray[np.float64] = np.empty((*lead, len(NUMBERS), traced))
        self.marks: NDArray[np.int16] = np.empty((*lead, len(MARKS), traced), dtype=np.int16)
        self.chances: NDArray[np.float64] = np.full((*lead, drawn, traced), np.nan)
        self.counts: NDArray[np.int32] = np.zeros((replicates, worlds, contexts), dtype=np.int32)
        """The number of arrivals of each context, counted while the first policy runs: [R, W, K]."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Replicates, policies and worlds."""
        return self.numbers.shape[:3]

    def rows(self, first: int, last: int) -> Results:
        """The arrays of replicates first..last, for the compiled loop to fill."""
        lead = (last - first, *self.shape[1:])
        return Results(
            self.totals[first:last],
            self.numbers[first:last].reshape(*lead, -1) if self.traced else np.empty((*lead, 0)),
            self.marks[first:last].reshape(*lead, -1) if self.traced else np.empty((*lead, 0), dtype=np.int16),
            self.chances[first:last].reshape(*lead, self.chances.shape[-2] * self.traced),
            self.counts[first:last],
            self.traced,
        )

    def put(self, part: "Output", chosen: NDArray[np.int64], first: int, last: int) -> None:
        """Copy in the results of some policies for the replicates first..last."""
        self.totals[first:last, chosen] = part.totals
        self.numbers[first:last, chosen] = part.numbers
        self.marks[first:last, chosen] = part.marks
        self.chances[first:last, chosen] = part.chances
        if 0 in chosen:
            self.counts[first:last] = part.counts


def streams_of(first: int, last: int, worlds: int) -> NDArray[np.uint64]:
    """The stream of each run, [R, W]."""
    streams: NDArray[np.uint64] = stream_of(
        np.arange(first, last, dtype=np.uint64)[:, None], np.arange(worlds, dtype=np.uint64)
    )
    return streams


def check_inputs(worlds: Sequence[Any], policies: Sequence[Any]) -> None:
    """Reject values that are not worlds or policies."""
    if not worlds:
        raise InputError("worlds is empty; expected at least one world")
    if not policies:
        raise InputError("policies is empty; expected at least one policy")
    for policy in policies:
        if not isinstance(policy, Policy | PythonPolicy):
            expected = "Policy, such as pd2_ucb(budget=10), or PythonPolicy"
            raise InputError(f"policies holds {checks.brief(policy)}; expected {expected}")
    for world in {type(w): w for w in worlds}.values():
        if not isinstance(world, SimulatedWorld) or isinstance(world, type):
            raise InputError(f"worlds holds {checks.brief(world)}; expected worlds such as LinearWorld")
        checks.registered(world, WORLDS)


def device_form(worlds: Sequence[SimulatedWorld], device: str, timed: int = 0) -> dict[str, Any]:
    """The form of layout that suits the worlds and a device, as arguments of a problem's `layout`.

    `timed` is the number of steps in the calendar, 0 without one.
    The score table and padded rows are faster on the CPU. On a GPU, where memory near the processor is scarce, scores
    are computed from the nonzero features each time.
    """
    happenings = [w.happenings for w in worlds]
    world = {
        "delay": max(h.reward_delay for h in happenings),
        "interrupted": any(h.interrupts for h in happenings),
        "habituated": max(w.happenings.habituated(w.informed_problem().schedule.decisions_per_day) for w in worlds),
        "timed": timed,
    }
    if device == "cpu":
        return world
    return {**world, "table": False, "simd": 1, "support": max(w.informed_problem().support for w in worlds)}


def layouts_for(
    worlds: Sequence[SimulatedWorld], policies: Sequence[Policy], horizon: int, device: str, timed: int = 0
) -> list[Layout]:
    """The layout that each policy needs; `timed` is the number of steps in the calendar."""
    problem, form, owner = worlds[0].informed_problem(), device_form(worlds, device, timed), owner_of(worlds[0])
    return [
        layout_for(policy, problem, horizon=horizon, participants=len(worlds), world=owner, **form)
        for policy in policies
    ]


def pack(
    worlds: Sequence[SimulatedWorld], policies: Sequence[Policy], horizon: int, device: str = "cpu",
    timetable: Timetable | None = None,
) -> Batch:  # fmt: skip
    """Stack worlds and policies into the arrays of the compiled loop; rejects combinations that do not fit."""
    problems = [w.informed_problem() for w in worlds]
    timed = 0 if timetable is None else horizon
    form = device_form(worlds, device, timed)
    kinds = {
        (w.number, p.layout(horizon=horizon, **form).with_owners(Owners(world=owner_of(w))))
        for w, p in zip(worlds, problems, strict=True)
    }
    if len(kinds) > 1:
        raise InputError(
            "worlds differ in kind, sizes, visibility or in whether probabilities are known; "
            "expected worlds of one kind in one call of simulate"
        )
    layouts = layouts_for(worlds, policies, horizon, device, timed)
    for at in set(layouts):
        check_layout(at, len(worlds), len(policies))
    at = layouts[0]
    constants = aligned(len(problems), at.length("constants"))
    for row, problem in zip(constants, problems, strict=True):
        row[:] = problem.constants(at, horizon)
    rules = aligned(len(policies), len(worlds), max(each.length("rule") for each in layouts))
    for i, (policy, each) in enumerate(zip(policies, layouts, strict=True)):
        same = all(each.places_of(group) == at.places_of(group) for group in SAME)
        assert same, "policies of one simulation lay out constants and worlds differently"
        for w, problem in enumerate(problems):
            numbers = rule_for(policy, problem, each, horizon=horizon, participants=len(worlds), member=w)
            rules[i, w, : numbers.size] = numbers
    alike = all(np.array_equal(row, constants[0], equal_nan=True) for row in constants)
    if any(p.one_model for p in policies) and not alike:
        raise InputError("worlds have different problems; expected the same problem in all for a pooled policy")
    if any(p.partial for p in policies) and not _have_one_prior(at, constants):
        raise InputError("worlds differ in noise or prior; expected the same in all for a policy pooled in part")
    packed = np.stack([in_numbers(w, at) for w in worlds])
    if timetable is not None:
        calendar = at.views("calendar", packed)
        calendar.start[:, 0] = timetable.start
        for name, table in timetable.tables().items():
            getattr(calendar, name)[:, :horizon] = table
    return Batch(constants=constants, worlds=packed, rules=rules)


def _have_one_prior(at: Layout, constants: NDArray[np.float64]) -> bool:
    """Whether these problems, one per row, agree in what random effects share: noise and prior."""
    known = at.views("constants", constants)
    return all(bool((part == part[0]).all()) for part in (known.noise, known.regularisation, known.prior_mean))


SAME = ("constants", "rule", "happenings", "calendar", "world.settings")
"""Groups that are packed once and read with the layout of every policy."""


def policy_labels(policies: Sequence[Policy]) -> list[str]:
    """Each policy's name, with budget, kind of budget or scale added where names repeat."""
    labels = [p.name for p in policies]
    extras = [
        [f" B={p.budget.amount:g}" if p.budget else "" for p in policies],
        [f" {p.scale}" for p in policies],
        [" hard" if p.budget and p.budget.hard else "" for p in policies],
        [" shared" if p.shared else "" for p in policies],
        [{False: "", True: " pooled", "partial": " partial"}[p.pooled] for p in policies],
        ["" if isinstance(p, PythonPolicy) else f" {type(p.recommender).__name__}" for p in policies],
        ["" if isinstance(p, PythonPolicy) else f" {getattr(p.recommender, 'unknown', '')}".rstrip() for p in policies],
    ]
    for extra in extras:
        if len(set(labels)) == len(labels):
            break
        repeated = {label for label in labels if labels.count(label) > 1}
        for label in repeated:
            same = [i for i, other in enumerate(labels) if other == label]
            if len({extra[i] for i in same}) > 1:
                for i in same:
                    labels[i] += extra[i]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"two policies are called {twice!r}; expected different names (name=...)")
    return labels


def build_dataset(worlds: Sequence[SimulatedWorld], policies: Sequence[Policy], labels: list[str], output: Output,
             finished: int, horizon: int, attrs: dict[str, Any]) -> xr.Dataset:  # fmt: skip
    """The results as labelled arrays, axes policy, world, replicate, (step)."""
    axes = ("policy", "world", "replicate")
    variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
    for (name, (kind, _)), column in zip(TOTALS.items(), output.columns, strict=True):
        variables[name] = (axes, column[:finished].transpose(1, 2, 0).astype(kind, copy=False))
    coords: dict[str, Any] = {
        "policy": labels,
        "world": np.arange(len(worlds)),
        "replicate": pd.RangeIndex(finished),
        "world_name": ("world", [w.name or f"world {i}" for i, w in enumerate(worlds)]),
        "budget": ("policy", [p.budget.amount if p.budget else np.inf for p in policies]),
        **_names([w.informed_problem() for w in worlds]),
    }
    if output.numbers.shape[-1]:
        coords["step"] = np.arange(1, horizon + 1)
        for i, name in enumerate(NUMBERS):
            variables[name] = ((*axes, "step"), output.numbers[:finished, :, :, i].transpose(1, 2, 0, 3))
        for i, name in enumerate(MARKS):
            marks = output.marks[:finished, :, :, i].transpose(1, 2, 0, 3)
            variables[name] = ((*axes, "step"), marks.astype(bool) if FIELDS[name][0] is bool else marks)
        variables |= _chances(output, policies, finished)
    tables = [w.truth_table() for w in worlds]
    for name, (truth_axes, _) in tables[0].items():
        variables[name] = (("world", *truth_axes), np.stack([table[name][1] for table in tables]))
    if "true_gap" in tables[0]:
        variables["context_count"] = (("world", "replicate", "contexts"), output.counts[:finished].transpose(1, 0, 2))
    data = label_dataset(variables, coords, {**attrs, **_days(worlds[0].informed_problem())}, DESCRIPTIONS)
    if "reason" in data:
        data["reason"].attrs["words"] = list(WORDS)
    return data


def _chances(output: Output, policies: Sequence[Policy], finished: int) -> dict[str, Any]:
    """The probability of each action taken, if any policy draws its actions; 1 where nothing is drawn."""
    found = output.chances[:finished]
    if not found.shape[-2]:
        return {}
    taken = output.marks[:finished, :, :, MARKS.index("action")]
    actions = found.shape[-2] - BESIDE_CHANCES
    for i, policy in enumerate(policies):
        compiled = isinstance(policy, Policy)
        if not (compiled and policy.randomised):
            found[:, i, :, -1] = taken[:, i]
            if compiled and policy.recommender.chances == CERTAIN:
                for a in range(actions):
                    found[:, i, :, a] = taken[:, i] == a
    axes = ("policy", "world", "replicate", "step")
    return {
        "action_probability": ((*axes, "actions"), found[:, :, :, :actions].transpose(1, 2, 0, 4, 3)),
        "action_draw": (axes, found[:, :, :, actions].transpose(1, 2, 0, 3)),
        "intended_action": (axes, found[:, :, :, actions + 1].transpose(1, 2, 0, 3).astype(np.int16)),
    }


def _names(problems: Sequence[Any]) -> dict[str, tuple[str, list[str]]]:
    """The names of actions and contexts, if they are the same in all worlds."""
    first = problems[0]
    found = {}
    if all(p.action_names == first.action_names for p in problems):
        found["action_name"] = ("actions", list(first.action_names))
    if isinstance(first, Problem) and all(p.variables == first.variables for p in problems):
        levels = (first.levels(k).items() for k in range(first.contexts))
        found["context_name"] = ("contexts", [", ".join(f"{name}={level}" for name, level in each) for each in levels])
    return found


def _days(problem: Any) -> dict[str, int]:
    """The number of decisions per day, if the problem has days."""
    per_day: int = problem.schedule.decisions_per_day
    return {"decisions_per_day": per_day} if problem.schedule.variables or per_day > 1 else {}
