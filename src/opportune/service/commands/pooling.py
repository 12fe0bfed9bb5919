"""Partial pooling: updating what participants' models have in common, once a day or once a week."""

from sqlalchemy import select

from opportune.service.commands.base import SYSTEM
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock, schedule


def pool_if_due(transaction: Transaction, received: int) -> None:
    """Update the pooled part from all participants, if an update is due, and record it.

    The first decision of a day in the study's time zone does so, so that all decisions of that day use the same prior.
    """
    assert transaction.study is not None
    running, since = transaction.running, transaction.study["pooled"]
    if not running.pooling or since is None:
        return
    last = clock.local(min(since, received), running.timezone).date()  # the clock may have been ahead
    if since <= received + clock.SLACK and schedule.day_of(received, last, running.timezone) <= running.pooling:
        return
    stored = transaction.connection.execute(select(tables.participants.c.name)).scalars()
    transaction.read(names=stored)
    people = [person for person in transaction.participants.values() if person is not None]
    transaction.applying = True
    answer = transaction.fold.pool(people)
    transaction.applying = False
    transaction.administer(events.POOLED, {}, who=SYSTEM, received=received, answer=answer, people=people)
    transaction.study["pooled"] = received
