"""What happens to people in a simulation: answers by stratum, person and habit, spells away, kinds of rewards."""

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import integrate, stats

import opportune as op
from opportune.algorithm.rng import ANSWER, NOISE, OPEN, PERSON, SPELL, draw, normal
from opportune.analysis.metrics import clipped_share
from opportune.errors import InputError
from opportune.simulation.visit import visit

HORIZON, REPLICATES, SEED = 60, 6, 5
POLICIES = [op.pace_ucb(15), op.naive_ucb(25), op.Policy(revealer=op.Always())]


def problem(**settings: Any) -> Any:
    """Two decisions a day, the time of day public, stress sensed."""
    return op.Problem.from_formula(
        "1 + tod + action * stress", {"tod": op.TimeOfDay(["morning", "evening"]), "stress": [0, 1]}, 2,
        [0.3, 0.2, 0.25, 0.25], theta_bound=3.0, noise_sd=0.5, value_range=(-1.0, 2.0), **settings,
    )  # fmt: skip


def world(**happenings: Any) -> op.LinearWorld:
    made = problem()
    return op.LinearWorld(made, theta=[0.2, 0.3, -0.2, 0.1, 0.7], **happenings)


def numeric(**happenings: Any) -> op.ContinuousWorld:
    made: Any = op.Problem.from_formula(
        "1 + x + action * x", {"x": op.Number(0.0, 2.0)}, 2, theta_bound=3.0, noise_sd=0.5
    )
    return op.ContinuousWorld(
        made, theta=[0.1, -0.4, -0.3, 0.9], distributions={"x": op.distributions.Uniform(0.0, 2.0)}, **happenings
    )


def run(worlds: Any, policies: Any = None, **settings: Any) -> xr.Dataset:
    given: dict[str, Any] = {"horizon": HORIZON, "replicates": REPLICATES, "seed": SEED, "progress": False} | settings
    return op.simulate(worlds, POLICIES if policies is None else policies, **given)


def draws(purpose: int, replicate: int) -> NDArray[np.float64]:
    return np.array([draw(np.uint64(SEED), np.uint64(replicate), step, purpose) for step in range(1, HORIZON + 1)])


