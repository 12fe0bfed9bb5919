"""The JSON Schema of study files, which lets editors complete and check them."""

import dataclasses
from typing import Any

from opportune.study.schema import CHOICES, StudyFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The tables' schema, with the currently registered names. Dates are strings, as JSON has no dates."""
    schema = _without_titles(StudyFile.model_json_schema(by_alias=True, mode="validation"))
    tables = schema["$defs"]
    effect = tables["Effect"]
    effect["properties"].pop("value")  # in a file, a plain number
    effects = schema["properties"]["effects"]
    effects["additionalProperties"] = {"anyOf": [{"type": "number"}, effects["additionalProperties"]]}
    policy = tables["PolicyTable"]["properties"]
    policy.pop("settings")  # in a file, keys of the table itself
    for key, registry in CHOICES.items():
        policy[key]["enum"] = list(registry.kinds())
        for kind in registry.kinds().values():
            for field in dataclasses.fields(kind):
                policy.setdefault(field.name, {"description": f"a setting of {kind.kind}"})
    return {"$schema": DIALECT, "title": "A study file of Opportune", **schema}


def _without_titles(schema: Any) -> Any:
    """A copy without titles, which only repeat the keys."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(part) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
