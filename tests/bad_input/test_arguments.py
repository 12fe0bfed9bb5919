"""Arguments that cannot be used: each is refused in one line that says what was given, what was expected and where."""

# mypy: disable-error-code="arg-type, call-arg, call-overload, dict-item, index, misc, override"
# Wrong types are what these tests are about.
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr
from wrong_values import (
    ARRAY,
    FEATURES,
    LISTED,
    MAPPING,
    NAME,
    NUMBER,
    PATH,
    POSITIVE,
    PROBS,
    RATE,
    RATES,
    TRUTH,
    WHOLE,
    WORD,
    Values,
    continuous,
    drawn,
    finite,
    linear,
    refusal,
)

import opportune as op
from opportune.analysis.clairvoyant import clairvoyant
from opportune.analysis.intervals import interval
from opportune.errors import InputError
from opportune.worlds.brushing.problem import brushing_problem


def simulated(**settings: Any) -> xr.Dataset:
    given = {"worlds": linear(), "policies": op.pd2_ucb(2), "horizon": 3, "replicates": 1, "seed": 1, "progress": False}
    return op.simulate(**{**given, **settings})


class Row(NamedTuple):
    """An argument of a call: what is wrong for it, and how the refusal begins."""

    call: Callable[..., Any]
    argument: str
    wrong: Values
    said: str
    but: tuple[str, ...] = ()  # which of these values is right here


