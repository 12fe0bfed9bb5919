"""What a study file says becomes worlds and policies, which run."""

import numpy as np
import pytest
from study_files import BASE, EXAMPLE, edit

from opportune.errors import InputError
from opportune.revealers import Always, FixedRate, LearningPrimalDual, Never, Periodic, PrimalDual
from opportune.study import parse_study
from opportune.worlds import synthetic_worlds


def test_worlds_hold_what_the_file_says() -> None:
    """Effects, probabilities, visibility and rates of the file are those of the world."""
    world = parse_study(BASE).worlds()[0]
    assert world.theta.tolist() == [0.1, 0.2, -0.5, -0.3, 0.1, 0.4]
    assert world.context_probs.tolist() == [0.25, 0.125, 0.125] * 2
    assert world.problem.context_probs is not None
    assert (world.happenings.open_rate, world.happenings.response_rate, world.noise_sd) == (0.1, 1.0, 0.2)
    assert world.problem.visibility == {"time": "public", "stress": "sensed"}
    assert world.problem.action_names == ("none", "walk", "call")
    value = world.values[world.problem.index({"time": "pm", "stress": 3}), 2]
    assert value == pytest.approx(0.1 - 0.5 + 3 * (-0.3 + 0.4))


def test_bounds_follow_from_the_effects() -> None:
    """theta_bound and value_range come from the truth unless the file gives them."""
    problem = parse_study(BASE).worlds()[0].problem
    world = parse_study(BASE).worlds()[0]
    assert problem.theta_bound == pytest.approx(np.linalg.norm(world.theta))
    best = world.values.max(axis=1)
    assert problem.value_range == pytest.approx((best.min(), best.max()))
    given_text = edit(("noise_sd = 0.2", "noise_sd = 0.2\ntheta_bound = 7\nvalue_range = [-9, 9]\ndelta = 0.2"))
    given_problem = parse_study(given_text).worlds()[0].problem
    assert (given_problem.theta_bound, given_problem.value_range, given_problem.delta) == (
        7.0,
        (-9.0, 9.0),
        0.2,
    )
    drawn = edit(('"stress" = -0.3', '"stress" = { mean = -3, sd = 1 }'), ('"time=pm" = 0.1', '"*" = 0'))
    assert parse_study(drawn).worlds()[0].problem.theta_bound == pytest.approx(
        np.sqrt(0.2**2 + 0.5**2 + 6.0**2 + 0.1**2 + 0.4**2)
    )


def test_the_paper_study_can_be_written_as_a_file() -> None:
    """Uniform effects on all terms give the very instances of the paper's synthetic study."""
    text = """
    [study]
    name = "synthetic"
    seed = 11
    horizon = 300
    replicates = 50
    instances = 4
    actions = ["0", "1", "2", "3", "4"]
    budgets = [10, 20, 30]
    [variables.s]
    range = [1, 10]
    [reward]
    formula = "action + s + action:s"
    noise_sd = 0.1
    [effects]
    "*" = { low = 0, high = 1 }
    [[policies]]
    kind = "PD2"
    """
    ours, theirs = parse_study(text).worlds(), synthetic_worlds(4, 11)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.theta.tolist() == other.theta.tolist()
        assert mine.problem.features.tolist() == other.problem.features.tolist()
        assert mine.problem.theta_bound == pytest.approx(other.problem.theta_bound)
        assert mine.problem.value_range == other.problem.value_range
    assert [w.name for w in ours] == ["instance 0", "instance 1", "instance 2", "instance 3"]


def test_normal_effects_have_their_mean_and_spread() -> None:
    """A normal effect is drawn anew for each instance, with its mean and sd."""
    text = edit(("seed = 3", "instances = 400"), ('"stress" = -0.3', '"stress" = { mean = 2, sd = 0.5 }'))
    thetas = np.array([world.theta for world in parse_study(text).worlds()])
    assert thetas[:, 3].mean() == pytest.approx(2.0, abs=0.1)
    assert thetas[:, 3].std() == pytest.approx(0.5, abs=0.07)
    assert np.ptp(np.delete(thetas, 3, axis=1), axis=0).max() == 0.0


