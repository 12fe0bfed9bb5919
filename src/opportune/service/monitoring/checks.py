"""The checks behind alerts: each returns the participants who should have an alert now, with its text.

Pacing compares the nudges spent with the simulation of the study (`forecast`), within three standard deviations of what
all participants spend together, plus one nudge. Without a simulation the plan is B nudges at random among T decision
points: B n / T by point n, with the standard deviation of the hypergeometric distribution. Rules that spend more in the
beginning raise an alert then only if they spend less than that.
"""

import math
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, false, func, select

from opportune.service.commands.base import SYSTEM
from opportune.service.monitoring import forecast
from opportune.service.record import events, tables
from opportune.service.state import clock
from opportune.service.state.participant import ACTIVE, FALLBACK_MODE, PAUSED
from opportune.service.state.study import StudyInForce

DAY = 24 * clock.HOUR
LATEST = 10_000
"""The number of latest events to search where no index helps."""
DEVIATIONS = 3.0
EVEN = ("naive", "periodic")
"""Rules that spend their budget evenly."""
LEAST_PLANNED = 5.0
"""Pacing is not judged before so many nudges were planned."""
Wanted = dict[str | None, str]
"""The text of the alert, by participant; None stands for the study."""


def fallback(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Participants whose latest decision was made by the fallback."""
    if _closed(connection):
        return {}
    people, made = tables.participants.c, tables.decisions.c
    in_use = (made.mode == FALLBACK_MODE) & people.status.in_((ACTIVE, PAUSED))
    latest = (made.participant == people.name) & (made.step == people.step)
    query = select(people.name).where(latest, in_use)
    text = "The latest decision was made by the fallback: the log says why the learned policy could not be used."
    return dict.fromkeys(connection.execute(query).scalars(), text)


def undecided(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Participants for whom a decision could not be made, and who have had none since."""
    if _closed(connection):
        return {}
    people, made, alerts = tables.participants.c, tables.decisions.c, tables.alerts.c
    standing = (alerts.code == "undecided") & alerts.cleared.is_(None) & (alerts.participant == people.name)
    latest = (made.participant == people.name) & (made.step == people.step)
    decided_since = select(made.id).where(latest, made.received > alerts.raised).exists()
    query = select(people.name, alerts.text).where(standing, ~decided_since, people.status.in_((ACTIVE, PAUSED)))
    return {row[0]: row[1] for row in connection.execute(query)}


def _for_a_day(code: str) -> "Check":
    """A check that keeps an alert raised elsewhere for a day."""

    def check(connection: Connection, running: StudyInForce, now: int) -> Wanted:
        alerts = tables.alerts.c
        standing = (alerts.code == code) & alerts.cleared.is_(None) & (alerts.raised > now - DAY)
        query = select(alerts.participant, alerts.text).where(standing)
        return {row[0]: row[1] for row in connection.execute(query)}

    return check


def silent(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Participants whose app has asked for nothing for longer than the study expects."""
    if _closed(connection):
        return {}
    people = tables.participants.c
    quiet = func.coalesce(people.last_decided, people.enrolled) < now - running.silence
    query = select(people.name).where(people.status == "active", people.step < running.horizon, quiet)
    hours = running.silence / clock.HOUR
    text = f"The app has asked for no decision for {hours:g} hours: call the participant, or set the status to paused."
    return dict.fromkeys(connection.execute(query).scalars(), text)


def rewards(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Rewards that were given up, or replaced by the study's default, within the last day."""
    table = tables.events.c
    given_up = table.kind == events.SKIPPED
    if running.reward_default is not None:
        lately = table.seq > select(tables.study.c.seq).scalar_subquery() - LATEST
        given_up = (table.kind == events.REWARDED) & (table.who == SYSTEM) & lately
    query = select(table.received).where(given_up).order_by(table.seq.desc()).limit(1)
    latest = connection.execute(query).scalar()
    if latest is None or latest <= now - DAY:
        return {}
    return {None: "Rewards did not arrive in time and were given up: check how the app collects and sends them."}


def unshown(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Nudges that nobody has looked at: open for half of their window, or ended within the last day.

    A nudge ends with its window, or with the participant's next decision point.
    """
    if running.nudges_by != "staff":
        return {}
    made, seen, calls = tables.decisions.c, tables.viewed.c, tables.calls.c
    looked = select(seen.decision).where(seen.decision == made.id).exists()
    taken = select(calls.decision).where(calls.decision == made.id).exists()
    late = tables.open_nudge & (made.expires <= now + running.answer_window // 2)
    event = tables.events.c
    overtaken = select(event.seq).where(event.decision == made.id, event.kind == events.SETTLED)
    in_time = overtaken.where(event.body.contains('"cause":"next"', autoescape=True)).exists()
    over = (made.outcome == "unanswered") & (made.settled > now - DAY) & ((made.settled >= made.expires) | in_time)
    found: Wanted = {}
    rows: list[Any] = []
    for which in (late, over):  # two queries, each with its own index
        query = select(made.seq, made.participant, made.status, made.expires).where(made.nudge, which, ~looked, ~taken)
        rows += connection.execute(query).all()
    for _seq, name, status, expires in sorted(rows):
        if status == "nudge" and expires > now:
            minutes = max(1, (expires - now) // clock.MINUTE)
            found[name] = f"A nudge waits and nobody has looked at it: open the call list within {minutes} minutes."
        else:
            found[name] = "A nudge was decided, charged and never looked at: see who works through the call list."
    return found


def escalation(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Participants with an escalation that nobody has acknowledged yet."""
    table = tables.escalations.c
    names = connection.execute(select(table.participant).where(table.acknowledged.is_(None)).distinct()).scalars()
    return dict.fromkeys(names, "Something must be seen to: open the page Today, act, and say there what was done.")


def overspent(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """Budgets that are overspent in the tables, which the database prevents unless somebody removed the constraint."""
    table = tables.study if running.shared else tables.participants
    counted = (table.c.nudges > table.c.amount) if running.hard else false()
    query = select(table.c.name).where((table.c.spent > table.c.amount + tables.SPARE) | counted)
    text = "More than the budget was spent: stop the service, run opportune verify, compare with the last backup."
    names = list(connection.execute(query).scalars())
    return dict.fromkeys([None] if running.shared and names else names, text)


def pacing(connection: Connection, running: StudyInForce, now: int) -> Wanted:
    """The nudges spent so far against the plan."""
    if running.amount is None:
        return {}
    shared, known = running.shared, forecast.stored(connection, running)
    rows = [row for row in connection.execute(select(*tables.PARTICIPANT)).mappings() if running.spends(row["arm"])]
    if shared:
        points = sum(row["step"] for row in rows)
        gone = sum(running.horizon - row["step"] for row in rows if row["status"] in {"withdrawn", "completed"})
        plans = [(points, running.horizon * running.participants - gone)]
        spent = connection.execute(select(tables.study.c.spent)).scalar_one()
    else:
        plans = [(row["step"], running.horizon) for row in rows]
        spent = sum(row["spent"] for row in rows)
    if known is not None:
        by_now = [known.by(row["step"]) for row in rows]
        return judged(sum(mean for mean, _ in by_now), sum(sd**2 for _, sd in by_now), spent)
    planned, variance = even_plan(running.amount, plans)
    if spent > planned and running.policy.revealer.kind not in EVEN:
        return {}
    return judged(planned, variance, spent)


def even_plan(amount: float, plans: list[tuple[int, int]]) -> tuple[float, float]:
    """Mean and variance of nudges at random moments, by (decision points that are over, decision points in all)."""
    planned, variance = 0.0, 0.0
    for points, total in plans:
        budget = min(amount, float(total))
        share = points / total if total > 0 else 0.0
        planned += budget * share
        variance += budget * share * (1.0 - share) * max(0.0, total - budget) / max(1, total - 1)
    return planned, variance


def judged(planned: float, variance: float, spent: float) -> Wanted:
    """An alert if spending is too far from the plan."""
    slack = DEVIATIONS * math.sqrt(variance) + 1.0
    if planned < LEAST_PLANNED or abs(spent - planned) <= slack:
        return {}
    least, most = max(0.0, planned - slack), planned + slack
    which = "faster" if spent > planned else "slower"
    advice = "Look at who gets nudges and when, and whether staff and budget still fit."
    text = f"Nudges are spent {which} than planned: {spent:.1f}, where {least:.1f} to {most:.1f} would match the plan."
    return {None: f"{text} {advice}"}


def _closed(connection: Connection) -> bool:
    return connection.execute(select(tables.study.c.status)).scalar() == "closed"


Check = Callable[[Connection, StudyInForce, int], Wanted]
AS_THINGS_STAND = frozenset({"unshown", "pacing"})
"""Alerts whose text contains current numbers and is updated with them."""
CHECKS: dict[str, Check] = {
    "fallback": fallback, "undecided": undecided, "unrecorded": _for_a_day("unrecorded"),
    "rebuilt": _for_a_day("rebuilt"), "silent": silent, "rewards": rewards, "unshown": unshown,
    "overspent": overspent, "pacing": pacing, "escalation": escalation,
}  # fmt: skip
