"""Reading a file that has mistakes: what is right in it can still be checked, so that all mistakes come at once."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from opportune.study.lines import Place
from opportune.study.messages import Error, schema_errors, unknown_key
from opportune.study.schema import StudyFile

MOST_ROUNDS = 20
_REQUIRED: dict[str, dict[str, Any]] = {
    "study": {"name": "study", "horizon": 1, "actions": ["a", "b"]},
    "reward": {"formula": "action", "noise_sd": 1.0},
    "variables": {"x": {"levels": ["a", "b"]}},
}
"""What stands in for required keys that are missing or wrong: nothing is checked that reads them."""
_BY_NAME = ("effects", "prior", "actions")
"""Sections whose entries can be left out one by one."""
_ASIDE = {
    "variables": {
        "probabilities", "label", "question", "answers", "level_labels", "digits", "escalate", "persistence", "initial",
    },
    "arms": {"block"},
    "nudge": {
        "name", "plural", "minutes", "answer_minutes", "quiet", "per_week", "least_hours_between", "least_window",
    },
    "staff": {"timezone", "hours", "holidays"},
    "participants": {"planned", "enrolment_days", "dropout"},
}  # fmt: skip
"""Keys that stand aside: without them the rest of their table can still be checked against the file."""


_STAND_INS: dict[Place, list[Any]] = {("reward", "bounds"): [0.0, 1.0], ("participants", "baseline"): ["a", "b"]}
"""What stands in for wrong bounds, and for wrong values of a baseline variable: its name is sure."""


class Partial(NamedTuple):
    """What is right in a file, where it can be made out; all that its tables got wrong, and where."""

    settings: StudyFile | None
    errors: list[Error]
    wrong: list[Place]


def validate(content: Mapping[str, Any]) -> Partial:
    """A file's content as tables; what is wrong is taken out, said, and marked."""
    errors: list[Error] = []
    wrong: list[Place] = []
    rest: dict[str, Any] = copy.deepcopy(dict(content))
    for round_ in range(MOST_ROUNDS):
        try:
            return Partial(StudyFile.model_validate(rest), errors, wrong)
        except ValidationError as error:
            details = error.errors()
        found = schema_errors(details, rest)
        errors += [(place, text) for place, text in found if round_ == 0 or not _touches(place, wrong)]
        for detail in details:
            wrong += _take_out(rest, detail)
        for section, keys in _REQUIRED.items():
            if any(place[0] == section for place in wrong):
                held = rest.get(section)
                rest[section] = {**keys, **held} if isinstance(held, dict) and section != "variables" else held or keys
    return Partial(None, errors, wrong)


def _touches(place: Place, wrong: list[Place]) -> bool:
    return any(place[: len(part)] == part for part in wrong)


def _take_out(content: dict[str, Any], error: ErrorDetails) -> list[Place]:
    """Remove what an error is about; where something is wrong by that."""
    place: Place = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        guess = unknown_key(place, error["input"])[1]
        _drop(content, place)
        return [_marked((*place[:-1], guess))] if guess and guess not in _ASIDE.get(str(place[0]), ()) else []
    key = error["ctx"]["key"] if error["type"] == "study" else ""
    whole: Place = (*place, key) if key else place
    top = str(place[0])
    at = 2 if top == "variables" else 1
    if len(whole) > at and whole[at] in _ASIDE.get(top, ()) and _holds(content, whole[: at + 1]):
        _drop(content, whole[: at + 1])
        return []
    mark = _marked(whole)
    if mark in _STAND_INS and len(whole) == (3 if top == "participants" else 2) and _holds(content, whole):
        _put(content, whole, _STAND_INS[mark])
        return [mark]
    if top in {"policies", *_REQUIRED} and len(place) == 1:
        content.pop(top, None)
    elif top == "policies":
        content.pop(top, None)  # of several errors the first has done it
    elif top == "variables" or (top in _BY_NAME and len(place) > 1):
        _drop(content, place[:2])
    elif len(mark) == 2 and mark[1] in content.get(top, {}):
        _drop(content, mark)
    elif error["type"] != "missing" or top not in _REQUIRED:
        content.pop(top, None)
    return [mark]


def _holds(content: Mapping[str, Any], place: Place) -> bool:
    """Whether a key is there to be left out."""
    inner: Any = content
    for part in place:
        if not isinstance(inner, Mapping) or part not in inner:
            return False
        inner = inner[part]
    return True


def _marked(place: Place) -> Place:
    """What is unsure where something at a place is wrong: all policies, variables or effects, or one key."""
    return place[:1] if place[0] in {"policies", "variables", *_BY_NAME} else place[:2]


def _put(content: dict[str, Any], place: Place, value: Any) -> None:
    inner: Any = content
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value


def _drop(content: dict[str, Any], place: Place) -> None:
    inner: Any = content
    for part in place[:-1]:
        inner = inner.get(part) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(place[-1], None)
