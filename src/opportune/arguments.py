"""The door of every public function: arguments that it does not have, and things that cannot be read, are bad input."""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from opportune import checks
from opportune.errors import InputError, OpportuneError
from opportune.foreign import KNOWN_KINDS, holds_foreign, is_known_module, plainly

Thing = TypeVar("Thing")


def plain_calls(thing: Thing) -> Thing:
    """A decorator of public functions and classes: unknown, missing and surplus arguments raise `InputError`.

    So does something of somebody's own class that raises when it is used. Of a class, its constructor, public methods
    and brackets. Functions that compiled code calls are static methods, and are left alone. A right call costs hardly
    more than the call in between.
    """
    if not inspect.isclass(thing):
        return _guarded(thing, thing.__name__)  # type: ignore[attr-defined, return-value, arg-type]
    for name, value in list(vars(thing).items()):
        if name == "__init__" and isinstance(value, FunctionType):
            setattr(thing, name, _guarded(value, thing.__name__, bound=True))
        elif (not name.startswith("_") or name in _BRACKETS) and isinstance(value, FunctionType):
            setattr(thing, name, _guarded(value, name, bound=True))
        elif not name.startswith("_") and isinstance(value, classmethod):
            setattr(thing, name, classmethod(_guarded(value.__func__, f"{thing.__name__}.{name}", bound=True)))
    return thing


def _guarded(function: Callable[..., Any], name: str, *, bound: bool = False) -> Callable[..., Any]:
    if hasattr(function, "__wrapped__"):
        return function

    are_known = KNOWN_KINDS.issuperset

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if not are_known(map(type, given)):
            given = tuple([plainly(value) for value in given])
        if named and not are_known(map(type, named.values())):
            named = {argument: plainly(value) for argument, value in named.items()}
        try:
            return function(*given, **named)
        except OpportuneError:
            raise
        except Exception as error:
            traceback = error.__traceback__
            if isinstance(error, TypeError) and traceback is not None and traceback.tb_next is None:  # it had not begun
                _refuse(function, name, given[1:] if bound else given, named, bound=bound)
            _refuse_foreign(function, given, named, error, bound=bound)
            raise

    return call


_BRACKETS = {"__getitem__", "__contains__"}


def _refuse_foreign(
    function: Callable[..., Any], given: Any, named: dict[str, Any], error: Exception, *, bound: bool
) -> None:
    """Blame an argument of somebody's own class for an error that comes of using it, if there is one."""
    if _is_of_a_method(error.__traceback__):
        return
    names = list(inspect.signature(function).parameters)
    arguments = {**dict(zip(names, given, strict=False)), **named}
    for argument, value in list(arguments.items())[bound:]:
        if holds_foreign(value):
            said = f"{argument} is {checks.shown(value)}, which cannot be used: {checks.shown(error)}"
            raise InputError(f"{said}; expected plain values") from error


def _is_of_a_method(traceback: TracebackType | None) -> bool:
    """Whether an error is from a plain function or method of somebody's own, as rules and worlds have: no bad input."""
    foreign = None
    while traceback is not None:
        frame = traceback.tb_frame
        if not is_known_module(str(frame.f_globals.get("__name__", ""))):
            foreign = frame.f_code.co_name
        traceback = traceback.tb_next
    return foreign is not None and not (foreign.startswith("__") and foreign.endswith("__"))


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
