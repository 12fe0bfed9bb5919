"""The server: launches or finds the study, and answers on an address until it is stopped."""

import os
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar

from opportune.errors import InputError
from opportune.service.accounts.pseudonyms import LAUNCHER
from opportune.service.api.app import create_app
from opportune.service.commands.administration import Launch
from opportune.service.export.exports import study_in_force
from opportune.service.monitoring.forecast import start_forecast
from opportune.service.monitoring.logs import log_as_json
from opportune.service.record.database import Database, file_url
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

URL, REHEARSAL = "OPPORTUNE_DB", "OPPORTUNE_REHEARSAL"


def launch(database: Database, running: StudyInForce, *, who: str = LAUNCHER) -> bool:
    """Bring the tables up to date and launch the study, unless it is launched; whether it was launched now."""
    database.migrate()
    database.check_durable()
    command = Launch(who=who, received=clock.now(), file=running.text, source=running.study.source)
    return Writer(database).do(command).status == 201


def app_from_environment() -> Litestar:
    """The application, for a worker process."""
    log_as_json()
    return create_app(Service(Database(os.environ[URL]), rehearsal=bool(os.environ.get(REHEARSAL))))


def serve(url: str, *, host: str, port: int, workers: int = 1, rehearsal: bool = False) -> None:
    """Answer until stopped."""
    database = Database(url)
    if workers > 1 and database.sqlite:
        raise InputError(f"--workers is {workers}; expected 1 with SQLite: use PostgreSQL for several")
    os.environ[URL] = url
    os.environ[REHEARSAL] = "1" if rehearsal else ""
    settings: dict[str, Any] = {
        "host": host, "port": port, "log_level": "warning", "access_log": False, "server_header": False,
        "timeout_graceful_shutdown": 10,
    }  # fmt: skip
    with database.held():
        running = study_in_force(database)
        database.close()
        start_forecast(url, running)
        if workers == 1:
            uvicorn.run(app_from_environment(), **settings)
        else:
            uvicorn.run("opportune.service.server:app_from_environment", factory=True, workers=workers, **settings)


def default_url(study: Path) -> str:
    """The database of a study file: a SQLite file beside it."""
    return file_url(study.resolve().with_suffix(".db"))
