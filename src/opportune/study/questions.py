"""The questions of `opportune new`: each with its proposed answer and the answers that are valid."""

import datetime as dt
import keyword
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from opportune import checks
from opportune.errors import InputError
from opportune.problems.conditions import Conditions
from opportune.study.hours import minutes_of, spans_of
from opportune.study.terms import FUNCTIONS
from opportune.study.trial import known_zone, quiet_minutes

Answers = dict[str, Any]
NONE = "press Enter for none"
LEVELS = "Its levels, the usual one first, or numbers such as 0-10"
MOST_NUMBERS = 100
"""The largest distance between the lowest and the highest level."""


class Question(NamedTuple):
    """A question with its proposed and valid answers."""

    text: str
    proposal: Callable[[Answers], str]
    read: Callable[[str, Answers], Any]
    """Converts the answer to a value; raises `InputError` that says what was expected."""
    asked: Callable[[Answers], bool] = lambda _: True
    """Whether the question is asked, given the answers so far."""
    then: str = ""
    """The question to ask about each answer; the first question is then repeated until the answer is empty."""


def _text(text: str, _: Answers) -> str:
    found = text.strip()
    if not found or not found.isprintable():
        raise InputError("expected plain text")
    return found


def _name(text: str, so_far: Answers) -> str:
    found = _text(text, so_far)
    if not all(c.isascii() and (c.isalnum() or c in "._-") for c in found) or not found[0].isalnum():
        raise InputError("expected letters, digits, '.', '_' and '-'")
    return found


def _words(text: str, _: Answers) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if len(words) < 2 or len(set(words)) < len(words) or not all(word.isprintable() for word in words):
        raise InputError("expected at least two different ones, separated by commas")
    return words


def _levels(text: str, so_far: Answers) -> tuple[Any, ...]:
    """Levels: words, or a range of whole numbers."""
    span = re.fullmatch(r"\s*(-?\d{1,4})\s*(?:-|to|\.\.)\s*(-?\d{1,4})\s*", text)
    if span is None:
        return _words(text, so_far)
    low, high = int(span[1]), int(span[2])
    if not low < high <= low + MOST_NUMBERS:
        raise InputError(f"expected words, or numbers such as 0-10, at most {MOST_NUMBERS} apart")
    return tuple(range(low, high + 1))


def _whole(least: int, most: int | Callable[[Answers], int]) -> Callable[[str, Answers], int]:
    def read(text: str, so_far: Answers) -> int:
        limit = most(so_far) if callable(most) else most
        if not text.strip().isdigit() or not least <= int(text) <= limit:
            raise InputError(f"expected a whole number from {least} to {limit}")
        return int(text)

    return read


def _number(text: str, _: Answers) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0.0 < found <= checks.LARGEST:
        raise InputError("expected a number above 0")
    return found


def _share(most: Callable[[Answers], float]) -> Callable[[str, Answers], float]:
    def read(text: str, so_far: Answers) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0.0 <= found <= most(so_far):
            raise InputError(f"expected a number from 0 to {most(so_far):.3g}")
        return found

    return read


def _variable(text: str, so_far: Answers) -> str:
    found = text.strip()
    if found in {"", "-"}:
        return ""
    if not found.isidentifier() or keyword.iskeyword(found) or found in {"action", *FUNCTIONS}:
        raise InputError("expected a name of letters, digits and _ that formulas do not reserve")
    if found in (*so_far.get("sensed", ()), *so_far.get("reported", ())):
        raise InputError("expected another name, as this one is taken")
    return found


def _times(text: str, so_far: Answers) -> tuple[str, ...]:
    times = tuple(part.strip() for part in text.split(",") if part.strip())
    minutes = [minutes_of(part) for part in times]
    if len(times) != so_far["per_day"] or minutes != sorted(set(minutes)) or "24:00" in times:
        raise InputError(f"expected {so_far['per_day']} times in order, such as 09:00, 18:30")
    return times


def _zone(text: str, _: Answers) -> str:
    if not known_zone(text.strip()):
        raise InputError("expected an IANA name, such as Europe/Berlin")
    return text.strip()


def _date(text: str, _: Answers) -> str:
    found = text.strip()
    if found:
        try:
            dt.date.fromisoformat(found)
        except ValueError:
            raise InputError("expected a date such as 2026-12-01, or nothing") from None
    return found


