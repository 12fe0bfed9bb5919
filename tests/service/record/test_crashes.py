"""Nothing that was answered is lost, however the service ends."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from course import BEGIN, launch
from crashing import torture
from servers import Parent, parent
from study_text import study_text

from opportune.service.commands.participants import Enrol
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer

ROUNDS = int(os.environ.get("OPPORTUNE_TORTURE", "20"))


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Where servers come from."""
    with parent() as found:
        yield found


def prepare(url: str, **settings: Any) -> None:
    """A study with its participants."""
    database = Database(url)
    database.migrate()
    writer = Writer(database)
    launch(writer, study_text(horizon=5000, **settings))
    for number in range(6):
        writer.do(Enrol(who="staff", received=BEGIN, participant=f"P{number}"))
    database.close()


def test_nothing_is_lost_when_the_server_is_killed(url: str, servers: Parent) -> None:
    """Kill -9 at random moments: every answer is stored as it was given, retries get it, no gap, verify passes."""
    prepare(url, shared=True)
    assert torture(servers, url, rounds=ROUNDS) == []


def test_two_servers_over_one_database(new_postgres: str, servers: Parent) -> None:
    """Nothing is lost where two servers share a PostgreSQL database and either is killed at random moments."""
    prepare(new_postgres, shared=True, pooled=True)
    assert torture(servers, new_postgres, rounds=max(4, ROUNDS // 4), servers=2) == []


def test_a_server_that_answers_before_it_commits_is_caught(folder: os.PathLike[str]) -> None:
    """The control: the tests above would notice."""
    url = f"sqlite:///{folder}/study.db"
    prepare(url)
    with parent("early") as careless:
        assert torture(careless, url, rounds=6, ending=signal.SIGKILL) != []