def asked(data: xr.Dataset, policy: int, replicate: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where an answer was asked for, and where there was one."""
    one = data.isel(policy=policy, world=0, replicate=replicate)
    return (one["nudged"] & ~one["opened"]).values, (one["revealed"] & ~one["opened"]).values


def test_rates_by_stratum_are_those_of_the_stratum() -> None:
    """In the morning 20% answer and 50% open the app, in the evening 90% and nobody, draw by draw."""
    data = run(world(response_rate=[0.2, 0.9], open_rate=(0.5, 0.0)))
    evening = np.arange(HORIZON) % 2
    for policy in range(len(POLICIES)):
        for replicate in range(REPLICATES):
            where, answered = asked(data, policy, replicate)
            expected = draws(ANSWER, replicate) < np.array([0.2, 0.9])[evening]
            assert np.array_equal(answered[where], expected[where])
            opened = data["opened"].isel(policy=policy, world=0, replicate=replicate).values
            assert np.array_equal(opened, draws(OPEN, replicate) < np.array([0.5, 0.0])[evening])
    one = run(world(response_rate=0.2, open_rate=0.5))
    assert not np.array_equal(one["opened"], data["opened"])  # the control


def test_equal_rates_by_stratum_are_as_a_number() -> None:
    """One rate for each stratum, all the same, changes nothing."""
    xr.testing.assert_equal(
        run(world(response_rate=[0.4, 0.4], open_rate=[0.1, 0.1])).drop_attrs(),
        run(world(response_rate=0.4, open_rate=0.1)).drop_attrs(),
    )


def test_participants_differ_in_answering() -> None:
    """Each answers with the rate whose logit has its own number added, the same at every step."""
    data = run(world(response_rate=0.5, response_spread=1.5))
    for replicate in range(REPLICATES):
        own = 1.5 * normal(draw(np.uint64(SEED), np.uint64(replicate), 0, PERSON))
        where, answered = asked(data, 2, replicate)
        expected = draws(ANSWER, replicate) < 1.0 / (1.0 + math.exp(-own))
        assert np.array_equal(answered[where], expected[where])
    many = run(world(response_rate=0.5, response_spread=1.5), POLICIES[2], replicates=300)
    rates = many["revealed"].mean("step").squeeze()
    assert float(rates.std()) > 0.2  # draws alone: 0.065
    assert float(run(world(response_rate=0.5), POLICIES[2], replicates=300)["revealed"].mean("step").std()) < 0.1


@pytest.mark.parametrize("made", [world, numeric])
def test_answers_wear_off_with_each_nudge_of_seven_days(made: Any) -> None:
    """The rate is multiplied once for each nudge of the seven days before; older ones are forgotten."""
    data = run(made(response_rate=0.9, habituation=0.7, available_rate=0.9))
    days = 2 if made is world else 1
    for policy in range(len(POLICIES)):
        for replicate in range(REPLICATES):
            where, answered = asked(data, policy, replicate)
            nudged = data["nudged"].isel(policy=policy, world=0, replicate=replicate).values
            lately = np.array([nudged[max(0, t - 7 * days + 1) : t].sum() for t in range(HORIZON)])
            expected = draws(ANSWER, replicate) < 0.9 * 0.7**lately
            assert where.any()
            assert np.array_equal(answered[where], expected[where])
            walk = visit(made(response_rate=0.9, habituation=0.7), np.zeros(HORIZON, dtype=np.int64), seed=SEED,
                         stream=replicate)  # fmt: skip
            assert np.array_equal(answered[where], (lately <= walk.happened[:, 2])[where])


def test_spells_take_people_away_for_days() -> None:
    """A spell begins on a day by its draw and lasts so many days, for every policy alike."""
    data = run(world(spells={"rate": 0.1, "days": 4}))
    for replicate in range(REPLICATES):
        begins = draws(SPELL, replicate)[::2] < 0.1
        away = np.array([begins[max(0, day - 3) : day + 1].any() for day in range(HORIZON // 2)])
        for policy in range(len(POLICIES)):
            found = data["available"].isel(policy=policy, world=0, replicate=replicate).values
            assert np.array_equal(found, np.repeat(~away, 2))
    assert not data["available"].all()


def test_every_policy_meets_the_same_people() -> None:
    """With everything on, contexts, openings, absences and the rewards of equal actions are the same for all."""
    everything = {"response_rate": [0.3, 0.8], "response_spread": 0.5, "habituation": 0.9, "open_rate": [0.1, 0.0],
                  "spells": {"rate": 0.05, "days": 3}, "family": "count", "bounds": (0, 3)}  # fmt: skip
    data = run(world(**everything))
    for name in ("context", "opened", "available", "best"):
        assert (data[name] == data[name].isel(policy=0)).all(), name
    same = data["action"] == data["action"].isel(policy=0)
    here = same & data["available"]
    assert (data["reward"].where(here) == data["reward"].isel(policy=0).where(here)).where(here, True).all()


def test_binary_rewards_have_the_linear_mean_as_probability() -> None:
    """Rewards are 0 or 1 by their draw; outcomes are the means held to 0..1."""
    made = world(family="binary")
    data = run(made)
    means = made.values[data["context"].values, data["action"].values]
    assert means.max() > 1.0
    noise = np.array([draws(NOISE, replicate) for replicate in range(REPLICATES)])
    assert np.array_equal(data["reward"].values, (noise < means).astype(float))
    assert np.allclose(data["outcome"], np.clip(means, 0.0, 1.0), atol=1e-15)
    assert (data["best"] >= data["outcome"]).all()


def test_counts_are_whole_and_not_negative() -> None:
    """Counts are what gaussian rewards become when rounded and not below 0."""
    counts, plain = run(world(family="count")), run(world())
    same = counts["action"] == plain["action"]
    expected = np.maximum(np.floor(plain["reward"] + 0.5), 0.0)
    assert (counts["reward"] == expected).where(same, True).all()
    assert counts["reward"].min() == 0.0
    assert counts["reward"].max() >= 2.0


@pytest.mark.parametrize("made", [world, numeric])
def test_bounds_hold_rewards_and_the_outcome_is_their_mean(made: Any) -> None:
    """Rewards are clipped, each outcome is the integral of clipped rewards, and the share at a bound is counted."""
    bounded, plain = run(made(bounds=(0.0, 0.8))), run(made())
    same = (bounded["action"] == plain["action"]) & bounded["available"]
    assert (bounded["reward"] == plain["reward"].clip(0.0, 0.8)).where(same, True).all()
    pairs = np.unique(np.stack([plain["outcome"].values[same], bounded["outcome"].values[same]]), axis=1)
    for mean, outcome in pairs[:, :: max(1, pairs.shape[1] // 20)].T:
        density = stats.norm(mean, 0.5)
        inside = integrate.quad(lambda x, d=density: x * d.pdf(x), 0.0, 0.8)[0]
        assert outcome == pytest.approx(inside + 0.8 * density.sf(0.8), abs=1e-9)
    share = clipped_share(bounded)
    assert share.dims == ("policy", "world")
    at_bound = (bounded["reward"] == 0.0) | (bounded["reward"] == 0.8)
    assert np.allclose(share, at_bound.mean(["replicate", "step"]))
    assert 0.3 < float(share.max()) < 0.9


def test_regret_is_in_expected_rewards() -> None:
    """Values of the truth are averages of what actions bring on average; without bounds they are linear."""
    made, plain = world(bounds=(0.0, 0.8)), world()
    probs = made.context_probs
    blind = np.array([np.average(made.outcomes[part], axis=0, weights=probs[part]) for part in (slice(2), slice(2, 4))])
    assert np.allclose(made.blind_values, blind)
    assert made.outcomes.max() < 0.8 < plain.outcomes.max()
    assert np.array_equal(plain.outcomes, plain.values)
    regret = op.regret(run(made))
    assert float(regret.isel(step=-1).min()) > -5.0
    assert (np.diff(op.realised_regret(run(made)).values, axis=-1) >= -1e-12).all()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"response_rate": [0.1, 0.2, 0.3]}, "response_rate has 3 rates; expected a number, or 2, one per stratum"),
        ({"open_rate": [0.1, 1.2]}, r"open_rate\[1\] is 1.2"),
        ({"response_spread": -1.0}, "response_spread is -1"),
        ({"habituation": 0.0}, "habituation is 0"),
        ({"spells": {"rate": 0.1}}, "spells is"),
        ({"spells": {"rate": 0.1, "days": 2.5}}, "days of spells is 2.5"),
        ({"spells": {"rat": 0.1, "days": 2}}, "rat"),
        ({"family": "poisson"}, "family is 'poisson'"),
        ({"bounds": (1.0, 1.0)}, "bounds is from 1 to 1; expected low < high"),
        ({"bounds": (0.0, 0.5), "family": "binary"}, "expected 0 to 1 or wider"),
        ({"bounds": 3.0}, "bounds is 3.0"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], text: str) -> None:
    """A wrong setting is refused with what was given and what was expected."""
    with pytest.raises(InputError, match=text):
        world(**settings)
