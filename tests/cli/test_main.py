"""The command line: what it prints, what it writes, and the code it ends with."""

import csv
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import pytest
import xarray as xr

from opportune._version import __version__
from opportune.analysis.results import load
from opportune.cli import main as cli
from opportune.errors import DataError, OpportuneError
from opportune.experiments import NAMES
from opportune.study import Study
from opportune.worlds.brushing.table import load_table
from processes import COMMAND
from processes import STUDY as TINY

STUDY = (
    TINY.lstrip()
    .replace("horizon = 100\nreplicates = 40", "horizon = 20\nreplicates = 3")
    .replace(
        '[[policies]]\nkind = "PD2"\n',
        '[[policies]]\nkind = "naive"\n\n[[policies]]\nkind = "PD2"\n\n[[policies]]\nkind = "never"\n',
    )
)
QUICK = STUDY.replace("replicates", "trace = false\nreplicates")
"""The study without figures over time, which take longest."""


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to work in, 80 columns wide, with a study file tiny.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path


class Simulated(NamedTuple):
    """What a study gave, for tests that only read it."""

    shown: str  # on the terminal
    data: xr.Dataset
    page: str
    rows: dict[str, dict[str, str]]  # of the CSV file, by policy
    threads: tuple[int, int]  # before and after


def simulated(folder: Path, text: str) -> Simulated:
    """Simulate a study in a folder of its own, 80 columns wide."""
    threads = numba.get_num_threads()
    (folder / "tiny.toml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as shown:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        assert cli.run(["simulate", "tiny.toml", "--jobs", "1"]) == 0
    with (folder / "out" / "tiny.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    page = (folder / "out" / "tiny-report.html").read_text(encoding="utf-8")
    data = load(folder / "out" / "tiny.nc")
    return Simulated(shown.getvalue(), data, page, rows, (threads, numba.get_num_threads()))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The study as it is."""
    return simulated(tmp_path_factory.mktemp("tiny"), STUDY)


@pytest.fixture(scope="module")
def dressed(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The study with a unit, a hard budget, a word for nudges, and a name with markup."""
    text = STUDY.replace("noise_sd", 'unit = "minutes"\nnoise_sd') + '\n[nudge]\nname = "Anruf"\nplural = "Anrufe"\n'
    text = text.replace("budgets = [4]", 'budgets = [4]\nbudget_kind = "hard"')
    text = text.replace('kind = "naive"', 'kind = "naive"\nname = "[red]x[/red]<b>"')
    return simulated(tmp_path_factory.mktemp("dressed"), text)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for the experiments' runner and notes how it was called."""
    called: dict[str, Any] = {}

    def reproduce(names: list[str], **settings: Any) -> Path:
        called.update(settings, names=names)
        return Path(settings["out"]) / "report.html"

    module = ModuleType("opportune.experiments.runner")
    module.__dict__.update(reproduce=reproduce)
    monkeypatch.setitem(sys.modules, "opportune.experiments.runner", module)
    return called


def errors(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on standard error."""
    return capsys.readouterr().err.splitlines()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the name and the version."""
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"opportune {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The help names every command, explains the words, gives examples, and fits into 80 columns."""
    assert cli.run(arguments) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("reproduce", "simulate", "fit-brushing", "nudge", "Examples", "Exit codes"))
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("reproduce", ["--out", "--quick", "--seed", "--jobs", "--force", "--cluster"]),
        ("simulate", ["--example", "--out", "--jobs", "--cluster"]),
        ("fit-brushing", ["--study", "--out"]),
    ],
)
def test_help_of_commands(command: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has help with an example and all its options."""
    assert cli.run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert all(option in text for option in options)


def test_help_names_the_experiments_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of reproduce lists every experiment, in the order in which they run, within 80 columns."""
    assert cli.run(["reproduce", "--help"]) == 0
    text = capsys.readouterr().out
    assert ", ".join(NAMES) in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_entry_point_is_quick_to_answer() -> None:
    """The installed command answers --help without importing anything heavy."""
    code = (
        "import sys; sys.argv = ['opportune', '--help']\n"
        "import opportune.cli.main\n"
        "try: opportune.cli.main.main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'scipy', 'xarray', 'pandas', 'matplotlib', 'pydantic', 'formulaic'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
    assert "Usage: opportune" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'?; see 'opportune --help'"),
        (["simulate", "--jbos", "2"], "No such option: --jbos"),
        (["simulate", "--jobs", "two"], "Invalid value for '--jobs'"),
        (["simulate", "a.toml", "b.toml"], "Got unexpected extra argument"),
        (["simulate"], "no study file is given; expected STUDY.toml, or --example, which prints one"),
        (["simulate", "nix.toml"], "nix.toml does not exist; expected a study file in TOML"),
        (["fit-brushing", "a.csv", "--study", "robas3"], "Missing option '--out'"),
        (
            ["fit-brushing", "a.csv", "--study", "robas4", "--out", "x.json"],
            "--study is 'robas4'; expected one of 'robas3', 'robas2'; did you mean 'robas3'?",
        ),
        (
            ["fit-brushing", "a.csv", "--study", "robas3", "--out", "nix/x.json"],
            "--out is 'nix/x.json'; expected a path in a folder that exists",
        ),
    ],
)
@pytest.mark.usefixtures("in_folder")
def test_wrong_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use ends with code 2 and one line that says what is wrong."""
    assert cli.run(arguments) == 2
    (line,) = errors(capsys)
    assert line.startswith(f"opportune: error: {message}")


@pytest.mark.usefixtures("in_folder")
def test_too_many_cores(capsys: pytest.CaptureFixture[str]) -> None:
    """More jobs than cores are refused with the number of cores."""
    cores: int = numba.config.NUMBA_NUM_THREADS  # set when numba reads its settings
    for jobs in (0, cores + 1):
        assert cli.run(["simulate", "tiny.toml", "--jobs", str(jobs)]) == 2
        expected = f"--jobs is {jobs}; expected a whole number from 1 to {cores}, as NUMBA_NUM_THREADS says"
        assert errors(capsys) == [f"opportune: error: {expected}"]


def test_mistakes_in_a_study_file(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mistake in a study file is a line of its own, with the file's line, and nothing is written."""
    (in_folder / "bad.toml").write_text(STUDY.replace("budgets", "budgts").replace("0.2", "0"), encoding="utf-8")
    assert cli.run(["simulate", "bad.toml"]) == 2
    assert errors(capsys) == [
        "opportune: error: bad.toml, line 6: unknown key 'budgts' in [study]; did you mean 'budgets'?",
        "opportune: error: bad.toml, line 13: noise_sd in [reward] is 0; expected a number > 0, the sd of "
        "the reward's noise",
        "opportune: error: bad.toml: 1 more check follows once these are corrected",
    ]
    assert not (in_folder / "out").exists()


