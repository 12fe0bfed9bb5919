"""The command `opportune`: thin, and quick to answer: a command imports what is heavy when it is run."""

import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opportune._version import __version__
from opportune.errors import InputError, OpportuneError

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from opportune.study import Study

HELP = """Decide when a limited number of costly nudges is worth spending, and what to recommend in between.

\b
Words:
  nudge        a call or message that makes a patient open the app
  reveal       what is sensed, and what the patient reports, becomes known
  revealer     picks the moments that are worth a nudge
  recommender  picks the treatment, by what it knew at the last reveal
  budget       how many nudges there are in a run
  regret       what a policy loses against one that knows the truth

\b
Examples:
  opportune reproduce all --quick         the paper's experiments, small
  opportune simulate --example > my.toml  a study file to start from
  opportune simulate my.toml              its table, figures and data

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.
"""

REPRODUCE_HELP = """Reproduce the paper's experiments and write a report.

NAME is an experiment, several of them, or all. Finished parts are kept: the same command goes on where it
stopped. The last line of output is the report's path.

\b
Examples:
  opportune reproduce all
  opportune reproduce all --quick --out out/quick
"""

SIMULATE_HELP = """Simulate a study of your own, described in a TOML file.

Prints a table of mean results; writes the data (NetCDF) and figures (PNG and SVG) under the study's name. A
wrong key or value is named with its line in the file.

\b
Examples:
  opportune simulate --example > my.toml
  opportune simulate my.toml --out results
"""

FIT_HELP = """Fit the brushing world to a ROBAS file and write its users.

FILE is the study's CSV file; a broken row is named with its line.

\b
Example:
  opportune fit-brushing data.csv --study robas3 --out users.json
"""

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="opportune",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Interrupted(Exception):  # noqa: N818  (nothing went wrong)
    """Ctrl-C, with what was kept."""


Out = Annotated[Path, typer.Option(help="Folder for results; made if need be.", metavar="DIR")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Cores to use on this machine; all of them unless given.", metavar="N", show_default=False),
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Run on a Dask or Ray cluster at this address.", metavar="ADDRESS", show_default=False),
]


def main() -> None:
    """The entry point: run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line; the exit code is 0 (done), 1 (failed), 2 (wrong use) or 130 (interrupted)."""
    debug = "--debug" in arguments
    try:
        code = app(
            [a for a in arguments if a != "--debug"] or ["--help"],
            prog_name="opportune",
            standalone_mode=False,
        )
    except Interrupted as stop:
        return _say(f"opportune: interrupted: {stop}", INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        return _say("opportune: interrupted: nothing was written", INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _complain(error)
    if code == INTERRUPTED:  # typer turns Ctrl-C into this where a command has not said more
        _say("opportune: interrupted: nothing was written", INTERRUPTED)
    return code if isinstance(code, int) else DONE


def _complain(error: Exception) -> int:
    """Say what went wrong, one line a complaint, and return the exit code."""
    if isinstance(error, OpportuneError):
        for line in str(error).splitlines():
            _say(f"opportune: error: {line}", FAILED)
        return WRONG_USE if isinstance(error, InputError) else FAILED
    if hasattr(error, "format_message"):  # a usage error, whichever click typer is built on
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "opportune"
        text = " ".join(error.format_message().split()).rstrip(".")
        return _say(f"opportune: error: {text}; see '{command} --help'", WRONG_USE)
    if isinstance(error, OSError) and error.filename is not None:
        return _say(f"opportune: error: {error.filename}: {error.strerror}", FAILED)
    text = " ".join(str(error).split()) or "no message"
    return _say(f"opportune: error: {type(error).__name__}: {text} (--debug shows where)", FAILED)


def _say(line: str, code: int) -> int:
    """Write a line to standard error and hand back the code."""
    typer.echo(line, err=True)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opportune {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """The options that stand before a command."""


@app.command(help=REPRODUCE_HELP)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|all", hidden=True),
    ] = None,
    out: Out = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer instances and runs: a first look.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", metavar="N")] = 1,
    jobs: Jobs = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is already there.")] = False,
    cluster: Cluster = None,
) -> None:
    """Reproduce the paper's experiments."""
    from opportune.experiments import NAMES  # noqa: PLC0415
    from opportune.experiments.runner import reproduce as run_experiments  # noqa: PLC0415

    chosen = _experiments(names or [], list(NAMES))
    _use_cores(jobs)
    with _kept(f"what is finished is kept in {out}; the same command goes on from there"):
        report = run_experiments(chosen, out=out, quick=quick, seed=seed, jobs=jobs, force=force, cluster=cluster)
    typer.echo(str(report))


def _experiments(given: list[str], known: list[str]) -> list[str]:
    """The experiments that names stand for."""
    from opportune import checks  # noqa: PLC0415

    if not given:
        raise InputError(f"no experiment is named; expected one of {', '.join(map(repr, known))}, or 'all'")
    for name in given:
        checks.choice("NAME", name, [*known, "all"])
    return known if "all" in given else list(dict.fromkeys(given))


@app.command(help=SIMULATE_HELP)
def simulate(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", hidden=True)] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a study file that runs as it is.")] = False,
    out: Out = Path("out"),
    jobs: Jobs = None,
    cluster: Cluster = None,
) -> None:
    """Simulate a study described in a file, or print an example of one."""
    if example:
        from importlib.resources import files  # noqa: PLC0415

        typer.echo(files("opportune.study").joinpath("example_study.toml").read_text(encoding="utf-8"), nl=False)
        return
    if study is None:
        raise InputError("no study file is named; expected STUDY.toml, or --example, which prints one")
    from opportune.study import load_study  # noqa: PLC0415

    loaded = load_study(study)
    _use_cores(jobs)
    out.mkdir(parents=True, exist_ok=True)  # better refused before the run than after it
    data = _run_study(loaded, cluster)
    with _kept(f"finished results may be in {out}; figures may be missing"):
        _print_results(data)
        for path in _write_results(data, out / loaded.name):
            typer.echo(str(path))
    if data.attrs["interrupted"]:
        kept = f"{data.sizes['replicate']} of {loaded.settings.study.replicates} replicates"
        raise Interrupted(f"{kept} were finished and are kept in {out / loaded.name}.nc")