TABLE = [
    Row(finite, "features", ARRAY, "features"),
    Row(finite, "context_probs", ARRAY, "context_probs"),
    Row(finite, "noise_sd", POSITIVE, "noise_sd is"),
    Row(finite, "theta_bound", POSITIVE, "theta_bound is"),
    Row(finite, "delta", NUMBER, "delta is"),
    Row(finite, "regularisation", POSITIVE, "regularisation is", ("None",)),
    Row(finite, "largest_gap", POSITIVE, "largest_gap is", ("None",)),
    Row(finite, "value_range", LISTED, "value_range"),
    Row(finite, "variables", MAPPING, "variables is"),
    Row(finite, "visibility", MAPPING, "visibility is"),
    Row(finite, "action_names", LISTED, "action_names"),
    Row(finite, "decisions_per_day", WHOLE, "decisions_per_day is", ("None",)),
    Row(lambda levels: finite(variables={"s": levels}), "levels", LISTED, "variable 's'"),
    Row(lambda name: finite(variables={name: [1, 2, 3]}), "name", NAME, "name of a variable",
        ("list", "table", "dataset")),
    Row(continuous, "formula", WORD, "formula"),
    Row(continuous, "variables", MAPPING, "variables is"),
    Row(continuous, "actions", LISTED, "actions"),
    Row(continuous, "order", WORD, "order is"),
    Row(continuous, "start", MAPPING, "start is"),
    Row(continuous, "known_means", ARRAY, "known_means"),
    Row(continuous, "least_distance", POSITIVE, "least_distance is", ("None",)),
    Row(lambda low: op.Number(low, 5), "low", NUMBER, "low of Number is"),
    Row(op.TimeOfDay, "names", LISTED, "names of TimeOfDay"),
    Row(op.Weekday, "first", WORD, "first of Weekday is"),
    Row(op.DayOfStudy, "days", WHOLE, "days of DayOfStudy is"),
    Row(linear, "problem", MAPPING, "problem is"),
    Row(linear, "theta", ARRAY, "theta"),
    Row(linear, "noise_sd", NUMBER, "noise_sd is", ("None",)),
    *(Row(linear, rate, RATE, rate) for rate in ("open_rate", "response_rate")),  # which may be one for each stratum
    *(Row(linear, rate, NUMBER, f"{rate} is") for rate in ("available_rate", "reward_rate")),
    Row(linear, "reward_delay", WHOLE, "reward_delay is"),
    Row(linear, "name", NAME, "name of the world"),
    Row(lambda course: op.DriftingWorld(finite(), theta=[0, 0], course=course), "course", ARRAY, "course"),
    Row(drawn, "distributions", MAPPING, "distributions is"),
    Row(drawn, "table", MAPPING, "table is"),
    Row(lambda mean: op.distributions.Normal(mean, 1), "mean", NUMBER, "mean of Normal is"),
    Row(lambda sd: op.distributions.Normal(0, sd), "sd", POSITIVE, "sd of Normal is"),
    Row(op.distributions.Choice, "probabilities", MAPPING, "probabilities of Choice is"),
    Row(op.distributions.Resampled, "columns", MAPPING, "columns of Resampled is"),
    Row(lambda path: op.distributions.Resampled.from_csv(path, ["x"]), "path", PATH, "path is"),
    Row(lambda **given: op.synthetic_worlds(**{"n": 1, "seed": 1, **given}), "n", WHOLE, "n is"),
    Row(lambda known: op.synthetic_worlds(1, 1, known=known), "known", TRUTH, "known is"),
    Row(lambda **given: op.brushing_world("robas2", **given), "users", LISTED, "users"),
    Row(lambda **given: op.brushing_world("robas2", users=1, **given), "message_cost", NUMBER, "message_cost is"),
    Row(op.Budget, "amount", POSITIVE, "budget is"),
    Row(lambda hard: op.Budget(2, hard=hard), "hard", TRUTH, "hard is"),
    Row(lambda name: op.pd2_ucb(2, name=name), "name", NAME, "name of the policy"),
    Row(lambda scale: op.pd2_ucb(2, scale=scale), "scale", WORD, "scale is"),
    Row(op.LinUCB, "rotate", TRUTH, "rotate is"),
    Row(op.LinUCB, "kappa", NUMBER, "kappa is"),
    Row(op.LinUCB, "radius", WORD, "radius is"),
    Row(op.FixedAction, "action", WHOLE, "action is"),
    Row(op.Periodic, "every", WHOLE, "every is"),
    Row(op.LearningPrimalDual, "tolerance", NUMBER, "tolerance is", ("None",)),
    Row(simulated, "worlds", LISTED, "worlds"),
    Row(simulated, "policies", LISTED, "policies"),
    Row(simulated, "horizon", WHOLE, "horizon is"),
    Row(simulated, "replicates", WHOLE, "replicates is"),
    Row(simulated, "seed", WHOLE, "seed is"),
    Row(simulated, "trace", TRUTH, "trace is"),
    Row(simulated, "device", WORD, "device is", ("None",)),
    Row(op.regret, "data", MAPPING, "regret needs results of simulate; got"),
    Row(op.plot_reveals, "data", MAPPING, "spending over time needs results of simulate; got"),
    Row(lambda path: op.save(xr.Dataset(), path), "path", PATH, "path is"),
    Row(op.load, "path", PATH, "path is"),
    Row(op.register, "entry", MAPPING, "register was given", ("class",)),
]  # fmt: skip


def cases() -> Iterator[Any]:
    for number, row in enumerate(TABLE):
        for name, value in row.wrong.items():
            if name not in row.but:
                yield pytest.param(row, value, id=f"{number}-{row.argument}-{name}")


@pytest.mark.parametrize(("row", "value"), list(cases()))
def test_wrong_arguments_are_refused(row: Row, value: Callable[[], Any]) -> None:
    """Whatever is given instead of what was expected, the message begins with what it was given for."""
    text = refusal(lambda: row.call(**{row.argument: value()}))
    assert text.startswith(row.said), text
    assert "expected" in text or "cannot be used" in text


def test_there_are_many() -> None:
    """The table is as long as it should be: some hundreds of cases."""
    assert len(list(cases())) > 700


