"""Conditions under which actions are forbidden: what they mean, what is refused, that there is always an action."""

import json
import re
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.engine.declared import PUBLIC_PART, SENSED_PART, WHOLE
from opportune.problems.conditions import Conditions
from opportune.problems.variables import Variable

VARIABLES: dict[str, Variable] = {
    "hour": ("am", "pm"), "stress": (1, 2, 3), "day": op.DayOfStudy.scaled(10), "pain": op.Number(0.0, 10.0),
}  # fmt: skip
SEEN = {"hour": "public", "stress": "sensed", "day": "public", "pain": "reported"}
ACTIONS = ("rest", "walk")


def point(hour: int, stress: int, day: int, pain: float) -> Any:
    return np.array([[hour, stress - 1.0, VARIABLES["day"].on(day), pain]])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("pain > 7", lambda hour, stress, day, pain: pain > 7),
        ("7 < pain", lambda hour, stress, day, pain: pain > 7),
        ("3 <= pain < 7", lambda hour, stress, day, pain: 3 <= pain < 7),
        ("pain in [3, 7.5]", lambda hour, stress, day, pain: pain in (3, 7.5)),
        ('hour == "am"', lambda hour, stress, day, pain: hour == 0),
        ('hour != "am" and pain >= -1', lambda hour, stress, day, pain: hour == 1),
        ('hour in ("am", "pm") and not stress >= 2', lambda hour, stress, day, pain: stress == 1),
        ("stress not in [2] or pain == 0", lambda hour, stress, day, pain: stress != 2 or pain == 0),
        ("day < 3", lambda hour, stress, day, pain: day < 3),
        ('day <= 3 or not (hour == "pm" or pain != 3)',
         lambda hour, stress, day, pain: day <= 3 or (not hour and pain == 3)),
    ],
)  # fmt: skip
def test_what_a_condition_means(text: str, where: Any) -> None:
    """Conditions mean what Python would make of them; days of study count as days."""
    made = Conditions({"walk": text}, {"walk": "forbid"}, ACTIONS, VARIABLES, SEEN)
    for hour in (0, 1):
        for stress in (1, 2, 3):
            for day in (1, 3, 10):
                for pain in (0.0, 3.0, 7.0, 7.5, 10.0):
                    found = made.forbidden(point(hour, stress, day, pain), WHOLE)
                    assert found.tolist() == [[False, where(hour, stress, day, pain)]]


def test_what_is_not_seen() -> None:
    """In doubt an action is forbidden or allowed as when_unknown says; where it makes no difference, nobody doubts."""
    text = 'hour == "am" and (stress > 1 or pain > 5)'
    for doubt in ("forbid", "allow"):
        made = Conditions({"walk": text}, {"walk": doubt}, ACTIONS, VARIABLES, SEEN)
        evening, calm, tense = point(1, 3, 1, 9.0), point(0, 1, 1, 0.0), point(0, 2, 1, 0.0)
        found = [[bool(made.forbidden(x, view)[0, 1]) for x in (evening, calm, tense)]
                 for view in (PUBLIC_PART, SENSED_PART, WHOLE)]  # fmt: skip
        in_doubt = doubt == "forbid"
        assert found == [[False, in_doubt, in_doubt], [False, in_doubt, True], [False, False, True]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pain > 7 and", "never_if of 'walk' is 'pain > 7 and', which cannot be read"),
        ("pian > 7", "never_if of 'walk': 'pian' at character 1 is not present among the variables"),
        ('pain > "x"', "never_if of 'walk': \"'x'\" at character 8 is not a number"),
        ('hour < "am"', "compares levels by size; expected == or in"),
        ('hour == "noon"', "never_if of 'walk': \"'noon'\" at character 9 is not one of the levels ['am', 'pm']"),
        ("stress == 7", "never_if of 'walk': '7' at character 11 is not one of the levels [1, 2, 3]"),
        ("pain > hour", "never_if of 'walk': 'hour' at character 8 is not a number or a level in quotes"),
        ('__import__("os")', "is not allowed; expected comparisons of a variable with a number or a level"),
        ("pain", "is not allowed; expected comparisons"),
        ("pain in 3", "never_if of 'walk': '3' at character 9 is not a list"),
        ("pain is 3", "is not allowed; expected ==, !=, <, <=, >, >= or in"),
        ("pain > 1e999", "expected a finite number"),
        (3, "never_if of 'walk' is 3; expected text"),
        ("not " * 60 + "pain > 3", "is nested more than 50 deep"),
    ],
)
def test_what_is_not_a_condition(text: Any, message: str) -> None:
    """Whatever else a text says is refused, with the place."""
    with pytest.raises(op.InputError, match=re.escape(message)):
        Conditions({"walk": text}, {"walk": "forbid"}, ACTIONS, VARIABLES, SEEN)


