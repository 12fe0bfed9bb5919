"""`opportune simulate`: run a study described in a file; print its tables, write its data, figures and report."""

import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import answered, kept
from opportune.cli.shared import DONE, Cluster, Device, Interrupted, Jobs, Out, say
from opportune.errors import InputError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure
    from rich.table import Table

    from opportune.analysis.comparison import Compared
    from opportune.experiments import record
    from opportune.study import Study

HELP = """Simulate a study of your own, described in a TOML file.

Prints tables of mean results; writes the data (NetCDF), the table (CSV), figures (PNG and SVG) and a report
(HTML) under the study's name. The last line of output is the report's path. A wrong key or value is named with
its line in the file.

\b
Examples:
  opportune simulate --example > my.toml
  opportune simulate --policies
  opportune simulate my.toml --out results
"""


def simulate(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", hidden=True)] = None,
    example: Annotated[bool, typer.Option("--example", help="Print an example study file.")] = False,
    policies: Annotated[
        bool, typer.Option("--policies", help="List the kinds of policy and the recommenders a study file may name.")
    ] = False,
    out: Out = Path("out"),
    reference: Annotated[
        str | None,
        typer.Option(
            help="Policy to compare the others with; by default the first that never nudges, else the first.",
            metavar="POLICY",
            show_default=False,
        ),
    ] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    cluster: Cluster = None,
) -> None:
    """Simulate a study described in a file, or print an example of one, or what it may name."""
    if (example or policies) and (study is not None or (example and policies)):
        raise InputError("--example and --policies cannot be combined; expected one of them, or a study file")
    if example:
        from opportune.study.examples import example as text_of  # noqa: PLC0415

        typer.echo(text_of("stress-messages"), nl=False)
        return
    if policies:
        _print_policies()
        return
    if study is None:
        raise InputError("no study file is given; expected STUDY.toml, or --example, which prints one")
    from opportune import checks, threads  # noqa: PLC0415
    from opportune.analysis.comparison import compare_policies, pick_reference  # noqa: PLC0415
    from opportune.analysis.results import save  # noqa: PLC0415
    from opportune.files import held  # noqa: PLC0415
    from opportune.simulation.cluster import check_address  # noqa: PLC0415
    from opportune.simulation.run import DEVICES  # noqa: PLC0415
    from opportune.study import load_study  # noqa: PLC0415

    loaded = load_study(study)
    _check_reference(loaded, reference)
    checks.choice("--device", device, DEVICES)
    if cluster is not None:
        check_address(cluster)
    with threads.limited(jobs, name="--jobs"), held(out):  # refuse before the run, not after it
        data = _run_study(loaded, cluster, device)
        if data.attrs["interrupted"]:
            _keep_unfinished(data, out / loaded.name, loaded.settings.study.replicates)
        with kept("no data were written"):
            results = save(data, out / f"{loaded.name}.nc")
        chosen = pick_reference(data, reference)
        rows = compare_policies(data, chosen)
        print_results(data, rows, chosen)
        typer.echo(str(results))
        command = f"opportune simulate {study.name}" + (f" --reference {shlex.quote(reference)}" if reference else "")
        with kept(f"the data are complete in {results}; table, figures or report may be missing"):
            for path in write_results(data, rows, chosen, out / loaded.name, command):
                typer.echo(str(path))


def _keep_unfinished(data: "xr.Dataset", stem: Path, replicates: int) -> None:
    """Write what was finished before Ctrl-C under another name, and end."""
    answered()
    from opportune.analysis.results import save  # noqa: PLC0415

    with kept("nothing was written"):
        path = save(data, stem.with_name(stem.name + ".interrupted.nc"))
    finished = f"{data.sizes['replicate']} of {replicates} replicates"
    raise Interrupted(f"{finished} were finished and are kept in {path}")


def _check_reference(study: "Study", reference: str | None) -> None:
    """Refuse a reference that is not one of the study's policies, before anything runs."""
    from opportune import checks  # noqa: PLC0415
    from opportune.simulation.pack import policy_labels  # noqa: PLC0415

    if reference is not None:
        checks.choice("--reference", reference, policy_labels(study.policies()))


def _print_policies() -> None:
    from opportune.recommenders import RECOMMENDERS  # noqa: PLC0415
    from opportune.revealers import REVEALERS  # noqa: PLC0415
    from opportune.study.kinds import plain  # noqa: PLC0415

    typer.echo(f"kind, when to nudge:\n{plain(REVEALERS)}\n\nrecommender, what to recommend:\n{plain(RECOMMENDERS)}")


