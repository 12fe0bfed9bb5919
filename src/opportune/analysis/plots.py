"""Figures from Datasets: readable in print and by colour-blind readers."""

import io
import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from opportune import checks
from opportune.analysis.comparison import at_end, paired_difference, pick_reference
from opportune.analysis.intervals import RUNS, mean_interval
from opportune.analysis.metrics import (
    NO_LIMIT,
    clairvoyants,
    has_realised_regret,
    mean_outcome,
    realised_regret,
    regret,
    spend,
)
from opportune.analysis.styles import POLICIES, Style, assign
from opportune.errors import InputError
from opportune.files import write_whole

DPI = 150
WIDE = 9.6
"""Inches; wider figures would be too small to read on a page."""
BLOCKS = 30
"""The approximate number of blocks of steps over which probabilities are averaged."""

RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "svg.hashsalt": "opportune",
}


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 6.4, height: float = 3.8
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels in the package's style, without a window or global state."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = np.atleast_1d(figure.subplots(rows, columns)).ravel().tolist()
    return figure, panels


def as_it_is(label: str) -> str:
    """A label drawn literally: '$' does not begin a formula, and '_' does not hide it from the legend."""
    escaped = label.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def draw_curve(axes: Axes, curve: xr.Dataset, label: str, style: Style, *, per_day: int | None = None) -> None:
    """Draw a mean over steps or days with a band for its 95% interval; `curve` comes from `mean_interval`."""
    time = curve["step"] / (per_day or 1)
    axes.plot(time, curve["mean"], label=as_it_is(label), linewidth=1.8, **style._asdict())
    axes.fill_between(time, curve["low"], curve["high"], color=style.color, alpha=0.18, linewidth=0)


def draw_curves(
    axes: Axes, values: xr.DataArray, *, over: Sequence[str] = RUNS, per_day: int | None = None,
    styles: dict[str, Style] | None = None,
) -> None:  # fmt: skip
    """Draw one line per policy over steps or days, with a band for the 95% interval of the mean."""
    curves = mean_interval(values, over)
    labels = [str(label) for label in curves["policy"].values]
    styles = styles or assign(labels)
    for label in labels:
        draw_curve(axes, curves.sel(policy=label), label, styles[label], per_day=per_day)
    axes.set_xlabel("day" if per_day else "step")