@pytest.mark.parametrize(
    "call",
    [
        finite,
        continuous,
        linear,
        drawn,
        lambda: finite(noise_sd=np.float64(0.5), delta=np.float32(0.25), decisions_per_day=np.int64(1)),
        lambda: finite(features=FEATURES.astype(np.float32), context_probs=tuple(PROBS), action_names=["$a_", "[red]"]),
        lambda: finite(variables={"größe": ["klein", "mittel", "groß"]}),
        lambda: linear(theta=np.array([0, 0], dtype=np.int8), noise_sd=0, reward_delay=np.int16(3), name="_[b]$x$"),
        lambda: linear(**dict.fromkeys(RATES, 0)),
        lambda: op.Budget(np.int64(3), hard=np.bool_(True)),
        lambda: op.Budget(1e-6),
        lambda: op.FixedAction(action=np.int64(1)),
        lambda: op.Number(np.float64(-1e30), 1e30),
        lambda: op.DayOfStudy(2),
        lambda: op.synthetic_worlds(np.int64(1), np.uint64(2**64 - 1), contexts=2, actions=2),
        lambda: op.brushing_world("robas2", users=np.int64(1), seed=2**64 - 1),
        lambda: op.Problem.from_formula("action*s", {"s": np.arange(3)}, np.int64(2)),
        lambda: op.distributions.Resampled({"x": np.ones(2), "y": ["a", "b"]}),
    ],
)
def test_what_is_right_stays_accepted(call: Callable[[], Any]) -> None:
    """The control: plain values, NumPy's numbers, and the ends of what is allowed."""
    assert call() is not None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: simulated(horizon=10**12), "horizon is 1000000000000; expected a whole number from 1 to 10000000"),
        (lambda: simulated(replicates=2**32 - 1), "are available; expected"),
        (lambda: simulated(horizon=10**7, replicates=10**5), "expected trace=False"),
        (lambda: op.synthetic_worlds(10**6, 1, contexts=32_000, actions=127), "features of 1,000,000 worlds takes"),
        (lambda: op.synthetic_worlds(1, 1, contexts=10**7), "contexts is 10000000"),
        (lambda: op.Problem.from_formula("action*s", {"s": range(10**7)}, 2), "expected its levels"),
        (lambda: op.Problem.from_formula("action", {c: range(100) for c in "abc"}, 2), "variables have 1,000,000"),
        (lambda: op.DayOfStudy(10**12), "days of DayOfStudy is 1000000000000"),
        (
            lambda: continuous(variables={"d": op.DayOfStudy(10**5)}, formula="action", decisions_per_day=1440),
            "the schedule has 144,000,000",
        ),
        (lambda: op.brushing_world("robas2", users=10**9), "users is 1000000000"),
        (
            lambda: op.simulate(op.brushing_world("robas2", users=1), op.pd2_ucb(2), horizon=141, replicates=1, seed=1),
            "horizon is 141; expected at most 140",
        ),
        (lambda: finite(theta_bound=1e200), "theta_bound is 1e+200"),
        (lambda: finite(delta=5e-324), "delta is 4.94066e-324; expected at least 1e-300"),
        (lambda: op.Budget(1e-300), "budget is 1e-300; expected at least 1e-06"),
        (lambda: op.Budget(2.5, hard=True), "expected a whole number"),
        (lambda: finite().replace(noise_level=1.0), "a setting of Problem is 'noise_level'"),
        (
            lambda: op.Problem.from_formula("action", {"s": [1, 2]}, 2, noise=1),
            "a setting of Problem is 'noise'; expected one of",
        ),
        (
            lambda: op.Problem.from_formula("action", {"s": [1, 2]}, 2, variables={}),
            "a setting of Problem is 'variables'",
        ),
        (lambda: linear(opn_rate=0.1), "a world's setting is 'opn_rate'"),
        (lambda: finite(features=np.ones((3, 1, 2))), "features has 1 action; expected at least 2"),
        (lambda: finite(action_names=["a", "a"]), "action_names has a name twice"),
        (lambda: finite(action_names=["a", None]), "action_names[1] is None; expected text"),
        (lambda: finite(context_probs=[0.5, 0.5, 0.5]), "context_probs sums to 1.5"),
        (lambda: finite(context_probs=[-0.5, 0.5, 1.0]), "expected no negative probability"),
        (lambda: finite(variables={"s": [1, 2]}), "variables have 2 combinations; expected 3"),
        (lambda: finite(variables={"s": [1, 2, [3]]}), "variable 's' has [3] among its levels"),
        (
            lambda: finite(variables={"s": [1, 2, 10**400]}),
            "a level of variable 's' is a whole number of about 400 digits",
        ),
        (
            lambda: finite(value_range=(0, 5e-324)),
            "value_range is (0, 4.94066e-324); expected a width of at least 1e-30",
        ),
        (lambda: finite(value_range=(1, 0)), "value_range is (1, 0); expected u_min < u_max"),
        (lambda: finite(visibility={"contxt": "public"}), "did you mean 'context'?"),
        (lambda: op.Problem.from_formula("action ~ s", {"s": [1, 2]}, 2), "'~' is not allowed"),
        (lambda: op.Problem.from_formula("action | s", {"s": [1, 2]}, 2), "'|' is not allowed"),
        (lambda: op.Problem.from_formula("action*I(9**9**9)", {"s": [1, 2]}, 2), "the power '9 ** 9'"),
        (lambda: op.Problem.from_formula("__import__('os')", {"s": [1, 2]}, 2), "is not allowed"),
        (lambda: op.Problem.from_formula("(action + s)**9", {"s": [1, 2]}, 2), "the power '9'"),
        (lambda: op.Problem.from_formula("action" + "+s" * 2000, {"s": [1, 2]}, 2), "expected at most 2000"),
        (lambda: op.ContinuousWorld(continuous(), theta=[0.1] * 4), "variable 'x' has no distribution"),
        (lambda: op.distributions.Choice({"a": 0.5, "b": 0.4}), "probabilities of Choice sums to 0.9"),
        (lambda: op.distributions.Choice({None: 1.0}), "has None among its levels"),
        (lambda: op.distributions.Resampled({"x": [1, None]}), "a value of column 'x' is None"),
        (lambda: op.distributions.Resampled({"x": [1], "y": [1, 2]}), "expected the same number in each"),
        (lambda: op.distributions.Truncated(op.distributions.Normal(0, 1), 50, 51), "has hardly any mass"),
        (lambda: brushing_problem("robas2", means=np.zeros((2, 4))), "means were given, but blind is 'unknown'"),
        (lambda: brushing_problem("robas2", blind="known"), "blind is 'known' without means"),
        (lambda: op.distributions.Choice({"a": range(10**9)}), "probabilities of Choice has 1,000,000,000 entries"),
        (lambda: linear(theta=[range(10**9)] * 2), "theta has 2,000,000,000 entries"),
        (lambda: linear(theta=list), "theta is not an array of numbers"),
        (lambda: op.DayOfStudy(3).on("2"), "day is '2'; expected a whole number from 1 to 3"),
        (lambda: op.DayOfStudy(3).on(4), "day is 4; expected a whole number from 1 to 3"),
        (lambda: op.pd2_ucb(2, name=" \u200b"), "expected text that shows something"),
        (lambda: op.Problem.from_formula("s", {"s": [1, 2]}, 2), "'s' does not name action; expected it"),
        (lambda: continuous(formula="x"), "'x' does not name action; expected it"),
        (lambda: op.pd2_ucb(0), "for no nudges at all use the revealer Never"),
        (lambda: op.Policy(revealer=op.Revealer()), "Revealer is not registered; expected one that is"),
        (lambda: op.Policy(recommender=op.Recommender()), "Recommender is not registered; expected one that is"),
        (lambda: op.Policy.from_dict({}), "the policy lacks 'recommender'"),
        (lambda: op.Policy.from_dict({**op.pd2_ucb(2).describe(), "budget": {"amount": 2}}), "budget of the policy is"),
        (lambda: op.Problem.from_dict({}), "the problem lacks 'features'"),
        (lambda: op.Problem.from_dict({**finite().to_dict(), "noise": 1}), "a setting of the problem is 'noise'"),
        (
            lambda: op.ContinuousProblem.from_dict({**continuous().to_dict(), "variables": {"x": {"kind": "number"}}}),
            "variable 'x' is",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], said: str) -> None:
    """Sizes, combinations and descriptions that cannot be: refused at once, before anything is built or allocated."""
    text = refusal(call)
    assert said in text, text


