"""What was simulated is what runs: the decisions of a rehearsal beside those of `simulate`."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from opportune.rehearsal.conditions import most_late
from opportune.rehearsal.people import People
from opportune.service.state import clock
from opportune.study.arrivals import decisions_per_day


class Compared(NamedTuple):
    """How many decisions were compared, and a sentence for each that differs."""

    decisions: int
    differing: list[str]


def why_not(people: People, *, staff: bool, fast: bool, count: int) -> str | None:
    """Why decisions cannot be compared with those of `simulate`; None if they can."""
    running = people.running
    if not staff:
        return "without --staff calls are answered by people, or by nobody"
    if not fast:
        return "at this speed the service's clock may close windows first"
    if people.seed != running.seed:
        return f"the seed is {people.seed}, and the study's coins are tossed with its own, {running.seed}"
    step = 24 * clock.HOUR // decisions_per_day(running.study.settings)
    if (most_late(people.met(0).worlds[0]) + 1) * step > running.reward_window:
        return "rewards may come later than wait_hours in [reward], and are given up then"
    if running.policy.shared and count != running.participants:
        return f"a budget for {running.participants} participants is shared, and {count} were rehearsed"
    return None


def compare(people: People, decisions: Mapping[int, Iterable[Mapping[str, Any]]]) -> Compared:
    """Compare decisions, {participant's number: its decisions as the API shows them}, with what `simulate` decides."""
    trace = people.simulated(max(decisions) + 1)
    names = people.met(0).worlds[0].problem.action_names
    wanted = {name: trace[name].values for name in ("nudged", "revealed", "available", "action", "probability")}
    compared, differing = 0, []
    for number, made in decisions.items():
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
