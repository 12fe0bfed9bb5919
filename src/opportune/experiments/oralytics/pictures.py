"""The figures of the brushing experiment."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from opportune.analysis.intervals import interval
from opportune.analysis.plots import WIDE, legend_outside, new_figure
from opportune.analysis.styles import POLICIES
from opportune.experiments.base import Config, Picture
from opportune.experiments.oralytics.grid import CHOICES, MODELS, REFERENCES, THREE, open_tasks
from opportune.experiments.oralytics.informed import INFORMED
from opportune.experiments.oralytics.numbers import Floats, Numbers, lead
from opportune.experiments.oralytics.tables import by_cost
from opportune.experiments.oralytics.verdicts import Z95

PER_SESSION = "seconds per session"
STYLES = POLICIES | {"PD1": POLICIES["PD1 range"], "PD2": POLICIES["PD2 range"]}
"""PD1 and PD2 have scale range here, and the corresponding styles."""
SESSIONS_PER_DAY = 2


def all_pictures(config: Config, parts: Mapping[str, xr.Dataset], numbers: Numbers) -> list[Picture]:
    """Figure 3, then the effects of costs, openings, shared budgets and models, and our choices."""
    return [
        _curves(config, numbers["curves"]),
        _costs(config, numbers),
        _opens(config, parts),
        _shared(parts),
        _choices(parts),
    ]


def _draw_line(axes: Axes, at: Sequence[float], points: Numbers, policy: str) -> None:
    """Draw means with a band for the paper's 95% interval."""
    style = STYLES[policy]
    mean, half = np.array(points["mean"]), Z95 * np.array(points["se_paper"])
    axes.plot(at, mean, label=policy, linewidth=1.8, **style._asdict())
    axes.fill_between(at, mean - half, mean + half, color=style.color, alpha=0.15, linewidth=0)


def _curves(config: Config, curves: Numbers) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=WIDE, height=4.4)
    days = [time / SESSIONS_PER_DAY for time in curves["times"]]
    for policy in (*THREE, *REFERENCES):
        _draw_line(left, days, curves[policy], policy)
    for policy in THREE:
        _draw_line(right, days, curves[policy], policy)
    for axes, title in ((left, "With references"), (right, "The paper's three policies")):
        axes.set(title=title, xlabel="day", xticks=days)
        axes.set_ylabel("mean brushing so far (seconds)")
    left.set_ylim(bottom=0.0)
    legend_outside(left)
    return Picture(
        name="oralytics",
        figure=figure,
        caption=f"Mean seconds brushed per session up to each day: {config['users']} users of ROBAS 3, "
        f"{config['trials']} trials, B = {config['budget']} (bands: 1.96 standard errors by the paper's formula). "
        "Left: the references show the possible range, from never to always sending. Right: only the paper's three "
        "policies, on a scale that does not begin at 0.",
        alt="Mean brushing over time of PD2, PD1, naive and of never, randomly and always sending.",
    )


def _costs(config: Config, numbers: Numbers) -> Picture:
    figure, (axes,) = new_figure(height=4.6)
    for policy in (*THREE, *REFERENCES, INFORMED):
        _draw_line(axes, [0, *config["costs"]], by_cost(config, numbers, policy), policy)
    axes.set(title="Brushing net of the cost of messages", xlabel="cost of a message (seconds of brushing)")
    axes.set_ylabel(PER_SESSION)
    axes.set_ylim(bottom=0.0)
    legend_outside(axes)
    return Picture(
        name="oralytics-cost",
        figure=figure,
        caption="Brushing less the cost of messages over the whole course, against that cost (bands as before). The "
        "informed sender knows the user's true parameters and sends where a message earns more at once than it "
        "costs: where its line runs along always or never sending, the context is not worth knowing.",
        alt="Net brushing against the cost of a message, for the three policies and the references.",
    )


def _draw_differences(
    axes: Axes, found: Mapping[str, Floats], places: Sequence[float], policy: str, label: str
) -> None:
    """Draw a dot with a 95% interval over users for each difference, side by side."""
    intervals = [interval(values) for values in found.values()]
    axes.errorbar(
        places, [i.mean for i in intervals], yerr=[i.half_width for i in intervals], label=label, capsize=2,
        fmt={"PD2": "o", "PD1": "s", "naive": "D"}[policy], markersize=5, color=STYLES[policy].color,
    )  # fmt: skip


