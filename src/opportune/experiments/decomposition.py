"""The sources of regret over the horizon: information reveal loss, bandit learning loss, and the theorem's bound."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import xarray as xr

from opportune.analysis import bounds
from opportune.analysis.clairvoyant import minimum_gap
from opportune.analysis.metrics import clairvoyant_value
from opportune.analysis.metrics import decomposition as decompose
from opportune.analysis.plots import legend_outside, new_figure
from opportune.analysis.styles import POLICIES, Style
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import Claim, claim, measure, without_exception
from opportune.experiments.record import Table
from opportune.experiments.studies import study_worlds
from opportune.policy import pd2_ucb
from opportune.simulation.run import simulate
from opportune.worlds.linear import LinearWorld


def config(quick: bool) -> Config:
    """Horizons from 100 to 3000 with budgets that grow as the square root of the horizon (Assumption 1)."""
    horizons = [100, 300, 1000] if quick else [100, 300, 1000, 3000]
    return {
        "instances": 20 if quick else 50, "replications": 2 if quick else 6,
        "horizons": horizons, "budgets": [round(10 * (t / 300) ** 0.5) for t in horizons], "scale": "adaptive",
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """One task per horizon."""
    return [f"T{t}" for t in config["horizons"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """Losses of PD2 and the bounds at one horizon, for every instance."""
    horizon = int(task[1:])
    budget = float(config["budgets"][config["horizons"].index(horizon)])
    worlds = study_worlds(config["instances"], seed)
    data = simulate(
        worlds, pd2_ucb(budget, scale=config["scale"]), horizon=horizon, replicates=config["replications"], seed=seed,
        progress=False,
    )  # fmt: skip
    parts = decompose(data).isel(policy=0, drop=True).mean("replicate")
    gain = (clairvoyant_value(data) - _blind(data)).isel(policy=0, drop=True).sum("step").mean("replicate")
    tolerance = data["tolerance"].isel(policy=0, drop=True).sum("step").mean("replicate")
    learning = np.array([_learning_bound(w, horizon, budget, float(tolerance[i])) for i, w in enumerate(worlds)])
    whole = [
        bounds.regret_bound(
            learning[i], budget=budget, least_gap=float(minimum_gap(w.gaps / w.largest_gap)),
            clairvoyant_value=float(gain[i]),
        )
        for i, w in enumerate(worlds)
    ]  # fmt: skip
    last = parts.isel(step=-1, drop=True)
    return xr.Dataset(
        {
            **{str(name): ("world", values.values) for name, values in last.data_vars.items()},
            "learning_bound": ("world", learning),
            "regret_bound": ("world", np.array(whole, dtype=np.float64)),
            "clairvoyant_gain": ("world", gain.values),
        },
        attrs={"horizon": horizon, "budget": budget},
    )


def _blind(data: xr.Dataset) -> xr.DataArray:
    """v* of every step; one public stratum, so the same for every context."""
    return data["true_blind"].isel(contexts=0, drop=True)


def _learning_bound(world: LinearWorld, horizon: int, budget: float, tolerance_sum: float) -> float:
    """Proposition 2 with c_max = 1, its smallest possible value: a loss below this is below the bound for any c_max."""
    problem = world.problem
    largest = float(np.linalg.norm(problem.features / problem.units, axis=2).max())
    radius = bounds.radius_bound(
        horizon, dimension=problem.d, norm_bound=problem.theta_bound, feature_bound=largest, delta=problem.delta,
        noise_scale=problem.noise_sd,
    )  # fmt: skip
    return float(
        bounds.bandit_learning_loss_bound(
            horizon, dimension=problem.d, budget=budget, radius=radius, tolerance_sum=tolerance_sum,
            largest_gap=float(np.abs(world.gaps).max()), norm_bound=problem.theta_bound, feature_bound=largest,
        )
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Losses and bounds over the horizon."""
    names = ("information_reveal_loss", "bandit_learning_loss", "regret", "learning_bound", "regret_bound")
    numbers = {task: {n: float(d[n].mean()) for n in names} for task, d in parts.items()}
    return Findings(
        found=_found(config, numbers),
        numbers=numbers,
        claims=_claims(config, parts),
        pictures=[_picture(config, numbers)],
        tables=[_table(config, numbers)],
    )


def _found(config: Config, numbers: Mapping[str, dict[str, float]]) -> str:
    """Which part is larger, how both grow, and how far the bounds are above them."""
    first, last = (f"T{t}" for t in (config["horizons"][0], config["horizons"][-1]))
    said = " and ".join(
        f"{numbers[task]['bandit_learning_loss']:.0f} of {numbers[task]['regret']:.0f} at T = {task[1:]}"
        for task in (first, last)
    )
    share = max(n["regret"] / n["regret_bound"] for n in numbers.values())
    return (
        f"Most of PD2's regret is the price of learning the rewards, not of missing the best moments: {said}. The "
        f"paper's bound on the regret holds with room to spare: the mean regret is at most {100 * share:.1f}% of it."
    )


