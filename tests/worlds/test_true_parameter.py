"""The truth of a world can be given by the names of the formula's terms."""

import numpy as np
import pytest

import opportune as op


def make(stress: object) -> op.Problem | op.ContinuousProblem:
    return op.Problem.from_formula("action * stress", {"stress": stress}, ["rest", "walk"])


def test_effects_by_name_are_those_by_place() -> None:
    """Effects may be named in any order, also for numbers; terms that are not named have no effect."""
    problem = make(range(1, 4))
    assert isinstance(problem, op.Problem)
    world = op.LinearWorld(
        problem, theta={"stress:action=walk": 0.5, "action=walk": -1.0}, context_probs=[0.2, 0.3, 0.5]
    )
    assert dict(zip(problem.terms, world.theta, strict=True)) == {
        "action=walk": -1.0,
        "stress": 0.0,
        "action=walk:stress": 0.5,
    }
    numbers = make(op.Number(0, 1))
    assert isinstance(numbers, op.ContinuousProblem)
    other = op.ContinuousWorld(numbers, theta={"stress": 2.0}, distributions={"stress": op.distributions.Uniform(0, 1)})
    assert other.theta[list(numbers.terms).index("stress")] == 2.0
    assert np.count_nonzero(other.theta) == 1


def test_a_wrong_name_is_refused_with_the_terms() -> None:
    """A name that is no term is refused, as are names where features have none."""
    with pytest.raises(op.InputError, match=r"'walk'.*'action=walk'"):
        op.LinearWorld(make(range(3)), theta={"walk": 1.0}, context_probs=[0.2, 0.3, 0.5])  # type: ignore[arg-type]
    unnamed = op.Problem(np.ones((2, 2, 2)))
    with pytest.raises(op.InputError, match="from_formula"):
        op.LinearWorld(unnamed, theta={"walk": 1.0}, context_probs=[0.5, 0.5])
