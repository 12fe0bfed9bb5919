"""Arms of a trial: statsmodels, what was randomised, and who has no outcome."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from opportune.errors import InputError
from opportune.inference import arms


def trial(seed: int = 1, people: int = 45) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    arm = rng.permutation(np.resize(["control", "calls", "app"], people))
    baseline, level = rng.normal(size=people), rng.normal(0.0, 0.5, people)
    who = np.repeat(np.arange(people), 10)
    y = (baseline + level + 0.8 * (arm == "calls"))[who] + rng.normal(size=len(who))
    return pd.DataFrame({"id": who, "arm": arm[who], "baseline": baseline[who], "y": y})


def test_statsmodels_agrees() -> None:
    """Least squares of participants' means; errors are those of OLS with HC3, which the sandwich is for single rows."""
    frame = trial()
    found = arms(frame, controls="baseline", reference="control")
    people = frame.groupby("id").agg({"y": "mean", "baseline": "first", "arm": "first"})
    x = np.column_stack(
        [np.ones(len(people)), people["baseline"], people["arm"] == "app", people["arm"] == "calls"]
    ).astype(float)
    result = sm.OLS(people["y"].to_numpy(), x).fit(cov_type="HC3", use_t=True)
    assert found.names == ("Intercept", "baseline", "arm[app]", "arm[calls]")
    assert found.estimate == pytest.approx(result.params)
    assert found.se == pytest.approx(result.bse)
    assert found.p == pytest.approx(result.pvalues)
    assert found.df == 41


def test_a_baseline_makes_the_comparison_more_exact() -> None:
    """What is explained by the baseline is no noise."""
    frame = trial(2)
    plain, adjusted = arms(frame, reference="control"), arms(frame, controls="baseline", reference="control")
    assert (adjusted.se[-2:] < plain.se[-2:]).all()
    assert adjusted.signs == ("unclear", "higher")


def test_a_column_that_changes_within_a_participant_is_refused() -> None:
    """Neither an arm nor a baseline may change, since both were there before anything else."""
    frame = trial(3)
    with pytest.raises(InputError, match="column arm changes within a participant"):
        arms(frame.assign(arm=np.where(frame.index % 10 == 3, "app", frame["arm"])))
    with pytest.raises(InputError, match="known before randomisation"):
        arms(frame.assign(baseline=frame["y"]), controls="baseline")
    with pytest.raises(InputError, match="expected at least two arms"):
        arms(frame.assign(arm="control"))


def test_participants_without_an_outcome_are_counted() -> None:
    """They are left out with a warning that says how many; with an outcome each, nothing is said."""
    frame = trial(4)
    with pytest.warns(UserWarning, match="6 of 45 participants have no outcome|450 outcomes are incomplete"):
        found = arms(frame.assign(y=frame["y"].where(frame["id"] >= 6)))
    assert any("6 of 45 participants have no outcome" in note for note in found.notes)
    assert arms(frame).notes == ()
