"""What participants have in common, where models are pooled in part: brought up to date once a day, or a week."""

from sqlalchemy import select

from opportune.service.commands.base import SYSTEM
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock, schedule


def pool_if_due(transaction: Transaction, received: int) -> None:
    """On a new day by the study's clock, bring it up to date by what is known of everybody now, on record.

    The first decision of a day does so before it is made: all decisions of that day go by the same.
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
