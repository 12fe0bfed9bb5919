"""Decisions, probabilities and final states are those of golden.json: no change of the code changes them unnoticed."""

import pytest

import golden
from golden import Pinned

STORED = golden.stored()


def close(got: float, expected: float) -> bool:
    """Whether two sums agree as well as rounding on another processor allows."""
    return got == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("part", golden.groups())
def test_runs_are_those_of_the_golden_file(part: str) -> None:
    """Every decision equals the stored one; numbers and final states agree to 1e-9."""
    got, expected = golden.groups()[part](), STORED[part]
    assert list(got) == list(expected)
    for name, run in got.items():
        wanted = expected[name]
        assert run.decisions == wanted.decisions, f"{part}, {name}: a decision has changed"
        assert close(run.numbers, wanted.numbers), f"{part}, {name}: a number has changed"
        assert close(run.states, wanted.states), f"{part}, {name}: a final state has changed"


def test_a_changed_decision_is_noticed() -> None:
    """The control: another seed, one other action, one number off by a millionth are all seen."""
    part = "simulate PD2 adaptive"
    run = next(golden.grid("PD2 adaptive"))
    expected = STORED[part]["0"]
    assert golden.simulated(run) == expected
    run.seed += 1
    assert golden.simulated(run).decisions != expected.decisions
    assert not close(expected.numbers * (1 + 1e-6), expected.numbers)
    assert golden.digest([[0, 1, 2]]) != golden.digest([[0, 2, 1]])
    assert golden.weighted([1.0, 2.0]) != golden.weighted([2.0, 1.0])
    assert Pinned("a", 1.0) != Pinned("b", 1.0)
