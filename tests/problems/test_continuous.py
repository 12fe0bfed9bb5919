"""`ContinuousProblem`: contexts in numbers, features at the moment, what is hidden, round trips, refusals."""

import itertools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.formula import design
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay, Weekday, Weekend, from_json
from opportune.worlds.brushing import step as brushing

Floats = NDArray[np.float64]

VARIABLES: dict[str, Any] = {
    "tod": TimeOfDay(("morning", "evening")),
    "steps": Number(0, 20_000),
    "place": ["home", "work", "other"],
    "mood": [1, 2, 3],
    "pain": Number(0, 10),
    "ward": ["a", "b", "c"],
}
VISIBILITY: dict[str, Any] = {"mood": "reported", "pain": "reported", "ward": "public"}
FORMULA = "1 + action * (log1p(steps) + mood) + tod + place + pain:tod + ward"


def problem(**settings: Any) -> ContinuousProblem:
    """Public: tod, ward; sensed: steps, place; reported: mood, pain."""
    arguments = {"visibility": VISIBILITY, **settings}
    formula, variables = arguments.pop("formula", FORMULA), arguments.pop("variables", VARIABLES)
    return ContinuousProblem(formula, variables, arguments.pop("actions", ["rest", "walk", "call"]), **arguments)


CONTEXT = {"steps": 3200, "place": "work", "mood": 3, "pain": 2.5, "ward": "c"}


def test_a_context_in_numbers() -> None:
    """Numbers are as they are, levels by their number, scheduled variables come from the step unless given."""
    moment = problem().values(CONTEXT, 2)
    np.testing.assert_array_equal(moment.values, [1, 3200, 1, 2, 2.5, 2, 0])
    assert (moment.missing, moment.unreported) == ((), ())
    assert problem().values({**CONTEXT, "tod": "morning"}, 2).values[0] == 0.0
    assert problem().values({**CONTEXT, "mood": np.int64(3), "steps": np.float32(7)}, 2).values[3] == 2.0


def test_what_was_not_given() -> None:
    """Sensed and reported variables may be missing: they are named, and stand-ins keep the numbers usable."""
    moment = problem().values({"ward": "a", "place": None, "mood": 1}, 1)
    assert (moment.missing, moment.unreported) == (("steps", "place"), ("pain",))
    np.testing.assert_array_equal(moment.values, [0, 10_000, 0, 0, 5, 0, 0])
    assert np.isfinite(problem().features(moment.values)).all()


def test_features_by_hand() -> None:
    """The features of each action are the formula's."""
    made = problem()
    x = dict(zip(made.program.names, made.features(made.values(CONTEXT, 2).values).T, strict=True))
    log = math.log1p(3200)
    expected: dict[str, list[float]] = {
        "intercept": [1, 1, 1], "action=walk": [0, 1, 0], "action=call": [0, 0, 1], "log1p(steps)": [log] * 3,
        "mood": [3, 3, 3], "tod=evening": [1, 1, 1], "place=work": [1, 1, 1], "place=other": [0, 0, 0],
        "ward=b": [0, 0, 0], "ward=c": [1, 1, 1], "action=walk:log1p(steps)": [0, log, 0],
        "action=call:log1p(steps)": [0, 0, log], "action=walk:mood": [0, 3, 0], "action=call:mood": [0, 0, 3],
        "pain:tod=morning": [0, 0, 0], "pain:tod=evening": [2.5, 2.5, 2.5],
    }  # fmt: skip
    assert set(x) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(x[name], values, rtol=1e-15, err_msg=name)


def test_who_sees_which_feature() -> None:
    """A feature is hidden from the recommender if it reads anything not public, from the revealer if reported."""
    made = problem()
    names = made.program.names
    unseen = {name for name, hidden in zip(names, made.hidden_from_recommender, strict=True) if hidden}
    assert unseen == {name for name in names if re.search("steps|mood|place|pain", name)}
    unreported = {name for name, hidden in zip(names, made.hidden_from_revealer, strict=True) if hidden}
    assert unreported == {name for name in names if re.search("mood|pain", name)}
    assert made.reported
    assert not problem(visibility={"ward": "public"}).reported
    everything = problem(visibility=dict.fromkeys(VARIABLES, "public"))
    assert not everything.hidden_from_recommender.any()


