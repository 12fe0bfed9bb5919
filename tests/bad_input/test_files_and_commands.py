"""Study files and command lines that cannot be used: one line, exit code 2, and nothing done."""

# mypy: disable-error-code="arg-type, call-arg, call-overload, dict-item, index, misc"
# Wrong types are what these tests are about.
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wrong_values import linear, refusal

import opportune as op
from opportune.analysis.plots import as_it_is, plot_differences, plot_regret, save_figure
from opportune.analysis.results import load, save
from opportune.cli import main as cli
from opportune.errors import InputError
from opportune.experiments.runner import reproduce
from opportune.planning import plan, settings_of
from opportune.planning.calibration import calibrate
from opportune.service.record.database import Database
from opportune.service.server import launch
from opportune.service.state.study import StudyInForce
from opportune.study import Study, load_study, parse_study

STUDY = """\
[study]
name = "tiny"
horizon = 20
replicates = 3
actions = ["none", "call"]
budgets = [4]
[variables.stress]
range = [1, 3]
[variables.x]
range = [0, 1]
distribution = { kind = "normal", mean = 0.5, sd = 0.2 }
[reward]
formula = "action*stress + x"
noise_sd = 0.2
theta_bound = 3.0
[effects]
"*" = 0.5
[world]
open_rate = 0.1
[[policies]]
kind = "periodic"
every = 3
name = "p"
"""
NOT_NUMBERS = ('"x"', "true", "nan", "inf", "[]", "{}", "1979-05-27", "1" + "0" * 400)
WRONG: dict[str, tuple[str, ...]] = {
    'name = "tiny"': ('""', "1", '"a b"', '"../x"', '"\\u0000"', "[]", "true"),
    "horizon = 20": (*NOT_NUMBERS, "0", "-1", "1.5", "1000000000000"),
    "replicates = 3": (*NOT_NUMBERS, "0", "4294967296"),
    'actions = ["none", "call"]': (
        "[]", '["a"]', '["a", "a"]', '["a", 1]', '"ab"', '["a", ""]', '["a", "\\u001b[31m"]',
    ),
    "budgets = [4]": ("4", "[0]", "[-1]", '["4"]', "[nan]", "[1e-300]", "[21]", "[4, 4]", "[1e400]"),
    "range = [1, 3]": ("[3, 1]", "[1]", "[1, 2.5]", '["a", "b"]', "[0, 1000000000]", "[nan, 1]", "[1e300, 2e300]"),
    "range = [0, 1]": ("[1, 0]", "[0, 0]", "[nan, 1]", "[50, 60]"),
    'distribution = { kind = "normal", mean = 0.5, sd = 0.2 }': (
        "1", "{}", '{ kind = "cauchy" }', '{ kind = "normal", mean = 0, sd = 0 }',
    ),
    'formula = "action*stress + x"': (
        '""', "1", '"nonsense"', '"action ~ stress"', '"action | stress"', "\"action + __import__('os')\"",
        '"action*stress**9**9**9"', '"action*I(9**9**9)"', '"(action + stress + x)**9"', '"action + log(x)"',
        '"stress"',
    ),
    "noise_sd = 0.2": (*NOT_NUMBERS, "0", "-1", "1e300"),
    "theta_bound = 3.0": (*NOT_NUMBERS, "0", "1e200", "1e-200"),
    '"*" = 0.5': (*NOT_NUMBERS, "1e300", "{ low = 1 }", "{ low = 2, high = 1 }", "{ mean = 0, sd = -1 }"),
    "open_rate = 0.1": (*NOT_NUMBERS, "-0.1", "1.1"),
    'kind = "periodic"': ('"PD9"', "1", '""', "[]"),
    "every = 3": (*NOT_NUMBERS, "0", "1.5", "9223372036854775808"),
    'name = "p"': ('""', "1", '"\\u0000"', '"a\\nb"', '"\\u202e"', '"' + "x" * 3000 + '"'),
}  # fmt: skip
CASES = [
    pytest.param(line, value, id=f"{line[:20]}-{value[:20]}") for line, values in WRONG.items() for value in values
]


def refused_study(text: str) -> str:
    """What a file is refused with: a list of errors, one per line, each with its place."""
    with pytest.raises(InputError) as caught:
        parse_study(text)
    for line in str(caught.value).split("\n"):
        assert line.startswith("study.toml"), line
        assert line.isprintable()
        assert len(line) < 750
    return str(caught.value)


