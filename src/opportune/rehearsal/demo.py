"""The demonstration: an example study in mid-course, simulated up to now."""

import datetime as dt
import itertools
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from opportune.errors import InputError
from opportune.live.agent import Agent
from opportune.rehearsal.access import NOTE, STATUS, Write
from opportune.rehearsal.demo_texts import NOTES, REASONS
from opportune.rehearsal.direct import DirectAccess
from opportune.rehearsal.drive import Rehearsal, name_of
from opportune.rehearsal.people import People
from opportune.service.commands.administration import Launch
from opportune.service.monitoring.alerts import Alerts
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import open_nudges
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import rebuilt

COUNT, DAYS = 40, 24
SEEDS = ((42, 40, 37, 51), (47, 61, 51, 43))
"""Seeds by the place of the latest decision time, tried until a waiting participant's advice will surely change."""
STAFF = ("nurse", "coordinator")
LAST = dt.timedelta(minutes=105)
"""How long ago the last decision time was; the window for answers is two hours."""
APART = dt.timedelta(hours=8)
ENOUGH = 30 * clock.MINUTE
"""How long the watched call should stay open, so that there is time to look."""
SILENT, SILENT_DAYS = 30, 2
CALLED = 3
"""How many of the calls from the last decision time have been made since."""
STATUSES = {(5, 20): "paused", (16, 17): "paused", (8, 9): "withdrawn", (22, 14): "withdrawn"}
"""Changes of status, by (place, day)."""


def local_timezone() -> str:
    """The IANA name of the machine's time zone, or UTC if it cannot be found."""
    found = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError):
        found = found or Path("/etc/localtime").resolve(strict=True).as_posix().partition("zoneinfo/")[2]
    try:
        clock.zone(found)
    except InputError:
        return "UTC"
    return found


class Clock(NamedTuple):
    """The study's decision times, chosen so that its course ends now."""

    times: tuple[str, str]
    latest: dt.datetime
    place: int
    """The index of the latest decision time in `times`."""


