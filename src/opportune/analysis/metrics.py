"""Metrics of results: regret, realised regret, its decomposition, spending. They take and return labelled arrays."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.algorithm.protocol import LEAST_SCALE
from opportune.analysis.clairvoyant import auxiliary, clairvoyant, pace_ranks, paced_auxiliary
from opportune.analysis.inputs import RUN_AXES, check_results
from opportune.analysis.results import config
from opportune.engine.hooks import REVEALERS
from opportune.errors import InputError
from opportune.policy import Policy

_TAKE_LATER = "compute it for the whole Dataset, then select steps"
NO_LIMIT = "no limit"
"""The name of an unlimited budget, which the clairvoyant of a policy without a budget has."""


def regret(data: xr.Dataset) -> xr.DataArray:
    """The paper's regret: cumulative value of the clairvoyant minus that of the policy (docs/paper.md).

    With a trace: at every step (dims policy, world, replicate, step). Without: at the end of the run. The clairvoyant
    spends the budget over the whole run: for some steps use regret(data).sel(step=...), not the regret of those steps.
    """
    data = check_results(data, "regret", truth=True)
    if "step" not in data.dims and any(map(_shared, described_policies(data))):
        _needs_trace(data, "regret under a shared budget")
    _needs_everyone(data, "regret")
    if "step" not in data.dims:
        best = _clairvoyant_totals(data)
        return (best - data["total_value"]).transpose(*RUN_AXES).rename("regret")
    _needs_whole(data, "regret")
    result = _best_so_far(data) - data["value"].cumsum("step", skipna=False)
    return result.assign_coords(step=data["step"]).rename("regret").assign_attrs(long_name="cumulative regret")


def realised_regret(data: xr.Dataset) -> xr.DataArray:
    """Regret against the truth: cumulative value of the best action in each context minus that of the action taken."""
    data = check_results(data, "realised regret")
    if not has_realised_regret(data):
        raise InputError("realised regret needs to know the best action's value; these worlds do not report it")
    if "step" not in data.dims:
        return (data["total_best"] - data["total_outcome"]).transpose(*RUN_AXES).rename("realised_regret")
    _needs_beginning(data, "realised regret")
    lost = data["best"] - data["outcome"]
    result = lost.cumsum("step", skipna=False).assign_coords(step=data["step"]).rename("realised_regret")
    return result.assign_attrs(long_name="cumulative realised regret")


def has_regret(data: xr.Dataset) -> bool:
    """Whether the paper's regret is defined: its clairvoyant needs finite contexts."""
    return isinstance(data, xr.Dataset) and "true_gap" in data


def has_realised_regret(data: xr.Dataset) -> bool:
    """Whether the worlds report the value of the best action."""
    return "total_best" in data and not bool(data["total_best"].isnull().any())


def clairvoyants(data: xr.Dataset) -> dict[str, list[str]]:
    """Groups of policies whose regrets can be compared, by the clairvoyant that they are measured against, in words.

    The clairvoyant has the policy's own budget. Policies without a budget are measured against a clairvoyant without a
    limit, and are included only if no policy has a budget: beside others they would look worse for having more.
    """
    found: dict[str, list[str]] = {}
    for label, policy in zip(map(str, data["policy"].values), described_policies(data), strict=True):
        budget = policy["budget"]
        name = NO_LIMIT
        if budget is not None:
            many = data.attrs.get("nudge", "nudge") if budget["amount"] == 1 else data.attrs.get("nudges", "nudges")
            name = f"{budget['amount']:g} {many}{' for all together' if budget['shared'] else ''}"
        found.setdefault(name, []).append(label)
    return {name: labels for name, labels in found.items() if name != NO_LIMIT} or found


