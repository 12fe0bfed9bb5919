"""Figures from Datasets: readable in print and by colour-blind readers."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from opportune.analysis.intervals import RUNS, mean_interval
from opportune.analysis.metrics import mean_outcome, realised_regret, regret, spend
from opportune.analysis.styles import POLICIES, Style, assign
from opportune.files import write_whole

DPI = 150

RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "legend.frameon": False,
    "svg.hashsalt": "opportune",
}


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 6.4, height: float = 3.8
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels, in the package's style, without a window or global state."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = np.atleast_1d(figure.subplots(rows, columns)).ravel().tolist()
    return figure, panels


def draw_curve(axes: Axes, curve: xr.Dataset, label: str, style: Style) -> None:
    """A mean against the step, with a band for its 95% interval: `curve` is one of `mean_interval`."""
    axes.plot(curve["step"], curve["mean"], label=label, linewidth=1.8, **style._asdict())
    axes.fill_between(curve["step"], curve["low"], curve["high"], color=style.color, alpha=0.18, linewidth=0)


def draw_curves(axes: Axes, values: xr.DataArray, *, over: Sequence[str] = RUNS) -> None:
    """One line per policy against the step, with a band for the 95% interval of the mean."""
    curves = mean_interval(values, over)
    for label, style in assign(map(str, curves["policy"].values)).items():
        draw_curve(axes, curves.sel(policy=label), label, style)
    axes.set_xlabel("step")


def legend_outside(axes: Axes) -> None:
    """A legend above the whole figure, where it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    figure = axes.get_figure(root=True)
    if figure is not None:
        columns = max(1, min(len(labels), int(figure.get_figwidth() / 1.8)))
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False)


def plot_regret(data: xr.Dataset) -> Figure:
    """Cumulative regret of each policy over time, mean with 95% band."""
    figure, (axes,) = new_figure()
    draw_curves(axes, regret(data))
    axes.set(title="Regret so far", ylabel="cumulative regret")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    legend_outside(axes)
    return figure


def plot_outcomes(data: xr.Dataset) -> Figure:
    """What patients lost and got: realised regret and mean outcome of each policy over time, mean with 95% band."""
    figure, (left, right) = new_figure(1, 2, width=9.6)
    draw_curves(left, realised_regret(data))
    left.set(title="Realised regret so far", ylabel="cumulative realised regret")
    left.set_ylim(bottom=min(0.0, left.get_ylim()[0]))
    legend_outside(left)
    draw_curves(right, mean_outcome(data))
    right.set(title="Outcome so far", ylabel="mean expected reward per step")
    return figure


def plot_reveals(data: xr.Dataset) -> Figure:
    """When reveals happen: mean probability and mean spending of each policy over time."""
    figure, (left, right) = new_figure(1, 2, width=9.6)
    window = max(1, data.sizes["step"] // 30)
    smooth = data["probability"].rolling(step=window, center=True, min_periods=1).mean()
    draw_curves(left, smooth)
    left.set(title="When reveals happen", ylabel=f"probability of a reveal (mean of {window} steps)")
    legend_outside(left)
    draw_curves(right, spend(data))
    right.set(title="What they cost", ylabel="reveals spent (expected)")
    for budget in sorted({float(b) for b in data["budget"].values if np.isfinite(b)}):
        right.axhline(budget, color="0.4", linewidth=1, linestyle=":")
        right.annotate(f"budget {budget:g}", (1.0, budget), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    return figure


def plot_scatter(
    axes: Axes, x: np.ndarray, y: np.ndarray, x_label: str, y_label: str, *, color: str = POLICIES["PD2"].color
) -> None:
    """One dot per instance with the diagonal; dots below it favour the policy on the vertical axis."""
    top = float(max(x.max(), y.max())) * 1.05
    axes.plot([0, top], [0, top], color="0.5", linewidth=1)
    axes.scatter(x, y, s=18, color=color, alpha=0.75, linewidths=0)
    axes.set(
        xlim=(0, top),
        ylim=(0, top),
        xlabel=f"regret of {x_label}",
        ylabel=f"regret of {y_label}",
        aspect="equal",
    )
    axes.locator_params(nbins=4)


def save_figure(figure: Figure, directory: Path, name: str) -> tuple[str, str]:
    """Write a figure as PNG and SVG; returns the two file names."""
    with mpl.rc_context(RC):
        _lay_out(figure)
        for ending, options in (("png", {"dpi": DPI, "metadata": {"Software": None}}),
                                ("svg", {"metadata": {"Date": None, "Creator": None}})):  # fmt: skip
            drawn = io.BytesIO()
            figure.savefig(drawn, format=ending, **options)
            write_whole(directory / f"{name}.{ending}", drawn.getvalue())
    return f"{name}.png", f"{name}.svg"


def _lay_out(figure: Figure) -> None:
    """Lay a figure out once and for all: `savefig` would for each file, and draw the whole figure to do so."""
    figure.set_dpi(DPI)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