@pytest.mark.parametrize(("line", "value"), CASES)
def test_wrong_values_have_their_line(line: str, value: str) -> None:
    """Whatever stands in a file instead of what was expected, the first error names its line."""
    number = STUDY.split("\n").index(line) + 1
    text = refused_study(STUDY.replace(line, line.split(" = ", maxsplit=1)[0] + " = " + value))
    near = range(number - 3, number + 2)  # of the key, of its table, or of the distribution below it
    assert int(re.match(r"study\.toml, line (\d+): ", text)[1]) in near, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "[study] is missing"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a = " + "[" * 100 + "]" * 100, "nested too deeply"),
        ("a = " + "{a=" * 500 + "1" + "}" * 500, "nested too deeply"),
        ("#" * 2_000_000, "expected a study file, of at most 1,000,000"),
        ("a = 9999-99-99", "not TOML"),
        ("a = " + "1" * 5000, "not TOML"),
        ("[study]\n[study]", "not TOML"),
        ("nonsense", "not TOML"),
        (STUDY.replace('"tiny"', '"' + "x" * 101 + '"'), "at most 100"),
        (STUDY + "[serve]\nbudget = 1e-300\n", "budget in [serve] is 1e-300; expected at least 1e-06"),
        (STUDY + "nonsense = 1\n", "unknown key 'nonsense'"),
        (STUDY + '"a\\u001b" = 1\n', "expected text without"),
        (STUDY.replace("[variables.stress]", '[variables."a b"]'), "a formula cannot name a variable"),
        (STUDY.replace("range = [1, 3]", f"levels = {list(range(40_000))}"), "expected"),
        (STUDY.replace("[study]", "[study]\ninstances = 1000000000"), "instances in [study] is 1000000000"),
        ("\n".join(f"k{i} = 1" for i in range(20_000)), "and 19903 more"),
    ],
    ids=range(17),
)
def test_files_that_are_no_study(text: str, said: str) -> None:
    """Deep, huge, broken and odd files are refused quickly, with no more errors than one can read."""
    refused = refused_study(text)
    assert said in refused
    assert refused.count("\n") <= 101


PLACES = {
    "action": ('"none", "call"', '"none", "call", "{}"'),
    "label of an action": ("[reward]", '[actions.call]\nlabel = "{}"\n[reward]'),
    "label of a variable": ("[variables.stress]", '[variables.stress]\nlabel = "{}"'),
    "nudge": ("[reward]", '[nudge]\nname = "{}"\n[reward]'),
    "several nudges": ("[reward]", '[nudge]\nplural = "{}"\n[reward]'),
    "unit": ("[reward]", '[reward]\nunit = "{}"'),
    "policy": ('name = "p"', 'name = "{}"'),
}
"""Where a study file has names for people, and what to put there."""


@pytest.mark.parametrize("where", PLACES)
def test_names_have_one_line(where: str) -> None:
    """What stands in figures, tables and messages has no line ends or other controls."""
    line, instead = PLACES[where]
    assert line in STUDY
    for odd in "\n\r\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x1b\x00":
        text = STUDY.replace(line, instead.format(f"a\\u{ord(odd):04x}b"))
        assert "expected text without" in refused_study(text), ascii(odd)
    parse_study(STUDY.replace(line, instead.format("a b")))


def test_descriptions_may_have_lines() -> None:
    """A text for people to read may have lines and tabs, and so may a formula; nothing else that is not shown."""
    said = STUDY + '[actions.call]\ndescription = """\nKindly,\n\n\tand soon.\n"""\n'
    parse_study(said.replace('"action*stress + x"', '"""action*stress\n  + x"""'))
    assert "expected text without" in refused_study(said.replace("Kindly", "\\u000c"))