def mean_outcome(data: xr.Dataset) -> xr.DataArray:
    """The mean expected reward of patients so far, at every step or, without a trace, over the run."""
    data = check_results(data, "the mean outcome")
    if "step" not in data.dims:
        whole: xr.DataArray = data["total_outcome"] / config(data)["horizon"]
        return whole.transpose(*RUN_AXES).rename("mean_outcome")
    _needs_beginning(data, "the mean outcome so far")
    so_far: xr.DataArray = data["outcome"].cumsum("step", skipna=False).assign_coords(step=data["step"]) / data["step"]
    return so_far.rename("mean_outcome").assign_attrs(long_name="mean outcome so far")


def clipped_share(data: xr.Dataset) -> xr.DataArray:
    """The share of rewards at a bound of the world, where clipping puts them: per policy and world."""
    data = check_results(data, "the share of clipped rewards")
    if "reward_bounds" not in data or "step" not in data.dims:
        raise InputError("the share of clipped rewards needs worlds with bounds=(low, high) and trace=True")
    low, high = (data["reward_bounds"].isel(bound=i) for i in range(2))
    reward = data["reward"]
    clipped = ((reward <= low) | (reward >= high)).sum(["replicate", "step"]) / reward.count(["replicate", "step"])
    return clipped.rename("clipped_share")


def clairvoyant_value(data: xr.Dataset) -> xr.DataArray:
    """CLV's value at every step, o u* + (1 - o) v*, for each policy's budget."""
    data = check_results(data, "the clairvoyant's value", truth=True)
    _needs_whole(data, "the clairvoyant's value")
    _needs_everyone(data, "the clairvoyant's value")
    return data["value"].copy(data=np.stack(_best_values(data))).rename("clairvoyant_value")


def _best_values(data: xr.Dataset) -> list[NDArray[np.float64]]:
    """CLV's value at every step for each policy: one array for all with the same budget and arrivals."""
    context, budgets = data["context"].values, data["budget"].values
    gap, blind = data["true_gap"].values, data["true_blind"].values
    known: dict[tuple[float, bool], tuple[int, NDArray[np.float64]]] = {}
    values = []
    for i, policy in enumerate(described_policies(data)):
        budget, shared = float(budgets[i]), _shared(policy)
        like, _ = known.get((budget, shared), (i, None))
        if like == i or not np.array_equal(context[like], context[i]):
            gaps = _at_contexts(gap, context[i])
            chosen = _together(clairvoyant, gaps, budget, shared=shared)
            known[budget, shared] = i, _at_contexts(blind, context[i]) + chosen * gaps
        values.append(known[budget, shared][1])
    return values


def _best_so_far(data: xr.Dataset) -> xr.DataArray:
    """CLV's cumulative value at every step, for each policy's budget."""
    values = _best_values(data)
    sums = {id(value): np.cumsum(value, axis=-1) for value in values}
    return data["value"].copy(data=np.stack([sums[id(value)] for value in values]))


def auxiliary_value(data: xr.Dataset) -> xr.DataArray:
    """AUX's value at every step: the policy's own revealer with theta known and arrivals unknown in advance.

    With theta known the fresh and the stale action never differ, so PD2's revealer is PD1's, and PACE has no debt.
    """
    data = check_results(data, "the auxiliary problem's value", truth=True)
    _needs_beginning(data, "the auxiliary problem's value")
    _needs_everyone(data, "the auxiliary problem's value")
    return data["value"].copy(data=_auxiliary_values(data)).rename("auxiliary_value")


