"""The rows of each export, in order, read a page at a time."""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import select

from opportune.service.accounts.pseudonyms import labels, shown_hashes, without_names
from opportune.service.commands.base import SYSTEM
from opportune.service.export.calls import alert_rows, budget_rows, call_rows, escalation_rows
from opportune.service.export.probabilities import answers_of, before_randomising, nudge_class
from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.state.study import StudyInForce

PAGE = 2000


def rows_of(database: Database, running: StudyInForce, name: str) -> Iterator[dict[str, Any]]:
    """The rows of an export, in order, read a page at a time."""
    if name == "calls":
        yield from call_rows(database, running)
    elif name == "budget":
        yield from budget_rows(database, running)
    elif name in {"escalations", "alerts"}:
        yield from escalation_rows(database) if name == "escalations" else alert_rows(database)
    elif name == "participants":
        yield from _pages(database, tables.PARTICIPANT, tables.participants.c.number, -1)
    elif name in {"events", "rewards"}:
        wanted = {events.REWARDED, events.CORRECTED, events.SKIPPED} if name == "rewards" else None
        label, files = labels(database), shown_hashes(database)
        for row in _pages(database, tables.events.c, tables.events.c.seq, 0):
            if wanted is None or row["kind"] in wanted:
                event = msgspec.json.decode(row["body"])
                yield without_names(event, label, files)
    else:
        for row in _decisions(database, running):
            if name == "decisions" or row["nudge"]:
                yield row


def _decisions(database: Database, running: StudyInForce) -> Iterator[dict[str, Any]]:
    """Every decision, one participant after the other, with its probabilities and draws from the record."""
    policies, imputed, past = running.policies, _imputed(database), _past(database)
    files = {hashed[:12]: shown[:12] for hashed, shown in shown_hashes(database).items()}
    for person in _pages(database, tables.PARTICIPANT, tables.participants.c.number, -1):
        only, policy = tables.decisions.c.participant == person["name"], policies[person["arm"]]
        answers = answers_of(database, person["name"]) if policy.revealer.randomised or policy.randomised else None
        for row in _pages(database, tables.decisions.c, tables.decisions.c.step, 0, only):
            row["imputed"] = row["id"] in imputed and not row["reward_changes"]
            row["past"], row["arm"], row["policy"] = row["id"] in past, person["arm"], policy
            row["baseline"], row["features"] = person["baseline"], files[row["features"]]
            row["probability_before"], row["nudge_class"], row["drawn"] = row["probability"], None, None
            if answers is not None:
                answer = answers.proposed[row["id"]]
                row["probability_before"] = before_randomising(policy, answer)
                row["nudge_class"] = nudge_class(policy, answer)
                row["drawn"] = answers.drawn(row["id"])
            yield row


def _imputed(database: Database) -> set[str]:
    """Decisions whose reward did not arrive and was replaced by the study's default."""
    table = tables.events.c
    query = select(table.decision).where(table.kind == events.REWARDED, table.who == SYSTEM)
    with database.reading.connect() as connection:
        return {decision for decision in connection.execute(query).scalars() if decision is not None}


def _past(database: Database) -> set[str]:
    """Decisions that became known only when it was too late for a nudge."""
    table = tables.events.c
    likely = table.body.contains('"past":true', autoescape=True)  # also true of a variable named so; checked below
    query = select(table.decision, table.body).where(table.kind == events.PROPOSED, likely)
    with database.reading.connect() as connection:
        rows = connection.execute(query)
        return {decision for decision, body in rows if msgspec.json.decode(body)["given"].get("past", False)}


def _pages(database: Database, columns: Any, order: Any, after: int, *only: Any) -> Iterator[dict[str, Any]]:
    while True:
        with database.reading.connect() as connection:
            query = select(*columns).where(order > after, *only).order_by(order).limit(PAGE)
            found = [dict(row) for row in connection.execute(query).mappings()]
        yield from found
        if len(found) < PAGE:
            return
        after = found[-1][order.name]
