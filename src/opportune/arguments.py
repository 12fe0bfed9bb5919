"""Calls with arguments that a public function does not have are bad input like other: refused in our words."""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from opportune import checks
from opportune.errors import InputError

Thing = TypeVar("Thing")


def plain_calls(thing: Thing) -> Thing:
    """A decorator of public functions and classes: unknown, missing and surplus arguments raise `InputError`.

    Of a class, its constructor and public methods. Functions that compiled code calls are static methods, and are left
    alone. A right call costs nothing but the call in between.
    """
    if not inspect.isclass(thing):
        return _guarded(thing, thing.__name__)  # type: ignore[attr-defined, return-value, arg-type]
    for name, value in list(vars(thing).items()):
        if name == "__init__" and isinstance(value, FunctionType):
            setattr(thing, name, _guarded(value, thing.__name__, bound=True))
        elif not name.startswith("_") and isinstance(value, FunctionType):
            setattr(thing, name, _guarded(value, name, bound=True))
        elif not name.startswith("_") and isinstance(value, classmethod):
            setattr(thing, name, classmethod(_guarded(value.__func__, f"{thing.__name__}.{name}", bound=True)))
    return thing


def _guarded(function: Callable[..., Any], name: str, *, bound: bool = False) -> Callable[..., Any]:
    if hasattr(function, "__wrapped__"):
        return function

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it had begun
                raise
            _refuse(function, name, given[1:] if bound else given, named, bound=bound)
            raise

    return call


def _refuse(function: Callable[..., Any], name: str, given: Any, named: dict[str, Any], *, bound: bool) -> None:
    """Say what is wrong with a call that Python could not make."""
    parameters = list(inspect.signature(function).parameters.values())[bound:]
    kinds = inspect.Parameter
    in_order = [p.name for p in parameters if p.kind in {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD}]
    known = [p.name for p in parameters if p.kind not in {kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD}]
    listed = ", ".join(known) or "none"
    if not any(p.kind is kinds.VAR_KEYWORD for p in parameters):
        for argument in named:
            if not known:
                raise InputError(f"{name} was given the argument {checks.shown(argument)}; expected none")
            checks.choice(f"an argument of {name}", argument, known)
    if len(given) > len(in_order):
        rest = f"at most {len(in_order)}, others by name ({listed})" if known[len(in_order) :] else f"({listed})"
        raise InputError(f"{name} was given {len(given)} arguments without a name; expected {rest}")
    if twice := [argument for argument in in_order[: len(given)] if argument in named]:
        raise InputError(f"{name} was given {twice[0]!r} twice; expected it once")
    there = {*in_order[: len(given)], *named}
    if lacking := [p.name for p in parameters if p.name in known and p.default is p.empty and p.name not in there]:
        raise InputError(f"{name} lacks {lacking[0]!r}; expected {listed}")
