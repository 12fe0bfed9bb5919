"""How functions are compiled, and where compiled code is cached.

Numba's own cache checks only the function's own file: after an edit in `algorithm/model.py` every driver would keep
the old code. Ours keeps compiled code in the user's cache directory, in a folder named after a hash of
everything that affects it: all compiled sources, Numba's version, the processor, and the switches below.
Registered revealers, recommenders or worlds from outside the package use a subfolder named after their files.

OPPORTUNE_CHECK_BOUNDS=1 selects the debug build, which checks every access to an array's part (engine.addresses).
"""

import functools
import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from opportune.engine.versions import LINKED, SIMULATED

if LINKED:
    from opportune.engine.linking import Dual, PartCompiler, WholeCompiler

PACKAGE = Path(__file__).resolve().parents[1]
CHECK_BOUNDS = os.environ.get("OPPORTUNE_CHECK_BOUNDS", "") not in {"", "0"}

SOURCES = ("engine", "algorithm", "revealers", "recommenders", "problems", "worlds", "simulation", "live", "analysis")

_COMPILES = re.compile(r"^from opportune\.engine\.compiled import .*(compiled|_function)", re.MULTILINE)

extensions: dict[Path, str] = {}  # files of registered classes from outside, each with a hash of its content
registered: list[str] = []  # the classes registered from outside, in order
listeners: list[Callable[[str], None]] = []  # called with the name of a driver before it is compiled
loaded: set[str] = set()  # modules whose compiled code was loaded from disk in this process


@functools.cache
def code_hash() -> str:
    """A hash of all sources that numbers depend on: equal hashes mean equal algorithms."""
    return _hash_of(path for part in SOURCES for path in (PACKAGE / part).rglob("*.py"))


@functools.cache
def build_hash() -> str:
    """A hash of everything that machine code depends on: compiled sources, compiler, processor, switches."""
    everything = (_hash_of(compiled_files()), numba.__version__, sys.version, _processor(), f"{CHECK_BOUNDS} {LINKED}")
    return hashlib.sha256("\0".join(everything).encode()).hexdigest()[:16]


def compiled_files() -> list[Path]:
    """The files that contain compiled functions, or constants that these use."""
    whole = {PACKAGE / "engine", PACKAGE / "algorithm"}
    files = PACKAGE.rglob("*.py")
    return [path for path in files if path.parent in whole or _COMPILES.search(path.read_text(encoding="utf-8"))]


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def extension_hash() -> str:
    """A hash of the registered classes from outside; empty if there are none."""
    if not extensions:
        return ""
    return hashlib.sha256("\0".join([*registered, *sorted(extensions.values())]).encode()).hexdigest()[:16]


def _processor() -> str:
    from llvmlite import binding  # noqa: PLC0415  (needed only for the processor's name)

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


@functools.cache
def cache_folder() -> Path:
    """The folder of compiled code: OPPORTUNE_CACHE_DIR, else the user's cache directory, else a temporary one."""
    home = os.environ.get("OPPORTUNE_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if home:
        base = Path(home)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "opportune" / build_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"opportune-{_user()}" / build_hash()
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


class _Locator(_CacheLocator):  # type: ignore[misc]
    """The cache location of one function: in our folder, valid while the registered extensions stay the same."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        path = Path(py_file)
        self._file = path.name
        if not path.is_relative_to(PACKAGE):  # two files from outside may have the same name
            self._file += "-" + hashlib.sha256(str(path).encode()).hexdigest()[:8]

    def get_cache_path(self) -> str:
        return str(cache_folder() / extension_hash())

    def get_source_stamp(self) -> str:
        return extension_hash()

    def get_disambiguator(self) -> str:
        return self._file

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "_Locator":
        return cls(py_func, py_file)


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):  # type: ignore[misc]
    _impl_class = _Impl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        locator, file = self._impl.locator, self._cache_file
        if file._source_stamp != locator.get_source_stamp():  # extensions were registered since
            self._cache_file: Any = IndexDataCacheFile(
                locator.get_cache_path(), self._impl.filename_base, locator.get_source_stamp()
            )
        found = super().load_overload(sig, target_context)
        if found is not None:
            loaded.add(self._py_func.__module__)
        else:
            for tell in listeners:
                tell(self._py_func.__name__)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # such as a full disk; the code in memory is still valid
            self.disable()
            where = f"{self._impl.locator.get_cache_path()} ({error.strerror or error})"
            warnings.warn(f"compiled code cannot be cached in {where}", RuntimeWarning, stacklevel=2)


def compiled(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options for drivers, which Python calls. Their code is cached on disk."""

    def decorate(function: Any) -> Any:
        if SIMULATED:
            return function
        dispatcher = njit(**NUMBERS, **WHOLE, **options)(function)
        dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def part(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options for functions that only compiled functions call. No Python wrapper is built."""

    def decorate(function: Any) -> Any:
        if SIMULATED:
            return function
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if LINKED else {}
        return njit(**NUMBERS, **PART, **wrappers, **options)(function)

    return decorate


PART: dict[str, Any] = {"pipeline_class": PartCompiler} if LINKED else {}
WHOLE: dict[str, Any] = {"pipeline_class": WholeCompiler} if LINKED else {}
NUMBERS = {"error_model": "numpy"}  # divisions by 0 give infinities, as elsewhere, and need no check

# A step function: called only from other compiled functions. The compiler decides whether to inline it; without an
# explicit value, Numba would apply the option of whichever function happened to call it first.
step_function = part(forceinline=False)

# A driver, which Python calls.
driver_function = compiled()

# A step function on the path of every step: inlined, which saves passing its arguments.
inner_function = part(forceinline=True)

# The large ones among these: inlined before their caller is compiled, so that they are compiled once instead of at
# every level between a driver and them.
hot_function = compiled(inline="always")


def dual_function(function: Any) -> Any:
    """A function that both compiled functions and Python call: an equation, a draw."""
    return _dual(function, inline=False)


def inner_dual_function(function: Any) -> Any:
    """An inlined dual function, for functions of arrays, which would otherwise be reference-counted at every call."""
    return _dual(function, inline=True)


def _dual(function: Any, *, inline: bool) -> Any:
    if SIMULATED:
        return function
    if not LINKED:
        return part(forceinline=inline)(function)
    options = {**NUMBERS, "nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    dual = Dual(function, locals={}, targetoptions={**options, "forceinline": inline}, pipeline_class=PartCompiler)
    dual.driver = driver_function(function)
    return dual
