"""Several actions: WCLS where there are two, statsmodels where there are three, and who is compared with whom."""

import numpy as np
import pytest
import statsmodels.api as sm
from records import record, with_actions

from opportune.inference import actions, wcls


def test_two_actions_are_wcls() -> None:
    """With two actions everything equals WCLS with q = 1/2 to 1e-12, lag and moderators included."""
    frame = record(2)
    frame = frame.assign(
        action=np.where(frame["a"] == 1, "walk", "rest"),
        action_probability_rest=1.0 - frame["p"], action_probability_walk=frame["p"],
    )  # fmt: skip
    same = {"available": "eligible", "controls": "stress", "moderators": "t", "lag": 2, "time": "t"}
    two, one = actions(frame, **same), wcls(frame, q=0.5, **same)  # type: ignore[arg-type]
    assert two.estimate == pytest.approx(one.estimate, abs=1e-12)
    assert two.covariance == pytest.approx(one.covariance, abs=1e-12)
    assert (two.df, two.rows) == (one.df, one.rows)
    assert two.names[-2:] == ("action[walk]", "action[walk]:t")


def test_statsmodels_agrees() -> None:
    """Three actions: estimate and standard errors are those of GEE with the same weights and columns."""
    frame = with_actions(4)
    found = actions(frame, controls="stress")
    names = ["rest", "walk", "call"]
    taken = np.array([names.index(a) for a in frame["action"]])
    p = frame[[f"action_probability_{name}" for name in names]].to_numpy()
    root = np.sqrt(1 / 3 / p[np.arange(len(frame)), taken])
    x = np.column_stack([np.ones(len(frame)), frame["stress"], (taken == 1) - 1 / 3, (taken == 2) - 1 / 3])
    result = sm.GEE(root * frame["y"].to_numpy(), root[:, None] * x, groups=frame["id"].to_numpy()).fit(
        cov_type="bias_reduced"
    )
    assert found.estimate == pytest.approx(result.params, rel=1e-9)
    assert found.se == pytest.approx(result.standard_errors(cov_type="bias_reduced"), rel=1e-6)


def test_the_reference_can_be_chosen() -> None:
    """Contrasts between actions are the same, whichever of them is the reference."""
    frame = with_actions(5)
    first, other = actions(frame), actions(frame, reference="call")
    assert first.names[-2:] == ("action[walk]", "action[call]")
    assert other.names[-2:] == ("action[rest]", "action[walk]")
    assert other.estimate[-2] == pytest.approx(-first.estimate[-1])
    assert first.combination([1, -1]).estimate == pytest.approx(other.estimate[-1])
    assert first.combination([1, -1]).se == pytest.approx(other.se[-1])


def test_columns_of_probabilities_can_be_named() -> None:
    """By how their names begin, or each by its action."""
    frame = with_actions(6)
    named = {name: f"p_{name}" for name in ("rest", "walk", "call")}
    renamed = frame.rename(columns={f"action_probability_{name}": column for name, column in named.items()})
    assert (actions(renamed, probabilities=named).estimate == actions(frame).estimate).all()
    assert (actions(renamed, probabilities="p_").estimate == actions(frame).estimate).all()


def test_true_contrasts_are_found() -> None:
    """With many participants the estimates are near the gains that the record was made with."""
    found = actions(with_actions(7, people=300), controls="stress")
    assert found.estimate[-2:] == pytest.approx([0.5, -0.5], abs=4 * float(found.se[-2:].max()))
    assert found.signs == ("higher", "lower")
