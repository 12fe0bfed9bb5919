"""One file for simulate, plan and serve: what each command needs, and what runs live."""

import numpy as np
import pytest
from study_files import BASE, EXAMPLE, edit

from opportune.errors import InputError
from opportune.live.cohort import Cohort
from opportune.planning.settings import settings_of
from opportune.study import live, parse_study
from opportune.study.needs import Needs, needs

TRUTH = BASE[BASE.index("[effects]") : BASE.index("[[policies]]")]
ONE_POLICY = ('[[policies]]\nkind = "naive"\n\n', "")
SERVED = "\n[participants]\nplanned = 10\n[serve]\nbudget = 4\n"


def without_truth(*changes: tuple[str, str]) -> str:
    return edit((TRUTH, ""), *changes)


def found(text: str, command: str) -> Needs:
    return next(one for one in needs(parse_study(text)) if one.command == command)


def test_the_example_is_ready_for_everything() -> None:
    """The example file lacks nothing, whatever command is given."""
    assert [(one.command, one.lacks) for one in needs(parse_study(EXAMPLE))] == [
        ("simulate", []),
        ("plan", []),
        ("serve", []),
    ]


def test_a_file_without_the_truth_can_be_served() -> None:
    """What works is for simulations alone: without it a file can be served, and nothing else."""
    text = without_truth(ONE_POLICY, ("noise_sd = 0.2", "noise_sd = 0.2\ntheta_bound = 2.0")) + SERVED
    lacks = {one.command: one.lacks for one in needs(parse_study(text))}
    assert lacks["serve"] == []
    assert all("[effects]" in lacks[command][0] for command in ("simulate", "plan"))
    ready = live(parse_study(text))
    cohort = Cohort(ready.problem, ready.policy, horizon=40, seed=1, participants=ready.participants)
    cohort.enrol("P01").propose({"time": "am", "stress": 2})
    assert ready.fallback == "none"
    with pytest.raises(InputError, match=r"study\.toml: \[effects\] is missing"):
        parse_study(text).run()


def test_a_plan_needs_a_policy_with_a_budget() -> None:
    """What `plan` refuses, `check` does not call ready."""
    always = BASE[: BASE.index("[[policies]]")] + '[[policies]]\nkind = "always"\n'
    (lack,) = found(always, "plan").lacks
    assert "a policy in [[policies]] that has a budget" in lack
    with pytest.raises(InputError, match="no policy in"):
        settings_of(parse_study(always))
    assert found(BASE, "plan").lacks == []


def test_what_serve_lacks_is_listed() -> None:
    """Everything that a live study still needs is named at once."""
    reported = ("range = [1, 3]", "range = [1, 3]\nvisibility = 'reported'")
    lacks = found(without_truth(reported, ('"adaptive"', '"range"')), "serve").lacks
    expected = ("'planned'", "which of 2 policies", "'theta_bound'", "value_range", "question in [variables.stress]")
    assert len(lacks) == len(expected)
    assert all(word in text for word, text in zip(expected, lacks, strict=True))
    assert "'gap' needs the truth" in found(edit(('"adaptive"', '"gap"')), "serve").lacks[-1]


def test_the_policy_that_runs_is_the_one_that_serve_names() -> None:
    """[serve] picks policy and budget; a shared budget is what participants have together."""
    shared = ("budgets = [4, 8]", "budgets = [4, 8]\nbudget_shared = true\nbudget_kind = 'hard'")
    text = edit(shared) + "[participants]\nplanned = 10\n[serve]\npolicy = 'PD2'\nbudget = 8\n"
    policy = live(parse_study(text)).policy
    assert policy.budget is not None
    assert (policy.name, policy.budget.amount, policy.shared, policy.budget.hard) == ("PD2", 80.0, True, True)
    with pytest.raises(InputError, match=r"\[serve\] lacks 'budget', and 2 budgets are in the file"):
        live(parse_study(edit(ONE_POLICY) + "[participants]\nplanned = 10\n"))


def test_live_agents_know_nothing_of_the_truth() -> None:
    """The range of values, which a simulation takes from the truth, is in a live problem only if the file gives it."""
    text = edit(ONE_POLICY) + SERVED
    assert live(parse_study(text)).problem.value_range is None
    given = text.replace("noise_sd = 0.2", "noise_sd = 0.2\nvalue_range = [0, 1]")
    assert live(parse_study(given)).problem.value_range == (0.0, 1.0)


def test_no_policies_means_pace() -> None:
    """A file that names no policy tries PACE; without budgets, simulate and serve say that they need some."""
    text = edit((BASE[BASE.index("[[policies]]") :], ""))
    assert [policy.name for policy in parse_study(text).policies()] == ["PACE", "PACE"]
    without = text.replace("budgets = [4, 8]\n", "")
    assert "budgets in [study]" in found(without, "simulate").lacks[0]
    assert found(without, "plan").lacks == []
    with pytest.raises(InputError, match=r"budgets in \[study\] is missing"):
        parse_study(without).run()


def test_shared_budgets_are_simulated() -> None:
    """With budget_shared, all instances spend one budget: its amount is what they have together."""
    drawn = ('"stress" = -0.3', '"stress" = { mean = -0.3, sd = 0.1 }')
    text = edit(("budgets = [4, 8]", "budgets = [4]\nbudget_shared = true\ninstances = 3"), drawn, ONE_POLICY)
    data = parse_study(text).run(progress=False)
    assert data["budget"].item() == 12.0
    assert np.all(data["spent"].sum("world") <= 12.0 + 1e-9)
    assert float(data["spent"].max()) > 4.0  # someone has more than a third: it is shared


def test_the_true_noise_may_differ_from_what_agents_believe() -> None:
    """noise_sd in [world] is the world's, that of [reward] the agents'."""
    (world,) = parse_study(edit(("open_rate = 0.1", "open_rate = 0.1\nnoise_sd = 0.9"))).worlds()
    assert (world.noise_sd, world.informed_problem().noise_sd) == (0.9, 0.2)
    (world,) = parse_study(BASE).worlds()
    assert world.noise_sd == 0.2
