"""Rules for any value in a study file: texts must be printable, numbers not too large, nesting not too deep."""

import math
import tomllib
from collections.abc import Iterator
from typing import Any

from opportune import checks
from opportune.errors import InputError
from opportune.study.base import show
from opportune.study.lines import Place
from opportune.study.messages import Error, syntax_error

MOST_BYTES = 1_000_000
MOST_DEPTH = 20
MOST_CHARACTERS = 10_000
SEVERAL_LINES = ("description", "question", "formula")
"""Keys whose text may contain line breaks and tabs; other texts appear in figures, tables and one-line messages."""


def parse_toml(source: str, text: str) -> dict[str, Any]:
    """Parse a file's content; raises `InputError` if it is not TOML, too long or nested too deeply."""
    if len(text) > MOST_BYTES:
        raise InputError(f"{source} has {len(text):,} characters; expected a study file, of at most {MOST_BYTES:,}")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(syntax_error(source, text, str(error))) from None
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError as error:  # an impossible date, or a number with too many digits
        raise InputError(f"{source}: not TOML: {' '.join(str(error).split())}") from None
    if any(len(place) > MOST_DEPTH for place, _ in _walk(content)):
        raise _too_deep(source)
    return content


def content_errors(content: dict[str, Any]) -> Iterator[Error]:
    """Find names and texts that cannot be shown, and numbers that are too large to compute with."""
    for place, value in _walk(content):
        name = ".".join(str(part) for part in place)
        for text, lines in ((place[-1], False), (value, place[-1] in SEVERAL_LINES)):
            if isinstance(text, str) and (reason := _wrong_text(text, lines=lines)):
                yield place, f"{checks.brief(name)} contains the text {show(text)}; expected {reason}"
        if isinstance(value, int | float) and checks.LARGEST < abs(value) < math.inf:
            yield place, f"{name} is {checks.brief(value)}; expected a number of at most {checks.LARGEST:g} in size"


def _wrong_text(text: str, *, lines: bool) -> str:
    """What is expected instead of a text; "" if it is valid."""
    if len(text) > MOST_CHARACTERS:
        return f"at most {MOST_CHARACTERS} characters"
    try:
        for begin in range(0, len(text), checks.MOST_TEXT):
            part = text[begin : begin + checks.MOST_TEXT]
            checks.text("text", part.replace("\t", " ") if lines else part, empty=True, lines=lines)
    except InputError as error:
        return str(error).rsplit("; expected ", maxsplit=1)[1]
    return ""


def _walk(content: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """All values in a file with their places, down to just below `MOST_DEPTH`."""
    waiting: list[tuple[Place, Any]] = [((key,), value) for key, value in content.items()]
    while waiting:
        place, value = waiting.pop()
        yield place, value
        if len(place) > MOST_DEPTH:
            continue
        if isinstance(value, dict):
            waiting += [((*place, key), entry) for key, entry in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, i), entry) for i, entry in enumerate(value)]


def _too_deep(source: str) -> InputError:
    return InputError(f"{source} is nested too deeply; expected tables and lists at most {MOST_DEPTH} deep")
