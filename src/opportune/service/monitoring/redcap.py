"""REDCap, as [redcap] of the study file names it: enrolments are read from it, and outcomes are written to it.

Outcomes go through the outbox, whose messages name a participant or a decision; what is written is read from the tables
when it is sent, so that the latest stands. Arms, probabilities and coins stay here: staff read what is in REDCap.
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
from opportune.service.export.exports import columns_of, study_in_force
from opportune.service.export.redcap import REPEATED, fields_of, value_of
from opportune.service.monitoring.alerts import YELLOW, Alerts
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.problems import Refused
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.study.people import RedcapTable, is_range

TOKEN = "OPPORTUNE_REDCAP_TOKEN"
EVERY_SECONDS = 300.0
"""How often REDCap is asked for records to enrol."""
TIMEOUT_SECONDS = 30.0
MOST_NAMED = 5
"""Records that an alert names."""
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
"""What is written of each, by the columns of exports: nothing that would unblind whoever reads it."""
log = structlog.get_logger()


def settings_of(running: StudyInForce) -> RedcapTable | None:
    """What the study file says of REDCap, if it does."""
    return running.study.settings.redcap


def require_token(database: Database, running: StudyInForce) -> None:
    """Refuse to serve a study with people that goes to REDCap without what opens the project."""
    study = queries.study_row(database)
    rehearsed = study is not None and study["rehearsal"]
    if settings_of(running) is not None and not rehearsed and not os.environ.get(TOKEN):
        raise InputError(f"{TOKEN} is not set; expected the API token of the project that [redcap] names")


def ask(redcap: RedcapTable, **content: str) -> Any:
    """Ask REDCap's API; what it answers, as JSON. Errors do not repeat what was sent."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InputError(f"{TOKEN} is not set; expected the API token of the project")
    form = {"token": token, "format": "json", "type": "flat", "returnFormat": "json", **content}
    found = httpx.post(redcap.url, data=form, timeout=TIMEOUT_SECONDS)
    found.raise_for_status()
    try:
        return msgspec.json.decode(found.content)
    except msgspec.DecodeError:
        raise DataError("REDCap answered with something else than JSON; expected the address of its API") from None


def push(database: Database, running: StudyInForce, messages: Sequence[dict[str, Any]]) -> None:
    """Write what stands now of the participants and decisions that messages name; raises where it was not taken."""
    redcap = settings_of(running)
    if redcap is None:
        raise InputError("the study file has no [redcap] any more")
    named = dict.fromkeys((message["participant"], message["decision"]) for message in messages)
    before = [_seq(database, *names) for names in named]
    rows = [row for names in named for row in _row(database, running, redcap, *names)]
    if not rows:
        return
    data = msgspec.json.encode(rows).decode()
    told = ask(redcap, content="record", action="import", overwriteBehavior="overwrite", dateFormat="YMD", data=data)
    if not isinstance(told, dict) or "count" not in told:
        raise DataError("REDCap did not say that it has taken the records")
    if [_seq(database, *names) for names in named] != before:  # another process may have written what is newer
        raise DataError("something has changed while it was written; it is written again")


def _seq(database: Database, participant: str, decision: str | None) -> int | None:
    """The last event about what a message names."""
    found = _found(database, participant, decision)
    return None if found is None else found["seq"]


def _found(database: Database, participant: str, decision: str | None) -> dict[str, Any] | None:
    if decision is None:
        return queries.participant_row(database, participant)
    return queries.decision_row(database, decision)


def _row(
    database: Database, running: StudyInForce, redcap: RedcapTable, participant: str, decision: str | None
) -> Iterator[dict[str, Any]]:
    """What stands of a participant, or of a decision: a record as REDCap takes it."""
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
    """Reads from REDCap whom to enrol, every few minutes, in a thread of its own.

    Args:
        database: of the study.
        writer: carries out the enrolments.
        alerts: told of records that cannot be enrolled.
        may: whether something may be recorded now.

    """

    def __init__(self, database: Database, writer: Writer, alerts: Alerts, may: Callable[[], bool]) -> None:
        self._database, self._writer, self._alerts, self._may = database, writer, alerts, may
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = 0

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="redcap", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being asked."""
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
            except Exception as error:  # such as a database that is away: the thread goes on
                log_sparingly("enrolments could not be looked for", **described(error))

    def look(self) -> int:
        """Enrol whoever is to be enrolled; how many were. What goes wrong is an alert once it lasts."""
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
        """How many were enrolled, and who was not, and why."""
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
    """The records that are to be enrolled, with the fields that the study needs of them."""
    known = [redcap.baseline.get(name, name) for name in running.study.settings.participants.baseline]
    names = [redcap.record, *([] if redcap.timezone is None else [redcap.timezone]), *known]
    fields = {f"fields[{place}]": name for place, name in enumerate(dict.fromkeys(names))}
    if redcap.event is not None:
        fields["events[0]"] = redcap.event
    chosen = f"[{redcap.enrol}] = '1'"
    found = ask(redcap, content="record", action="export", rawOrLabel="label", filterLogic=chosen, **fields)
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise DataError("REDCap answered with something else than records")
    return [record for record in found if not record.get(REPEATED[0])]


def _timezone(redcap: RedcapTable, record: dict[str, Any]) -> str | None:
    return None if redcap.timezone is None else str(record.get(redcap.timezone, "")) or None


def _baseline(running: StudyInForce, redcap: RedcapTable, record: dict[str, Any]) -> dict[str, Any] | None:
    """What REDCap knows of the study's baseline: choices by their labels, numbers as numbers; what is empty lacks."""
    found: dict[str, Any] = {}
    for name, levels in running.study.settings.participants.baseline.items():
        told = str(record.get(redcap.baseline.get(name, name), "")).strip()
        if not told:
            continue
        if is_range(levels):
            found[name] = _number(told)
        else:
            found[name] = next((level for level in levels if str(level) == told), told)
    return found or None


def _number(told: str) -> Any:
    try:
        return float(told)
    except ValueError:
        return told
