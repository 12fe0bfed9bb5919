"""The study file as it is shown and exported: without the addresses and the names of people that it holds."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

PRIVATE = {"webhook", "app_webhook", "mail", "unblinded", "contact_url"}
"""Keys of [serve] that are taken out: who has a webhook's address can send what looks like an alert."""
REMOVED = "not exported"


@lru_cache(maxsize=64)
def published(text: str) -> str:
    """A study file without what is private in it, however that is written; it says the same of the trial."""
    try:
        file = tomlkit.parse(text)
    except TOMLKitError:
        return f"# {REMOVED}: the study file cannot be read\n"
    serve = file.get("serve")
    if not isinstance(serve, MutableMapping):
        return text
    private = [word for key in PRIVATE & serve.keys() for word in _words(serve[key])]
    for key in PRIVATE & serve.keys():
        del serve[key]
    shown = tomlkit.dumps(file)
    for word in private:  # in comments, too, but not where part of another word
        if "://" in word or "@" in word:
            shown = shown.replace(word, f"({REMOVED})")
    return shown


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _words(each)
    else:
        yield str(value)
