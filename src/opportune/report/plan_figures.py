"""The figures of a plan, each with a caption and alternative text."""

import math
import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from opportune.analysis.plots import legend_outside, new_figure
from opportune.analysis.styles import BLUE, GREY, INDIGO, OLIVE, VERMILION, Style, assign
from opportune.experiments.base import Picture
from opportune.planning.phrases import most_of
from opportune.planning.run import Plan
from opportune.study.naming import article

COINS = (Style(INDIGO, "--"), Style(OLIVE, "-."))
"""The styles of randomised designs, in order."""


def pictures(plan: Plan) -> list[Picture]:
    """All figures, in the order of the report."""
    return [
        _value(plan),
        _marginal(plan),
        _course(plan),
        _weekdays(plan),
        _fairness(plan),
        _robustness(plan),
        _power(plan),
    ]


def _lines(
    axes: Axes, x: pd.Series, table: pd.DataFrame, middle: str, low: str, high: str, label: str, style: Style
) -> None:
    axes.plot(x, table[middle], label=label, linewidth=1.8, marker="o", markersize=3.5, **style._asdict())
    axes.fill_between(x, table[low], table[high], color=style.color, alpha=0.18, linewidth=0)


def _value(plan: Plan) -> Picture:
    figure, (axes,) = new_figure(height=4.2)
    table = plan.value
    limited = table[table["budget"].notna()]
    for policy, style in assign(dict.fromkeys(limited["policy"])).items():
        here = limited[limited["policy"] == policy]
        _lines(axes, here["budget"], here, "outcome", "low", "high", policy, style)
    never, always = float(plan.values.never.mean()), float(plan.values.always.mean())
    levels = [(never, "never"), (always, "at every decision")]
    if plan.least.useful:
        levels.append((never + plan.least.share * (float(plan.values.most.mean()) - never), "target"))
    for level, text in levels:
        axes.axhline(level, color="0.4", linewidth=1, linestyle=":")
        right = text != "target"
        place = (1.0 if right else 0.02, level)
        side = "right" if right else "left"
        axes.annotate(text, place, xycoords=("axes fraction", "data"), ha=side, va="bottom", fontsize=8)
    axes.axvline(plan.settings.proposed, color="0.4", linewidth=1, linestyle="--")
    axes.set(
        xlabel=f"{plan.settings.nudges} per participant",
        ylabel=f"{plan.settings.unit} per day",
        title="The value of the budget",
    )
    legend_outside(axes)
    return Picture(
        name="plan-value",
        figure=figure,
        caption=f"Mean outcome per participant and day against the number of {plan.settings.nudges}, for each "
        f"policy, between never and {article(plan.settings.nudge)} at every decision. Bands: 95%, over participants "
        f"with their own effects. Dashed: the file’s {plan.settings.proposed:g} {plan.settings.nudges}.",
        alt="Line chart: outcome per day rises with the budget and levels off; one line per policy.",
    )


def _marginal(plan: Plan) -> Picture:
    figure, (axes,) = new_figure()
    table = plan.value
    here = table[(table["policy"] == plan.values.main) & table["one_more"].notna()]
    style = assign([plan.values.main])[plan.values.main]
    _lines(axes, here["budget"], here, "one_more", "one_more_low", "one_more_high", plan.values.main, style)
    axes.axhline(0.0, color="0.4", linewidth=1)
    axes.axvline(plan.settings.proposed, color="0.4", linewidth=1, linestyle="--")
    axes.set(
        xlabel=f"{plan.settings.nudges} per participant",
        ylabel=f"{plan.settings.unit} per day",
        title=f"The value of one more {plan.settings.nudge}",
    )
    return Picture(
        name="plan-marginal",
        figure=figure,
        caption=f"The gain in mean outcome per day from one more {plan.settings.nudge} for each participant, between "
        "one budget and the next. Band: 95%.",
        alt=f"Line chart: the value of one more {plan.settings.nudge} falls as the budget grows.",
    )


def _course(plan: Plan) -> Picture:
    figure, (axes,) = new_figure()
    course = plan.workload.course
    axes.fill_between(
        course["day"], 0.0, course["percentile_95"], color=BLUE, alpha=0.18, linewidth=0, label="95% of cohorts"
    )
    axes.plot(course["day"], course["mean"], color=BLUE, linewidth=1.8, label="mean")
    axes.set(xlabel="day of the study", ylabel=f"{plan.settings.nudges} per day", title="Workload over the study")
    axes.set_ylim(bottom=0.0)
    legend_outside(axes)
    return Picture(
        name="plan-workload",
        figure=figure,
        caption=f"{plan.settings.nudges.capitalize()} per day for the whole cohort of {plan.settings.participants:,}: "
        "the mean, and the level that 95% of simulated cohorts stay below.",
        alt="Area chart: daily workload rises while participants enrol, levels off, and falls as they finish.",
    )


def _weekdays(plan: Plan) -> Picture:
    figure, (axes,) = new_figure(height=3.2)
    table = plan.workload.weekdays
    axes.bar(table["weekday"].str[:3], table["nudges"], color=BLUE, width=0.6)
    errors = [table["nudges"] - table["low"], table["high"] - table["nudges"]]
    axes.errorbar(
        table["weekday"].str[:3], table["nudges"], yerr=np.nan_to_num(np.array(errors)), fmt="none", ecolor="0.2"
    )
    axes.plot(
        table["weekday"].str[:3], table["percentile_95"], "v", color=VERMILION, label="95th percentile of such days"
    )
    axes.set(ylabel=f"{plan.settings.nudges} per day", title="By weekday")
    legend_outside(axes)
    return Picture(
        name="plan-weekdays",
        figure=figure,
        caption="Mean workload on each weekday, with its 95% interval, and the 95th percentile of such days.",
        alt=f"Bar chart of the mean number of {plan.settings.nudges} on each weekday.",
    )