def _span(text: str, _: Answers) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split("-") if part.strip())
    if found:
        try:
            spans_of(found)
        except InputError:
            raise InputError("expected from and to, such as 09:00-17:00, or nothing") from None
    return found


def _quiet(text: str, _: Answers) -> tuple[str, ...]:
    found = [part.strip() for part in text.split("-") if part.strip()]
    if found and quiet_minutes(found) is None:
        raise InputError("expected from and to, such as 20:00-08:00, or nothing")
    return tuple(found)


def _one_action(*, may_be_none: bool) -> Callable[[str, Answers], str]:
    def read(text: str, so_far: Answers) -> str:
        found = text.strip()
        if found not in so_far["actions"] and not (may_be_none and not found):
            raise InputError(
                f"expected one of {', '.join(so_far['actions'])}" + (", or nothing" if may_be_none else "")
            )
        if may_be_none and found == so_far["fallback"]:
            raise InputError("expected another action, as the fallback must always be allowed")
        if may_be_none and found and found in so_far.get("forbidden", ()):
            raise InputError("expected another action, as this one has its condition")
        return found

    return read


def _always(value: str) -> Callable[[Answers], str]:
    return lambda _: value


def _spread(so_far: Answers) -> str:
    """Times of day, spread evenly from 9:00 to 18:00."""
    n = so_far["per_day"]
    if n == 1:
        return "09:00"
    minutes = [9 * 60 + round(i * 9 * 60 / (n - 1)) for i in range(n)]
    return ", ".join(f"{m // 60:02}:{m % 60:02}" for m in minutes)


def _condition(so_far: Answers) -> str:
    """The proposed condition for the last action: the last level of the first variable."""
    if not so_far["sensed"]:
        return ""
    name, last = so_far["sensed"][0], so_far["sensed_levels"][0][-1]
    return f"{name} >= {last}" if isinstance(last, int) else f'{name} == "{last}"'


def _never_if(text: str, so_far: Answers) -> str:
    """A condition that compares the variables given so far."""
    found, action = _text(text, so_far), so_far["forbidden"][-1]
    kinds = {kind: dict(zip(so_far[kind], so_far[f"{kind}_levels"], strict=True)) for kind in ("sensed", "reported")}
    variables: dict[str, Any] = {**kinds["sensed"], **kinds["reported"]}
    seen = {name: kind for kind, names in kinds.items() for name in names}
    if not variables:
        raise InputError("expected no condition, as there is no variable to compare")
    try:
        Conditions({action: found}, {action: "forbid"}, so_far["actions"], variables, seen)
    except InputError as error:
        raise InputError(str(error).replace("; ", ": ")) from None
    return found