Series = Mapping[str, tuple[str, Mapping[str, Floats]]]
"""Differences by label: the policy whose style they have, and the values in each column."""


def _fill_differences(axes: Axes, title: str, xlabel: str, columns: Sequence[str], series: Series) -> None:
    """Fill a panel with differences: one column per name, one kind of dot per series."""
    axes.axhline(0.0, color="0.4", linewidth=1)
    for i, (label, (policy, found)) in enumerate(series.items()):
        places = [column + 0.16 * (i - (len(series) - 1) / 2) for column in range(len(columns))]
        _draw_differences(axes, found, places, policy, label)
    axes.set(title=title, xlabel=xlabel, ylabel=PER_SESSION, xticks=range(len(columns)), xticklabels=columns)
    axes.set_xlim(-0.5, len(columns) - 0.5)


def _opens(config: Config, parts: Mapping[str, xr.Dataset]) -> Picture:
    rates = {f"{rate:g}": parts[task] for rate, task in open_tasks(config).items()}
    series = {
        f"PD2 minus {other}": (other, {rate: lead(data, "PD2", other) for rate, data in rates.items()})
        for other in THREE[1:]
    }
    figure, (axes,) = new_figure(height=4.0)
    _fill_differences(axes, "PD2's lead", "probability that a user opens the app on a day", list(rates), series)
    legend_outside(axes)
    return Picture(
        name="oralytics-open",
        figure=figure,
        caption="PD2's lead over PD1 and naive by how often users open the app unasked, with 95% "
        "intervals over users. Openings are free reveals: the closer to 0, the less the revealer matters.",
        alt="PD2's lead over PD1 and naive at each open rate, with intervals.",
    )


def _shared(parts: Mapping[str, xr.Dataset]) -> Picture:
    figure, (left, right) = new_figure(1, 2, width=WIDE, height=4.0)
    budgets = {"in expectation": "", "hard": ", hard"}
    _fill_differences(
        left, "What sharing the budget brings", "kind of budget", list(budgets),
        {p: (p, {name: lead(parts["pooled"], f"{p} 300 shared{tail}", f"{p} 30 each{tail}")
                 for name, tail in budgets.items()}) for p in THREE},
    )  # fmt: skip
    _fill_differences(
        right, "What sharing the model brings", "users", ["as fitted", "all with the same effects"],
        {p: (p, {task: lead(parts[task], f"{p} pooled", f"{p} own") for task in MODELS}) for p in THREE},
    )  # fmt: skip
    legend_outside(left)
    return Picture(
        name="oralytics-pooled",
        figure=figure,
        caption="Left: three hundred reveals for ten users together minus thirty for each of them, for budgets kept in "
        "expectation and hard ones. Right: one model that all learn together minus one for each, budgets of 30 each. "
        "Differences in mean brushing with 95% intervals over users; above the line, sharing helps.",
        alt="Differences between shared and own budgets, and pooled and own models, for PD2, PD1 and naive.",
    )


def _choices(parts: Mapping[str, xr.Dataset]) -> Picture:
    figure, panels = new_figure(1, 2, width=WIDE, height=4.4)
    places = [-float(i) for i in range(len(CHOICES))]
    for axes, other in zip(panels, THREE[1:], strict=True):
        found = [interval(lead(parts[task], "PD2", other)) for task in CHOICES]
        axes.axvline(0.0, color="0.4", linewidth=1)
        axes.errorbar(
            [i.mean for i in found], places, xerr=[i.half_width for i in found], fmt="o", markersize=5,
            color=STYLES["PD2"].color, elinewidth=1.6,
        )  # fmt: skip
        axes.set(title=f"PD2 minus {other}", xlabel=PER_SESSION, yticks=places)
        axes.set_yticklabels([choice.label for choice in CHOICES.values()] if axes is panels[0] else [])
    return Picture(
        name="oralytics-choices",
        figure=figure,
        caption="Points that the paper leaves open, one change at a time: PD2's lead over PD1 (left) and over naive "
        "(right), user by user, with 95% intervals. Right of the line PD2 is ahead; where an interval crosses it, "
        "the order is not decided.",
        alt="Dots with intervals on both sides of zero, one for each reading of the experiment.",
    )
