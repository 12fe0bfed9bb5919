"""[analysis]: what is fixed before the first participant can be done after the last."""

import pytest
from study_files import BASE, errors_of

from opportune.study import parse_study

WITH = BASE.replace("[effects]", "[variables.pain]\nrange = [0, 3]\nvisibility = 'reported'\n\n[effects]")
ARMS = "\n[arms]\ncalls = { share = 1 }\nusual = { share = 1, policy = 'never' }\nblock = 2\n"
BASELINE = "\n[participants]\nplanned = 20\nbaseline = { age = [40, 85] }\n"
WRONG = {
    "controls = 'stres'": "'stres' is not among them; did you mean 'stress'",
    "controls = 'stress +'": "which cannot be used",
    "controls = 'stress + log(pain)'": "'pain' is reported, and so known only after it",
    "moderators = 'C(pain)'": "known before the coin",
    "moderators = 'open(stress)'": "calls something other than",
    "estimand = 'arms'": "expected 'nudge' or 'actions', as the file has no [arms]",
    "outcome = 'rewart'": "did you mean 'reward'",
    "lag = 5000": "expected at most the horizon",
    "reference = 'rest'": "expected none, as a nudge is compared with no nudge",
    "estimand = 'actions', reference = 'fly'": "reference in primary of [analysis] is 'fly'; expected",
}


def primary(text: str) -> str:
    return f"\n[analysis]\nprimary = {{ {text} }}\n"


@pytest.mark.parametrize("given", WRONG)
def test_a_primary_analysis_that_cannot_be_made_is_refused(given: str) -> None:
    """It is found while it can still be changed; the same analysis of what there is is accepted."""
    found = errors_of(WITH + primary(given))
    assert len(found) == 1
    assert WRONG[given] in found[0]
    good = "controls = 'stress + step', moderators = 'C(stress)', outcome = 'pain', lag = 3"
    assert parse_study(WITH + primary(good)).settings.analysis.primary is not None


def test_arms_are_adjusted_for_the_baseline_alone() -> None:
    """What is known only after randomisation is refused among the controls of a comparison of arms."""
    file = WITH + ARMS + BASELINE
    right = "estimand = 'arms', controls = 'age', reference = 'usual'"
    assert parse_study(file + primary(right)).settings.analysis.primary is not None
    for wrong, said in (
        ("controls = 'stress'", "known before randomisation, 'age'"),
        ("moderators = 'age'", "expected none for arms"),
        ("lag = 2", "expected 1 for arms"),
        ("reference = 'usal'", "did you mean 'usual'"),
    ):
        assert any(said in error for error in errors_of(file + primary(f"estimand = 'arms', {wrong}"))), wrong
    assert errors_of(file + "\n[analysis]\nlag = 9999\n")
