"""`opportune simulate`: run a study described in a file; print its table, write its data and figures."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opportune.cli.interrupts import answered, kept
from opportune.cli.shared import DONE, Cluster, Interrupted, Jobs, Out, say
from opportune.errors import InputError

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from opportune.study import Study

HELP = """Simulate a study of your own, described in a TOML file.

Prints a table of mean results; writes the data (NetCDF) and figures (PNG and SVG) under the study's name. A
wrong key or value is named with its line in the file.

\b
Examples:
  opportune simulate --example > my.toml
  opportune simulate --policies
  opportune simulate my.toml --out results
"""


def simulate(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", hidden=True)] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a study file that runs as it is.")] = False,
    policies: Annotated[
        bool, typer.Option("--policies", help="List the kinds of policy and the recommenders a study file may name.")
    ] = False,
    out: Out = Path("out"),
    jobs: Jobs = None,
    cluster: Cluster = None,
) -> None:
    """Simulate a study described in a file, or print an example of one, or what it may name."""
    if example:
        typer.echo(files("opportune.study").joinpath("example_study.toml").read_text(encoding="utf-8"), nl=False)
        return
    if policies:
        _print_policies()
        return
    if study is None:
        raise InputError("no study file is named; expected STUDY.toml, or --example, which prints one")
    from opportune import threads  # noqa: PLC0415
    from opportune.files import held  # noqa: PLC0415
    from opportune.study import load_study  # noqa: PLC0415

    loaded = load_study(study)
    with threads.limited(jobs, name="--jobs"), held(out):  # better refused before the run than after it
        data = _run_study(loaded, cluster)
        if data.attrs["interrupted"]:
            _keep_unfinished(data, out / loaded.name, loaded.settings.study.replicates)
        _print_results(data)
        with kept("no data were written"):
            results = _write_data(data, out / loaded.name)
        typer.echo(str(results))
        with kept(f"the data are complete in {results}; figures may be missing"):
            for path in _write_figures(data, out / loaded.name):
                typer.echo(str(path))


def _keep_unfinished(data: "xr.Dataset", stem: Path, replicates: int) -> None:
    """Write what was finished before Ctrl-C under a name that says so, and end."""
    answered()
    from opportune.analysis.results import save  # noqa: PLC0415

    with kept("nothing was written"):
        path = save(data, stem.with_name(stem.name + ".interrupted.nc"))
    finished = f"{data.sizes['replicate']} of {replicates} replicates"
    raise Interrupted(f"{finished} were finished and are kept in {path}")


def _print_policies() -> None:
    from opportune.recommenders import RECOMMENDERS  # noqa: PLC0415
    from opportune.revealers import REVEALERS  # noqa: PLC0415
    from opportune.study.kinds import plain  # noqa: PLC0415

    typer.echo(f"kind, when to nudge:\n{plain(REVEALERS)}\n\nrecommender, what to recommend:\n{plain(RECOMMENDERS)}")


def _run_study(study: "Study", cluster: str | None) -> "xr.Dataset":
    """Run a study here or on a cluster; what was finished before Ctrl-C comes back."""
    general = study.settings.study
    runs = len(study.policies()) * general.instances * general.replicates
    size = f"{study.name}: {runs:,} runs of {general.horizon:,} steps"
    say(f"{size} (the first time, compiling takes a minute)", DONE)
    with ExitStack() as stack:
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415

            stack.enter_context(connect(cluster))
        stack.enter_context(kept("no replicate was finished, nothing was written"))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)  # said at the end
        return study.run(progress=True, on_interrupt="return")


def _print_results(data: "xr.Dataset") -> None:
    from rich.console import Console  # noqa: PLC0415

    from opportune.analysis.metrics import has_regret  # noqa: PLC0415

    of = "instances" if data.sizes["world"] > 1 else "runs"
    better = "Less regret is better" if has_regret(data) else "Less regret and more outcome are better"
    Console().print(results_table(data))
    typer.echo(f"{better}. ±: half a 95% interval of the mean over {of}.")
    typer.echo(f"All policies meet the same {of}: differences are surer than that suggests.\n")


def results_table(data: "xr.Dataset") -> "Table":
    """Mean results of each policy: over runs, and over instances where there are several."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from opportune.analysis.intervals import interval_of_runs  # noqa: PLC0415
    from opportune.analysis.metrics import has_regret, mean_outcome, realised_regret, regret  # noqa: PLC0415
    from opportune.analysis.results import config  # noqa: PLC0415

    table = Table(
        title=f"{data.attrs.get('study', 'Results')}: means after {data.attrs['horizon']:,} steps",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    measures = {"Realised\nregret": (_at_end(realised_regret(data)), 1)}
    if has_regret(data):
        measures = {"Regret": (_at_end(regret(data)), 1), **measures}
    else:
        measures["Mean\noutcome"] = (_at_end(mean_outcome(data)), 3)
    table.add_column("Policy")
    for heading in (*measures, "Reveals", "Nudges", "Budget\nleft"):
        table.add_column(heading, justify="right")
    for label, policy in zip(data["policy"].values, config(data)["policies"], strict=True):
        here = {"policy": label}
        table.add_row(
            str(label),
            *(interval_of_runs(values.sel(here)).text(digits) for values, digits in measures.values()),
            f"{float(data['reveals'].sel(here).mean()):.1f}",
            f"{float(data['nudges'].sel(here).mean()):.1f}",
            _budget_left(data.sel(here), policy["budget"]),
        )
    return table


def _budget_left(data: "xr.Dataset", budget: dict[str, Any] | None) -> str:
    """What is left of one policy's budget: of nudges if it is hard, else of reveal probabilities."""
    if budget is None:
        return "-"
    spent = data["nudges"] if budget["hard"] else data["spent"]
    return f"{budget['amount'] - float(spent.mean()):.1f}"


def _at_end(values: "xr.DataArray") -> "xr.DataArray":
    return values.isel(step=-1) if "step" in values.dims else values


def _write_data(data: "xr.Dataset", stem: Path) -> Path:
    """Write the data; the file's path."""
    from opportune.analysis.results import save  # noqa: PLC0415

    return save(data, stem.with_name(stem.name + ".nc"))


def _write_figures(data: "xr.Dataset", stem: Path) -> Iterator[Path]:
    """Write the figures; yields each file once it is there."""
    if "step" not in data.dims:
        say("no figures: with trace = false there are no steps to draw", DONE)
        return
    from opportune.analysis.metrics import has_regret  # noqa: PLC0415
    from opportune.analysis.plots import plot_outcomes, plot_regret, plot_reveals, save_figure  # noqa: PLC0415

    first = ("regret", plot_regret) if has_regret(data) else ("outcomes", plot_outcomes)
    for name, plot in (first, ("reveals", plot_reveals)):
        for file in save_figure(plot(data), stem.parent, f"{stem.name}-{name}"):
            yield stem.with_name(file)
