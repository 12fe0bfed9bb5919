"""An export as a download: a whole file, from one moment of the database."""

import tempfile
from collections.abc import Iterator
from typing import IO

from opportune.service.export.exports import export
from opportune.service.problems import Refused
from opportune.service.record.database import Database

IN_MEMORY = 2**23
"""The largest file, in bytes, that is kept in memory until it is sent; larger ones are kept on disk."""


def whole_file(database: Database, name: str) -> Iterator[bytes]:
    """An export from one moment of the database, completed before its first part is sent.

    So errors can still be reported, and a slow download does not hold a transaction open.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (`_read` closes it)
    try:
        with database.still() as frozen:
            for text in export(frozen, name):
                file.write(text.encode())
        file.seek(0)
    except OSError as error:
        file.close()
        raise Refused("unavailable", f"the export cannot be made at the moment ({error.strerror})") from error
    return _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(65_536):
            yield part
