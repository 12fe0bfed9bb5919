"""Full disks, and what the operating system sees."""

import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from course import BEGIN, launch
from servers import Parent, free_port, parent
from site_over_http import SENSED
from study_text import study_text

from opportune.service.accounts.keys import add_key
from opportune.service.commands.participants import Enrol
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.service import SWEEP_SECONDS
from opportune.service.verify.check import verify


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Where servers come from."""
    with parent() as found:
        yield found


@pytest.fixture
def key(sqlite: Database) -> str:
    """The key of an app, in a study with one participant."""
    writer = Writer(sqlite)
    launch(writer, study_text(horizon=5000))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    return add_key(sqlite, "phones", "app")


def ask(address: str, key: str, number: int) -> httpx.Response:
    """Ask for a decision."""
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"ask-{number}"}
    return httpx.post(f"{address}/api/v1/participants/P1/decisions", json={"sensed": SENSED}, headers=headers)


def wait_until_ready(address: str) -> None:
    """Nobody asks meanwhile: who is in front of it sends nothing to a service that is not ready."""
    end = time.monotonic() + 4 * SWEEP_SECONDS
    while httpx.get(f"{address}/readyz").status_code != 200:
        assert time.monotonic() < end, "it stays as it was"
        time.sleep(0.2)


def test_a_full_disk_is_survived(sqlite: Database, key: str, servers: Parent) -> None:
    """While nothing can be stored nothing is decided, and the service says so; with room again it goes on by itself."""
    port = free_port()
    pid = servers.start(sqlite.url, port)
    address = f"http://127.0.0.1:{port}"
    answers = [ask(address, key, number) for number in range(5)]
    assert {answer.status_code for answer in answers} == {201}
    # A page: no transaction fits, also once SQLite begins its log anew.
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    number = 5
    while (answer := ask(address, key, number)).status_code == 201:
        answers.append(answer)
        number += 1
        assert number < 3000, "the control: the disk is full at last"
    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"
    assert answer.headers["retry-after"] == "1"
    assert httpx.get(f"{address}/readyz").status_code == 503
    assert httpx.get(f"{address}/healthz").status_code == 200
    assert ask(address, key, number).status_code == 503
    assert ask(address, key, 0).content == answers[0].content, "what is stored can still be told"
    assert httpx.get(f"{address}/readyz").status_code == 503, "that has stored nothing"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_until_ready(address)
    again = ask(address, key, number)
    assert again.status_code == 201
    assert again.json()["step"] == number + 1, "what failed has left nothing behind"
    assert httpx.get(f"{address}/readyz").status_code == 200
    assert [ask(address, key, n).content for n in (1, number - 1)] == [answers[1].content, answers[number - 1].content]
    servers.kill(pid, signal.SIGTERM)
    assert verify(sqlite).findings == []


def test_the_disk_has_it_before_the_caller(sqlite: Database, key: str, servers: Parent, tmp_path: Path) -> None:
    """strace: fdatasync of the write-ahead log has returned before the answer is sent."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: the order of fdatasync and send cannot be seen")
    port = free_port()
    pid = servers.start(sqlite.url, port)
    address, log = f"http://127.0.0.1:{port}", tmp_path / "strace.log"
    ask(address, key, 0)
    calls = "trace=fdatasync,fsync,write,pwrite64,sendto,writev,sendmsg"
    watching = subprocess.Popen(
        [strace, "-f", "-y", "-tt", "-s", "64", "-e", calls, "-p", str(pid), "-o", str(log)], stderr=subprocess.PIPE
    )
    time.sleep(1.0)
    if watching.poll() is not None:
        assert watching.stderr is not None
        reason = watching.stderr.read().decode()
        pytest.skip(f"strace may not attach to a process here: {reason.strip()[-100:]}")
    assert ask(address, key, 1).status_code == 201
    watching.send_signal(signal.SIGINT)
    watching.wait(timeout=20)
    assert watching.stderr is not None
    watching.stderr.close()
    servers.kill(pid, signal.SIGTERM)
    lines = log.read_text().splitlines()
    synced = [i for i, line in enumerate(lines) if "fdatasync" in line and "-wal" in line]
    written = [i for i, line in enumerate(lines) if "pwrite64" in line and "-wal" in line]
    answered = [i for i, line in enumerate(lines) if "201 Created" in line]
    assert len(answered) == 1, lines
    assert written
    assert written[-1] < synced[-1] < answered[0], lines
