"""The REDCap project in [redcap] of the study file: enrolments are read from it, and outcomes are written to it.

Outcomes go through the outbox. A message names a participant or a decision; the values are read from the tables when
the message is sent, so that REDCap gets the latest ones. Arms, probabilities and coins are never sent, because staff
read REDCap.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import msgspec
import structlog
from sqlalchemy import select

from opportune.errors import DataError, InputError, OpportuneError
from opportune.service.accounts.names import REDCAP
from opportune.service.api.models import Name
from opportune.service.commands.participants import Enrol
from opportune.service.export.exports import columns_of
from opportune.service.export.redcap import REPEATED, fields_of, value_of
from opportune.service.monitoring.alerts import YELLOW, Alerts
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.problems import Refused
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.queries import study_in_force
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.study.people import RedcapTable, is_range

TOKEN = "OPPORTUNE_REDCAP_TOKEN"
EVERY_SECONDS = 300.0
"""The time between two requests for records to enrol."""
TIMEOUT_SECONDS = 30.0
MOST_NAMED = 5
"""The most records that an alert names."""
OUTCOMES = {
    "participants": (
        "number", "timezone", "status", "reason", "enrolled_utc", "steps", "nudges", "last_decision_utc",
    ),
    "decisions": (
        "decision", "step", "day", "time_utc", "time_local", "timezone", "available", "unavailable_reason", "nudge",
        "status", "opened", "answered", "outcome_corrected", "answered_late_utc", "action", "offline", "reward",
        "reward_status", "reward_received_utc", "reward_first", "reward_changes",
    ),
}  # fmt: skip
"""The columns of the exports that are written to REDCap: none that would unblind a reader."""
log = structlog.get_logger()


def settings_of(running: StudyInForce) -> RedcapTable | None:
    """The table [redcap] of the study file; None without one."""
    return running.study.settings.redcap


def require_token(database: Database, running: StudyInForce) -> None:
    """Refuse to serve a study with people and [redcap] if the API token is missing."""
    study = queries.study_row(database)
    rehearsed = study is not None and study["rehearsal"]
    if settings_of(running) is not None and not rehearsed and not os.environ.get(TOKEN):
        raise InputError(f"{TOKEN} is not set; expected the API token of the project that [redcap] names")


def ask(redcap: RedcapTable, **content: str) -> Any:
    """Send a request to REDCap's API; returns the decoded answer. Errors do not repeat what was sent."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InputError(f"{TOKEN} is not set; expected the API token of the project")
    form = {"token": token, "format": "json", "type": "flat", "returnFormat": "json", **content}
    found = httpx.post(redcap.url, data=form, timeout=TIMEOUT_SECONDS)
    found.raise_for_status()
    try:
        return msgspec.json.decode(found.content)
    except msgspec.DecodeError:
        raise DataError("REDCap did not answer with JSON; expected the address of its API") from None


def push(database: Database, running: StudyInForce, messages: Sequence[dict[str, Any]]) -> None:
    """Write the current values of the participants and decisions that messages name; raises if REDCap rejects them."""
    redcap = settings_of(running)
    if redcap is None:
        raise InputError("the study file has no [redcap] any more")
    named = dict.fromkeys((message["participant"], message["decision"]) for message in messages)
    before = [_seq(database, *names) for names in named]
    rows = [row for names in named for row in _row(database, running, redcap, *names)]
    if not rows:
        return
    data = msgspec.json.encode(rows).decode()
    answer = ask(redcap, content="record", action="import", overwriteBehavior="overwrite", dateFormat="YMD", data=data)
    if not isinstance(answer, dict) or "count" not in answer:
        raise DataError("REDCap did not confirm the records")
    if [_seq(database, *names) for names in named] != before:  # another process may have written newer values
        raise DataError("the values changed while they were written; they will be written again")


def _seq(database: Database, participant: str, decision: str | None) -> int | None:
    """The last event about the participant or decision that a message names."""
    found = _found(database, participant, decision)
    return None if found is None else found["seq"]


def _found(database: Database, participant: str, decision: str | None) -> dict[str, Any] | None:
    if decision is None:
        return queries.participant_row(database, participant)
    return queries.decision_row(database, decision)


def _row(
    database: Database, running: StudyInForce, redcap: RedcapTable, participant: str, decision: str | None
) -> Iterator[dict[str, Any]]:
    """The current values of a participant or a decision, as a REDCap record."""
    form = "participants" if decision is None else "decisions"
    if form not in redcap.push:
        return
    row = _found(database, participant, decision)
    if row is None:
        return
    made: dict[str, Any] = {redcap.record: participant}
    if redcap.event is not None:
        made["redcap_event_name"] = redcap.event
    if decision is not None:
        made |= dict(zip(REPEATED, (form, row["step"]), strict=True))
    for name, column in fields_of(form, columns_of(form, running)):
        if column.name in OUTCOMES[form]:
            made[name] = str(value_of(column, column.value(row)))
    yield made


