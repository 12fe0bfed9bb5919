"""A rehearsal with its own database: all days of a study at full speed, with simulated participants and staff."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from opportune.rehearsal.direct import DirectAccess
from opportune.rehearsal.drive import Rehearsal
from opportune.rehearsal.people import People
from opportune.service.commands.administration import Launch
from opportune.service.record.database import Database, file_url
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.study.arrivals import decisions_per_day
from opportune.study.timetable import first_date

STAFF = "rehearsal"


def rehearse_alone(
    running: StudyInForce, folder: Path, *, people: int, days: int, seed: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[Database, Rehearsal]:  # fmt: skip
    """Launch the study in a folder, dated to its first day, and run some days of it; staff answer every call."""
    settings = running.study.settings
    database = Database(file_url(folder.resolve() / "study.db"))
    database.migrate()
    access = DirectAccess(database, staff=(STAFF,), calls_take=0)
    first = first_date(settings)
    begun = dt.datetime.combine(first, dt.time(0), clock.zone(running.timezone))
    access.writer.do(
        Launch(
            who=STAFF, received=clock.from_datetime(begun), file=running.text, source=running.study.source,
            rehearsal=True,
        )
    )  # fmt: skip
    steps = min(running.horizon, days * decisions_per_day(settings))
    rehearsal = Rehearsal(
        running, access, People(running, count=people, steps=steps, seed=seed), count=people, days=days, first=first,
        staff=True, progress=progress,
    )  # fmt: skip
    rehearsal.run()
    access.expire(clock.from_datetime(rehearsal.calendar.at(days, 0)))
    return database, rehearsal


def days_of(running: StudyInForce, people: int) -> int:
    """The number of days from the first enrolment to the last participant's last decision."""
    settings = running.study.settings
    spread = settings.participants.enrolment_days if settings.participants.first_day is not None else 1
    own = -(-running.horizon // decisions_per_day(settings))
    return (people - 1) * spread // people + own
