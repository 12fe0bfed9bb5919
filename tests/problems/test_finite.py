"""`Problem`: who sees what, means in strata, round trips; and every input that is refused, with its message."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.problems.variables import TimeOfDay
from opportune.worlds.linear import LinearWorld, synthetic_worlds

Floats = NDArray[np.float64]


def features(contexts: int = 4, actions: int = 3, d: int = 2) -> Floats:
    return np.random.default_rng(1).normal(size=(contexts, actions, d))


def with_entry(value: float) -> Floats:
    phi = features()
    phi[1, 2, 0] = value
    return phi


P = [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([0.2, 0.2, 0.2, 0.33], "context_probs sums to 0.93; expected 1 within 1e-9"),
        ([0.25, 0.25, 0.25, 0.25 + 2e-9], "context_probs sums to 1.000000002; expected 1 within 1e-9"),
        ([-0.2, 0.4, 0.4, 0.4], "context_probs has -0.2 at 0; expected no negative probability"),
        ([0.4, math.nan, 0.4, 0.2], "context_probs has nan at 1; expected numbers from 0 to 1"),
        ([0.4, 0.2, math.inf, 0.2], "context_probs has inf at 2; expected numbers from 0 to 1"),
        ([0.5, 0.5], "context_probs has shape [2]; expected one probability for each of 4 contexts"),
        ([P], "context_probs has shape [1, 4]; expected one probability for each of 4 contexts"),
        (1.0, "context_probs has shape []; expected one probability for each of 4 contexts"),
        ("known", "context_probs is not an array of numbers; expected 4 probabilities"),
    ],
)
def test_wrong_probabilities(probs: Any, message: str) -> None:
    """Probabilities must be finite, not negative, one per context, and sum to 1; problems and worlds say so."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Problem(features(), probs)
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        LinearWorld(Problem(features(), P), theta=[1.0, 1.0], context_probs=probs)


def test_probabilities_may_be_rounded() -> None:
    """A sum within 1e-9 of 1, and a context that never comes, are fine."""
    Problem(features(), [0.25, 0.25, 0.25, 0.25 + 5e-10])
    Problem(features(), [0.0, 0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (with_entry(math.nan), "features has nan at [1, 2, 0]; expected finite numbers"),
        (with_entry(-math.inf), "features has -inf at [1, 2, 0]; expected finite numbers"),
        (features()[0], "features has shape [3, 2]; expected 3 axes [contexts, actions, d]"),
        (features()[None], "features has shape [1, 4, 3, 2]; expected 3 axes [contexts, actions, d]"),
        (None, "features is not an array of numbers; expected shape [contexts, actions, d]"),
        ([[[1.0, 2.0], [3.0]]], "features is not an array of numbers; expected shape [contexts, actions, d]"),
        ("phi", "features is not an array of numbers; expected shape [contexts, actions, d]"),
        (features()[:0], "features is empty on axis 0; expected shape [contexts, actions, d]"),
        (features()[:, :, :0], "features is empty on axis 2; expected shape [contexts, actions, d]"),
        (features()[:, :1], "features has 1 action; expected at least 2 to choose from"),
        (
            np.zeros((1, 128, 1)),
            "features has 1 contexts and 128 actions; expected at most 32000 and 127",
        ),
    ],
)
def test_wrong_features(phi: Any, message: str) -> None:
    """Features must be finite numbers phi[contexts, actions, d] with something to choose from."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Problem(phi)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"variables": {"mood": range(3)}},
            "variables have 3 combinations; expected 4, one for each context in features",
        ),
        (
            {"variables": {"mood": range(2), "hour": range(3)}},
            "variables have 2 x 3 = 6 combinations; expected 4, one for each context in features",
        ),
        ({"variables": {}}, "variables is empty; expected at least one variable with its levels"),
        ({"variables": ["mood"]}, "variables is ['mood']; expected {name: levels}"),
        ({"variables": {"mood": []}}, "variable 'mood' has no levels; expected at least one"),
        ({"variables": {"mood": 4}}, "variable 'mood' is 4; expected its levels, or a scheduled time"),
        (
            {"variables": {"mood": [[1], [2], [3], [4]]}},
            "variable 'mood' has [1] among its levels [[1], [2], [3], [4]]; expected numbers or text",
        ),
        ({"variables": {"mood": [1, 1, 2, 3]}}, "variable 'mood' has a level twice: [1, 1, 2, 3]"),
        (
            {"variables": {"mood": [1, 2, 3, math.nan]}},
            "variable 'mood' has NaN among its levels [1, 2, 3, nan]; expected numbers or text",
        ),
        ({"action_names": ["a", "b"]}, "action_names has 2 names; expected 3, one for each action in features"),
        ({"action_names": "abcd"}, "action_names is 'abcd'; expected a list of names"),
        ({"action_names": ["a", "b", "b"]}, "action_names has a name twice: ['a', 'b', 'b']"),
        (
            {"visibility": {"context": "publik"}},
            "visibility of 'context' is 'publik'; expected one of 'public', 'sensed', 'reported'; "
            "did you mean 'public'?",
        ),
        (
            {"visibility": {"context": "hidden"}},
            "visibility of 'context' is 'hidden'; expected one of 'public', 'sensed', 'reported'",
        ),
        (
            {"variables": {"mood": ["a", "b"], "hour": ["a", "b"]}, "visibility": {"mod": "public"}},
            "visibility of variable is 'mod'; expected one of 'mood', 'hour'; did you mean 'mood'?",
        ),
        ({"visibility": "public"}, "visibility is 'public'; expected {variable: visibility}"),
        ({"noise_sd": 0.0}, "noise_sd is 0.0; expected a finite number > 0"),
        ({"noise_sd": math.nan}, "noise_sd is nan; expected a finite number > 0"),
        ({"theta_bound": -1}, "theta_bound is -1; expected a finite number > 0"),
        ({"theta_bound": 1e-200}, "theta_bound is 1e-200; expected a number from 1e-15 to 1e+15"),
        ({"theta_bound": 1e200}, "theta_bound is 1e+200; expected a finite number > 0 and of at most 1e+30 in size"),
        ({"regularisation": 0}, "regularisation is 0; expected a finite number > 0"),
        ({"delta": 1.0}, "delta is 1.0; expected a finite number > 0 and < 1"),
        ({"delta": "0.05"}, "delta is '0.05'; expected a finite number > 0 and < 1"),
        ({"value_range": (1.0, 1.0)}, "value_range is (1, 1); expected u_min < u_max"),
        ({"value_range": (0.0, math.inf)}, "value_range[1] is inf; expected a finite number"),
        ({"value_range": 3}, "value_range is 3; expected (u_min, u_max)"),
        ({"value_range": (1, 2, 3)}, "value_range is (1, 2, 3); expected (u_min, u_max)"),
        ({"largest_gap": 0.0}, "largest_gap is 0.0; expected a finite number > 0"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """Settings that do not fit the features or make no sense are refused with what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Problem(features(), P, **settings)
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Problem(features(), P).replace(**({"regularisation": None} | settings))