def test_strata_are_combinations_of_public_levels() -> None:
    """Public levels are numbered with the first variable slowest."""
    made = problem()
    assert made.strata == 6
    found = [
        made.stratum(made.values({**CONTEXT, "tod": tod, "ward": ward}, 1).values)
        for tod in ("morning", "evening")
        for ward in "abc"
    ]
    assert found == list(range(6))
    assert problem(visibility={}).strata == 2
    assert problem(formula="action", variables={"steps": Number(0, 1)}, visibility={}).strata == 1


def test_corners_are_what_could_be_sensed() -> None:
    """Hidden numbers go to either bound and hidden levels to each; what is public stays as it is."""
    made = problem()
    values = made.values(CONTEXT, 2).values
    found = made.corners(values)
    assert found.shape == (2 * 3 * 3 * 2, 3, made.d)
    expected = []
    for steps, place, mood, pain in itertools.product((0, 20_000), range(3), range(3), (0, 10)):
        expected.append(made.features(np.array([1, steps, place, mood, pain, 2, 0.0])))
    np.testing.assert_array_equal(found, expected)


@settings(deadline=None)
@given(steps=st.floats(0, 20_000), pain=st.floats(0, 10), place=st.integers(0, 2), mood=st.integers(0, 2))
def test_corners_enclose_features(steps: float, pain: float, place: int, mood: int) -> None:
    """Every feature that a moment could have lies between its least and its largest corner."""
    corners = PROBLEM.corners(np.array([1, 5.0, 0, 0, 5.0, 2, 0.0]))
    x = PROBLEM.features(np.array([1, steps, place, mood, pain, 2, 0.0]))
    assert (corners.min(axis=0) - 1e-12 <= x).all()
    assert (x <= corners.max(axis=0) + 1e-12).all()


PROBLEM = problem()


def test_variables_that_the_formula_does_not_use_have_no_corners() -> None:
    """Only what features depend on can make a difference."""
    made = problem(formula="action:steps")
    assert made.corners(made.values(CONTEXT, 1).values).shape == (2, 3, made.d)
    public = problem(formula="action:ward")
    assert public.corners(public.values(CONTEXT, 1).values).shape == (1, 3, public.d)


def test_start() -> None:
    """Before anything was counted, numbers are in the middle and levels average."""
    made = problem()
    assert made.start.shape == (6, 3, made.d)
    start = dict(zip(made.program.names, made.start[4].T, strict=True))  # evening, ward b
    np.testing.assert_allclose(start["place=work"], [1 / 3] * 3)
    np.testing.assert_allclose(start["mood"], [2.0] * 3)
    np.testing.assert_allclose(start["pain:tod=evening"], [5.0] * 3)
    np.testing.assert_allclose(start["ward=b"], [1.0] * 3)
    np.testing.assert_allclose(start["action=walk:log1p(steps)"], [0, math.log1p(10_000), 0])


def test_start_may_be_given() -> None:
    """A value to start from, or means known for good, replace the middle."""
    made = problem(start={"steps": 0, "place": "work", "mood": 3})
    start = dict(zip(made.program.names, made.start[0].T, strict=True))
    assert (start["log1p(steps)"][0], start["place=work"][0], start["mood"][0]) == (0.0, 1.0, 3.0)
    known = np.random.default_rng(1).normal(size=(6, 3, made.d))
    np.testing.assert_array_equal(problem(known_means=known).start, known)


def test_least_distance() -> None:
    """Dmin is the least positive distance of two actions' features, in their units, over the corners of all bounds."""
    made = problem(formula="action:steps + action:pain")
    with pytest.warns(UserWarning, match="two actions have the same features in some context"):  # at steps = pain = 0
        least = made.least_distance
    assert made.units.tolist() == [2.0**15] * 3 + [1.0] * 3
    assert least == pytest.approx(math.sqrt(2) * 20_000 / 2**15)  # at steps = 20,000, pain = 0
    assert problem(least_distance=0.5).least_distance == 0.5
    with pytest.raises(InputError, match="'steps' does not name action; expected it"):
        problem(formula="steps")


