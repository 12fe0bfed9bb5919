"""The shape of the package: which way imports flow, what the core may do, what is public, how quick it is to import."""

import ast
import graphlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import opportune
from opportune.core import layout as state
from opportune.core import live
from opportune.problems.finite import Problem
from opportune.simulation import loop

ROOT = Path(opportune.__file__).parent

# From the bottom up. A module may import what stands in its own layer or below.
LAYERS = (
    ("errors", "_version"),
    ("checks", "progress"),
    ("core",),
    ("problems", "policy"),
    ("worlds",),
    ("analysis.results",),  # what simulate hands over
    ("simulation",),
    ("live",),
    ("analysis",),
    ("study",),
    ("experiments",),
    ("report",),
    ("experiments.runner",),  # runs experiments and hands what they found to the report
    ("cli",),
)
FRONT = "opportune"  # the package itself: the public names, loaded when first used


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    """A module's source, parsed."""
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


def imports(body: ast.AST, *, at_import: bool = False) -> set[str]:
    """What a module imports; with `at_import` only what it imports at once, not inside functions."""
    found: set[str] = set()
    waiting: list[ast.AST] = [body]
    while waiting:
        node = waiting.pop()
        if at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in SOURCES else str(node.module) for name in inside}
        waiting += ast.iter_child_nodes(node)
    return found


def own_imports(module: str, *, at_import: bool = False) -> set[str]:
    """What a module imports of this package."""
    return {name for name in imports(tree(module), at_import=at_import) if name.split(".")[0] == FRONT}


def layer(module: str) -> int | None:
    """The number of the layer a module stands in: the most specific entry counts."""
    entries = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if module == f"{FRONT}.{name}" or module.startswith(f"{FRONT}.{name}.")
    ]
    return max(entries)[1] if entries else None


def test_every_module_has_a_layer() -> None:
    """A new module must be given a place in the order of imports."""
    homeless = [module for module in SOURCES if module != FRONT and layer(module) is None]
    assert not homeless, f"put {homeless} into LAYERS"
    names = {name for names in LAYERS for name in names}
    assert all(f"{FRONT}.{name}" in SOURCES for name in names), "LAYERS names modules that are gone"


@pytest.mark.parametrize("module", [module for module in SOURCES if module != FRONT])
def test_imports_flow_one_way(module: str) -> None:
    """A module imports only from its own layer and those below, also inside functions."""
    here = layer(module)
    assert here is not None
    for imported in own_imports(module):
        assert imported != FRONT, f"{module} imports the front of the package"
        there = layer(imported)
        assert there is not None
        assert there <= here, f"{module} imports {imported}, which stands above it"


def test_no_circles() -> None:
    """What modules import at once has no circle."""
    graph = {module: own_imports(module, at_import=True) - {module} for module in SOURCES}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(order) == set(SOURCES)


CORE = [module for module in SOURCES if module.startswith("opportune.core")]


@pytest.mark.parametrize("module", CORE)
def test_core_stands_alone(module: str) -> None:
    """The core imports the standard library, NumPy and Numba, itself and the errors, and nothing else.

    Two modules reach into Numba: they teach its compiler bare addresses and vectors.
    """
    outside = {name for name in imports(tree(module)) if not name.startswith("opportune.core")}
    if module in {"opportune.core.pointers", "opportune.core.simd"}:
        outside -= {"llvmlite"} | {name for name in outside if name.startswith("numba.")}
    assert outside <= {
        *sys.stdlib_module_names,
        "collections.abc",
        "numpy",
        "numpy.typing",
        "numba",
        "opportune.errors",
    }


@pytest.mark.parametrize("module", CORE)
def test_core_neither_raises_nor_prints(module: str) -> None:
    """Nothing in the core raises, asserts, prints or opens files: bad input is refused before it gets there."""
    for node in ast.walk(tree(module)):
        assert not isinstance(node, ast.Raise | ast.Assert | ast.Try | ast.With), ast.unparse(node)
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in {"print", "open", "input"}, ast.unparse(node)


