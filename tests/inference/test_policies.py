"""What other policies would have brought: a plain reading, the truth, and what the record cannot say."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import with_actions

from opportune.errors import InputError
from opportune.inference import policy_value

NAMES = ("rest", "walk", "call")


def own(frame: pd.DataFrame) -> dict[str, str]:
    return {name: f"action_probability_{name}" for name in NAMES}


def test_the_studys_own_policy_brings_what_was_recorded() -> None:
    """All weights are 1: SNIPS is the recorded mean, and the effective sample size the number of rows."""
    frame = with_actions(1)
    found = policy_value(frame, own(frame))
    assert found.estimate[1] == pytest.approx(frame["y"].mean())
    assert found.estimate[0] == pytest.approx(frame["y"].mean())
    assert found.details["effective sample size"] == pytest.approx(len(frame))
    assert found.interval[-1, 0] < 0.0 < found.interval[-1, 1]


def test_a_plain_reading_agrees() -> None:
    """Weights, cross-fitting by participant and the doubly robust mean, written out row by row."""
    frame = with_actions(2)
    found = policy_value(frame, "walk", controls="stress")
    x = np.column_stack([np.ones(len(frame)), frame["stress"]])
    walked, y, who = (frame["action"] == "walk").to_numpy(), frame["y"].to_numpy(), frame["id"].to_numpy()
    values, weights = [], []
    for i in range(len(frame)):
        train = walked & (who % 5 != who[i] % 5)
        mu = x[i] @ np.linalg.lstsq(x[train], y[train], rcond=None)[0]
        weights.append(walked[i] / frame["action_probability_walk"][i])
        values.append(mu + weights[-1] * (y[i] - mu))
    assert found.estimate[2] == pytest.approx(np.mean(values))
    assert found.estimate[1] == pytest.approx(np.average(y, weights=weights))
    left = pd.Series(values).groupby(who).sum() - 20 * np.mean(values)
    assert found.plain_se[2] == pytest.approx(np.sqrt((left**2).sum()) / len(frame))
    size = np.sum(weights) ** 2 / np.sum(np.square(weights))
    assert found.details["effective sample size"] == pytest.approx(size)
    assert found.details["largest weight"] == pytest.approx(max(weights))


def test_intervals_hold_the_truth() -> None:
    """In 100 studies the intervals of value and difference hold the true ones at least 88 times."""
    covered = np.zeros(2)
    for seed in range(100):
        found = policy_value(with_actions(seed), "walk", controls="stress")
        truth = np.array([0.5 - 1.0, 0.5 - (0.8 / 3 * 0.0 + 1.2 / 3 * 0.5 - 1.0 / 3 * 0.5)])
        low, high = found.interval[2:].T
        covered += (low <= truth) & (truth <= high)
    assert (covered >= 88).all()


def test_a_policy_by_context() -> None:
    """Probabilities by columns: walking where stress is high, resting elsewhere."""
    frame = with_actions(3)
    frame = frame.assign(rests=(frame["stress"] < 2) * 1.0, walks=(frame["stress"] == 2) * 1.0)
    found = policy_value(frame, {"rest": "rests", "walk": "walks"}, controls="C(stress)")
    assert found.estimate[2] == pytest.approx(0.5 / 3 - 1.0, abs=4 * found.se[2])
    assert found.names[-1] == "doubly robust - as recorded"


def test_a_policy_far_from_the_studys_is_refused() -> None:
    """Below twice as many effective rows as participants; with more rows for each it is not refused."""
    with pytest.raises(InputError, match=r"effective sample size\), for 30 participants; expected at least 60"):
        policy_value(with_actions(1, steps=4), "call")
    assert policy_value(with_actions(1, steps=12), "call").details["effective sample size"] >= 60


@pytest.mark.parametrize(
    ("policy", "message"),
    [("wakl", "did you mean 'walk'"), ({"swim": "stress"}, "expected one of 'rest'"), ({"rest": "stress"}, "sum to 1")],
)
def test_wrong_policies_are_refused(policy: Any, message: str) -> None:
    """Unknown actions, and probabilities that are none."""
    with pytest.raises(InputError, match=message):
        policy_value(with_actions(1), policy)
