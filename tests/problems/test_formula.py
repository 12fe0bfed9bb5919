"""Features from a formula: the language people know, and what is refused."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.problems import formula as formula_module
from opportune.problems.finite import Problem
from opportune.problems.formula import design, program
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay, Variable
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
    assert (problem.strata, problem.senses, problem.noise_sd) == (2, 6, 0.2)
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
            "a context variable is called 'action'; this name is reserved for the action in a formula",
        ),
        ({}, 2, "variables is empty; expected at least one variable with its levels"),
        ([1, 2], 2, "contexts is [1, 2]; expected {variable: levels}"),
        ({"s": []}, 2, "variable 's' has no levels; expected at least one"),
        (
            {"s": [1.0, float("nan")]},
            2,
            "variable 's' has NaN among its levels [1.0, nan]; expected numbers or text",
        ),
        ({"s": [1, 2]}, 1, "actions is 1; expected a whole number from 2 to 127"),
        ({"s": [1, 2]}, True, "actions is True; expected a whole number from 2 to 127"),
        ({"s": [1, 2]}, 2.0, "actions is 2.0; expected a whole number from 2 to 127"),
        ({"s": [1, 2]}, ["only"], "actions is ['only']; expected 2 to 127 to choose from"),
        ({"s": [1, 2]}, ["a", "a"], "actions has a name twice: ['a', 'a']"),
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


LEVELS: dict[str, tuple[Any, ...]] = {
    "s": (1, 2, 3.5),
    "mood": ("low", "fa:ir", "h[T.igh]"),
    "free": (True, False),
    "n": (3, 0, 1, 2),
    "time": ("am", "pm"),
}
ACTIONS = ("no", "yes", "call")
FORMULAS = (
    "action", "s", "action:s", "action * s", "mood", "mood:time", "mood * time", "action:mood", "action:mood:time",
    "action * mood * s", "1 + action", "action + s - 1", "0 + action", "-1 + s", "mood:s", "s:mood", "time + mood:time",
    "mood + mood:time", "time:mood:action + s", "2:s", "s + 0.5:mood", "(mood + time + action)**2", "mood/time",
    "(s + mood + action)^3", "log(n + 1)", "np.log1p(n):action", "I(s**2) + action:I(s**2)", "{s + 1 + n}:time", "{s}",
    "C(n)", "C(n) * action", "C(mood):s", "mood * time - time", "mood * time - mood:time", "1", "1 + s:n", "s * n",
    "exp(-s / 2) + sqrt(n) * mood + abs(s - 2):time", "np.exp(s):np.abs(n - 1)", "C(action) * time", "free + action",
    "I(s**-2) + I(s**0.5)", "I(1/s):action", "C(time) + time", "1:s", "+action", "s + s", "I(-(+s))", "I(2*3*s - 4**2)",
    "action * mood * time * s * n",
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_program_is_the_model_matrix(text: str) -> None:
    """At every context and action the program gives the model matrix's columns, in the same order and coding."""
    expected = design(text, LEVELS, ACTIONS)
    made = program(text, LEVELS, ACTIONS)
    sizes = [range(len(levels)) for levels in LEVELS.values()]
    points = np.array([[*context, 0] for context in itertools.product(*sizes)], dtype=np.float64)
    assert made.d == expected.shape[-1]
    np.testing.assert_allclose(made.features(points), expected, rtol=1e-13, atol=1e-13)


NUMBERS: dict[str, Variable] = {
    "steps": Number(0, 20_000),
    "temp": Number(-10, 40),
    "mood": ("low", "fair", "high"),
    "tod": TimeOfDay(("am", "pm")),
    "day": DayOfStudy.scaled(70),
    "stress": (1, 2, 3),
}


@pytest.mark.parametrize(
    "text",
    [
        "steps", "action * steps", "log1p(steps) * mood * action", "temp:mood:action + tod", "I((temp - 15)**2 / 100)",
        "1 + action:(tod + steps + day)", "stress:temp + C(stress)", "{steps * temp}:action", "exp(temp / 40)",
        "sqrt(steps) + abs(temp) + I(1 / (steps + 1))", "I(1 / (stress - 1.5)):temp", "I(temp / (stress - 1.5))",
    ],
)  # fmt: skip
def test_program_over_numbers(text: str) -> None:
    """With numbers a program is built, which compares itself with the model matrix at random points."""
    made = program(text, NUMBERS, ("no", "yes"))
    assert made.features(np.zeros((5, 7))).shape == (5, 2, made.d)


