"""The server: launches or finds the study, and serves HTTP until it is stopped."""

import ipaddress
import os
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar, Router

from opportune.errors import InputError
from opportune.service.accounts.names import LAUNCHER
from opportune.service.api.app import create_app
from opportune.service.commands.administration import Launch
from opportune.service.monitoring.forecast import start_forecast
from opportune.service.monitoring.logs import log_as_json
from opportune.service.monitoring.redcap import require_token
from opportune.service.record import secret
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import study_in_force
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

URL = "OPPORTUNE_DB"
PROXIES = "FORWARDED_ALLOW_IPS"
"""The variable that names the proxies whose word is taken for a client's address; Uvicorn reads it."""
MOST_PROXIES = 2**16


def launch(database: Database, running: StudyInForce, *, who: str = LAUNCHER, rehearsal: bool = False) -> bool:
    """Make the tables and launch the study, unless it is launched already; returns whether it was launched now.

    A database with the tables of an earlier version is refused: `opportune upgrade` brings them up to date.
    """
    if database.is_empty():
        database.migrate()
    database.require_current()
    with database.reading.connect() as connection:
        secret.stored(connection)  # raises now if it cannot be read
    database.check_durable()
    command = Launch(who=who, received=clock.now(), file=running.text, source=running.study.source, rehearsal=rehearsal)
    return Writer(database).do(command).status == 201


def app_from_environment() -> Litestar:
    """The application, for a worker process."""
    log_as_json()
    return create_app(Service(Database(os.environ[URL])))


def serve(url: str, *others: Router, host: str, port: int, workers: int = 1) -> None:
    """Serve until stopped, with the logging that the caller has set up; other routers need a single worker."""
    database = Database(url)
    if workers > 1 and database.sqlite:
        raise InputError(f"--workers is {workers}; expected 1 with SQLite: use PostgreSQL for several")
    os.environ[URL] = url
    settings: dict[str, Any] = {
        "host": host, "port": port, "log_level": "warning", "access_log": False, "server_header": False,
        "timeout_graceful_shutdown": 10,
    }  # fmt: skip
    with database.held():
        running = study_in_force(database)
        require_token(database, running)
        database.close()
        start_forecast(url, running)
        if workers == 1:
            uvicorn.run(create_app(Service(Database(url)), *others), **settings)
        else:
            uvicorn.run("opportune.service.server:app_from_environment", factory=True, workers=workers, **settings)


def check_proxies(given: str) -> None:
    """Refuse to trust all of the internet as proxies: an attacker could claim a new address for each guess."""
    for part in given.split(",") if given else []:
        try:
            network = ipaddress.ip_network(part.strip())
        except ValueError:
            network = None
        if network is None or network.num_addresses > MOST_PROXIES:
            text = f"{PROXIES} is {given!r}"
            raise InputError(f"{text}; expected the addresses of the proxies, such as 127.0.0.1 or 172.30.99.0/24")


def default_url(study: Path) -> str:
    """The database of a study file: a SQLite file beside it."""
    return file_url(study.resolve().with_suffix(".db"))
