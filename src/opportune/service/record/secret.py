"""The secret seed of a study with people: made at launch, committed to in the record, disclosed when the study closes.

It is stored in its own table, which no endpoint, page or export reads, and encrypted if OPPORTUNE_SECRET is set.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert, select

from opportune.errors import DataError
from opportune.service.record import tables

VARIABLE = "OPPORTUNE_SECRET"
LENGTH = 32
"""Bytes of the seed, and of the salt."""
OPEN = (
    f"the secret seed of the coins is stored unencrypted, as {VARIABLE} was not set at launch: anyone with "
    "the database or a backup can compute coins and arms"
)
_NONCE, _TAG = 16, 32


@dataclass(frozen=True)
class Secret:
    """A seed and the salt of its commitment; `repr` shows neither."""

    seed: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    @property
    def commitment(self) -> str:
        """The SHA-256 of salt and seed, which the record contains from launch on."""
        return hashlib.sha256(self.salt + self.seed).hexdigest()

    def disclosed(self) -> dict[str, str]:
        """Seed and salt as the record contains them once the study is closed."""
        return {"seed": self.seed.hex(), "salt": self.salt.hex()}


def random_bytes(count: int) -> bytes:
    """Random bytes from the operating system."""
    return secrets.token_bytes(count)


def make(connection: Connection) -> Secret:
    """Make the study's secret seed and store it in this transaction."""
    made = Secret(random_bytes(LENGTH), random_bytes(LENGTH))
    password = os.environ.get(VARIABLE, "")
    content = made.seed + made.salt
    row = {"id": 1, "encrypted": bool(password), "content": _encrypted(content, password) if password else content}
    connection.execute(insert(tables.secret), row)
    return made


def stored(connection: Connection) -> Secret | None:
    """The stored secret seed; None if there is none, as in a rehearsal or an auditor's copy."""
    row = connection.execute(select(tables.secret.c.encrypted, tables.secret.c.content)).one_or_none()
    if row is None:
        return None
    encrypted, content = row
    if encrypted:
        password = os.environ.get(VARIABLE, "")
        if not password:
            raise DataError(
                f"the study's secret seed is encrypted; expected {VARIABLE} in the environment, as at launch"
            )
        content = _decrypted(content, password)
    return Secret(content[:LENGTH], content[LENGTH:])


def lies_open(connection: Connection) -> bool:
    """Whether the seed is stored unencrypted: anyone with the database or a backup can then compute coins."""
    return connection.execute(select(tables.secret.c.encrypted)).scalar() is False


def from_disclosure(given: Mapping[str, Any]) -> Secret | None:
    """The secret seed that a `closed` event discloses; None if it discloses none."""
    disclosed = given.get("secret")
    if disclosed is None:
        return None
    try:
        return Secret(bytes.fromhex(disclosed["seed"]), bytes.fromhex(disclosed["salt"]))
    except (LookupError, TypeError, ValueError):
        raise DataError("the disclosed secret seed cannot be read") from None


def _keys(password: str, nonce: bytes) -> tuple[bytes, bytes]:
    """A pad for the content and a key for the tag; no nonce is used twice, so no pad is either."""
    made = hashlib.scrypt(password.encode(), salt=nonce, n=2**14, r=8, p=1, dklen=3 * LENGTH)
    return made[: 2 * LENGTH], made[2 * LENGTH :]


def _encrypted(content: bytes, password: str) -> bytes:
    nonce = random_bytes(_NONCE)
    pad, key = _keys(password, nonce)
    hidden = nonce + bytes(one ^ other for one, other in zip(content, pad, strict=True))
    return hidden + hmac.digest(key, hidden, "sha256")


def _decrypted(content: bytes, password: str) -> bytes:
    hidden, tag = content[:-_TAG], content[-_TAG:]
    pad, key = _keys(password, hidden[:_NONCE])
    if not hmac.compare_digest(hmac.digest(key, hidden, "sha256"), tag):
        raise DataError(
            f"the study's secret seed cannot be decrypted; expected the {VARIABLE} that it was launched with"
        )
    return bytes(one ^ other for one, other in zip(hidden[_NONCE:], pad, strict=True))