def test_numbers_with_levels_only_give_the_finite_design() -> None:
    """Where every variable has levels the features are those of the finite problem."""
    levels: dict[str, Any] = {"mood": (1, 2, 3), "place": ("home", "work")}
    made = ContinuousProblem("action * mood * place", levels, ["no", "yes"])
    expected = design("action * mood * place", levels, ["no", "yes"])
    for k, (mood, place) in enumerate(itertools.product(*levels.values())):
        moment = made.values({"mood": mood, "place": place}, 1)
        np.testing.assert_array_equal(made.features(moment.values), expected[k])


FULL: dict[str, Any] = {
    "order": "written", "start": {"steps": 5, "place": "work"}, "noise_sd": 1 / 3, "theta_bound": 2.0, "delta": 0.1,
    "regularisation": 0.3, "value_range": (0.1, 0.9), "largest_gap": 0.4, "least_distance": 0.2,
    "variables": {**VARIABLES, "day": DayOfStudy.scaled(70), "week": Weekday(first="Friday"), "free": Weekend()},
    "formula": FORMULA + " + day + free", "decisions_per_day": 2, "actions": 2,
}  # fmt: skip


@pytest.mark.parametrize("settings", [{}, FULL, {"known_means": np.arange(6 * 3 * PROBLEM.d).reshape(6, 3, -1) / 7}])
def test_round_trip(settings: dict[str, Any]) -> None:
    """Written as JSON and read again, a problem is the same to the last bit."""
    made = problem(**settings)
    again = ContinuousProblem.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
    assert again.to_dict() == made.to_dict()
    assert again.variables == made.variables
    assert again.schedule == made.schedule
    assert repr(again) == repr(made)
    np.testing.assert_array_equal(again.start, made.start)
    np.testing.assert_array_equal(again.program.code, made.program.code)


def test_replace() -> None:
    """`replace` changes what is named; a new W brings its own lam unless lam was given."""
    made = problem(theta_bound=2.0)
    assert made.replace(theta_bound=4.0).regularisation == 1 / 16
    assert made.replace(theta_bound=4.0, regularisation=0.5).regularisation == 0.5
    assert made.replace(noise_sd=0.5).to_dict() == {**made.to_dict(), "noise_sd": 0.5}
    assert problem(regularisation=0.7).replace(theta_bound=4.0).regularisation == 0.7


def test_repr() -> None:
    """A problem's text form says its variables and sizes."""
    assert repr(PROBLEM) == "ContinuousProblem(tod, steps, place, mood, pain, ward; 6 strata, 3 actions, d=16)"


G = {"robas2": ("tod", "prior", "prop", "weekend"), "robas3": ("tod", "prior", "day", "prop", "weekend")}


