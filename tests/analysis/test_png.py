"""PNG files: the pixels come back as they were, and the file says how large they are."""

import io
import struct
import zlib

import matplotlib.image
import numpy as np
import pytest

from opportune.analysis.png import encode_png


def chunks(content: bytes) -> dict[bytes, bytes]:
    """The file's parts, each with its checksum checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    found, place = {}, 8
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        kind, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        assert struct.unpack(">I", content[place + 8 + length : place + 12 + length]) == (zlib.crc32(kind + body),)
        found[kind] = body
        place += 12 + length
    return found


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 33)])
def test_pixels_come_back(shape: tuple[int, int]) -> None:
    """Another library reads the same pixels, whether they lie together in memory or not."""
    pixels = np.random.default_rng(1).integers(0, 256, (*shape, 4), dtype=np.uint8)
    for rgb in (pixels[..., :3], np.ascontiguousarray(pixels[..., :3])):
        read = matplotlib.image.imread(io.BytesIO(encode_png(rgb, dpi=150)))
        np.testing.assert_array_equal(np.round(255 * read).astype(np.uint8), rgb)


def test_the_file_tells_its_size() -> None:
    """150 dots per inch are 5,906 per metre."""
    parts = chunks(encode_png(np.zeros((2, 5, 3), dtype=np.uint8), dpi=150))
    assert struct.unpack(">II", parts[b"IHDR"][:8]) == (5, 2)
    assert struct.unpack(">IIB", parts[b"pHYs"]) == (5906, 5906, 1)
    assert list(parts) == [b"IHDR", b"pHYs", b"IDAT", b"IEND"]
