"""The global heaps of an HDF5 file, where it keeps texts and references: whether they can be walked through.

HDF5 goes through a heap from object to object by their sizes, and never comes to its end where a size is 0 or so large
that it wraps around. A file is looked at before HDF5 is, therefore.
"""

import mmap
import re
import struct
from pathlib import Path

_HEAP = re.compile(rb"GCOL\x01...(?P<size>.{8})", re.DOTALL)  # its signature, version and size in bytes
_BEGIN = 16
_OBJECT = struct.Struct("<HHIQ")  # number, references, nothing, size


def endless_heap(path: Path) -> int | None:
    """Where a heap begins that cannot be walked through; None if there is none."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for heap in _HEAP.finditer(content):
            end = heap.start() + int.from_bytes(heap["size"], "little")
            if end <= len(content) and not _ends(content, heap.start() + _BEGIN, end):  # else HDF5 does not begin
                return heap.start()
    return None


def _ends(content: mmap.mmap, place: int, end: int) -> bool:
    """Whether the objects from a place on fill a heap up to its end."""
    while end - place >= _OBJECT.size:
        number, _references, _nothing, size = _OBJECT.unpack_from(content, place)
        length = _OBJECT.size + (size + 7) // 8 * 8 if number else size  # number 0 is what is free, with its head
        if not _OBJECT.size <= length <= end - place:
            return False
        place += length
    return True