def brushing_problem(study: str, first: str) -> ContinuousProblem:
    """The brushing problem, phi = [g; a*h], by a formula."""
    mean, sd = brushing.SCALES[study]
    variables = {
        "weekend": Weekend(first=first),
        "tod": TimeOfDay(("morning", "evening")),
        "prior": Number(-mean / sd, (2 * brushing.CAP - mean) / sd),
        "prop": Number(0, 1),
        "day": DayOfStudy.scaled(70),
    }
    g = [*G[study], "1"]
    h = ["action:" + name if name != "1" else "action" for name in g if name != "prop"]
    return ContinuousProblem(
        " + ".join([*g, *h]), variables, ["no message", "message"], order="written", noise_sd=0.5,
        value_range=(0.0, 1.0), start={"prior": 0.0, "prop": 0.0}, least_distance=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("study", ["robas2", "robas3"])
@pytest.mark.parametrize(("first", "first_weekend"), [("Monday", 10), ("Thursday", 4), ("Saturday", 0)])
def test_the_brushing_problem_by_a_formula(study: str, first: str, first_weekend: int) -> None:
    """A formula gives the brushing world's features, bit for bit and in its order, its strata, corners and mask."""
    made = brushing_problem(study, first)
    width = len(brushing.feature_names(study))
    params = brushing.pack_params(study, w_b=[0.0] * width, w_p=[0.0] * width, first_weekend=first_weekend)
    random = np.random.default_rng(1)
    bounds = made.variables["prior"]
    assert isinstance(bounds, Number)
    assert np.flatnonzero(made.hidden_from_recommender).tolist() == {"robas2": [1, 2, 6], "robas3": [1, 3, 7]}[study]
    assert made.strata == 4
    for t in range(140):
        prior = random.uniform(bounds.low, bounds.high)
        prop = random.integers(15) / 14
        x = np.full((2, made.d), np.nan)
        stratum = brushing.features(params, t, prior, prop, x)
        values = made.values({"prior": prior, "prop": prop}, t + 1).values
        np.testing.assert_array_equal(made.features(values), x)
        assert made.stratum(values) == stratum
        corners = made.corners(values)
        for i, (extreme_prior, extreme_prop) in enumerate(itertools.product((bounds.low, bounds.high), (0.0, 1.0))):
            brushing.features(params, t, extreme_prior, extreme_prop, x)
            np.testing.assert_allclose(corners[i], x, rtol=1e-15)
    np.testing.assert_array_equal(made.start[:, :, made.hidden_from_recommender], 0.0)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ([1], "context is [1]; expected {variable: value}"),
        ({"steps": 1}, "context lacks 'ward'; expected a value, as the variable is public"),
        ({"ward": None}, "context lacks 'ward'; expected a value, as the variable is public"),
        (
            {**CONTEXT, "stepps": 1},
            "context variable is 'stepps'; expected one of 'tod', 'steps', 'place', 'mood', 'pain', 'ward'; "
            "did you mean 'steps'?",
        ),
        ({**CONTEXT, "steps": 20_001}, "steps is 20001; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": -0.5}, "steps is -0.5; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": math.nan}, "steps is nan; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": math.inf}, "steps is inf; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": "3"}, "steps is '3'; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": True}, "steps is True; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "steps": [3]}, "steps is [3]; expected a finite number >= 0 and <= 20000"),
        ({**CONTEXT, "mood": True}, "mood is True; expected one of [1, 2, 3]"),
        ({**CONTEXT, "mood": 4}, "mood is 4; expected one of [1, 2, 3]"),
        ({**CONTEXT, "mood": [1]}, "mood is [1]; expected one of [1, 2, 3]"),
        ({**CONTEXT, "mood": math.nan}, "mood is nan; expected one of [1, 2, 3]"),
        ({**CONTEXT, "place": "Home"}, "place is 'Home'; expected one of ['home', 'work', 'other']"),
        ({**CONTEXT, "tod": "noon"}, "tod is 'noon'; expected one of ['morning', 'evening']"),
    ],
)
def test_wrong_contexts(context: Any, message: str) -> None:
    """A context with a value that cannot be is refused with what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        PROBLEM.values(context, 1)


def test_truths_may_be_levels() -> None:
    """Where levels are True and False they may be given."""
    made = problem(formula="action", variables={"awake": [False, True]}, visibility={})
    assert made.values({"awake": True}, 1).values[0] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variables": [1]}, "variables is [1]; expected {name: Number, levels or a scheduled variable}"),
        ({"variables": {}}, "variables is empty; expected at least one variable"),
        (
            {"variables": {"steps": 4}},
            "variable 'steps' is 4; expected its levels, a Number or a scheduled variable",
        ),
        ({"actions": 1}, "actions is 1; expected a whole number from 2 to 127"),
        ({"actions": "ab"}, "actions is 'ab'; expected a list of names"),
        ({"actions": ["a"]}, "actions is ['a']; expected 2 to 127 to choose from"),
        ({"actions": ["a", "a"]}, "actions has a name twice: ['a', 'a']"),
        ({"visibility": "public"}, "visibility is 'public'; expected {variable: visibility}"),
        (
            {"visibility": {"step": "public"}},
            "visibility of variable is 'step'; expected one of 'tod', 'steps', 'place', 'mood', 'pain', 'ward'; "
            "did you mean 'steps'?",
        ),
        (
            {"visibility": {"steps": "publik"}},
            "visibility of 'steps' is 'publik'; expected one of 'public', 'sensed', 'reported'; did you mean 'public'?",
        ),
        (
            {"visibility": {"tod": "sensed"}},
            "visibility of 'tod' is 'sensed'; expected 'public', as its schedule is known",
        ),
        ({"order": "size"}, "order is 'size'; expected one of 'degree', 'written'"),
        ({"formula": None}, "formula is None; expected text such as 'action + action:stress'"),
        ({"decisions_per_day": 3}, "variable 'tod' has 2 times of day; expected 3, one for each decision of the day"),
        ({"noise_sd": 0.0}, "noise_sd is 0.0; expected a finite number > 0"),
        ({"theta_bound": -1}, "theta_bound is -1; expected a finite number > 0"),
        ({"theta_bound": 1e-200}, "theta_bound is 1e-200; expected a number from 1e-15 to 1e+15"),
        ({"regularisation": 0}, "regularisation is 0; expected a finite number > 0"),
        ({"delta": 1.0}, "delta is 1.0; expected a finite number > 0 and < 1"),
        ({"value_range": (1.0, 1.0)}, "value_range is (1, 1); expected u_min < u_max"),
        ({"value_range": 3}, "value_range is 3; expected (u_min, u_max)"),
        ({"value_range": (0, math.nan)}, "value_range[1] is nan; expected a finite number"),
        ({"largest_gap": 0.0}, "largest_gap is 0.0; expected a finite number > 0"),
        ({"least_distance": 0.0}, "least_distance is 0.0; expected a finite number > 0"),
        ({"start": 3}, "start is 3; expected {variable: value}"),
        ({"start": {"ward": "a"}}, "start has 'ward', which is public; expected variables that are not"),
        ({"start": {"steps": -1}}, "steps is -1; expected a finite number >= 0 and <= 20000"),
        (
            {"start": {"stress": 1}},
            "variable in start is 'stress'; expected one of 'tod', 'steps', 'place', 'mood', 'pain', 'ward'; "
            "did you mean 'steps'?",
        ),
        ({"known_means": [1.0]}, "known_means has shape [1]; expected 3 axes [6, 3, 16]"),
        (
            {"known_means": np.zeros((6, 3, 15))},
            "known_means has 15 entries on axis 2; expected 16 (shape [6, 3, 16])",
        ),
        (
            {"variables": {"n": range(10_001)}, "visibility": {"n": "public"}, "formula": "n"},
            "public variables have 10001 combinations of levels; expected at most 10000",
        ),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """Settings that make no sense are refused with what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        problem(**settings)


