"""The rows of `decisions` that an event adds or changes: readable without folding, and checked by `verify`."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from opportune.live.point import LEARNED, NOTHING, SKIPPED
from opportune.service.record import events
from opportune.service.record.events import Event
from opportune.service.state.participant import FALLBACK_MODE, LEARNED_MODE, Participant
from opportune.service.state.schedule import counted_day, day_of
from opportune.service.state.study import StudyInForce


class Change(NamedTuple):
    """Columns of one decision: those of a new row, or the changed ones of an existing row."""

    new: bool
    values: dict[str, Any]


def changes(event: Event, person: Participant, running: StudyInForce, received: int, happened: int) -> list[Change]:
    """The changes that an event makes to `decisions`."""
    if event.kind == events.PROPOSED:
        return [Change(True, _proposed(event, person, running, received, happened))]
    maker = _MAKERS.get(event.kind)
    return [] if maker is None else [Change(False, maker(event, person, running, received, happened))]


def uncovered(person: Participant, sealed: Iterable[int], given: Mapping[str, Any], seq: int) -> list[dict[str, Any]]:
    """The changes of a reveal to earlier decisions: those that it uncovers, and those whose values it reports."""
    changed, named = [], given.get("earlier") or ()
    for number in sealed:
        entry = person.agent.steps[number]
        if entry.seen or str(number) in named:
            decision = person.decisions[number - 1]
            values = {"id": decision, "seq": seq, "seen": entry.seen, "reported": _text(entry.reported)}
            if str(number) in named:  # the reveal replaces a correction
                values["reported_corrected"] = None
            changed.append(values)
    return changed


def known_of(row: Mapping[str, Any]) -> str | None:
    """The reported values of a decision that a reveal has uncovered; until then they are sealed."""
    seen = row["seen"] and row["mode"] == LEARNED_MODE  # a fallback's decision is never uncovered
    told = row["status"] == "settled" and (row["revealed"] or seen)
    return (row["reported_corrected"] or row["reported"]) if told else None


def _proposed(event: Event, person: Participant, running: StudyInForce, received: int, happened: int) -> dict[str, Any]:
    answer, given = event.answer, event.given
    done = answer.get("settled")
    entry = person.agent.steps[_step(event)]
    told, nudged, stale = entry.reported, answer["nudged"], answer["stale"]
    day = day_of(happened, person.began, person.timezone)
    return {
        "id": event.decision, "participant": person.name, "step": event.step, "seq": event.seq,
        "day": counted_day(running, day, _step(event)), "happened": happened, "received": received,
        "timezone": person.timezone, "sensed": _text(entry.given),
        "reported": _text(told),
        "available": answer["available"], "reason": answer["reason"], "nudge": nudged,
        "probability": answer["probability"], "coin": answer["coin"], "gap": answer["gap"], "price": answer["price"],
        "disagreement": answer["disagreement"], "tolerance": answer["tolerance"], "fresh_action": answer["fresh"],
        "stale_action": stale, "budget_before": answer["before"], "budget_left": answer["left"],
        "mode": given.get("mode", LEARNED_MODE), "why": (done or answer)["why"],
        "eligible": "ineligible" not in answer, "ineligible_reason": answer.get("ineligible"),
        "expires": _answered_by(running, given, happened) if nudged and done is None else None,
        "status": "nudge" if done is None else "settled",
        "outcome": None if done is None else done["outcome"], "settled": None if done is None else received,
        "action": answer.get("standing", stale) if done is None else done["action"],
        "revealed": done is not None and done["revealed"],
        "offline": given.get("shown") is not None, "answered_late": None,
        "seen": entry.seen, "unanswered": entry.unanswered,
        "reported_first": None, "reported_corrected": None, "outcome_corrected": None,
        "reward_status": entry.status, "reward": None, "reward_received": None, "reward_first": None,
        "reward_changes": 0, "reward_due": None if entry.status == NOTHING else happened + running.reward_window,
        "features": event.study[:12], "version": event.version,
    }  # fmt: skip


def _answered_by(running: StudyInForce, given: Mapping[str, Any], happened: int) -> int:
    """When the answer window of a nudge ends: at the end of the staff's hours at the latest."""
    until: int = (given.get("slot") or {}).get("until", happened + running.answer_window)
    return until


def _settled(event: Event, person: Participant, running: StudyInForce, received: int, happened: int) -> dict[str, Any]:
    entry = person.agent.steps[_step(event)]
    by_fallback = {"mode": FALLBACK_MODE, "reward_status": entry.status, "reward_due": None}
    return {
        "id": event.decision, "seq": event.seq, "status": "settled", "outcome": event.answer["outcome"],
        "settled": received, "action": event.answer["action"], "revealed": event.answer["revealed"],
        "why": event.answer["why"], "offline": event.given.get("shown") is not None,
        "reported": _text(entry.reported), "seen": entry.seen, "unanswered": entry.unanswered,
        **(by_fallback if event.given.get("mode") == FALLBACK_MODE else {}),
    }  # fmt: skip


def _answered_late(
    event: Event, person: Participant, running: StudyInForce, received: int, happened: int
) -> dict[str, Any]:
    entry = person.agent.steps[_step(event)]
    return {
        "id": event.decision, "seq": event.seq, "answered_late": received, "reported": _text(entry.reported),
        "unanswered": entry.unanswered,
    }  # fmt: skip


def _rewarded(event: Event, person: Participant, running: StudyInForce, received: int, happened: int) -> dict[str, Any]:
    reward = event.given["reward"]
    return {
        "id": event.decision, "seq": event.seq, "reward": reward, "reward_received": received, "reward_first": reward,
        "reward_status": LEARNED if event.answer["learned"] else NOTHING, "reward_due": None,
    }  # fmt: skip


def _corrected(
    event: Event, person: Participant, running: StudyInForce, received: int, happened: int
) -> dict[str, Any]:
    return {
        "id": event.decision, "seq": event.seq, "reward": event.given["reward"], "reward_received": received,
        "reward_changes": event.given["changes"],
    }  # fmt: skip


def _reported_corrected(
    event: Event, person: Participant, running: StudyInForce, received: int, happened: int
) -> dict[str, Any]:
    """The corrected values for the analysis, the values first reported, and those that the model uses."""
    entry = person.agent.steps[_step(event)]
    return {
        "id": event.decision, "seq": event.seq, "reported": _text(entry.reported),
        "reported_first": _text(event.given["first"]), "reported_corrected": _text(event.given["reported"]),
    }  # fmt: skip


def _outcome_corrected(
    event: Event, person: Participant, running: StudyInForce, received: int, happened: int
) -> dict[str, Any]:
    return {"id": event.decision, "seq": event.seq, "outcome_corrected": event.given["outcome"]}


def _skipped(event: Event, person: Participant, running: StudyInForce, received: int, happened: int) -> dict[str, Any]:
    return {"id": event.decision, "seq": event.seq, "reward_status": SKIPPED, "reward_due": None}


_MAKERS = {
    events.SETTLED: _settled,
    events.ANSWERED_LATE: _answered_late,
    events.REWARDED: _rewarded,
    events.CORRECTED: _corrected,
    events.SKIPPED: _skipped,
    events.REPORTED_CORRECTED: _reported_corrected,
    events.OUTCOME_CORRECTED: _outcome_corrected,
}


def _step(event: Event) -> int:
    assert event.step is not None
    return event.step


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
