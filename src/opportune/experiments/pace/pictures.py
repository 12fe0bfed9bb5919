"""The figures of the experiment on PACE."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from opportune.analysis.intervals import interval, mean_interval
from opportune.analysis.plots import WIDE, draw_curve, legend_outside, new_figure, plot_scatter
from opportune.analysis.styles import BLUE, GREY, POLICIES, SKY, WINE, Style, assign
from opportune.experiments.base import Config, Picture
from opportune.experiments.pace.grid import BRUSHING, brushing_task
from opportune.experiments.pace.growth import PRICE
from opportune.experiments.pace.numbers import Numbers, Parts, ahead
from opportune.experiments.pace.policies import (
    ADAPTIVE,
    BOLD,
    BY_REGRET,
    PACE,
    POINTWISE,
    PRINTED,
    REVEALED,
    REVEALED_POINTWISE,
    ROTATED,
    SECOND,
    SPLIT,
)
from opportune.experiments.pace.settings import SETTINGS
from opportune.experiments.pace.tables import LEFT_OUT, STUDIES
from opportune.experiments.studies import instance_means

CURVES = ("naive", "PD1 range", PRINTED, ADAPTIVE, ROTATED, PACE, POINTWISE)
FELT = ("naive", "PD1 range", PRINTED, ADAPTIVE, ROTATED, PACE, SECOND)
MARKERS = {ADAPTIVE: "o", ROTATED: "s", PACE: "D", BOLD: "v", "PACE, guarded": "^", POINTWISE: "P"}
TOP = 150.0  # of the regret axis; naive and PD1 exceed it, and would compress the rest


def all_pictures(config: Config, parts: Parts, numbers: Numbers) -> list[Picture]:
    """Regret, instance by instance, its parts, growth, robustness, brushing."""
    return [
        _regret(config, parts, numbers),
        _scatter(config, parts),
        _parts(config, numbers),
        _growth(config, numbers),
        _robustness(config, numbers),
        _brushing(config, parts),
    ]


def _regret(config: Config, parts: Parts, numbers: Numbers) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=WIDE, height=4.6)
    first, budgets = config["budgets"][0], config["budgets"]
    data = parts[f"known-B{first}"]
    styles = assign([*CURVES, SECOND])
    for policy in CURVES:
        draw_curve(left, mean_interval(data["regret"].sel(policy=policy)), policy, styles[policy])
    for policy in FELT:
        entries = [numbers["known"][str(b)]["realised_regret"][policy] for b in budgets]
        _draw_means(right, budgets, entries, styles[policy], policy if policy == SECOND else None)
    floor = numbers["known"][str(first)]["realised_regret"][REVEALED_POINTWISE]["mean"]
    right.axhline(floor, linewidth=1.4, label="everything revealed", **POLICIES[REVEALED]._asdict())
    left.set(title=f"The paper's regret over time, B = {first}", xlabel="step", ylabel="cumulative regret")
    left.set_ylim(0, TOP)
    right.set(title="What patients lose, at the end", xlabel="budget B", yscale="log")
    right.set_ylabel("realised regret (log scale)")
    right.set_yticks(ticks := [15, 20, 30, 50, 100, 200, 400], [str(t) for t in ticks])
    right.set_xticks(budgets, [str(b) for b in budgets])
    right.minorticks_off()
    legend_outside(left, right)
    shown = ", ".join(f"{p} {numbers['known'][str(first)]['regret'][p]['mean']:.0f}" for p in reversed(CURVES))
    felt = ", ".join(f"{p} {numbers['known'][str(first)]['realised_regret'][p]['mean']:.0f}" for p in reversed(FELT))
    return Picture(
        name="pace",
        figure=figure,
        caption=f"The paper's study, p known. Left: regret so far at B = {first}, mean over instances with a 95% band "
        "(naive and PD1 exceed the plot); the paper's measure compares with an average context, so PACE ranks by the "
        "paper's value here. Right: the actual loss of patients by budget, with PACE's second edition; dotted: the "
        f"loss if every step is revealed. At the end of the left panel: {shown}. Realised, B = {first}: {felt}.",
        alt="Regret over time, and realised regret against the budget; PACE's lines lie far below the paper's, the "
        "second edition on the dotted floor.",
    )


def _draw_means(axes: Axes, x: Sequence[float], entries: Sequence[dict[str, float]], style: Style,
                label: str | None = None) -> None:  # fmt: skip
    """Draw means with 95% bands against a number."""
    mean = np.array([e["mean"] for e in entries])
    half = np.array([e["half_width"] for e in entries])
    axes.plot(x, mean, marker="o", markersize=4, linewidth=1.6, label=label, **style._asdict())
    axes.fill_between(x, mean - half, mean + half, color=style.color, alpha=0.15, linewidth=0)


def _scatter(config: Config, parts: Parts) -> Picture:
    budgets = config["budgets"]
    figure, panels = new_figure(1, len(budgets), width=WIDE, height=3.9)
    for axes, b in zip(panels, budgets, strict=True):
        means = instance_means(parts[f"known-B{b}"])
        ours = means.sel(policy=PACE).values
        plot_scatter(axes, means.sel(policy=PRINTED).values, ours, "PD2", PACE, color=SKY)
        axes.scatter(means.sel(policy=ADAPTIVE).values, ours, s=18, color=BLUE, alpha=0.75, linewidths=0, marker="s")
        for collection, label in zip(axes.collections, (PRINTED, ADAPTIVE), strict=True):
            collection.set_label(label)
        low = 0.8 * float(ours.min())
        axes.set(title=f"B = {b}", xscale="log", yscale="log", xlim=(low, None), ylim=(low, None))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator([20, 50, 100, 200, 400]))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(NullLocator())
    legend_outside(panels[0])
    return Picture(
        name="pace-scatter",
        figure=figure,
        caption="Regret at the end for each instance, on log scales: PACE against PD2 as printed (range) and PD2 "
        "adaptive. A dot below the diagonal is an instance on which PACE does better.",
        alt="Scatter plots of PACE against PD2, two dots per instance, all far below the diagonal.",
    )


def _parts(config: Config, numbers: Numbers) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=WIDE, height=4.2)
    budgets = config["budgets"]
    width = 0.8 / len(SPLIT)
    for i, policy in enumerate(SPLIT):
        colour = assign(SPLIT)[policy].color
        at = np.arange(len(budgets)) + (i - (len(SPLIT) - 1) / 2) * width
        found = [numbers["known"][str(b)] for b in budgets]
        lost = np.array([f["information_reveal_loss"][policy]["mean"] for f in found])
        whole = np.array([f["regret"][policy]["mean"] for f in found])
        left.bar(at, lost, 0.92 * width, color=colour, label=policy)
        left.bar(at, whole - lost, 0.92 * width, bottom=lost, color=colour, alpha=0.35)
    left.set(title="Arrivals (solid) and rewards (pale)", ylabel="regret at the end", xlabel="budget B")
    left.set_xticks(range(len(budgets)), [str(b) for b in budgets])
    legend_outside(left)
    colours = dict.fromkeys(LEFT_OUT, GREY) | {PACE: WINE, ADAPTIVE: BLUE}
    places = -np.arange(len(LEFT_OUT))
    for j, b in enumerate(budgets):
        entries = [numbers["known"][str(b)]["regret"][policy] for policy in LEFT_OUT]
        right.barh(
            places - (j - (len(budgets) - 1) / 2) * 0.26, [e["mean"] for e in entries], 0.24,
            xerr=[e["half_width"] for e in entries], color=[colours[p] for p in LEFT_OUT],
            alpha=(0.5, 0.75, 1.0)[-len(budgets) :][j], error_kw={"elinewidth": 1, "ecolor": "0.3"},
        )  # fmt: skip
    right.set_yticks(places, [f"without {words}" if p != PACE else "PACE" for p, words in LEFT_OUT.items()])
    right.set(title="One idea left out", xlabel=f"regret at the end, B = {', '.join(map(str, budgets))} downwards")
    right.grid(visible=False, axis="y")
    return Picture(
        name="pace-parts",
        figure=figure,
        caption="Left: regret in two parts, the cost of not knowing the arrivals (solid) and the cost of not knowing "
        "the rewards (pale). PACE all but removes the first and lowers the second. Right: PACE with one of its three "
        "ideas left out, with 95% intervals over instances.",
        alt="Stacked bars of the two losses for PD2 and PACE, and bars of PACE's regret without each idea.",
    )


def _growth(config: Config, numbers: Numbers) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=WIDE, height=4.2)
    horizons = config["horizons"]
    found = [numbers["growth"][str(t)] for t in horizons]
    price = POLICIES["PD2"]
    _draw_means(left, horizons, [f["lost"][PRICE] for f in found], price, "PD1 and PD2")
    _draw_means(left, horizons, [f["lost"][PACE] for f in found], POLICIES[PACE], PACE)
    _draw_means(right, horizons, [f["regret"][ADAPTIVE] for f in found], price, ADAPTIVE)
    _draw_means(right, horizons, [f["regret"][PACE] for f in found], POLICIES[PACE], PACE)
    floor = [f["floor"]["mean"] for f in found]
    right.plot(horizons, floor, linewidth=1.4, label=f"{REVEALED} (realised)", **POLICIES[REVEALED]._asdict())
    left.set(title="Rewards known: what arrivals cost", ylabel="information reveal loss (log scale)")
    right.set(title="Rewards learned: regret", ylabel="regret at the end (log scale)")
    wanted = {left: (0.5, 1, 5, 20, 100, 500), right: (20, 30, 50, 100, 200, 500, 1000)}
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="horizon T, with B = T/10")
        axes.set_xticks(horizons, [f"{t:,}" for t in horizons])
        axes.set_yticks(wanted[axes], [f"{y:g}" for y in wanted[axes]])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize="small")
    return Picture(
        name="pace-growth",
        figure=figure,
        caption="Growth with the horizon at B = T/10 (bands: 95% over instances). Left: with rewards known, a price "
        "loses in proportion to T, the budget-ratio rule inside PACE a constant. Right: with rewards learned.",
        alt="Two log-log charts against T: PD's loss rises in a straight line, PACE's stays flat.",
    )


def _robustness(config: Config, numbers: Numbers) -> Picture:
    budgets, names = config["robust_budgets"], config["settings"]
    figure, panels = new_figure(1, len(budgets), width=WIDE, height=0.3 * len(names) + 1.7)
    styles = assign(BY_REGRET)
    for axes, b in zip(panels, budgets, strict=True):
        for policy in BY_REGRET:
            shown = {-i: e["regret"][policy] for i, name in enumerate(names) if (e := _at(numbers, name, b, budgets))}
            axes.errorbar(
                [e["mean"] for e in shown.values()], list(shown), xerr=[e["half_width"] for e in shown.values()],
                fmt=MARKERS[policy], markersize=5, color=styles[policy].color, label=policy, elinewidth=1,
            )  # fmt: skip
        axes.set(title=f"B = {b}", xlabel="regret at the end (log scale)", xscale="log")
        axes.set_yticks([-i for i in range(len(names))], [_named(n) for n in names] if axes is panels[0] else [])
        axes.set_xticks(ticks := [10, 20, 50, 100, 200, 500], [str(t) for t in ticks])
        axes.minorticks_off()
    legend_outside(panels[0])
    return Picture(
        name="pace-robustness",
        figure=figure,
        caption="One thing changed at a time: regret at the end, mean with 95% interval over instances, on a log "
        "scale. A star marks the exceptions, settings in which PACE was seen to lose or to gain little.",
        alt="Dots for six policies in each of the settings; PACE is leftmost in almost all of them.",
    )


def _at(numbers: Numbers, name: str, budget: int, budgets: Sequence[int]) -> Numbers | None:
    """A setting's numbers at a budget; a setting with another budget is shown in the last panel."""
    found: dict[str, Numbers] = numbers["settings"][name]
    own = [found[str(b)] for b in SETTINGS[name].budgets if budget == budgets[-1]]
    return own[0] if own else found.get(str(budget))


