"""Programs of features, compiled: the same numbers as in NumPy, from arrays and addresses, also without a compiler."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from opportune.algorithm import features as op
from opportune.algorithm.features import write_features
from opportune.engine.pointers import flat
from opportune.problems.formula import program
from opportune.problems.program import Column, Program, assemble
from opportune.problems.variables import Number, Variable

Floats = NDArray[np.float64]

VARIABLES: dict[str, Variable] = {
    "steps": Number(0, 20_000),
    "temp": Number(-10, 40),
    "mood": ("low", "fair", "high"),
    "stress": (5, 1, 3),
}
FORMULA = (
    "1 + action * mood * stress + log1p(steps):action + I((temp - 15)**2 / 100) + sqrt(steps) + abs(temp):mood"
    " + exp(-temp / 20):C(stress) + I(1 / (1 + steps) - (temp + 2.5**0.5)**3) + I((steps + 1)**-0.5)"
    " + I((steps + 1)**-2) + log(steps + 1 * (5 - (3 - temp / 41)))"
)


def compiled(made: Program, values: Floats) -> Floats:
    """The features at one point by the compiled program."""
    x = np.full((made.actions, made.d), np.nan)
    write_features(
        made.code, made.atom_end, made.factors, made.shared, made.atoms, made.width, made.d, made.actions,
        values.copy(), made.action_variable, np.full(made.room, np.nan), x.ravel(),
    )  # fmt: skip
    return x


@njit
def from_addresses(code, atom_end, factors, shared, atoms, width, d, actions, values, action_variable, room, x):  # type: ignore[no-untyped-def]
    """The same, called as the step functions are: with bare addresses."""
    write_features(
        flat(code), flat(atom_end), flat(factors), shared, atoms, width, d, actions,
        flat(values), action_variable, flat(room), flat(x),
    )  # fmt: skip


MADE = program(FORMULA, VARIABLES, ("no", "yes", "call"))


@settings(deadline=None)  # the first call compiles
@given(steps=st.floats(0, 20_000), temp=st.floats(-10, 40), mood=st.integers(0, 2), stress=st.integers(0, 2))
def test_compiled_program_gives_the_features(steps: float, temp: float, mood: int, stress: int) -> None:
    """Everywhere between the bounds compiled code computes what NumPy does."""
    values = np.array([steps, temp, mood, stress, 0.0])
    np.testing.assert_allclose(compiled(MADE, values), MADE.features(values), rtol=1e-13, atol=1e-13)


def test_arrays_and_addresses_alike() -> None:
    """Handed bare addresses the program writes the same bits, and nothing beyond its room."""
    values = np.array([1234.5, 21.0, 1.0, 2.0, 0.0])
    x, room = np.full(MADE.actions * MADE.d + 1, 7.0), np.full(MADE.room + 1, 7.0)
    from_addresses(
        MADE.code, MADE.atom_end, MADE.factors, MADE.shared, MADE.atoms, MADE.width, MADE.d, MADE.actions,
        values, MADE.action_variable, room, x,
    )  # fmt: skip
    np.testing.assert_array_equal(x[:-1], compiled(MADE, values).ravel())
    assert (x[-1], room[-1]) == (7.0, 7.0)


WITHOUT_COMPILER = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np
from test_features import MADE, compiled
print(compiled(MADE, np.array([1234.5, 21.0, 1.0, 2.0, 0.0])).ravel().tolist())
"""


def test_without_a_compiler() -> None:
    """Run as plain Python, as in Numba's CUDA simulator, the program computes the same."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    expected = compiled(MADE, np.array([1234.5, 21.0, 1.0, 2.0, 0.0]))
    np.testing.assert_allclose(np.array(eval(done.stdout)), expected.ravel(), rtol=1e-14)


@pytest.mark.parametrize(
    ("operations", "value", "expected"),
    [
        ([(op.VALUE, 0), (op.NUMBER, 0.0), (op.DIVIDE, 0)], 3.0, np.inf),
        ([(op.VALUE, 0), (op.POWER, -2.0)], 0.0, np.inf),
        ([(op.VALUE, 0), (op.POWER, 0.0)], 3.0, 1.0),
        ([(op.VALUE, 0), (op.POWER, 8.0)], -2.0, 256.0),
        ([(op.VALUE, 0), (op.POWER, 1.5)], 4.0, 8.0),
        ([(op.VALUE, 0), (op.EQUALS, 3.0)], 3.0, 1.0),
        ([(op.VALUE, 0), (op.EQUALS, 3.0)], 2.0, 0.0),
        ([(op.NUMBER, 2.0), (op.VALUE, 0), (op.SUBTRACT, 0)], 3.0, -1.0),
        ([(op.VALUE, 0), (op.TABLE, 0)], 1.0, 20.0),
        ([(op.VALUE, 1)], 0.0, 1.0),
    ],
)
def test_single_operations(operations: Any, value: float, expected: float) -> None:
    """Each operation does what it says; a division by 0 is infinite and raises nothing."""
    column = Column("it", (tuple((int(code), float(argument)) for code, argument in operations),))
    made = assemble([column], variables=1, actions=2, tables={0: np.array([10.0, 20.0])})
    assert compiled(made, np.array([value, 0.0]))[1, 0] == expected


def test_no_atoms_are_an_intercept() -> None:
    """A feature without atoms is 1, and one without action the same for all actions."""
    made = assemble([Column("intercept", ())], variables=1, actions=3, tables={})
    np.testing.assert_array_equal(compiled(made, np.zeros(2)), np.ones((3, 1)))
    assert (made.atoms, made.shared, made.room) == (0, 0, 0)
