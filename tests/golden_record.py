"""The golden record: decisions of every kind that a service makes, pinned to the version of the algorithm.

`python tests/golden_record.py` writes golden_record.json anew, once `ALGORITHM` has a new number; studies that are new
here are added to it at any time. Of each hundred decisions it has a hash of what must be equal everywhere (nudge,
actions, outcome, coin), and the sum of their probabilities, which may differ by rounding.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "service"))

from course import BEGIN, launch, run_course, sensed  # noqa: E402
from study_text import numeric, study_text  # noqa: E402

from opportune.algorithm.version import ALGORITHM  # noqa: E402
from opportune.live.agent import Agent  # noqa: E402
from opportune.service.commands.administration import Amend, Close  # noqa: E402
from opportune.service.commands.corrections import CorrectReported, CorrectZone  # noqa: E402
from opportune.service.commands.decisions import Answer, Propose  # noqa: E402
from opportune.service.commands.expiry import GiveUp  # noqa: E402
from opportune.service.commands.openings import Open  # noqa: E402
from opportune.service.commands.participants import Enrol, SetStatus  # noqa: E402
from opportune.service.commands.rewards import Reward  # noqa: E402
from opportune.service.commands.safety import WantCalls  # noqa: E402
from opportune.service.record import events, secret  # noqa: E402
from opportune.service.record.database import Database, file_url  # noqa: E402
from opportune.service.record.queries import event_rows  # noqa: E402
from opportune.service.record.writer import Writer  # noqa: E402
from opportune.service.state import clock  # noqa: E402

FILE = HERE / "golden_record.json"
AT_ONCE = 100
PEOPLE, STEPS = 6, 62
TRIAL_PEOPLE, TRIAL_DAYS = 8, 42
POOLED = 'kind = "PACE"\n'


def studies() -> dict[str, str]:
    """Study files: every rule, every recommender, all that participants may share, contexts finite and not."""
    unknown = re.sub(r"(?m)^known = .*$", "known = false", study_text())
    together: dict[str, Any] = {"shared": True, "pooled": True, "hard": True, "budget": 40.0}
    return {
        **{
            policy: study_text(policy=policy, budget=60)
            for policy in ("naive", "PD1", "PD2", "periodic", "always", "never")
        },
        "PACE": study_text(),
        "PACE shared": study_text(shared=True, budget=40),
        "PACE pooled": study_text(pooled=True),
        "PACE together, hard": study_text(**together),
        "PACE thompson": study_text().replace(POOLED, f'{POOLED}recommender = "thompson"\n', 1),
        "PACE random": study_text().replace(POOLED, f'{POOLED}recommender = "random"\n', 1),
        "PACE randomised": study_text().replace(POOLED, f"{POOLED}randomise = 0.2\n", 1),
        "numbers": numeric(study_text()),
        "numbers together, hard": numeric(study_text(**together)),
        "PACE, probabilities learned": unknown,
        "PACE rotating, guarded": study_text().replace(POOLED, f"{POOLED}rotate = true\nguard = 0.5\n", 1),
    }


def trials() -> dict[str, str]:
    """A trial with arms in strata, a run-in, staff hours, caps, forbidden actions, histories and priors."""
    text = (HERE / "golden_trial.toml").read_text(encoding="utf-8")  # not the example, which may change
    thompson = text.replace(POOLED, f'{POOLED}recommender = "thompson"\npooled = true\n', 1)
    return {
        "trial": text,
        "trial, thompson, pooled, learned weekly": thompson.replace('update = "day"', 'update = "week"'),
        "trial, by itself": text.replace('update = "day"', 'update = "each reward"').replace("hard", "expected", 1),
        "trial, pooled in part": text.replace(POOLED, f'{POOLED}pooled = "partial"\n', 1),
    }


def decisions_of(text: str, *, rehearsal: bool, trial: bool = False) -> list[tuple[list[Any], float]]:
    """Every decision of a study in which everything happens: what must be equal, and the probability."""
    with tempfile.TemporaryDirectory() as name:
        database = Database(file_url(Path(name) / "study.db"))
        database.migrate()
        writer = Writer(database)
        with mock.patch.object(secret, "random_bytes", lambda count: bytes(range(count))):
            launch(writer, text, rehearsal=rehearsal)
        if trial:
            _run_trial(writer)
        else:
            run_course(writer.write, people=PEOPLE, steps=STEPS, seed=7)
            _go_on(writer, text)
        found = [events.decode(row["body"]) for row in event_rows(database, limit=1_000_000)]
        database.close()
    return list(_decided(found))


def _go_on(writer: Writer, text: str) -> None:
    """A fallback, a reward given up, an amendment, a pause, a newcomer, and the end."""
    rnd, later = Random(8), BEGIN + 2 * clock.HOUR
    writer.do(Enrol(who="staff", received=later, participant="late", timezone="Asia/Tokyo"))
    changed = text.replace('fallback = "rest"', 'fallback = "walk"')
    writer.do(Amend(who="boss", received=later, file=changed, source="study.toml", reason="ethics"))
    for number in range(8):
        now = later + number * clock.MINUTE
        if number == 5:
            writer.do(SetStatus(who="staff", received=now, participant="P001", status="paused", reason="away"))
        for name in ("late", "P001"):
            ask = Propose(who="app", received=now, participant=name, given={"sensed": sensed(rnd)})
            with _failing() if number in {2, 3} else _as_ever():
                made = json.loads(writer.do(ask).body)
            if made["status"] == "settled" and number == 4:
                writer.do(GiveUp(who="service", received=now + 400 * clock.HOUR, decision=made["decision"]))
    writer.do(Close(who="boss", received=later + clock.HOUR, reason="over"))


def _run_trial(writer: Writer) -> None:
    """Weeks of a trial by the clock: calls answered or not, openings between decision points, corrections, refusals."""
    rnd, first = Random(9), clock.from_iso("2026-12-01T07:00:00Z")
    people = [f"P{number:02}" for number in range(TRIAL_PEOPLE)]
    for number, name in enumerate(people):
        baseline = {"site": ("Berlin", "Bern")[number % 2], "age": 50.0 + number}
        zone = "America/New_York" if number == 3 else "Europe/Berlin"
        writer.do(Enrol(who="staff", received=first, participant=name, timezone=zone, baseline=baseline))
    made: list[str] = []
    for point in range(2 * TRIAL_DAYS):
        now = first + (point // 2) * 24 * clock.HOUR + (2 if point % 2 == 0 else 7) * clock.HOUR
        for name in people:
            _decide_at(writer, rnd, name, now, made)
        if made:
            _correct_something(writer, rnd, now, made)


def _decide_at(writer: Writer, rnd: Random, name: str, now: int, made: list[str]) -> None:
    """A decision point of the trial and what comes of it."""
    at = now + (6 * clock.HOUR if name == "P03" else 0) + clock.MINUTE
    values = {"pain": rnd.choice(["none", "none", "mild", "strong"]), "fatigue": rnd.randrange(4)}
    given: dict[str, Any] = {"sensed": values, "opened": rnd.random() < 0.1}
    given |= {"reported": {"mood": rnd.choice(["good", "low"])}} if given["opened"] else {}
    given |= {"available": False, "reason": "driving", "opened": False} if rnd.random() < 0.05 else {}
    if not given.get("available", True):
        given.pop("reported", None)
    decision = json.loads(writer.do(Propose(who="app", received=at, participant=name, given=given)).body)
    made.append(decision["decision"])
    told = {"mood": rnd.choice(["good", "low"])}
    if decision["status"] == "nudge":
        answered = rnd.random() < 0.6
        reported = told if answered else None
        answer = Answer(
            who="staff", received=at + clock.MINUTE, decision=made[-1], answered=answered, reported=reported
        )
        writer.write([answer])
    elif rnd.random() < 0.15:
        writer.write([Open(who="app", received=at + clock.HOUR, participant=name, reported=told)])
    if rnd.random() < 0.9:
        value = round(max(0.0, rnd.gauss(35.0, 12.0)), 1)
        writer.write([Reward(who="app", received=at + 2 * clock.HOUR, decision=made[-1], reward=value)])


def _correct_something(writer: Writer, rnd: Random, now: int, made: list[str]) -> None:
    """What staff put right, and who wants no calls for some days."""
    staff: dict[str, Any] = {"who": "staff", "received": now + 3 * clock.HOUR, "reason": "misheard"}
    decision, draw = rnd.choice(made), rnd.random()
    if draw < 0.3:
        writer.write([Reward(**staff, decision=decision, reward=round(rnd.uniform(0, 90), 1), corrects=True)])
    elif draw < 0.5:
        writer.write([CorrectReported(**staff, decision=decision, reported={"mood": rnd.choice(["good", "low"])})])
    elif draw < 0.6:
        writer.write([WantCalls(**staff, participant="P01", wanted=rnd.random() < 0.5)])
    elif draw < 0.65:
        writer.write([CorrectZone(**staff, participant="P02", timezone=rnd.choice(["Europe/London", "Europe/Berlin"]))])


@contextmanager
def _failing() -> Iterator[None]:
    def fail(*_arguments: Any, **_named: Any) -> Any:
        raise ValueError("on purpose")

    with mock.patch.object(Agent, "propose_at", fail):
        yield


@contextmanager
def _as_ever() -> Iterator[None]:
    yield


def _decided(found: list[events.Event]) -> Iterator[tuple[list[Any], float]]:
    for event in found:
        answer = event.answer
        if event.kind == events.PROPOSED:
            exact = [
                event.participant,
                event.step,
                answer["nudged"],
                answer["fresh"],
                answer["stale"],
                repr(answer["coin"]),
            ]
            yield [*exact, _settled(answer.get("settled"))], answer["probability"]
        elif event.kind == events.SETTLED:
            yield [event.participant, event.step, _settled(answer)], 0.0


def _settled(answer: Any) -> Any:
    return None if answer is None else [answer["action"], answer["outcome"], answer["revealed"]]


def computed() -> dict[str, list[tuple[str, float]]]:
    """All studies' decisions, a hundred at a time: their hash, and the sum of their probabilities."""
    found = {}
    for number, (name, text) in enumerate({**studies(), **trials()}.items()):
        made = decisions_of(text, rehearsal=number % 2 == 0, trial=name in trials())
        parts = [made[first : first + AT_ONCE] for first in range(0, len(made), AT_ONCE)]
        found[name] = [
            (
                hashlib.sha256(json.dumps([exact for exact, _ in part]).encode()).hexdigest()[:16],
                sum(p for _, p in part),
            )
            for part in parts
        ]
    return found


