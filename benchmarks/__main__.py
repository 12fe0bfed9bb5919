"""`python -m benchmarks [--quick] [--out DIR]`: measure, print tables, write `bench.json` and a figure."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import measure, show
from benchmarks.measure import FULL, QUICK, Result, Sizes
from benchmarks.timing import machine
from opportune.analysis.plots import save_figure

MEASUREMENTS: dict[str, tuple[Callable[[Sizes], Result], Callable[[Console, Result], None]]] = {
    "study": (measure.measure_study, show.show_study),
    "speed": (measure.measure_speed, show.show_speed),
    "growth": (measure.measure_growth, show.show_growth),
    "agent": (measure.measure_agent, show.show_agent),
    "start": (measure.measure_start, show.show_start),
    "workers": (measure.measure_workers, show.show_workers),
    "arithmetic": (measure.measure_arithmetic, show.show_arithmetic),
}


def run(sizes: Sizes, out: Path, names: Sequence[str], console: Console) -> dict[str, Any]:
    """Measure everything named and print results as they come; finished results are on disk at any time."""
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine(), "sizes": vars(sizes), "goals": show.GOALS}
    show.show_machine(console, results["machine"])
    for name in names:
        take, tell = MEASUREMENTS[name]
        with console.status(f"measuring: {name}"):
            results[name] = take(sizes)
        tell(console, results[name])
        (out / "bench.json").write_text(json.dumps(results, indent=2) + "\n")
    if "speed" in results:
        save_figure(show.draw_speed(results["speed"]), out, "bench")
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the speed of the package.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the study, smaller sizes, fewer repetitions")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), metavar="DIR", help="the folder for results")
    parser.add_argument(
        "--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), help="measure only these"
    )
    given = parser.parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    run(QUICK if given.quick else FULL, given.out, given.only, console)


if __name__ == "__main__":
    main()
