"""`opportune serve`: run a study live."""

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.shared import DONE, say
from opportune.cli.signing import may_be_first
from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.service.record.database import Database

HELP = """Run a study live: apps ask for decisions over HTTP, and everything is recorded.

The first start launches the study: its file is frozen from then on (see opportune amend). The database is a
SQLite file beside the study file, unless --db names another.

\b
Examples:
  opportune serve my.toml
  opportune serve my.toml --db postgresql://me@localhost/study --workers 4
"""
NEEDED = "the service is not installed; expected pip install 'opportune[serve]'"

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", show_default=False, envvar="OPPORTUNE_DB",
        help="sqlite:///FILE or postgresql://...; by default the only .db file in this folder.",
    ),
]  # fmt: skip


def require_extra() -> None:
    """Refuse with a hint on what to install, if the extra is missing."""
    try:
        import litestar  # noqa: F401, PLC0415
        import sqlalchemy  # noqa: F401, PLC0415
    except ImportError as error:
        raise InputError(f"{NEEDED} ({error.name} is missing)") from None


def warn_of_password(db: str | None) -> None:
    """Warn of a password in the command itself, which everyone on this machine can read."""
    from sqlalchemy.engine import make_url  # noqa: PLC0415
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        password = None if db is None else make_url(db).password
    except (ArgumentError, ValueError):  # reported elsewhere
        return
    if password and any(str(password) in word for word in sys.argv):
        say(
            "opportune: warning: --db contains a password, which ps shows to everyone on this machine; set "
            "OPPORTUNE_DB instead", DONE,
        )  # fmt: skip


def warn_of_open_secret(database: "Database") -> None:
    """Warn if anyone with the database or a backup can read the seed of the coins."""
    from opportune.service.record.secret import OPEN, lies_open  # noqa: PLC0415

    with database.reading.connect() as connection:
        if lies_open(connection):
            say(f"opportune: warning: {OPEN}", DONE)


def free_port(host: str, port: int) -> int:
    """Check that a port is free; 0 picks any free port."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host is {host!r}; expected an address of this machine, such as 127.0.0.1") from None
    with socket.socket(family) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(address)
        except OSError as error:
            text = f"--port is {port}, which cannot be used at {host} ({os.strerror(error.errno or 0)})"
            raise InputError(f"{text}; expected a free port, or 0 for any") from None
        return int(found.getsockname()[1])


@contextmanager
def readable(database: "Database") -> Iterator[None]:
    """Report in one line a database that cannot be reached, or a file that is not a database."""
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    try:
        yield
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())[:300]
        raise InputError(f"{database.name} cannot be used ({reason}); expected the database of a study") from None


def serve(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", show_default=False, envvar="OPPORTUNE_DB",
            help="sqlite:///FILE or postgresql://...; by default a SQLite file beside the study file.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; more than one needs PostgreSQL.", min=1, max=64)] = 1,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Rehearse: requests set the time. Never use it with patients.")
    ] = False,
) -> None:  # fmt: skip
    """Launch the study if it is new, and serve it until stopped."""
    require_extra()
    from opportune.service.monitoring.logs import log_as_json  # noqa: PLC0415
    from opportune.service.record.database import Database  # noqa: PLC0415
    from opportune.service.server import PROXIES, check_proxies, default_url, launch  # noqa: PLC0415
    from opportune.service.server import serve as answer  # noqa: PLC0415
    from opportune.service.state import clock  # noqa: PLC0415
    from opportune.service.state.study import StudyInForce  # noqa: PLC0415

    running = StudyInForce.from_file(study)
    check_proxies(os.environ.get(PROXIES, ""))
    free = free_port(host, port)
    warn_of_password(db)
    url = db or default_url(study)
    database = Database(url)
    if workers > 1 and database.sqlite:
        raise InputError(f"--workers is {workers}; expected 1 with SQLite: use PostgreSQL for several")
    log_as_json()
    with readable(database), database.beginning():
        launched = launch(database, running, rehearsal=rehearsal)
        alone, standby = may_be_first(database), database.standby()
    say(f"{running.study.name}: {'launched' if launched else 'resumed'}, in {database.name}", DONE)
    if launched and not rehearsal:
        say(f"it is {clock.iso(clock.now())[:19]} in UTC by this machine's clock, which sets the study's days", DONE)
    warn_of_open_secret(database)
    if standby is not None:
        say(f"opportune: warning: {standby}", DONE)
    if rehearsal:
        say("this is a rehearsal: requests set the time (header Rehearsal-Time); never use it with patients", DONE)
    if alone:
        shown = database.url if database.sqlite else database.name  # without the password
        say(f"nobody can sign in yet: opportune people add NAME --role admin --db {shlex.quote(shown)}", DONE)
    database.close()
    name = f"[{host}]" if ":" in host else host
    say(f"http://{name}:{free} (Ctrl-C stops it; no answered request is lost)", DONE)
    answer(url, host=host, port=free, workers=workers)