def _run_study(study: "Study", cluster: str | None) -> "xr.Dataset":
    """Run a study here or on a cluster; what was finished before Ctrl-C comes back."""
    general = study.settings.study
    runs = len(study.policies()) * general.instances * general.replicates
    size = f"{study.name}: {runs:,} runs of {general.horizon:,} steps"
    _say(f"{size} (the first time, compiling takes a minute)", DONE)
    with ExitStack() as stack:
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415

            stack.enter_context(connect(cluster))
        stack.enter_context(_kept("no replicate was finished, nothing was written"))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="interrupted", category=RuntimeWarning)  # said at the end
        return study.run(progress=True)


def _print_results(data: "xr.Dataset") -> None:
    from rich.console import Console  # noqa: PLC0415

    of = "instances" if data.sizes["world"] > 1 else "runs"
    Console().print(results_table(data))
    typer.echo(f"Less regret is better. ±: half a 95% interval of the mean over {of}.")
    typer.echo(f"All policies meet the same {of}: differences are surer than that suggests.\n")


def results_table(data: "xr.Dataset") -> "Table":
    """Mean results of each policy: over runs, and over instances where there are several."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from opportune.analysis.intervals import interval_of_runs  # noqa: PLC0415
    from opportune.analysis.metrics import realised_regret, regret  # noqa: PLC0415
    from opportune.analysis.results import config  # noqa: PLC0415

    table = Table(
        title=f"{data.attrs.get('study', 'Results')}: means after {data.attrs['horizon']:,} steps",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    table.add_column("Policy")
    for heading in ("Regret", "Realised\nregret", "Reveals", "Nudges", "Budget\nleft"):
        table.add_column(heading, justify="right")
    paper, realised = _at_end(regret(data)), _at_end(realised_regret(data))
    for label, policy in zip(data["policy"].values, config(data)["policies"], strict=True):
        here = {"policy": label}
        table.add_row(
            str(label),
            str(interval_of_runs(paper.sel(here))),
            str(interval_of_runs(realised.sel(here))),
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


def _write_results(data: "xr.Dataset", stem: Path) -> Iterator[Path]:
    """Write the data and the figures; yields each file once it is there."""
    from opportune.analysis.results import save  # noqa: PLC0415

    yield save(data, stem.with_name(stem.name + ".nc"))
    if "step" not in data.dims:
        _say("no figures: with trace = false there are no steps to draw", DONE)
        return
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from opportune.analysis.plots import plot_regret, plot_reveals  # noqa: PLC0415

    for name, plot in (("regret", plot_regret), ("reveals", plot_reveals)):
        figure = plot(data)
        for kind in ("png", "svg"):
            path = stem.with_name(f"{stem.name}-{name}.{kind}")
            with mpl.rc_context({"svg.hashsalt": "opportune"}):  # the same data give the same file
                figure.savefig(path, dpi=200, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
            yield path


@app.command("fit-brushing", help=FIT_HELP)
def fit_brushing(
    file: Annotated[Path, typer.Argument(metavar="FILE", hidden=True)],
    study: Annotated[str, typer.Option(help="Which study the file is from.", metavar="robas3|robas2")],
    out: Annotated[Path, typer.Option(help="The table to write (JSON).", metavar="TABLE", show_default=False)],
) -> None:
    """Fit the brushing world to a file."""
    from opportune import checks  # noqa: PLC0415
    from opportune.progress import bar  # noqa: PLC0415
    from opportune.worlds.brushing import data as robas  # noqa: PLC0415
    from opportune.worlds.brushing import fitting  # noqa: PLC0415

    loaders = {"robas3": robas.load_robas3, "robas2": robas.load_robas2}
    load = loaders[checks.choice("--study", study, loaders)]
    if not out.parent.is_dir():
        raise InputError(f"--out is {str(out)!r}; its folder does not exist")
    data = load(file)
    with _kept("nothing was written"):
        with bar() as show:
            task = show.add_task("fitting users", total=data.users)
            table = fitting.fit_brushing(data, progress=lambda done, _: show.update(task, completed=done))
        fitting.save_table(table, out)
    _print_fit(table)
    typer.echo(str(out))


def _print_fit(table: Any) -> None:
    """A few lines on how the fit went."""
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    show = Table(title=f"{table.study}: fitted users", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("Users", "Sessions", "Converged", "Starts agree", "Log posterior"):
        show.add_column(heading, justify="right")
    show.add_row(
        str(table.users),
        f"{int(table.sessions.sum()):,}",
        f"{int(table.converged.sum())} of {table.users}",
        f"{int(table.starts_agree.sum())} of {table.users}",
        f"{float(table.log_posterior.sum()):,.1f}",
    )
    Console().print(show)


def _use_cores(jobs: int | None) -> None:
    """Use this many cores, or all of them."""
    if jobs is None:
        return
    import numba  # noqa: PLC0415

    most: int = numba.config.NUMBA_NUM_THREADS  # set when numba reads its settings
    if not 1 <= jobs <= most:
        raise InputError(f"--jobs is {jobs}; expected a whole number from 1 to {most}, the cores of this machine")
    numba.set_num_threads(jobs)


@contextmanager
def _kept(what: str) -> Iterator[None]:
    """Say what was kept if Ctrl-C comes while this lasts."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(what) from None