def released() -> dict[str, Any] | None:
    """The file as of the latest release; None before the first, or where the repository's tags are not there."""
    latest = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"], cwd=HERE, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    shown = ["git", "show", f"{latest.stdout.strip()}:tests/{FILE.name}"]
    if latest.returncode:
        return None
    found: dict[str, Any] = json.loads(subprocess.run(shown, cwd=HERE, capture_output=True, check=True).stdout)
    return found


def is_kept(known: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether the decisions of a file are still made, unless the algorithm has another number by now."""
    pinned = json.loads(json.dumps(found))
    return known["algorithm"] != ALGORITHM or all(pinned.get(name) == each for name, each in known["studies"].items())


def main() -> None:
    """Write the file, unless it has other decisions for the same version of the algorithm."""
    found, known = computed(), released()
    if known is None and FILE.exists() and "--unreleased" not in sys.argv:
        known = json.loads(FILE.read_text(encoding="utf-8"))
    if known is not None and not is_kept(known, found):
        sys.exit(
            f"golden_record.json has the decisions of algorithm {ALGORITHM}: a change of decisions needs the next "
            "number in algorithm/version.py (--unreleased before the first release, as no study can have begun)"
        )
    text = json.dumps({"algorithm": ALGORITHM, "studies": found}, indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
