"""Many at once: a shared budget is never overspent, however many write, in however many processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from course import BEGIN, launch
from servers import Parent, free_port, parent
from site_over_http import SENSED
from sqlalchemy import func, select
from study_text import study_text

from opportune.service.accounts.keys import add_key
from opportune.service.commands.participants import Enrol
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.verify.check import verify

WRITERS, BUDGET, EACH = 64, 100, 4
TEXT = study_text(shared=True, hard=True, budget=BUDGET / WRITERS, planned=WRITERS, policy="always")


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Where servers come from."""
    with parent() as found:
        yield found


def prepare(url: str) -> str:
    """A study that nudges whenever it can, with 64 participants and a budget of 100 for all; hands back a key."""
    database = Database(url)
    database.migrate()
    writer = Writer(database)
    launch(writer, TEXT)
    writer.write([Enrol(who="staff", received=BEGIN, participant=f"P{i}") for i in range(WRITERS)])
    key = add_key(database, "phones", "app")
    database.close()
    return key


async def ask_all(addresses: list[str], key: str) -> list[dict[str, object]]:
    """Sixty-four participants ask four times each, all at once; what they are answered."""
    limits = httpx.Limits(max_connections=WRITERS)
    async with httpx.AsyncClient(limits=limits, timeout=60.0) as http:

        async def one(number: int) -> list[dict[str, object]]:
            found = []
            for turn in range(EACH):
                address = addresses[(number + turn) % len(addresses)]
                headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"{number}.{turn}"}
                path = f"{address}/api/v1/participants/P{number}/decisions"
                response = await http.post(path, json={"sensed": SENSED}, headers=headers)
                assert response.status_code == 201, response.text
                found.append(response.json())
            return found

        return [made for some in await asyncio.gather(*map(one, range(WRITERS))) for made in some]


def check(url: str, made: list[dict[str, object]]) -> None:
    """Exactly the budget was spent, and the record says so."""
    assert len(made) == WRITERS * EACH
    assert sum(bool(decision["nudge"]) for decision in made) == BUDGET
    database = Database(url)
    with database.reading.connect() as connection:
        nudges = connection.execute(
            select(func.count()).select_from(tables.decisions).where(tables.decisions.c.nudge.is_(True))
        ).scalar_one()
        assert nudges == BUDGET
        assert connection.execute(select(tables.study.c.nudges)).scalar_one() == BUDGET
    assert verify(database).findings == []
    database.close()


def test_one_server(url: str, servers: Parent) -> None:
    """Either database, one process."""
    key, port = prepare(url), free_port()
    pid = servers.start(url, port)
    made = asyncio.run(ask_all([f"http://127.0.0.1:{port}"], key))
    servers.kill(pid, signal.SIGTERM)
    check(url, made)


def test_two_servers_on_two_ports(new_postgres: str, servers: Parent) -> None:
    """How a study outgrows one machine; each participant asks now one, now the other."""
    key, ports = prepare(new_postgres), [free_port(), free_port()]
    pids = [servers.start(new_postgres, port) for port in ports]
    made = asyncio.run(ask_all([f"http://127.0.0.1:{port}" for port in ports], key))
    for pid in pids:
        servers.kill(pid, signal.SIGTERM)
    check(new_postgres, made)


def test_four_workers(new_postgres: str, tmp_path: Path) -> None:
    """`opportune serve --workers 4`, as people start it."""
    key, port = prepare(new_postgres), free_port()
    file = tmp_path / "study.toml"
    file.write_text(TEXT, encoding="utf-8")
    program = "from opportune.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", str(file), "--db", new_postgres, "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--workers", "4"], stderr=log, env={**os.environ, "NUMBA_NUM_THREADS": "2"}
        )
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address}/readyz").status_code == 200:
                    break
            time.sleep(0.2)
        made = asyncio.run(ask_all([address], key))
    finally:
        process.terminate()
        process.wait(timeout=60)
    check(new_postgres, made)
    assert "sign in as admin" in (tmp_path / "log").read_text()
