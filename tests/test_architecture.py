"""The shape of the package: which way imports flow, what the core may do, what is public, how quick it is to import."""

import ast
import graphlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import opportune
from opportune.engine.compiled import compiled_files

ROOT = Path(opportune.__file__).parent

# From the bottom up. A module may import what stands in its own layer or below.
LAYERS = (
    ("errors", "_version"),
    ("checks", "progress", "files", "threads"),
    ("client", "webhooks"),
    ("engine",),
    ("algorithm",),
    ("revealers", "recommenders"),
    ("problems",),
    ("limits",),
    ("policy",),
    ("worlds",),
    ("extensions", "extend"),  # what others have registered, and what they write it with
    ("simulation.record", "analysis.results"),  # what simulate hands over, and its files
    ("simulation",),
    ("gym",),
    ("live",),
    ("rehearsal.conditions",),  # what simulated participants meet
    ("testing",),
    ("analysis",),
    ("inference",),
    ("study",),
    ("planning",),
    ("trial",),
    ("experiments",),
    ("report",),
    ("service",),
    ("rehearsal",),
    ("experiments.runner",),  # runs experiments and hands what they found to the report
    ("cli", "__main__"),
)
MOST_LINES = 400
# Words of our own where the field has one: constants, budget, SIMD, writer, styles, tasks, error.
PRIVATE_WORDS = {"facts", "purse", "lanes", "scribe", "looks", "pieces", "complaint"}
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


CORE = [module for module in SOURCES if module.startswith(("opportune.engine", "opportune.algorithm"))]
RULES = [module for module in SOURCES if module.startswith(("opportune.revealers", "opportune.recommenders"))]
# What runs before any step, or around it: keeping compiled code on disk, taking in what others add, threads.
TOOLS = {f"opportune.engine.{name}" for name in ("compiled", "versions", "hooks", "linking", "threads")}
# Those that teach Numba's compiler: bare addresses, vectors, named views, hooks; and where to keep its code.
NUMBA = {
    *(f"opportune.engine.{name}" for name in ("addresses", "compiled", "linking", "named", "hooks", "vectors")),
    "opportune.algorithm.scores",
}
DECORATORS = {
    "step_function", "driver_function", "inner_function", "hot_function", "dual_function", "inner_dual_function",
    "compiled", "part",
}  # fmt: skip


def compiled_functions(module: str) -> list[ast.FunctionDef]:
    """The functions of a module that run inside a step."""
    functions = [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef)]
    names = [{ast.unparse(d).split("(")[0] for d in function.decorator_list} for function in functions]
    return [function for function, used in zip(functions, names, strict=True) if used & DECORATORS]


REGISTERED = "opportune.experiments.rivals.rules"  # recognised by its own hash, as a rule from outside is
COMPILED = [module for module in SOURCES if compiled_functions(module) and module != REGISTERED]


@pytest.mark.parametrize("module", CORE)
def test_core_stands_alone(module: str) -> None:
    """The core imports the standard library, NumPy and Numba, itself and the errors, and nothing else."""
    outside = {
        name for name in imports(tree(module)) if not name.startswith(("opportune.engine", "opportune.algorithm"))
    }
    if module in NUMBA:
        outside -= {"llvmlite"} | {name for name in outside if name.startswith("numba.")}
    assert outside <= {
        *sys.stdlib_module_names,
        "collections.abc",
        "numpy",
        "numpy.typing",
        "numba",
        "opportune.errors",
    }


@pytest.mark.parametrize("module", [module for module in CORE if module not in TOOLS])
def test_core_neither_raises_nor_prints(module: str) -> None:
    """Nothing in the core raises, asserts, prints or opens files: bad input is refused before it gets there."""
    for node in ast.walk(tree(module)):
        assert not isinstance(node, ast.Raise | ast.Assert | ast.Try), ast.unparse(node)
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in {"print", "open", "input"}, ast.unparse(node)