def legend_outside(*panels: Axes) -> None:
    """Draw one legend for these panels above the whole figure, where it covers no line."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries = entries | {new: h for new, h in zip(labels, handles, strict=True) if new not in entries}
    figure = panels[0].get_figure(root=True)
    if figure is not None and entries:
        with mpl.rc_context(RC):
            columns = _legend_columns(list(entries), figure.get_figwidth())
            figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=columns)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """The most columns that fit into `width` inches, each as wide as its longest label; earlier columns are longer."""
    for columns in range(len(labels), 1, -1):
        rows, more = divmod(len(labels), columns)
        starts = [i * rows + min(i, more) for i in range(columns + 1)]
        longest = [max(map(len, labels[a:b])) for a, b in itertools.pairwise(starts)]
        if sum(0.85 + 0.078 * letters for letters in longest) <= width:
            return columns
    return 1


def block_means(values: xr.DataArray) -> tuple[xr.DataArray, int]:
    """Means of blocks of steps, each at its block's middle, and the number of steps in a block.

    A moving mean would cover fewer steps towards both ends, and bend there. All blocks have the same size, which
    divides the number of steps if a size near `BLOCKS` blocks does; otherwise the last few steps are left out.
    """
    steps = values.sizes["step"]
    wanted = max(1, round(steps / BLOCKS))
    near = range(max(1, wanted // 2), 2 * wanted + 1)
    size = min((n for n in near if steps % n == 0), key=lambda n: abs(n - wanted), default=wanted)
    blocks = values.assign_coords(step=values["step"].astype(np.float64)).coarsen(step=size, boundary="trim")
    means: xr.DataArray = blocks.mean()
    return means, size


def days_of(data: xr.Dataset) -> int | None:
    """Decisions per day, if the study has days."""
    found = data.attrs.get("decisions_per_day")
    return None if found is None else checks.whole("attribute 'decisions_per_day'", found, least=1)


def plot_regret(data: xr.Dataset) -> Figure:
    """Cumulative regret of each policy over time, mean with 95% band; a panel for each clairvoyant.

    Only policies with the same budget are measured against the same clairvoyant. Those without a budget are drawn only
    if no policy has one.
    """
    lost = regret(data)
    if "step" not in lost.dims:
        raise InputError("a figure of regret needs every step; run simulate with trace=True")
    groups = clairvoyants(data)
    rows = -(-len(groups) // 2)
    columns = min(2, len(groups))
    figure, panels = new_figure(rows, columns, width=6.4 if columns == 1 else WIDE, height=0.6 + 3.4 * rows)
    styles = assign(map(str, data["policy"].values))
    for axes, (name, labels) in zip(panels, groups.items(), strict=False):
        draw_curves(axes, lost.sel(policy=labels), per_day=days_of(data), styles=styles)
        axes.set(title=f"Against a clairvoyant with {name}", ylabel="cumulative regret")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    for axes in panels[len(groups) :]:
        axes.remove()
    drawn = [label for labels in groups.values() for label in labels]
    absent = [label for label in map(str, data["policy"].values) if label not in drawn]
    if absent and NO_LIMIT not in groups:
        figure.supxlabel(as_it_is(f"Not shown, without a budget: {', '.join(absent)}"), fontsize="small", color="0.35")
    legend_outside(*panels[: len(groups)])
    return figure


def plot_outcomes(data: xr.Dataset) -> Figure:
    """The outcome and realised regret of each policy over time, mean with 95% band."""
    got = mean_outcome(data)
    if "step" not in got.dims:
        raise InputError("a figure of outcomes needs every step; run simulate with trace=True")
    both = has_realised_regret(data)
    figure, panels = new_figure(1, 1 + both, width=WIDE if both else 6.4)
    draw_curves(panels[0], got, per_day=days_of(data))
    panels[0].set(title="Outcome so far", ylabel=with_unit("mean expected reward per step", data))
    if both:
        draw_curves(panels[1], realised_regret(data), per_day=days_of(data))
        panels[1].set(title="Realised regret so far", ylabel=with_unit("lost against the best action", data))
        panels[1].set_ylim(bottom=min(0.0, panels[1].get_ylim()[0]))
    legend_outside(panels[0])
    return figure


def plot_differences(data: xr.Dataset, reference: str | None = None) -> Figure:
    """The difference of each policy's mean outcome from the reference's, on the same draws, with 95% intervals."""
    chosen = pick_reference(data, reference)
    outcome = at_end(mean_outcome(data))
    labels = [str(label) for label in data["policy"].values if str(label) != chosen]
    figure, (axes,) = new_figure(height=1.3 + 0.32 * max(1, len(labels)))
    styles = assign(map(str, data["policy"].values))
    axes.axvline(0.0, color="0.4", linewidth=1)
    for place, label in enumerate(labels):
        found = paired_difference(outcome, label, chosen)
        error = None if np.isnan(found.half_width) else found.half_width
        axes.errorbar(found.mean, -place, xerr=error, fmt="o", markersize=5, capsize=3, color=styles[label].color)
    axes.set_yticks([-place for place in range(len(labels))], list(map(as_it_is, labels)))
    axes.set_ylim(-len(labels) + 0.4, 0.6)
    axes.grid(visible=False, axis="y")
    axes.set(title=as_it_is(f"Mean outcome beside {chosen}"), xlabel=with_unit("difference per step", data))
    return figure


def plot_reveals(data: xr.Dataset) -> Figure:
    """The timing of reveals: mean probability and mean spending of each policy over time."""
    spent = spend(data)
    figure, (left, right) = new_figure(1, 2, width=WIDE)
    per_day = days_of(data)
    means, size = block_means(data["probability"])
    draw_curves(left, means, per_day=per_day)
    nudges = data.attrs.get("nudges", "nudges")
    steps = "each step" if size == 1 else f"means of {size} steps"
    left.set(title="When reveals happen", ylabel=f"probability of {as_it_is(nudges)} ({steps})")
    legend_outside(left)
    draw_curves(right, spent, per_day=per_day)
    budgets = sorted({float(b) for b in data["budget"].values if np.isfinite(b)})
    free = [b for b in data["budget"].values if not np.isfinite(b)]
    title = "What they cost"
    if budgets:
        top = 1.2 * budgets[-1]
        if free and float(spent.mean(list(RUNS)).max()) > top:
            title += " (policies without a budget may exceed the plot)"
            right.set_ylim(-0.04 * top, top)
        label_levels(right, budgets, "budget")
    right.set(title=title, ylabel=f"expected {as_it_is(nudges)} so far")
    return figure


def label_levels(axes: Axes, levels: Sequence[float], what: str) -> None:
    """Draw dotted lines at these heights, in rising order, with names outside on the right; close names are joined."""
    low, high = axes.get_ylim()
    groups: list[list[float]] = []
    for level in levels:
        axes.axhline(level, color="0.4", linewidth=1, linestyle=":")
        if groups and level - groups[-1][-1] < 0.06 * (high - low):
            groups[-1].append(level)
        else:
            groups.append([level])
    for group in groups:
        axes.annotate(
            f"{what} {', '.join(f'{level:g}' for level in group)}", (1.0, float(np.mean(group))),
            xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize="small", color="0.25",
        )  # fmt: skip


def with_unit(words: str, data: xr.Dataset) -> str:
    """A label with the unit of the reward, if the study defines one."""
    unit = data.attrs.get("unit", "")
    return f"{words} ({unit})" if unit else words


def plot_scatter(
    axes: Axes, x: np.ndarray, y: np.ndarray, x_label: str, y_label: str, *, color: str = POLICIES["PD2"].color
) -> None:
    """Draw one dot per instance and the diagonal; dots below it favour the policy on the vertical axis."""
    top = float(max(x.max(), y.max())) * 1.05
    axes.plot([0, top], [0, top], color="0.5", linewidth=1)
    axes.scatter(x, y, s=18, color=color, alpha=0.75, linewidths=0)
    axes.set(
        xlim=(0, top),
        ylim=(0, top),
        xlabel=f"regret of {as_it_is(x_label)}",
        ylabel=f"regret of {as_it_is(y_label)}",
        aspect="equal",
    )
    axes.locator_params(nbins=4)


def save_figure(figure: Figure, directory: Path, name: str) -> tuple[str, str]:
    """Write a figure as PNG and SVG; returns the two file names."""
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may contain letters that the font lacks
        canvas: Any = FigureCanvasAgg(figure)
        _lay_out(figure)
        drawn = io.BytesIO()
        canvas.print_png(drawn, metadata={"Software": None})
        write_whole(directory / f"{name}.png", drawn.getvalue())
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        write_whole(directory / f"{name}.svg", drawn.getvalue())
    return f"{name}.png", f"{name}.svg"


def _lay_out(figure: Figure) -> None:
    """Lay out a figure once for both files; `savefig` would draw the whole figure each time to do so."""
    figure.set_dpi(DPI)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
