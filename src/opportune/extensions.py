"""`register`: add revealers, recommenders and worlds of other authors to the package.

Compiled code contains the rules it calls, so rules must be registered before anything is compiled, and compiled code
on disk is identified by the files of registered rules. This module handles both.
"""

import dataclasses
import hashlib
import inspect
import sysconfig
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from numba.core.dispatcher import Dispatcher

from opportune import checks
from opportune.engine.compiled import PACKAGE, extension_hash
from opportune.engine.hooks import RECOMMENDERS, REVEALERS, WORLDS, Registry
from opportune.engine.versions import SIMULATED
from opportune.errors import InputError, StateError
from opportune.recommenders import Recommender
from opportune.revealers import Revealer
from opportune.worlds import SimulatedWorld

Class = TypeVar("Class", bound=type)

_modules: dict[str, str] = {}  # modules of registered rules, each with the hash of its files at registration


def register(entry: Class) -> Class:
    """Register a revealer, a recommender or a world; also usable as a class decorator.

    Args:
        entry: a frozen dataclass derived from `Revealer` or `Recommender`, or a class of worlds, with its compiled
            functions as static methods, defined in a file. Its name and its `kind` must be unique.

    """
    if not inspect.isclass(entry):
        raise InputError(f"register was given {checks.brief(entry)}; expected a class")
    registry = _registry_for(entry)
    if entry in registry.entries:
        return entry
    name = entry.__name__
    if registry is not WORLDS:
        _check_settings(entry, registry.kind)
    _check_functions(entry, registry)
    if name in registry.named():
        raise InputError(f"a {registry.kind} called {name!r} already exists; expected another name")
    kind = getattr(entry, "kind", None)
    if registry is not WORLDS and kind in registry.kinds():
        raise InputError(f"kind of {name} is {kind!r}, which {registry.kinds()[kind].__name__} has; expected another")
    files = {path: _hash(path) for path in sorted(set(_files_of(entry, registry)))}
    if registry.closed:
        raise StateError(
            f"{name} comes too late: this process has compiled code that does not know it; "
            "register first, before the first simulation and the first Agent"
        )
    registry.add(entry, files=files)
    _modules[entry.__module__] = extension_hash()
    return entry


def list_extensions() -> tuple[tuple[str, str], ...]:
    """The modules of registered rules, in order, with hashes of their content: a worker needs the same ones."""
    return tuple(_modules.items())


def bring_extensions(wanted: tuple[tuple[str, str], ...]) -> None:
    """Import the caller's registered rules into this worker process; raise an error if they are not the same."""
    for module, _ in wanted:
        try:
            import_module(module)
        except ImportError:
            raise InputError(f"a worker cannot import {module!r}, from which its caller has registered rules") from None
    if list_extensions() != wanted:
        theirs, ours = (", ".join(name for name, _ in both) or "nothing" for both in (wanted, list_extensions()))
        raise InputError(
            f"a worker has registered {ours}, its caller {theirs}; expected the same, in modules that register "
            "when they are imported"
        )


def _registry_for(entry: Any) -> Registry:
    if issubclass(entry, Revealer):
        return REVEALERS
    if issubclass(entry, Recommender):
        return RECOMMENDERS
    if all(hasattr(entry, name) for name in ("numbers", "informed_problem", "truth_table")):
        return WORLDS
    raise InputError(
        f"{entry.__name__} cannot be registered; expected a dataclass derived from Revealer or Recommender, "
        "or a world with numbers, informed_problem and truth_table"
    )


def _check_settings(entry: Any, kind: str) -> None:
    """Check that settings are a frozen dataclass with the required names."""
    parameters = vars(entry).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        raise InputError(
            f"{entry.__name__} is not a frozen dataclass; expected @dataclass(frozen=True, kw_only=True) above it"
        )
    for attribute in ("kind", "label") if kind == "revealer" else ("kind",):
        value = getattr(entry, attribute, None)
        if not isinstance(value, str) or not value:
            raise InputError(f"{entry.__name__} has no {attribute}; expected {attribute}: ClassVar[str] = 'a name'")
        if attribute in {field.name for field in dataclasses.fields(entry)}:
            raise InputError(f"{attribute} of {entry.__name__} is a setting; expected {attribute}: ClassVar[str]")


def _check_functions(entry: Any, registry: Registry) -> None:
    """Check that every function that the core calls exists, is compiled, and takes the right arguments."""
    for name, (stub, _) in registry.hooks.items():
        _, participant, *rest = inspect.signature(stub).parameters
        arguments = [participant, "own", *rest]
        form = f"{name}({', '.join(arguments)})"
        function = getattr(entry, name, None)
        if function is None:
            raise InputError(f"{entry.__name__} has no {name}; expected a compiled function {form}")
        if isinstance(inspect.getattr_static(entry, name), FunctionType):
            raise InputError(
                f"{name} of {entry.__name__} is a method; expected staticmethod({name}), a function {form}"
            )
        plain = getattr(function, "py_func", function)
        if not isinstance(function, Dispatcher) and not SIMULATED:
            raise InputError(
                f"{name} of {entry.__name__} is not compiled; expected opportune.extend.step_function above it"
            )
        if len(inspect.signature(plain).parameters) != len(arguments):
            given = ", ".join(inspect.signature(plain).parameters)
            raise InputError(f"{name} of {entry.__name__} takes ({given}); expected {form}")
    if registry is WORLDS:
        lacking = [name for name in _world_attributes() if not hasattr(entry, name)]
        if lacking:
            raise InputError(f"{entry.__name__} has no {lacking[0]}; expected what SimulatedWorld describes")


def _world_attributes() -> list[str]:
    """The attributes of every world, except those that the registry or each world supplies."""
    supplied = {"number", "name", "happenings"}
    return [name for name in vars(SimulatedWorld) if not name.startswith("_") and name not in supplied]


def _files_of(entry: Any, registry: Registry) -> Iterator[Path]:
    """The class's file, and those of all functions that its compiled ones can reach outside this package."""
    try:
        own = Path(inspect.getfile(entry))
    except (TypeError, OSError):
        own = Path()
    if not own.is_file():
        raise InputError(f"{entry.__name__} is not defined in a file; expected one, which identifies its compiled code")
    yield own.resolve()
    waiting: list[Any] = [getattr(entry, name) for name in registry.hooks]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        function = getattr(value, "py_func", value)
        if id(function) in seen:
            continue
        seen.add(id(function))
        if isinstance(function, ModuleType):
            path = Path(getattr(function, "__file__", None) or "")
        elif isinstance(function, FunctionType):
            path = Path(inspect.getfile(function))
        else:
            continue
        if path.is_file() and (path.parent == own.parent or not _is_installed(path)):
            yield path.resolve()
            if isinstance(function, FunctionType):
                waiting += [function.__globals__.get(name) for name in function.__code__.co_names]


def _is_installed(path: Path) -> bool:
    """Whether a file belongs to this package, Python or an installed package."""
    homes = [PACKAGE, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))]
    return any(path.is_relative_to(home) for home in homes)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
