"""The figures of a trial's analysis, each with a caption and alternative text."""

import re
import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from opportune.analysis.plots import legend_outside, new_figure
from opportune.analysis.styles import BLUE, GREY, VERMILION, assign
from opportune.experiments.base import Picture
from opportune.trial.run import Analysis, unit_of

WORDS = 42
MOST_REASONS = 8
STATUS = tuple(
    f"participants {status}" for status in ("completed", "withdrawn", "paused", "active", "at the last decision point")
)


def pictures(found: Analysis) -> list[Picture]:
    """All figures that the record allows, in the order of the report."""
    made = [_flow(found), _calibration(found), _forest(found), _over_time(found), _course(found), _policies(found)]
    return [picture for picture in made if picture is not None]


def _flow(found: Analysis) -> Picture:
    """Boxes from top to bottom, one column for all and one for each arm; beside them, why points were not eligible."""
    table = found.tables["flow"].set_index("stage")
    columns = list(table.columns) if len(table.columns) <= 2 else list(table.columns[1:])
    stages = [stage for stage in table.index if stage not in STATUS]
    alone = len(columns) == 1
    figure, (axes,) = new_figure(width=9.6, height=0.66 * len(stages) + 0.6)
    axes.set(xlim=(0, 2 if alone else len(columns)), ylim=(-len(stages), 0.6))
    axes.set_axis_off()
    for x, column in enumerate(columns):
        if not alone:
            axes.text(x + 0.5, 0.3, column, ha="center", va="center", weight="bold")
        for y, stage in enumerate(stages):
            value = table.loc[stage, column]
            text = f"{stage}: {'–' if pd.isna(value) else f'{int(value):,}'}"
            if stage == "with a reward":
                text += f" of {int(table.loc['decision points', column]):,} decision points"
            _box(axes, x, y, text)
            if y:
                arrow = {"arrowstyle": "-|>", "color": "0.35"}
                axes.annotate("", (x + 0.5, -y - 0.2), (x + 0.5, -y + 0.26), arrowprops=arrow)
    if alone:
        left = [f"{stage.removeprefix('participants ')} {int(table.loc[stage, columns[0]]):,}" for stage in STATUS
                if stage in table.index]  # fmt: skip
        _box(axes, 1, 0, "of them " + ", ".join(left) if left else "")
        why = [f"{r.reason} {r[2]:,}" for r in found.tables["reasons"].itertuples()][:MOST_REASONS]
        if "eligible for a nudge" in stages and why:
            _box(
                axes,
                1,
                stages.index("eligible for a nudge"),
                "\n".join(textwrap.wrap("not eligible: " + ", ".join(why), 60)),
            )
    return Picture(
        name="flow",
        figure=figure,
        caption="The flow of participants and decision points.",
        alt="Boxes from top to bottom: participants enrolled, decision points, eligible, nudged, answered, rewarded.",
    )


def _box(axes: Axes, x: float, y: float, text: str) -> None:
    if text:
        shape = FancyBboxPatch((x + 0.06, -y - 0.72), 0.88, 0.5, boxstyle="round,pad=0.02", fc="white", ec="0.35")
        axes.add_patch(shape)
        axes.text(x + 0.5, -y - 0.47, text, ha="center", va="center", fontsize=9)


def coefficient_in_words(coefficient: str) -> str:
    """A coefficient in words, without the formula's notation: "nudge:sleep[T.poor]" is about poor sleep."""
    if coefficient == "nudge:step":
        return "more per decision point"
    named = re.sub(r"^(?:action|arm)\[([^\]]*)\]", r"\1", coefficient.removeprefix("nudge:"))
    return named.replace("[T.", " = ").replace("]", "")


def _calibration(found: Analysis) -> Picture | None:
    table = found.tables["calibration"]
    if table.empty:
        return None
    figure, (axes,) = new_figure(height=4.2)
    expected = table["expected"] / table["decision points"]
    made = table["nudged"] / table["decision points"]
    error = 1.96 * np.sqrt(expected * (1.0 - expected) / table["decision points"])
    axes.plot([0, 1], [0, 1], color="0.4", linewidth=1, linestyle=":")
    axes.errorbar(expected, made, yerr=error, fmt="o", color=BLUE, ecolor=GREY)
    top = float(min(1.0, max(expected.max(), made.max()) * 1.15 + 0.02))
    axes.set(xlabel="probability on record", ylabel="share nudged", xlim=(0, top), ylim=(0, top))
    return Picture(
        name="calibration",
        figure=figure,
        caption="The share of nudges made against their recorded probability, at eligible decision points in classes. "
        "On the dotted line nudges are as frequent as recorded; bars: 95% of what chance allows.",
        alt="Dots of observed against recorded probability around the diagonal.",
    )