def test_step_functions_are_found() -> None:
    """The test below looks at what it should: the protocol's calls, every rule, worlds and the batch loop."""
    found = {f"{module}.{function.name}" for module in COMPILED for function in compiled_functions(module)}
    calls = ("begin", "propose", "settle", "learn", "correct")
    assert {f"opportune.algorithm.protocol.{call}" for call in calls} <= found
    rules = [module for module in RULES if not module.endswith((".base", "revealers", "recommenders"))]
    assert set(rules) <= set(COMPILED)
    assert {"opportune.simulation.loop.run_step", "opportune.worlds.linear.respond"} <= found


@pytest.mark.parametrize("module", COMPILED)
def test_step_functions_do_not_allocate_raise_or_print(module: str) -> None:
    """Compiled functions make no arrays, lists, dicts or sets, raise nothing and say nothing; drivers may allocate."""
    for function in compiled_functions(module):
        for node in ast.walk(ast.Module(body=function.body, type_ignores=[])):
            refused = isinstance(node, ast.Raise | ast.Assert | ast.Try | ast.With)
            made = isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
            assert not refused | made, f"{function.name}: {ast.unparse(node)}"
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in {"print", "open", "input"}, f"{function.name}: {called}"
            if module in {*CORE, *RULES}:
                assert not called.endswith(".copy"), f"{function.name}: {called}"
                assert not called.startswith("np.") or called == "np.uint64", f"{function.name}: {called}"


@pytest.mark.parametrize("module", COMPILED)
def test_compiled_code_is_recognised_by_all_it_was_made_from(module: str) -> None:
    """Compiled functions, and whatever they take from elsewhere in the package, stand in files that the hash covers."""
    covered = set(compiled_files())
    assert SOURCES[module] in covered
    used = {name.id for f in compiled_functions(module) for name in ast.walk(f) if isinstance(name, ast.Name)}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(FRONT):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"  # of a module, if it is one
                source = SOURCES[whole if whole in SOURCES else str(node.module)]
                assert (alias.asname or alias.name) not in used or source in covered, whole


@pytest.mark.parametrize("module", SOURCES)
def test_modules_are_short(module: str) -> None:
    """A module has one job; when it grows beyond 400 lines it has two, and wants to be split."""
    lines = len(SOURCES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{module} has {lines} lines"


def names_in(body: ast.AST) -> set[str]:
    """Every name that a module gives to something or uses."""
    found: set[str] = set()
    for node in ast.walk(body):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


@pytest.mark.parametrize("module", SOURCES)
def test_names_are_words_of_the_field(module: str) -> None:
    """No name in a module is one of the words that only this project would understand."""
    for name in {*names_in(tree(module)), *module.split(".")}:
        words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
        assert not words & PRIVATE_WORDS, f"{module} has a name {name!r}"


def test_private_words_would_be_found() -> None:
    """The test above can fail: it sees functions, arguments, attributes and classes."""
    sources = ("def lanes(): pass", "f(purse=1)", "x.test_facts", "class MyScribe: pass", "import a as looks")
    for source in sources:
        words = {word for name in names_in(ast.parse(source)) for word in re.findall("[a-z]+", name.lower())}
        assert any(private in word for word in words for private in PRIVATE_WORDS), source


def test_public_names() -> None:
    """Every public name can be had, says what it is for, and is listed once."""
    assert len(set(opportune.__all__)) == len(opportune.__all__)
    assert dir(opportune) == opportune.__all__
    for name in opportune.__all__:
        value = getattr(opportune, name)
        if name != "__version__":
            doc = value.__doc__ or ""
            assert len(doc.split()) >= 2, f"{name} has no docstring"
            assert not doc.startswith(f"{name}("), f"{name} has a generated docstring"
    with pytest.raises(AttributeError, match="nonsense"):
        opportune.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_public_names_are_typed() -> None:
    """Type checkers and the import read the same list."""
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = (node.value for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(listed)) == opportune.__all__


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
        assert not {"numba", "scipy", "xarray", "matplotlib", "pandas", "litestar", "sqlalchemy"} & set(modules)
    assert min(seconds) < 0.5
