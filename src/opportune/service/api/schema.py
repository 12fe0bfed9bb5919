"""The schema as it is served: with examples, and with what the framework cannot express."""

from collections.abc import Iterator
from typing import Any

from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin

from opportune.service.api import examples

METHODS = ("get", "post", "patch", "put", "delete")
DEFAULT = 200


class WithExamples(JsonRenderPlugin):
    """The schema as JSON, with an example of each body and answer."""

    def render(self, request: "Request[Any, Any, Any]", openapi_schema: dict[str, Any]) -> bytes:
        """The schema's bytes."""
        return self.render_json(request, documented(openapi_schema))


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation, with its path and method."""
    for path, item in schema["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def documented(schema: dict[str, Any]) -> dict[str, Any]:
    """Add examples to the schema, and problems to the items of a batch."""
    _without_integers(schema)
    either = [{"$ref": f"#/components/schemas/{name}"} for name in ("Decision", "Problem")]
    schema["components"]["schemas"]["BatchItem"]["properties"]["answer"] = {"anyOf": either}
    for _path, _method, operation in operations(schema):
        for media, body in operation.get("requestBody", {}).get("content", {}).items():
            _show(media, body, DEFAULT)
        for status, response in operation["responses"].items():
            for media, body in response.get("content", {}).items():
                _show(media, body, int(status))
    return schema


def _without_integers(schema: Any) -> None:
    """Remove integers from `oneOf` if it allows numbers: an integer is a number, and 3 would match both, so not one."""
    if isinstance(schema, dict):
        choices = schema.get("oneOf", [])
        if {"type": "number"} in choices and {"type": "integer"} in choices:
            schema["oneOf"] = [choice for choice in choices if choice != {"type": "integer"}]
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _without_integers(value)


def _show(media: str, body: dict[str, Any], status: int) -> None:
    """Put an example beside a body's schema."""
    name, several = _name(body["schema"])
    value: Any
    if name == "Problem":
        value = examples.problem(status)
    elif several:
        value = examples.LISTS[name]
    else:
        value = examples.PLAIN[media] if media in examples.PLAIN else examples.EXAMPLES[name]
    body["example"] = value


def _name(schema: dict[str, Any]) -> tuple[str, bool]:
    """The name of a body's schema, or of its items' schema, and whether it is a list."""
    several = "items" in schema
    reference: str = (schema["items"] if several else schema).get("$ref", "")
    return reference.rpartition("/")[2], several
