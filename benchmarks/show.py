"""The results as tables and as a figure."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.measure import BATCHED, JAX, OURS, PLAIN, SCALES, STRAIGHTFORWARD, Result
from opportune.analysis.plots import new_figure
from opportune.analysis.styles import assign

# The goals of the project.
GOALS = {
    "range": 0.6,  # of the straightforward loop's time, at most
    "adaptive": 0.8,
    "plain": 150.0,  # times faster than plain NumPy on all cores, at least
    "agent": 20.0,  # microseconds, at most
    "import": 0.5,  # seconds, at most
}


def verdict(holds: bool) -> str:
    """Whether a goal is reached."""
    return "[green]reached[/green]" if holds else "[red]missed[/red]"


def table(title: str, *columns: str) -> Table:
    """An empty table; all columns but the first are numbers."""
    empty = Table(title=title, title_justify="left", title_style="bold", min_width=len(title) + 2)
    for i, column in enumerate(columns):
        empty.add_column(column, justify="right" if i else "left")
    return empty


def show_machine(console: Console, found: Result) -> None:
    """The machine and versions behind the figures."""
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    console.print(f"{found['processor']}, {found['cores']} cores, {found['threads']} threads, {found['system']}")
    console.print(f"Python {found['python']}, {packages}")


def show_study(console: Console, result: Result) -> None:
    """All contestants, then the goals."""
    for scale, contestants in result.items():
        runs = contestants[OURS]["runs"]
        rows = table(
            f"The synthetic study, {runs:,} runs, scale {scale}, draws included",
            "contestant", "seconds", "times ours", "steps/s", "runs measured", "same totals",
        )  # fmt: skip
        for name, found in contestants.items():
            rows.add_row(
                name, f"{found['seconds']:.3g}", f"{found['times_ours']:.3g}", f"{found['steps_per_second']:.3g}",
                f"{found['measured_runs']:,}", f"{found['agreeing_runs']:,}",
            )  # fmt: skip
        console.print(rows)
    console.print(
        f"{BATCHED} and {PLAIN} use one process per core; where fewer than all runs were measured, seconds are "
        "extrapolated linearly."
    )
    if JAX not in result[SCALES[0]]:
        console.print("JAX is not installed and was left out (pip install jax).")
    goals = table("Goals of the study", "ours against", "measured", "goal", "")
    for scale in SCALES:
        share = 1.0 / result[scale][STRAIGHTFORWARD]["times_ours"]
        holds = verdict(share <= GOALS[scale])
        goals.add_row(f"{STRAIGHTFORWARD}, {scale}", f"{share:.2f} x", f"<= {GOALS[scale]:g} x", holds)
    cross = result["adaptive"][OURS]["seconds"] / result["range"][STRAIGHTFORWARD]["seconds"]
    goals.add_row(f"{STRAIGHTFORWARD} at range, ours at adaptive", f"{cross:.2f} x", "", "")
    for scale in SCALES:
        times = result[scale][PLAIN]["times_ours"]
        holds = verdict(times >= GOALS["plain"])
        goals.add_row(f"{PLAIN}, {scale}", f"{times:.0f} x faster", f">= {GOALS['plain']:.0f} x", holds)
    console.print(goals)


def show_speed(console: Console, result: Result) -> None:
    """Steps per second against sizes."""
    for what, series in result.items():
        rows = table(f"Steps per second of PD2 by {what}", what, *series)
        sizes = sorted({int(size) for values in series.values() for size in values})
        for size in sizes:
            cells = [f"{values[str(size)]:.3g}" if str(size) in values else "" for values in series.values()]
            rows.add_row(f"{size:,}", *cells)
        console.print(rows)


def show_growth(console: Console, result: Result) -> None:
    """Time as work doubles, and memory."""
    rows = table("Time when the work doubles (2 is linear)", "", "size", "seconds", "times the half")
    for what in ("runs", "horizon"):
        before = None
        for size, seconds in result[what].items():
            rows.add_row(what, f"{int(size):,}", f"{seconds:.3g}", f"{seconds / before:.2f}" if before else "")
            before = seconds
    console.print(rows)
    rows = table("Memory of 100 runs", "", "horizon", "peak, kB", "result, kB")
    for what, horizons in result["memory"].items():
        for horizon, found in horizons.items():
            rows.add_row(what, f"{int(horizon):,}", f"{found['peak'] / 1e3:,.0f}", f"{found['result'] / 1e3:,.0f}")
    console.print(rows)


def show_agent(console: Console, result: Result) -> None:
    """Live decisions."""
    rows = table("Live: decide and learn at d = 9, A = 5, K = 10", "", "microseconds", "times ours", "goal", "")
    goal = GOALS["agent"]
    for name, found in result.items():
        row = [name, f"{found:.1f}", f"{found / result[OURS]:.2f}"]
        rows.add_row(*row, *([f"<= {goal:g}", verdict(found <= goal)] if name == OURS else []))
    console.print(rows)


def show_start(console: Console, result: Result) -> None:
    """Fresh interpreters."""
    rows = table("In a fresh interpreter, compiled code on disk", "", "seconds", "goal", "")
    for name, found in result.items():
        goal = [f"<= {GOALS['import']:g}", verdict(found <= GOALS["import"])] if name == "import opportune" else []
        rows.add_row(name + (", from the interpreter's start" if name == "first result" else ""), f"{found:.3f}", *goal)
    console.print(rows)


def show_workers(console: Console, result: Result) -> None:
    """One sweep on more threads, processes and clusters."""
    seconds = result["seconds"]
    alone = next(iter(seconds.values()))
    rows = table(f"A sweep of {result['steps'] / 1e6:g} million steps", "on", "seconds", "times faster", "steps/s")
    for name, taken in seconds.items():
        rows.add_row(name, f"{taken:.3g}", f"{alone / taken:.2f}", f"{result['steps'] / taken:.3g}")
    console.print(rows)


def show_arithmetic(console: Console, result: Result) -> None:
    """The distance from the machine's limit."""
    rows = table("Arithmetic, all cores", "", "operations per step", "GFLOP/s", "of the loop", "of the product")
    names = {"loop": "multiply-adds over arrays in cache (compiled loop)", "product": "matrix product (NumPy's BLAS)"}
    rates = result["gflops"]
    for name, rate in rates.items():
        per_step = result["operations_per_step"].get(name)
        rows.add_row(
            names.get(name, f"PD2, {name}"), f"{per_step:,.0f}" if per_step else "", f"{rate:.3g}",
            f"{rate / rates['loop']:.0%}", f"{rate / rates['product']:.0%}",
        )  # fmt: skip
    console.print(rows)
    console.print(
        "Only the linear algebra that a step needs is counted, without draws, the rule and padding. The loop does one "
        "multiplication and one addition for each number it loads and stores, compiled like the package. The product "
        "fuses the two and reuses what it loads: an upper bound, if nothing else runs."
    )


def draw_speed(result: dict[str, Any]) -> Figure:
    """Steps per second against the number of runs, d, A and K."""
    labels = {"runs": "runs", "d": "features, d", "A": "actions, A", "K": "contexts, K"}
    figure, panels = new_figure(2, 2, width=9.6, height=7.2)
    for axes, (what, series) in zip(panels, result.items(), strict=True):
        for i, (name, style) in enumerate(assign(series).items()):
            sizes, speeds = [int(size) for size in series[name]], list(series[name].values())
            axes.loglog(sizes, speeds, label=name, marker="os"[i % 2], **style._asdict())
        speeds = [speed for values in series.values() for speed in values.values()]
        axes.set_ylim(10.0 ** np.floor(np.log10(min(speeds))), 10.0 ** np.ceil(np.log10(max(speeds))))
        axes.set_xlabel(labels[what])
        axes.set_ylabel("steps per second")
        axes.legend(frameon=False, loc="lower left" if what != "runs" else "lower right")
        if what != "runs":
            ticks = [int(size) for size in next(iter(series.values()))]
            axes.set_xticks(ticks, [str(size) for size in ticks])
            axes.xaxis.minorticks_off()
    return figure
