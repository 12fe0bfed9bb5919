"""The study file as shown and exported: without the private addresses and the names of people in it."""

import re
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

PRIVATE = {"webhook", "app_webhook", "mail", "unblinded", "contact_url"}
"""Keys of [serve] that are removed: with a webhook's address, anyone can forge an alert."""
NAMING = {"mail", "unblinded"}
"""Those that hold people's names, which are removed from comments as well."""
REMOVED = "not exported"
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|(?P<comment>\#[^\n]*)''', re.DOTALL
)
_WORD = re.compile(r"[^\W\d_]{3,}")


@lru_cache(maxsize=64)
def published(text: str) -> str:
    """A study file without its private lines, however they are written; what it says of the trial is unchanged."""
    try:
        file = tomlkit.parse(text)
    except TOMLKitError:
        return f"# {REMOVED}: the study file cannot be read\n"
    serve = file.get("serve")
    if not isinstance(serve, MutableMapping):
        return text
    private = [word for key in PRIVATE & serve.keys() for word in _words(serve[key])]
    named = [word.partition("@")[0] for key in NAMING & serve.keys() for word in _words(serve[key])]
    names = {part for name in named for part in (name, *_WORD.findall(name))}
    for key in PRIVATE & serve.keys():
        del serve[key]
    shown = tomlkit.dumps(file)
    for word in private:  # in comments, too
        if "://" in word or "@" in word:
            shown = shown.replace(word, f"({REMOVED})")
    return _without_names(shown, names) if names else shown


def _without_names(text: str, names: set[str]) -> str:
    """A study file without some names in its comments; outside comments they may be words of the trial."""
    named = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})", re.IGNORECASE)

    def shown(found: re.Match[str]) -> str:
        return found[0] if found["comment"] is None else named.sub(f"({REMOVED})", found[0])

    return _TEXT_OR_COMMENT.sub(shown, text)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _words(each)
    else:
        yield str(value)
