"""Figures: who stands beside whom, what is on the axes, and that nothing bends or overprints for no reason."""

from itertools import combinations

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import opportune as op
from opportune.analysis.plots import (
    block_means,
    draw_curves,
    label_levels,
    legend_outside,
    new_figure,
    plot_differences,
    plot_outcomes,
    plot_regret,
    plot_reveals,
)
from opportune.analysis.styles import assign


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """Two budgets and a policy without one, twice a day."""
    problem = op.Problem.from_formula(
        "1 + action * stress + tod", {"tod": op.TimeOfDay(["am", "pm"]), "stress": (0, 1)}, 2, [0.25] * 4
    )
    assert isinstance(problem, op.Problem)
    worlds = [op.LinearWorld(problem, theta=[0.1 * i, 0.5, 0.2, 0.3, -0.4]) for i in range(2)]
    policies = [op.naive_ucb(3), op.naive_ucb(5, name="naive B=5"), op.Policy(revealer=op.Never(), name="never")]
    return op.simulate(worlds, policies, horizon=60, replicates=2, seed=1, progress=False)


def drawn(figure: Figure) -> list[set[str]]:
    """The policies drawn in each panel."""
    return [{str(line.get_label()) for line in axes.get_lines()} for axes in figure.axes]


def test_blocks_have_no_false_edge() -> None:
    """A constant stays constant, and what happens every fourth step is as frequent at the end as in between."""
    steps = xr.DataArray(np.arange(1, 61) % 4 == 0, dims="step", coords={"step": np.arange(1, 61)}).astype(float)
    for count in (60, 59, 47):
        part = steps.isel(step=slice(0, count))
        means, size = block_means(xr.ones_like(part))
        assert means.values == pytest.approx(1.0)
        assert count % size == 0 or count - means.sizes["step"] * size < size
        assert float(means["step"][0]) == pytest.approx((1 + size) / 2)
    means, size = block_means(steps)
    assert size == 2
    moving = steps.rolling(step=8, center=True, min_periods=1).mean()  # the control: what bends at the edge
    assert float(moving[-1]) > 0.25 + 1e-9
    assert means.values.tolist() == [0.0, 0.5] * 15


def test_regret_has_a_panel_for_each_clairvoyant(data: xr.Dataset) -> None:
    """Budgets apart; who has none is not drawn, and that is said; with nobody else it is."""
    figure = plot_regret(data)
    assert drawn(figure) == [{"naive"}, {"naive B=5"}]
    assert [axes.get_title() for axes in figure.axes] == [f"Against a clairvoyant with {b} nudges" for b in (3, 5)]
    assert "never" in str(figure.get_supxlabel())
    assert drawn(plot_regret(data.sel(policy=["never"]))) == [{"never"}]


def test_time_is_in_days_where_there_are_days(data: xr.Dataset) -> None:
    """Two decisions per day: sixty steps are thirty days; without a schedule steps stay steps."""
    axes = plot_outcomes(data).axes[0]
    assert axes.get_xlabel() == "day"
    assert float(np.max(axes.get_lines()[0].get_xdata())) == 30.0
    plain = data.copy()
    del plain.attrs["decisions_per_day"]
    axes = plot_outcomes(plain).axes[0]
    assert axes.get_xlabel() == "step"
    assert float(np.max(axes.get_lines()[0].get_xdata())) == 60.0


def test_every_panel_has_a_title_and_the_unit(data: xr.Dataset) -> None:
    """Panels say what they show; outcomes are in the study's own unit."""
    with_unit = data.assign_attrs(unit="points")
    figures = [plot(with_unit) for plot in (plot_regret, plot_outcomes, plot_reveals, plot_differences)]
    assert all(axes.get_title() and axes.get_xlabel() for figure in figures for axes in figure.axes)
    assert figures[1].axes[0].get_ylabel() == "mean expected reward per step (points)"
    assert figures[3].axes[0].get_xlabel() == "difference per step (points)"
    assert figures[3].axes[0].get_title() == "Mean outcome beside never"


@pytest.mark.parametrize("levels", [[10, 20], [10, 10.5, 11, 200], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
def test_names_of_budgets_do_not_overprint(levels: list[float]) -> None:
    """However close the budgets are, their names are legible and none is lost."""
    figure, (axes,) = new_figure()
    axes.set_ylim(0, 210)
    label_levels(axes, levels, "budget")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    named = ", ".join(text.get_text().removeprefix("budget ") for text in axes.texts)
    assert named == ", ".join(f"{level:g}" for level in levels)


@pytest.mark.parametrize("width", [6.4, 9.6])
def test_the_legend_fits_the_figure(width: float) -> None:
    """Labels are neither cut off at the figure's edge nor drawn over each other."""
    labels = ["naive", "PD1 range", "PD2 range", "PD1 adaptive", "PD2 adaptive", "everything revealed (realised)"]
    figure, (axes,) = new_figure(width=width)
    for label, style in assign(labels).items():
        axes.plot([0, 1], [0, 1], label=label, **style._asdict())
    legend_outside(axes)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.legends[0].get_texts()]
    assert len(boxes) == len(labels)
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_lines_of_one_figure_differ_in_colour(data: xr.Dataset) -> None:
    """As long as there are colours left, no two lines of a figure share one; dashes differ too where they must."""
    _, (axes,) = new_figure()
    draw_curves(axes, data["probability"])
    colours = [line.get_color() for line in axes.get_lines()]
    assert len(set(colours)) == len(colours)
    many = assign([f"{p} B={b}" for p in ("PACE", "naive", "PD1", "PD2") for b in (10, 20)] + ["periodic", "always"])
    assert len({style.color for style in many.values()}) == len(many)
