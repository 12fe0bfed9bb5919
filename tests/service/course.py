"""A course of a study: what participants, apps and staff do, drawn from a seed, for tests to drive a writer with."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from opportune.service.commands.administration import Launch
from opportune.service.commands.base import Command
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.problems import Refused
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock

Write = Callable[[Sequence[Command]], "list[Reply | Exception]"]
BEGIN = clock.from_iso("2026-03-02T08:00:00Z")


def launch(writer: Writer, text: str, received: int = BEGIN, *, rehearsal: bool = True) -> None:
    """Launch a study; as a rehearsal, whose coins are the same every time, unless it is said to be with people."""
    writer.do(Launch(who="test", received=received, file=text, source="study.toml", rehearsal=rehearsal))


def answer_of(reply: "Reply | Exception") -> dict[str, Any]:
    """What was answered; whatever was refused is raised."""
    if isinstance(reply, Exception):
        raise reply
    found: dict[str, Any] = msgspec.json.decode(reply.body)
    return found


def sensed(rnd: random.Random) -> dict[str, Any]:
    """What an app senses."""
    return {
        "time_of_day": rnd.choice(["morning", "evening"]),
        "stress": rnd.randrange(4),
        "sleep": rnd.choice(["good", "poor"]),
    }


def run_course(  # noqa: PLR0912  (so much can happen)
    write: Write, *, people: int = 4, steps: int = 30, seed: int = 1, apart: int = clock.MINUTE
) -> list[Reply | Exception]:
    """All that can happen: openings, unavailability, nudges answered, unanswered and late, rewards late and wrong.

    Hands back every answer, in order. Rounds are a minute `apart`; `write` is handed lists of commands.
    """
    replies: list[Reply | Exception] = []
    rnd, now = random.Random(seed), BEGIN
    names = [f"P{i:03d}" for i in range(people)]

    def do(commands: Sequence[Command]) -> list[Reply | Exception]:
        for number, command in enumerate(commands):
            command.key, command.fingerprint = f"{len(replies)}.{number}", "same"
        found = write(commands) if commands else []
        replies.extend(found)
        return found

    do([Enrol(who="staff", received=now, participant=name, timezone="Europe/Berlin") for name in names])
    unrewarded: list[str] = []
    unanswered: list[str] = []
    for _ in range(steps):
        now += apart
        asked: list[Command] = []
        for name in names:
            given: dict[str, Any] = {"sensed": sensed(rnd), "opened": rnd.random() < 0.05}
            if rnd.random() < 0.5:
                given["reported"] = {"mood": rnd.choice(["good", "low"])}
            if rnd.random() < 0.1:
                given |= {"available": False, "reason": "driving", "opened": False}
            elif rnd.random() < 0.05:
                given["sensed"]["stress"] = None
            asked.append(Propose(who="app", received=now, participant=name, given=given))
        made = [answer_of(reply) for reply in do(asked)]
        answers: list[Command] = []
        for decision in made:
            if decision["status"] != "nudge":
                continue
            draw = rnd.random()
            if draw < 0.5:
                told = {"mood": rnd.choice(["good", "low"])}
                answers.append(
                    Answer(who="staff", received=now, decision=decision["decision"], answered=True, reported=told)
                )
            elif draw < 0.7:
                answers.append(Answer(who="staff", received=now, decision=decision["decision"], answered=False))
                unanswered.append(decision["decision"])
            # else it stays open, and the next decision point settles it
        do(answers)
        if unanswered and rnd.random() < 0.5:
            late = unanswered.pop(0)
            do([Answer(who="app", received=now, decision=late, answered=True, reported={"mood": "low"})])
        unrewarded += [decision["decision"] for decision in made]
        rnd.shuffle(unrewarded)
        arriving, unrewarded = unrewarded[:people], unrewarded[people:]
        rewarded = [Reward(who="app", received=now, decision=d, reward=rnd.gauss(0.0, 1.0)) for d in arriving]
        for command, reply in zip(rewarded, do(rewarded), strict=True):
            if isinstance(reply, Refused):
                assert reply.code == "not_settled"
                unrewarded.append(command.decision)
            elif rnd.random() < 0.1:
                do([
                    Reward(
                        who="staff", received=now, decision=command.decision, reward=command.reward + 0.5,
                        corrects=True, reason="read wrongly",
                    )
                ])  # fmt: skip
    do([SetStatus(who="staff", received=now, participant=names[0], status="withdrawn", reason="moved away")])
    return replies
