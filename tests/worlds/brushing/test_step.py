import ast
import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from opportune.errors import InputError
from opportune.worlds.brushing import step

Array = NDArray[np.float64]
WIDTH = {"robas2": 5, "robas3": 6}
PROP = {"robas2": 2, "robas3": 3}
PRIOR = 1


def user(study: str, **changes: Any) -> step.Settings:
    """A user whose odds of not brushing are 1 to 3 and whose rate is 50, whatever the state."""
    constant = np.zeros(WIDTH[study])
    constant[-1] = 1.0
    settings: dict[str, Any] = {
        "w_b": constant * math.log(1 / 3),
        "w_p": constant * math.log(50.0),
        "first_weekend": 4,
    }
    return step.pack_params(study, **(settings | changes))


def after(params: step.Settings, outcomes: Sequence[float]) -> tuple[Array, int]:
    """The features that follow a history of outcomes, and the cell."""
    state = step.new_state()
    for t, q in enumerate(outcomes):
        step.advance(state, t, q)
    x = step.new_features(params) * np.nan
    return x, step.arrive(params, state, len(outcomes), x)


def test_first_morning() -> None:
    """On day 1 yesterday counts as 0 and prop is 0; ROBAS 3 has the day at -1, ROBAS 2 has none."""
    x, cell = after(user("robas3"), [])
    prior = -154 / 163
    assert x.tolist() == [
        [0, prior, -1, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, prior, -1, 0, 0, 1, 0, prior, -1, 0, 1],
    ]
    assert cell == 0
    x, cell = after(user("robas2"), [])
    prior = -172 / 118
    assert x.tolist() == [[0, prior, 0, 0, 1, 0, 0, 0, 0], [0, prior, 0, 0, 1, 0, prior, 0, 1]]
    assert cell == 0


