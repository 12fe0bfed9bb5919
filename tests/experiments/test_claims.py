"""Verdicts: a claim holds, does not hold, or is not decided, by where 95% intervals lie; one rule for all."""

from pathlib import Path

import numpy as np
import pytest

import opportune.experiments
from opportune.experiments.claims import Claim, Verdict, claim, exact, measure, without_exception

HELD, NOT_HELD, NOT_DECIDED = Verdict.HELD, Verdict.NOT_HELD, Verdict.NOT_DECIDED
NOISE = np.array([-1.0, 0.0, 1.0, 0.0])  # half an interval is 1.30


@pytest.mark.parametrize(("mean", "verdict"), [(1.4, HELD), (1.2, NOT_DECIDED), (-1.2, NOT_DECIDED), (-1.4, NOT_HELD)])
def test_an_interval_decides(mean: float, verdict: Verdict) -> None:
    """A difference holds only if its whole interval is above the threshold, and fails only if all of it is below."""
    assert measure("", NOISE + mean, above=0.0).verdict is verdict
    assert measure("", NOISE + mean + 5.0, above=5.0).verdict is verdict
    assert measure("", -(NOISE + mean), below=0.0).verdict is verdict


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.0, HELD), (3.8, NOT_DECIDED), (-3.8, NOT_DECIDED), (7.0, NOT_HELD), (-7.0, NOT_HELD)]
)
def test_between_two_thresholds(mean: float, verdict: Verdict) -> None:
    """A number that must lie between two thresholds holds if its whole interval does."""
    assert measure("", NOISE + mean, above=-5.0, below=5.0).verdict is verdict


def test_no_difference_at_all_is_not_decided() -> None:
    """An interval that is nothing but the threshold includes it."""
    assert measure("", np.zeros(5), above=0.0).verdict is NOT_DECIDED


def test_a_single_instance_decides_nothing() -> None:
    """Without a spread there is no interval, and the evidence says so; the same where no instance has a value."""
    one = claim("Ahead.", "Ahead by", [measure("B = 10", [3.0], above=0.0)])
    assert one.verdict is NOT_DECIDED
    assert "B = 10: 3.0 (a single instance)" in one.evidence
    none = claim("Ahead.", "Ahead by", [measure("B = 10", [np.nan, np.nan], above=0.0)])
    assert none.verdict is NOT_DECIDED
    assert "no instance" in none.evidence
    assert claim("Ahead.", "Ahead by", []).verdict is NOT_DECIDED


def test_instances_without_a_value_have_no_say() -> None:
    """NaN is left out, not taken for a number."""
    assert measure("", [2.0, np.nan, 2.5, 2.25], above=0.0) == measure("", [2.0, 2.5, 2.25], above=0.0)


@pytest.mark.parametrize(
    ("means", "every", "some"),
    [
        ((9.0, 9.0), HELD, HELD),
        ((9.0, 0.0), NOT_DECIDED, HELD),
        ((9.0, -9.0), NOT_HELD, HELD),
        ((0.0, -9.0), NOT_HELD, NOT_DECIDED),
        ((-9.0, -9.0), NOT_HELD, NOT_HELD),
    ],
)
def test_claims_about_all_and_some(means: tuple[float, ...], every: Verdict, some: Verdict) -> None:
    """One number on the wrong side refutes a claim about all; one on the right side proves one about some."""
    found = [measure(str(mean), NOISE + mean, above=0.0) for mean in means]
    assert claim("All.", "By", found).verdict is every
    assert claim("Some.", "By", found, some=True).verdict is some


def test_the_evidence_says_the_interval() -> None:
    """Means, intervals and thresholds other than 0 stand in the text."""
    found = claim("Ahead.", "Ahead by", [measure("B = 10", NOISE + 9.0, above=0.0)], note="So be it.")
    assert found.evidence == "Ahead by, mean and 95% interval: B = 10: 9.0 (7.7 to 10.3). So be it."
    share = claim("Most.", "Share", [measure("B = 10", NOISE + 95.0, above=90.0)], digits=0, unit="%")
    assert share.evidence == "Share, mean and 95% interval: B = 10: 95% (94 to 96). Held above 90%."


@pytest.mark.parametrize(("exceptions", "verdict"), [(0, HELD), (1, NOT_HELD), (7, NOT_HELD)])
def test_one_exception_refutes(exceptions: int, verdict: Verdict) -> None:
    """What is said of every run is refuted by one, and never left open."""
    assert without_exception("Never.", exceptions, "").verdict is verdict


def test_a_share_stays_below_100_percent() -> None:
    """An interval does not reach beyond what is possible, and the verdict is the same."""
    values = [100.0, 100.0, 100.0, 0.0]
    assert measure("", values, above=90.0, within=(0.0, 100.0)).high == 100.0
    assert measure("", values, above=90.0, within=(0.0, 100.0)).verdict is measure("", values, above=90.0).verdict


def test_claims_survive_their_file() -> None:
    """A claim reads back as it was written, with its verdict in words."""
    written = claim("Ahead.", "By", [measure("a", NOISE + 9.0, above=0.0), exact("b", 1.0, below=2.0)])
    text = written.model_dump_json()
    assert '"verdict":"held"' in text
    assert Claim.model_validate_json(text) == written


def test_no_experiment_makes_its_own_rule() -> None:
    """Experiments measure and compare; only `claims` decides, so none hands over a verdict of its own."""
    folder = Path(opportune.experiments.__file__).parent
    for path in folder.rglob("*.py"):
        if path.name not in {"claims.py", "record.py"}:
            text = path.read_text(encoding="utf-8")
            assert "Verdict." not in text, path.name
            assert "verdict=" not in text.replace("verdict=decide(", ""), path.name
