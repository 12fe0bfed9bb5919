"""What several experiments share: running a study and keeping only what figures and claims need."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from opportune.analysis.metrics import Z95, realised_regret, regret, spend
from opportune.analysis.plots import COLOURS, STYLES
from opportune.experiments.base import Claim
from opportune.policy import Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.simulation.run import simulate
from opportune.worlds import SimulatedWorld
from opportune.worlds.linear import LinearWorld, synthetic_worlds

SCALES = ("range", "adaptive")
TRACED = 1_500_000  # steps whose trace, some 130 MB, may be in memory at a time
LOOKS = {"naive": 2, "PD1": 1, "PD2": 0}  # places in plots.COLOURS and STYLES


def paper_policies(budget: float, scales: Sequence[str] = SCALES, unknown: str = "plugin") -> list[Policy]:
    """Naive, and PD1 and PD2 for each scale; named with the scale where there are several."""
    policies = [naive_ucb(budget, unknown=unknown)]
    for scale in scales:
        tail = f" {scale}" if len(scales) > 1 else ""
        policies.append(pd1_ucb(budget, scale=scale, unknown=unknown, name="PD1" + tail))
        policies.append(pd2_ucb(budget, scale=scale, unknown=unknown, name="PD2" + tail))
    return policies


@lru_cache(maxsize=4)
def study_worlds(instances: int, seed: int, *, known: bool = True) -> tuple[LinearWorld, ...]:
    """The paper's synthetic instances, made once: all pieces of an experiment, and most experiments, share them."""
    return tuple(synthetic_worlds(instances, seed, known=known))


def run_study(
    worlds: Sequence[SimulatedWorld],
    policies: Sequence[Policy],
    *,
    horizon: int,
    replicates: int,
    seed: int,
    reduce: Callable[[xr.Dataset], xr.Dataset] | None = None,
) -> xr.Dataset:
    """Simulate and reduce, by `reduce_trace` unless told otherwise.

    As many policies run together as `TRACED` allows, so that not all of a large study is in memory at a time.
    """
    together = max(1, TRACED // (len(worlds) * replicates * horizon))
    return xr.concat(
        [
            (reduce or reduce_trace)(
                simulate(worlds, some, horizon=horizon, replicates=replicates, seed=seed, progress=False)
            )
            for some in (policies[i : i + together] for i in range(0, len(policies), together))
        ],
        dim="policy", coords="different", compat="equals",
    )  # fmt: skip


def reduce_trace(data: xr.Dataset) -> xr.Dataset:
    """Curves averaged over replicates for each world, and totals of every run."""
    curves = {
        "regret": regret(data),
        "realised_regret": realised_regret(data),
        "probability": data["probability"],
        "price": data["price"],
        "spend": spend(data),
    }
    return xr.Dataset(
        {
            **{name: values.mean("replicate") for name, values in curves.items()},
            "final_regret": curves["regret"].isel(step=-1, drop=True),
            "final_realised": curves["realised_regret"].isel(step=-1, drop=True),
            "spent": data["spent"],
            "nudges": data["nudges"],
            "reveals": data["reveals"],
            "budget_of": data["budget"],
        }
    ).drop_vars(["budget", "world_name"], errors="ignore")


def reduce_to_totals(data: xr.Dataset) -> xr.Dataset:
    """Totals of every run."""
    return xr.Dataset(
        {
            "final_regret": regret(data).isel(step=-1, drop=True),
            "final_realised": realised_regret(data).isel(step=-1, drop=True),
            "spent": data["spent"],
            "reveals": data["reveals"],
        }
    ).drop_vars(["budget", "world_name"], errors="ignore")


def instance_means(data: xr.Dataset, name: str = "final_regret") -> xr.DataArray:
    """A total's mean over replicates, for each policy and world."""
    return data[name].mean("replicate")


def summary(data: xr.Dataset, name: str = "final_regret") -> dict[str, dict[str, float]]:
    """Mean over all runs and the half width of its 95% interval over instances, for each policy."""
    means: NDArray[np.float64] = instance_means(data, name).transpose("policy", "world").values
    half = Z95 * means.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
    return {
        str(p): {"mean": float(means[i].mean()), "half_width": float(half[i])}
        for i, p in enumerate(data["policy"].values)
    }


def compare(data: xr.Dataset, better: str, worse: str, name: str = "final_regret") -> dict[str, float]:
    """How much lower `better` is than `worse`: mean difference, its 95% half width, share of instances."""
    means = instance_means(data, name)
    difference: NDArray[np.float64] = (means.sel(policy=worse) - means.sel(policy=better)).values
    half = Z95 * difference.std(ddof=1) / np.sqrt(difference.size)
    return {
        "difference": float(difference.mean()),
        "half_width": float(half),
        "share": float((difference > 0).mean()),
    }


def ordering_claim(sentence: str, comparisons: dict[str, dict[str, float]]) -> Claim:
    """Held if every comparison's mean difference is positive; the evidence has each with its interval."""
    evidence = "; ".join(
        f"{name}: lower by {c['difference']:.1f} ± {c['half_width']:.1f}" for name, c in comparisons.items()
    )
    return Claim(claim=sentence, held=all(c["difference"] > 0 for c in comparisons.values()), evidence=evidence)


def share_claim(sentence: str, comparisons: dict[str, dict[str, float]], least: float) -> Claim:
    """Held if at least this share of instances agrees in every comparison."""
    evidence = "; ".join(f"{name}: {100 * c['share']:.0f}% of instances" for name, c in comparisons.items())
    return Claim(
        claim=sentence,
        held=all(c["share"] >= least for c in comparisons.values()),
        evidence=f"{evidence} (called almost all from {100 * least:.0f}%)",
    )


def draw_against(axes: Axes, x: Sequence[float], entries: dict[str, list[dict[str, float]]]) -> None:
    """A line a policy of means against x, with a band for their 95% intervals."""
    for policy, look in LOOKS.items():
        mean = np.array([e["mean"] for e in entries[policy]])
        half = np.array([e["half_width"] for e in entries[policy]])
        axes.plot(x, mean, color=COLOURS[look], linestyle=STYLES[look], marker="o", markersize=4, label=policy)
        axes.fill_between(x, mean - half, mean + half, color=COLOURS[look], alpha=0.18, linewidth=0)


def plus_minus(entry: dict[str, float]) -> str:
    """A mean with its interval, for tables."""
    return f"{entry['mean']:.1f} ± {entry['half_width']:.1f}"


def plain(values: Any) -> list[float]:
    """Numbers as plain floats."""
    return [float(v) for v in np.asarray(values).ravel()]