def _auxiliary_values(data: xr.Dataset) -> NDArray[np.float64]:
    """AUX's value at every step for each policy."""
    gaps = _by_context(data, "true_gap")
    chosen = np.zeros(gaps.shape)
    for i, policy in enumerate(described_policies(data)):
        if policy["revealer"]["kind"] not in REVEALERS.named():
            raise InputError(f"the auxiliary problem is defined for compiled rules; got {policy['name']!r}")
        revealer, budget = Policy.from_dict(policy).revealer, float(data["budget"].values[i])
        if revealer.auxiliary == "rate":
            participants = data.sizes["world"] if _shared(policy) else 1
            chosen[i] = budget / (config(data)["horizon"] * participants)
        elif revealer.auxiliary == "price":
            scaled = gaps[i] / _scale(data, policy)
            chosen[i] = _together(auxiliary, scaled, budget, shared=_shared(policy))
        elif revealer.auxiliary == "rank":
            _needs_whole(data, "the auxiliary problem of PACE")
            ranks = _ranks(data, shared=_shared(policy))
            chosen[i] = _together(paced_auxiliary, ranks[i], budget, shared=_shared(policy))
        else:
            raise InputError(
                f"the auxiliary problem of {policy['name']!r} is not defined; expected naive, PD1, PD2, or PACE with "
                "value='paper' and without a coin, guard or response"
            )
    return _by_context(data, "true_blind") + chosen * gaps


def decomposition(data: xr.Dataset) -> xr.Dataset:
    """Regret as information reveal loss (CLV - AUX) plus bandit learning loss (AUX - ALG), at every step."""
    data = check_results(data, "the decomposition", truth=True)
    _needs_whole(data, "the decomposition")
    _needs_everyone(data, "the decomposition")
    best = _best_so_far(data)
    known = data["value"].copy(data=np.cumsum(_auxiliary_values(data), axis=-1))
    got = data["value"].cumsum("step", skipna=False)
    parts = {
        "information_reveal_loss": best - known,
        "bandit_learning_loss": known - got,
        "regret": best - got,
    }
    return xr.Dataset(parts).assign_coords(step=data["step"])


def spend(data: xr.Dataset) -> xr.DataArray:
    """Expected reveals spent so far, at every step."""
    data = check_results(data, "spending over time")
    _needs_beginning(data, "spending over time")
    return data["probability"].cumsum("step", skipna=False).assign_coords(step=data["step"]).rename("spend")


def _shared(policy: dict[str, Any]) -> bool:
    return policy["budget"] is not None and bool(policy["budget"]["shared"])


def _ranks(data: xr.Dataset, *, shared: bool) -> NDArray[np.float64]:
    """PACE's rank of every moment by true gaps, among the participant's own or among those of all sharers."""
    gaps, weights = data["true_gap"].values, data["context_probs"].values
    if shared:
        ranks = pace_ranks(gaps.ravel(), weights.ravel() / len(gaps)).reshape(gaps.shape)
    else:
        ranks = pace_ranks(gaps, weights)
    return _at_contexts(ranks, data["context"].values)


def _together(
    rule: Callable[[NDArray[np.float64], float], NDArray[np.float64]],
    gaps: NDArray[np.float64],
    budget: float,
    *,
    shared: bool,
) -> NDArray[np.float64]:
    """The reveals that a rule chooses from gaps[W, R, T]: for each run, or for all participants of a replicate."""
    if not shared:
        return rule(gaps, budget)
    worlds, replicates, steps = gaps.shape
    in_turn = gaps.transpose(1, 2, 0).reshape(replicates, steps * worlds)
    return rule(in_turn, budget).reshape(replicates, steps, worlds).transpose(2, 0, 1)


def _by_context(data: xr.Dataset, name: str) -> NDArray[np.float64]:
    """A property of contexts, looked up for the context of every step: [policy, world, replicate, step]."""
    return _at_contexts(data[name].values, data["context"].values)


def _at_contexts(table: NDArray[np.float64], context: NDArray[Any]) -> NDArray[np.float64]:
    """table[world, context] at every step: context[..., world, replicate, step]."""
    found: NDArray[np.float64] = table[np.arange(table.shape[0]).reshape(-1, 1, 1), context]
    return found


