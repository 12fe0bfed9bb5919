"""The demonstration: an example study in the middle of its course, which ends now."""

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
"""By the place of the latest decision time; tried until somebody waits for whom every answer changes the advice."""
STAFF = ("nurse", "coordinator")
LAST = dt.timedelta(minutes=105)
"""How long ago the last decision time was; the window for answers is two hours."""
APART = dt.timedelta(hours=8)
ENOUGH = 30 * clock.MINUTE
"""How long somebody should still wait to be called, so that there is time to look."""
SILENT, SILENT_DAYS = 30, 2
CALLED = 3
"""Calls that were made since, of those that the last decision time brought."""
STATUSES = {(5, 20): "paused", (16, 17): "paused", (8, 9): "withdrawn", (22, 14): "withdrawn"}
"""What became of whom (place, day)."""


def local_timezone() -> str:
    """The time zone of the machine by its IANA name, as far as it says; otherwise UTC."""
    found = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError):
        found = found or Path("/etc/localtime").resolve(strict=True).as_posix().partition("zoneinfo/")[2]
    try:
        clock.zone(found)
    except InputError:
        return "UTC"
    return found


class Clock(NamedTuple):
    """When the study has its decision times, so that its course ends now."""

    times: tuple[str, str]
    latest: dt.datetime
    place: int
    """Which of the times the latest is."""


def clock_for(now: dt.datetime) -> Clock:
    """Decision times eight hours apart, of which one was a while ago; `now` is by the study's own clock."""
    latest = now - LAST
    latest = latest.replace(minute=latest.minute // 5 * 5, second=0, microsecond=0)
    place = int(latest.hour >= 14)
    other = latest + (-APART if place else APART)
    first, second = sorted([latest, other])
    return Clock((first.strftime("%H:%M"), second.strftime("%H:%M")), latest, place)


def study_text(times: tuple[str, str], timezone: str, language: str = "en") -> str:
    """The study file."""
    folder = files("opportune.rehearsal")
    own = folder.joinpath(f"demo_study.{language}.toml")
    text = (own if own.is_file() else folder.joinpath("demo_study.toml")).read_text(encoding="utf-8")
    text = text.replace('["08:00", "16:00"]', f'["{times[0]}", "{times[1]}"]')
    return text.replace('timezone = "UTC"', f'timezone = "{timezone}"')


def fill(
    folder: Path, *, timezone: str, language: str = "en", now: dt.datetime | None = None,
    told: Callable[[int, int], None] = lambda _done, _all: None,
) -> Database:  # fmt: skip
    """A study in a folder that is in the middle of its course at a time, by default now; hands back its database."""
    now = (dt.datetime.now(dt.UTC) if now is None else now).astimezone(clock.zone(timezone))
    when = clock_for(now)
    text = study_text(when.times, timezone, language)
    for seed in SEEDS[when.place]:
        for file in folder.glob("study.db*"):
            file.unlink()
        database = _played(folder, re.sub(r"(?m)^seed = \d+$", f"seed = {seed}", text), now, when, language, told)
        watched = most_changed(database, clock.from_datetime(now))
        if seed == SEEDS[when.place][-1] or (watched is not None and watched.always):
            break
        database.close()
    return database


def _played(
    folder: Path, text: str, now: dt.datetime, when: Clock, language: str, told: Callable[[int, int], None]
) -> Database:
    """The study of a text, played up to now."""
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
    course = Course(running, access, people, count=COUNT, days=DAYS, first=first, staff=True, told=told)
    course.language = language
    course.run_until(when.latest.astimezone(dt.UTC))
    course.last_hours(now)
    alerts = Alerts(database)
    alerts.viewed.note(open_nudges(database, limit=1000))
    alerts.viewed.write()
    alerts.look(clock.from_datetime(now))
    return database


class Watched(NamedTuple):
    """Somebody who waits to be called."""

    participant: str
    always: bool
    """Whether the advice will be another whatever is answered, and there is time to look."""


def most_changed(database: Database, now: int) -> Watched | None:
    """Who waits to be called and will most probably be advised otherwise then; None where nobody waits.

    Of several the most urgent who waits for another half hour.
    """
    with database.reading.connect() as connection:
        people = rebuilt(connection).participants

    def judged(row: Mapping[str, Any]) -> tuple[bool, int, bool, int]:
        agent = people[row["participant"]].agent
        levels: dict[str, Any] = {name: agent.problem.variables[name] for name in agent.reported_names}
        told = (dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values()))
        changes = [_copy(agent).settle(answered=True, reported=each).action != row["action"] for each in told]
        in_time = row["expires"] > now + ENOUGH
        return all(changes) and in_time, sum(changes), in_time, -row["expires"]

    waiting = {row["participant"]: judged(row) for row in open_nudges(database, limit=100)}
    if not waiting:
        return None
    chosen = max(waiting, key=lambda name: waiting[name])
    return Watched(str(chosen), waiting[chosen][0])


def participant_to_watch(database: Database, now: int | None = None) -> str | None:
    """Whose phone to look at; None where nobody waits to be called."""
    found = most_changed(database, clock.now() if now is None else now)
    return None if found is None else found.participant


def _copy(agent: Agent) -> Agent:
    return Agent.from_dict(agent.to_dict())


class Course(Rehearsal):
    """A rehearsal with what happens in any study: holidays, people who leave, notes, a phone that falls silent."""

    language = "en"
    access: DirectAccess

    def run_until(self, end: dt.datetime) -> None:
        """Everything before a time."""
        last = -1
        for moment in self.calendar.moments(self.days):
            if moment.at >= end:
                break
            day = (moment.at.astimezone(clock.zone(self.running.timezone)).date() - self.calendar.first).days
            if day != last:
                self._happen(day, moment.at)
                last = day
            self.pass_moment(moment)

    def _happen(self, day: int, at: dt.datetime) -> None:
        """What happens on a day besides decisions."""
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
        """The last decision time: phones ask one after the other since then, and some calls were made."""
        moments = [moment for moment in self.calendar.moments(self.days) if moment.at <= now]
        moment = moments[-1]
        asking = [place for place, member in self.members.items() if member.active and place in moment.steps]
        asking.sort(key=lambda place: place * 17 % COUNT)
        span = now - moment.at - dt.timedelta(minutes=4)
        for i, place in enumerate(asking):
            at = moment.at + span * (i / len(asking))
            self.ask([(self.members[place], moment.steps[place])], at)
        called = list(self.access.calls())[2 : 2 + CALLED]  # the most urgent still wait
        members = {member.name: member for member in self.members.values()}
        self.call([members[call["participant"]] for call in called], now - dt.timedelta(minutes=14))
        waiting = list(self.access.calls())
        if waiting:
            self.access.try_call(waiting[0]["decision"], now - dt.timedelta(minutes=2))