def test_defaults() -> None:
    """Unless told otherwise lam is 1/W^2, delta 0.05, and a context is one sensed variable."""
    problem = Problem(features(), theta_bound=4.0)
    assert (problem.regularisation, problem.delta, problem.noise_sd) == (1 / 16, 0.05, 1.0)
    assert problem.variables == {"context": (0, 1, 2, 3)}
    assert problem.visibility == {"context": "sensed"}
    assert problem.action_names == ("0", "1", "2")
    assert (problem.strata, problem.senses, problem.reported) == (1, 4, False)


def test_a_problem_is_not_changed_from_outside() -> None:
    """Changing the arrays a problem was made from leaves it as it is."""
    phi, p = features(), np.array(P)
    problem = Problem(phi, p)
    phi[:], p[:] = 0.0, 0.0
    np.testing.assert_array_equal(problem.features, features())
    np.testing.assert_array_equal(problem.context_probs, P)


def mixed(**settings: Any) -> Problem:
    """Three variables, the middle one public and the last one reported."""
    return Problem(
        features(12, 2, 3),
        np.arange(1.0, 13.0) / 78.0,
        variables={"place": ["home", "work"], "hour": ["am", "noon", "pm"], "mood": ["low", "high"]},
        visibility={"hour": "public", "mood": "reported"},
        **settings,
    )


def test_who_sees_what() -> None:
    """Strata tell contexts apart by public variables, sensed parts by public and sensed ones."""
    problem = mixed()
    assert (problem.strata, problem.senses, problem.reported) == (3, 6, True)
    for k in range(12):
        place, hour, mood = k // 6, k // 2 % 3, k % 2
        assert problem.stratum_of[k] == hour
        assert problem.sense_of[k] == 3 * place + hour
        names = {"place": ["home", "work"][place], "hour": ["am", "noon", "pm"][hour]}
        levels = {**names, "mood": ["low", "high"][mood]}
        assert problem.levels(k) == levels
        assert problem.index(levels) == problem.index(k) == k