@pytest.mark.usefixtures("in_folder")
def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """--debug shows where an error was raised, wherever it stands; without it there is one line."""
    for arguments in (["--debug", "simulate", "nix.toml"], ["simulate", "nix.toml", "--debug"]):
        assert cli.run(arguments) == 2
        lines = errors(capsys)
        assert lines[0].startswith("Traceback")
        assert lines[-1].startswith("opportune: error: nix.toml does not exist")


def test_failures(in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What goes wrong in the run ends with code 1, what was given wrongly with code 2, and always with one line."""
    faults = {
        "opportune: error: row 3 is broken": (DataError("row 3 is broken"), 2),
        "opportune: error: workers were lost": (OpportuneError("workers were lost"), 1),
        "opportune: error: there is not enough memory; expected fewer runs, or trace = false": (MemoryError(), 1),
        "opportune: error: ZeroDivisionError: oh dear (--debug shows where)": (ZeroDivisionError("oh\ndear"), 1),
    }
    for line, (fault, code) in faults.items():

        def fail(self: Study, *, fault: Exception = fault, **_: Any) -> None:
            raise fault

        monkeypatch.setattr(Study, "run", fail)
        assert cli.run(["simulate", "tiny.toml"]) == code
        assert errors(capsys)[-1] == line
    (in_folder / "file").touch()
    assert cli.run(["simulate", "tiny.toml", "--out", "file"]) == 2
    expected = "file cannot be written (File exists); expected a folder for results"
    assert errors(capsys) == [f"opportune: error: {expected}"]


@pytest.mark.usefixtures("in_folder")
def test_interrupted_before_anything_was_finished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends with code 130 and says that nothing was kept, wherever it comes."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "run", stop)
    assert cli.run(["simulate", "tiny.toml"]) == 130
    assert errors(capsys)[-1] == "opportune: interrupted: no replicate was finished, and nothing was written"
    monkeypatch.setattr("opportune.study.load_study", stop)
    assert cli.run(["simulate", "tiny.toml"]) == 130
    assert errors(capsys) == ["opportune: interrupted: nothing was written"]


def test_interrupted_run_keeps_what_is_finished(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle writes the finished replicates under a name that says so, and nothing else; code 130."""
    whole = Study.run

    def part(self: Study, **settings: Any) -> Any:
        assert settings["on_interrupt"] == "return"
        return whole(self, **settings).isel(replicate=slice(2)).assign_attrs(interrupted=1)

    monkeypatch.setattr(Study, "run", part)
    assert cli.run(["simulate", "tiny.toml"]) == 130
    expected = "opportune: interrupted: 2 of 3 replicates were finished and are kept in out/tiny.interrupted.nc"
    assert errors(capsys)[-1] == expected
    assert [path.name for path in (in_folder / "out").iterdir()] == ["tiny.interrupted.nc"]
    kept = load(in_folder / "out" / "tiny.interrupted.nc")
    assert (kept.sizes["replicate"], kept.attrs["interrupted"]) == (2, 1)


def test_example_can_be_run(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed example is a study file that runs as it is, here with fewer runs, into table and files."""
    assert cli.run(["simulate", "--example"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for key, large, small in (("horizon", 200, 25), ("replicates", 50, 2), ("instances", 10, 2)):
        assert f"{key} = {large} " in text
        text = text.replace(f"{key} = {large} ", f"{key} = {small} ")
    (in_folder / "my.toml").write_text(text, encoding="utf-8")
    assert cli.run(["simulate", "my.toml", "--out", "results"]) == 0
    shown = capsys.readouterr().out
    for label in ("PACE B=10", "naive B=10", "PD1 B=20", "PD2 B=20", "periodic", "never", "always", "±", "instances"):
        assert label in shown
    assert max(map(len, shown.splitlines())) <= 80
    stem = Path("results") / "stress-messages"
    drawn = ("differences", "outcomes", "regret", "reveals")
    written = [
        f"{stem}.nc",
        f"{stem}.csv",
        *(f"{stem}-{name}.{kind}" for name in drawn for kind in ("png", "svg")),
        f"{stem}-report.html",
    ]
    assert shown.splitlines()[-len(written) :] == written
    assert all((in_folder / name).stat().st_size > 0 for name in written)


def table_rows(shown: str) -> dict[str, list[str]]:
    """The rows of the first table that was printed, by policy."""
    lines = [line.split() for line in shown.split("Outcome:", maxsplit=1)[0].splitlines()]
    return {line[0]: line[1:] for line in lines if line}


def test_simulate_results(tiny: Simulated) -> None:
    """The tables' numbers are those of the data: outcomes, paired differences, nudges, what is left, and regret."""
    before, after = tiny.threads
    assert after == before
    rows = table_rows(tiny.shown)
    data = tiny.data
    assert data.attrs["study_file"] == STUDY
    mean = data["total_outcome"].mean(["world", "replicate"]) / 20
    lost = (data["total_best"] - data["total_outcome"]).mean(["world", "replicate"])
    for policy in ("naive", "PD2", "never"):
        here = data.sel(policy=policy)
        assert float(rows[policy][0]) == pytest.approx(float(mean.sel(policy=policy)), abs=0.051)
        assert rows[policy][-2] == f"{float(here['nudges'].mean()):.1f}"
        if policy != "never":
            difference = float(mean.sel(policy=policy) - mean.sel(policy="never"))
            assert float(rows[policy][3]) == pytest.approx(difference, abs=0.051)
            assert float(rows[policy][6]) == pytest.approx(float(lost.sel(policy=policy)), abs=0.51)
    assert rows["never"][3] == "-"
    assert rows["naive"][-1] == f"{4 - float(data['spent'].sel(policy='naive').mean()):.1f}"
    assert rows["never"][-1] == "-"
    regrets = tiny.shown.split("Regret, by clairvoyant")[1]
    assert [line.split()[:3] for line in regrets.splitlines() if "±" in line] == [
        ["4", "nudges", "naive"],
        ["4", "nudges", "PD2"],
    ]
    assert "Not in this table, as they have no budget: never." in regrets


def test_the_table_is_written_in_full(tiny: Simulated) -> None:
    """The CSV file has a row per policy, numbers as they are in the data, and no regret where there is no budget."""
    rows = tiny.rows
    assert list(rows) == ["naive", "PD2", "never"]
    outcome = tiny.data["total_outcome"] / 20
    paired = (outcome.sel(policy="PD2") - outcome.sel(policy="never")).values
    assert float(rows["PD2"]["difference"]) == pytest.approx(paired.mean())
    assert float(rows["PD2"]["difference_high"]) > float(rows["PD2"]["difference"])
    assert rows["PD2"]["clairvoyant"] == "4 nudges"
    assert float(rows["PD2"]["regret_low"]) <= float(rows["PD2"]["regret"])
    assert (rows["never"]["regret"], rows["never"]["budget"], rows["never"]["difference"]) == ("", "", "")


def test_the_reference_can_be_chosen(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--reference names the policy that others are compared with; a wrong name is refused before anything runs."""
    assert cli.run(["simulate", "tiny.toml", "--reference", "naive"]) == 0
    shown = capsys.readouterr().out
    assert "Beside naive: the difference on the same draws." in shown
    assert table_rows(shown)["naive"][3] == "-"
    page = (in_folder / "out" / "tiny-report.html").read_text(encoding="utf-8")
    assert "opportune simulate tiny.toml --reference naive" in page
    (in_folder / "out" / "tiny.nc").unlink()
    assert cli.run(["simulate", "tiny.toml", "--reference", "PD3"]) == 2
    assert errors(capsys)[-1].startswith("opportune: error: --reference is 'PD3'; expected one of 'naive', 'PD2'")
    assert not (in_folder / "out" / "tiny.nc").exists()


def test_the_unit_of_the_reward_is_shown(dressed: Simulated, tiny: Simulated) -> None:
    """A study that names its unit has outcomes in it, on the terminal and on the page."""
    assert "(minutes); more is better" in dressed.shown
    assert "mean outcome (minutes)" in dressed.page
    assert "minutes" not in tiny.shown


def test_names_are_shown_as_they_are(dressed: Simulated) -> None:
    """Markup in a policy's name is text, on the terminal and on the page."""
    assert "[red]x[/red]<b>" in dressed.shown
    assert "[red]x[/red]<b>" not in dressed.page
    assert "[red]x[/red]&lt;b&gt;" in dressed.page


def test_devices(in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--device reaches the simulation; a wrong one is refused, and cuda says what it needs where there is none."""
    seen: list[str] = []

    def noted(device: str, _: object, **__: object) -> str:
        seen.append(device)
        return "cpu"

    (in_folder / "tiny.toml").write_text(QUICK, encoding="utf-8")
    monkeypatch.setattr("opportune.simulation.run.pick_device", noted)
    for device in ("auto", "cpu"):
        assert cli.run(["simulate", "tiny.toml", "--device", device]) == 0
    assert seen == ["auto", "cpu"]
    assert cli.run(["simulate", "tiny.toml", "--device", "tpu"]) == 2
    assert errors(capsys)[-1].startswith("opportune: error: --device is 'tpu'; expected one of 'cpu', 'cuda', 'auto'")
    monkeypatch.undo()
    monkeypatch.chdir(in_folder)
    monkeypatch.setattr("opportune.simulation.cuda.available", lambda: False)
    for command in (["simulate", "tiny.toml"], ["reproduce", "table"]):
        assert cli.run([*command, "--device", "cuda"]) == 2
        assert "device 'cuda' is not available" in errors(capsys)[-1]


def test_studies_with_numbers_show_outcomes(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the paper's regret is not defined, there is no table and no figure of it."""
    numbers = 'range = [1, 3]\ndistribution = { kind = "uniform" }'
    (in_folder / "tiny.toml").write_text(STUDY.replace("range = [1, 3]", numbers), encoding="utf-8")
    assert cli.run(["simulate", "tiny.toml"]) == 0
    shown = capsys.readouterr().out
    rows = table_rows(shown)
    data = load(in_folder / "out" / "tiny.nc")
    for policy in ("naive", "PD2", "never"):
        mean = float(data["total_outcome"].sel(policy=policy).mean()) / 20
        assert float(rows[policy][0]) == pytest.approx(mean, abs=0.051)
    assert "clairvoyant" not in shown
    drawn = ("differences", "outcomes", "reveals")
    names = [f"out/tiny-{name}.{kind}" for name in drawn for kind in ("png", "svg")]
    assert shown.splitlines()[-7:] == [*names, "out/tiny-report.html"]


def test_hard_budgets_are_counted_in_nudges(dressed: Simulated) -> None:
    """What is left of a hard budget is a number of nudges."""
    rows = table_rows(dressed.shown)
    nudges = float(dressed.data["nudges"].sel(policy="PD2").mean())
    assert rows["PD2"][-1] == f"{4 - nudges:.1f}"


def test_tables_and_report_have_the_study_s_word(dressed: Simulated) -> None:
    """What the study calls a nudge is what the table, its regret and the report's figures call it."""
    assert re.search(r"Anrufe +Budget left", dressed.shown)
    assert "4 Anrufe" in dressed.shown
    assert "Nudges" not in dressed.shown
    assert "The probability of Anrufe over time" in dressed.page


def test_totals_only(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With trace = false there are tables, data and differences, and a line that says why nothing shows time."""
    (in_folder / "tiny.toml").write_text(QUICK, encoding="utf-8")
    assert cli.run(["simulate", "tiny.toml"]) == 0
    assert "no figures over time" in errors(capsys)[-1]
    names = {"tiny.nc", "tiny.csv", "tiny-differences.png", "tiny-differences.svg", "tiny-report.html"}
    assert {path.name for path in (in_folder / "out").iterdir()} == names


def test_cluster_is_connected_around_the_run(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--cluster holds a connection to the address while the study runs."""
    (in_folder / "tiny.toml").write_text(QUICK, encoding="utf-8")
    events: list[str] = []

    class Connection:
        def __init__(self, address: str) -> None:
            self.address = address

        def __enter__(self) -> None:
            events.append(f"open {self.address}")

        def __exit__(self, *_: object) -> None:
            events.append("close")

    monkeypatch.setattr("opportune.simulation.cluster.connect", Connection)
    whole = Study.run

    def noted(self: Study, **settings: Any) -> Any:
        events.append("run")
        return whole(self, **settings)

    monkeypatch.setattr(Study, "run", noted)
    assert cli.run(["simulate", "tiny.toml", "--cluster", "dask://host:8786"]) == 0
    assert events == ["open dask://host:8786", "run", "close"]


def test_reproduce_passes_everything_on(runner: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Names and options reach the runner as they were given; the report's path is the last line."""
    options = ["--out", "here", "--quick", "--seed", "7", "--force", "--device", "auto", "--cluster", "ray://a:1"]
    assert cli.run(["reproduce", "table", "regret", "table", *options]) == 0
    assert runner == {
        "names": ["table", "regret"], "out": Path("here"), "quick": True, "seed": 7, "jobs": None,
        "force": True, "device": "auto", "cluster": "ray://a:1",
    }  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == str(Path("here") / "report.html")


def test_reproduce_all(runner: dict[str, Any]) -> None:
    """`all` stands for every experiment."""
    assert cli.run(["reproduce", "all"]) == 0
    assert runner["names"] == list(NAMES)
    assert (runner["out"], runner["seed"]) == (Path("out"), 1)


@pytest.mark.usefixtures("runner")
def test_reproduce_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong or missing name ends with code 2 and says which names there are."""
    assert cli.run(["reproduce", "regrets"]) == 2
    known = ", ".join(map(repr, NAMES))
    expected = f"NAME is 'regrets'; expected one of {known}, 'all'; did you mean 'regret'?"
    assert errors(capsys) == [f"opportune: error: {expected}"]
    assert cli.run(["reproduce"]) == 2
    expected = f"no experiment is given; expected one of {known}, or 'all'"
    assert errors(capsys) == [f"opportune: error: {expected}"]


def test_reproduce_interrupted(
    runner: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C says that finished parts are kept and how to go on."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["opportune.experiments.runner"], "reproduce", stop)
    assert cli.run(["reproduce", "all", "--out", "here"]) == 130
    expected = "finished parts are kept in here; the same command resumes there"
    assert errors(capsys) == [f"opportune: interrupted: {expected}"]
    assert runner == {}


def test_fit_brushing(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ROBAS file becomes a table of users that can be loaded, with a line on how the fit went."""
    (in_folder / "data.csv").write_text(brushing_file(users=2, days=8), encoding="utf-8")
    assert cli.run(["fit-brushing", "data.csv", "--study", "robas3", "--out", "users.json"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2" in shown
    assert shown.splitlines()[-1] == "users.json"
    assert load_table("users.json").users == 2


def test_fit_brushing_broken_file(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that breaks the format ends with code 1 and the row, and no table is written."""
    (in_folder / "data.csv").write_text(brushing_file(users=1, days=8).replace(",60,", ",-60,", 1), encoding="utf-8")
    assert cli.run(["fit-brushing", "data.csv", "--study", "robas3", "--out", "users.json"]) == 2
    (line,) = errors(capsys)
    assert line.startswith("opportune: error: data.csv, line ")
    assert not (in_folder / "users.json").exists()


def brushing_file(*, users: int, days: int) -> str:
    """A small file in the format of ROBAS 3."""
    rows = [
        ",ROBAS ID,Day in Study,Time of Day,Brushing duration,Pressure duration,Day Type,"
        "Proportion Brushed In Past 7 Days"
    ]
    for user in range(users):
        for session in range(2 * days):
            day, evening = session // 2 + 1, session % 2
            seconds = 60 if (session + user) % 3 else 5 + 7 * session
            rows.append(f"{len(rows) - 1},user{user},{day},{evening},{seconds},5,{int(day % 7 > 4)},0.5")
    return "\n".join(rows) + "\n"


def test_check_says_what_is_missing(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` lists what each command needs of a file; a file with a mistake is refused as everywhere."""
    assert cli.run(["simulate", "--example"]) == 0
    text = capsys.readouterr().out
    (in_folder / "my.toml").write_text(text.replace('question = "How is your mood?"', ""), encoding="utf-8")
    assert cli.run(["check", "my.toml"]) == 0
    said = capsys.readouterr().out
    assert "simulate: ready" in said
    assert "serve: still needs\n  - question in [variables.mood], which participants are asked\n" in said
    (in_folder / "my.toml").write_text(text.replace("horizon =", "horzon ="), encoding="utf-8")
    assert cli.run(["check", "my.toml"]) == 2
    assert "did you mean 'horizon'?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["simulate", "--example"], ["--help"], ["simulate", "tiny.toml"], ["nonsense"]])
@pytest.mark.parametrize("both", [False, True])
def test_a_pipe_that_closes_early_is_no_error_to_speak_of(arguments: list[str], both: bool, in_folder: Path) -> None:
    """When whoever reads the output has gone, as after `| head`, a command ends with its code and says nothing."""
    (in_folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], cwd=in_folder, stdout=writer,
        stderr=writer if both else subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == (2 if arguments == ["nonsense"] else 1)
    assert both or not any(word in done.stderr for word in ("Traceback", "Exception", "Broken"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_on_a_full_disk_is_one_sentence(in_folder: Path) -> None:
    """Where what is printed cannot be written, one line says so."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "simulate", "--example"], cwd=in_folder, stdout=full,
            stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "opportune: error: the output cannot be written: the disk is full\n")


def test_the_home_folder_has_its_usual_sign(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """~ is the user's home also where no shell has put it in, as in --out=~/results."""
    monkeypatch.setenv("HOME", str(in_folder))
    (in_folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    assert cli.run(["simulate", "~/tiny.toml", "--out=~/results"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(in_folder / "results" / "tiny-report.html")
