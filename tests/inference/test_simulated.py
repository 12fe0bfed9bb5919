"""Simulation for inference: near the truth, refused where the formula does not fit, and what it needs to know."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import opportune as op
from opportune.errors import InputError
from opportune.inference import Estimates, simulated_value
from opportune.inference.simulated import lack_of_fit

PROBLEM = op.Problem.from_formula(
    "action*stress", {"stress": [0, 1, 2]}, ["rest", "walk"], context_probs=[0.5, 0.3, 0.2], theta_bound=5.0
)
MEANS = np.array([0.0, -0.3, 0.6])
STEPS = 30
POLICIES = [op.pace_ucb(6), op.pd2_ucb(6)]


def study(seed: int, *, people: int = 30, extra: float = 0.0) -> pd.DataFrame:
    """Actions by a coin; `extra` is what walking brings at middle stress beside what the formula knows."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), STEPS)
    stress, a = rng.choice(3, len(who), p=PROBLEM.context_probs), rng.integers(0, 2, len(who))
    own = MEANS + rng.normal(0.0, 0.4, (people, 3))
    y = (PROBLEM.features[stress, a] * own[who]).sum(axis=1) + rng.normal(0.0, 1.0, len(who))
    y += extra * (stress == 1) * a
    return pd.DataFrame({"id": who, "stress": stress, "action": np.array(["rest", "walk"])[a], "y": y})


def valued(frame: pd.DataFrame, **changes: Any) -> Estimates:
    return simulated_value(frame, PROBLEM, POLICIES, **{"horizon": STEPS, "draws": 40, **changes})


@pytest.fixture(scope="module")
def truth() -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the policies bring to 1,000 participants of the population that records come from."""
    own = MEANS + np.random.default_rng(5).normal(0.0, 0.4, (1000, 3))
    worlds = [op.LinearWorld(PROBLEM, theta=theta, noise_sd=1.0) for theta in own]
    data = op.simulate(worlds, POLICIES, horizon=STEPS, replicates=10, seed=9, trace=False, progress=False)
    value = data["total_outcome"].mean(["world", "replicate"]).to_numpy() / STEPS
    return np.array([*value, value[1] - value[0]])


def test_values_and_differences(truth: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """One row for each policy and one for each difference from the first; the truth lies within a few errors."""
    found = valued(study(1))
    assert found.names == ("PACE", "PD2", "PD2 - PACE")
    assert (found.effects, found.participants) == (1, 30)
    assert "40 simulated draws" in repr(found)
    assert (np.abs(found.estimate - truth) < 4.0 * found.se).all()
    assert (found.interval[:, 0] < found.estimate).all()
    assert (found.estimate < found.interval[:, 1]).all()
    assert (valued(study(1)).estimate == found.estimate).all()
    assert (valued(study(1), seed=3).estimate != found.estimate).all()


def test_intervals_are_as_wide_as_the_spread_of_the_draws_says() -> None:
    """With 40 draws too: their 2.5% and 97.5% quantiles would hold nine draws in ten, and p be 0.05 at least."""
    found = valued(study(1))
    assert found.draws is not None
    assert found.draws.shape == (40, 3)
    spread = found.draws.std(axis=0, ddof=1) * np.sqrt(27 / 29)
    assert found.se == pytest.approx(spread)
    assert found.interval[:, 1] - found.estimate == pytest.approx(2.0452 * spread, rel=1e-4)
    one = found.combination([0.0, 0.0, 1.0])
    assert one.interval == pytest.approx(tuple(found.interval[2]))
    assert one.p == pytest.approx(found.p[2])


def test_more_participants_say_more() -> None:
    """With four times as many participants the interval is about half as wide."""
    widths = [np.diff(valued(study(2, people=people), cohort=30).interval[0])[0] for people in (20, 80)]
    assert 0.3 < widths[1] / widths[0] < 0.8


def test_a_formula_that_does_not_fit_is_refused() -> None:
    """Walking brings more at middle stress than the formula can say; without that the record is not refused."""
    with pytest.raises(InputError, match=r"formula does not fit its record.*F\(\d+, \d+\) = .*terms that are missing"):
        valued(study(1, extra=1.0))
    assert valued(study(1)).details["lack of fit: p"] > 0.01


def test_lack_of_fit_is_found_as_often_as_its_level_says() -> None:
    """Participants' own coefficients are no lack of fit: the test rejects 1% of 300 records at 1%."""
    p = []
    for seed in range(300):
        frame = study(seed)
        place, taken = frame["stress"].to_numpy(), (frame["action"] == "walk").to_numpy().astype(int)
        cell = place * 2 + taken
        p.append(lack_of_fit(PROBLEM.features[place, taken], frame["y"].to_numpy(), frame["id"].to_numpy(), cell).p)
    assert np.mean(np.array(p) < 0.01) <= 0.03
    assert np.mean(np.array(p) < 0.5) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("frame", "changes", "message"),
    [
        (study(1).assign(action="swim"), {}, "holds 'swim'; expected one of rest, walk"),
        (study(1).drop(columns="stress"), {}, "column is 'stress'; expected one of 'id', 'action', 'y'"),
        (study(1).assign(stress=lambda f: f["stress"].where(f.index > 9)), {}, "10 rows lack a variable"),
        (study(1).drop_duplicates(["id", "stress", "action"]), {}, "0 repetitions of a context and action"),
        (study(1), {"draws": 5}, "draws is 5"),
        (study(1), {"cohort": 1}, "cohort is 1"),
        (study(1, people=6), {}, "6 participants are too few"),
    ],
)
def test_wrong_arguments_are_refused(frame: pd.DataFrame, changes: dict[str, Any], message: str) -> None:
    """What was given and what was expected is said."""
    with pytest.raises(InputError, match=message):
        valued(frame, **changes)


@pytest.mark.slow
def test_intervals_hold_the_truth(truth: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Of 30 intervals at least 26 hold the true value, for each policy and their difference."""
    covered, refused = np.zeros(3), 0
    for seed in range(31):
        try:
            ends = valued(study(100 + seed), seed=seed).interval
        except InputError:
            refused += 1
            continue
        covered += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert refused <= 2
    assert (covered >= 26).all()
