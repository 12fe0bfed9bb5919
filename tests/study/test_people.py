"""What a file says of people in a simulation: rates by level, habits, rewards with bounds, variables of their past."""

import numpy as np
import pytest
from study_files import edit

from opportune.study import parse_study

WORLD = """
response_rate = { am = 0.2, pm = 0.9 }
response_spread = 0.3
habituation = 0.9
spells = { rate = 0.05, days = 2 }
"""


def test_what_happens_to_people_is_that_of_the_file() -> None:
    """Rates by level are rates by stratum; spread, habits, spells, family, bounds and persistence are passed on."""
    text = edit(
        ("open_rate = 0.1", "open_rate = { am = 0.1, pm = 0.3 }" + WORLD),
        ("noise_sd = 0.2", 'noise_sd = 0.2\nfamily = "count"\nbounds = [0, 5]'),
        ("range = [1, 3]", "range = [1, 3]\npersistence = 0.5"),
    )
    world = parse_study(text).worlds()[0]
    happenings = world.happenings
    assert happenings.open_rate == (0.1, 0.3)
    assert happenings.response_rate == (0.2, 0.9)
    assert (happenings.response_spread, happenings.habituation) == (0.3, 0.9)
    assert happenings.spells == {"rate": 0.05, "days": 2, "silent": False}
    assert (happenings.family, happenings.bounds) == ("count", (0.0, 5.0))
    assert world.persistence == {"stress": 0.5}
    rewards = parse_study(text).run(progress=False)["reward"].values
    assert set(np.unique(rewards[np.isfinite(rewards)])) <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}


def test_variables_of_the_past_are_computed() -> None:
    """The number of nudges in the last decisions is a variable; before there is any it has its initial value."""
    history = "\n[variables.dose]\nhistory = { of = 'nudges', summary = 'sum', decisions = 3 }\nrange = [0, 3]\n"
    text = edit(
        ("\n[contexts]", history + "\n[contexts]"), ("time + action*stress", "time + action*stress + dose"),
        ('"stress" = -0.3', '"stress" = -0.3\n"dose" = -1.0'), ('kind = "naive"', 'kind = "always"'),
        ("noise_sd = 0.2", "noise_sd = 0.001"), ("open_rate = 0.1", "open_rate = 0.0"),
        ('[[policies]]\nkind = "PD2"\nscale = "adaptive"', '[[policies]]\nkind = "never"'),
    )  # fmt: skip
    study = parse_study(text)
    assert study.continuous
    data = study.run(progress=False)
    always, never = (data["outcome"].isel(policy=i, world=0).mean("replicate").values for i in range(2))
    lost = never[5:].mean() - always[5:].mean()
    assert lost == pytest.approx(3.0, abs=0.8), "three nudges in the last three decisions cost one each"
