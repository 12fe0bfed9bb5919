"""The exports about calls, escalations, alerts and the budget by day."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select

from opportune.service.accounts.pseudonyms import labels
from opportune.service.export.columns import Column, plain, utc
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

CALLS = (
    Column("participant", "text", "Pseudonym.", plain("participant")),
    Column("decision", "text", "The decision at which the nudge was proposed.", plain("id")),
    Column("step", "integer", "Its decision point.", plain("step")),
    Column("proposed_utc", "time", "When the nudge was proposed, UTC.", utc("received")),
    Column("expires_utc", "time", "When the answer window ended, UTC.", utc("expires")),
    Column("attempts", "integer", "Attempts to reach the participant, including the last one.", plain("attempts")),
    Column(
        "outcome",
        "text",
        "reached, unreachable, declined or wrong person as staff entered it; opened, if the participant opened the app "
        "first; answered in the app; nothing, if nobody reached the participant in time; waiting.",
        plain("result"),
    ),
    Column("who", "text", "Who entered the outcome, by role and number.", plain("who")),
    Column("done_utc", "time", "When the outcome was entered or settled, UTC.", utc("done")),
    Column("minutes_until_done", "number", "Minutes from the proposal to the outcome.", plain("waited")),
    Column("minutes_of_staff", "number", "Minutes of staff time per nudge, from the study file.", plain("minutes")),
)
ESCALATIONS = (
    Column("participant", "text", "Pseudonym.", plain("participant")),
    Column("kind", "text", "value (of a variable), adverse event, or wrong person.", plain("kind")),
    Column("variable", "text", "The variable; empty without one.", plain("variable")),
    Column("value", "JSON", "Its value; empty without one.", plain("value")),
    Column("text", "text", "What the study file says must be done, or what happened in staff's words.", plain("text")),
    Column("raised_utc", "time", "When it was raised, UTC.", utc("raised")),
    Column("acknowledged_utc", "time", "When it was acknowledged, UTC; empty until then.", utc("acknowledged")),
    Column("acknowledged_by", "text", "Who acknowledged it, by role and number.", plain("who")),
    Column("note", "text", "What was done, as staff wrote it.", plain("note")),
)
BUDGET = (
    Column("date", "text", "Date in the study's time zone.", plain("date")),
    Column("decisions", "integer", "Decision points of that day.", plain("decisions")),
    Column("nudges", "integer", "Nudges made that day.", plain("nudges")),
    Column("answered", "integer", "How many of these nudges were answered in time.", plain("answered")),
    Column("nudges_so_far", "integer", "Nudges made by the end of that day.", plain("so_far")),
    Column(
        "planned_so_far",
        "number",
        "What would have been spent by then if every participant's budget were spread evenly over all decision points; "
        "arms without a budget count 0; empty if no arm has one.",
        plain("planned"),
    ),
)

ALERTS = (
    Column("level", "text", "red, yellow or green.", plain("level")),
    Column("code", "text", "The kind of alert, in a word (docs/operations.md).", plain("code")),
    Column("participant", "text", "Pseudonym; empty if the alert is about the whole study.", plain("participant")),
    Column("raised_utc", "time", "When it was raised, UTC.", utc("raised")),
    Column("cleared_utc", "time", "When it was cleared, UTC; empty while it is open.", utc("cleared")),
)


def call_rows(database: Database, running: StudyInForce) -> Iterator[dict[str, Any]]:
    """A row for each nudge, with what staff did about it."""
    decision, call = tables.decisions, tables.calls
    wanted = (
        decision.c.id, decision.c.participant, decision.c.step, decision.c.received, decision.c.expires,
        decision.c.status, decision.c.outcome, decision.c.settled, call.c.tries, call.c.done_by, call.c.done,
        call.c.due, call.c.outcome.label("staff_outcome"),
    )  # fmt: skip
    query = select(*wanted).join(call, call.c.decision == decision.c.id, isouter=True)
    label = labels(database)
    with database.reading.connect() as connection:
        found = connection.execute(query.where(decision.c.nudge.is_(True)).order_by(decision.c.seq)).mappings().all()
    for row in found:
        by_staff = row["staff_outcome"] is not None and row["due"] is None
        done = row["done"] if by_staff else row["settled"]
        yield {
            **row,
            "attempts": (row["tries"] or 0) + int(by_staff),
            "result": row["staff_outcome"] if by_staff else _outcome(row["status"], row["outcome"]),
            "who": label(row["done_by"]) if by_staff and row["done_by"] is not None else None,
            "done": done,
            "waited": None if done is None else round((done - row["received"]) / clock.MINUTE, 2),
            "minutes": running.study.settings.nudge.minutes,
        }


def escalation_rows(database: Database) -> Iterator[dict[str, Any]]:
    """A row for each escalation, in the order of their times."""
    label, table = labels(database), tables.escalations
    with database.reading.connect() as connection:
        found = connection.execute(select(table).order_by(table.c.raised, table.c.id)).mappings().all()
    for row in found:
        yield {**row, "who": None if row["acknowledged_by"] is None else label(row["acknowledged_by"])}


def alert_rows(database: Database) -> Iterator[dict[str, Any]]:
    """A row for each alert, in the order of their times."""
    table = tables.alerts
    with database.reading.connect() as connection:
        for row in connection.execute(select(table).order_by(table.c.id)).mappings().all():
            yield dict(row)


def _outcome(status: str, outcome: str | None) -> str:
    if status == "nudge":
        return "waiting"
    return {"opened": "opened", "answered": "answered"}.get(outcome or "", "nothing")


def budget_rows(database: Database, running: StudyInForce) -> Iterator[dict[str, Any]]:
    """A row for each day with decisions."""
    table, person = tables.decisions.c, tables.participants.c
    query = (
        select(table.happened, table.nudge, table.outcome, person.arm)
        .join(tables.participants, person.name == table.participant)
        .order_by(table.happened)
    )
    each = _each(running)
    days: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    with database.reading.connect() as connection:
        for happened, nudge, outcome, arm in connection.execute(query):
            day = days[clock.local(happened, running.timezone).strftime("%Y-%m-%d")]
            day[0] += 1
            day[1] += bool(nudge)
            day[2] += bool(nudge) and outcome == "answered"
            day[3] += each.get(arm, 0.0)
    made: float = 0
    planned = 0.0
    for date, (decisions, nudges, answered, more) in sorted(days.items()):
        made, planned = made + nudges, planned + more
        yield {
            "date": date, "decisions": decisions, "nudges": nudges, "answered": answered, "so_far": made,
            "planned": round(planned, 4) if each else None,
        }  # fmt: skip


def _each(running: StudyInForce) -> dict[str, float]:
    """The spending per decision point of each arm with a budget, if that is spread evenly.

    A study without arms has a single arm named "".
    """
    return {
        arm: float(policy.budget.amount) / running.horizon / (running.sizes[arm] if policy.shared else 1)
        for arm, policy in running.policies.items()
        if policy.budget is not None
    }
