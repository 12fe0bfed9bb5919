"""Tables of the revealers and recommenders for study files, for the documentation and the screen."""

import dataclasses
import re
import textwrap
from typing import Any, NamedTuple

from opportune.engine.hooks import Registry


class Kind(NamedTuple):
    """A registered revealer or recommender."""

    name: str  # in study files
    type: str  # in Python
    does: str
    settings: str


def kinds(registry: Registry) -> list[Kind]:
    """All registered kinds, each with the first sentence of its docstring and its settings with defaults."""
    return [
        Kind(name, entry.__name__, _first_sentence(entry.__doc__ or ""), _settings(entry))
        for name, entry in registry.kinds().items()
    ]


def markdown(registry: Registry) -> str:
    """The table in Markdown, for the documentation."""
    key = {"revealer": "kind"}.get(registry.kind, registry.kind)
    head = [f"| `{key}` | in Python | what it does | settings |", "|---|---|---|---|"]
    rows = [f'| `"{k.name}"` | `{k.type}` | {k.does} | {k.settings or "none"} |' for k in kinds(registry)]
    return "\n".join([*head, *rows])


def plain(registry: Registry) -> str:
    """The table in plain text, for the screen."""
    rows = [(k.name, f"{k.does}." + (f" Settings: {k.settings}." if k.settings else "")) for k in kinds(registry)]
    width = max(len(name) for name, _ in rows) + 4
    return "\n".join(
        textwrap.fill(text.replace("`", ""), 79, initial_indent=f"  {name}".ljust(width), subsequent_indent=" " * width)
        for name, text in rows
    )


def _first_sentence(doc: str) -> str:
    text = " ".join(doc.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[^.]\.)\s+(?=[A-Z])", text, maxsplit=1)[0].removesuffix(".")


def _settings(entry: type) -> str:
    words = []
    for field in dataclasses.fields(entry):
        if field.default is dataclasses.MISSING:
            words.append(f"`{field.name}` (required)")
        elif field.default is None:
            words.append(f"`{field.name}`")
        else:
            words.append(f"`{field.name}` ({_shown(field.default)})")
    return ", ".join(words)


def _shown(value: Any) -> str:
    """A value as it is written in a study file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
