"""Why there is a call: each case in the words that are true of it, and what is likely to be advised in one sentence."""

from typing import Any

import pytest
from study_text import study_text

from opportune.service.pages import reasons
from opportune.service.pages.texts import texts
from opportune.service.state.study import StudyInForce

RUNNING = StudyInForce.from_text(study_text())
HERE, OTHER = list(RUNNING.study.settings.study.actions)[:2]
STRESS = {"variable": "stress", "value": 4, "usual": 2, "by": "own", "contribution": 1.0}
ORDINARY: dict[str, Any] = {
    "variables": [], "by_context": True, "together": False, "debt": False, "overdue": False, "present": HERE,
    "instead": OTHER, "sure": 0.8, "better": True, "chance": False, "unless_usual": False, "least_left": None,
    "gain": 1.0,
}  # fmt: skip


def said(days: int | None = 3, **changed: Any) -> str:
    """What stands on the card."""
    because = {**ORDINARY, **changed}
    why = reasons.why(RUNNING, {"mode": "policy"}, because, days, texts("en"))
    return f"{why} {reasons.unless(RUNNING, because, texts('en'))}".strip()


def test_a_call_by_chance_has_no_special_reason() -> None:
    """Also where something is unusual: the rule would have waited."""
    found = said(chance=True, variables=[STRESS], debt=True, unless_usual=True)
    assert found.startswith("There is no special reason: ")
    assert "Stress" not in found


@pytest.mark.parametrize("changed", [{"instead": HERE}, {"better": False}, {"sure": 0.4}])
def test_what_was_learned_speaks_for_other_advice_only_if_that_helps_more(changed: dict[str, Any]) -> None:
    """Where it does not, more is known than the app's advice uses; without a contact there is none to count from."""
    assert said(debt=True).startswith("What the study has learned since the last contact (3 days ago) suggests ")
    assert said(debt=True, **changed).startswith("Since the last contact (3 days ago) the study has learned more than ")
    assert said(None, debt=True, **changed).startswith("The study has learned more than the app's advice reflects.")


def test_a_variable_makes_a_call_matter_more_and_does_not_make_the_advice() -> None:
    """Its usual value is mentioned only beside its name."""
    found = said(variables=[STRESS], unless_usual=True)
    assert "usually 2). That makes a call matter more now. In about 8 of 10 " in found
    assert "Had “" in found
    assert "Had “" not in said(variables=[STRESS], unless_usual=True, debt=True)
    assert "Had “" not in said(variables=[STRESS], unless_usual=True, overdue=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"instead": HERE, "sure": 0.99}, "The call will hardly change the advice “"),
        ({"instead": HERE, "sure": 0.7}, "In about 7 of 10 such calls the advice stays “"),
        ({"instead": HERE, "sure": 0.4}, "What will be advised depends on the answers; most often “"),
        ({"sure": 0.41}, "(in about 4 of 10 calls)."),
        ({"sure": 0.99}, "will almost certainly be advised instead of"),
        ({"sure": 0.99, "better": False}, "also to learn how well it works."),
        ({"better": False}, "also to learn how well it works; the answers decide."),
        ({}, "and would probably help more; the answers decide."),
    ],
)  # fmt: skip
def test_what_will_be_advised_is_one_sentence(changed: dict[str, Any], words: str) -> None:
    """How sure it is stands in the same sentence, so that the two cannot contradict each other."""
    ordinary = "There is no special reason: the study also calls at ordinary moments, to learn what calls do. "
    found = said(**changed)
    assert found.startswith(ordinary)
    assert words in found
    assert found.removeprefix(ordinary).count(".") == 1


@pytest.mark.parametrize("language", ["de", "fr"])
def test_every_case_is_translated(language: str) -> None:
    """Each sentence differs from the English one."""
    for changed in ({"sure": 0.4}, {"sure": 0.7}, {"sure": 0.99}, {"sure": 0.7, "better": False}, {"instead": HERE}):
        because = {**ORDINARY, "debt": True, **changed}
        found, english = (
            reasons.why(RUNNING, {"mode": "policy"}, because, 1, texts(code)) for code in (language, "en")
        )
        assert not set(found.split(". ")) & set(english.split(". "))
