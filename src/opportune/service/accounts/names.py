"""Names of accounts: which names the record may show as authors, and which are reserved."""

import re
import unicodedata

from sqlalchemy import Connection, select

from opportune.errors import InputError
from opportune.service.commands.base import SYSTEM
from opportune.service.record import tables

LAUNCHER = "opportune serve"
REDCAP = "REDCap"
"""The author of enrolments through [redcap] of the study file."""
BY_HAND = "command line"
"""How analysts see authors without an account."""
PARTICIPANT = "participant "
"""The beginning of the name of a participant's token; the pseudonym follows."""
MOST_CHARACTERS = 64
LOOKALIKE = {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}
"""Alphabets with letters that look like Latin ones: mixed with these, a name could imitate a colleague's."""
_LABEL = re.compile(r"(app|staff|analyst|admin) \d+")
"""How analysts see people; no account may have such a name."""


def check_name(name: str) -> str:
    """Check the name of a key or a person, which the record shows as the author of what they do."""
    good = isinstance(name, str) and 0 < len(name) <= MOST_CHARACTERS and name.isprintable() and name == name.strip()
    if not good or unicodedata.normalize("NFKC", name) != name:
        raise InputError(f"name is {name!r}; expected 1 to {MOST_CHARACTERS} printable characters")
    if "  " in name or any(unicodedata.category(letter) == "Pd" and letter != "-" for letter in name):
        raise InputError(f"name is {name!r}; expected single spaces, and '-' as the only dash: others look like it")
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in name if letter.isalpha()}
    if len(scripts) > 1 and scripts & LOOKALIKE:
        raise InputError(f"name is {name!r}, which mixes alphabets that look alike; expected letters of one alphabet")
    folded = name.casefold()
    misleading = (
        folded in {SYSTEM, LAUNCHER, BY_HAND, REDCAP.casefold()}
        or folded.startswith(PARTICIPANT)
        or _LABEL.fullmatch(folded)
    )
    if misleading:
        raise InputError(f"name is {name!r}, which has another meaning in the record; expected a different name")
    return name


def check_free(connection: Connection, name: str) -> None:
    """Refuse a name that an account has or had, in any case of letters: the record must tell them apart."""
    for table in (tables.keys, tables.people):
        for (taken,) in connection.execute(select(table.c.name)):
            if taken.casefold() == name.casefold():
                text = f"the name {taken!r} is taken"
                raise InputError(f"{text}; expected another name (revoked accounts keep theirs)")
