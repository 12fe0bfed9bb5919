"""Many at once: a shared budget is never overspent, however many write, in however many processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
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
from opportune.service.state import clock
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
    launch(writer, TEXT, rehearsal=False)
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
    assert "nobody can sign in yet" in (tmp_path / "log").read_text()


CAP, WEEK_CAP = 20, 1
CAPPED = f"""
[staff]
timezone = "Europe/Berlin"
per_day = {CAP}

[arms]
calls = {{ share = 1 }}
control = {{ share = 1, policy = "never" }}
block = 4
strata = ["site"]
"""


def capped_study() -> str:
    """A study that nudges whenever it can, with a cap by day and by person, and arms in blocks by site."""
    text = study_text(hard=True, budget=EACH, planned=WRITERS, policy="always", extra=CAPPED)
    text = text.replace("[nudge]\n", f"[nudge]\nper_week = {WEEK_CAP}\n")
    return text.replace("[participants]\n", '[participants]\nbaseline = { site = ["A", "B"] }\n')


async def enrol_and_ask(addresses: list[str], app: str, staff: str) -> list[dict[str, object]]:
    """Sixty-four people are enrolled at once, then all ask at once, now one server, now the other."""
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=WRITERS), timeout=60.0) as http:

        async def post(key: str, number: int, turn: int, path: str, body: dict[str, object]) -> dict[str, object]:
            address = addresses[(number + turn) % len(addresses)]
            headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"{path}.{turn}"}
            response = await http.post(f"{address}/api/v1/{path}", json=body, headers=headers)
            assert response.status_code == 201, response.text
            found: dict[str, object] = response.json()
            return {**found, "of": number}

        async def enrol(number: int) -> dict[str, object]:
            body: dict[str, object] = {"participant": f"P{number}", "baseline": {"site": "AB"[number % 2]}}
            return await post(staff, number, number, "participants", body)

        async def ask(number: int) -> list[dict[str, object]]:
            path = f"participants/P{number}/decisions"
            return [await post(app, number, turn, path, {"sensed": SENSED}) for turn in range(EACH)]

        await asyncio.gather(*map(enrol, range(WRITERS)))
        return [made for some in await asyncio.gather(*map(ask, range(WRITERS))) for made in some]


def test_caps_and_blocks_hold_for_two_servers(new_postgres: str, servers: Parent) -> None:
    """64 at once, on two servers: as many calls a day as staff can make, one for each person, arms in balance."""
    database = Database(new_postgres)
    database.migrate()
    launch(Writer(database), capped_study(), rehearsal=False)
    keys = [add_key(database, "phones", "app"), add_key(database, "desk", "staff")]
    database.close()
    ports = [free_port(), free_port()]
    pids = [servers.start(new_postgres, port) for port in ports]
    made = asyncio.run(enrol_and_ask([f"http://127.0.0.1:{port}" for port in ports], *keys))
    for pid in pids:
        servers.kill(pid, signal.SIGTERM)
    nudged = [decision for decision in made if decision["nudge"]]
    assert len(made) == WRITERS * EACH
    assert max(Counter(decision["of"] for decision in nudged).values()) == WEEK_CAP
    database = Database(new_postgres)
    with database.reading.connect() as connection:
        people = connection.execute(select(tables.participants).order_by(tables.participants.c.number)).all()
        rows = connection.execute(select(tables.decisions)).all()
    per_day = Counter(clock.local(row.happened, "Europe/Berlin").date() for row in rows if row.nudge)
    assert max(per_day.values()) == CAP, "32 people wanted a call"
    assert sum(per_day.values()) == len(nudged)
    arms = {person.name: person.arm for person in people}
    assert {arms[row.participant] for row in rows if row.nudge} == {"calls"}
    assert "cap" in {row.ineligible_reason for row in rows}
    assert sorted(person.number for person in people) == list(range(WRITERS))
    for stratum in (0, 1):
        here = [person.arm for person in people if person.stratum == stratum]
        assert len(here) == WRITERS // 2
        for i in range(0, len(here), 4):
            assert Counter(here[i : i + 4]) == {"calls": 2, "control": 2}
    assert verify(database).findings == []
    database.close()
