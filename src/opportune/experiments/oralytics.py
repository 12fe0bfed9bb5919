"""Figure 3: tooth brushing (Oralytics), its reference policies, and variants that make it a real decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numba import njit
from numpy.typing import NDArray

from opportune.analysis.metrics import Z95
from opportune.analysis.plots import COLOURS, legend_outside, new_figure, style
from opportune.core import rng
from opportune.experiments.base import Claim, Config, Experiment, Findings, Picture, Table
from opportune.policy import (
    Always,
    Budget,
    FixedAction,
    LinUCB,
    Never,
    Policy,
    RandomAction,
    naive_ucb,
    pd1_ucb,
    pd2_ucb,
)
from opportune.simulation.pack import streams_of
from opportune.simulation.run import simulate
from opportune.worlds.brushing import step as brushing_step
from opportune.worlds.brushing.world import BrushingWorld, brushing_world

THREE = ("naive", "PD1", "PD2")
REFERENCES = ("never send", "coin flip", "always send")
UNREVEALED = "nothing revealed"
REVEALED = "everything revealed"
INFORMED = "informed sender"
PLACES = {name: place for place, name in enumerate(("PD2", "PD1", "naive", *REFERENCES, INFORMED))}
LATE = 40
"""Sessions at the end of a course, by which what a recommender holds has settled."""
PURSES = {
    "30 each": {"shared": False, "hard": False},
    "30 each, hard": {"shared": False, "hard": True},
    "300 shared": {"shared": True, "hard": False},
    "300 shared, hard": {"shared": True, "hard": True},
}

Numbers = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A reading of the experiment that differs from ours in one point."""

    label: str
    world: dict[str, Any] = field(default_factory=dict)
    scale: str = "range"


CHOICES = {
    "base": Choice(label="as run here: R = 0.5, W = 1"),
    "noise-0.1": Choice(label="R = 0.1", world={"noise_sd": 0.1}),
    "noise-0.25": Choice(label="R = 0.25", world={"noise_sd": 0.25}),
    "noise-1": Choice(label="R = 1, as in the proofs", world={"noise_sd": 1.0}),
    "bound-3": Choice(label="W = 3, so lam = 1/9", world={"theta_bound": 3.0}),
    "blind-known": Choice(label="means of prior and prop known", world={"blind": "known"}),
    "scale-adaptive": Choice(label="scale adaptive", scale="adaptive"),
    "effects-population": Choice(label="every user with the same effects", world={"effects": "population"}),
    "effects-seed-1": Choice(label="another draw of the effects", world={"seed": 1}),
    "robas2": Choice(label="ROBAS 2", world={"study": "robas2"}),
    "robas2-small": Choice(label="ROBAS 2, small effects", world={"study": "robas2", "effects": "small"}),
}
"""By the names of their pieces; `base` is the paper's experiment as this package reads it."""


def config(quick: bool) -> Config:
    """Ten users, 140 decisions, 30 reveals each, 50 trials; costs and open rates of the variants."""
    return {
        "trials": 5 if quick else 50, "horizon": 140, "budget": 30, "users": 10,
        "times": list(range(20, 141, 20)), "open_rates": [0.3, 0.7], "effects_seed": 0,
        "costs": [5, 20, 60] if quick else [5, 10, 20, 40, 60, 80],
    }  # fmt: skip


def pieces(config: Config) -> list[str]:
    """The paper's experiment and every choice, a piece for each cost and open rate, and the pooled budget."""
    variants = [f"cost-{c}" for c in config["costs"]] + [f"open-{r}" for r in config["open_rates"]]
    return [*CHOICES, *variants, "pooled"]


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """One piece: brushing so far at each of `times`, and totals, for every policy, user and trial."""
    worlds = _worlds(config, piece)
    policies = _policies(config, piece)
    data = simulate(worlds, policies, horizon=config["horizon"], replicates=config["trials"], seed=seed, progress=False)
    reduced = _reduce(data, config["times"])
    if piece == "base" or piece.startswith("cost-"):
        informed = run_informed(worlds, config["horizon"], config["trials"], seed)
        reduced = xr.concat([reduced, _reduce(informed, config["times"])], dim="policy", join="exact")
    return reduced