@pytest.mark.parametrize(
    ("never_if", "doubts", "message"),
    [
        ({"run": "pain > 3"}, None, "action in never_if is 'run'; expected one of"),
        ({"walk": "pain > 3"}, None, "never_if of 'walk' uses 'pain', which is not always known; "
         "expected when_unknown={'walk': 'forbid' or 'allow'}"),
        ({"walk": "pain > 3"}, {"walk": "maybe"}, "when_unknown of 'walk' is 'maybe'; expected one of"),
        ({"walk": "pain > 3"}, {"walk": "allow", "rest": "allow"}, "when_unknown has 'rest'; expected only actions"),
        ({"rest": "pain > 3", "walk": "pain >= 8"}, {"rest": "allow", "walk": "allow"},
         "no action is allowed where pain = 8; expected at least one in every moment"),
        ({"rest": "day > 3", "walk": 'hour == "am"'}, None, "no action is allowed where hour = am, day = 6.5"),
        ({"rest": "pain > 3", "walk": "pain < 3"}, {"rest": "forbid", "walk": "forbid"},
         "no action is allowed where nothing is known (each is forbidden, or may be by what is not seen)"),
    ],
)  # fmt: skip
def test_there_is_always_an_action(never_if: Any, doubts: Any, message: str) -> None:
    """Conditions that leave no action, to whoever sees however much, are refused with the moment."""
    with pytest.raises(op.InputError, match=re.escape(message)):
        Conditions(never_if, doubts, ACTIONS, VARIABLES, SEEN)


def test_finite_problems_mean_the_same() -> None:
    """With finitely many contexts conditions become a table, and mean what they mean for numbers."""
    variables = {"hour": op.TimeOfDay(["am", "pm"]), "stress": (1, 2, 3), "mood": ["good", "low"]}
    settings: dict[str, Any] = {
        "visibility": {"mood": "reported"}, "when_unknown": {"walk": "forbid", "call": "allow"},
        "never_if": {"walk": 'stress >= 2 and mood == "low"', "call": 'hour == "pm" or mood == "low" or stress in [3]'},
    }  # fmt: skip
    table = op.Problem.from_formula("action * stress + hour + mood", variables, ["rest", "walk", "call"], **settings)
    numbers = op.Problem.from_formula(
        "1 + action * stress + hour + mood + x", {**variables, "x": op.Number(0, 1)}, ["rest", "walk", "call"],
        **settings,
    )  # fmt: skip
    assert isinstance(table, op.Problem)
    for k in range(table.contexts):
        context = table.levels(k)
        for view in (PUBLIC_PART, SENSED_PART, WHOLE):
            found = table.forbids(table.locate(context, 1), view)
            assert found.tolist() == numbers.forbids(numbers.locate({**context, "x": 0.5}, 1), view).tolist()
    for problem in (table, numbers):
        again = type(problem).from_dict(json.loads(json.dumps(problem.to_dict())))
        assert again.to_dict() == problem.to_dict()
        assert problem.always_allowed == (0,)
        without = {name: value for name, value in problem.to_dict().items() if name not in {"allowed", "never_if"}}
        assert type(problem).from_dict({**without, "when_unknown": None}).always_allowed == (0, 1, 2)


def test_wrong_tables() -> None:
    """A table of allowed actions has the problem's shape, and an action for every moment."""
    x = np.eye(2)[None].repeat(3, axis=0)
    with pytest.raises(op.InputError, match=r"^allowed has shape \[2, 2\]; expected \[3, 2\]$"):
        op.Problem(x, allowed=np.ones((2, 2)))
    with pytest.raises(op.InputError, match=r"^allowed holds numbers other than 0 and 1; expected True or False$"):
        op.Problem(x, allowed=np.full((3, 2), 0.5))
    with pytest.raises(op.InputError, match=r"^no action is allowed where context = 1; expected at least one"):
        op.Problem(x, allowed=[[1, 0], [0, 0], [1, 1]])
    with pytest.raises(op.InputError, match=r"^no action is allowed where nothing is known \(each is forbidden, or"):
        op.Problem(x, allowed=[[1, 0], [0, 1], [1, 1]])
    assert op.Problem(x, allowed=[[1, 0], [0, 1], [1, 1]], when_unknown={"0": "allow"}).masks.public.tolist() == [
        [False, True]
    ]
    assert op.Problem(x, allowed=np.ones((3, 2))).allowed is None