def _forest(found: Analysis) -> Picture | None:
    table = found.tables["effects"]
    if table.empty:
        return None
    table = table[~table["coefficient"].str.contains("period") & ~table["analysis"].str.contains("relative risk")]
    labels = [
        "\n".join(
            textwrap.wrap(
                r.analysis if r.coefficient == "nudge" else f"{r.analysis}: {coefficient_in_words(r.coefficient)}",
                WORDS,
            )
        )
        for r in table.itertuples()
    ]
    figure, (axes,) = new_figure(width=9.6, height=0.5 * len(table) + 1.2)
    place = np.arange(len(table))[::-1]
    for y, row in zip(place, table.itertuples(), strict=True):
        colour = VERMILION if row.kind == "primary" else BLUE
        axes.plot([row.low, row.high], [y, y], color=colour, linewidth=1.8)
        axes.plot(row.estimate, y, "s" if row.kind == "primary" else "o", color=colour)
    axes.axvline(0.0, color="0.4", linewidth=1, linestyle=":")
    axes.set_yticks(place, labels, fontsize=8)
    axes.set(xlabel=f"{unit_of(found.export)}, 95% interval")
    axes.grid(visible=False, axis="y")
    return Picture(
        name="effects",
        figure=figure,
        caption="Every effect with its 95% interval. The square is the primary analysis.",
        alt="Forest plot: a dot with an interval for each coefficient, around zero.",
    )


def _over_time(found: Analysis) -> Picture | None:
    table = found.tables["effects"]
    table = table[table["coefficient"].str.contains(r"C\(period\)", regex=True)] if len(table) else table
    if table.empty:
        return None
    figure, (axes,) = new_figure()
    place = np.arange(1, len(table) + 1)
    axes.errorbar(
        place, table["estimate"], yerr=[table["estimate"] - table["low"], table["high"] - table["estimate"]],
        fmt="o", color=BLUE,
    )  # fmt: skip
    axes.axhline(0.0, color="0.4", linewidth=1, linestyle=":")
    axes.set_xticks(place)
    axes.set(xlabel="part of the study", ylabel=f"effect of a nudge, {unit_of(found.export)}")
    return Picture(
        name="over-time",
        figure=figure,
        caption="The effect of a nudge in equal parts of the study, with 95% intervals.",
        alt="Dots with intervals, one for each part of the study.",
    )


def _course(found: Analysis) -> Picture | None:
    table = found.tables["course"]
    if table.empty:
        return None
    figure, panels = new_figure(1, 2, width=9.6)
    for arm, style in assign(dict.fromkeys(table["arm"])).items():
        here = table[table["arm"] == arm]
        _band(panels[0], here, str(arm), style._asdict())
        if not found.blinded:
            panels[1].plot(here["day"], here["nudges"], label=str(arm), **style._asdict())
    panels[0].set(xlabel="day of the study", ylabel=f"mean reward, {unit_of(found.export)}", title="Outcome")
    panels[1].set(xlabel="day of the study", ylabel="nudges", title="Nudges")
    if found.blinded:
        panels[1].set_axis_off()
    if table["arm"].nunique() > 1:
        legend_outside(panels[0])
    return Picture(
        name="course",
        figure=figure,
        caption="The mean reward by day of the study, with 95% intervals over participants"
        + ("." if found.blinded else ", and the nudges made."),
        alt="Lines over the days of the study.",
    )


def _band(axes: Axes, here: pd.DataFrame, label: str, style: dict[str, object]) -> None:
    axes.plot(here["day"], here["reward"], label=label, **style)  # type: ignore[arg-type]  # colour and dash
    axes.fill_between(
        here["day"], here["reward"] - 1.96 * here["se"], here["reward"] + 1.96 * here["se"], alpha=0.18, linewidth=0,
        color=str(style["color"]),
    )  # fmt: skip


def _policies(found: Analysis) -> Picture | None:
    if "policies" not in found.tables:
        return None
    table = found.tables["policies"]
    table = table[~table["policy"].str.contains(" - ")]
    figure, (axes,) = new_figure(height=0.5 * len(table) + 1.2)
    place = np.arange(len(table))[::-1]
    axes.errorbar(
        table["estimate"], place, xerr=[table["estimate"] - table["low"], table["high"] - table["estimate"]],
        fmt="o", color=BLUE,
    )  # fmt: skip
    axes.set_yticks(place, table["policy"])
    axes.set(xlabel=f"mean reward per decision, {unit_of(found.export)}")
    return Picture(
        name="policies",
        figure=figure,
        caption="The mean reward under other policies and budgets, simulated from the fitted formula; 95% intervals.",
        alt="Dots with intervals, one for each policy.",
    )