def test_worked_history() -> None:
    """Twenty sessions worked by hand: prior is yesterday's total, prop the share of the last 14 above 0."""
    outcomes = [0.0, 90, 30, 0, 0, 0, 180, 180, 12, 0, 0, 0, 0, 77, 5, 6, 0, 0, 100, 25]
    x, cell = after(user("robas3", first_weekend=6), outcomes)
    # t = 20: morning of day 11; the last weekend began at 6 and the next begins at 20;
    # the last 14 are sessions 6..19, of which 180, 180, 12, 77, 5, 6, 100, 25 are above 0
    g = [0, (125 - 154) / 163, (11 - 35.5) / 34.5, 8 / 14, 1, 1]
    np.testing.assert_allclose(x[0], [*g, 0, 0, 0, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(x[1], [*g, g[0], g[1], g[2], g[4], g[5]], rtol=1e-15)
    assert cell == 2
    x, cell = after(user("robas3", first_weekend=6), [*outcomes, 40.0])
    # t = 21, the evening: the window is now 7..20 (180 goes, 40 comes), yesterday is the same
    g = [1, (125 - 154) / 163, (11 - 35.5) / 34.5, 8 / 14, 1, 1]
    np.testing.assert_allclose(x[0, :6], g, rtol=1e-15)
    assert cell == 3


@pytest.mark.parametrize("study", ["robas2", "robas3"])
def test_first_day_counts_as_nothing_yesterday(study: str) -> None:
    """The first evening still has yesterday at 0, whatever the morning brought; day 2 has day 1's total."""
    params = user(study)
    mean, sd = step.SCALES[study]
    assert after(params, [120.0])[0][0, PRIOR] == -mean / sd
    assert after(params, [120.0, 60.0])[0][0, PRIOR] == (180 - mean) / sd


@pytest.mark.parametrize("study", ["robas2", "robas3"])
@pytest.mark.parametrize("days", [0, 1, 6, 7, 30])
def test_this_morning_never_changes_tonights_prior(study: str, days: int) -> None:
    """A morning's brushing leaves tonight's prior alone, but counts in tonight's prop once t >= 14."""
    params = user(study)
    history = [float(q) for q in np.random.default_rng(days).integers(0, 2, size=2 * days) * 70]
    idle, brushed = after(params, [*history, 0.0])[0], after(params, [*history, 180.0])[0]
    assert idle[0, PRIOR] == brushed[0, PRIOR]
    extra = 1 / 14 if len(history) + 1 >= 14 else 0.0
    assert brushed[0, PROP[study]] - idle[0, PROP[study]] == pytest.approx(extra, abs=1e-15)


def test_prop_is_zero_before_fourteen_sessions() -> None:
    """Prop is 0 until 14 sessions lie behind, then the share of those 14."""
    params = user("robas2")
    props = [after(params, [60.0] * t)[0][0, PROP["robas2"]] for t in range(18)]
    assert props == [0.0] * 14 + [1.0] * 4


def test_features_follow_the_definition_over_a_long_course() -> None:
    """Over 140 random sessions every feature equals its definition, written out over the whole history."""
    params = user("robas3", first_weekend=8)
    past = np.random.default_rng(3).integers(0, 3, size=140) * 90.0
    state = step.new_state()
    x = np.empty((2, 11))
    for t in range(140):
        cell = step.arrive(params, state, t, x)
        day = t // 2
        yesterday = past[2 * day - 2 : 2 * day].sum() if day else 0.0
        weekend = t >= 8 and (t - 8) % 14 < 4
        prop = float(np.mean(past[t - 14 : t] > 0)) if t >= 14 else 0.0
        g = [t % 2, (yesterday - 154) / 163, (day + 1 - 35.5) / 34.5, prop, weekend, 1]
        np.testing.assert_allclose(x[0, :6], np.array(g, dtype=np.float64), rtol=1e-14)
        assert cell == t % 2 + 2 * weekend
        step.advance(state, t, past[t])


@pytest.mark.parametrize("first_weekend", range(11))
def test_forty_weekend_sessions(first_weekend: int) -> None:
    """A user whose first weekend begins at session 10 or before has 40 weekend sessions in 140."""
    params = user("robas3", first_weekend=first_weekend)
    x = np.empty((2, 11))
    cells = np.array([step.features(params, t, 0.0, 0.0, x) for t in range(140)])
    weekend = cells >= 2
    assert weekend.sum() == 40
    assert np.flatnonzero(weekend)[:4].tolist() == list(range(first_weekend, first_weekend + 4))
    assert (cells % 2 == np.arange(140) % 2).all()


def test_day_spans_the_study() -> None:
    """The day feature runs from -1 on day 1 to 1 on day 70, or over as many days as asked for."""
    x = np.empty((2, 11))
    step.features(user("robas3"), 139, 0.0, 0.0, x)
    assert x[0, 2] == 1.0
    step.features(user("robas3", days=28), 55, 0.0, 0.0, x)
    assert x[0, 2] == 1.0


def test_zero_probability_and_rate_by_hand() -> None:
    """Without a message p0 and the rate come from g alone; a message adds its clipped effects of sum(h)."""
    params = step.pack_params(
        "robas3",
        w_b=[0.5, -1.0, 0.25, -0.5, 0.125, 0.75],
        w_p=[0.1, 0.2, -0.3, 0.4, -0.5, 4.0],
        first_weekend=0,
        delta_b=0.6,
        delta_n=0.2,
    )
    x = np.empty((2, 11))
    step.features(params, 1, 0.5, 0.0, x)  # g = [1, 0.5, -1, 0, 1, 1], h sums to 2.5
    p0, lam = step.zero_probability_and_rate(params, x, 0)
    log_odds = 0.5 - 0.5 - 0.25 + 0.125 + 0.75
    log_rate = 0.1 + 0.1 + 0.3 - 0.5 + 4.0
    assert p0 == pytest.approx(1 / (1 + math.exp(-log_odds)), rel=1e-14)
    assert lam == pytest.approx(math.exp(log_rate), rel=1e-14)
    p0, lam = step.zero_probability_and_rate(params, x, 1)
    assert p0 == pytest.approx(1 / (1 + math.exp(-log_odds + 0.6 * 2.5)), rel=1e-14)
    assert lam == pytest.approx(math.exp(log_rate + 0.2 * 2.5), rel=1e-14)


def test_prop_has_no_part_in_the_effect() -> None:
    """The effect of a message depends on h, which leaves prop out."""
    params = user("robas2", delta_b=0.5, delta_n=0.1)
    x = np.empty((2, 9))
    answers = []
    for prop in (0.0, 1.0):
        step.features(params, 20, 0.3, prop, x)
        answers.append(step.zero_probability_and_rate(params, x, 1))
    assert answers[0] == answers[1]


def test_a_message_never_hurts() -> None:
    """Where sum(h) is negative the effect is clipped to 0: a message changes nothing."""
    params = user("robas3", delta_b=0.6, delta_n=0.2)
    x = np.empty((2, 11))
    step.features(params, 0, -0.9, 0.0, x)  # h = [0, -0.9, -1, 0, 1]
    assert x[1, 6:].sum() < 0
    assert step.zero_probability_and_rate(params, x, 1) == step.zero_probability_and_rate(params, x, 0)


@pytest.mark.parametrize("rate", [1e-6, 0.3, 12.0, 100.0, 179.5, 180.0, 240.0, 700.0, 999.0, 1e3, 1e300])
def test_expected_outcome_is_the_exact_mean(rate: float) -> None:
    """The expected capped outcome equals the sum over scipy's Poisson probabilities."""
    y = np.arange(180)
    mass = stats.poisson.pmf(y, rate)
    exact = (y * mass).sum() + 180 * stats.poisson.sf(179, rate)
    assert step.expected_outcome(0.0, rate) == pytest.approx(exact, rel=1e-11, abs=1e-12)
    assert step.expected_outcome(0.25, rate) == pytest.approx(0.75 * exact, rel=1e-11, abs=1e-12)


def test_expected_outcome_without_cap_in_reach() -> None:
    """With a rate far below the cap, the expectation is (1 - p0) * rate."""
    assert step.expected_outcome(0.25, 50.0) == pytest.approx(37.5, rel=1e-12)
    assert step.expected_outcome(1.0, 50.0) == 0.0


def test_outcome_uses_its_uniforms() -> None:
    """The user brushes when u_zero >= p0, and then for as long as the Poisson quantile of u_poisson says."""
    params = user("robas2")
    x, _ = after(params, [])
    p0, lam = step.zero_probability_and_rate(params, x, 0)
    assert step.outcome(params, x, 0, np.nextafter(p0, 0.0), 0.5) == 0.0
    for u in (0.001, 0.3, 0.5, 0.97):
        assert step.outcome(params, x, 0, p0, u) == stats.poisson.ppf(u, lam)


@pytest.mark.parametrize("log_rate", [math.log(400.0), 20.0, 1e4])
def test_outcome_is_capped(log_rate: float) -> None:
    """However high the rate, the outcome is 180 at most and the functions stay finite."""
    params = user("robas2", w_p=[0.0, 0.0, 0.0, 0.0, log_rate])
    x, _ = after(params, [])
    assert step.outcome(params, x, 0, 0.9, 0.0001) == 180.0
    p0, lam = step.zero_probability_and_rate(params, x, 0)
    assert math.isfinite(lam)
    assert step.expected_outcome(p0, lam) == pytest.approx(135.0, rel=1e-12)


@pytest.mark.parametrize(("log_odds", "p0"), [(1e4, 1.0), (-1e4, 0.0), (0.0, 0.5)])
def test_extreme_odds_stay_probabilities(log_odds: float, p0: float) -> None:
    """However large the log odds, p0 is a probability."""
    params = user("robas2", w_b=[0.0, 0.0, 0.0, 0.0, log_odds])
    assert step.zero_probability_and_rate(params, after(params, [])[0], 0)[0] == p0


@pytest.mark.parametrize(
    ("study", "changes", "message"),
    [
        ("robas4", {}, "study is 'robas4'; expected one of robas2, robas3"),
        ("robas3", {"w_b": [0.0] * 5}, r"w_b has shape \(5,\); expected 6 weights: tod, prior, day"),
        ("robas2", {"w_p": [0.0] * 6}, r"w_p has shape \(6,\); expected 5 weights"),
        ("robas2", {"first_weekend": -1}, "first_weekend is -1"),
        ("robas2", {"days": 1}, "days is 1; expected at least 2"),
        ("robas2", {"scale": (172.0, 0.0)}, "expected a positive second number"),
        ("robas2", {"delta_b": math.nan}, "must be finite"),
    ],
)
def test_bad_parameters_are_refused(study: str, changes: dict[str, Any], message: str) -> None:
    """Parameters that no user can have are refused with what was given and what was expected."""
    settings: dict[str, Any] = {"w_b": [0.0] * 5, "w_p": [0.0] * 5, "first_weekend": 0}
    if study == "robas3":
        settings = {"w_b": [0.0] * 6, "w_p": [0.0] * 6, "first_weekend": 0}
    with pytest.raises(InputError, match=message):
        step.pack_params(study, **(settings | changes))


def test_compiled_functions_stay_plain() -> None:
    """Compiled functions raise nothing and build nothing, so that they also compile for a GPU."""
    tree = ast.parse(inspect.getsource(step))
    compiled = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert len(compiled) >= 9
    for function in compiled:
        for node in ast.walk(function):
            assert not isinstance(
                node, ast.Raise | ast.Try | ast.List | ast.Dict | ast.Set | ast.ListComp | ast.Assert
            ), f"{function.name} has a {type(node).__name__}"
            assert not (isinstance(node, ast.Name) and node.id == "np"), f"{function.name} uses NumPy"
