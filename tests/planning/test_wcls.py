"""Weighted and centred least squares: right where plain least squares is not, and what statsmodels says."""

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from opportune.errors import InputError
from opportune.planning.wcls import estimate, sums_of

EFFECT = 0.4


def study(seed: int, people: int = 25, steps: int = 40) -> dict[str, Any]:
    """Data of a study in which nudges go where rewards are low anyway, and the control model is wrong about that."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), steps)
    stress = rng.integers(3, size=people * steps).astype(float)
    probability = np.array([0.1, 0.4, 0.8])[stress.astype(int)]
    treated = (rng.random(people * steps) < probability).astype(float)
    level = rng.normal(0.0, 0.5, size=people)[who] - 1.5 * stress**2
    own = rng.normal(EFFECT, 0.2, size=people)[who]
    reward = level + treated * own + rng.normal(0.0, 1.0, size=people * steps)
    return {"reward": reward, "treated": treated, "probability": probability, "participant": who, "stress": stress}


def fitted(data: dict[str, Any], controls: Any) -> Any:
    sums, _ = sums_of(data["reward"], data["treated"], data["probability"], controls, data["participant"])
    return estimate(sums)


def test_intervals_cover_the_true_effect() -> None:
    """In 300 small studies about 95% of intervals hold the true effect, though the controls are wrong."""
    covered = []
    for seed in range(300):
        data = study(seed)
        found = fitted(data, data["stress"])  # linear, where the truth is quadratic
        covered.append(found.low <= EFFECT <= found.high)
    assert 0.92 <= np.mean(covered) <= 0.985


def test_plain_least_squares_does_not() -> None:
    """The control: without weights and centring the same intervals miss, as nudges go where rewards are low."""
    covered = []
    for seed in range(100):
        data = study(seed)
        half = {**data, "probability": np.full_like(data["probability"], 0.5)}
        found = fitted(half, np.zeros((data["reward"].size, 0)))
        covered.append(found.low <= EFFECT <= found.high)
    assert np.mean(covered) < 0.5


def test_an_effect_of_nothing_is_found_as_often_as_the_level_says() -> None:
    """Under no effect, 5% of studies find one."""
    found = []
    for seed in range(300):
        data = study(seed)
        data["reward"] = data["reward"] - EFFECT * data["treated"]
        result = fitted(data, data["stress"])
        found.append(result.found)
    assert np.mean(found) <= 0.085


def test_statsmodels_agrees() -> None:
    """Estimate and standard error are those of statsmodels: GEE, independent, bias-reduced (Mancl and DeRouen)."""
    data = study(7)
    p, a = data["probability"], data["treated"]
    q = p.mean()
    weight = np.where(a == 1.0, q / p, (1.0 - q) / (1.0 - p))
    root = np.sqrt(weight)
    x = np.column_stack([np.ones(a.size), data["stress"], a - q])
    model = sm.GEE(
        root * data["reward"], root[:, None] * x, groups=data["participant"], cov_struct=sm.cov_struct.Independence()
    )
    result = model.fit(cov_type="bias_reduced")
    found = fitted(data, data["stress"])
    assert found.effect == pytest.approx(result.params[-1], rel=1e-9)
    assert found.se == pytest.approx(result.standard_errors(cov_type="bias_reduced")[-1], rel=1e-6)


def test_nothing_can_be_estimated_where_nothing_was_tossed() -> None:
    """With probabilities of 0 and 1 there is no estimate, and the share of usable decisions is 0."""
    data = study(1)
    sums, usable = sums_of(data["reward"], data["treated"], data["treated"], np.zeros((1000, 0)), data["participant"])
    assert usable == 0.0
    assert estimate(sums) is None


def test_missing_rewards_are_left_out() -> None:
    """A reward that never came changes nothing but the number of rows."""
    data = study(3)
    kept = np.arange(1000) % 10 != 0
    holes = {**data, "reward": np.where(kept, data["reward"], np.nan)}
    fewer = {name: values[kept] for name, values in data.items()}
    assert fitted(holes, holes["stress"]).effect == pytest.approx(fitted(fewer, fewer["stress"]).effect, abs=0.02)


@given(st.lists(st.integers(0, 24), min_size=10, max_size=40))
def test_cohorts_are_put_together_from_sums(chosen: list[int]) -> None:
    """A cohort from participants' sums is what the fit of their steps gives, those chosen twice as two people."""
    data = study(11)
    if len(set(chosen)) < 6:
        return
    sums, _ = sums_of(data["reward"], data["treated"], data["probability"], data["stress"], data["participant"])
    quick = estimate(sums, chosen=np.array(chosen))
    q = data["probability"].mean()
    weight = np.where(data["treated"] == 1.0, q / data["probability"], (1 - q) / (1 - data["probability"]))
    x = np.column_stack([np.ones(1000), data["stress"], data["treated"] - q])
    rows = np.concatenate([np.flatnonzero(data["participant"] == c) for c in chosen])
    root = np.sqrt(weight[rows])
    beta = np.linalg.lstsq(root[:, None] * x[rows], root * data["reward"][rows], rcond=None)[0]
    assert quick is not None
    assert quick.effect == pytest.approx(beta[-1], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"treated": np.full(1000, 0.5)}, "treated holds something other than 0 and 1"),
        ({"probability": np.full(1000, 1.5)}, "probability holds a number outside 0 to 1"),
        ({"reward": np.zeros(3)}, "expected one entry per step"),
    ],
)
def test_wrong_data_are_refused(change: dict[str, Any], message: str) -> None:
    """Treatments, probabilities and shapes are checked first."""
    data = {**study(1), **change}
    with pytest.raises(InputError, match=message):
        sums_of(
            data["reward"],
            data["treated"],
            data["probability"],
            np.zeros((data["reward"].size, 0)),
            data["participant"],
        )
