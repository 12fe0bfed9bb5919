"""Finds the table of the schema in which a place lies, and the table's name in the file."""

from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from opportune.study.base import Table, keys_of
from opportune.study.lines import Place
from opportune.study.schema import StudyFile


class Lies(NamedTuple):
    """A table of the schema, and the number of parts of a place that lead to it."""

    table: type[Table]
    depth: int


def tables_on(place: Place) -> list[Lies]:
    """The tables that a place leads through, the whole file first."""
    found = [Lies(StudyFile, 0)]
    while True:
        table, depth = found[-1]
        if depth >= len(place):
            return found
        field = keys_of(table).get(str(place[depth]))
        inner = model_in(field.annotation) if field is not None else extra_model(table)
        if inner is None:
            return found
        many = field is not None and not _is_model(field.annotation)
        found.append(Lies(inner, depth + 2 if many else depth + 1))


def table_of(place: Place) -> Lies:
    """The table that holds the key at a place."""
    return next(lies for lies in reversed(tables_on(place)) if lies.depth < len(place))


@cache
def sections() -> dict[str, type[Table]]:
    """The sections of a file with their tables."""
    models = {key: model_in(field.annotation) for key, field in keys_of(StudyFile).items()}
    return {key: model for key, model in models.items() if model is not None}


def is_named(section: str) -> bool:
    """Whether a section consists of named tables, such as [variables.NAME]."""
    return section in {"variables", "actions"}


def brackets(section: str) -> str:
    """A section's name in the file, with brackets."""
    if section not in sections():
        return section
    if is_named(section):
        return f"[{section}.NAME]"
    return "[[policies]]" if section == "policies" else f"[{section}]"


def section_of(place: Place) -> str:
    """The name in the file of the table that contains a place."""
    first = str(place[0])
    whole = f"[{first}.{place[1]}]" if is_named(first) and len(place) > 1 else brackets(first)
    depth = table_of(place).depth
    if first in {"effects", "prior"} and len(place) > 2:
        return f"{str(place[1])!r} of {whole}"
    top = 2 if is_named(first) or first == "policies" else 1
    inner = ".".join(str(part) for part in place[top:depth])
    return f"{inner} of {whole}" if inner else whole


def model_in(annotation: Any) -> type[Table] | None:
    """The table class in a field's type, be it plain, in a dict, in a list or in a union; None if there is none."""
    if _is_model(annotation):
        found: type[Table] = next(kind for kind in (annotation, *get_args(annotation)) if _is_class(kind))
        return found
    inner = (model_in(part) for part in get_args(annotation))
    return next((model for model in inner if model is not None), None)


def extra_model(table: type[Table]) -> type[Table] | None:
    """The table class of a table's free keys; None if it has none."""
    return model_in(table.__annotations__.get("__pydantic_extra__"))


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def _is_model(annotation: Any) -> bool:
    """Whether a field's type is a table or an optional table."""
    either = get_origin(annotation) in {Union, UnionType}
    return _is_class(annotation) or (either and any(_is_class(part) for part in get_args(annotation)))
