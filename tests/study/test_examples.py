"""The shipped study files: each is ready for every command, says what will happen, and runs."""

import numpy as np
import pytest

from opportune.problems.history import History
from opportune.study import live, parse_study
from opportune.study.examples import EXAMPLES, example
from opportune.study.needs import needs
from opportune.study.outlook import outlook


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_ready_for_every_command(name: str) -> None:
    """Nothing lacks for simulate, plan and serve, and the file is named after its example."""
    study = parse_study(example(name), source=f"{name}.toml")
    assert study.name == name
    assert [one.lacks for one in needs(study)] == [[], [], []]
    assert live(study).fallback in study.settings.study.actions


def test_published_designs_are_randomised_as_published() -> None:
    """HeartSteps suggests with probability 0.6; Oralytics prompts with 0.2 to 0.8 and learns once a week, pooled."""
    heartsteps = parse_study(example("heartsteps")).replace(replicates=1, instances=3)
    data = heartsteps.run(progress=False)
    as_published = data.sel(policy="suggestions at 0.6")
    drawn = as_published["action_probability"].values
    assert np.unique(np.round(drawn, 9)).tolist() == [0.4, 0.6]
    assert np.allclose(drawn[..., 1].ravel()[: data.sizes["step"]], 0.6)
    assert 0.55 < float((as_published["action"] == 1).mean()) < 0.65
    oralytics = live(parse_study(example("oralytics"))).policy
    assert (oralytics.floor, oralytics.update, oralytics.pooled, oralytics.recommender.kind) == (
        0.2,
        14,
        True,
        "thompson",
    )


def test_what_the_examples_ask_can_be_answered() -> None:
    """In HeartSteps the phone that is brought up to date learns to stop; in Oralytics days without the app vary."""
    data = parse_study(example("heartsteps")).replace(replicates=2, instances=10).run(progress=False)
    assert (data["nudges"].sel(policy=["PACE B=2", "PACE B=6"]).mean(("world", "replicate")) > 0.5).all()
    learned = data["action"].sel(policy="PACE B=6").mean(("world", "replicate"))
    assert float(learned[-30:].mean()) < float(learned[:30].mean()) - 0.2
    oralytics = parse_study(example("oralytics"))
    assert oralytics.settings.analysis.primary is not None
    history = oralytics.problem.variables["days_since_opening"]
    assert isinstance(history, History)
    assert history.of == "opened", "every decision is a contact, and would make it the same number always"


def test_the_call_centre_keeps_its_rules() -> None:
    """In a simulation of the trial no call is made where the calendar, a cap or the run-in forbids it, none to the
    control arm, and no exercise where it is forbidden.
    """
    study = parse_study(example("cardiac-calls")).replace(replicates=1, instances=9)
    data = study.run(progress=False)
    timetable = study.timetable(9)
    assert timetable is not None
    nudged = data["nudged"].sel(policy="calls").isel(replicate=0).transpose("world", "step").values.astype(bool)
    assert nudged.sum() > 30
    assert not nudged[timetable.closed != 0].any()
    assert not nudged[:, :14].any()
    assert not data["nudged"].sel(policy="control").any()
    assert (timetable.closed != 0).mean() > 0.2, "the control: there is something to keep"
    assert not (data["action"].values[..., :4] == 2).any(), "no exercise before day 3"
    assert set(live(study).policies) == {"calls", "control"}
    assert any("enough for 48 people at a time." in text for text in outlook(study))
