"""Files that are whole or not there, and folders that one run holds: also on a full disk, or one that is read-only."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opportune.analysis.results import load
from opportune.errors import InputError, StateError, WriteError
from opportune.files import LOCK, digest, digest_of, held, write_whole
from processes import COMMAND, STUDY, Started, needs_linux


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory at a folder, or a reason to skip."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False,
                      capture_output=True).returncode:  # fmt: skip
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    with mounted(tmp_path / "disk", "size=2m") as folder:
        yield folder


def fill(disk: Path, leave: int) -> None:
    """Leave so many bytes of a disk."""
    room = os.statvfs(disk)
    (disk / "filler").write_bytes(b"x" * (room.f_bavail * room.f_frsize - leave))


def ended(command: Started) -> tuple[int, list[str]]:
    """A command's exit code, and what it said went wrong."""
    code = command.ended(120)
    return code, [line for line in command.said() if line.startswith(("opportune:", "Traceback"))]


# Whole or not there


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """What is written is there, under its name alone, in folders made if need be."""
    path = tmp_path / "deep" / "file"
    for content in (b"first", b"the second"):
        write_whole(path, content)
        assert path.read_bytes() == content
        assert digest_of(path) == digest(content)
        assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_file_of_before(small_disk: Path) -> None:
    """The error names the file and says that the disk is full; what stood there still does, and no part is left."""
    path = small_disk / "file"
    write_whole(path, b"before")
    with pytest.raises(WriteError, match=f"^{path} cannot be written: the disk is full$"):
        write_whole(path, b"x" * 3_000_000)
    assert path.read_bytes() == b"before"
    assert list(small_disk.iterdir()) == [path]


@needs_linux
def test_a_study_on_a_full_disk_ends_with_one_line(small_disk: Path, tmp_path: Path) -> None:
    """Code 1, which file, that the disk is full, what is kept; with room enough, the control, there is no such line."""
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")

    def simulated(room: int) -> tuple[int, list[str]]:
        for path in small_disk.iterdir():
            path.unlink()
        fill(small_disk, room)
        with Started(COMMAND, "simulate", "tiny.toml", "--out", str(small_disk), cwd=tmp_path) as command:
            return ended(command)

    data = small_disk / "tiny.nc"
    assert simulated(1_500_000) == (0, [])
    size = data.stat().st_size
    code, (line,) = simulated(16_384)
    assert code == 1
    assert line == f"opportune: error: {data} cannot be written: the disk is full; no data were written"
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    code, (line,) = simulated(size + 24_576)
    assert code == 1
    figure = rf"{small_disk}/tiny-\w+\.(png|svg) cannot be written: the disk is full"
    missing = "table, figures or report may be missing"
    assert re.match(f"opportune: error: {figure}; the data are complete in {data}; {missing}$", line), line
    assert load(data).sizes["replicate"] == 40


@needs_linux
def test_a_reproduction_on_a_full_disk_ends_with_one_line(small_disk: Path, tmp_path: Path) -> None:
    """Code 1 and one line; nothing counts as finished that is not there."""
    fill(small_disk, 65_536)
    with Started(COMMAND, "reproduce", "opens", "table", "--quick", "--out", str(small_disk), cwd=tmp_path) as command:
        code, said = ended(command)
    assert code == 1
    (line,) = said
    expected = rf"opportune: error: {small_disk}/\S+ cannot be written: the disk is full; finished parts are kept in "
    assert re.match(expected + f"{small_disk}; the same command resumes there$", line), line
    assert not list(small_disk.glob("*.json"))


# Folders


def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    """The second is told who holds it and since when; afterwards it is free, and nothing of the lock is left."""
    folder = tmp_path / "out"
    since = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    for _ in range(2):
        with held(folder):
            expected = f"^{folder} is in use by process {os.getpid()} on .* since {since}; expected a folder that no"
            with pytest.raises(StateError, match=expected), held(folder):
                pass
            assert (folder / LOCK).exists()
        assert list(folder.iterdir()) == []


def test_another_process_is_named_and_its_lock_ends_with_it(tmp_path: Path) -> None:
    """While it lives it holds the folder; killed, it does not, though its file is still there."""
    script = (
        "import sys, time; from pathlib import Path; from opportune.files import held\n"
        "with held(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StateError, match=f"is in use by process {other.pid} on "), held(tmp_path):
            pass
        other.kill()
        other.wait()
    assert (tmp_path / LOCK).exists()
    with held(tmp_path):
        pass


@pytest.mark.parametrize(
    ("command", "arguments"), [("simulate", ["tiny.toml"]), ("reproduce", ["opens", "table", "--quick"])]
)
def test_a_read_only_folder_is_refused_before_the_work(command: str, arguments: list[str], tmp_path: Path) -> None:
    """Code 2 and one line, before anything is run."""
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")
    with mounted(tmp_path / "disk", "size=2m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with Started(COMMAND, command, *arguments, "--out", str(disk / "out"), cwd=tmp_path) as process:
            assert process.ended(60) == 2
            (line,) = process.said()
    expected = f"{disk}/out cannot be written (Read-only file system); expected a folder for results"
    assert line == f"opportune: error: {expected}"


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    """A file where the folder should be is named."""
    path = tmp_path / "out"
    path.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"out cannot be written \(File exists\); expected a folder"), held(path):
        pass


@needs_linux
@pytest.mark.parametrize("arguments", [["simulate", "tiny.toml"], ["reproduce", "table", "--quick"]])
def test_commands_hold_their_folder(arguments: list[str], tmp_path: Path) -> None:
    """While another holds the folder, a command ends with code 1 and says who; nothing of the holder's is touched."""
    (tmp_path / "tiny.toml").write_text(STUDY, encoding="utf-8")
    with (
        held(tmp_path / "out"),
        Started(COMMAND, *arguments, cwd=tmp_path) as process,
    ):
        assert process.ended(60) == 1
        (line,) = process.said()
        assert line.startswith(f"opportune: error: out is in use by process {os.getpid()} on ")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]