def test_study_files_that_are_right() -> None:
    """The control: the file that the cases above change, and names that only look dangerous."""
    study = parse_study(STUDY.replace('name = "p"', 'name = "[red]$x_ 日本"'))
    assert study.policies()[0].name == "[red]$x_ 日本"
    assert isinstance(study.replace(replicates=2), Study)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda study: study.replace(horizn=3), "horizn"),
        (lambda study: settings_of(study, budgets=3), "budgets is 3; expected a list of numbers"),
        (lambda study: settings_of(study, budgets=[]), "budgets is empty; expected a list of numbers"),
        (lambda study: settings_of(study, budgets=range(10**9)), "budgets has 1000000000 entries"),
        (lambda study: settings_of(study, budgets=[math.nan]), "budgets is nan; expected a finite number"),
        (lambda study: settings_of(study, participants=10**18), "participants is 1000000000000000000; expected"),
        (lambda study: settings_of(None), "study is NoneType; expected a Study"),
        (lambda _: calibrate("study.toml", "pilot.csv"), "study is 'study.toml'; expected a Study"),
        (lambda study: calibrate(study, None), "path is None; expected the path of a file"),
        (lambda study: calibrate(study, "missing.csv"), "missing.csv cannot be read: No such file"),
        (lambda study: plan(study, out=3), "out is 3; expected the path of a file"),
        (lambda _: reproduce(3, out="x"), "names is 3; expected names of experiments"),
        (lambda _: reproduce(range(10**9), out="x"), "names has 1000000000 entries"),
        (lambda _: reproduce(["tabel"], out="x"), "did you mean 'table'?"),
        (lambda _: reproduce(["table"], out=None), "out is None; expected the path"),
        (lambda _: reproduce(["table"], out="x", quick="no"), "quick is 'no'; expected True or False"),
    ],
)
def test_studies_plans_and_experiments_refuse(call: Callable[[Study], Any], said: str) -> None:
    """What a study, a plan or an experiment cannot take is named, and nothing is begun."""
    with pytest.raises(InputError) as caught:
        call(parse_study(STUDY))
    assert said in str(caught.value)


