"""Exports for analysts: CSV files, and what every column means."""

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple

import msgspec
from sqlalchemy import select

from opportune.errors import DataError
from opportune.live.cohort import Cohort
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.service.accounts.pseudonyms import labels
from opportune.service.commands.base import NOT_ASKED, SYSTEM
from opportune.service.export.probabilities import before_randomising, of_action
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.projection import known_of
from opportune.service.state.study import StudyInForce

PAGE = 2000
IN_MEMORY = 2**23
"""Bytes of a file that is made to be sent; a larger one lies on disk meanwhile."""
NAMES = ("decisions", "participants", "nudges", "rewards", "events")


class Column(NamedTuple):
    """A column: its name, its type, what it means, and how it is made from a row."""

    name: str
    type: str
    meaning: str
    value: Callable[[dict[str, Any]], Any]


def _plain(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row[name]


def _utc(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: None if row[name] is None else clock.iso(row[name])


def _local(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: clock.local(row[name], row["timezone"]).strftime("%Y-%m-%dT%H:%M:%S")


def _answered(row: dict[str, Any]) -> int | None:
    if not row["nudge"]:
        return None
    return int(row["outcome"] == "answered") if row["status"] == "settled" else None


def _opened(row: dict[str, Any]) -> bool | None:
    return row["outcome"] == "opened" if row["status"] == "settled" else None


def _revealed(row: dict[str, Any]) -> bool | None:
    return bool(row["revealed"]) if row["status"] == "settled" else None


_BEGINNING = (
    Column("participant", "text", "Pseudonym.", _plain("participant")),
    Column("decision", "text", "The decision's id in the record.", _plain("id")),
    Column("step", "integer", "Decision point, from 1.", _plain("step")),
    Column("day", "integer", "Day of the study by the participant's calendar; that of enrolment is 1.", _plain("day")),
    Column("time_utc", "time", "When the decision point was, UTC.", _utc("happened")),
    Column("time_local", "time", "The same by the participant's clock.", _local("happened")),
    Column("timezone", "text", "The participant's time zone.", _plain("timezone")),
    Column("received_utc", "time", "When the service was asked, UTC.", _utc("received")),
    Column("available", "0/1", "The participant could be nudged, and everything was sensed.", _plain("available")),
    Column("unavailable_reason", "text", "Why not.", _plain("reason")),
    Column(
        "past",
        "0/1",
        "The moment was past when it became known: the rule was not asked, and nobody could be nudged.",
        _plain("past"),
    ),
)
_DECIDED = (
    Column("nudge", "0/1", "A nudge was made.", _plain("nudge")),
    Column(
        "nudge_probability",
        "number",
        "With which probability, after randomising: what the coin was compared with; weigh and centre by this.",
        _plain("probability"),
    ),
    Column(
        "nudge_probability_before",
        "number",
        "With which the rule alone would have, before the coin of `randomise` was mixed in; the same without one.",
        _plain("probability_before"),
    ),
    Column("coin", "number", "The coin; there is a nudge where it is below the probability.", _plain("coin")),
    Column("gap", "number", "What knowing the context is worth, as the rule weighs it.", _plain("gap")),
    Column("price", "number", "What the gap was compared with.", _plain("price")),
    Column("budget_before", "number", "What was left of the budget before this decision.", _plain("budget_before")),
    Column("budget_after", "number", "What was left of it after.", _plain("budget_left")),
    Column("status", "text", "settled; or nudge, while an answer is waited for that may change it.", _plain("status")),
    Column("opened", "0/1", "The participant opened the app unasked; empty while a nudge waits.", _opened),
    Column("answered", "0/1", "The nudge was answered in time; empty without a nudge.", _answered),
    Column("answered_late_utc", "time", "When it was answered after its window.", _utc("answered_late")),
    Column("revealed", "0/1", "The recommender acted on the whole context; empty while a nudge waits.", _revealed),
    Column("action", "text", "The treatment.", _plain("action")),
    Column("stale_action", "text", "What stood without a reveal.", _plain("stale_action")),
    Column("fresh_action", "text", "What would have stood with all data, blindly.", _plain("fresh_action")),
    Column("offline", "0/1", "The phone showed the action from its bundle.", _plain("offline")),
)
_REWARD = (
    Column("reward", "number", "The reward as it stands.", _plain("reward")),
    Column(
        "reward_status",
        "text",
        "learned, waiting, skipped (given up) or nothing (not learned from).",
        _plain("reward_status"),
    ),
    Column("reward_received_utc", "time", "When it came, or was last corrected, UTC.", _utc("reward_received")),
    Column("reward_first", "number", "What it was before corrections.", _plain("reward_first")),
    Column("reward_changes", "integer", "How often it was corrected.", _plain("reward_changes")),
    Column("reward_imputed", "0/1", "It never came: the study's default stands in its place.", _plain("imputed")),
)
_END = (
    Column("mode", "text", "learned, or fallback where the learned policy could not be used.", _plain("mode")),
    Column("policy_version", "text", "The study file in force, by the beginning of its hash.", _plain("features")),
    Column("software_version", "text", "The version of Opportune.", _plain("version")),
)
PARTICIPANTS = (
    Column("participant", "text", "Pseudonym.", _plain("name")),
    Column("number", "integer", "In the order of enrolment, from 0.", _plain("number")),
    Column("stream", "integer", "Of random numbers: coins follow from seed, stream and step.", _plain("stream")),
    Column("timezone", "text", "Time zone.", _plain("timezone")),
    Column("status", "text", "active, paused, withdrawn or completed.", _plain("status")),
    Column("reason", "text", "Why.", _plain("reason")),
    Column("enrolled_utc", "time", "When enrolled, UTC.", _utc("enrolled")),
    Column("steps", "integer", "Decisions made.", _plain("step")),
    Column("spent", "number", "Sum of nudge probabilities, of an own budget.", _plain("spent")),
    Column("nudges", "integer", "Nudges made, of an own budget.", _plain("nudges")),
    Column("last_decision_utc", "time", "The last decision point, UTC.", _utc("last_decided")),
    Column("last_reveal_utc", "time", "The last reveal, UTC.", _utc("last_reveal")),
)
_EVENT = (
    Column("seq", "integer", "Number in the record.", _plain("seq")),
    Column("kind", "text", "What happened.", _plain("kind")),
    Column("participant", "text", "Pseudonym.", _plain("participant")),
    Column("decision", "text", "The decision it is about.", _plain("decision")),
    Column("step", "integer", "Its decision point.", _plain("step")),
    Column("who", "text", "Who did it: an app by the name of its key, people by role and number.", _plain("who")),
    Column("received_utc", "time", "When the service had it, UTC.", _plain("received")),
    Column("happened_utc", "time", "When it took place, UTC.", _plain("happened")),
)
EVENTS = (
    *_EVENT,
    Column("timezone", "text", "The participant's time zone then.", _plain("timezone")),
    Column("software_version", "text", "The version of Opportune.", _plain("version")),
    Column("study_hash", "text", "The study file in force, by its hash.", _plain("study")),
    Column("hash", "text", "Of the event as stored; the next one names it.", _plain("hash")),
    Column("given", "JSON", "What came in.", lambda row: msgspec.json.encode(row["given"]).decode()),
    Column("answer", "JSON", "What the algorithm answered.", lambda row: msgspec.json.encode(row["answer"]).decode()),
)
REWARDS = (
    *_EVENT,
    Column(
        "reward",
        "number",
        "The reward from then on; empty where it was given up.",
        lambda row: row["given"].get("reward"),
    ),
    Column("was", "number", "What it was before, for a correction.", lambda row: row["given"].get("was")),
    Column("reason", "text", "Why it was corrected.", lambda row: row["given"].get("reason")),
    Column(
        "cause",
        "text",
        "default or overdue, where the study's rule set or gave it up.",
        lambda row: row["given"].get("cause"),
    ),
)


def decision_columns(running: StudyInForce, cohort: Cohort) -> tuple[Column, ...]:
    """The columns of decisions.csv: every variable of the study has one."""
    problem = cohort.problem
    scheduled = problem.schedule.variables

    def variable(name: str) -> Column:
        seen = "public" if name in scheduled else problem.visibility[name]

        def value(row: dict[str, Any]) -> Any:
            if seen == "reported":
                known = known_of(row)
                return None if known is None else msgspec.json.decode(known).get(name)
            given = {} if row["reason"] == NOT_ASKED else msgspec.json.decode(row["sensed"])
            if name in given or name not in scheduled:
                return given.get(name)
            return problem.schedule.values(row["step"])[name]

        told = {"reported": "reported; empty where no reveal has told it", "sensed": "sensed", "public": "public"}[seen]
        return Column(
            _free(name, taken, problem.visibility), "value", f"Variable {name!r} of the study, {told}.", value
        )

    before, after = _BEGINNING, (_features(problem), *_DECIDED, *_actions(running), *_REWARD, *_END)
    taken = {column.name for column in (*before, *after)}
    return (*before, *map(variable, problem.visibility), *after)


def _free(name: str, taken: set[str], variables: Iterable[str]) -> str:
    """What the column of a variable is called: as the variable, unless another column is called so."""
    if name not in taken:
        return name
    longer = f"variable_{name}"
    while longer in {*taken, *variables}:
        longer += "_"
    return longer


def _actions(running: StudyInForce) -> tuple[Column, ...]:
    """The probability of the action that was taken, and of each that there is."""
    names, policy = running.study.settings.study.actions, running.policy

    def probability(name: str | None) -> Callable[[dict[str, Any]], Any]:
        return lambda row: of_action(policy, len(names), row, row["action"] if name is None else name)

    given = "given the state and whether there was a reveal; empty where it is not known"
    return (
        Column("action_probability", "number", f"The probability of the action, {given}.", probability(None)),
        *(Column(f"action_probability_{name}", "number", f"That of {name!r}, {given}.", probability(name))
          for name in names),
    )  # fmt: skip


def _features(problem: Problem | ContinuousProblem) -> Column:
    """Which features decisions were computed with: a hash of what defines them, which no amendment changes."""
    version = hashlib.sha256(json.dumps(problem.to_dict(), sort_keys=True).encode()).hexdigest()[:12]
    meaning = "What features are computed from (variables, formula, actions), by the beginning of its hash."
    return Column("features_version", "text", meaning, lambda row: version)


def study_in_force(database: Database) -> StudyInForce:
    """The study file in force."""
    with database.reading.connect() as connection:
        text = connection.execute(select(tables.study.c.file)).scalar()
    if text is None:
        raise DataError("no study is launched in this database; expected one to export")
    return StudyInForce.from_text(text)


def columns_of(name: str, running: StudyInForce) -> tuple[Column, ...]:
    """The columns of an export."""
    if name in {"decisions", "nudges"}:
        return decision_columns(running, running.cohort())
    return {"participants": PARTICIPANTS, "rewards": REWARDS, "events": EVENTS}[name]


def rows_of(database: Database, name: str) -> Iterator[dict[str, Any]]:
    """The rows that an export is made of, in order, a page at a time."""
    if name == "participants":
        yield from _pages(database, tables.PARTICIPANT, tables.participants.c.number, -1)
    elif name in {"events", "rewards"}:
        wanted = {events.REWARDED, events.CORRECTED, events.SKIPPED} if name == "rewards" else None
        label = labels(database)
        for row in _pages(database, tables.events.c, tables.events.c.seq, 0):
            if wanted is None or row["kind"] in wanted:
                event = msgspec.json.decode(row["body"])
                yield {"hash": row["hash"], **event, "who": label(event["who"])}
    else:
        policy, imputed, past = study_in_force(database).policy, _imputed(database), _past(database)
        for person in _pages(database, tables.PARTICIPANT, tables.participants.c.number, -1):
            only = tables.decisions.c.participant == person["name"]
            for row in _pages(database, tables.decisions.c, tables.decisions.c.step, 0, only):
                if name == "decisions" or row["nudge"]:
                    row["imputed"] = row["id"] in imputed and not row["reward_changes"]
                    row["past"] = row["id"] in past
                    row["probability_before"] = row["probability"]
                    if policy.revealer.randomised:
                        row["probability_before"] = before_randomising(policy, _answer(database, row["id"]))
                    yield row


def _imputed(database: Database) -> set[str]:
    """Decisions whose reward never came, and was replaced by the study's default."""
    table = tables.events.c
    query = select(table.decision).where(table.kind == events.REWARDED, table.who == SYSTEM)
    with database.reading.connect() as connection:
        return {decision for decision in connection.execute(query).scalars() if decision is not None}


def _past(database: Database) -> set[str]:
    """Decisions at which nobody could be nudged any more when they became known."""
    table = tables.events.c
    said = table.body.contains('"past":true', autoescape=True)  # or a variable is called so
    query = select(table.decision, table.body).where(table.kind == events.PROPOSED, said)
    with database.reading.connect() as connection:
        rows = connection.execute(query)
        return {decision for decision, body in rows if msgspec.json.decode(body)["given"].get("past", False)}


def _answer(database: Database, decision: str) -> dict[str, Any]:
    """What the algorithm answered to a decision point, from the record."""
    table = tables.events.c
    query = select(table.body).where(table.seq == int(decision[1:]))  # a decision is called after its event
    with database.reading.connect() as connection:
        found: dict[str, Any] = msgspec.json.decode(connection.execute(query).scalar_one())["answer"]
    return found


def _pages(database: Database, columns: Any, order: Any, after: int, *only: Any) -> Iterator[dict[str, Any]]:
    while True:
        with database.reading.connect() as connection:
            query = select(*columns).where(order > after, *only).order_by(order).limit(PAGE)
            found = [dict(row) for row in connection.execute(query).mappings()]
        yield from found
        if len(found) < PAGE:
            return
        after = found[-1][order.name]


def export(database: Database, name: str) -> Iterator[str]:
    """An export as CSV, a piece of text at a time."""
    columns = columns_of(name, study_in_force(database))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    for row in rows_of(database, name):
        writer.writerow([cell(column.value(row)) for column in columns])
        if buffer.tell() > 60_000:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def cell(value: Any) -> Any:
    """A value as it stands in a CSV file: 0/1 for no and yes, nothing where there is none.

    A text that a spreadsheet would take for a formula is told apart by a leading apostrophe.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return "'" + value
    return value


def whole_file(database: Database, name: str) -> Iterator[bytes]:
    """An export as of one moment, made before the first of it is handed out.

    What goes wrong is known by then, and who reads slowly does not keep the database as it was.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (who reads it closes it)
    try:
        with database.still() as as_of_now:
            for text in export(as_of_now, name):
                file.write(text.encode())
        file.seek(0)
    except OSError as error:
        file.close()
        raise Refused("unavailable", f"the export cannot be made at the moment ({error.strerror})") from error
    return _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(65_536):
            yield part


def dictionary(database: Database) -> dict[str, Any]:
    """What every column of every export means."""
    running = study_in_force(database)
    return {
        "study": running.study.name,
        "missing": "An empty cell means that there is no value.",
        "texts": "One that begins with =, +, - or @ has an apostrophe before it, lest it be taken for a formula.",
        "files": {
            f"{name}.csv": [
                {"column": column.name, "type": column.type, "meaning": column.meaning}
                for column in columns_of(name, running)
            ]
            for name in NAMES
        },
    }
