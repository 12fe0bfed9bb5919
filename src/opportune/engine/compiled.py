"""How functions are compiled, and where the compiled code is kept.

Numba's own cache looks at a function's own file only: after an edit in `algorithm/model.py` every driver would keep
the old code. Ours keeps compiled code in the user's cache directory, in a folder named after a hash of
everything that goes into it: all sources that are compiled, Numba's version, the processor, and the switches below.
With revealers, recommenders or worlds that others have registered it is a folder within that one, named after their
files.

OPPORTUNE_CHECK_BOUNDS=1 is the debug build: every access to an array's part is checked (engine.addresses).
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

extensions: dict[Path, str] = {}  # files of what others have registered, each with a hash of its content
registered: list[str] = []  # what they have registered, in order
listeners: list[Callable[[str], None]] = []  # are told the name of a driver that is about to be compiled
loaded: set[str] = set()  # modules of which compiled code was taken from disk in this process


@functools.cache
def code_hash() -> str:
    """A hash of all sources that numbers depend on: equal hashes mean equal algorithms."""
    return _hash_of(path for part in SOURCES for path in (PACKAGE / part).rglob("*.py"))


@functools.cache
def build_hash() -> str:
    """A hash of all that machine code depends on: the sources that are compiled, compiler, processor, switches."""
    everything = (_hash_of(compiled_files()), numba.__version__, sys.version, _processor(), f"{CHECK_BOUNDS} {LINKED}")
    return hashlib.sha256("\0".join(everything).encode()).hexdigest()[:16]


def compiled_files() -> list[Path]:
    """The files that compiled functions are written in, or take constants from."""
    whole = {PACKAGE / "engine", PACKAGE / "algorithm"}
    files = PACKAGE.rglob("*.py")
    return [path for path in files if path.parent in whole or _COMPILES.search(path.read_text(encoding="utf-8"))]


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def extension_hash() -> str:
    """A hash of what others have registered; empty if nothing was."""
    if not extensions:
        return ""
    return hashlib.sha256("\0".join([*registered, *sorted(extensions.values())]).encode()).hexdigest()[:16]


def _processor() -> str:
    from llvmlite import binding  # noqa: PLC0415  (only asked for its processor)

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


@functools.cache
def cache_folder() -> Path:
    """Where compiled code lies: OPPORTUNE_CACHE_DIR, else the user's cache directory, else a temporary one."""
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
    """Compiled code of one function: in our folder, good for as long as registered extensions are the same."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        path = Path(py_file)
        self._file = path.name
        if not path.is_relative_to(PACKAGE):  # two files of others may have one name
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
        if file._source_stamp != locator.get_source_stamp():  # extensions have come since
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
        except OSError as error:  # such as a full disk: what was compiled is still good
            self.disable()
            where = f"{self._impl.locator.get_cache_path()} ({error.strerror or error})"
            warnings.warn(f"compiled code cannot be kept in {where}", RuntimeWarning, stacklevel=2)


def compiled(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options for what Python calls: a driver. Its code is kept on disk."""

    def decorate(function: Any) -> Any:
        if SIMULATED:
            return function
        dispatcher = njit(**NUMBERS, **WHOLE, **options)(function)
        dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def part(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options for what compiled functions call. No Python wrapper is built for it."""

    def decorate(function: Any) -> Any:
        if SIMULATED:
            return function
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if LINKED else {}
        return njit(**NUMBERS, **PART, **wrappers, **options)(function)

    return decorate


PART: dict[str, Any] = {"pipeline_class": PartCompiler} if LINKED else {}
WHOLE: dict[str, Any] = {"pipeline_class": WholeCompiler} if LINKED else {}
NUMBERS = {"error_model": "numpy"}  # divisions by 0 give infinities, as elsewhere, and need no check

# A step function: called from other compiled functions only. Whether it is put into its caller is the compiler's
# choice; left unsaid, Numba would take over what was said of whichever function happened to call it first.
step_function = part(forceinline=False)

# One that Python calls.
driver_function = compiled()

# A step function that stands in every step's way: put into its caller, which saves handing over its arguments.
inner_function = part(forceinline=True)

# The large ones among these: put into their caller before it is compiled, so that they are compiled once, not at every
# level between a driver and them.
hot_function = compiled(inline="always")


def dual_function(function: Any) -> Any:
    """A function that compiled functions call, and Python as well: an equation, a draw."""
    return _dual(function, inline=False)


def inner_dual_function(function: Any) -> Any:
    """A dual function put into its caller: one that takes arrays, whose references would be counted at every call."""
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