def test_effects_beyond_the_bound_of_the_file() -> None:
    """A file whose theta_bound is less than its effects runs, with one warning for all instances."""
    study = parse_study(STUDY.replace("theta_bound = 3.0", "theta_bound = 0.1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worlds = study.worlds()  # not one for each
    with pytest.warns(UserWarning, match=r"^study.toml: effects have a norm of up to 1, in 1 of 1 instances beyond"):
        study.warn_of_effects(worlds)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a study, half of it, and one of something else."""
    place = tmp_path_factory.mktemp("live")
    example = files("opportune.study.examples").joinpath("stress-messages.toml").read_text(encoding="utf-8")
    (place / "live.toml").write_text(example, encoding="utf-8")
    database = Database(f"sqlite:///{place / 'good.sqlite'}")
    launch(database, StudyInForce.from_file(place / "live.toml"))
    database.close()
    content = (place / "good.sqlite").read_bytes()
    (place / "cut.sqlite").write_bytes(content[: len(content) // 2])
    with closing(sqlite3.connect(place / "other.sqlite")) as other:
        other.execute("CREATE TABLE something (a)")
        other.commit()
    return place


@pytest.fixture
def folder(tmp_path: Path, live: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study, and much that is none; no study runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "latin.toml").write_bytes(STUDY.replace('"p"', '"é"').encode("latin1"))
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n", encoding="utf-8")

    shutil.copytree(live, tmp_path, dirs_exist_ok=True)

    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(Study, "run", run)
    return tmp_path


COMMANDS = [
    ["simulate"], ["simulate", "missing.toml"], ["simulate", "folder"], ["simulate", "binary"],
    ["simulate", "latin.toml"], ["simulate", "file"], ["simulate", "good.toml", "--out", "file"],
    ["simulate", "good.toml", "--out", "file/below"], ["simulate", "good.toml", "--jobs", "0"],
    ["simulate", "good.toml", "--jobs", "-1"], ["simulate", "good.toml", "--jobs", "two"],
    ["simulate", "good.toml", "--jobs", "9" * 30], ["simulate", "good.toml", "--jobs", "1.5"],
    ["simulate", "good.toml", "--jobs"], ["simulate", "good.toml", "--cluster", "nonsense"],
    ["simulate", "good.toml", "--cluster", "dask://here"], ["simulate", "good.toml", "--cluster", ""],
    ["simulate", "good.toml", "good.toml"], ["simulate", "good.toml", "--nonsense"],
    ["simulate", "--example", "good.toml"], ["simulate", "--example", "--policies"], ["simulate", "a\x1b[31m"],
    ["simulate", "a\nb"], ["simulate", "\u202e.toml"],
    ["simulate", "\ud800"], ["simulate", "x" * 5000], ["simulate", ""], ["nonsense"], ["--nonsense"], ["reproduce"],
    ["reproduce", "tabel"], ["reproduce", "table", "--seed", "-1"], ["reproduce", "table", "--seed", "one"],
    ["reproduce", "table", "--seed", str(2**64)], ["reproduce", "table", "--seed", "9" * 400],
    ["reproduce", "table", "--seed", "9" * 5000], ["reproduce", "table", "--jobs", "0"],
    ["reproduce", "table", "--out", "file"], ["reproduce", "table", "--quick=maybe"], ["reproduce", "all", "[red]"],
    ["fit-brushing"], ["fit-brushing", "bad.csv", "--study", "robas9", "--out", "o.json"],
    ["fit-brushing", "bad.csv", "--study", "robas3", "--out", "o.json"],
    ["fit-brushing", "missing.csv", "--study", "robas3", "--out", "o.json"],
    ["fit-brushing", "folder", "--study", "robas3", "--out", "o.json"],
    ["fit-brushing", "binary", "--study", "robas3", "--out", "o.json"],
    ["fit-brushing", "bad.csv", "--study", "robas3", "--out", "no/o.json"],
    ["fit-brushing", "bad.csv", "--study", "robas3", "--out", "folder"], ["check"], ["check", "missing.toml"],
    ["check", "folder"], ["check", "good.toml", "--nonsense"], ["simulate", "good.toml", "--out", ""],
    ["simulate", "good.toml", "--out="], ["simulate", "good.toml", "--out", "a\nb"],
    ["simulate", "good.toml", "--device", "tpu"], ["reproduce", "table", "--device", "tpu"],
    ["reproduce", "table", "--out", "x" * 300], ["calibrate", "", "bad.csv"], ["calibrate", "good.toml", "/dev/full"],
    ["calibrate", "good.toml", "missing.csv"], ["calibrate", "good.toml", "binary"], ["calibrate", "good.toml", "file"],
    ["calibrate", "good.toml", "bad.csv", "--out", "x" * 300], ["fit-brushing", "/dev/full", "--study", "robas3",
    "--out", "o.json"], ["new", "x" * 300 + ".toml", "--yes"], ["new", "no/n.toml", "--yes"],
    ["new", "n.toml", "--yes", "--name", "\x1b[31m"], ["plan", "good.toml", "--out", "x" * 300],
    ["plan", "good.toml", "--budgets", "1,x"], ["plan", "good.toml", "--budgets", " "],
    ["plan", "good.toml", "--budgets", ","], ["plan", "good.toml", "--target", "nan"],
    *(
        [*command, "--db", f"sqlite:///{place}"]
        for command in (["verify"], ["status"], ["export", "o"], ["backup", "o.db"], ["close", "--reason", "x"],
                        ["keys", "list"], ["people", "list"], ["keys", "revoke", "k"], ["restore", "file"])
        for place in ("missing.db", "folder", "binary", "cut.sqlite", "no/such.db")
    ),
    ["serve", "live.toml", "--db", "sqlite:///folder"], ["serve", "live.toml", "--db", "sqlite:///other.sqlite"],
    ["restore", "cut.sqlite", "--db", "sqlite:///n.sqlite"], ["restore", "good.sqlite", "--db", "sqlite:///other.sqlite"],
    ["export", "file", "--db", "sqlite:///good.sqlite"], ["export", "o", "--db", "postgresql://localhost:1/x"],
    ["backup", "no/b.db", "--db", "sqlite:///good.sqlite"], ["backup", "file", "--db", "sqlite:///good.sqlite"],
    ["close", "--reason", "\x1b", "--db", "sqlite:///good.sqlite"],
    ["status", "--db", "postgresql://[::1"], ["status", "--db", "nonsense"],
    ["simulate", "good.toml", "--cluster", "a=b"], ["new", "n.toml", "--yes", "--sensed", "a b"],
    ["new", "n.toml", "--yes", "--reported", "a\"b"],
    ["close", "--reason", " ", "--db", "sqlite:///good.sqlite"],
    ["keys", "revoke", "\ud800", "--db", "sqlite:///good.sqlite"],
    ["people", "revoke", "nobody", "--db", "sqlite:///good.sqlite"],
    ["keys", "add", "x" * 65, "--role", "app", "--db", "sqlite:///good.sqlite"],
]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: ascii(" ".join(arguments))[:60])
def test_wrong_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use ends with code 2 and one line on standard error, in characters that do nothing to a terminal."""
    assert cli.run(arguments) == 2
    said = capsys.readouterr()
    lines = said.err.rstrip("\n").split("\n")
    assert len(lines) == 1, said.err
    assert lines[0].startswith("opportune: error: ")
    assert lines[0].isprintable()
    assert len(lines[0]) < 800
    assert said.out == ""
    assert not Path("out").exists()


def test_files_that_cannot_be_read(folder: Path) -> None:
    """A folder, a device without end and other files in the place of a study or of results are named as such."""
    assert refusal(lambda: load_study(folder / "folder")).endswith(
        "cannot be read: Is a directory; expected a study file in TOML"
    )
    assert "expected a study file" in refusal(lambda: load_study("/dev/zero"))
    assert "is a folder; expected a results file" in refusal(lambda: load(folder / "folder"))
    assert "cannot be read: File name too long" in refusal(lambda: load("x" * 300 + ".nc"))
    for name in ("file", "binary"):
        assert f"{name} does not end in a checksum" in refusal(lambda name=name: load(folder / name))


def test_a_terminal_that_is_not_utf_8(folder: Path) -> None:
    """What a terminal cannot show is written in other characters; a name that looks like markup is left alone."""
    (folder / "odd.toml").write_text(STUDY.replace('"none"', '"日本"') + 'budgets = ["ü"]\n', encoding="utf-8")
    code = "import sys; from opportune.cli.main import run; sys.exit(run(['check', 'odd.toml']))"
    variables = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, check=False, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.decode("ascii").count("odd.toml, line ") == 1
    assert r"\xfc" in done.stderr.decode("ascii")


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """A name with '$', '_' first, or letters that the font lacks is in the legend as it is, and no formula."""
    names = ["$x$", "_hidden", r"$\frac{1}{", "[red]x", "日本"]
    policies = [op.Policy(revealer=op.Never(), name=name) for name in names]
    data = op.simulate(linear(), policies, horizon=3, replicates=2, seed=1, progress=False)
    figure = plot_regret(data)
    (legend,) = figure.legends
    assert [text.get_text().replace(r"\$", "$").strip() for text in legend.get_texts()] == names
    assert as_it_is("$x$") == r"\$x\$"
    save_figure(figure, tmp_path, "odd")
    assert load(save(data, tmp_path / "odd.nc"))["policy"].values.tolist() == names


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder, wherever a path is given; a name that nobody has is left alone."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    data = op.simulate(linear(), op.pd2_ucb(2), horizon=3, replicates=2, seed=1, progress=False)
    assert op.save(data, "~/x.nc") == tmp_path / "x.nc"
    assert op.load("~/x.nc").sizes == data.sizes
    assert "~nobody-has-this-name/x.nc" in refusal(lambda: op.load("~nobody-has-this-name/x.nc"))


def test_results_that_are_none() -> None:
    """Metrics and figures refuse Datasets that lack what they need, each with what that is."""
    data = op.simulate(linear(), [op.pd2_ucb(2), op.naive_ucb(1)], horizon=3, replicates=2, seed=1, progress=False)
    wrong = {
        "lacks 'policy'": data.isel(policy=0),
        "lacks 'world'": data.isel(world=0),
        "the Dataset has one": data.isel(step=0),
        "at least one entry on axis 'replicate'": data.isel(replicate=[]),
        "has no configuration": data.drop_attrs(),
        "needs the configuration": data.assign_attrs(config="{}"),
        "needs 'true_blind'": data.drop_vars("true_blind"),
        "needs 'budget'": data.drop_vars("budget"),
        "needs numbers in 'value'": data.assign(value=data["value"].astype(str)),
        "needs contexts from 0 to 2": data.assign(context=data["context"] + 100),
        "is not one the Dataset was made with": data.assign_coords(policy=["a", "b"]),
        "needs 'value' with the axes policy, world, replicate, step; got none": data.assign(value=1.0),
        "needs 'true_gap' with the axes world, contexts; got none": data.assign(true_gap=1.0),
        "needs 'total_value' with the axes policy, world, replicate; got z,": data.assign(
            total_value=data["total_value"].expand_dims("z")
        ),
        "needs finite numbers in 'value'": data.assign(value=data["value"] * np.nan),
        "needs finite numbers in 'context'": data.assign(context=data["context"] * np.nan),
        "needs the number of each step": data.assign_coords(step=data["step"].astype(str)),
        "needs the names of each policy": data.drop_vars("policy"),
    }
    for said, given in wrong.items():
        assert said in refusal(lambda given=given: op.regret(given))
        assert said in refusal(lambda given=given: op.plot_regret(given))
    assert "a comparison of policies needs results" in refusal(lambda: plot_differences(None))
    assert "lacks 'policy'" in refusal(lambda: plot_differences(data.isel(policy=0)))
    np.testing.assert_array_equal(op.regret(data), op.regret(data.transpose("step", ...)))
    assert "expected a DataArray" in refusal(lambda: op.mean_interval(data))
    assert "expected a Dataset" in refusal(lambda: op.save(data["value"], "x.nc"))
    odd: Any
    for odd in (None, {}, 10**400, "\0"):
        assert "cannot be written as NetCDF" in refusal(lambda odd=odd: op.save(data.assign_attrs(note=odd), "x.nc"))