def test_everything_public_or_reported() -> None:
    """If all is public every context is its own stratum; if all is reported there is one stratum for all."""
    names = ("place", "hour", "mood")
    public = mixed().replace(visibility=dict.fromkeys(names, "public"))
    assert (public.strata, public.senses, public.reported) == (12, 12, False)
    reported = mixed().replace(visibility=dict.fromkeys(names, "reported"))
    assert (reported.strata, reported.senses, reported.reported) == (1, 1, True)


def test_means_are_conditional_expectations() -> None:
    """E[phi | stratum] weighs by p within the stratum; uniformly where p is unknown or the stratum never comes."""
    problem = mixed()
    p = np.arange(1.0, 13.0) / 78.0
    p[problem.stratum_of == 1] = 0.0
    for probs in (p, None):
        means = problem.means(problem.stratum_of, 3, probs)
        for stratum in range(3):
            inside = problem.stratum_of == stratum
            weights = np.ones(4) if probs is None or stratum == 1 else p[inside]
            expected = np.average(problem.features[inside], axis=0, weights=weights)
            np.testing.assert_allclose(means[stratum], expected, rtol=1e-13)


def test_least_distance() -> None:
    """Dmin is the least distance between two actions' features in one context."""
    problem = Problem(features(5, 4, 3))
    distances = [
        np.linalg.norm(problem.features[k, a] - problem.features[k, b])
        for k in range(5)
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    assert problem.least_distance == pytest.approx(min(distances), rel=1e-14)


def same(first: Problem, second: Problem) -> bool:
    return first.to_dict() == second.to_dict() and np.array_equal(first.features, second.features)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(features()),
        Problem(features(), P, value_range=(0.1, 0.7), largest_gap=0.3, regularisation=0.01, delta=0.2),
        mixed(action_names=["call", "message"], noise_sd=1 / 3),
        synthetic_worlds(1, seed=3)[0].problem,
    ],
    ids=repr,
)
def test_round_trip(problem: Problem) -> None:
    """Written as JSON and read again, a problem is the same to the last bit."""
    again = Problem.from_dict(json.loads(json.dumps(problem.to_dict(), allow_nan=False)))
    assert same(again, problem)
    assert repr(again) == repr(problem)
    at = problem.layout()
    assert again.layout() == at
    np.testing.assert_array_equal(again.constants(at, 50), problem.constants(at, 50))


def test_replace_changes_what_is_named() -> None:
    """`replace` changes what is named and nothing else, and leaves the original alone."""
    problem = mixed()
    before = problem.to_dict()
    changed = problem.replace(noise_sd=0.5, context_probs=None)
    assert (changed.noise_sd, changed.context_probs) == (0.5, None)
    assert problem.to_dict() == before
    assert same(changed.replace(noise_sd=1.0, context_probs=before["context_probs"]), problem)
    with pytest.raises(InputError, match=r"^a setting of Problem is 'noise_level'; expected one of "):
        problem.replace(noise_level=2.0)


def test_replace_lets_lam_follow_the_bound() -> None:
    """A new W brings its own lam = 1/W^2, unless lam was given then or is now."""
    features, probs = np.eye(2)[None].repeat(2, axis=0), [0.5, 0.5]
    problem = Problem(features, probs, noise_sd=0.1, theta_bound=2.0)
    assert problem.replace(theta_bound=4.0).regularisation == 1 / 16
    assert problem.replace(theta_bound=4.0, regularisation=0.5).regularisation == 0.5
    assert problem.replace(delta=0.1).regularisation == 1 / 4
    given = Problem(features, probs, noise_sd=0.1, theta_bound=2.0, regularisation=0.7)
    assert given.replace(theta_bound=4.0).regularisation == 0.7


def test_repr() -> None:
    """A problem's text form says its sizes and whether probabilities are known."""
    assert repr(Problem(features())) == "Problem(4 contexts (unknown probabilities), 3 actions, d=2)"
    assert repr(Problem(features(), P)) == "Problem(4 contexts (known probabilities), 3 actions, d=2)"


@pytest.mark.parametrize("step", [0, -1, 1.5, 1.0, True, None, "1", math.nan])
def test_a_step_is_counted_from_1(step: Any) -> None:
    """Where a context stands is asked of a step, also where nothing follows a schedule; steps count from 1."""
    plain = Problem.from_formula("action*stress", contexts={"stress": [0, 1]}, actions=2)
    timed = Problem.from_formula("action*t", contexts={"t": TimeOfDay(["early", "late"])}, actions=2)
    cases: list[tuple[Any, Any]] = [(plain, {"stress": 1}), (plain, 1), (timed, {}), (timed, 1)]
    for problem, context in cases:
        problem.locate(context, 1)
        with pytest.raises(InputError, match=r"^step is .*; expected a whole number >= 1$"):
            problem.locate(context, step)
