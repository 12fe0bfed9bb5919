"""Files that are complete or absent, and folders that only one run may write to at a time."""

import errno
import hashlib
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from opportune.errors import InputError, StateError, WriteError

LOCK = ".opportune.lock"
MOST_BYTES = 2**28
"""The largest data file that is accepted."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} if hasattr(errno, "EDQUOT") else {errno.ENOSPC, errno.EFBIG}
"""Error numbers of a full disk."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_LOCK_AT = 2**30  # the byte to lock on Windows, beyond the content that others read


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only once it is complete on disk; raises `WriteError` on failure."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {_reason(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def read_whole(path: Path, expected: str, *, most: int = MOST_BYTES) -> bytes:
    """A file's content; raises `InputError` if it cannot be read or is larger than `most` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}; expected {expected}") from None
    if len(content) > most:
        raise InputError(f"{path} has more than {most:,} bytes; expected {expected}")
    return content


def decoded(content: bytes, path: Path, expected: str) -> str:
    """Decode a UTF-8 file; raises an `InputError` that names the first invalid line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; expected {expected}") from None


def digest(content: bytes) -> str:
    """The checksum of bytes."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a results folder inside this context: create it if missing; fail if it is read-only or locked by another.

    The lock is the operating system's, on a file in the folder: it ends with the process that holds it, however that
    ends. If the file system has no locks, a warning says so.
    """
    path = folder / LOCK
    descriptor = _take(folder, path)
    try:
        yield
    finally:
        _release(descriptor, path)


def _release(descriptor: int, path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)


def _take(folder: Path, path: Path) -> int:
    """The lock file of a folder, open and locked."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _refusal(folder, error) from None
        try:
            _lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise StateError(
                f"{folder} is in use by {_holder(path)}; expected a folder that no other run writes to: "
                "wait until that one is finished, or use another folder"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise _refusal(folder, error) from None
            message = f"{folder} is on a file system without locks: no other run may write to it meanwhile"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        if not _still_there(descriptor, path):  # its last holder removed it in the meantime
            os.close(descriptor)
            continue
        since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()} since {since}".encode())
        except OSError as error:
            _release(descriptor, path)
            raise _refusal(folder, error) from None
        return descriptor


def _refusal(folder: Path, error: OSError) -> InputError | WriteError:
    if error.errno in FULL:
        return WriteError(f"{folder} cannot be written: {_reason(error)}")
    return InputError(f"{folder} cannot be written ({_reason(error)}); expected a folder for results")


def _reason(error: OSError) -> str:
    return "the disk is full" if error.errno in FULL else str(error.strerror or error)


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") or "another run"
    except OSError:
        return "another run"


def _still_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
