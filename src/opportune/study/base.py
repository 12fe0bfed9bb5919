"""The base class of all tables of a study file: strict types, checks across keys, and marked wrong values.

All mistakes of a file are reported at once, so reading goes on after a mistake: `WRONG` replaces each wrong value.
Reading a wrong value from a table raises `WrongValueError`, and the check that reads it waits.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.functional_validators import ModelWrapValidatorHandler  # at the top only from pydantic 2.11 on
from pydantic_core import PydanticCustomError

from opportune import checks

Mistakes: TypeAlias = "Iterator[tuple[str, str] | Mistakes]"
"""Pairs (key, message), or nested iterators of them, each of which can wait without the others."""


class WrongValueError(Exception):
    """Raised when a check reads a wrong value; the check waits until the value is corrected."""


class Wrong:
    """The type of `WRONG`, which replaces a wrong value."""

    def _refuse(self, *_: Any) -> Any:
        raise WrongValueError

    __len__ = __iter__ = __getitem__ = __contains__ = _refuse


WRONG = Wrong()


def _pass_wrong(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    return value if value is WRONG else validate(value)


PASS_WRONG = WrapValidator(_pass_wrong)
"""An annotation that lets WRONG pass validation."""


class Table(BaseModel):
    """A table of the file. It rejects unknown keys and NaN, and converts no values."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    one_value: ClassVar[bool] = False
    """Whether the keys together describe one value, so that an unknown key makes all of it wrong."""

    def mistakes(self) -> Mistakes:
        """Find keys that are valid alone but do not fit together.

        A message that begins with "is" gets the key as its subject; one with "has" or "lacks" gets the table. A check
        must read every key that it reports, so that a key already known to be wrong is not reported twice.
        """
        return iter(())

    def given(self) -> dict[str, Any]:
        """The keys that the file sets, with their values; inner tables are dicts."""
        values = {key: getattr(self, key) for key in type(self).model_fields if key in self.model_fields_set}
        return {key: value.given() if isinstance(value, Table) else value for key, value in values.items()}

    @field_validator("*", mode="wrap", check_fields=False)
    @classmethod
    def _pass_wrong_value(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        return _pass_wrong(value, validate)

    @model_validator(mode="wrap")
    @classmethod
    def _pass_wrong_table(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if given is not WRONG:
            return validate(given)
        empty = cast("Self", cls.model_construct())
        empty.__dict__.clear()
        return empty

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for key in [key for key, value in self.__dict__.items() if value is WRONG]:
            del self.__dict__[key]
        found, _ = run_checks([self.mistakes()] if self.__dict__ else [])
        if found:
            raise PydanticCustomError("study", "mistakes", {"mistakes": found})
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:  # only wrong values have been deleted
                raise WrongValueError
            return super().__getattr__(name)


def run_checks(parts: Iterable[Iterator[Any]]) -> tuple[list[Any], int]:
    """Run checks; return the mistakes found, and the number of checks that wait because they read a wrong value."""
    found: list[Any] = []
    waiting = 0
    for part in parts:
        try:
            for one in part:
                inner, more = ([one], 0) if isinstance(one, tuple) else run_checks([one])
                found += inner
                waiting += more
        except WrongValueError:
            waiting += 1
    return found, waiting


def mark_wrong(value: Any, place: Sequence[str | int]) -> Any:
    """Copy a table, dict or list and mark the value at a place as wrong; returns WRONG if nothing else remains."""
    if not place or not isinstance(value, Table | dict | list):
        return WRONG
    key, *rest = place
    copy: Any = value.model_copy() if isinstance(value, Table) else value.copy()
    is_field = isinstance(value, Table) and key in type(value).model_fields
    held = copy.__dict__ if is_field else (copy.__pydantic_extra__ or {}) if isinstance(value, Table) else copy
    if isinstance(held, dict) and key not in held:  # missing or already marked
        return value
    marked = mark_wrong(held[key], rest)
    if marked is WRONG and is_field:
        del held[key]
    elif marked is WRONG and isinstance(held[key], Table):  # an entry whose name is valid
        held[key] = type(held[key]).model_validate(WRONG)
    elif marked is WRONG and isinstance(held, list):
        return WRONG
    else:
        held[key] = marked
    return copy


def keys_of(table: type[BaseModel]) -> dict[str, FieldInfo]:
    """A table's fields, by their keys in the file."""
    return {field.alias or name: field for name, field in table.model_fields.items()}


def refuse(key: str, message: str) -> PydanticCustomError:
    """An error for a validator to raise about a key of its table; with an empty key, about the value itself.

    The message may lack its subject, as in `Table.mistakes`.
    """
    return PydanticCustomError("study", "mistakes", {"mistakes": [(key, message)]})


def show(value: Any) -> str:
    """A value as it is written in the file, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # from `Study.replace`, not from a file
        text = checks.brief(value)
    if isinstance(value, str):
        text = repr(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 60 else text[:57] + "..."