def test_features_of_a_program_by_hand() -> None:
    """Numbers as they are, text by its levels but the first, expressions as written."""
    made = program("1 + steps + mood + log1p(steps):action + I(temp**2)", NUMBERS, ("no", "yes"))
    assert made.names == (
        "intercept", "steps", "mood=fair", "mood=high", "I(temp ** 2)", "log1p(steps):action=no",
        "log1p(steps):action=yes",
    )  # fmt: skip
    x = made.features([100.0, -3.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(x, [[1, 100, 0, 1, 9, np.log(101), 0], [1, 100, 0, 1, 9, 0, np.log(101)]], rtol=1e-15)


def test_what_features_depend_on() -> None:
    """A program says which variables each feature reads, the action last."""
    made = program("steps + {steps * temp}:tod + action:temp", NUMBERS, ("no", "yes"))
    read = {name: set(np.flatnonzero(row)) for name, row in zip(made.names, made.depends, strict=True)}
    assert read == {
        "steps": {0}, "steps * temp:tod=am": {0, 1, 3}, "steps * temp:tod=pm": {0, 1, 3},
        "action=no:temp": {1, 6}, "action=yes:temp": {1, 6},
    }  # fmt: skip
    assert (made.shared, made.atoms, made.action_variable) == (5, 7, 6)


def test_features_in_the_order_written() -> None:
    """Main effects come before interactions unless the order written is asked for; the coding is the same."""
    text = "action:tod + steps + 1 + tod + action"
    by_degree = program(text, NUMBERS, ("no", "yes"))
    written = program(text, NUMBERS, ("no", "yes"), order="written")
    assert by_degree.names == ("intercept", "steps", "tod=pm", "action=yes", "action=yes:tod=pm")
    assert written.names == ("action=yes:tod=pm", "steps", "intercept", "tod=pm", "action=yes")
    values = [7.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    places = [by_degree.names.index(name) for name in written.names]
    np.testing.assert_array_equal(written.features(values), by_degree.features(values)[:, places])


ALLOWED = "numbers, numeric variables, + - * / **, log, log1p, exp, sqrt, abs and I(...)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("steps - steps", "it has no terms"),
        ("mood ~ steps", "'~' is not allowed between terms, expected + - * / : ** ^"),
        ("~ steps", "'~' is not allowed between terms, expected + - * / : ** ^"),
        ("steps | mood", "'|' is not allowed between terms, expected + - * / : ** ^"),
        ("steps %in% mood", "'in' is not allowed between terms, expected + - * / : ** ^"),
        ("steps , mood", "',' is not allowed between terms, expected + - * / : ** ^"),
        ("steps + * mood", "'+*' is not allowed between terms, expected + - * / : ** ^"),
        ("steps; mood", "';' is not allowed between terms, expected + - * / : ** ^"),
        ("[steps ~ mood]", "'[' is not allowed, expected ( )"),
        (".", "'.' is not a number up to 1e+30"),
        ("steps + 'text'", '"\'text\'" is not a number up to 1e+30'),
        ("9" * 200 + ":steps", f"{'9' * 200!r} is not a number up to 1e+30"),
        ("sleep", "`sleep` is not present among the variables"),
        ("steps in mood", "`in` is not present among the variables"),
        ("steps.values", "`steps.values` is not present among the variables"),
        ("__import__", "`__import__` is not present among the variables"),
        ("`no such`", "`no such` is not present among the variables"),
        ("(steps + mood)**9", "the power '9' is not a whole number from 1 to 8"),
        ("(steps + mood)**mood", "the power 'mood' is not a whole number from 1 to 8"),
        ("(steps + mood)^1.5", "the power '1.5' is not a whole number from 1 to 8"),
        ("(steps + mood)**0", "the power '0' is not a whole number from 1 to 8"),
        ("(steps + mood)**(2)", "the power '(' is not a whole number from 1 to 8"),
        ("(steps + mood)**8**8", "a power has a power as its exponent, expected a number"),
        ("+".join(["day"] * 300), "it has 599 words and signs, expected at most 500"),
        ("((steps + mood + tod + day)**8)**8", "it has about 3e+38 terms, expected at most 1000"),
        ("*".join(["steps", "mood"] * 9), "it has about 3e+05 terms, expected at most 1000"),
        ("steps.mean()", f"'steps.mean()' is not allowed; expected {ALLOWED}"),
        ("__import__('os').system('true')", f"\"__import__('os')\" is not allowed; expected {ALLOWED}"),
        ("{__import__('os')}", f"\"__import__('os')\" is not allowed; expected {ALLOWED}"),
        ("eval('1')", f"\"eval('1')\" is not allowed; expected {ALLOWED}"),
        ("{(lambda: steps)()}", f"'(lambda: steps)()' is not allowed; expected {ALLOWED}"),
        ("{[steps for _ in steps]}", f"'[steps for _ in steps]' is not allowed; expected {ALLOWED}"),
        ("{steps if steps else 0}", f"'steps if steps else 0' is not allowed; expected {ALLOWED}"),
        ("{steps > 3}", f"'steps > 3' is not allowed; expected {ALLOWED}"),
        ("{steps and temp}", f"'steps and temp' is not allowed; expected {ALLOWED}"),
        ("{~steps}", f"'~steps' is not allowed; expected {ALLOWED}"),
        ("{steps // 2}", f"'steps // 2' is not allowed; expected {ALLOWED}"),
        ("{steps % 2}", f"'steps % 2' is not allowed; expected {ALLOWED}"),
        ("I(steps % 2)", f"'steps % 2' is not allowed; expected {ALLOWED}"),
        ("I(steps @ temp)", f"'steps @ temp' is not allowed; expected {ALLOWED}"),
        ("steps[0]", f"'steps[0]' is not allowed; expected {ALLOWED}"),
        ("I(steps.real)", f"'steps.real' is not allowed; expected {ALLOWED}"),
        ("np.sin(steps)", f"'np.sin(steps)' is not allowed; expected {ALLOWED}"),
        ("np.linalg.norm(steps)", f"'np.linalg.norm(steps)' is not allowed; expected {ALLOWED}"),
        ("log10(steps)", f"'log10(steps)' is not allowed; expected {ALLOWED}"),
        ("bs(steps, df=3)", f"'bs(steps, df=3)' is not allowed; expected {ALLOWED}"),
        ("center(steps)", f"'center(steps)' is not allowed; expected {ALLOWED}"),
        ("log1p(steps, temp)", "'log1p(steps, temp)' is not allowed; expected log1p of one expression"),
        ("log1p(x=steps)", "'log1p(x=steps)' is not allowed; expected log1p of one expression"),
        ("log1p(*steps)", "'log1p(*steps)' is not allowed; expected log1p of one expression"),
        ("I()", "'I()' is not allowed; expected I of one expression"),
        ("I(steps +)", f"'I(steps +)' cannot be read; expected {ALLOWED}"),
        ("I(steps + True)", f"'True' is not allowed; expected {ALLOWED}"),
        ("I(steps + 'a')", f"\"'a'\" is not allowed; expected {ALLOWED}"),
        ("I(steps + 2j)", f"'2j' is not allowed; expected {ALLOWED}"),
        ("I(steps + nothing)", "`nothing` is not a numeric variable"),
        ("I(2)", "'I(2)' has no variable in it"),
        ("{1 + 1}", "'1 + 1' has no variable in it"),
        ("I(steps**9)", "the power 9 is beyond 8; expected a number from -8 to 8"),
        ("I(steps**-8.5)", "the power -8.5 is beyond 8; expected a number from -8 to 8"),
        ("I(steps**temp)", "the power 'temp' is not a number; expected one from -8 to 8"),
        ("I(2**2**2 + steps)", "the power '2 ** 2' is not a number; expected one from -8 to 8"),
        ("I(((9**8)**8)**8 + steps)", "a number in it comes to 1.17902e+61; expected at most 1e+30"),
        ("I(1e200 * steps)", "a number in it is beyond 1e+30"),
        ("I(steps + log(0))", "a number in it comes to -inf; expected at most 1e+30"),
        ("I(steps + 1 / 0)", "a number in it comes to inf; expected at most 1e+30"),
        ("I(steps + sqrt(-1))", "a number in it comes to nan; expected at most 1e+30"),
        ("I(" + "-" * 60 + "steps)", "an expression is nested more than 50 deep"),
        ("log1p(mood)", "'log1p(mood)' computes with 'mood', which is not a number"),
        ("I(tod + steps)", "'I(tod + steps)' computes with 'tod', which is not a number"),
        ("I(action)", "'I(action)' computes with 'action', which is not a number"),
        ("C(steps)", "'C(steps)' is not allowed, expected C of a variable with levels"),
        ("C(mood, contr.sum)", "'C(mood, contr.sum)' is not allowed, expected C of a variable with levels"),
        ("C(nothing)", "'C(nothing)' is not allowed, expected C of a variable with levels"),
        (
            "log(steps)",
            "'log(steps)' is not finite at or near steps = 0, while log1p(x) = log(1 + x) is finite at x = 0",
        ),
        ("sqrt(temp)", "'sqrt(temp)' is not finite at or near temp = -10"),
        ("I(1 / temp)", "'I(1 / temp)' divides by 0 at or near temp = 0.000500025"),
        ("I(1 / (steps - 0.123))", "'I(1 / (steps - 0.123))' divides by 0 at or near steps = 0"),
        ("I(temp**-1)", "'I(temp ** (-1))' divides by 0 at or near temp = 0.000500025"),
        ("I(1 / steps)", "'I(1 / steps)' is not finite at or near steps = 0"),
        ("exp(steps)", "'exp(steps)' is not finite at or near steps = 710.036"),
        ("I(1 / (stress - 2))", "'I(1 / (stress - 2))' is not finite at or near stress = 2"),
        ("I((1e15 * steps)**8)", "'I((1000000000000000.0 * steps) ** 8)' is beyond 1e+30 at or near steps = 20000"),
    ],
)  # fmt: skip
def test_what_a_formula_may_not_contain(text: str, reason: str) -> None:
    """Everything but variables, terms and arithmetic is refused, by name, without being run."""
    message = f"formula {text!r} cannot be used: {reason}; its variables may be {', '.join(NUMBERS)}, action"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        program(text, NUMBERS, ("no", "yes"))


def test_formula_that_is_too_long() -> None:
    """A formula has at most 2,000 characters."""
    text = " + ".join(["steps"] * 300)
    message = f"formula '{text[:40]}...' has 2397 characters; expected at most 2000"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        program(text, NUMBERS, ("no", "yes"))


def test_formula_with_too_many_features() -> None:
    """Interactions of many levels are refused before they fill the memory."""
    many: dict[str, Variable] = {name: tuple(range(30)) for name in "abc"}
    with pytest.raises(InputError, match="cannot be used: it has up to 27000 features, expected at most 10000; "):
        program("C(a):C(b):C(c)", many, ("no", "yes"))


@pytest.mark.parametrize(
    ("formula", "variables", "order", "message"),
    [
        (3, NUMBERS, "degree", "formula is 3; expected text such as 'action + action:stress'"),
        ("steps", NUMBERS, "size", "order is 'size'; expected one of 'degree', 'written'"),
        (
            "action",
            {"action": Number(0, 1)},
            "degree",
            "a context variable is called 'action'; this name is reserved for the action in a formula",
        ),
        (
            "log(log)",
            {"log": Number(1, 2)},
            "degree",
            "formula 'log(log)' cannot be used: 'log' is called as a function, and a variable has that name; "
            "its variables may be log, action",
        ),
        (
            "{a * b}",
            {"a": tuple(range(2000)), "b": tuple(range(2000))},
            "degree",
            "formula '{a * b}' cannot be used: 'a * b' computes with variables that have 4e+06 combinations of bounds "
            "and levels, expected at most 1e+06; its variables may be a, b, action",
        ),
        (
            "C(s) + I(big**2)",
            {"s": (1, 2), "big": Number(0, 1e20)},
            "degree",
            "formula 'C(s) + I(big**2)' cannot be used: 'I(big ** 2)' is beyond 1e+30 at or near big = 1e+20; "
            "its variables may be s, big, action",
        ),
        (
            "np.log(np)",
            {"np": Number(1, 2)},
            "degree",
            "formula 'np.log(np)' cannot be used: 'np.log' is called as a function, and a variable has that name; "
            "its variables may be np, action",
        ),
    ],
)
def test_wrong_arguments_of_a_program(formula: Any, variables: Any, order: Any, message: str) -> None:
    """What is no formula, no order, or a name with two meanings is refused."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        program(formula, variables, ("no", "yes"), order=order)


@pytest.mark.parametrize(
    "text", ["eval('1')", "s.mean()", "{__import__('os')}", "(s + time)**9", "y ~ s", "I(9**9**9)", "center(mood)"]
)
def test_finite_problems_run_no_code_either(text: str) -> None:
    """A finite problem's formula is checked in the same way before the library sees it."""
    with pytest.raises(InputError, match=f"^formula {re.escape(repr(text))} cannot be used: "):
        design(text, LEVELS, ACTIONS)


def test_a_program_that_differs_from_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the library compute anything else than the program, the formula is refused."""
    monkeypatch.setitem(formula_module.CALLABLES, "log1p", np.log)
    with pytest.raises(InputError, match="cannot be used: its features could not be computed reliably; "):
        program("log1p(day + 2)", NUMBERS, ("no", "yes"))


PARTS = (
    "steps", "mood", "tod", "stress", "action", "+", "-", "*", "/", ":", "**", "^", "(", ")", "[", "{", "}", "~", "|",
    "%", ".", ",", "'", "\\", "#", "@", "log(", "log1p(", "np.", "I(", "C(", "1", "0", "2", "9", " ", "lambda", "=",
    "`",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.sampled_from(PARTS), min_size=1, max_size=12).map("".join))
def test_any_text_is_used_or_refused(text: str) -> None:
    """Whatever stands in a formula, it is used or refused as an input error that says the formula back."""
    try:
        made = program(text, NUMBERS, ("no", "yes"))
    except InputError as error:
        assert repr(text) in str(error)  # noqa: PT017  (either outcome is right)
    else:
        assert np.isfinite(made.features([1.0, 1.0, 0.0, 1.0, 0.0, 2.0, 0.0])).all()
