"""Compiled code is kept, and never outlives the sources it was made from."""

import gc
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from numba import njit
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

import opportune
from opportune.engine import compiled

# The rule in `analysis.clairvoyant` has functions of other files inside; its own file is not edited here.
SCRIPT = """
import json
import opportune
from opportune.analysis import clairvoyant
from opportune.engine import compiled

probabilities = clairvoyant.auxiliary([0.3, 0.5, 0.4], 1.0).tolist()
hits = sum(clairvoyant._run_rule.stats.cache_hits.values())
print(json.dumps([opportune.__file__, str(compiled.cache_folder()), probabilities, hits]))
"""
RULE = "return max(0.0, min(gap, budget - spent, 1.0)), gap - price"


class Ran(NamedTuple):
    """What a fresh interpreter found."""

    folder: str
    probabilities: list[float]
    loaded: int  # compiled functions that came from the folder


class Copy:
    """A copy of the package, whose sources can be edited and which has a cache of its own."""

    def __init__(self, home: Path) -> None:
        self.package = home / "src" / "opportune"
        self.cache = home / "cache"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(opportune.__file__).parent, self.package, ignore=ignored)

    def edit(self, module: str, old: str, new: str) -> None:
        """Replace something that stands in a module once."""
        path = self.package / module
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    def run(self, **environment: str) -> Ran:
        """Run the script by the copy, in an interpreter of its own."""
        paths = {"PYTHONPATH": str(self.package.parent), "OPPORTUNE_CACHE_DIR": str(self.cache)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **paths, **environment}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        file, folder, probabilities, loaded = json.loads(done.stdout)
        assert Path(file).parent == self.package
        return Ran(folder, probabilities, loaded)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_an_edit_is_compiled_anew_and_the_same_sources_are_not(copy: Copy) -> None:
    """After an edit of a function inside the rule, the new rule runs; without one, kept code is loaded."""
    first = copy.run()
    again = copy.run()
    assert again.folder == first.folder
    assert (first.loaded, again.loaded) == (0, 1)  # compiled once, then loaded: the control
    assert first.probabilities == again.probabilities == [0.3, 0.5, 0.0]

    copy.edit("revealers/primal_dual.py", RULE, RULE.replace("1.0)), gap", "0.1)), gap"))
    edited = copy.run()
    assert edited.folder != first.folder
    assert (edited.loaded, edited.probabilities) == (0, [0.1, 0.1, 0.1])

    copy.edit("revealers/primal_dual.py", "0.1)), gap", "1.0)), gap")
    assert copy.run() == again  # what was there is still good


def test_sources_that_are_not_compiled_do_not_matter(copy: Copy) -> None:
    """An edit of the report, or of how runs are packed, costs nobody a compilation; a new rule does."""
    first = copy.run()
    for module in ("report/page.py", "simulation/pack.py"):
        path = copy.package / module
        path.write_text(path.read_text(encoding="utf-8") + "\n# a remark\n", encoding="utf-8")
    assert copy.run() == first._replace(loaded=1)
    rule = '"""A rule to come."""\n\nfrom opportune.engine.compiled import inner_function\n'
    (copy.package / "revealers" / "another.py").write_text(rule, encoding="utf-8")
    assert copy.run().folder != first.folder


def test_the_debug_build_is_kept_apart(copy: Copy) -> None:
    """With every access checked it is other code, with the same results."""
    plain, checked = copy.run(OPPORTUNE_CHECK_BOUNDS="0"), copy.run(OPPORTUNE_CHECK_BOUNDS="1")
    assert plain.folder != checked.folder
    assert plain.probabilities == checked.probabilities


def test_a_cache_directory_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    """Compiled code then goes to a temporary directory."""
    blocked = tmp_path / "a file"
    blocked.write_text("", encoding="utf-8")
    script = "from opportune.engine.compiled import cache_folder; print(cache_folder())"
    environment: dict[str, Any] = {**os.environ, "OPPORTUNE_CACHE_DIR": str(blocked), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "tmp")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_is_told_what_is_being_compiled(tmp_path: Path) -> None:
    """The first simulation says on a terminal what takes its time; the second finds compiled code and says nothing."""
    script = (
        "import opportune as op; op.simulate(op.synthetic_worlds(1, seed=1), op.naive_ucb(5), horizon=5, replicates=1,"
        " seed=1, trace=False)"
    )
    said = []
    for _ in range(2):
        master, terminal = os.openpty()
        environment = {
            **os.environ,
            "OPPORTUNE_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": str(Path(opportune.__file__).parents[1]),
        }
        subprocess.run([sys.executable, "-c", script], env=environment, stderr=terminal, timeout=300, check=True)
        os.close(terminal)
        with open(master, "rb", buffering=0) as text:  # closed at the other end: what was said is still there
            try:
                said.append(text.read(4000).decode())
            except OSError:  # nothing was
                said.append("")
    assert "compiling run alone, once for this version" in said[0]
    assert said[1] == ""


