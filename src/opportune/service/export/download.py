"""An export as a file that is sent: whole, as of one moment."""

import tempfile
from collections.abc import Iterator
from typing import IO

from opportune.service.export.exports import export
from opportune.service.problems import Refused
from opportune.service.record.database import Database

IN_MEMORY = 2**23
"""Bytes of a file that is made to be sent; a larger one lies on disk meanwhile."""


def whole_file(database: Database, name: str) -> Iterator[bytes]:
    """An export as of one moment, made before the first of it is handed out.

    What goes wrong is known by then, and who reads slowly does not keep the database as it was.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (who reads it closes it)
    try:
        with database.still() as as_of_now:
            for text in export(as_of_now, name):
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
