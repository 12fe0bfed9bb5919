"""Names of variables and values for people: labels, names of levels and digits from the file."""

from typing import Any

from opportune.study.schema import StudyFile

MOST_DIGITS = 2
"""Decimal places of numbers whose variable does not set `digits`."""


def article(word: str, *, capital: bool = False) -> str:
    """The word with "a" or "an", capitalised at the beginning of a sentence."""
    text = f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
    return text[0].upper() + text[1:] if capital else text


def variable_name(settings: StudyFile, name: str) -> str:
    """The variable's label, or its name with spaces."""
    table = settings.variables.get(name)
    return (table.label if table is not None else None) or name.replace("_", " ")


def level_name(settings: StudyFile, name: str, value: Any) -> str | None:
    """The file's name for a level: its label, or the answer that participants choose; None if it has neither."""
    table = settings.variables.get(name)
    labels = None if table is None else table.level_labels or table.answers
    levels = [] if table is None else table.known_levels
    for level, label in zip(levels, labels or (), strict=False):
        if level == value or str(level) == str(value):
            return label
    return None


def digits_of(settings: StudyFile, name: str) -> int | None:
    """The number of decimal places shown to people; None if the file does not set it."""
    table = settings.variables.get(name)
    return None if table is None else table.digits


def value_name(settings: StudyFile, name: str, value: Any) -> str:
    """A value as shown to people: the level's name, or a number with the variable's digits."""
    found = level_name(settings, name, value)
    if found is not None:
        return found
    if isinstance(value, int | float) and not isinstance(value, bool):
        digits = digits_of(settings, name)
        return f"{value:,.{digits}f}" if digits is not None else f"{round(value, MOST_DIGITS):,g}"
    return str(value)
