"""`opportune new` at a real terminal: wrong answers are asked for again, right ones are kept, and the file is ready."""

import os
import pty
import select
import sys
import time
from pathlib import Path

from opportune.study import live, load_study
from opportune.study.needs import needs

SECONDS = 120.0
ANSWERS: list[tuple[str, list[str]]] = [
    ("A name", ["herz reha", "herz-reha"]),
    ("What can be recommended", ["rest", "rest, walk, exercise"]),
    ("Decisions per day", ["two", "2"]),
    ("At what times", ["14:00, 09:00", "09:00, 14:00"]),
    ("Time zone", ["Berlin", "Europe/Berlin"]),
    ("Days that", ["14"]),
    ("Participants", ["30"]),
    ("The date", ["1.12.2026", "2026-12-01"]),
    ("senses", ["class", "pain"]),
    ("Its levels", ["none, mild, strong"]),
    ("senses", ["pain", "fatigue"]),
    ("Its levels", ["3-0", "0-3"]),
    ("senses", [""]),
    ("are asked", ["mood"]),
    ("Its levels", ["good", "good, low"]),
    ("are asked", [""]),
    ("The word", ["call"]),
    ("Minutes", ["-3", "8"]),
    ("Nudges per", ["4"]),
    ("on weekdays", ["9 to 5", "09:00-17:00"]),
    ("on Saturdays", [""]),
    ("in a day", ["10"]),
    ("left alone", ["20:00-08:00"]),
    ("The unit", ["minutes"]),
    ("outcome varies", ["12"]),
    ("right action", ["8"]),
    ("all else fails", ["run", "rest"]),
    ("sometimes forbidden", ["rest", "exercise"]),
    ("When it is forbidden", ["pain = strong", 'pain == "severe"', 'pain == "strong" or fatigue > 2']),
    ("sometimes forbidden", ["exercise", "walk"]),
    ("When it is forbidden", ["fatigue > 2"]),
    ("sometimes forbidden", [""]),
    ("of every action", ["0.5", "0.1"]),
    ("of a nudge", ["0.2"]),
]


def converse(path: Path) -> str:
    """Answer every question that the command asks at a terminal of its own; all that was shown."""
    command = [sys.executable, "-m", "opportune", "new", str(path)]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    shown, end = "", time.monotonic() + SECONDS
    try:
        for question, answers in ANSWERS:
            for answer in answers:
                text = read_until_asked(terminal, end)
                assert question in text.splitlines()[-1], (question, text)
                shown += text
                os.write(terminal, f"{answer}\n".encode())
        return shown + read_until_asked(terminal, end)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def read_until_asked(terminal: int, end: float) -> str:
    """What is shown until an answer is waited for, or until the command ends."""
    text = b""
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other side has gone
                break
            if not part:
                break
            text += part
        elif text.endswith(b"]: "):
            break
    return text.decode()


def test_new_at_a_terminal(tmp_path: Path) -> None:
    """Each wrong answer is refused at once with what was expected; the file has every right one and can be served."""
    shown = converse(tmp_path / "new.toml")
    for refused in (
        "name is 'herz reha'", "per_day is 'two'", "times is '14:00, 09:00'; expected 2 times in order",
        "timezone is 'Berlin'; expected an IANA name", "sensed is 'pain'; expected another name",
        "hours is '9 to 5'; expected from and to", "fallback is 'run'; expected one of rest, walk, exercise",
        "forbidden is 'rest'; expected another action, as the fallback", "cannot be read at character 6",
        "'severe'", "forbidden is 'exercise'; expected another action, as this one", "floor is '0.5'",
    ):  # fmt: skip
        assert refused in shown, (refused, shown)
    study = load_study(tmp_path / "new.toml")
    settings = study.settings
    assert settings.variables["fatigue"].values == [0, 1, 2, 3]
    assert settings.actions["exercise"].never_if == 'pain == "strong" or fatigue > 2'
    assert settings.actions["walk"].never_if == "fatigue > 2"
    assert (settings.probabilities.actions, settings.probabilities.nudge) == (0.1, 0.2)
    assert settings.schedule.times == ["09:00", "14:00"]
    assert all(not one.lacks for one in needs(study))
    assert live(study).fallback == "rest"