def _worlds(config: Config, piece: str) -> list[BrushingWorld]:
    settings: dict[str, Any] = {"users": config["users"], "seed": config["effects_seed"]}
    if piece in CHOICES:
        settings |= CHOICES[piece].world
    elif piece.startswith("cost-"):
        settings["message_cost"] = float(piece.removeprefix("cost-"))
    elif piece.startswith("open-"):
        settings["open_rate"] = float(piece.removeprefix("open-"))
    return brushing_world(settings.pop("study", "robas3"), **settings)


def _policies(config: Config, piece: str) -> list[Policy]:
    budget, users = config["budget"], config["users"]
    if piece == "pooled":
        made = []
        for purse, kind in PURSES.items():
            amount = budget * users if kind["shared"] else budget
            made += _three(Budget(amount, **kind), tail=f" {purse}")
        return made
    three = _three(Budget(budget), scale=CHOICES[piece].scale if piece in CHOICES else "range")
    return three if piece.startswith("open-") else three + _references()


def _three(budget: Budget, *, scale: str = "range", tail: str = "") -> list[Policy]:
    """The paper's three policies; gaps are divided by the range of rewards, 1, unless told otherwise."""
    return [
        naive_ucb(budget, name="naive" + tail),
        pd1_ucb(budget, scale=scale, name="PD1" + tail),
        pd2_ucb(budget, scale=scale, name="PD2" + tail),
    ]


def _references() -> list[Policy]:
    """Policies without a budget, which frame the scale."""
    return [
        Policy(recommender=FixedAction(action=0), revealer=Never(), name="never send"),
        Policy(recommender=RandomAction(), revealer=Never(), name="coin flip"),
        Policy(recommender=FixedAction(action=1), revealer=Never(), name="always send"),
        Policy(recommender=LinUCB(), revealer=Never(), name=UNREVEALED),
        Policy(recommender=LinUCB(), revealer=Always(), name=REVEALED),
    ]


