"""Whoever runs a command on the server's machine in a test: by a key, as in a script."""

import pytest

from opportune.cli.signing import KEY
from opportune.service.accounts.keys import add_key
from opportune.service.record.database import Database

DIRECTOR = "the director"


def sign(database: Database, monkeypatch: pytest.MonkeyPatch, name: str = DIRECTOR, role: str = "admin") -> str:
    """Have commands run as someone with a role, whose key is handed back."""
    key = add_key(database, name, role)
    monkeypatch.setenv(KEY, key)
    return key
