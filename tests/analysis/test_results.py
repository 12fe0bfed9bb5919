"""Result files: what `save` wrote comes back, and whatever happened to a file since is noticed."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from opportune.analysis.results import _LAST_LENGTH as LAST
from opportune.analysis.results import FORMAT, label_dataset, load, save
from opportune.errors import DataError

DAMAGED = "is damaged: its content does not match its checksum"
LOST = "does not end in a checksum: it was not written by `save`, or it was truncated or changed since"


def results(seed: int = 0) -> xr.Dataset:
    """A Dataset of the kinds of variables that results have; one is large enough to be packed."""
    rng = np.random.default_rng(seed)
    return label_dataset(
        {
            "regret": (("policy", "step"), rng.normal(size=(2, 8_000))),
            "spend": (("policy", "step"), rng.normal(size=(2, 8_000))),
            "nudged": (("policy",), np.array([True, False])),
        },
        {"policy": ["PD1", "PD2"]},
        {"seed": "1", "interrupted": 0, "config": '{"horizon": 8000}'},
        {"regret": "cumulative regret"},
    )


def flip(place: float) -> Callable[[Path], None]:
    """Change one bit, so far into the file (1 is its end)."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(int(place * len(content)), len(content) - 1)] ^= 4
        path.write_bytes(content)

    return damage


def flip_in(text: bytes) -> Callable[[Path], None]:
    """Change one bit of a text that stands in the file, such as an attribute."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        assert text in content
        path.write_bytes(content.replace(text, bytes([text[0] ^ 1]) + text[1:], 1))

    return damage


def cut(size: Callable[[int], int]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: size(len(content))])

    return damage


def edit(change: Callable[[h5py.File], None]) -> Callable[[Path], None]:
    """Change the file as a program that reads HDF5 would."""

    def damage(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return damage


def one_number(file: h5py.File) -> None:
    file["regret"][1, 5] += 1.0


def swap(file: h5py.File) -> None:
    file.move("regret", "other")
    file.move("spend", "regret")
    file.move("other", "spend")


def an_attribute(file: h5py.File) -> None:
    file.attrs["seed"] = "2"


def no_mark(file: h5py.File) -> None:
    file.attrs["interrupted"] = 7


def end_on(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def zeros(path: Path) -> None:
    """As some file systems leave a file after a power cut."""
    path.write_bytes(b"\0" * path.stat().st_size)


def another_digit(path: Path) -> None:
    """The checksum's last digit is another one."""
    content = bytearray(path.read_bytes())
    content[-2] = ord("1") if content[-2] == ord("0") else ord("0")
    path.write_bytes(content)


def mixed(path: Path) -> None:
    """The end of another file, checksum and all."""
    content = path.read_bytes()
    other = save(results(seed=1), path.with_name("other.nc")).read_bytes()
    path.write_bytes(content[: len(content) // 2] + other[len(content) // 2 :])


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit at the beginning": (flip(0.0), DAMAGED),
    "a bit in the data": (flip(0.5), DAMAGED),
    "a bit near the end": (flip(0.99), DAMAGED),
    "a bit of an attribute": (flip_in(b"horizon"), DAMAGED),
    "a bit of a label": (flip_in(b"PD1"), DAMAGED),
    "a bit of a variable's name": (flip_in(b"spend"), DAMAGED),
    "a digit of the checksum": (another_digit, DAMAGED),
    "cut by a byte": (cut(lambda size: size - 1), LOST),
    "cut before the checksum": (cut(lambda size: size - LAST), LOST),
    "cut in the middle": (cut(lambda size: size // 2), LOST),
    "nothing left": (cut(lambda _: 0), LOST),
    "nothing but zeros": (zeros, LOST),
    "something at the end": (end_on, LOST),
    "half of another file": (mixed, DAMAGED),
    "a number changed": (edit(one_number), LOST),
    "variables swapped": (edit(swap), LOST),
    "an attribute changed": (edit(an_attribute), LOST),
    "a mark changed": (edit(no_mark), LOST),
}


def test_an_intact_file_is_loaded(tmp_path: Path) -> None:
    """The control: the same file, undamaged, copied and renamed, comes back as it was; other programs read it, too."""
    path = save(results(), tmp_path / "results.nc")
    copy = Path(shutil.copy(path, tmp_path / "copy.nc"))
    for file in (path, copy):
        xr.testing.assert_identical(load(file), results())
    with xr.open_dataset(path, engine="h5netcdf") as other:
        np.testing.assert_array_equal(other["regret"], results()["regret"])


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """Whatever happened to a file since it was written, it is named and nothing of it is taken for a result."""
    damage, message = DAMAGES[name]
    path = save(results(), tmp_path / "results.nc")
    before = path.read_bytes()
    damage(path)
    assert path.read_bytes() != before
    with pytest.raises(DataError, match=f"^{path} {message}"):
        load(path)


def test_every_byte_counts(tmp_path: Path) -> None:
    """A bit changed anywhere is noticed: in data, names, checksum or what HDF5 itself needs."""
    path = save(results().isel(step=slice(3)), tmp_path / "results.nc")
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        broken = bytearray(content)
        broken[place] ^= 1
        path.write_bytes(broken)
        with pytest.raises(DataError):
            load(path)
    path.write_bytes(content)
    assert load(path).sizes["step"] == 3


def test_files_of_earlier_versions_are_told_apart_from_damaged_ones(tmp_path: Path) -> None:
    """A file of another format is refused as such, with what to do."""
    path = save(results(), tmp_path / "old.nc")
    path.write_bytes(path.read_bytes().replace(f"results {FORMAT} sha256".encode(), b"results 2 sha256"))
    expected = f"^{path} has results format 2; this version reads format {FORMAT}: load it with the version that wrote"
    with pytest.raises(DataError, match=expected):
        load(path)


def test_booleans_are_read_by_other_programs(tmp_path: Path) -> None:
    """NetCDF has no booleans: xarray stores them in a way of its own, and gives them back."""
    with xr.open_dataset(save(results(), tmp_path / "results.nc"), engine="h5netcdf") as other:
        assert other["nudged"].dtype == bool


def test_the_home_folder_has_its_usual_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that begins with ~ lies in the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert save(results(), "~/results.nc") == tmp_path / "results.nc"
    xr.testing.assert_identical(load("~/results.nc"), results())


def test_files_with_a_checksum_of_their_own_are_read_or_refused(tmp_path: Path) -> None:
    """Whatever bytes somebody has sealed anew: HDF5's complaints of any kind are a DataError in one line."""
    content = save(results(), tmp_path / "good.nc").read_bytes()
    body, last = content[:-LAST], content[-LAST:]
    at = body.index(b"DIMENSION_LIST")
    refused = []
    for place in (*range(at - 8, at + 40), *range(len(body) - 40, len(body), 8), len(body) // 2):
        changed = bytearray(body)
        changed[place] ^= 0xFF
        seal = last.replace(hashlib.sha256(body).hexdigest().encode(), hashlib.sha256(changed).hexdigest().encode())
        path = tmp_path / "changed.nc"
        path.write_bytes(bytes(changed) + seal)
        try:
            load(path)
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(text.startswith(f"{path} cannot be read as NetCDF: ") and text.isprintable() for text in refused)
