"""Changing values in a study file without losing its comments: keys are replaced in place or added."""

from typing import NamedTuple

from opportune.study.lines import Place, key_lines


class Edit(NamedTuple):
    """A new value for a key, or for the whole body of a table (if `place` has one part), with a comment."""

    place: Place
    value: str
    about: str


def rewrite(text: str, edits: list[Edit]) -> str:
    """The text after all edits, made in order."""
    for edit in edits:
        text = _table(text, edit) if len(edit.place) == 1 else _key(text, edit)
    return text


def _key(text: str, edit: Edit) -> str:
    """Replace a key in place, or append it to its table, which is added if missing."""
    lines, places = text.split("\n"), key_lines(text)
    new = f"{edit.place[-1]} = {edit.value}  # {edit.about}"
    table = edit.place[:-1]
    if edit.place in places:
        first = places[edit.place]
        lines[first - 1 : _end(lines, places, edit.place)] = [new]
    elif table in places:
        lines.insert(_end(lines, places, table), new)
    else:
        lines += ["", f"[{'.'.join(map(str, table))}]", new, ""]
    return "\n".join(lines)


def _table(text: str, edit: Edit) -> str:
    """Replace the body of a table, or add the table at the end."""
    lines, places = text.split("\n"), key_lines(text)
    if edit.place in places:
        first = places[edit.place]
        lines[first : _end(lines, places, edit.place)] = edit.value.split("\n")
    else:
        lines += ["", f"[{edit.place[0]}]", *edit.value.split("\n"), ""]
    return "\n".join(lines)


def _end(lines: list[str], places: dict[Place, int], place: Place) -> int:
    """The number of the last line that belongs to a place, without trailing comments and blank lines."""
    first = places[place]
    after = [line for other, line in places.items() if other[: len(place)] != place and line > first]
    end = min(after) - 1 if after else len(lines)
    while end > first and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