def _run_study(study: "Study", cluster: str | None, device: str) -> "xr.Dataset":
    """Run a study here or on a cluster; after Ctrl-C, returns what was finished."""
    general = study.settings.study
    runs = len(study.policies()) * general.instances * general.replicates
    size = f"{study.name}: {runs:,} runs of {general.horizon:,} steps"
    with ExitStack() as stack:
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415

            stack.enter_context(connect(cluster))
        from opportune.simulation.run import on_device  # noqa: PLC0415

        stack.enter_context(on_device(device))
        say(f"{size} (the first time, compiling takes half a minute)", DONE)
        stack.enter_context(kept("no replicate was finished, and nothing was written"))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)  # reported at the end
        return study.run(progress=True, on_interrupt="return")


def write_results(
    data: "xr.Dataset", rows: "Sequence[Compared]", reference: str, stem: Path, command: str
) -> Iterator[Path]:
    """Write the table, the figures and, last, the report; yields each file once it is written."""
    from opportune.report.study import write_csv, write_study_report  # noqa: PLC0415

    yield write_csv(rows, stem.with_name(stem.name + ".csv"))
    figures = _draw(data, stem, reference)
    for figure in figures:
        yield from (stem.with_name(file) for file in (figure.png, figure.svg))
    yield write_study_report(data, rows, reference, figures, stem.with_name(stem.name + "-report.html"), command)


def print_results(data: "xr.Dataset", rows: "Sequence[Compared]", reference: str) -> None:
    """Print the outcomes of all policies, then regret against each clairvoyant."""
    from rich.console import Console  # noqa: PLC0415

    from opportune.report.study import observed, outcome_table, regret_table  # noqa: PLC0415

    console, of = Console(), observed(data)
    unit = data.attrs.get("unit", "")
    title = f"{data.attrs.get('study', 'Results')}: means after {data.attrs['horizon']:,} steps"
    outcomes = outcome_table(data, rows, reference)
    shown = [i for i, column in enumerate(outcomes.columns) if column != "reveals"]  # only in the file and the report
    console.print(_terminal_table(title, outcomes, shown))
    typer.echo(f"Outcome: mean expected reward per step{f' ({unit})' if unit else ''}; more is better.")
    typer.echo(f"Beside {reference}: the difference on the same draws.")
    typer.echo(f"±: half a 95% interval of the mean over {of} (Student's t).\n")
    lost = regret_table(data, rows)
    if lost is not None:
        console.print(_terminal_table("Regret, by clairvoyant", lost, range(3)))
        absent = [row.policy for row in rows if row.regret is None]
        if absent:
            typer.echo(f"Not in this table, as they have no budget: {', '.join(absent)}.\n")


def _terminal_table(title: str, table: "record.Table", shown: Iterable[int]) -> "Table":
    """A table for the terminal; names are shown literally, without markup."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    places = list(shown)
    drawn = Table(title=Text(title, style="italic"), box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0))
    for i in places:
        words = table.columns[i]
        is_name = words in {"policy", "clairvoyant with"}
        longest = None if is_name else max(map(len, words.split()))  # do not break words of a heading
        drawn.add_column(Text(words[:1].upper() + words[1:]), justify="left" if is_name else "right", min_width=longest)
    for row in table.rows:
        drawn.add_row(*(Text("-" if row[i] is None else str(row[i])) for i in places))
    return drawn


def _draw(data: "xr.Dataset", stem: Path, reference: str) -> "list[record.FigureFiles]":
    """Draw the figures: differences between policies and, with a trace, the course over time."""
    from opportune.analysis.metrics import has_regret  # noqa: PLC0415
    from opportune.analysis.plots import (  # noqa: PLC0415
        plot_differences,
        plot_outcomes,
        plot_regret,
        plot_reveals,
        save_figure,
    )
    from opportune.experiments.record import FigureFiles  # noqa: PLC0415
    from opportune.report.study import about  # noqa: PLC0415

    plots: dict[str, Callable[[xr.Dataset], Figure]] = {}
    if data.sizes["policy"] > 1:
        plots["differences"] = lambda data: plot_differences(data, reference)
    if "step" in data.dims:
        plots["outcomes"] = plot_outcomes
        if has_regret(data):
            plots["regret"] = plot_regret
        plots["reveals"] = plot_reveals
    else:
        say("no figures over time: with trace = false there are no steps to draw", DONE)
    figures = []
    for name, plot in plots.items():
        png, svg = save_figure(plot(data), stem.parent, f"{stem.name}-{name}")
        caption, alt = about(name, data)
        figures.append(FigureFiles(name=name, caption=caption, alt=alt, png=png, svg=svg))
    return figures