def test_wrong_calls_are_type_errors() -> None:
    """An argument that a function does not have, or one that is missing, is Python's own TypeError."""
    for call in (lambda: simulated(horizn=3), lambda: op.LinUCB(1), op.pd2_ucb, op.load):
        with pytest.raises(TypeError):
            call()


def test_the_least_positive_distance_counts() -> None:
    """Where two actions have the same features in some context, a warning says so; Dmin is the least positive one."""
    features = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.5]], [[1.0, 0.0], [1.0, 2.0]]])
    with pytest.warns(UserWarning, match="two actions have the same features in some context"):
        assert finite(features=features).least_distance == 0.5
    with pytest.warns(UserWarning, match="all actions have the same features") as told:
        assert finite(features=np.ones((3, 2, 2))).least_distance == 0.0
    assert told[0].filename == __file__  # where one's own code called, not where the package noticed
    assert finite().least_distance > 0.0  # without a word


def test_effects_beyond_their_bound_are_told() -> None:
    """A true parameter beyond theta_bound is simulated as it is, with a warning; one within it without."""
    with pytest.warns(UserWarning, match=r"^theta has norm 5, beyond theta_bound = 3"):
        linear(theta=[3.0, 4.0])
    with pytest.warns(UserWarning, match=r"^theta has norm 4, beyond theta_bound = 3"):
        drawn(theta=[2.0] * 4)
    linear(theta=[3.0, 0.0])