def _fairness(plan: Plan) -> Picture:
    levels = plan.fairness.levels
    figure, panels = new_figure(1, 2, width=9.6, height=max(3.2, 0.3 * len(levels) + 1.6))
    counts = plan.fairness.counts
    left = panels[0]
    edges = np.arange(math.floor(counts.min()), math.ceil(counts.max()) + 2) - 0.5
    if len(edges) > 40:
        edges = np.linspace(edges[0], edges[-1], 40)
    left.hist(counts, bins=edges.tolist(), weights=np.full(counts.size, 100.0 / counts.size), color=BLUE)
    left.set(xlabel=f"{plan.settings.nudges} of a participant", ylabel="% of participants", title="How many each gets")
    right = panels[1]
    if levels.empty:
        right.set_axis_off()
    else:
        names = [f"{row.variable} = {row.level}" for row in levels.itertuples()]
        place = np.arange(len(names))[::-1]
        right.barh(place, 100 * levels["rate"], color=GREY, height=0.6)
        errors = 100 * np.array([levels["rate"] - levels["low"], levels["high"] - levels["rate"]])
        right.errorbar(100 * levels["rate"], place, xerr=np.nan_to_num(errors), fmt="none", ecolor="0.2")
        right.set_yticks(place, names)
        right.set(xlabel=f"decisions with {article(plan.settings.nudge)}, %", title="At which moments")
        right.grid(visible=False, axis="y")
    return Picture(
        name="plan-fairness",
        figure=figure,
        caption=f"Left: how many {plan.settings.nudges} participants get. Right: the share of decisions with "
        f"{article(plan.settings.nudge)}, by level of each public or sensed variable, with 95% intervals.",
        alt=f"A histogram of {plan.settings.nudges} per participant, and bars of the rate by level of each variable.",
    )


def _robustness(plan: Plan) -> Picture:
    table = plan.robustness
    figure, (left, right) = new_figure(1, 2, width=9.6, height=0.38 * len(table) + 1.6)
    place = np.arange(len(table))[::-1]
    top = plan.settings.horizon
    least = np.minimum(table["least"].to_numpy(), top)
    low, high = (np.minimum(table[name].to_numpy(), top) for name in ("least_low", "least_high"))
    never = ~np.isfinite(table["least"].to_numpy())
    colours = [BLUE if i == 0 else VERMILION for i in range(len(table))]
    for y, x, a, b, colour, open_ended in zip(place, least, low, high, colours, never, strict=True):
        left.plot([a, b], [y, y], color=colour, linewidth=1.6)
        left.plot(x, y, ">" if open_ended else "o", color=colour)
    left.axvline(plan.least.budget, color="0.4", linewidth=1, linestyle="--")
    left.set_yticks(place, table["assumption"])
    left.set(xlabel=f"{plan.settings.nudges} needed", title="The least budget", xlim=(0, top * 1.04))
    spread = np.array([table["share"] - table["share_low"], table["share_high"] - table["share"]])
    for i, y in enumerate(place):
        right.errorbar(
            100 * table["share"].iloc[i], y, xerr=100 * np.abs(spread[:, i : i + 1]), fmt="o", color=colours[i]
        )
    right.set_yticks(place, [""] * len(table))
    right.set(
        xlabel=f"% of {most_of(plan)}",
        title=f"The share of {plan.least.budget} {plan.settings.nudges}",
    )
    return Picture(
        name="plan-robustness",
        figure=figure,
        caption=f"The answer with one assumption changed. Left: the least number of {plan.settings.nudges} for "
        f"the same share (an arrow: no number is enough). Right: the share that {plan.least.budget:,} bring. Bars: "
        "95%.",
        alt="Dots with intervals for each changed assumption, beside the plan as in the file.",
    )


def _power(plan: Plan) -> Picture:
    figure, panels = new_figure(1, 2, width=9.6)
    table = plan.power.table[plan.power.table["budget"] == plan.budget]
    first, *coins = dict.fromkeys(table["design"])
    styles = {**assign([first]), **dict(zip(coins, COINS, strict=False))}
    found = table[table["power"].notna()]
    shown = list(dict.fromkeys(found["effect"]))[: len(panels)]
    for axes, effect in zip(panels, shown, strict=False):
        for design, style in styles.items():
            here = found[(found["effect"] == effect) & (found["design"] == design)]
            if len(here):
                axes.plot(here["participants"], here["power"], label=design, linewidth=1.8, **style._asdict())
        axes.axhline(0.8, color="0.4", linewidth=1, linestyle=":")
        axes.axvline(plan.settings.participants, color="0.4", linewidth=1, linestyle=":")
        title = "\n".join(textwrap.wrap(effect[:1].upper() + effect[1:], 40))
        axes.set(xlabel="participants", ylabel="power", title=title, ylim=(-0.02, 1.04))
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    if shown:
        legend_outside(max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0])))
    else:
        panels[0].text(0.0, 0.5, "No design can detect anything: nothing is left to chance.", va="center")
    return Picture(
        name="plan-power",
        figure=figure,
        caption="The probability that the analysis detects the effect, with the right sign, at the 5% level, by the "
        "number of participants, at the plan’s budget. Dotted: 80%, and the participants planned. A design without a "
        "line cannot estimate the effect: nothing in it is left to chance.",
        alt="Line charts of power against the number of participants, one line per design.",
    )
