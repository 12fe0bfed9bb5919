"""Where a place of a study file lies: in which table of the schema, and what that table is called in the file."""

from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from opportune.study.base import Table, keys_of
from opportune.study.lines import Place
from opportune.study.schema import StudyFile


class Lies(NamedTuple):
    """A table of the schema, and how many parts of a place lead to it."""

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


def sections() -> dict[str, type[Table]]:
    """The sections of a file with their tables."""
    models = {key: model_in(field.annotation) for key, field in keys_of(StudyFile).items()}
    return {key: model for key, model in models.items() if model is not None}


def is_named(section: str) -> bool:
    """Whether a section is tables by name, as [variables.NAME] is."""
    return section in {"variables", "actions"}


def brackets(section: str) -> str:
    """What a section is called in the file."""
    if section not in sections():
        return section
    if is_named(section):
        return f"[{section}.NAME]"
    return "[[policies]]" if section == "policies" else f"[{section}]"


def section_of(place: Place) -> str:
    """What the table around a place is called in the file."""
    first = str(place[0])
    whole = f"[{first}.{place[1]}]" if is_named(first) and len(place) > 1 else brackets(first)
    depth = table_of(place).depth
    if first in {"effects", "prior"} and len(place) > 2:
        return f"{str(place[1])!r} of {whole}"
    top = 2 if is_named(first) or first == "policies" else 1
    inner = ".".join(str(part) for part in place[top:depth])
    return f"{inner} of {whole}" if inner else whole


def model_in(annotation: Any) -> type[Table] | None:
    """The table that a field holds, itself, by name, in a list or as one of several things."""
    if _is_model(annotation):
        found: type[Table] = next(kind for kind in (annotation, *get_args(annotation)) if _is_class(kind))
        return found
    inner = (model_in(part) for part in get_args(annotation))
    return next((model for model in inner if model is not None), None)


def extra_model(table: type[Table]) -> type[Table] | None:
    """The table that a key of any name holds, where a table allows such keys."""
    return model_in(table.__annotations__.get("__pydantic_extra__"))


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def _is_model(annotation: Any) -> bool:
    """Whether a field is a table, or a table that may be left out."""
    either = get_origin(annotation) in {Union, UnionType}
    return _is_class(annotation) or (either and any(_is_class(part) for part in get_args(annotation)))
