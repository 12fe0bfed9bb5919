"""The study's questions as fields of forms: those for reported variables, and the baseline at enrolment."""

from dataclasses import dataclass
from typing import Any

from opportune.service.pages import words
from opportune.service.pages.forms import Form, Wrong
from opportune.service.pages.texts import Texts
from opportune.service.state.study import StudyInForce
from opportune.study.naming import level_name
from opportune.study.people import is_range

MOST_CHOICES = 11
"""A question with more numbers than this gets a field in place of buttons."""


@dataclass(frozen=True)
class Question:
    """A question with its field: choices with their words, or a number within bounds."""

    field: str
    variable: str
    text: str
    values: tuple[Any, ...] = ()
    """The values that an answer may have; none where it is any number within the bounds."""
    choices: tuple[str, ...] = ()
    """The words for the values, in the same order; none where a number is typed."""
    low: float = 0.0
    high: float = 0.0

    @property
    def options(self) -> list[tuple[str, str]]:
        """The choices of a select field, the first of them empty."""
        return [("", ""), *((str(place), choice) for place, choice in enumerate(self.choices))]

    def read(self, form: Form, t: Texts) -> Any:
        """The answer in a form."""
        if self.choices:
            return self.values[int(form.choice(self.field, map(str, range(len(self.choices)))))]
        number = form.number(self.field, t, low=self.low, high=self.high)
        if self.values and number not in self.values:
            raise Wrong(self.field, "numbers", numbers=", ".join(map(t.editable, self.values)))
        return number

    def shown(self, value: Any, t: Texts) -> str:
        """What the field contains for a value."""
        return str(self.values.index(value)) if self.choices else t.editable(value)


def questions(running: StudyInForce) -> list[Question]:
    """The questions for all reported variables."""
    found = []
    for name, table in running.study.settings.variables.items():
        if table.visibility != "reported":
            continue
        field, text = f"q.{name}", table.question or words.capital(words.label_of(running, name))
        if table.numeric:
            assert table.range is not None
            found.append(Question(field, name, text, low=table.range[0], high=table.range[1]))
        else:
            found.append(_of_levels(running, field, name, text, table.values))
    return found


def reported_of(asked: list[Question], form: Form, t: Texts) -> dict[str, Any]:
    """The answers in a form by variable: to all questions that were asked, or to none."""
    answered = [question for question in asked if form.text(question.field)]
    for question in asked:
        if answered and question not in answered:
            raise Wrong(question.field, "unanswered")
    return {question.variable: question.read(form, t) for question in answered}


def baseline_questions(running: StudyInForce) -> list[Question]:
    """The questions about a participant at enrolment."""
    found = []
    for name, levels in running.study.settings.participants.baseline.items():
        field, text = f"b.{name}", words.capital(words.label_of(running, name))
        if is_range(levels):
            found.append(Question(field, name, text, low=levels[0], high=levels[1]))
        else:
            found.append(_of_levels(running, field, name, text, levels))
    return found


def _of_levels(running: StudyInForce, field: str, variable: str, text: str, levels: list[Any]) -> Question:
    """The question about a variable with levels: a choice between their words, or a number if there are many."""
    settings = running.study.settings
    named = [level_name(settings, variable, level) for level in levels]
    if len(levels) > MOST_CHOICES and not any(named) and not any(isinstance(level, str) for level in levels):
        return Question(field, variable, text, tuple(levels), low=min(levels), high=max(levels))
    table = settings.variables.get(variable)
    choices = (table.answers if table is not None else None) or [
        name or str(level) for name, level in zip(named, levels, strict=True)
    ]
    return Question(field, variable, text, tuple(levels), tuple(choices))