def _claims(config: Config, parts: Mapping[str, xr.Dataset]) -> list[Claim]:
    horizons, budgets = config["horizons"], config["budgets"]
    errors = [abs(d["information_reveal_loss"] + d["bandit_learning_loss"] - d["regret"]) for d in parts.values()]
    rate = {t: parts[f"T{t}"]["bandit_learning_loss"].values / t for t in horizons}
    per_reveal = {
        f"T = {t}, B = {b}": parts[f"T{t}"]["information_reveal_loss"].values / b
        for t, b in zip(horizons, budgets, strict=True)
    }
    least, *_, most = sorted(per_reveal, key=lambda label: float(per_reveal[label].mean()))
    return [
        without_exception(
            "Information reveal loss and bandit learning loss add up to the regret.",
            sum(int((error >= 1e-6).sum()) for error in errors),
            f"Largest difference {max(float(error.max()) for error in errors):.1e}.",
        ),
        _bound_claim(
            "The bandit learning loss stays below Proposition 2's bound on every instance.",
            {task: d["bandit_learning_loss"] / d["learning_bound"] for task, d in parts.items()},
        ),
        _bound_claim(
            "The regret stays below Theorem 1's bound on every instance.",
            {task: d["regret"] / d["regret_bound"] for task, d in parts.items()},
        ),
        claim(
            "The bandit learning loss is sublinear: its mean per step falls as the horizon grows.",
            "Fall of the loss per step",
            [measure(f"from T = {a} to {b}", rate[a] - rate[b], above=0.0) for a, b in pairwise(horizons)],
            digits=3,
            note="Means: " + ", ".join(f"T = {t}: {r.mean():.3f}" for t, r in rate.items()) + ".",
        ),
        claim(
            "The information reveal loss is of the order of the budget, not of the horizon: per reveal, the largest "
            "is at most twice the least.",
            "Twice the least less the largest",
            [measure(f"{least} and {most}", 2.0 * per_reveal[least] - per_reveal[most], above=0.0)],
            digits=2,
            note="Means per reveal: " + "; ".join(f"{label}: {v.mean():.2f}" for label, v in per_reveal.items()) + ".",
        ),
    ]


def _bound_claim(statement: str, shares: Mapping[str, xr.DataArray]) -> Claim:
    """The claim that a bound holds on every instance; `shares` are the losses as shares of it, by horizon."""
    shown = "; ".join(f"T = {task[1:]}: {100 * float(share.max()):.1f}%" for task, share in shares.items())
    above = sum(int((share > 1.0).sum()) for share in shares.values())
    return without_exception(statement, above, f"Largest share of the bound: {shown}.")


def _table(config: Config, numbers: Mapping[str, dict[str, float]]) -> Table:
    labels = {
        "information_reveal_loss": "information reveal loss",
        "bandit_learning_loss": "bandit learning loss",
        "regret": "regret", "learning_bound": "Proposition 2's bound", "regret_bound": "Theorem 1's bound",
    }  # fmt: skip
    return Table(
        caption="Losses of PD2 and the bounds (with c_max = 1), means over instances",
        columns=[
            "",
            *(f"T = {t}, B = {b}" for t, b in zip(config["horizons"], config["budgets"], strict=True)),
        ],
        rows=[[label, *(f"{n[name]:.1f}" for n in numbers.values())] for name, label in labels.items()],
    )


def _picture(config: Config, numbers: Mapping[str, dict[str, float]]) -> Picture:
    figure, (axes,) = new_figure(height=4.2)
    ours = POLICIES["PD2"].color
    series = {
        "Theorem 1's bound": ("regret_bound", Style("0.65", "-"), 3.0),
        "Proposition 2's bound": ("learning_bound", Style("0.15", (0, (3, 3))), 1.5),
        "regret": ("regret", Style(ours, "-"), 1.8),
        "bandit learning loss": ("bandit_learning_loss", Style(ours, (0, (6, 2))), 1.8),
        "information reveal loss": ("information_reveal_loss", Style(ours, (0, (1, 1.5))), 1.8),
    }  # fmt: skip
    for label, (name, style, width) in series.items():
        values = [n[name] for n in numbers.values()]
        axes.plot(
            config["horizons"], values, marker="o", markersize=4, label=label, linewidth=width, **style._asdict()
        )  # fmt: skip
    axes.set_title("PD2's losses and their bounds")
    axes.set(xscale="log", yscale="log", xlabel="horizon T", ylabel="loss at the end (log scale)")
    axes.set_xticks(config["horizons"], [str(t) for t in config["horizons"]])
    axes.minorticks_off()
    legend_outside(axes)
    return Picture(
        name="decomposition",
        figure=figure,
        caption="PD2's regret, its two parts, and the paper's bounds, against the horizon (budget growing as its "
        "square root). Most of the regret comes from learning; the bounds hold with room to spare. They almost "
        "coincide, Theorem 1's slightly above Proposition 2's.",
        alt="Log-log chart: bounds far above regret, learning loss below regret, information reveal loss lowest.",
    )


EXPERIMENT = Experiment(
    name="decomposition",
    title="Where regret comes from",
    about="Regret is the price of not knowing the future arrivals (information reveal loss) plus the price of not "
    "knowing the rewards (bandit learning loss). The paper bounds both; here both are measured beside their bounds.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