@pytest.mark.parametrize("name", ["protocol", "model", "reveal", "rng", "optimistic", "live"])
def test_core_does_not_allocate(name: str) -> None:
    """Step functions make no arrays, lists, dicts or sets: all they need is given to them."""
    functions = [node for node in ast.walk(tree(f"opportune.core.{name}")) if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        for node in ast.walk(ast.Module(body=function.body, type_ignores=[])):
            made = isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
            assert not made, f"{function.name}: {ast.unparse(node)}"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert not called.endswith(".copy"), f"{function.name}: {called}"
                assert not called.startswith("np.") or called == "np.uint64", f"{function.name}: {called}"


def test_places_of_a_layout() -> None:
    """`at[THETA]` is Layout's field theta, and so for every field, in order."""
    places = {field: getattr(state, field.upper()) for field in state.Layout._fields}
    assert list(places.values()) == list(range(len(places)))


def test_places_of_a_rule_and_a_purse() -> None:
    """`rule[BUDGET]` is Rule's field budget, and so for every field; a purse has as many places as names."""
    places = {field: getattr(state, field.upper()) for field in state.Rule._fields}
    assert list(places.values()) == list(range(len(places)))
    assert sorted([state.PRICE, state.SPENT, state.NUDGES]) == list(range(state.PURSE_SIZE))


def test_places_of_records() -> None:
    """What a live decision and a simulated step write has room for everything, once."""
    live_places = [value for name, value in vars(live).items() if name.isupper() and name != "OUT_SIZE"]
    assert sorted(live_places) == list(range(live.OUT_SIZE))
    assert len(loop.NUMBERS) + len(loop.MARKS) == loop.RECORD
    totals = (
        loop.REWARD, loop.VALUE, loop.OUTCOME, loop.SPENT, loop.NUDGES, loop.REVEALS, loop.OPENS, loop.FINAL_PRICE,
    )  # fmt: skip
    assert sorted(totals) == list(range(loop.TOTALS))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("reported", [True, False])
def test_facts_fill_their_layout(known: bool, reported: bool) -> None:
    """A problem's facts are as long as its layout says, and each part stands where the layout says."""
    rng = np.random.default_rng(1)
    problem = Problem(
        rng.normal(size=(6, 2, 3)),
        np.full(6, 1 / 6) if known else None,
        variables={"a": range(2), "b": range(3)},
        visibility={"a": "public", "b": "reported" if reported else "sensed"},
    )
    for optimistic in (False, True):
        for table in (False, True):
            at = problem.layout(optimistic=optimistic, table=table)
            facts = problem.facts(at, 50)
            assert facts.size == at.facts_size
            np.testing.assert_array_equal(facts[at.rows : at.rows + 36], problem.features.ravel())
            np.testing.assert_array_equal(facts[at.cell_of : at.cell_of + 6], problem.cell_of)
            np.testing.assert_array_equal(facts[at.sense_of : at.sense_of + 6], problem.sense_of)


def test_public_names() -> None:
    """Every public name can be had, says what it is for, and is listed once."""
    assert len(set(opportune.__all__)) == len(opportune.__all__)
    assert dir(opportune) == sorted(opportune.__all__)
    for name in opportune.__all__:
        value = getattr(opportune, name)
        if name != "__version__":
            doc = value.__doc__ or ""
            assert len(doc.split()) >= 2, f"{name} has no docstring"
            assert not doc.startswith(f"{name}("), f"{name} has a generated docstring"
    with pytest.raises(AttributeError, match=r"^module 'opportune' has no attribute 'nonsense'$"):
        opportune.nonsense  # noqa: B018


def test_public_names_are_typed() -> None:
    """Type checkers see the same names, from the same homes, as are loaded when first used."""
    typed: dict[str, str] = {}
    for node in ast.walk(tree(FRONT)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("opportune."):
            typed |= {alias.name: node.module.removeprefix("opportune.") for alias in node.names}
    assert {name: home for name, home in typed.items() if name != "__version__"} == opportune._HOME_OF
    assert set(typed) == set(opportune.__all__)


def test_public_names_stay_what_they_are() -> None:
    """A public name is the same whatever was imported before: `simulate` is the function."""
    code = "import opportune, opportune.simulation.run; assert callable(opportune.simulate)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_is_quick() -> None:
    """`import opportune` takes less than half a second in a fresh interpreter, and loads nothing heavy."""
    code = (
        "import json, sys, time; began = time.perf_counter(); import opportune; "
        "print(json.dumps([time.perf_counter() - began, sorted(sys.modules)]))"
    )
    seconds = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        took, modules = json.loads(done.stdout)
        seconds.append(took)
        assert not {"numba", "scipy", "xarray", "matplotlib", "pandas"} & set(modules)
    assert min(seconds) < 0.5
