"""What pilot data leave unsure: means drawn for all participants alike, and how far they move the answer."""

import math
from pathlib import Path

import numpy as np
import pytest
from plan_studies import edited, simulations, small

from opportune.errors import InputError
from opportune.planning.budget import find_least, find_values
from opportune.planning.settings import Settings
from opportune.planning.uncertainty import DRAWS, count_steps, find_uncertainty, shifts
from opportune.planning.worlds import Assumption, participants_of

EFFECT = '"action=walk:stress" = { mean = 1.2, sd = 0.2 }'


def unsure(se: float, **given: object) -> Settings:
    return small((EFFECT, f'"action=walk:stress" = {{ mean = 1.2, sd = 0.2, se = {se} }}'), **given)


def test_draws_are_the_same_for_all_participants() -> None:
    """A draw shifts the one unsure effect of everybody by as much, and leaves how participants differ as it is."""
    settings = unsure(0.5)
    drawn = shifts(settings)
    place = settings.study.terms.index("action=walk:stress")
    assert drawn.shape == (DRAWS, len(settings.study.terms))
    assert not np.delete(drawn, place, axis=1).any()
    assert drawn[:, place].std(ddof=1) == pytest.approx(0.5, rel=0.5)
    moved = participants_of(settings, Assumption(name="pilot", text="", shift=tuple(drawn[0])))
    for before, after in zip(settings.worlds, moved, strict=True):
        assert after.theta - before.theta == pytest.approx(drawn[0])
        assert after.problem is before.problem  # what agents believe stays


def test_instances_do_not_draw_it() -> None:
    """The effects that participants draw are those of the file without se."""
    for before, after in zip(small().worlds, unsure(0.5).worlds, strict=True):
        assert np.array_equal(before.theta, after.theta)


def test_the_more_unsure_the_wider(tmp_path: Path) -> None:
    """Nine in ten draws lie farther apart where means are less sure; nothing is asked of a file without se."""
    widths = []
    for se in (0.05, 0.6):
        settings = unsure(se, replicates=20, target=0.5)
        keep = simulations(tmp_path / f"{se}")
        values = find_values(settings, keep)
        table = find_uncertainty(settings, keep, find_least(settings, values, keep)).set_index("measure")
        assert (table["low"] <= table["middle"]).all()
        assert (table["middle"] <= table["high"]).all()
        widths.append(table.loc["always", "high"] - table.loc["always", "low"])
    assert widths[1] > 4.0 * widths[0]
    sure = small()
    assert count_steps(sure) == 0.0
    assert find_uncertainty(sure, simulations(tmp_path), find_least(sure, values, keep)).empty


def test_the_bound_of_effects_counts_it() -> None:
    """What agents take for the farthest an effect can be has room for both."""
    effect = edited((EFFECT, '"action=walk:stress" = { mean = 1.2, sd = 0.3, se = 0.4 }')).effects["action=walk:stress"]
    assert effect.bound == pytest.approx(1.2 + 3.0 * math.hypot(0.3, 0.4))


@pytest.mark.parametrize("value", ["{ mean = 1.2, se = 0.1 }", "{ low = 0, high = 1, se = 0.1 }"])
def test_it_belongs_to_a_mean_and_an_sd(value: str) -> None:
    """`se` without a normal distribution is refused."""
    with pytest.raises(InputError, match="expected a number"):
        edited((EFFECT, f'"action=walk:stress" = {value}'))