def test_a_step_function_is_not_put_into_its_callers_because_one_of_them_is_put_into_its_own() -> None:
    """Only functions of which it was said are copied wherever they are called: else everything would be, many times."""

    @compiled.step_function
    def below(x):  # type: ignore[no-untyped-def]
        return x + 1.0

    @compiled.inner_function
    def between(x):  # type: ignore[no-untyped-def]
        return below(x)

    @compiled.dual_function
    def equation(x):  # type: ignore[no-untyped-def]
        return 2.0 * between(x)

    @compiled.inner_dual_function
    def put_inside(x):  # type: ignore[no-untyped-def]
        return equation(x)

    @njit
    def above(x):  # type: ignore[no-untyped-def]
        return put_inside(x)

    assert above(1.0) == 4.0
    assert {f.__name__: _always_inlined(f) for f in (below, between, equation, put_inside)} == {
        "below": False, "between": True, "equation": False, "put_inside": True,
    }  # fmt: skip


def divided(decorate: Any, above: Any) -> Any:
    """What a compiled function of this kind makes of 1 / 0, called from another compiled function."""

    @decorate
    def inverse(x):  # type: ignore[no-untyped-def]
        return 1.0 / x

    @above
    def call(x):  # type: ignore[no-untyped-def]
        return inverse(x)

    return call(0.0)


KINDS = (
    compiled.driver_function, compiled.step_function, compiled.inner_function, compiled.hot_function,
    compiled.dual_function, compiled.inner_dual_function, compiled.compiled(nogil=True),
)  # fmt: skip


@pytest.mark.parametrize("decorate", KINDS)
def test_a_division_by_zero_is_infinite(decorate: Any) -> None:
    """Compiled code divides as arrays do: no check before every division, and no exception from the middle of a run."""
    assert divided(decorate, compiled.driver_function) == math.inf


def test_numbas_own_way_raises() -> None:
    """The control: left to itself, Numba checks."""
    with pytest.raises(ZeroDivisionError):
        divided(njit, njit)


def compiled_functions() -> dict[str, Any]:
    """All functions of the package that are compiled, by name."""
    found = {}
    for path in compiled.compiled_files():
        name = ".".join(path.relative_to(compiled.PACKAGE.parent).with_suffix("").parts)
        for each in vars(importlib.import_module(name)).values():
            if isinstance(each, Dispatcher):
                found[f"{each.py_func.__module__}.{each.py_func.__name__}"] = each
    return found


def test_all_compiled_functions_divide_alike() -> None:
    """Every function of the package is compiled with one meaning of division, those that Python calls too."""
    functions = compiled_functions()
    drivers = [each.driver for each in functions.values() if hasattr(each, "driver")]
    assert len(functions) > 150, "the control: they were found"
    assert len(drivers) > 5
    assert {each.targetoptions.get("error_model") for each in [*functions.values(), *drivers]} == {"numpy"}
    assert njit(lambda x: x).targetoptions.get("error_model") is None, "the control: not Numba's default"


def _always_inlined(dispatcher: Any) -> bool:
    """Whether the compiler is told to copy it wherever it is called."""
    (result,) = dispatcher.overloads.values()
    (function,) = (f for f in result.library.own_module.functions if f.name == result.fndesc.llvm_func_name)
    return any(b"alwaysinline" in attributes for attributes in function.attributes)


def test_compiling_leaves_pythons_search_for_garbage_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rests while a driver is compiled, and not afterwards, also if the driver cannot be compiled."""
    meanwhile = []
    compile_extra = Compiler.compile_extra

    def looked_at(self: Any, function: Any) -> Any:
        meanwhile.append(gc.isenabled())
        return compile_extra(self, function)

    monkeypatch.setattr(Compiler, "compile_extra", looked_at)
    driver = compiled.driver_function(lambda x: x.nothing_of_the_kind)
    assert gc.isenabled()
    with pytest.raises(TypingError, match="nothing_of_the_kind"):
        driver(1.0)
    assert meanwhile == [False]
    assert gc.isenabled()
