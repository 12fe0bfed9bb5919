"""The terms of a formula have names that people write, in any of their spellings."""

from typing import Any

import pytest
from study_files import edit

from opportune.problems.formula import design
from opportune.problems.terms import term_names
from opportune.study import parse_study


@pytest.mark.parametrize(
    "formula",
    [
        "action",
        "1 + action + stress",
        "action*stress + time",
        "action:time + action:stress",
        "(action + time + stress)**2",
        "action + action:stress - stress",
        "action*I(stress**2) + C(stress)",
        "action*log(stress) + exp(stress) + center(stress) + scale(stress)",
        "action/time",
    ],
)
def test_terms_name_the_features(formula: str) -> None:
    """There is one name for each feature, and each effect alone moves the reward by its feature."""
    variables: dict[str, list[Any]] = {"time": ["am", "pm"], "stress": [1, 2, 3]}
    actions = ["none", "walk", "call"]
    names = term_names(formula, variables, actions)
    features = design(formula, variables, actions)
    assert len(names) == len(set(names)) == features.shape[-1]
    for i, name in enumerate(names):
        if name == "action=walk:stress":
            assert features[..., i].tolist() == [[0.0, s, 0.0] for _ in "ap" for s in (1, 2, 3)]
        if name == "time=pm":
            assert features[..., i].tolist() == [[t] * 3 for t in (0.0, 1.0) for _ in range(3)]


@pytest.mark.parametrize(
    "name", ["action=walk:stress", "stress:action=walk", "action[T.walk]:stress", " stress : action=walk "]
)
def test_terms_have_several_spellings(name: str) -> None:
    """A term may be spelt in any order, and as formulaic spells it."""
    world = parse_study(edit(('"action=walk:stress" = 0.1', f'"{name}" = 0.7'))).worlds()[0]
    assert world.theta[4] == 0.7
