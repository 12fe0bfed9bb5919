"""Error messages for study files: the line, what was given and what was expected."""

import difflib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic_core import ErrorDetails

from opportune.errors import InputError
from opportune.study.base import keys_of, show
from opportune.study.lines import Place
from opportune.study.places import brackets, is_named, section_of, sections, table_of
from opportune.study.schema import RewardTable, StudyFile, expected

MOST_ERRORS = 100
MOST_LENGTH = 700
Error: TypeAlias = tuple[Place, str]
"""The place of a mistake, and a message."""
Errors: TypeAlias = "Iterator[Error | Errors]"
"""The errors of a check, or nested iterators of them, each of which can wait without the others."""


def list_errors(source: str, lines: Mapping[Place, int], errors: Iterable[Error], *, waiting: int = 0) -> str:
    """List errors in the order of the file, one per line with line numbers; the last line counts waiting checks."""
    found = sorted(((_line(lines, place), message) for place, message in errors), key=operator.itemgetter(0))
    said = [f"{source}, line {line}: {message}" if line else f"{source}: {message}" for line, message in found]
    said = [text if len(text) <= MOST_LENGTH else text[: MOST_LENGTH - 3] + "..." for text in dict.fromkeys(said)]
    more = [f"{source}: and {len(said) - MOST_ERRORS} more"] if len(said) > MOST_ERRORS else []
    if waiting:
        checks = "1 more check follows" if waiting == 1 else f"{waiting} more checks follow"
        more.append(f"{source}: {checks} once {'this is' if len(said) == 1 else 'these are'} corrected")
    return "\n".join([*said[:MOST_ERRORS], *more])


def _line(lines: Mapping[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest enclosing one; 0 if the file contains neither."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 0)


def schema_errors(errors: Iterable[ErrorDetails], content: Mapping[str, Any], within: Place = ()) -> list[Error]:
    """Messages for pydantic's errors, except for unknown keys."""
    found: list[Error] = []
    for error in errors:
        place = (*within, *error["loc"])
        if error["type"] == "missing":
            found.append((place, _missing_key(place)))
        elif error["type"] == "study":
            found += [_own_error(place, key, message) for key, message in error["ctx"]["mistakes"]]
        else:
            found.append((place, _wrong_value(place, content)))
    return found


def _own_error(place: Place, key: str, message: str) -> Error:
    """An error from one of our validators, with its subject added (see `Table.mistakes`)."""
    whole = (*place, key) if key else place
    verb = message.split(maxsplit=1)[0]
    if verb not in {"is", "has", "lacks"}:
        return whole, message
    if place[0] == "effects":
        subject = f"{str(place[1])!r} in [effects]"
    elif place[:2] == ("participants", "baseline"):
        subject = f"{place[2]} in baseline of [participants]"
    elif verb == "is":
        subject = f"{whole[-1]} in {section_of(whole)}"
    else:
        subject = section_of((*place[:2], "") if is_named(str(place[0])) else (*place, ""))
    return whole, f"{subject} {message}"


def unknown_key(place: Place, value: Any) -> tuple[str, str]:
    """The message for an unknown key, and the key that was probably meant ("" if none is close)."""
    key, known = str(place[-1]), list(keys_of(table_of(place).table))
    if len(place) == 1:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {brackets(near[0])}?" if near else f"expected {', '.join(map(brackets, known))}"
        return f"unknown section [{key}]; {hint}", near[0] if near else ""
    if place[0] == "effects":
        known.remove("value")
    if place[0] == "policies":
        known.remove("settings")  # in a file, keys of the table itself
    if place[0] == "contexts" and isinstance(value, dict):
        return f"unknown table [contexts.{key}]; did you mean [variables.{key}]?", ""
    near = difflib.get_close_matches(key, known, n=1)
    text = f"unknown key {key!r} in {section_of(place)}"
    if near:
        return f"{text}; did you mean {near[0]!r}?", near[0]
    for section, table in sections().items():
        if key in keys_of(table):
            return f"{text}; it belongs in {brackets(section)}", ""
    arm = f", or an arm such as {key} = {{ share = 1 }}" if place[0] == "arms" and len(place) == 2 else ""
    return f"{text}; expected one of {', '.join(known)}{arm}", ""


def _missing_key(place: Place) -> str:
    key = str(place[-1])
    wanted = expected(table_of(place).table, key)
    if len(place) == 1:
        return f"{brackets(key)} is missing; expected {wanted}"
    return f"{section_of(place)} lacks {key!r}; expected {wanted}"


def _wrong_value(place: Place, content: Mapping[str, Any]) -> str:
    """The message for a wrong value: what was given, and the field's description of what was expected."""
    value: Any = content
    known: Place = ()
    for part in place:  # the rest of the path names pydantic's alternatives
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
        known = (*known, part)
    if len(known) == 1:
        return f"{known[0]} is {show(value)}; expected {expected(StudyFile, str(known[0]))}"
    if is_named(str(known[0])) and len(known) == 2:
        return f"{known[1]} in [{known[0]}] is {show(value)}; expected a table [{known[0]}.{known[1]}]"
    if known[0] == "policies" and len(known) == 2:
        return f"policies contains {show(value)}; expected {expected(StudyFile, 'policies')}"
    table, depth = table_of(known)
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in known[depth:]).lstrip(".")
    field = next(str(part) for part in known[depth:])
    wanted = expected(table, field)
    text = f"{name} in {section_of(known)} is {show(value)}; expected {wanted}"
    options = re.findall(r"'([\w ]+)'", wanted)
    return text + (did_you_mean(value, options) if isinstance(value, str) and options else "")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint at the closest known word, ignoring case; empty if none is close."""
    near = difflib.get_close_matches(word.lower(), [k.lower() for k in known], n=1)
    return "".join(f"; did you mean {k!r}?" for k in known if near and k.lower() == near[0])


def place_of(error: InputError, otherwise: Place) -> Place:
    """The key in [reward] that an error begins with, or another place if it begins with none."""
    setting = str(error).split(maxsplit=1)[0]
    return ("reward", setting) if setting in RewardTable.model_fields else otherwise


def syntax_error(source: str, text: str, message: str) -> str:
    """The message of tomllib, with the line in our format."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    if not found:
        return f"{source}: not TOML: {message}"
    line = found[2] or str(text.count("\n") + 1)
    column = f" at column {found[3]}" if found[3] else " at the end of the file"
    return f"{source}, line {line}: not TOML: {found[1][0].lower()}{found[1][1:]}{column}"