QUESTIONS: dict[str, Question] = {
    "name": Question("A name for the study (letters, digits, dashes)", _always("my-study"), _name),
    "actions": Question(
        "What can be recommended, separated by commas; the others are compared with the first",
        _always("rest, walk"), _words,
    ),
    "per_day": Question("Decisions per day", _always("2"), _whole(1, 96)),
    "times": Question("At what times of day, separated by commas", _spread, _times),
    "timezone": Question("Time zone", _always("UTC"), _zone),
    "days": Question("Days that a participant takes part", _always("60"), _whole(1, 3660)),
    "participants": Question("Participants", _always("50"), _whole(1, 1_000_000)),
    "first_day": Question(f"The date on which the first participants begin ({NONE})", _always(""), _date),
    "sensed": Question(
        "Something that a phone or wristband senses (- for none)", _always("stress"), _variable,
        then="sensed_levels",
    ),
    "sensed_levels": Question(LEVELS, _always("low, high"), _levels),
    "reported": Question(
        f"Something that participants are asked ({NONE})", _always(""), _variable, then="reported_levels"
    ),
    "reported_levels": Question(LEVELS, _always("good, low"), _levels),
    "nudge": Question("The word for one nudge", _always("call"), _text),
    "minutes": Question("Minutes of staff that one takes", _always("6"), _number),
    "budget": Question(
        "Nudges per participant that you could afford",
        lambda a: str(min(12, a["per_day"] * a["days"])), _whole(1, lambda a: int(a["per_day"] * a["days"])),
    ),
    "hours": Question(f"Hours of staff on weekdays, such as 09:00-17:00 ({NONE})", _always(""), _span),
    "saturday": Question(
        f"Hours of staff on Saturdays ({NONE})", _always(""), _span, asked=lambda a: bool(a["hours"])
    ),
    "staff_per_day": Question(
        "The most nudges that staff can make in a day, 0 for no limit", _always("0"), _whole(0, 1_000_000)
    ),
    "quiet": Question(f"When participants are left alone, such as 20:00-08:00 ({NONE})", _always(""), _quiet),
    "unit": Question("The unit of the outcome", _always("points"), _text),
    "noise": Question("How much the outcome varies from time to time, as a standard deviation", _always("1"), _number),
    "effect": Question("How much the right action may change it", _always("1"), _number),
    "fallback": Question(
        "What is recommended if all else fails; it must always be safe", lambda a: a["actions"][0],
        _one_action(may_be_none=False),
    ),
    "forbidden": Question(
        f"An action that is sometimes forbidden, for safety ({NONE})", _always(""), _one_action(may_be_none=True),
        asked=lambda a: bool(a["sensed"] or a["reported"]), then="never_if",
    ),
    "never_if": Question(
        "When it is forbidden, such as stress == \"high\" or pain > 6", _condition, _never_if
    ),
    "floor": Question(
        "The least probability of every action, so that effects can be estimated; 0 for none",
        lambda a: f"{min(0.1, 0.5 / len(a['actions'])):.2g}", _share(lambda a: 1.0 / len(a["actions"])),
    ),
    "nudge_floor": Question(
        "The least probability of a nudge, and of none, at moments that call for one; 0 for none", _always("0.2"),
        _share(lambda _: 0.5),
    ),
}  # fmt: skip
"""All questions, in order."""


def read(key: str, text: str, so_far: Answers) -> Any:
    """Convert an answer to a value; raises `InputError` that says what was given and what was expected."""
    if len(text) > 1_000:
        raise InputError(f"{key} has {len(text)} characters; expected at most 1,000")
    try:
        return QUESTIONS[key].read(text, so_far)
    except InputError as error:
        raise InputError(f"{key} is {checks.brief(text)}; {str(error).split('; ')[-1]}") from None


Ask = Callable[[str, str, str], str]
"""Asks somebody; takes the question, the proposed answer and what was wrong with the last answer."""


def answers(given: Mapping[str, Any], ask: Ask | None = None) -> Answers:
    """All answers: those given, else those asked for, else the proposed ones. Answers about variables are lists."""
    found: Answers = {}
    about = {question.then for question in QUESTIONS.values()}
    for key, question in QUESTIONS.items():
        if question.then:
            found[key], found[question.then] = _several(key, question.then, given, found, ask)
        elif key not in about:
            found[key] = _answer(key, given.get(key), found, ask)
    return found


def _answer(key: str, given: str | None, so_far: Answers, ask: Ask | None, proposal: str | None = None) -> Any:
    """One answer; the question is repeated until the answer is valid."""
    question = QUESTIONS[key]
    if given is not None:
        return read(key, given, so_far)
    if not question.asked(so_far):
        return ""
    shown = question.proposal(so_far) if proposal is None else proposal
    if ask is None:
        return read(key, shown, so_far)
    wrong = ""
    while True:
        try:
            return read(key, ask(question.text, shown, wrong), so_far)
        except InputError as error:
            wrong = str(error)


def _several(
    key: str, then: str, given: Mapping[str, Any], so_far: Answers, ask: Ask | None
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Several answers, each with its answer to the second question; given or asked for one by one."""
    names, more = list(given.get(key) or []), list(given.get(then) or [])
    if len(more) > max(len(names), 1):
        raise InputError(f"{then} is given {len(more)} times, and {key} {len(names)} times; expected as often")
    found: list[str] = []
    about: list[Any] = []
    while True:
        now = {**so_far, key: tuple(found)}
        i = len(found)
        if names:
            name = _answer(key, names[i], now, ask) if i < len(names) else ""
        else:
            name = _answer(key, None, now, ask, proposal=None if i == 0 else "") if i == 0 or ask is not None else ""
        if not name:
            return tuple(found), tuple(about)
        found.append(name)
        now = {**so_far, key: tuple(found), then: tuple(about)}
        about.append(_answer(then, more[i] if i < len(more) else None, now, ask))