def test_too_many_combinations() -> None:
    """What would take too long to go through is refused, with the way out."""
    levels: dict[str, Any] = {name: list(range(17)) for name in "abcd"}
    made = ContinuousProblem("action * (a + b + c + d)", levels, 2)
    for attempt, message in (
        (lambda: made.corners(np.zeros(5)), "what is not public has 83521 combinations of bounds and levels; "
         "expected at most 256"),
        (lambda: made.start, "variables have 83521 combinations of levels; expected at most 65536, or start={...}"),
        (lambda: made.least_distance, "variables have 83521 combinations of bounds and levels; "
         "expected at most 65536, or least_distance=..."),
    ):  # fmt: skip
        with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
            attempt()


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (
            {"kind": "numbr", "low": 0},
            "kind of variable 'x' is 'numbr'; expected one of 'levels', 'number', 'time_of_day', 'weekday', "
            "'weekend', 'day_of_study', 'history'; did you mean 'number'?",
        ),
        (
            3,
            "kind of variable 'x' is None; expected one of 'levels', 'number', 'time_of_day', 'weekday', 'weekend', "
            "'day_of_study', 'history'",
        ),
        (
            {"kind": "number", "low": 0},
            "variable 'x' is {'kind': 'number', 'low': 0}; expected a description of this kind of variable",
        ),
        ({"kind": "levels"}, "variable 'x' is {'kind': 'levels'}; expected a description of this kind of variable"),
        ({"kind": "number", "low": 1, "high": 0}, "Number is from 1 to 0; expected low < high"),
    ],
)
def test_saved_variables_that_cannot_be_read(saved: Any, message: str) -> None:
    """What does not describe a variable is refused by name."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        from_json("x", saved)
