"""The schema says what everything is: no free objects, times with formats, an example of each body."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from site_over_http import Site, good, site_on

from opportune.service.api.schema import operations
from opportune.service.record.database import Database

TIMES = {
    "at", "until", "expires", "happened", "received", "enrolled", "last_decided", "last_reveal", "made", "now",
    "launched", "raised",
}  # fmt: skip
NO_TIMES = {("StudyState", "enrolled"), ("Bundle", "now"), ("Slot", "until")}
"""A count, an advice, and microseconds as they are hashed."""


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    with site_on(sqlite, policy="always") as found:
        yield found


@pytest.fixture
def schema(site: Site) -> Any:
    return site.client.get("/schema").json()


def everything(node: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every schema in a document with its place; examples are none."""
    if isinstance(node, dict):
        yield place, node
        for key, value in node.items():
            if key not in {"example", "examples"}:
                yield from everything(value, (*place, key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from everything(value, (*place, str(i)))


def wrong(schema: Any, part: dict[str, Any], value: Any) -> list[str]:
    """What a part of the schema has against a value; times are read."""
    checker = FormatChecker()
    checker.checks("date-time", raises=ValueError)(lambda text: text is None or dt.datetime.fromisoformat(text).tzinfo)
    checked = Draft202012Validator({"components": schema["components"], **part}, format_checker=checker)
    return [error.message for error in checked.iter_errors(value)]


def untyped(schema: Any) -> list[str]:
    """Objects of which nothing is said, and schemas that allow anything."""
    found = []
    for place, node in everything(schema):
        named = place[-1:] in {("schema",), ("items",), ("additionalProperties",)} or place[-2:-1] == ("properties",)
        fields = node.get("properties") or node.get("additionalProperties")
        if (named and not node) or (node.get("type") == "object" and not fields):
            found.append("/".join(place))
    return found


def test_nothing_is_a_free_object(schema: Any) -> None:
    """Bundle, calls, study, record, pages and problems have their fields; the control finds one that has not."""
    assert untyped(schema) == []
    schema["components"]["schemas"]["Bundle"]["properties"]["points"]["items"] = {"type": "object"}
    assert untyped(schema) == ["components/schemas/Bundle/properties/points/items"]


def test_times_have_a_format(schema: Any) -> None:
    """Whatever is a time says so, so that generated clients make it one."""
    seen = set()
    for name, found in schema["components"]["schemas"].items():
        for field, value in found["properties"].items():
            if field in TIMES and (name, field) not in NO_TIMES:
                choices = [value, *value.get("oneOf", [])]
                assert "date-time" in {choice.get("format") for choice in choices}, (name, field)
                seen.add(field)
    assert seen == TIMES - {"now"} | {"now"}


def test_every_operation_has_examples_that_are_valid(schema: Any) -> None:
    """What is sent and what is answered, problems included; each is what its schema allows."""
    count = 0
    for path, method, operation in operations(schema):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for body in [*bodies, *operation["responses"].values()]:
            for media, content in body.get("content", {}).items():
                assert "example" in content, (method, path, media)
                assert wrong(schema, content["schema"], content["example"]) == [], (method, path, media)
                count += 1
        assert operation["summary"]
        assert operation["description"]
    assert count > 200


def test_answers_have_no_field_that_the_schema_does_not_know(site: Site, schema: Any) -> None:
    """A real course: all that is answered is described, so that the schema cannot fall behind."""
    site.enrol()
    made = site.decide()
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff"))
    good(site.post(f"decisions/{made['decision']}/reward", {"reward": 0.5}))
    good(site.post("participants/P001/openings", {}), 201)
    answered = {
        "/api/v1/participants": site.get("participants"),
        "/api/v1/participants/{participant}": site.get("participants/P001"),
        "/api/v1/participants/{participant}/decisions": site.get("participants/P001/decisions"),
        "/api/v1/participants/{participant}/bundle": site.get("participants/P001/bundle", "app"),
        "/api/v1/participants/{participant}/events": site.get("participants/P001/events?after=1", "app"),
        "/api/v1/decisions/{decision}": site.get(f"decisions/{made['decision']}"),
        "/api/v1/calls": site.get("calls"),
        "/api/v1/study": site.get("study", "admin"),
        "/api/v1/study/content": site.get("study/content"),
        "/api/v1/events": site.get("events", "admin"),
        "/api/v1/access": site.get("access", "admin"),
    }
    for name in ("Given", "Answered"):  # what these hold depends on the kind, and a later version may add to it
        schema["components"]["schemas"][name]["additionalProperties"] = True
    for found in schema["components"]["schemas"].values():
        found.setdefault("additionalProperties", False)
    for name in ("DecisionDetails", "ParticipantDetails"):
        assert "allOf" not in schema["components"]["schemas"][name], "or closing it would refuse what it inherits"
    for path, response in answered.items():
        content = schema["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert wrong(schema, content, good(response)) == [], path
        if "items" in (body := response.json()):
            assert body["items"] or path == "/api/v1/calls", path
    given = {kind for entry in answered["/api/v1/events"].json()["items"] for kind in entry["event"]["given"]}
    unknown = given - set(schema["components"]["schemas"]["Given"]["properties"])
    assert unknown <= {"from", "host", "role", "address", "was", "first", "salt"}, unknown
