"""Clients that write down every answer while servers are killed, and what must hold afterwards."""

import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from servers import Parent, free_port
from site_over_http import SENSED
from sqlalchemy import select

from opportune.service.accounts.keys import add_key
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.verify.check import verify


@dataclass
class Sent:
    """A request, and the answer's bytes once there is one."""

    path: str
    body: Any
    key: str
    status: int = 0
    answer: bytes = b""


@dataclass
class Caller:
    """A client for one participant: asks, answers, rewards; sends again what got no answer."""

    name: str
    address: str
    key: str
    seed: int
    journal: list[Sent] = field(default_factory=list)
    pending: Sent | None = None
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rnd = random.Random(self.seed)
        self.follow: list[tuple[str, Any]] = []

    def run(self, stop: threading.Event) -> None:
        """Go on until stopped."""
        with httpx.Client(base_url=self.address, timeout=5.0) as http:
            while not stop.is_set():
                if self.pending is None and self.journal and self.rnd.random() < 0.1:
                    self.check_again(http, self.rnd.choice(self.journal))
                    continue
                if self.pending is None:
                    self.pending = self.next()
                if not self.send(http, self.pending):
                    time.sleep(0.01)
                    continue
                self.journal.append(self.pending)
                self.pending = None

    def next(self) -> Sent:
        """The next request: what follows from the last decision, or another decision."""
        number = len(self.journal)
        if self.follow:
            path, body = self.follow.pop(0)
        else:
            sensed = {**SENSED, "stress": self.rnd.randrange(4)}
            body = {"sensed": sensed, "opened": self.rnd.random() < 0.1}
            path = f"participants/{self.name}/decisions"
        return Sent(path, body, f"{self.name}-{number}")

    def send(self, http: httpx.Client, sent: Sent) -> bool:
        """Send; whether an answer came."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": sent.key}
        try:
            response = http.post(f"/api/v1/{sent.path}", json=sent.body, headers=headers)
        except httpx.TransportError:
            return False
        if response.status_code == 503:
            return False
        sent.status, sent.answer = response.status_code, response.content
        if response.status_code >= 400:
            self.wrong.append(f"{sent.path}: {response.text}")
        elif sent.path.endswith("/decisions"):
            made = response.json()
            if made["status"] == "nudge":
                self.follow.append((f"decisions/{made['decision']}/answer", {"answered": self.rnd.random() < 0.5}))
            self.follow.append((f"decisions/{made['decision']}/reward", {"reward": self.rnd.gauss(0, 1)}))
        return True

    def check_again(self, http: httpx.Client, sent: Sent) -> None:
        """A retry of what was answered before must give the same bytes."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": sent.key}
        try:
            response = http.post(f"/api/v1/{sent.path}", json=sent.body, headers=headers)
        except httpx.TransportError:
            return
        if response.status_code != 503 and (response.status_code, response.content) != (sent.status, sent.answer):
            self.wrong.append(f"{sent.path} was answered {sent.answer!r} and then {response.content!r}")


def torture(
    parent: Parent,
    url: str,
    *,
    rounds: int,
    callers: int = 6,
    seed: int = 1,
    longest: float = 0.25,
    servers: int = 1,
    ending: int = signal.SIGTERM,
) -> list[str]:
    """Kill servers at random moments while clients go on; everything that was wrong."""
    database = Database(url)
    key = add_key(database, "phones", "app")
    ports = [free_port() for _ in range(servers)]
    people = [Caller(f"P{i}", f"http://127.0.0.1:{ports[i % servers]}", key, seed * 1000 + i) for i in range(callers)]
    rnd, stop = random.Random(seed), threading.Event()
    threads = [threading.Thread(target=person.run, args=(stop,)) for person in people]
    pids = [parent.start(url, port) for port in ports]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        time.sleep(rnd.uniform(0.02, longest))
        victim = rnd.randrange(servers)
        parent.kill(pids[victim])
        pids[victim] = parent.start(url, ports[victim])
    time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    for pid in pids:
        parent.kill(pid, ending)
    return [*(text for person in people for text in person.wrong), *found_wrong(database, people)]


def found_wrong(database: Database, people: list[Caller]) -> list[str]:
    """What the database lacks of what was answered, and what does not verify."""
    wrong = []
    with database.reading.connect() as connection:
        stored = {
            (row.caller, row.key): (row.status, row.answer) for row in connection.execute(select(tables.requests))
        }
        steps = [
            tuple(row) for row in connection.execute(select(tables.decisions.c.participant, tables.decisions.c.step))
        ]
    answered = 0
    for person in people:
        for sent in person.journal:
            answered += 1
            if stored.get(("phones", sent.key)) != (sent.status, sent.answer):
                wrong.append(f"{sent.path} was answered, and is not stored so")
        made = sorted(step for name, step in steps if name == person.name)
        asked = sum(sent.path.endswith("/decisions") for sent in person.journal)
        if made != list(range(1, len(made) + 1)) or not asked <= len(made) <= asked + 1:
            wrong.append(f"{person.name} has steps {made}, and was answered {asked} times")
    if answered < 20:
        wrong.append(f"only {answered} requests were answered, which proves nothing")
    wrong += verify(database).findings
    database.close()
    return wrong