def test_unknown_probabilities_stay_with_the_world() -> None:
    """With known = false the world has the probabilities and the agents do not."""
    world = parse_study(edit(("known = true", "known = false"))).worlds()[0]
    assert world.problem.context_probs is None
    assert world.context_probs.tolist() == [0.25, 0.125, 0.125] * 2


@pytest.mark.parametrize("joint", ["[[0.1, 0.2, 0.3], [0.2, 0.1, 0.1]]", "[0.1, 0.2, 0.3, 0.2, 0.1, 0.1]"])
def test_joint_probabilities(joint: str) -> None:
    """Joint probabilities are given nested or flat, first variable slowest."""
    text = edit(("probabilities = [0.5, 0.25, 0.25]\n", ""), ("known = true", f"joint = {joint}"))
    world = parse_study(text).worlds()[0]
    assert world.context_probs[world.problem.index({"time": "am", "stress": 3})] == 0.3
    assert world.context_probs[world.problem.index({"time": "pm", "stress": 1})] == 0.2


def test_policies_meet_every_budget() -> None:
    """Policies run with each budget; baselines run once, without one unless they have their own."""
    more = '[[policies]]\nkind = "never"\n[[policies]]\nkind = "always"\nbudgets = [2]\n'
    more += '[[policies]]\nkind = "periodic"\nevery = 7\n'
    more += '[[policies]]\nkind = "PD1"\nname = "mine"\nbudgets = [5]\nscale = "gap"\nunknown = "plugin"\n'
    policies = parse_study(BASE + more).policies()
    rules = [(type(p.revealer), p.budget and p.budget.amount) for p in policies]
    assert rules == [
        (FixedRate, 4.0), (FixedRate, 8.0), (LearningPrimalDual, 4.0), (LearningPrimalDual, 8.0),
        (Never, None), (Always, 2.0), (Periodic, None), (PrimalDual, 5.0),
    ]  # fmt: skip
    assert policies[6].revealer == Periodic(every=7)
    assert (policies[7].name, policies[7].scale) == ("mine", "gap")
    assert not any(p.pooled for p in policies)
    assert all(p.budget.hard for p in parse_study(edit(("seed = 3", 'budget_kind = "hard"'))).policies() if p.budget)


def test_a_study_runs() -> None:
    """A run has every policy, replicate and step, and carries the file."""
    data = parse_study(BASE).run(progress=False)
    assert list(data["policy"].values) == ["naive B=4", "naive B=8", "PD2 B=4", "PD2 B=8"]
    assert (data.sizes["replicate"], data.sizes["step"]) == (2, 40)
    assert data.attrs["study"] == "small"
    assert data.attrs["study_file"] == BASE
    totals = parse_study(edit(("seed = 3", "seed = 3\ntrace = false"))).run(progress=False)
    assert "step" not in totals.dims
    assert totals["total_reward"].values == pytest.approx(data["total_reward"].values)


def test_replace_checks_again() -> None:
    """Keys of [study] can be replaced, and what does not fit is refused as in a file."""
    study = parse_study(BASE)
    assert study.replace(horizon=10, replicates=1).settings.study.horizon == 10
    with pytest.raises(InputError, match=r"budgets in \[study\] contains 8; expected at most 5"):
        study.replace(horizon=5)
    with pytest.raises(InputError, match=r"replicates in \[study\] is 0; expected a whole number >= 1"):
        study.replace(replicates=0)
    with pytest.raises(InputError, match="did you mean 'horizon'"):
        study.replace(horzon=5)


def test_more_steps_than_memory() -> None:
    """A study whose steps cannot fit into memory is refused with the way out."""
    with pytest.raises(InputError, match="expected trace = false"):
        parse_study(BASE).replace(replicates=4_000_000_000).run(progress=False)


def test_the_example_runs() -> None:
    """The example file loads and runs as it is, here with fewer runs."""
    study = parse_study(EXAMPLE)
    assert study.settings.study.horizon == 200
    visibility = [variable.visibility for variable in study.settings.variables.values()]
    assert set(visibility) == {"public", "sensed", "reported"}
    data = study.replace(horizon=30, replicates=2, instances=2).run(progress=False)
    assert data.sizes["world"] == 2
    assert bool(np.isfinite(data["total_reward"]).all())
