"""While the database cannot be reached everyone is told to try again, and the log stays readable."""

import contextlib
import io
import sys
from collections.abc import Iterator

import psycopg
import pytest
from site_over_http import SENSED, good, problem, site_on
from sqlalchemy.exc import OperationalError

from opportune.service.monitoring import logs
from opportune.service.monitoring.delivery import Delivery
from opportune.service.record.database import Database


@contextlib.contextmanager
def away(url: str) -> Iterator[None]:
    """Nobody can connect to a database, and whoever was connected is not."""
    name = url.partition("?")[0].rpartition("/")[2]
    admin = url.replace(f"/{name}", "/postgres")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")


def test_a_database_that_is_away_is_answered_with_503(new_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads, writes, pages and keys that are looked up: all are to be tried again, and few lines are logged."""
    written = io.StringIO()
    database = Database(new_postgres)
    database.migrate()
    logs.log_as_json()
    with site_on(database) as site:
        site.enrol()
        logs._logged.clear()
        with monkeypatch.context() as watched, away(new_postgres):
            watched.setattr(sys, "stderr", written)
            for number in range(40):
                for response in (
                    site.get("participants/P001"),
                    site.get("study", "analyst"),
                    site.post("participants/P001/decisions", {"sensed": SENSED}, key=f"ask-{number}"),
                    site.request("GET", "/metrics", "admin"),
                ):
                    problem(response, 503, "unavailable")
                    assert response.headers["retry-after"] == "1"
            page = site.client.get("/today", headers={"Accept": "text/html", "Cookie": "opportune_session=x"})
            assert page.status_code == 503
            assert site.client.get("/readyz").status_code == 503
        asked = site.post("participants/P001/decisions", {"sensed": SENSED}, key="ask-0")
        assert good(asked, 201)["step"] == 1, "it goes on by itself"
    lines = written.getvalue().splitlines()
    assert 0 < len(lines) < 30, lines
    database.close()


def test_delivery_logs_a_failure_once_a_minute(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks every second, and may have nothing to look into for hours."""
    written, looks = io.StringIO(), []
    delivery = Delivery(sqlite)

    def fails(_now: int) -> int:
        looks.append(1)
        raise OperationalError("select", {}, Exception("away"))

    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(delivery, "deliver", fails)
    monkeypatch.setattr(delivery._stop, "wait", lambda _seconds: len(looks) == 60)
    logs.log_as_json()
    logs._logged.clear()
    delivery._run()
    assert len(written.getvalue().splitlines()) == 1
