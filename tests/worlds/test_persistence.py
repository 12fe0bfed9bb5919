"""Variables that stay as they were for a while: by their draws, and with the same probabilities in the long run."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import opportune as op
from opportune.algorithm.rng import ARRIVAL, STAY, VARIABLE, draw
from opportune.errors import InputError
from opportune.simulation.visit import visit
from opportune.worlds.distributions import Choice, Resampled, Uniform

SEED, STREAM = np.uint64(5), np.uint64(3)
LONG = 20_000


def finite(probs: Any, **settings: Any) -> op.LinearWorld:
    variables = {"tod": op.TimeOfDay(["am", "pm"]), "stress": [0, 1, 2], "pain": ["no", "yes"]}
    made: Any = op.Problem.from_formula("1 + action * stress + pain", variables, 2, probs, theta_bound=3.0)
    return op.LinearWorld(made, theta=np.full(made.d, 0.3), **settings)


def numeric(**settings: Any) -> op.ContinuousWorld:
    variables = {"tod": op.TimeOfDay(["am", "pm"]), "x": op.Number(0.0, 1.0), "mood": ("low", "high")}
    made: Any = op.Problem.from_formula("1 + action * x + mood", variables, 2, theta_bound=3.0)
    drawn: dict[str, Any] = {"x": Uniform(0.0, 1.0), "mood": Choice({"low": 0.3, "high": 0.7})}
    return op.ContinuousWorld(made, theta=np.full(made.d, 0.3), distributions=drawn, **settings)


def joint() -> NDArray[np.float64]:
    """Stress and pain go together; neither depends on the time of day."""
    both = np.array([0.3, 0.02, 0.2, 0.08, 0.1, 0.3])
    return np.concatenate([both, both]) / 2.0


def walk(world: Any, steps: int, stream: Any = STREAM) -> Any:
    return visit(world, np.zeros(steps, dtype=np.int64), seed=int(SEED), stream=int(stream))


def uniforms(purpose: int, steps: int) -> NDArray[np.float64]:
    return np.array([draw(SEED, STREAM, step, purpose) for step in range(1, steps + 1)])


def test_numbers_stay_until_their_draw_says_otherwise() -> None:
    """Each step's value is that of the last step at which the variable was drawn anew; others are as without."""
    steps = 400
    found, plain = walk(numeric(persistence={"x": 0.7}), steps).values, walk(numeric(), steps).values
    new = uniforms(STAY, steps) >= 0.7
    new[0] = True
    since = np.maximum.accumulate(np.where(new, np.arange(steps), 0))
    assert np.array_equal(found[:, 1], uniforms(VARIABLE, steps)[since])
    assert np.array_equal(found[:, [0, 2]], plain[:, [0, 2]])
    assert np.corrcoef(found[1:, 1], found[:-1, 1])[0, 1] > 0.5
    assert abs(np.corrcoef(plain[1:, 1], plain[:-1, 1])[0, 1]) < 0.2  # the control


def test_rows_of_a_table_stay_whole() -> None:
    """Variables that are drawn jointly stay jointly."""
    rows = Resampled({"x": [0.1, 0.5, 0.9], "mood": ["low", "high", "low"]})
    made = numeric().problem
    world = op.ContinuousWorld(made, theta=np.full(made.d, 0.3), table=rows, persistence={"x": 0.8, "mood": 0.8})
    values = walk(world, 300).values[:, 1:3]
    assert {tuple(row) for row in values} == {(0.1, 0.0), (0.5, 1.0), (0.9, 0.0)}
    assert 0.75 < (values[1:, 0] == values[:-1, 0]).mean() < 0.95
    with pytest.raises(InputError, match="persistence differs between variables of the table"):
        op.ContinuousWorld(made, theta=np.full(made.d, 0.3), table=rows, persistence={"x": 0.8})


def by_hand(world: op.LinearWorld, steps: int) -> list[int]:
    """Contexts with persistence, one step after the other: a second reading."""
    levels = np.array(list(itertools.product(*(range(len(v)) for v in world.problem.variables.values()))))
    columns = [list(world.problem.variables).index(name) for name in world.persistence]
    arrival = uniforms(ARRIVAL, steps)
    stays = [uniforms(STAY + i, steps) < q for i, q in enumerate(world.persistence.values())]
    found: list[int] = []
    for t in range(steps):
        held = [c for c, stay in zip(columns, stays, strict=True) if found and stay[t]]
        fit = (levels[:, 0] == t % 2) & (levels[:, held] == (levels[found[-1], held] if found else 0)).all(axis=1)
        chances = np.cumsum(np.where(fit, world.context_probs, 0.0))
        found.append(int(np.argmax(chances > arrival[t] * chances[-1])))
    return found


def test_contexts_keep_what_stays_and_draw_the_rest_given_it() -> None:
    """The context of every step is that of a second reading of the rule."""
    world = finite(joint(), persistence={"stress": 0.7, "pain": 0.4})
    assert walk(world, 500).moments[:, 3].tolist() == by_hand(world, 500)


def test_in_the_long_run_contexts_have_the_probabilities_given() -> None:
    """What persists keeps the joint distribution, though stress and pain go together."""
    world = finite(joint(), persistence={"stress": 0.7, "pain": 0.4})
    contexts = walk(world, LONG).moments[:, 3]
    shares = np.bincount(contexts, minlength=12) / LONG
    assert np.abs(shares - joint()).max() < 0.015
    stress = contexts % 6 // 2
    assert (stress[1:] == stress[:-1]).mean() > 0.75
    plain = walk(finite(joint()), LONG).moments[:, 3] % 6 // 2
    assert (plain[1:] == plain[:-1]).mean() < 0.5  # the control


def test_without_persistence_nothing_changes() -> None:
    """A persistence of 0 is none."""
    for made in (finite(joint()), numeric()):
        name = "stress" if isinstance(made, op.LinearWorld) else "x"
        again = made.replace(persistence={name: 0.0})
        assert all(np.array_equal(a, b) for a, b in zip(walk(made, 50), walk(again, 50), strict=True))
        assert made.replace(persistence={name: 0.5}).replace(noise_sd=2.0).persistence == {name: 0.5}


def test_what_every_policy_meets_is_the_same() -> None:
    """Contexts depend on draws alone."""
    policies = [op.pace_ucb(10), op.Policy(revealer=op.Always()), op.Policy(revealer=op.Never())]
    data = op.simulate(finite(joint(), persistence={"stress": 0.8}, open_rate=0.1), policies, horizon=40, replicates=3,
                       seed=1, progress=False)  # fmt: skip
    assert (data["context"] == data["context"].isel(policy=0)).all()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"stres": 0.5}, "stres"),
        ({"stress": 1.0}, "persistence of 'stress' is 1"),
        ({"tod": 0.5}, "persistence has 'tod'; expected variables that are drawn"),
        (0.5, "persistence is 0.5"),
    ],
)
def test_what_cannot_persist_is_refused(given: Any, text: str) -> None:
    """A wrong name, a probability of 1 or a scheduled variable is refused."""
    with pytest.raises(InputError, match=text):
        finite(joint(), persistence=given)


def test_contexts_that_depend_on_the_time_cannot_persist() -> None:
    """What stays from the morning would not have the evening's probabilities."""
    probs = np.linspace(1.0, 2.0, 12)
    with pytest.raises(InputError, match="persistence is given where contexts depend on the schedule"):
        finite(probs / probs.sum(), persistence={"stress": 0.5})