def clock_for(now: dt.datetime) -> Clock:
    """Decision times eight hours apart, the latest a while ago; `now` is in the study's time zone."""
    latest = now - LAST
    latest = latest.replace(minute=latest.minute // 5 * 5, second=0, microsecond=0)
    place = int(latest.hour >= 14)
    other = latest + (-APART if place else APART)
    first, second = sorted([latest, other])
    return Clock((first.strftime("%H:%M"), second.strftime("%H:%M")), latest, place)


def study_text(times: tuple[str, str], timezone: str, language: str = "en") -> str:
    """The demonstration's study file."""
    folder = files("opportune.rehearsal")
    own = folder.joinpath(f"demo_study.{language}.toml")
    text = (own if own.is_file() else folder.joinpath("demo_study.toml")).read_text(encoding="utf-8")
    text = text.replace('["08:00", "16:00"]', f'["{times[0]}", "{times[1]}"]')
    return text.replace('timezone = "UTC"', f'timezone = "{timezone}"')


def fill(
    folder: Path, *, timezone: str, language: str = "en", now: dt.datetime | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Database:  # fmt: skip
    """Simulate a study in a folder up to a time, by default now; returns its database."""
    now = (dt.datetime.now(dt.UTC) if now is None else now).astimezone(clock.zone(timezone))
    when = clock_for(now)
    text = study_text(when.times, timezone, language)
    for seed in SEEDS[when.place]:
        for file in folder.glob("study.db*"):
            file.unlink()
        seeded = re.sub(r"(?m)^seed = \d+$", f"seed = {seed}", text)
        database = _simulated(folder, seeded, now, when, language, progress)
        watched = most_changed(database, clock.from_datetime(now))
        if seed == SEEDS[when.place][-1] or (watched is not None and watched.always):
            break
        database.close()
    return database


def _simulated(
    folder: Path, text: str, now: dt.datetime, when: Clock, language: str, progress: Callable[[int, int], None]
) -> Database:
    """The database of a study file, simulated up to now."""
    file, timezone = folder / "study.toml", str(now.tzinfo)
    file.write_text(text, encoding="utf-8")
    running = StudyInForce.from_file(file)
    database = Database(file_url(folder.resolve() / "study.db"))
    database.migrate()
    access = DirectAccess(database, staff=STAFF)
    first = when.latest.date() - dt.timedelta(days=DAYS - 1)
    begun = dt.datetime.combine(first, dt.time(0), clock.zone(timezone))
    access.writer.do(
        Launch(
            who=STAFF[1],
            received=clock.from_datetime(begun),
            file=running.text,
            source=running.study.source,
            rehearsal=True,
        )
    )
    people = People(running, count=COUNT, steps=DAYS * 2)
    course = Course(running, access, people, count=COUNT, days=DAYS, first=first, staff=True, progress=progress)
    course.language = language
    course.run_until(when.latest.astimezone(dt.UTC))
    course.last_hours(now)
    alerts = Alerts(database)
    alerts.viewed.note(open_nudges(database, limit=1000))
    alerts.viewed.write()
    alerts.look(clock.from_datetime(now))
    return database


class Watched(NamedTuple):
    """A participant who waits to be called."""

    participant: str
    always: bool
    """Whether every answer will change the advice, and there is time to look."""


def most_changed(database: Database, now: int) -> Watched | None:
    """The waiting participant whose advice most answers would change; None if nobody waits.

    Among equals, the most urgent whose call stays open for another half hour.
    """
    with database.reading.connect() as connection:
        people = rebuilt(connection).participants

    def judged(row: Mapping[str, Any]) -> tuple[bool, int, bool, int]:
        agent = people[row["participant"]].agent
        levels: dict[str, Any] = {name: agent.problem.variables[name] for name in agent.reported_names}
        answers = (dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values()))
        changes = [_copy(agent).settle(answered=True, reported=each).action != row["action"] for each in answers]
        in_time = row["expires"] > now + ENOUGH
        return all(changes) and in_time, sum(changes), in_time, -row["expires"]

    waiting = {row["participant"]: judged(row) for row in open_nudges(database, limit=100)}
    if not waiting:
        return None
    chosen = max(waiting, key=lambda name: waiting[name])
    return Watched(str(chosen), waiting[chosen][0])


def participant_to_watch(database: Database, now: int | None = None) -> str | None:
    """The participant whose phone to show; None if nobody waits to be called."""
    found = most_changed(database, clock.now() if now is None else now)
    return None if found is None else found.participant


def _copy(agent: Agent) -> Agent:
    return Agent.from_dict(agent.to_dict())


class Course(Rehearsal):
    """A rehearsal with the events of any study: holidays, people who leave, notes, a phone that falls silent."""

    language = "en"
    access: DirectAccess

    def run_until(self, end: dt.datetime) -> None:
        """Go through everything before a time."""
        last = -1
        for moment in self.calendar.moments(self.days):
            if moment.at >= end:
                break
            day = (moment.at.astimezone(clock.zone(self.running.timezone)).date() - self.calendar.first).days
            if day != last:
                self._add_events(day, moment.at)
                last = day
            self.pass_moment(moment)

    def _add_events(self, day: int, at: dt.datetime) -> None:
        """Write a day's changes of status and notes."""
        writes = []
        reasons = REASONS.get(self.language, REASONS["en"])
        for (place, when), status in STATUSES.items():
            if when == day:
                name = name_of(place)
                writes.append(Write(STATUS, name, {"status": status, "reason": reasons[place]}, name))
        for place, when, text in NOTES.get(self.language, NOTES["en"]):
            if when == day:
                writes.append(Write(NOTE, name_of(place), {"text": text}, name_of(place)))
        if writes:
            self.access.write(writes, at)
        if day == DAYS - SILENT_DAYS:
            self.members[SILENT].active = False

    def last_hours(self, now: dt.datetime) -> None:
        """Go through the last decision time: phones ask one after the other until now, and staff make some calls."""
        moments = [moment for moment in self.calendar.moments(self.days) if moment.at <= now]
        moment = moments[-1]
        asking = [place for place, member in self.members.items() if member.active and place in moment.steps]
        asking.sort(key=lambda place: place * 17 % COUNT)
        span = now - moment.at - dt.timedelta(minutes=4)
        for i, place in enumerate(asking):
            at = moment.at + span * (i / len(asking))
            self.ask([(self.members[place], moment.steps[place])], at)
        called = list(self.access.calls())[2 : 2 + CALLED]  # the most urgent two stay open
        members = {member.name: member for member in self.members.values()}
        self.call([members[call["participant"]] for call in called], now - dt.timedelta(minutes=14))
        waiting = list(self.access.calls())
        if waiting:
            self.access.try_call(waiting[0]["decision"], now - dt.timedelta(minutes=2))