def _reduce(data: xr.Dataset, times: Sequence[int]) -> xr.Dataset:
    """What the findings need: means so far at `times`, and totals."""
    steps = data["step"]
    kept = {"outcome": data["outcome"], "net": data["reward"] * brushing_step.CAP}
    so_far = {
        name: (values.cumsum("step") / steps).sel(step=list(times)).rename(step="time") for name, values in kept.items()
    }
    totals = {name: data[name] for name in ("spent", "nudges", "reveals")}
    early = data["revealed"].isel(step=slice(0, data.sizes["step"] // 4)).sum("step")
    sent = {
        "sent": data["action"].mean("step"),
        "sent_late": data["action"].isel(step=slice(-LATE, None)).mean("step"),
    }
    reduced = xr.Dataset({**so_far, **sent, **totals, "early_reveals": early})
    return reduced.drop_vars(["budget", "world_name"], errors="ignore")


def run_informed(worlds: Sequence[BrushingWorld], horizon: int, trials: int, seed: int) -> xr.Dataset:
    """One who knows the user's true parameters: sends where a message earns more now than it costs.

    It meets the same draws as the policies. It does not look ahead, though brushing today helps tomorrow: it
    need not be the best policy.
    """
    outcome = np.zeros((1, len(worlds), trials, horizon))
    action = np.zeros_like(outcome)
    streams = streams_of(0, trials, len(worlds))
    cost = np.array([w.message_cost for w in worlds])
    for i, world in enumerate(worlds):
        for r in range(trials):
            _informed_course(world.params, cost[i], np.uint64(seed), streams[r, i], outcome[0, i, r], action[0, i, r])
    axes = ("policy", "world", "replicate", "step")
    nothing = (axes[:3], np.zeros(outcome.shape[:3]))
    return xr.Dataset(
        {
            "outcome": (axes, outcome),
            "reward": (axes, (outcome - cost[:, None, None] * action) / brushing_step.CAP),
            "action": (axes, action),
            "spent": nothing,
            "nudges": nothing,
            "reveals": nothing,
            "revealed": (axes, np.zeros(outcome.shape, dtype=bool)),
        },
        coords={
            "policy": [INFORMED],
            "world": np.arange(len(worlds)),
            "replicate": np.arange(trials),
            "step": np.arange(1, horizon + 1),
        },
    )


@njit(cache=True)
def _informed_course(params, cost, seed, stream, outcomes, actions):  # type: ignore[no-untyped-def]
    """One user's course under the informed sender."""
    state = np.zeros(brushing_step.STATE_SIZE)
    x = np.zeros((2, 9 + 2 * int(params[brushing_step.HAS_DAY])))
    brushing_step.reset(params, state)
    for t in range(outcomes.shape[0]):
        brushing_step.arrive(params, state, t, x)
        gain = 0.0
        for action in range(2):
            p0, rate = brushing_step.zero_probability_and_rate(params, x, action)
            gain += (2 * action - 1) * brushing_step.expected_outcome(p0, rate)
        chosen = 1 if gain > cost else 0
        zero = rng.draw(seed, stream, t + 1, rng.ZERO)
        count = rng.draw(seed, stream, t + 1, rng.NOISE)
        q = brushing_step.outcome(params, x, chosen, zero, count)
        brushing_step.advance(params, state, t, q)
        outcomes[t] = q
        actions[t] = chosen


# What was found.


def summarise(values: xr.DataArray) -> Numbers:
    """Mean over users and trials with two standard errors; dims world, replicate.

    `se_paper` is the paper's formula, sum_i sd_i / (N sqrt(n)), which adds up the users' standard errors as
    if all erred the same way; `se` takes users as independent: sqrt(sum_i sd_i^2) / (N sqrt(n)).
    """
    every: NDArray[np.float64] = values.transpose("world", "replicate").values
    users, trials = every.shape
    sd = every.std(axis=1, ddof=1)
    share = users * np.sqrt(trials)
    return {
        "mean": float(every.mean()),
        "se_paper": float(sd.sum() / share),
        "se": float(np.sqrt((sd**2).sum()) / share),
    }


def paired(values: xr.DataArray, first: str, second: str) -> Numbers:
    """How much higher `first` is than `second`, trial by trial on the same draws, with its standard error."""
    difference = (values.sel(policy=first) - values.sel(policy=second)).mean("world")
    trials = difference.sizes["replicate"]
    return {
        "mean": float(difference.mean()),
        "se": float(difference.std("replicate", ddof=1) / np.sqrt(trials)),
    }


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Figure 3 with its claims, what a cost and openings change, pooled budgets, and what our choices do."""
    numbers: Numbers = {piece: _piece_numbers(data) for piece, data in parts.items()}
    numbers["curves"] = _curves(parts["base"])
    claims = [
        _claim_order("base", "PD2's mean brushing is above PD1's and naive's at the end (ROBAS 3).", parts),
        _claim_overlap(numbers["base"]),
        _claim_order("robas2", "The same order comes out in the second environment, ROBAS 2.", parts),
        _claim_choices(parts),
        _claim_sending(numbers["base"]),
        _claim_reveals(parts["base"], numbers["base"]),
        _claim_cost(config, parts),
        _claim_context(config, parts),
        _claim_opens(config, numbers),
        _claim_budget(config, parts["pooled"]),
        _claim_pooled(parts["pooled"]),
    ]
    pictures = [
        _picture_curves(config, numbers["curves"]),
        _picture_costs(config, numbers),
        _picture_opens(config, numbers),
        _picture_pooled(numbers["pooled"]),
        _picture_choices(parts),
    ]
    tables = [
        _table_end(numbers["base"], numbers["robas2"]),
        _table_costs(config, numbers),
        _table_pooled(parts),
    ]
    return Findings(numbers=numbers, claims=claims, pictures=pictures, tables=tables)


def _final(data: xr.Dataset, name: str = "net") -> xr.DataArray:
    """Mean over the whole course, in seconds a session, net of the cost unless told otherwise."""
    return data[name].isel(time=-1, drop=True)


def _piece_numbers(data: xr.Dataset) -> Numbers:
    net, brushed = _final(data), _final(data, "outcome").values
    totals = {name: data[name].values for name in ("sent", "sent_late", "spent", "reveals", "early_reveals")}
    numbers: Numbers = {}
    for i, policy in enumerate(data["policy"].values):
        one = {name: values[i] for name, values in totals.items()}
        numbers[str(policy)] = {
            **summarise(net[i]),
            "brushed": float(brushed[i].mean()),
            "sent": float(one["sent"].mean()),
            "late_always": float((one["sent_late"] == 1.0).mean()),
            "late_never": float((one["sent_late"] == 0.0).mean()),
            "spent": float(one["spent"].mean()),
            "reveals": float(one["reveals"].mean()),
            "early_reveals": float(one["early_reveals"].mean()),
        }
    return numbers


def _curves(data: xr.Dataset) -> Numbers:
    curves: Numbers = {"times": [int(t) for t in data["time"].values]}
    for policy in (*THREE, *REFERENCES):
        points = [summarise(data["outcome"].sel(policy=policy, time=t)) for t in data["time"].values]
        curves[policy] = {key: [p[key] for p in points] for key in ("mean", "se_paper", "se")}
    return curves


def _seconds(number: Numbers) -> str:
    return f"{number['mean']:.1f}"


def _within_noise(number: Numbers) -> bool:
    return bool(abs(number["mean"]) <= Z95 * number["se"])


def _difference(number: Numbers) -> str:
    """A paired difference with its 95% interval, and whether it can be told from chance."""
    half = Z95 * number["se"]
    if number["mean"] == half == 0.0:
        return "no difference at all"
    noise = ", within noise" if _within_noise(number) else ""
    return f"{number['mean']:+.1f} ± {half:.1f} s{noise}"


def _differences(data: xr.Dataset) -> dict[str, Numbers]:
    return {other: paired(_final(data), "PD2", other) for other in ("PD1", "naive")}


def _claim_order(piece: str, claim: str, parts: Mapping[str, xr.Dataset]) -> Claim:
    data = parts[piece]
    means = ", ".join(f"{p} {_seconds(summarise(_final(data.sel(policy=p))))}" for p in reversed(THREE))
    found = _differences(data)
    gaps = "; ".join(f"PD2 minus {other} {_difference(d)}" for other, d in found.items())
    trials = data.sizes["replicate"]
    return Claim(
        claim=claim,
        held=all(d["mean"] > 0 for d in found.values()),
        evidence=f"Mean seconds a session over the whole course: {means}. "
        f"Paired over {trials} trials, with 95% intervals: {gaps}.",
    )


def _interval(number: Numbers, key: str) -> tuple[float, float]:
    return number["mean"] - Z95 * number[key], number["mean"] + Z95 * number[key]


def _overlap(numbers: Numbers, key: str) -> bool:
    """Whether each two of the three intervals have a point in common."""
    intervals = [_interval(numbers[p], key) for p in THREE]
    return max(low for low, _ in intervals) <= min(high for _, high in intervals)


def _claim_overlap(numbers: Numbers) -> Claim:
    shown = {
        key: ", ".join(f"{p} {low:.1f} to {high:.1f}" for p in THREE for low, high in [_interval(numbers[p], key)])
        for key in ("se_paper", "se")
    }
    also = "also overlap" if _overlap(numbers, "se") else "do not all overlap"
    return Claim(
        claim="The 95% intervals of the three policies overlap (ROBAS 3, the paper's standard error).",
        held=_overlap(numbers, "se_paper"),
        evidence=f"{shown['se_paper']}. With standard errors for independent users they {also}: {shown['se']}.",
    )


def _claim_choices(parts: Mapping[str, xr.Dataset]) -> Claim:
    first, against = [], []
    for piece, choice in CHOICES.items():
        behind = [f"{other} ({_difference(d)})" for other, d in _differences(parts[piece]).items() if d["mean"] <= 0]
        first.append(not behind)
        if behind:
            against.append(f"{choice.label}: PD2 minus " + " and ".join(behind))
    return Claim(
        claim="PD2 comes first whichever way the open points of the experiment are read.",
        held=all(first),
        evidence=f"First of the three in {sum(first)} of {len(first)} readings. "
        + (f"Not first: {'; '.join(against)}." if against else ""),
    )


def _claim_sending(numbers: Numbers) -> Claim:
    best = numbers["always send"]
    others = (*THREE, *REFERENCES, REVEALED)
    shown = ", ".join(f"{p} {_seconds(numbers[p])}" for p in others)
    return Claim(
        claim="Without a cost sending never hurts: always sending does at least as well as every policy.",
        held=all(best["mean"] >= numbers[p]["mean"] for p in others),
        evidence=f"Mean seconds a session: {shown}. PD2 sent in {100 * numbers['PD2']['sent']:.0f}% of them.",
    )


def _claim_reveals(data: xr.Dataset, numbers: Numbers) -> Claim:
    gain = paired(_final(data), "PD2", UNREVEALED)
    late = ", ".join(
        f"{p} sent at each of the last {LATE} sessions in {100 * numbers[p]['late_always']:.0f}% of courses "
        f"and at none in {100 * numbers[p]['late_never']:.0f}%"
        for p in reversed(THREE)
    )
    return Claim(
        claim="Revealing pays: PD2 does better than the same recommender to whom nothing is ever revealed.",
        held=gain["mean"] > 0,
        evidence=f"PD2 minus nothing revealed: {_difference(gain)}. A recommender that has seen no data is "
        f"optimistic about messages and sent one in {100 * numbers[UNREVEALED]['sent']:.0f}% of sessions; "
        f"one that has seen everything explores, sent in {100 * numbers[REVEALED]['sent']:.0f}% and "
        f"reached {_seconds(numbers[REVEALED])} s. In the first quarter PD2 made "
        f"{numbers['PD2']['early_reveals']:.1f} of its {numbers['PD2']['reveals']:.1f} reveals, naive "
        f"{numbers['naive']['early_reveals']:.1f} of {numbers['naive']['reveals']:.1f}; after that the "
        f"recommender goes by what it holds: {late}.",
    )


def _claim_cost(config: Config, parts: Mapping[str, xr.Dataset]) -> Claim:
    found = {c: paired(_final(parts[f"cost-{c}"]), "PD2", "always send") for c in config["costs"] if c <= 20}
    shown = "; ".join(f"{c} s: {_difference(d)}" for c, d in found.items())
    return Claim(
        claim="At every cost of up to 20 s a message, PD2 earns more, net of the cost, than always sending.",
        held=all(d["mean"] > 0 for d in found.values()),
        evidence=f"PD2 minus always send, by cost: {shown}.",
    )


def _claim_context(config: Config, parts: Mapping[str, xr.Dataset]) -> Claim:
    """Against the better of always and never sending, cost by cost."""
    shown, held = [], []
    for c in config["costs"]:
        values = _final(parts[f"cost-{c}"])
        plain = max(("always send", "never send"), key=lambda p: float(values.sel(policy=p).mean()))
        knows, pd2 = paired(values, INFORMED, plain), paired(values, "PD2", plain)
        held.append(pd2["mean"] > 0)
        shown.append(f"{c} s ({plain}): informed {_difference(knows)}, PD2 {_difference(pd2)}")
    return Claim(
        claim="There is a cost at which PD2 beats both always and never sending.",
        held=any(held),
        evidence="Difference to the better of the two, by cost: " + "; ".join(shown) + ". Informed is one who knows "
        "the user's true parameters and sends where a message earns more at once than it costs.",
    )


def _spread(numbers: Numbers) -> float:
    means = [numbers[p]["mean"] for p in THREE]
    return float(max(means) - min(means))


def _open_pieces(config: Config) -> dict[float, str]:
    return {0.0: "base"} | {r: f"open-{r}" for r in config["open_rates"]}


def _claim_opens(config: Config, numbers: Numbers) -> Claim:
    spreads = {rate: _spread(numbers[piece]) for rate, piece in _open_pieces(config).items()}
    values = list(spreads.values())
    return Claim(
        claim="The more often users open the app unasked, the less it matters which revealer one has.",
        held=all(later < earlier for earlier, later in pairwise(values)),
        evidence="Highest minus lowest mean of the three: "
        + ", ".join(f"{s:.1f} s at open rate {rate:g}" for rate, s in spreads.items())
        + ".",
    )


def _pooled(data: xr.Dataset, policy: str, purse: str) -> xr.Dataset:
    return data.sel(policy=f"{policy} {purse}")


def _claim_budget(config: Config, data: xr.Dataset) -> Claim:
    """Every run of every policy, against its own limit."""
    total = config["budget"] * config["users"]
    kept, shown = [], []
    for purse, kind in PURSES.items():
        over = ["world"] if kind["shared"] else []
        limit = total if kind["shared"] else config["budget"]
        spent = max(float(_pooled(data, p, purse)["spent"].sum(over).max()) for p in THREE)
        nudges = max(int(_pooled(data, p, purse)["nudges"].sum(over).max()) for p in THREE)
        kept.append(spent <= limit + 1e-9 and (not kind["hard"] or nudges <= limit))
        shown.append(f"{purse}: expected {spent:.2f}, nudges {nudges}")
    return Claim(
        claim="No budget is exceeded: in expectation none, in nudges no hard one, own or shared.",
        held=all(kept),
        evidence="Largest of any run: " + "; ".join(shown) + ".",
    )


def _claim_pooled(data: xr.Dataset) -> Claim:
    values = _final(data)
    found = {p: paired(values, f"{p} 300 shared", f"{p} 30 each") for p in reversed(THREE)}
    return Claim(
        claim="One shared budget of 300 does better under PD2 than 30 for each of the ten users.",
        held=None if _within_noise(found["PD2"]) else found["PD2"]["mean"] > 0,
        evidence="Shared minus own: " + "; ".join(f"{p} {_difference(d)}" for p, d in found.items()) + ".",
    )


# Figures and tables.


def _look(policy: str) -> dict[str, Any]:
    return dict(style(policy, PLACES.get(policy, len(PLACES))))


def _draw_line(axes: Axes, at: Sequence[float], points: Numbers, policy: str) -> None:
    """Means with a band for the paper's 95% interval and bars for that of independent users.

    Policies stand a little beside each other, so that no bar hides another.
    """
    look = _look(policy)
    apart = 0.008 * (max(at) - min(at)) * (PLACES[policy] - 1 if policy in THREE else 0)
    x = np.array(at) + apart
    mean, wide, narrow = (np.array(points[key]) for key in ("mean", "se_paper", "se"))
    axes.errorbar(x, mean, yerr=Z95 * narrow, label=policy, linewidth=1.8, elinewidth=1.0, capsize=2, **look)
    axes.fill_between(x, mean - Z95 * wide, mean + Z95 * wide, color=look["color"], alpha=0.15, linewidth=0)


def _picture_curves(config: Config, curves: Numbers) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=9.6, height=4.2)
    for policy in (*reversed(THREE), *REFERENCES):
        _draw_line(left, curves["times"], curves[policy], policy)
    for policy in reversed(THREE):
        _draw_line(right, curves["times"], curves[policy], policy)
    for axes in (left, right):
        axes.set(xlabel="decisions so far", ylabel="mean brushing so far (seconds)", xticks=curves["times"])
    left.set_ylim(bottom=0.0)
    legend_outside(left)
    return Picture(
        name="oralytics",
        figure=figure,
        caption=f"Mean seconds brushed a session up to each time: {config['users']} users of ROBAS 3, "
        f"{config['trials']} trials, B = {config['budget']} (bands: 1.96 standard errors by the paper's "
        "formula; bars: for independent users). Left: the references show what there is to gain, from "
        "never to always sending. Right: the paper's three policies alone, on a scale that does not begin "
        "at 0.",
        alt="Mean brushing over time of PD2, PD1, naive and of never, randomly and always sending.",
    )


def _by_cost(config: Config, numbers: Numbers, policy: str) -> Numbers:
    found = [numbers["base"][policy], *(numbers[f"cost-{c}"][policy] for c in config["costs"])]
    return {key: [n[key] for n in found] for key in ("mean", "se_paper", "se")}


def _picture_costs(config: Config, numbers: Numbers) -> Picture:
    figure, (axes,) = new_figure(height=4.6)
    for policy in (*reversed(THREE), *REFERENCES, INFORMED):
        _draw_line(axes, [0, *config["costs"]], _by_cost(config, numbers, policy), policy)
    axes.set(xlabel="cost of a message (seconds of brushing)", ylabel="brushing net of cost (seconds a session)")
    axes.set_ylim(bottom=0.0)
    legend_outside(axes)
    return Picture(
        name="oralytics-cost",
        figure=figure,
        caption="Brushing less the cost of messages over the whole course, against that cost (bands and "
        "bars as before). The informed sender knows the user's true parameters and sends where a message "
        "earns more at once than it costs: where its line runs along always or never sending, the context "
        "is not worth knowing.",
        alt="Net brushing against the cost of a message, for the three policies and the references.",
    )


def _draw_dots(axes: Axes, labels: Sequence[str], found: Mapping[str, list[Numbers]]) -> None:
    """A dot for each label and policy: thick bars for independent users, thin by the paper's formula."""
    for i, (policy, numbers) in enumerate(found.items()):
        places = np.arange(len(labels)) + 0.18 * (i - 1)
        means = [n["mean"] for n in numbers]
        for key, width in (("se_paper", 1.0), ("se", 3.0)):
            axes.errorbar(
                places, means, yerr=[Z95 * n[key] for n in numbers], fmt="osD"[i], markersize=5,
                elinewidth=width, color=_look(policy)["color"], label=policy if key == "se" else None,
            )  # fmt: skip
    axes.set(xticks=np.arange(len(labels)), xticklabels=labels, ylabel="mean brushing (seconds a session)")
    legend_outside(axes)


def _picture_opens(config: Config, numbers: Numbers) -> Picture:
    figure, (axes,) = new_figure()
    rates = _open_pieces(config)
    found = {p: [numbers[piece][p] for piece in rates.values()] for p in reversed(THREE)}
    _draw_dots(axes, [f"{rate:g}" for rate in rates], found)
    axes.set_xlabel("probability that a user opens the app on a day")
    return Picture(
        name="oralytics-open",
        figure=figure,
        caption="Mean brushing against how often users open the app unasked (thick bars: 1.96 standard "
        "errors for independent users, thin: by the paper's formula; the scale does not begin at 0). "
        "Openings reveal free of charge: the closer the dots, the less the revealer matters.",
        alt="Mean brushing of PD2, PD1 and naive at each open rate.",
    )


def _picture_pooled(numbers: Numbers) -> Picture:
    figure, (axes,) = new_figure()
    _draw_dots(axes, list(PURSES), {p: [numbers[f"{p} {purse}"] for purse in PURSES] for p in reversed(THREE)})
    axes.set_xlabel("budget")
    return Picture(
        name="oralytics-pooled",
        figure=figure,
        caption="Thirty reveals for each of ten users against three hundred for all together, expected and "
        "hard (bars as before; the scale does not begin at 0).",
        alt="Mean brushing of PD2, PD1 and naive under four kinds of budget.",
    )


def _picture_choices(parts: Mapping[str, xr.Dataset]) -> Picture:
    figure, panels = new_figure(1, 2, width=9.6, height=4.4)
    places: NDArray[np.float64] = -np.arange(float(len(CHOICES)))
    for axes, other in zip(panels, ("PD1", "naive"), strict=True):
        found = [_differences(parts[piece])[other] for piece in CHOICES]
        axes.axvline(0.0, color="0.4", linewidth=1)
        axes.errorbar(
            [d["mean"] for d in found], places, xerr=[Z95 * d["se"] for d in found], fmt="o", markersize=5,
            color=COLOURS[0], elinewidth=1.6,
        )  # fmt: skip
        axes.set(xlabel=f"PD2 minus {other} (seconds a session)", yticks=places)
        axes.set_yticklabels([choice.label for choice in CHOICES.values()] if other == "PD1" else [])
    return Picture(
        name="oralytics-choices",
        figure=figure,
        caption="What the paper leaves open, one change at a time: PD2's lead over PD1 (left) and over naive "
        "(right), paired over trials, with 95% intervals. Right of the line PD2 is ahead; where an interval "
        "crosses it, the order is within noise.",
        alt="Dots with intervals on both sides of zero, one for each reading of the experiment.",
    )


def _table_end(robas3: Numbers, robas2: Numbers) -> Table:
    rows = []
    for policy in (*reversed(THREE), *REFERENCES, UNREVEALED, REVEALED):
        row: list[Any] = [policy]
        for numbers in (robas3[policy], robas2[policy]):
            row += [f"{numbers[key]:.2f}" for key in ("mean", "se_paper", "se")]
        row += [f"{100 * robas3[policy]['sent']:.0f}%", f"{robas3[policy]['reveals']:.1f}"]
        rows.append(row)
    return Table(
        caption="Mean seconds brushed a session over the whole course, with standard errors by the paper's "
        "formula and for independent users; share of sessions with a message and reveals a user (ROBAS 3)",
        columns=[
            "policy", "ROBAS 3", "SE, paper", "SE, independent", "ROBAS 2", "SE, paper", "SE, independent",
            "sent", "reveals",
        ],
        rows=rows,
    )  # fmt: skip


def _table_costs(config: Config, numbers: Numbers) -> Table:
    rows: list[list[Any]] = []
    for policy in (*reversed(THREE), *REFERENCES, INFORMED):
        points = _by_cost(config, numbers, policy)
        rows.append([policy, *(f"{m:.1f} ± {Z95 * e:.1f}" for m, e in zip(points["mean"], points["se"], strict=True))])
    return Table(
        caption="Brushing less the cost of messages, seconds a session (± 1.96 standard errors for independent users)",
        columns=["policy", *(f"cost {c} s" for c in (0, *config["costs"]))],
        rows=rows,
    )


def _table_pooled(parts: Mapping[str, xr.Dataset]) -> Table:
    """Reveals of the user who got fewest and most: what sharing does to fairness."""
    rows: list[list[Any]] = []
    for policy in reversed(THREE):
        for purse in PURSES:
            one = _pooled(parts["pooled"], policy, purse)
            number = summarise(_final(one))
            users = one["reveals"].mean("replicate")
            rows.append(
                [f"{policy}, {purse}", f"{number['mean']:.1f} ± {Z95 * number['se']:.1f}",
                 f"{float(one['spent'].sum('world').mean()):.1f}", int(one["nudges"].sum("world").max()),
                 f"{float(users.min()):.1f}", f"{float(users.max()):.1f}"]
            )  # fmt: skip
    return Table(
        caption="Own and shared budgets: brushing (seconds a session), expected nudges of all users "
        "together, the most nudges in any trial, and the mean number of reveals of the user with fewest "
        "and with most",
        columns=[
            "policy and budget",
            "brushing",
            "expected nudges",
            "most nudges",
            "fewest reveals",
            "most reveals",
        ],
        rows=rows,
    )


EXPERIMENT = Experiment(
    name="oralytics",
    title="Tooth brushing (Oralytics)",
    about="Ten users fitted to the ROBAS 3 data brush, or do not, twice a day for 70 days; a message "
    "beforehand may help. The paper's three policies, each with 30 reveals a user, stand beside plain "
    "references, then meet messages that cost, users who open the app unasked, and one budget for all.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
