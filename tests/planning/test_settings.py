"""A plan's settings are checked before anything is simulated; it is for PACE unless the study says otherwise."""

from typing import Any

import pytest
from plan_studies import SMALL, edited, small

from opportune.errors import InputError
from opportune.planning import settings_of
from opportune.planning.settings import BYTES_PER_STEP, TRACE_BYTES
from opportune.study import parse_study


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": 0.0}, "target is 0.0; expected a finite number > 0 and < 1"),
        ({"target": 1.0}, "target is 1.0; expected"),
        ({"budgets": [4, 25]}, "budgets is 25; expected a finite number >= 0 and <= 24"),
        ({"budgets": [0]}, "expected at least one number above 0"),
        ({"budgets": [float("nan")]}, "budgets is nan"),
        ({"replicates": 1}, "replicates is 1; expected a whole number from 2"),
        ({"participants": 1}, "participants is 1; expected a whole number from 2 to 1000000"),
        ({"device": "gpu"}, "device is 'gpu'; expected one of 'cpu', 'cuda', 'auto'"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], message: str) -> None:
    """What cannot be planned is refused with what was given and what was expected."""
    with pytest.raises(InputError) as caught:
        small(**given)
    assert message in str(caught.value)


def test_the_right_settings_are_taken() -> None:
    """The control: the file's own budgets with 0, its participants, and PACE."""
    settings = small()
    assert settings.budgets == (0.0, 4.0, 8.0)
    assert (settings.participants, settings.per_day, settings.days) == (12, 2, 12.0)
    assert settings.name(settings.main) == "PACE"
    assert settings.first_weekday == 2  # the weekend variable begins on a Wednesday


def test_the_study_says_which_policy_the_plan_is_for() -> None:
    """[serve] policy comes first, then PACE, then the first policy that has a budget; others are compared with it."""
    assert small(("[nudge]", "[serve]\npolicy = 'naive'\n[nudge]")).main == 1
    assert small(('kind = "PACE"', 'kind = "PD1"')).main == 0
    never = edited(('kind = "PACE"', 'kind = "never"'), ('kind = "naive"', 'kind = "always"'))
    with pytest.raises(InputError, match=r"no policy in .*policies.* has a budget"):
        settings_of(never)


def test_a_file_without_policies_and_budgets_is_planned_with_pace() -> None:
    """Budgets are then shares of the decisions."""
    text = SMALL[: SMALL.index("[[policies]]")].replace("budgets = [4, 8]\n", "")
    settings = settings_of(parse_study(text))
    assert settings.name(settings.main) == "PACE"
    assert settings.budgets == (0.0, 1.0, 2.0, 3.0, 5.0)


def test_without_the_truth_nothing_is_planned() -> None:
    """A file without [effects] is refused by name."""
    study = edited((SMALL[SMALL.index("[effects]") : SMALL.index("[nudge]")], ""))
    with pytest.raises(InputError, match=r"\[effects\] is missing"):
        settings_of(study)


def test_memory_bounds_what_is_kept_step_by_step() -> None:
    """With very many participants or replications fewer of them are traced, and never less than two replications."""
    few, many = small(replicates=40), small(replicates=400_000, participants=1000)
    assert (few.fewest_traced, few.traced) == (few.fewest, few.fewer)
    for settings in (few, many, small(replicates=40, participants=500_000)):
        room = settings.participants * settings.horizon * BYTES_PER_STEP
        for kept in (settings.traced, settings.fewest_traced * settings.traced_at_once):
            assert kept == 2 or kept * room <= TRACE_BYTES
    assert many.fewest_traced < many.fewest
