"""What all tables of a study file have in common: how strict they are, and how a validator refuses."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from opportune import checks


class Table(BaseModel):
    """A table of the file: nothing unknown, nothing converted, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def keys_of(table: type[BaseModel]) -> dict[str, FieldInfo]:
    """What a table may hold, by the keys of the file."""
    return {field.alias or name: field for name, field in table.model_fields.items()}


def refuse(key: str, message: str) -> PydanticCustomError:
    """An error about one key of a table, for a validator to raise."""
    return PydanticCustomError("study", "{message}", {"key": key, "message": message})


def show(value: Any) -> str:
    """A value as it stands in the file, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # not of a file, but of `Study.replace`
        text = checks.brief(value)
    if isinstance(value, str):
        text = repr(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 60 else text[:57] + "..."
