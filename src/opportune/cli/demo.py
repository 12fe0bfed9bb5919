"""`opportune demo`: a study in mid-course, to look at."""

import logging
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.rehearse import Bar
from opportune.cli.serve import free_port, require_extra
from opportune.cli.shared import DONE, say
from opportune.errors import InputError

if TYPE_CHECKING:
    from opportune.service.record.database import Database

HELP = """Show a study in mid-course: a nurse's page with calls to make, and a participant's phone beside it.

An example study is simulated up to now, in a folder that is removed afterwards, and both pages open in the browser.
Answer the participant's call, and see the advice change on the phone. Nothing in it is real. Ctrl-C ends it.

\b
Examples:
  opportune demo
  opportune demo --no-browser --port 8080 --language de
  opportune demo --keep demo
"""
HOST = "127.0.0.1"


def demo(
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535)] = 8000,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser, or only print its address.")
    ] = True,
    language: Annotated[
        str, typer.Option(help="The language of pages and texts: en, de or fr.", metavar="CODE")
    ] = "en",
    keep: Annotated[
        Path | None, typer.Option(help="A new folder for the study, to keep.", metavar="DIR", show_default=False)
    ] = None,
) -> None:
    """Simulate a study, serve it, and open its pages."""
    require_extra()
    from opportune import checks  # noqa: PLC0415  (NumPy is slow to import)
    from opportune.rehearsal.demo import STAFF, fill, local_timezone  # noqa: PLC0415
    from opportune.rehearsal.participant_app import PARTICIPANT_APP  # noqa: PLC0415
    from opportune.service.accounts.people import add_person  # noqa: PLC0415
    from opportune.service.accounts.sessions import make_link  # noqa: PLC0415
    from opportune.service.monitoring import forecast  # noqa: PLC0415
    from opportune.service.monitoring.logs import log_as_json  # noqa: PLC0415
    from opportune.service.pages.texts import languages  # noqa: PLC0415
    from opportune.service.record.queries import study_in_force  # noqa: PLC0415
    from opportune.service.server import serve  # noqa: PLC0415

    checks.choice("--language", language, list(languages()))
    free = free_port(HOST, port)
    log_as_json(least=logging.ERROR)  # no lines of JSON between the messages to people
    with _signals_as_interrupts(), _folder(keep) as folder:
        timezone = local_timezone()
        with Bar("forty participants, three weeks") as bar:
            database = fill(folder, timezone=timezone, language=language, progress=bar.show)
        running = study_in_force(database)
        planned = forecast.simulated(running)
        if planned is not None:
            forecast.keep(database, running, planned)
        address = f"http://{HOST}:{free}"
        for name, role in zip(STAFF, ("staff", "admin"), strict=True):
            password = secrets.token_urlsafe(12)
            add_person(database, name, role, password)
            say(f"sign in as {name} ({role}) with the password {password}", DONE)
        link = f"{address}/signin?link={make_link(database, STAFF[0], language=language, timezone=timezone)}"
        phone = _phone(database, address)
        url = database.url
        database.close()
        say(f"or sign in as {STAFF[0]} with this address, once, within ten minutes: {link}", DONE)
        if phone:
            say(f"the phone of {phone[0]}, who waits to be called: {phone[1]}", DONE)
        say(f"{address} (Ctrl-C ends it)", DONE)
        say(f"to analyse it, in another terminal: opportune analyse --db {url} --out demo-report", DONE)
        if browser and _has_display():
            links = [link, *(phone[1:] if phone else ())]
            threading.Thread(target=_open, args=(address, links), daemon=True).start()
        serve(url, PARTICIPANT_APP, host=HOST, port=free)
    further = f"; continue with opportune serve {keep / 'study.toml'} --rehearsal" if keep else ""
    say(f"the demonstration is over{further}", DONE)
    if keep:
        say(f"to analyse it: opportune analyse --db {url} --out {keep / 'report'}", DONE)
    else:
        say("to analyse one: opportune demo --keep demo, and then opportune analyse --db sqlite:///demo/study.db", DONE)


def _phone(database: "Database", address: str) -> tuple[str, str] | None:
    """The participant whose phone is shown beside the nurse's page, and the phone's address with a new token."""
    from opportune.rehearsal.demo import STAFF, participant_to_watch  # noqa: PLC0415
    from opportune.rehearsal.participant_app import APP  # noqa: PLC0415
    from opportune.service.accounts import tokens  # noqa: PLC0415
    from opportune.service.accounts.changes import Actor  # noqa: PLC0415

    name = participant_to_watch(database)
    if name is None:
        return None
    refresh = tokens.issue(database, name, Actor(STAFF[1], {"from": "opportune demo"})).refresh
    return name, f"{address}{APP}/index.html#{refresh}"


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Let the signals that end a process act like Ctrl-C, so that the folder is removed."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder of the study: a new one, or a temporary one that is removed at the end."""
    if keep is None:
        with kept("nothing was kept"), tempfile.TemporaryDirectory(prefix="opportune-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        used = any(keep.iterdir())
    except OSError as error:
        raise InputError(f"--keep is {keep}, which cannot be a folder ({error.strerror})") from None
    if used:
        raise InputError(f"--keep is {keep}, which contains files; expected a new or empty folder")
    with kept(f"{keep} contains what was made so far"):
        yield keep


def _has_display() -> bool:
    """Whether a browser would open in its own window; one in the terminal would be in the way."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(address: str, links: Sequence[str]) -> None:
    """Open the pages once the service is ready."""
    import httpx  # noqa: PLC0415

    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            if httpx.get(f"{address}/readyz").status_code == 200:
                for link in links:
                    webbrowser.open(link)
                return
        time.sleep(0.1)
