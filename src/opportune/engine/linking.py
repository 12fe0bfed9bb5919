"""Compiling a driver together with everything that it calls, once.

Numba makes every function a library of its own: it links in whatever the function calls, optimises the whole and
generates machine code; the function's caller does all of this again, and so on up. Here a step function stays in the
form that Numba first wrote. Only a driver, which Python calls, gathers all step functions below it and has them
optimised together. This takes about half the time, and leaves one cache file for each driver.
"""

import gc
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The library of a step function: only its own code. The functions it calls are linked with the driver."""

    _linking_libraries: list[Any]
    _merged: Any = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.environments: dict[str, Any] = {}

    def _optimize_functions(self, module: Any) -> None:
        # Like Numba, with one set of passes for all functions except declarations. It pays: drivers that are optimised
        # only as a whole take 5% longer to run.
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        """Forbid further additions."""
        self._raise_if_finalized()
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def own_module(self) -> Any:
        """The code of this part alone, for linking."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """All code in one module, for functions that Numba compiles in its own way."""
        if self._merged is None:
            self._merged = self.own_module.clone()
            for library in _all_below(self._linking_libraries):
                self._merged.link_in(_code_of(library), preserve=True)
        return self._merged

    def get_pointer_to_function(self, name: str) -> int:
        """None, since there is no machine code."""
        return 0

    @property
    def codegen(self) -> Any:
        """Numba's, except that this library has no memory address yet for an environment."""
        return _Homeless(self)


class _Homeless:
    def __init__(self, part: Part) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Keep the environment for the driver: functions that print, or raise errors built at run time, need it."""
        self._part.environments[name] = environment


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """The library of a driver: its code and everything that it calls, at any depth."""

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
        # Numba's first, cheap round is for reference counts, which step functions do not have.
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _Linked:
    """A part as seen by a driver's linker, which also links the functions that it calls."""

    def __init__(self, part: Part) -> None:
        self._reload_init = part._reload_init
        self._get_module_for_linking = lambda: part.own_module


def _code_of(library: Any) -> Any:
    return library.own_module if isinstance(library, Part) else library._get_module_for_linking()


def _all_below(libraries: list[Any]) -> list[Any]:
    """These libraries and all that the parts among them call, each once."""
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
        """Numba's own passes, with our kind of library."""
        if self.state.library is None:
            self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


class WholeCompiler(PartCompiler):
    """Compiles a driver."""

    library = Whole

    def compile_extra(self, func: Any) -> Any:
        """Compile like Numba, with Python's garbage collection paused.

        Compiling creates so many objects that repeated collections would take a sixth of the time.
        """
        searching = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if searching:
                gc.enable()


class Dual(CPUDispatcher):  # type: ignore[misc]
    """A step function that Python may also call: it is then compiled again, as a driver."""

    driver: Any

    def __call__(self, *arguments: Any) -> Any:
        """The call from Python."""
        return self.driver(*arguments)