class Enrolments:
    """Reads the records to enrol from REDCap every few minutes, in a thread of its own.

    Args:
        database: the study's database.
        writer: carries out the enrolments.
        alerts: gets an alert about records that cannot be enrolled.
        may: returns whether the service may record something now.

    """

    def __init__(self, database: Database, writer: Writer, alerts: Alerts, may: Callable[[], bool]) -> None:
        self._database, self._writer, self._alerts, self._may = database, writer, alerts, may
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="redcap", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current request."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        asked = -EVERY_SECONDS
        while not self._stop.wait(1.0):
            try:
                if time.monotonic() - asked >= EVERY_SECONDS and self._may():
                    asked = time.monotonic()
                    self.look()
            except Exception as error:  # such as an unavailable database: the thread goes on
                log_sparingly("enrolments could not be read", **described(error))

    def look(self) -> int:
        """Enrol the records that are due; returns how many. Failures raise an alert once they persist."""
        try:
            redcap = settings_of(study_in_force(self._database))
            if redcap is None or redcap.enrol is None:
                return 0
            enrolled, refused = self._enrol(redcap)
        except (httpx.HTTPError, OpportuneError, OSError) as error:
            self._failed += 1
            log.warning("enrolments could not be read from REDCap", error=type(error).__name__)
            if self._failed >= 3:
                self._alerts.raise_alert(YELLOW, "redcap", None, f"REDCap cannot be read: {type(error).__name__}.")
            return 0
        self._failed = 0
        if refused:
            first = "; ".join(f"{name}: {why}" for name, why in list(refused.items())[:MOST_NAMED])
            text = f"{len(refused)} of REDCap's records could not be enrolled. {first}"
            self._alerts.raise_alert(YELLOW, "redcap", None, text)
        else:
            self._alerts.clear("redcap")
        return enrolled

    def _enrol(self, redcap: RedcapTable) -> tuple[int, dict[str, str]]:
        """The number of participants enrolled, and the reasons why others were not."""
        running, enrolled, refused = study_in_force(self._database), 0, dict[str, str]()
        known = self._known()
        for place, record in enumerate(wanted(redcap, running)):
            name = str(record.get(redcap.record, ""))
            if name in known:
                continue
            try:
                msgspec.convert(name, Name)
                command = Enrol(
                    who=REDCAP, received=clock.now(), participant=name, timezone=_timezone(redcap, record),
                    baseline=_baseline(running, redcap, record),
                )  # fmt: skip
                self._writer.submit(command).result()
            except msgspec.ValidationError:
                refused[f"record {place + 1}"] = "its name is no pseudonym of letters, digits, '.', '_' and '-'"
            except Refused as error:
                if error.code == "unavailable":
                    raise
                if error.code != "exists":  # another process may have been quicker
                    refused[name] = str(error)
            except InputError as error:
                refused[name] = str(error)
            else:
                known.add(name)
                enrolled += 1
        return enrolled, refused

    def _known(self) -> set[str]:
        with self._database.reading.connect() as connection:
            return set(connection.execute(select(tables.participants.c.name)).scalars())


def wanted(redcap: RedcapTable, running: StudyInForce) -> list[dict[str, Any]]:
    """The records to enrol, with the fields that the study needs."""
    known = [redcap.baseline.get(name, name) for name in running.study.settings.participants.baseline]
    names = [redcap.record, *([] if redcap.timezone is None else [redcap.timezone]), *known]
    fields = {f"fields[{place}]": name for place, name in enumerate(dict.fromkeys(names))}
    if redcap.event is not None:
        fields["events[0]"] = redcap.event
    chosen = f"[{redcap.enrol}] = '1'"
    found = ask(redcap, content="record", action="export", rawOrLabel="label", filterLogic=chosen, **fields)
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise DataError("REDCap did not answer with records")
    return [record for record in found if not record.get(REPEATED[0])]


def _timezone(redcap: RedcapTable, record: dict[str, Any]) -> str | None:
    return None if redcap.timezone is None else str(record.get(redcap.timezone, "")) or None


def _baseline(running: StudyInForce, redcap: RedcapTable, record: dict[str, Any]) -> dict[str, Any] | None:
    """The baseline values in a record: choices by their labels, numbers as numbers; empty fields are left out."""
    found: dict[str, Any] = {}
    for name, levels in running.study.settings.participants.baseline.items():
        text = str(record.get(redcap.baseline.get(name, name), "")).strip()
        if not text:
            continue
        if is_range(levels):
            found[name] = _number(text)
        else:
            found[name] = next((level for level in levels if str(level) == text), text)
    return found or None


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
