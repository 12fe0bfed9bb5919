"""The bundle that a phone carries: which advice is valid from when until when, by the participant's own clock."""

import datetime as dt
from typing import Any

from opportune.service.state import clock, schedule
from opportune.service.state.content import content_version
from opportune.service.state.participant import Participant
from opportune.service.state.study import StudyInForce


def bundle_of(running: StudyInForce, person: Participant, now: int, *, standing: str | None) -> dict[str, Any]:
    """A participant's bundle; `standing` is the action of the latest decision point, None before the first."""
    made = person.agent.bundle(dt.datetime.fromtimestamp(now / 1e6, dt.UTC))
    step = made["after_step"]
    points = [
        {"step": point["step"], **_times(running, person, point["step"]), **_split(point)}
        for point in made.get("actions", [])
    ]
    if "strata" in made and running.times:  # the times are known in advance, the public variables are not
        points = [
            {"step": number, **_times(running, person, number), "values": {}, "action": None}
            for number in range(step + 1, running.horizon + 1)
        ]
    current = None
    if standing is not None:
        times = _times(running, person, step)
        if times["at"] is None and person.last_decided is not None:
            times["at"] = _local(person.last_decided, person.timezone)
        current = {"step": step, **times, "values": {}, "action": standing}
    last = points[-1]["until"] if points else current and current["until"]
    return {
        "participant": person.name, "version": made["version"], "made": clock.iso(now), "timezone": person.timezone,
        "after_step": step, "content": content_version(running), "until": last, "now": current, "points": points,
        "strata": [_split(stratum) for stratum in made.get("strata", [])],
    }  # fmt: skip


def _times(running: StudyInForce, person: Participant, step: int) -> dict[str, str | None]:
    """When a decision point and its successor come; None for both if the study has no decision times."""
    if not running.times:
        return {"at": None, "until": None}
    return {"at": _comes(running, person, step), "until": _comes(running, person, step + 1)}


def _comes(running: StudyInForce, person: Participant, step: int) -> str:
    """When a decision point comes, in the participant's time zone on that date."""
    zone = person.zone_on(schedule.date_of(running, step, person.began))
    return _local(schedule.time_of(running, step, person.began, zone), zone)


def _local(moment: int, timezone: str) -> str:
    return clock.local(moment, timezone).isoformat(timespec="seconds")


def _split(entry: dict[str, Any]) -> dict[str, Any]:
    """The public values of a decision point, and its action."""
    values = {name: value for name, value in entry.items() if name not in {"step", "action"}}
    return {"values": values, "action": entry["action"]}
