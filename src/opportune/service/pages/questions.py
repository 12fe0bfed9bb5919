"""The study's questions, as forms: what participants report, and what must be known of them at enrolment."""

from dataclasses import dataclass
from typing import Any

from opportune.service.pages import words
from opportune.service.pages.shared import Form
from opportune.service.problems import Refused
from opportune.service.state.study import StudyInForce
from opportune.study.people import is_range

MOST_CHOICES = 11
"""More levels than this are asked for by a field, not by buttons."""


@dataclass(frozen=True)
class Question:
    """What is asked: choices, each with its words, or a number between bounds."""

    name: str
    text: str
    choices: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    step: float | None = None


def questions(running: StudyInForce) -> list[Question]:
    """The questions for all reported variables."""
    found = []
    for name, table in running.study.settings.variables.items():
        if table.visibility != "reported":
            continue
        text = table.question or words.label_of(running, name).capitalize()
        if table.numeric or len(table.values) > MOST_CHOICES:
            low, high = table.range if table.range is not None else (min(table.values), max(table.values))
            found.append(Question(name, text, (), low, high, None if table.numeric else table.step))
        else:
            found.append(Question(name, text, tuple(table.answers or [str(value) for value in table.values])))
    return found


def reported_of(running: StudyInForce, form: Form) -> dict[str, Any] | None:
    """What was answered; None if nothing was. Some questions without the others cannot be used."""
    reported: dict[str, Any] = {}
    asked = questions(running)
    for question in asked:
        field = f"q.{question.name}"
        given = form.text(field, most=40)
        if not given:
            continue
        if question.choices:
            if not given.isdecimal() or int(given) >= len(question.choices):
                raise Refused("invalid", f"the answer to {question.text!r} is not one of its choices")
            reported[question.name] = running.study.settings.variables[question.name].values[int(given)]
        else:
            reported[question.name] = form.number(field)
    if reported and len(reported) < len(asked):
        missing = [question.text for question in asked if question.name not in reported]
        raise Refused("unasked", f"answers are missing: {'; '.join(missing)}")
    return reported or None


def baseline_questions(running: StudyInForce) -> list[Question]:
    """What must be known of somebody at enrolment."""
    found = []
    for name, levels in running.study.settings.participants.baseline.items():
        text = words.capital(words.label_of(running, name))
        if is_range(levels):
            found.append(Question(name, text, (), *levels))
        else:
            found.append(Question(name, text, tuple(map(str, levels))))
    return found


def baseline_of(running: StudyInForce, form: Form) -> dict[str, Any]:
    """What the form says of somebody who enrols; the command checks it."""
    given: dict[str, Any] = {}
    for question in baseline_questions(running):
        field = f"b.{question.name}"
        if not question.choices:
            given[question.name] = form.number(field)
            continue
        levels = {str(level): level for level in running.study.settings.participants.baseline[question.name]}
        chosen = form.required(field, most=200)
        given[question.name] = levels.get(chosen, chosen)
    return given
