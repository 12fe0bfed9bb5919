"""Features from a formula: the language people know, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.worlds.linear import synthetic_features


def test_the_synthetic_study_as_a_formula() -> None:
    """The paper's features are `action + s + action:s`."""
    problem = Problem.from_formula("action + s + action:s", contexts={"s": range(1, 11)}, actions=5)
    np.testing.assert_array_equal(problem.features, synthetic_features(10, 5))
    assert problem.variables == {"s": tuple(range(1, 11))}
    assert problem.action_names == ("0", "1", "2", "3", "4")


def test_star_is_main_effects_and_interaction() -> None:
    """`action * s` is short for `action + s + action:s`."""
    long, short = (
        Problem.from_formula(text, contexts={"s": [0.5, 2.0, -1.0]}, actions=["no", "yes"])
        for text in ("action + s + action:s", "action * s")
    )
    np.testing.assert_array_equal(short.features, long.features)
    assert short.action_names == ("no", "yes")


def test_numbers_as_they_are_text_by_levels() -> None:
    """Numbers enter as numbers and text by its levels, the first as reference."""
    problem = Problem.from_formula(
        "mood + hours + action", contexts={"mood": ["low", "fair", "high"], "hours": [6, 8]}, actions=2
    )
    expected = [[[mood == 1, mood == 2, hours, action] for action in range(2)] for mood in range(3) for hours in (6, 8)]
    np.testing.assert_array_equal(sorted_columns(problem), np.sort(np.array(expected, dtype=float), axis=2))
    assert problem.index({"mood": "fair", "hours": 8}) == 3


def sorted_columns(problem: Problem) -> Any:
    """Features with each vector sorted: the order of a formula's columns is the library's business."""
    return np.sort(problem.features, axis=2)


def test_intercept_only_if_asked_for() -> None:
    """There is no intercept unless the formula adds one; the reference action never has a column."""
    for text, d in (("action + s", 3), ("1 + action + s", 4), ("0 + action + s", 3), ("action + s - 1", 3)):
        problem = Problem.from_formula(text, contexts={"s": [1, 2]}, actions=3)
        assert problem.d == d, text
        constant = (problem.features == problem.features[0, 0]).all(axis=(0, 1))
        assert constant.any() == (d == 4)


def test_functions_of_numbers() -> None:
    """A formula may transform its variables."""
    problem = Problem.from_formula("action + np.log(s) + I(s**2)", contexts={"s": [1, 2, 3]}, actions=2)
    s = np.array([1.0, 2.0, 3.0])
    expected = np.sort(np.stack([np.zeros(3), np.log(s), s**2], axis=1), axis=1)
    np.testing.assert_allclose(sorted_columns(problem)[:, 0], expected, rtol=1e-15)


def test_settings_are_the_problems() -> None:
    """Probabilities, bounds and visibility are given as to `Problem`."""
    problem = Problem.from_formula(
        "action + a + b",
        {"a": [0, 1], "b": [0, 1, 2]},
        2,
        np.full(6, 1 / 6),
        noise_sd=0.2,
        visibility={"a": "public"},
    )
    assert (problem.cells, problem.senses, problem.noise_sd) == (2, 6, 0.2)
    assert problem.context_probs is not None


def test_unknown_variable() -> None:
    """A variable that is not among the contexts is named, with those that are."""
    with pytest.raises(InputError) as refused:
        Problem.from_formula("action + mod", contexts={"mood": [0, 1], "hour": [0, 1]}, actions=2)
    message = str(refused.value)
    assert message.startswith("formula 'action + mod' cannot be used: ")
    assert "`mod` is not present" in message
    assert message.endswith("; its variables may be mood, hour, action")


@pytest.mark.parametrize("text", ["", "action +", "action + * s", "action + (s", "y ~ s", "action + s s"])
def test_formula_that_cannot_be_read(text: str) -> None:
    """A formula that is none is refused, and said back."""
    with pytest.raises(InputError, match=f"^formula {re.escape(repr(text))} cannot be used: "):
        Problem.from_formula(text, contexts={"s": [1, 2]}, actions=2)


@pytest.mark.parametrize(
    ("contexts", "actions", "message"),
    [
        (
            {"action": [1, 2]},
            2,
            "a context variable is called 'action'; that name stands for the action in a formula",
        ),
        ({}, 2, "variables is empty; expected at least one variable with its levels"),
        ([1, 2], 2, "variables is [1, 2]; expected {name: levels}"),
        ({"s": []}, 2, "variable 's' has no levels; expected at least one"),
        (
            {"s": [1.0, float("nan")]},
            2,
            "variable 's' has NaN among its levels [1.0, nan]; expected numbers or text",
        ),
        ({"s": [1, 2]}, 1, "actions is 1; expected a whole number >= 2"),
        ({"s": [1, 2]}, True, "actions is True; expected a whole number >= 2"),
        ({"s": [1, 2]}, 2.0, "actions is 2.0; expected a whole number >= 2"),
        ({"s": [1, 2]}, ["only"], "actions is ['only']; expected at least 2 to choose from"),
        ({"s": [1, 2]}, ["a", "a"], "action_names has a name twice: ['a', 'a']"),
    ],
)
def test_wrong_contexts_or_actions(contexts: Any, actions: Any, message: str) -> None:
    """Contexts and actions that a formula cannot go with are refused."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Problem.from_formula("action", contexts=contexts, actions=actions)


def test_number_of_actions_may_be_a_numpy_one() -> None:
    """The number of actions may come from an array."""
    number: Any = np.int64(3)
    problem = Problem.from_formula("action", contexts={"s": [1, 2]}, actions=number)
    assert (problem.actions, problem.d) == (3, 2)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_transformation_that_is_infinite() -> None:
    """A formula that gives infinite features is refused with the place."""
    with pytest.raises(InputError, match=r"^features has -inf at \[0, 0, 1\]; expected finite numbers$"):
        Problem.from_formula("action + np.log(s)", contexts={"s": [0, 1]}, actions=2)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_transformation_that_is_undefined() -> None:
    """A formula that gives NaN for some context is refused with the place."""
    with pytest.raises(InputError, match=r"^features has nan at \[0, 0, 1\]; expected finite numbers$"):
        Problem.from_formula("action + np.log(s)", contexts={"s": [-1, 1]}, actions=2)