def _named(name: str) -> str:
    setting = SETTINGS[name]
    own = "".join(f", B = {b}" for b in setting.budgets)
    return setting.label + own + (" *" if setting.named else "")


def _brushing(config: Config, parts: Parts) -> Picture:
    figure, panels = new_figure(
        1, len(config["studies"]), width=WIDE if len(config["studies"]) > 1 else 6.4, height=4.0
    )
    others = [policy for policy in BRUSHING if policy != PACE]
    markers = dict(zip(others, ("D", "o", "s"), strict=True))
    for axes, study in zip(panels, config["studies"], strict=True):
        axes.axhline(0.0, color="0.4", linewidth=1)
        for i, other in enumerate(others):
            found = [interval(ahead(parts[brushing_task(study, c)], PACE, other)) for c in config["costs"]]
            axes.errorbar(
                np.arange(len(found)) + 0.16 * (i - 1), [f.mean for f in found], yerr=[f.half_width for f in found],
                fmt=markers[other], markersize=5, capsize=2, color=assign(BRUSHING)[other].color, label=f"over {other}",
            )  # fmt: skip
        axes.set(title=f"PACE's lead, {STUDIES[study]}", ylabel="seconds per session, net")
        axes.set_xlabel("cost of a message (seconds of brushing)")
        axes.set_xticks(range(len(config["costs"])), [str(c) for c in config["costs"]])
    legend_outside(panels[0])
    return Picture(
        name="pace-brushing",
        figure=figure,
        caption="Brushing net of the cost of messages, ten users, B = 30 each: PACE's lead over PD2 as printed "
        "(range), PD2 adaptive and PD2 with rotation, user by user on the same draws, with 95% intervals over users. "
        "Below the line PACE is behind.",
        alt="PACE's lead in seconds per session at each cost of a message, with intervals around it.",
    )
