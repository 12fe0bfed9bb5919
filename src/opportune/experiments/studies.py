"""Functions that several experiments share: running a study and keeping only the data for figures and claims."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from opportune.analysis.intervals import Interval, interval
from opportune.analysis.metrics import realised_regret, regret, spend
from opportune.analysis.plots import WIDE, legend_outside, new_figure
from opportune.analysis.styles import assign
from opportune.experiments.claims import Claim, claim, measure
from opportune.policy import Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.simulation.run import simulate
from opportune.worlds import SimulatedWorld
from opportune.worlds.linear import LinearWorld, synthetic_worlds

SCALES = ("range", "adaptive")
THIRD = 1 / 3  # of the steps: the first and the last third are compared
FALL = 0.02  # a curve falls if it drops by more than this share of the figure's height
TRACED = 1_500_000  # steps whose trace, some 130 MB, may be in memory at a time
PAPER = ("naive", "PD1", "PD2")
"""The paper's three policies."""

DrawnPanels = tuple[Figure, list[Axes]]


def paper_policies(budget: float, scales: Sequence[str] = SCALES, unknown: str = "plugin") -> list[Policy]:
    """Naive, and PD1 and PD2 for each scale; their names contain the scale if there are several."""
    policies = [naive_ucb(budget, unknown=unknown)]
    for scale in scales:
        tail = f" {scale}" if len(scales) > 1 else ""
        policies.append(pd1_ucb(budget, scale=scale, unknown=unknown, name="PD1" + tail))
        policies.append(pd2_ucb(budget, scale=scale, unknown=unknown, name="PD2" + tail))
    return policies


@lru_cache(maxsize=8)
def study_worlds(instances: int, seed: int, *, known: bool = True) -> tuple[LinearWorld, ...]:
    """The paper's synthetic instances, created once for all tasks."""
    return tuple(synthetic_worlds(instances, seed, known=known))


def reduce_trace(data: xr.Dataset) -> xr.Dataset:
    """Curves averaged over replicates for each world, totals of every run, and the timing and gaps of reveals."""
    curves = {
        "regret": regret(data),
        "realised_regret": realised_regret(data),
        "probability": data["probability"],
        "price": data["price"],
        "spend": spend(data),
    }
    return _dataset(
        {
            **{name: values.mean("replicate", skipna=False) for name, values in curves.items()},
            "final_regret": curves["regret"].isel(step=-1, drop=True),
            "final_realised": curves["realised_regret"].isel(step=-1, drop=True),
            "spent": data["spent"],
            "nudges": data["nudges"],
            "reveals": data["reveals"],
            "budget_of": data["budget"],
            **_reduce_reveals(data),
        }
    )


REVEALS = (
    "price_falls",
    *(f"{when}_{what}" for when in ("early", "late") for what in ("gap", "gap_of_instance", "spend")),
)
"""The fields that `reduce_trace` keeps besides curves and totals."""


