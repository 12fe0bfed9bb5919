"""Compares the decisions of a rehearsal with those of `simulate`: what was simulated is what runs."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from opportune.rehearsal.calendar import first_days
from opportune.rehearsal.conditions import most_late
from opportune.rehearsal.people import People
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.study.arrivals import decisions_per_day


class Compared(NamedTuple):
    """The number of decisions compared, and a sentence for each that differs."""

    decisions: int
    differing: list[str]


def why_not(people: People, *, staff: bool, fast: bool, count: int) -> str | None:
    """Why decisions cannot be compared with those of `simulate`; None if they can."""
    running = people.running
    if not staff:
        return "without --staff, people answer calls, or nobody does"
    if not fast:
        return "at this speed, the service's clock may close windows first"
    if people.seed != running.seed:
        return f"the seed is {people.seed}, but the study draws with its own, {running.seed}"
    step = 24 * clock.HOUR // decisions_per_day(running.study.settings)
    if (most_late(people.conditions(0).worlds[0]) + 1) * step > running.reward_window:
        return "rewards may arrive later than wait_hours in [reward], when they no longer count"
    return _not_alike(running, count)


def _not_alike(running: StudyInForce, count: int) -> str | None:
    """Why participants share something else than in `simulate`; None if they share the same."""
    if len(running.policies) > 1 and running.together:
        return "participants of several arms share a budget or a model, and simulate runs each arm separately"
    if running.shared and count != running.participants:
        return f"the shared budget is for {running.participants} participants, but {count} were rehearsed"
    if running.pooling and any(first_days(count, running)):
        return "participants begin on different days, and the pooled part of their models changes with the calendar"
    return None


def compare(
    people: People, decisions: Mapping[int, Iterable[Mapping[str, Any]]], arms: Mapping[int, str], *, count: int = 0
) -> Compared:
    """Compare decisions, {participant's number: their decisions as the API shows them}, with those of `simulate`.

    `count` is the number of participants, including those who have not begun: the days on which they begin depend on
    it.
    """
    names = people.conditions(0).worlds[0].problem.action_names
    traces = {
        arm: {name: trace[name].values for name in ("nudged", "revealed", "available", "action", "probability")}
        for arm, trace in people.simulated(max(count, *(number + 1 for number in decisions))).items()
    }
    compared, differing = 0, []
    for number, made in decisions.items():
        wanted = traces[arms[number]]
        for decision in made:
            nudged, revealed, available, action, probability = (
                values[number, decision["step"] - 1].item() for values in wanted.values()
            )
            expected = {
                "nudge": nudged, "revealed": revealed, "available": available, "action": names[action],
                "probability": probability,
            }  # fmt: skip
            other = [
                f"{name} is {decision[name]!r}, simulated {value!r}"
                for name, value in expected.items()
                if decision[name] != value
            ]
            compared += 1
            if other:
                differing.append(f"{decision['participant']}, decision {decision['step']}: {', '.join(other)}")
    return Compared(compared, differing)
