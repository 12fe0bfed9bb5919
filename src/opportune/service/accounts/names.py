"""Names of accounts: what the record may show for who did something, and which names nobody else may take."""

import re
import unicodedata

from sqlalchemy import Connection, select

from opportune.errors import InputError
from opportune.service.commands.base import SYSTEM
from opportune.service.record import tables

LAUNCHER = "opportune serve"
REDCAP = "REDCap"
"""Who enrols participants that [redcap] of the study file names."""
BY_HAND = "command line"
"""How analysts see whoever has no account any more, and had none."""
PARTICIPANT = "participant "
"""What the name of a participant's token begins with; the pseudonym follows."""
MOST_CHARACTERS = 64
LOOKALIKE = {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}
"""Alphabets with letters that look like Latin ones: beside these, they would make a colleague's name of one's own."""
_LABEL = re.compile(r"(app|staff|analyst|admin) \d+")
"""How analysts see people: nobody may be called so."""


def check_name(name: str) -> str:
    """The name of a key or a person, which the record shows for what they do."""
    good = isinstance(name, str) and 0 < len(name) <= MOST_CHARACTERS and name.isprintable() and name == name.strip()
    if not good or unicodedata.normalize("NFKC", name) != name:
        raise InputError(f"name is {name!r}; expected 1 to {MOST_CHARACTERS} printable characters")
    if "  " in name or any(unicodedata.category(letter) == "Pd" and letter != "-" for letter in name):
        raise InputError(f"name is {name!r}; expected one space at a time, and no dash but '-': others look like it")
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in name if letter.isalpha()}
    if len(scripts) > 1 and scripts & LOOKALIKE:
        raise InputError(f"name is {name!r}, which mixes letters that look alike; expected those of one alphabet")
    folded = name.casefold()
    misleading = (
        folded in {SYSTEM, LAUNCHER, BY_HAND, REDCAP.casefold()}
        or folded.startswith(PARTICIPANT)
        or _LABEL.fullmatch(folded)
    )
    if misleading:
        raise InputError(f"name is {name!r}, which stands for something else in the record; expected another")
    return name


def check_free(connection: Connection, name: str) -> None:
    """Refuse a name that an account has or had, however it is written: the record must tell them apart."""
    for table in (tables.keys, tables.people):
        for (taken,) in connection.execute(select(table.c.name)):
            if taken.casefold() == name.casefold():
                text = f"someone or something is called {taken!r} already"
                raise InputError(f"{text}; expected another name (revoked ones keep theirs)")