def test_a_class_is_no_world() -> None:
    """A class, or a policy without its budget, in the place of a thing is named."""
    assert refusal(lambda: simulated(worlds=op.LinearWorld)).startswith("worlds is the class LinearWorld; expected")
    assert refusal(lambda: simulated(policies=[op.pd2_ucb])).startswith("policies holds a function; expected Policy")
    with pytest.raises(InputError, match="LearningPrimalDual has no budget"):
        op.Policy()


def deep(value: Any, entry: Any) -> Any:
    """An array as lists, with another first entry."""
    first, *rest = value
    return [deep(first, entry) if isinstance(first, list) else entry, *rest]


@pytest.mark.parametrize("truth", [True, False, np.True_, np.bool_(False)], ids=repr)
@pytest.mark.parametrize(
    ("name", "call", "right"),
    [
        ("features", lambda given: finite(features=given), FEATURES.tolist()),
        ("context_probs", lambda given: finite(context_probs=given), [0.0, 0.5, 0.5]),
        ("theta", lambda given: linear(theta=given), [0.0, 0.5]),
        ("course", lambda given: op.DriftingWorld(finite(), theta=[0, 0], course=given), [[0.0, 0.5, 0.5]] * 2),
        ("gaps", lambda given: clairvoyant(given, 1.0), [0.0, 0.5]),
    ],
)
def test_a_truth_is_no_number(name: str, call: Any, right: list[Any], truth: Any) -> None:
    """True and False among numbers do not count as 1 and 0, in lists or arrays; among observations they do."""
    call(right)
    call(np.array(right))
    for wrong in (deep(right, truth), tuple(deep(right, truth)), np.array(right) > 0.2):
        assert refusal(partial(call, wrong)) == f"{name} contains True or False; expected only numbers"
    assert interval([True, False, True]) == interval([1, 0, 1])
