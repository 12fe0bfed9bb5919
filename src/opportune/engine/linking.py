"""Compiling a driver together with all that it calls, once.

Numba makes every function a library of its own: it links in whatever the function calls, optimises the whole and
generates machine code; the function's caller does all of this once more, and so on up. Here a step function stays as
Numba wrote it down. A driver, the only kind that Python calls, gathers all step functions below it and has them
optimised together. This takes about half the time, and leaves one file to keep for each driver.
"""

import gc
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The library of a step function: its own code alone. What it calls is linked when a driver is."""

    _linking_libraries: list[Any]
    _merged: Any = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.environments: dict[str, Any] = {}

    def _optimize_functions(self, module: Any) -> None:
        # As Numba does, by one set of passes for all, and without those that are only mentioned. It pays: drivers that
        # are optimised only as a whole take 5% longer to run.
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        """Nothing more can be added."""
        self._raise_if_finalized()
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def own_module(self) -> Any:
        """The code of this part alone, as others may link it."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """All of it in one, for functions that Numba compiles in its own way."""
        if self._merged is None:
            self._merged = self.own_module.clone()
            for library in _all_below(self._linking_libraries):
                self._merged.link_in(_code_of(library), preserve=True)
        return self._merged

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no machine code."""
        return 0

    @property
    def codegen(self) -> Any:
        """Numba's, but that this has no place in memory yet where an environment could be put."""
        return _Homeless(self)


class _Homeless:
    def __init__(self, part: Part) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Keep it for the driver: who prints, or raises what is made at run time, needs it."""
        self._part.environments[name] = environment


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """The library of a driver: its code and all that it calls, however far down."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        """Link, optimise, generate machine code."""
        below = _all_below(self._linking_libraries)
        self._linking_libraries = [_Linked(library) if isinstance(library, Part) else library for library in below]
        super().finalize()
        there = {variable.name for variable in self._final_module.global_variables}
        for library in below:
            for name, environment in getattr(library, "environments", {}).items():
                if name in there:
                    self._codegen.set_env(name, environment)

    def _optimize_final_module(self) -> None:
        # Numba's first, cheap round is for counts of references, of which step functions have none.
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _Linked:
    """A part as a driver links it, which links what it calls, too."""

    def __init__(self, part: Part) -> None:
        self._reload_init = part._reload_init
        self._get_module_for_linking = lambda: part.own_module


def _code_of(library: Any) -> Any:
    return library.own_module if isinstance(library, Part) else library._get_module_for_linking()


def _all_below(libraries: list[Any]) -> list[Any]:
    """These libraries and those that parts among them call, each once."""
    found: dict[Any, None] = {}
    waiting = list(reversed(libraries))
    while waiting:
        library = waiting.pop()
        if library not in found:
            found[library] = None
            if isinstance(library, Part):
                waiting.extend(reversed(library._linking_libraries))
    return list(found)


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles a step function."""

    library = Part

    def define_pipelines(self) -> Any:
        """Numba's own passes, into our kind of library."""
        if self.state.library is None:
            self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


class WholeCompiler(PartCompiler):
    """Compiles a driver."""

    library = Whole

    def compile_extra(self, func: Any) -> Any:
        """As Numba does; Python does not look meanwhile for objects that only refer to each other.

        There are so many that looking through them again and again takes a sixth of the time.
        """
        searching = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if searching:
                gc.enable()


class Dual(CPUDispatcher):  # type: ignore[misc]
    """A step function that Python may call, too: then it is compiled again, as a driver."""

    driver: Any

    def __call__(self, *arguments: Any) -> Any:
        """As Python calls it."""
        return self.driver(*arguments)
