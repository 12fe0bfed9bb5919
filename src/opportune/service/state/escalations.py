"""What staff must deal with at once: values named in `escalate`, adverse events, calls answered by the wrong person."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, update

from opportune.service.record import events, tables
from opportune.service.record.events import Event
from opportune.service.state.study import StudyInForce

VALUE, ADVERSE, WRONG_PERSON = "value", "adverse event", "wrong person"
"""Kinds of escalations."""


def escalations(running: StudyInForce, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each value that needs action: the variable, the value, and what must be done."""
    variables, found = running.study.settings.variables, []
    for name, value in values.items():
        for level, text in (variables[name].escalate if name in variables else {}).items():
            if value is not None and any(str(known) == level and known == value for known in variables[name].values):
                found.append({"variable": name, "value": value, "text": text})
    return found


def raised_by(event: Event, received: int) -> list[dict[str, Any]]:
    """The rows of `escalations` that an event adds."""
    found = []
    for one in event.answer.get("escalations", ()):
        value = msgspec.json.encode(one["value"]).decode()
        found.append({"kind": VALUE, "variable": one["variable"], "value": value, "text": one["text"]})
    if event.kind == events.ADVERSE:
        found.append({"kind": ADVERSE, "variable": None, "value": None, "text": event.given["text"]})
    if event.kind == events.SETTLED and event.given.get("cause") == WRONG_PERSON:
        found.append({"kind": WRONG_PERSON, "variable": None, "value": None, "text": ""})
    return [
        {
            "id": f"{event.seq}.{place}", "seq": event.seq, "participant": event.participant, "raised": received,
            "acknowledged": None, "acknowledged_by": None, "note": None, **row,
        }
        for place, row in enumerate(found)
    ]  # fmt: skip


def acknowledged_by(event: Event, received: int) -> dict[str, dict[str, Any]]:
    """The changes that an event makes to rows of `escalations`, by id."""
    if event.kind != events.ACKNOWLEDGED:
        return {}
    values = {"seq": event.seq, "acknowledged": received, "acknowledged_by": event.who, "note": event.given["note"]}
    return {name: dict(values) for name in event.given["escalations"]}


def keep_escalations(connection: Connection, event: Event, received: int) -> None:
    """Write to `escalations` what an event raises and what it acknowledges."""
    table = tables.escalations
    if rows := raised_by(event, received):
        connection.execute(insert(table), rows)
    for name, values in acknowledged_by(event, received).items():
        connection.execute(update(table).where(table.c.id == name).values(**values))
