"""Reads a file that may contain mistakes: its valid parts are read, so that all mistakes are reported at once."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from opportune.study.base import WRONG
from opportune.study.content import content_errors
from opportune.study.lines import Place
from opportune.study.messages import Error, schema_errors, unknown_key
from opportune.study.places import table_of, tables_on
from opportune.study.schema import StudyFile


class Reading(NamedTuple):
    """The settings in a file, and the mistakes in its tables."""

    settings: StudyFile
    """Wrong values are marked (see `base`)."""
    errors: list[Error]
    misspelt: dict[Place, Place]
    """The places of misspelt keys, by the places of the keys that were probably meant."""

    def place_in_file(self, place: Place) -> Place:
        """The place in the file of a key that may be misspelt there."""
        for meant, written in reversed(self.misspelt.items()):  # inner keys are corrected after outer ones
            if place[: len(meant)] == meant:
                place = (*written, *place[len(meant) :])
        return place


def read(content: Mapping[str, Any]) -> Reading:
    """Read a file's content; report mistakes and mark wrong values until the rest is valid.

    A misspelt key is read as the key that was probably meant. If its value is not valid there, only the misspelling is
    reported.
    """
    rest: dict[str, Any] = copy.deepcopy(dict(content))
    errors = list(content_errors(rest))
    misspelt: dict[Place, Place] = {}
    marked = {_mark(rest, place) for place, _ in errors}
    while True:
        try:
            return Reading(StudyFile.model_validate(rest), errors, misspelt)
        except ValidationError as error:
            unknown, others = _split(error.errors())
        found = schema_errors(others, rest)
        corrected = {}
        for place, value in unknown.items():
            message, guess = unknown_key(place, value)
            errors.append((place, message))
            if table_of(place).table.one_value:
                marked.add(_mark(rest, place[:-1]))
            elif meant := _correct(rest, place, guess):
                corrected[meant] = place
        wrong = set()
        for place, message in found:
            if place not in corrected:  # it was missing, and now has the value of a misspelt key
                wrong.add(value := _mark(rest, place))
                if value not in misspelt:
                    errors.append((place, message))
        if not unknown and wrong <= marked:  # nothing new: the next round would find the same errors
            rest |= dict.fromkeys((str(place[0]) for place in wrong), WRONG)
        marked |= wrong
        misspelt |= corrected


def _split(details: Iterable[ErrorDetails]) -> tuple[dict[Place, Any], list[ErrorDetails]]:
    """Split errors into the values of unknown keys and all others. In [arms], a key without a table is unknown."""
    unknown: dict[Place, Any] = {}
    others: list[ErrorDetails] = []
    for detail in details:
        no_arm = detail["type"] == "model_type" and detail["loc"][:-1] == ("arms",)
        if detail["type"] == "extra_forbidden" or no_arm:
            unknown[detail["loc"]] = detail["input"]
        else:
            others.append(detail)
    return unknown, others


def _correct(content: dict[str, Any], place: Place, guess: str) -> Place | None:
    """Move the value of an unknown key to the key that was probably meant; drop it if that key has a value."""
    table: Any = content
    for part in place[:-1]:
        table = table[part]
    value = table.pop(place[-1])
    if not guess or guess in table:
        return None
    table[guess] = value
    return (*place[:-1], guess)


def _mark(content: dict[str, Any], place: Place) -> Place:
    """Mark the wrong value at a place: the value of a key, or a whole named or numbered table."""
    depth = max(lies.depth for lies in tables_on(place) if lies.depth <= len(place))
    value = place[: depth + 1]
    if place[:2] == ("participants", "baseline"):  # names remain known even if values are wrong
        value = place[:3]
    inner: Any = content
    for part in value[:-1]:
        inner = inner[part]
        if inner is WRONG:
            return value
    inner[value[-1]] = WRONG
    return value
