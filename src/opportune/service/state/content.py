"""What an app shows and asks: the study's texts and times, with a version that changes only when they may have."""

import hashlib
from typing import Any

from opportune._version import __version__
from opportune.service.record.study_file import published
from opportune.service.state.study import StudyInForce
from opportune.study.variables import WEEK, VariableTable

MOST_ANSWERS = 11
"""With more levels than this, a question is answered by a number between the lowest and the highest."""


def content_version(running: StudyInForce) -> str:
    """A hash of the published study file and Opportune's version: while it is equal, the content is too."""
    return hashlib.sha256(f"{published(running.text)} {__version__}".encode()).hexdigest()[:24]


def content_of(running: StudyInForce) -> dict[str, Any]:
    """The study's content, as the API returns it."""
    settings = running.study.settings
    nudge, reward = settings.nudge, settings.reward
    low, high = reward.bounds or (None, None)
    return {
        "study": settings.study.name,
        "version": content_version(running),
        "language": settings.study.language,
        "languages": [settings.study.language],
        "timezone": running.timezone,
        "times": [f"{minutes // 60:02d}:{minutes % 60:02d}" for minutes in running.times],
        "horizon": running.horizon,
        "actions": [_action(running, name) for name in settings.study.actions],
        "variables": [_variable(running, name, table) for name, table in settings.variables.items()],
        "questions": [
            _question(name, table) for name, table in settings.variables.items() if table.visibility == "reported"
        ],
        "nudge": {
            "name": nudge.name, "plural": nudge.plural or f"{nudge.name}s", "by": running.nudges_by,
            "answer_minutes": nudge.answer_minutes,
        },
        "reward": {"unit": reward.unit, "low": low, "high": high, "wait_hours": reward.wait_hours},
    }  # fmt: skip


def _action(running: StudyInForce, name: str) -> dict[str, Any]:
    table = running.study.settings.actions.get(name)
    label = None if table is None else table.label
    return {"action": name, "label": label or _plainly(name), "description": table and table.description}


def _variable(running: StudyInForce, name: str, table: VariableTable) -> dict[str, Any]:
    knows = table.schedule is not None or table.history is not None
    knows = knows or name in running.study.settings.participants.baseline
    low, high = _bounds(table)
    return {
        "variable": name, "label": table.label or _plainly(name),
        "visibility": "public" if table.schedule is not None else table.visibility,
        "knows": knows, "levels": _choices(table, table.level_labels), "low": low, "high": high,
    }  # fmt: skip


def _question(name: str, table: VariableTable) -> dict[str, Any]:
    choices = _choices(table, table.answers or table.level_labels)
    few = 0 < len(choices) <= MOST_ANSWERS
    low, high = (None, None) if few else _bounds(table) if table.range is not None else (None, None)
    return {
        "variable": name, "text": table.question or (table.label or _plainly(name)),
        "answers": choices if few or low is None else [], "low": low, "high": high,
        "step": None if low is None or table.numeric else table.step,
    }  # fmt: skip


def _choices(table: VariableTable, labels: list[str] | None) -> list[dict[str, Any]]:
    """The levels and their labels; empty for a numeric variable."""
    if table.schedule is not None:
        levels: list[Any] = table.names or WEEK.get(table.schedule, [])
    else:
        levels = [] if table.numeric else table.values
    return [{"value": level, "label": label} for level, label in zip(levels, labels or map(str, levels), strict=True)]


def _bounds(table: VariableTable) -> tuple[float | None, float | None]:
    return (None, None) if table.range is None else (table.range[0], table.range[1])


def _plainly(name: str) -> str:
    """A readable form of a name, for which the study file has no text."""
    return name.replace("_", " ").capitalize()