def _reduce_reveals(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """How often the price fell, and the number and mean gap of reveals in the first and last third of the steps.

    Computed policy by policy: the rounding of a sum must not depend on which policies run together.
    """
    third = round(data.sizes["step"] * THIRD)
    runs = data.sizes["world"] * data.sizes["replicate"]
    policies = range(data.sizes["policy"])
    found: dict[str, list[Any]] = {
        "price_falls": [int((np.diff(data["price"].values[i], axis=-1) < 0.0).sum()) for i in policies]
    }
    for name, part in (("early", slice(None, third)), ("late", slice(-third, None))):
        weight, gap = (data[of].isel(step=part).values for of in ("probability", "gap"))
        spent = [weight[i].sum((1, 2)) for i in policies]
        gained = [(weight[i] * gap[i]).sum((1, 2)) for i in policies]
        with np.errstate(invalid="ignore"):  # NaN where nothing was spent
            found[f"{name}_gap"] = [gained[i].sum() / spent[i].sum() for i in policies]
            found[f"{name}_gap_of_instance"] = [gained[i] / spent[i] for i in policies]
        found[f"{name}_spend"] = [spent[i].sum() / runs for i in policies]
    return {
        name: xr.DataArray(np.array(values), dims=("policy", "world")[: np.ndim(values)])
        for name, values in found.items()
    }


def reduce_to_totals(data: xr.Dataset) -> xr.Dataset:
    """Totals of every run."""
    return keep_totals(data, regret=regret(data), realised_regret=realised_regret(data))


def keep_totals(data: xr.Dataset, *, regret: xr.DataArray, realised_regret: xr.DataArray) -> xr.Dataset:
    """Totals of every run, given its regrets."""
    return _dataset(
        {
            "final_regret": _last(regret),
            "final_realised": _last(realised_regret),
            "spent": data["spent"],
            "reveals": data["reveals"],
        }
    )


def _dataset(found: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """A Dataset of variables of the same runs, without coordinates, so that nothing needs alignment."""
    axes = {axis: values[axis].variable for values in found.values() for axis in values.dims if axis in values.coords}
    return xr.Dataset({name: values.variable for name, values in found.items()}, coords=axes)


def _last(values: xr.DataArray) -> xr.DataArray:
    return values.isel(step=-1, drop=True) if "step" in values.dims else values


def run_study(
    worlds: Sequence[SimulatedWorld],
    policies: Sequence[Policy],
    *,
    horizon: int,
    replicates: int,
    seed: int,
    reduce: Callable[[xr.Dataset], xr.Dataset] = reduce_trace,
    trace: bool = True,
) -> xr.Dataset:
    """Simulate and reduce; without a trace, only totals are available.

    As many policies run together as `TRACED` allows, so that a large study does not have to fit into memory.
    """
    together = max(1, TRACED // (len(worlds) * replicates * horizon)) if trace else len(policies)
    reduced = [
        reduce(
            simulate(
                worlds, policies[i : i + together], horizon=horizon, replicates=replicates, seed=seed, trace=trace,
                progress=False,
            )
        )
        for i in range(0, len(policies), together)
    ]  # fmt: skip
    return xr.concat(reduced, dim="policy", coords="different", compat="equals") if len(reduced) > 1 else reduced[0]


def run_together(
    worlds: Sequence[SimulatedWorld], policies: Sequence[Policy], *, participants: int, horizon: int, replicates: int,
    seed: int, trace: bool = False, change: Callable[[Any], Any] = lambda worlds: worlds,
) -> xr.Dataset:  # fmt: skip
    """Studies of `participants` each, with their own draws: one observation per study, totals per participant.

    `change` transforms a study's worlds before it runs.
    """
    studies = []
    for first in range(0, len(worlds) - participants + 1, participants):
        data = simulate(
            list(change(worlds[first : first + participants])), policies, horizon=horizon, replicates=replicates,
            seed=(seed + first) % 2**64, trace=trace, progress=False,
        )  # fmt: skip
        studies.append(reduce_to_totals(data).mean("world"))
    return xr.concat(studies, dim="world").transpose("policy", "world", "replicate", ...)


def instance_means(data: xr.Dataset, name: str = "final_regret") -> xr.DataArray:
    """A total's mean over replicates, for each policy and world."""
    return data[name].mean("replicate")


def _by_policy(data: xr.Dataset, name: str) -> dict[str, NDArray[np.float64]]:
    """A total's mean over replicates for each policy, as plain arrays over instances."""
    means = instance_means(data, name).transpose("policy", "world")
    return dict(zip(map(str, data["policy"].values), means.values, strict=True))


def summary(data: xr.Dataset, name: str = "final_regret") -> dict[str, dict[str, float]]:
    """For each policy, the mean over all runs and the half width of its 95% interval over instances."""
    return {policy: interval(values)._asdict() for policy, values in _by_policy(data, name).items()}


def advantage(data: xr.Dataset, better: str, worse: str, name: str = "final_regret") -> NDArray[np.float64]:
    """The loss of `worse` minus that of `better`, instance by instance."""
    means = _by_policy(data, name)
    return means[worse] - means[better]


def compare(data: xr.Dataset, better: str, worse: str, name: str = "final_regret") -> dict[str, float]:
    """The loss of `worse` minus that of `better`: mean difference, its 95% half width, share of instances."""
    difference = advantage(data, better, worse, name)
    mean, half_width = interval(difference)
    return {"difference": mean, "half_width": half_width, "share": float((difference > 0).mean())}


def lower_claim(
    statement: str, parts: Mapping[str, xr.Dataset], better: str, worse: str, *, name: str = "final_regret",
    note: str = "",
) -> Claim:  # fmt: skip
    """The claim that `better` is lower than `worse` in every part; the evidence names parts by their keys."""
    found = [measure(label, advantage(data, better, worse, name), above=0.0) for label, data in parts.items()]
    return claim(statement, f"{better} lower than {worse} by", found, note=note)


def share_claim(statement: str, parts: Mapping[str, xr.Dataset], better: str, worse: str, *, least: float) -> Claim:
    """The claim that `better` is lower in more than this share of instances, in every part."""
    found = [
        measure(label, 100.0 * (advantage(data, better, worse) > 0), above=100.0 * least, within=(0.0, 100.0))
        for label, data in parts.items()
    ]
    return claim(statement, f"Share of instances with {better} lower than {worse}", found, digits=0, unit="%")


def by_budget(parts: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Tasks B10, B20, ... under their names for readers."""
    return {f"B = {task.removeprefix('B')}": data for task, data in parts.items()}


def draw_against(x: Sequence[float], panels: Mapping[str, Mapping[str, list[dict[str, float]]]]) -> DrawnPanels:
    """A panel per title: means of each policy against x, with bands for their 95% intervals."""
    figure, axes_of = new_figure(1, len(panels), width=WIDE, height=4.0)
    for axes, (title, entries) in zip(axes_of, panels.items(), strict=True):
        for policy, style in assign(entries).items():
            mean = np.array([e["mean"] for e in entries[policy]])
            half = np.array([e["half_width"] for e in entries[policy]])
            axes.plot(x, mean, marker="o", markersize=4, label=policy, **style._asdict())
            axes.fill_between(x, mean - half, mean + half, color=style.color, alpha=0.18, linewidth=0)
        axes.set_title(title)
    legend_outside(*axes_of)
    return figure, axes_of


def falling_note(*parts: xr.Dataset) -> str:
    """An explanation of falling lines, if the mean curves have any."""
    for data in parts:
        curves = data["regret"].mean("world").values
        falls = (np.maximum.accumulate(curves, axis=-1) - curves).max()
        if falls > FALL * np.abs(curves).max():
            return (
                " Where a line falls or lies below 0, the policy is revealing while the clairvoyant saves its reveals "
                "for larger gaps to come: it is ahead for now and pays later, when its budget is spent."
            )
    return ""


def plus_minus(entry: dict[str, float]) -> str:
    """A mean with its interval, for tables."""
    return str(Interval(**entry))


def plain(values: Any) -> list[float]:
    """Numbers as plain floats."""
    return [float(v) for v in np.asarray(values).ravel()]