def _clairvoyant_totals(data: xr.Dataset) -> xr.DataArray:
    """CLV's value of whole runs, from the counts of contexts: the budget goes to the largest gaps first."""
    counts = data["context_count"].transpose("world", "replicate", "contexts").values
    gaps, blind = data["true_gap"].values, data["true_blind"].values
    order = np.argsort(-gaps, axis=1, kind="stable")
    sorted_gaps = np.maximum(np.take_along_axis(gaps, order, axis=1), 0.0)[:, None, :]
    sorted_counts = np.take_along_axis(counts, np.broadcast_to(order[:, None, :], counts.shape), axis=2)
    before = np.cumsum(sorted_counts, axis=2) - sorted_counts
    gains = []
    for budget in data["budget"].values:
        used = np.clip(budget - before, 0.0, sorted_counts)
        gains.append((used * sorted_gaps).sum(axis=2))
    value = (counts * blind[:, None, :]).sum(axis=2) + np.stack(gains)
    return data["total_value"].copy(data=value)


def described_policies(data: xr.Dataset) -> list[dict[str, Any]]:
    """The policies' descriptions, found by their labels, since the Dataset may be a selection of a larger one."""
    settings = config(data)
    found = _by_label(json.dumps(settings["policies"]), tuple(settings.get("labels", ())))
    labels = list(found)
    for label in data["policy"].values.tolist():
        if label not in found:
            raise InputError(f"policy {label!r} is not one the Dataset was made with; expected some of {labels}")
    return [found[label] for label in data["policy"].values.tolist()]


@lru_cache(maxsize=8)
def _by_label(described: str, labels: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Policies by their labels, from their description in JSON; several metrics share the result: do not change it."""
    from opportune.simulation.pack import policy_labels  # noqa: PLC0415  (only this needs it)

    policies = json.loads(described)  # files of earlier versions have no labels
    found = labels or tuple(policy_labels([Policy.from_dict(policy) for policy in policies]))
    return dict(zip(found, policies, strict=True))


def _scale(data: xr.Dataset, policy: dict[str, Any]) -> NDArray[np.float64]:
    """The divisor of true gaps under a policy, for each world: [W, 1, 1]."""
    if policy["revealer"]["scale"] == "range":
        bounds = data["value_range"].values
        scale = bounds[:, 1] - bounds[:, 0]
    else:
        scale = data["true_gap"].where(data["context_probs"] > 0).max("contexts").values
    return np.asarray(np.maximum(scale, LEAST_SCALE).reshape(-1, 1, 1), dtype=np.float64)


def _needs_trace(data: xr.Dataset, what: str) -> None:
    if "step" not in data.dims:
        raise InputError(f"{what} needs every step; run simulate with trace=True")


def _needs_beginning(data: xr.Dataset, what: str) -> None:
    """Reject a selection of steps without the first ones, for which sums so far would be wrong."""
    _needs_trace(data, what)
    steps = data["step"].values
    if steps.size == 0 or not np.array_equal(steps, np.arange(1, steps.size + 1)):
        raise InputError(f"{what} needs every step from the first on; got {_named(steps)}: {_TAKE_LATER}")


def _needs_whole(data: xr.Dataset, what: str) -> None:
    """Reject a selection of steps: the best over part of a run is not part of the best over all of it."""
    _needs_trace(data, what)
    horizon, steps = config(data)["horizon"], data["step"].values
    if not np.array_equal(steps, np.arange(1, horizon + 1)):
        raise InputError(f"{what} needs all {horizon} steps of a run; got {_named(steps)}: {_TAKE_LATER}")


def _needs_everyone(data: xr.Dataset, what: str) -> None:
    """Reject a selection of participants who share a budget: a clairvoyant would give it to those alone."""
    everyone: int = config(data)["worlds"]
    if data.sizes["world"] != everyone and any(map(_shared, described_policies(data))):
        raise InputError(
            f"{what} under a shared budget needs all {everyone} worlds; got {data.sizes['world']}: compute it for the "
            "whole Dataset, then select worlds"
        )


def _named(steps: NDArray[Any]) -> str:
    if steps.size == 0:
        return "none"
    return f"{steps.size} of them between steps {steps.min()} and {steps.max()}"
