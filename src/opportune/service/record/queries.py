"""The rows that the API, the pages and the command line read."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, case, exists, func, select

from opportune.errors import DataError
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.participant import ACTIVE, PAUSED
from opportune.service.state.study import StudyInForce


class _Because(msgspec.Struct):
    because: dict[str, Any] | None = None


class _Why(msgspec.Struct):
    """The part of an event that says why its nudge was made; the rest is not decoded."""

    answer: _Because


_WHY = msgspec.json.Decoder(_Why)
MOST_AT_ONCE = 200
"""The most rows of a sweep, and the most ids in one query."""


def overdue(database: Database, now: int) -> tuple[list[str], list[str]]:
    """Open nudges whose window has ended, and settled decisions whose reward is overdue."""
    table = tables.decisions
    with database.reading.connect() as connection:
        late = select(table.c.id).where(tables.open_nudge, table.c.expires <= now)
        unrewarded = select(table.c.id).where(table.c.reward_due <= now, table.c.status == "settled")
        return (
            list(connection.execute(late.order_by(table.c.expires).limit(MOST_AT_ONCE)).scalars()),
            list(connection.execute(unrewarded.order_by(table.c.reward_due).limit(MOST_AT_ONCE)).scalars()),
        )


def finished(database: Database, horizon: int) -> list[str]:
    """Participants of an open study who have made all decisions, and of whom neither answers nor rewards are due."""
    person, made = tables.participants.c, tables.decisions.c
    expected = exists().where(made.participant == person.name, made.reward_due.is_not(None))
    query = select(person.name).where(
        select(tables.study.c.status).scalar_subquery() == "open", person.status.in_([ACTIVE, PAUSED]),
        person.step >= horizon, person.open_decision.is_(None), ~expected,
    )  # fmt: skip
    with database.reading.connect() as connection:
        return list(connection.execute(query.order_by(person.number).limit(MOST_AT_ONCE)).scalars())


def due_zones(database: Database, now: int) -> list[str]:
    """Participants whose announced change of time zone is due."""
    table = tables.participants.c
    query = select(table.name, table.next_timezone, table.next_from).where(table.next_timezone.is_not(None))
    with database.reading.connect() as connection:
        found = connection.execute(query).all()
    return [name for name, zone, date in found if clock.local(now, zone).date() >= date]


def rows(database: Database, query: Select[Any]) -> list[dict[str, Any]]:
    """The rows that a query returns."""
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def study_in_force(database: Database) -> StudyInForce:
    """The study file in force."""
    with database.reading.connect() as connection:
        text = connection.execute(select(tables.study.c.file)).scalar()
    if text is None:
        raise DataError("no study is launched in this database; expected a launched study")
    return StudyInForce.from_text(text)


def study_row(database: Database) -> dict[str, Any] | None:
    """The study, without the bytes of its state."""
    columns = [c for c in tables.study.c if c.name != "shared"]
    found = rows(database, select(*columns))
    return found[0] if found else None


def spent(database: Database, study: dict[str, Any]) -> tuple[float, int]:
    """Probabilities and nudges spent in total: of the shared budget, or summed over the participants' own."""
    if study["amount"] is not None:
        return study["spent"], study["nudges"]
    table = tables.participants.c
    query = select(func.coalesce(func.sum(table.spent), 0.0), func.coalesce(func.sum(table.nudges), 0))
    with database.reading.connect() as connection:
        probabilities, nudges = connection.execute(query).one()
    return float(probabilities), int(nudges)


def participant_rows(database: Database, *, after: str = "", limit: int) -> list[dict[str, Any]]:
    """Participants in the order of their names."""
    table = tables.participants
    return rows(database, select(*tables.PARTICIPANT).where(table.c.name > after).order_by(table.c.name).limit(limit))


def participant_row(database: Database, name: str) -> dict[str, Any] | None:
    """One participant."""
    found = rows(database, select(*tables.PARTICIPANT).where(tables.participants.c.name == name))
    return found[0] if found else None


def decision_row(database: Database, decision: str) -> dict[str, Any] | None:
    """One decision."""
    found = rows(database, select(tables.decisions).where(tables.decisions.c.id == decision))
    return found[0] if found else None


def decision_rows(database: Database, name: str, *, after: int = 0, limit: int) -> list[dict[str, Any]]:
    """A participant's decisions by step."""
    table = tables.decisions
    query = select(table).where(table.c.participant == name, table.c.step > after)
    return rows(database, query.order_by(table.c.step).limit(limit))


def occasions(database: Database, decisions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Why nudges were made (state.occasion), by decision; decisions whose event does not say are left out."""
    table, found = tables.events.c, dict[str, dict[str, Any]]()
    with database.reading.connect() as connection:
        for first in range(0, len(decisions), MOST_AT_ONCE):
            some = decisions[first : first + MOST_AT_ONCE]
            query = select(table.decision, table.body).where(table.decision.in_(some), table.kind == events.PROPOSED)
            for decision, body in connection.execute(query):
                answer = _WHY.decode(body).answer
                if answer.because is not None:
                    found[decision] = answer.because
    return found


def open_nudges(database: Database, *, after: tuple[int, str] = (0, ""), limit: int) -> list[dict[str, Any]]:
    """Nudges that wait for an answer, the most urgent first."""
    table = tables.decisions
    expires, name = after
    later = (table.c.expires > expires) | ((table.c.expires == expires) & (table.c.id > name))
    query = select(table).where(tables.open_nudge, later)
    return rows(database, query.order_by(table.c.expires, table.c.id).limit(limit))


def event_rows(
    database: Database, *, after: int = 0, limit: int, participant: str | None = None
) -> list[dict[str, Any]]:
    """Events in the order of the record."""
    table = tables.events
    query = select(table).where(table.c.seq > after)
    if participant is not None:
        query = query.where(table.c.participant == participant)
    return rows(database, query.order_by(table.c.seq).limit(limit))


def alert_rows(database: Database, *, limit: int = 500) -> list[dict[str, Any]]:
    """Alerts that are not cleared: red, yellow, then the others, the latest first in each."""
    table = tables.alerts
    level = case({"red": 0, "yellow": 1}, value=table.c.level, else_=2)
    query = select(table).where(table.c.cleared.is_(None))
    return rows(database, query.order_by(level, table.c.id.desc()).limit(limit))


def count(database: Database, table: Any, *conditions: Any) -> int:
    """How many rows of a table meet the conditions."""
    with database.reading.connect() as connection:
        query = select(func.count()).select_from(table)
        return int(connection.execute(query.where(*conditions) if conditions else query).scalar_one())


def page(found: Sequence[dict[str, Any]], limit: int) -> tuple[Sequence[dict[str, Any]], bool]:
    """The first `limit` rows, and whether there are more; callers query one row beyond the limit to know."""
    return found[:limit], len(found) > limit
