"""Bare addresses and vectors in compiled code do what plain arrays and numbers do."""

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from opportune.engine import simd
from opportune.engine.pointers import WIDTH, aligned, flat
from opportune.engine.simd import divide, fma, larger, largest, load, plus, root, spread, store, times


@njit
def combine(x, y, factor, out):  # type: ignore[no-untyped-def]
    """Out = factor x + y, a vector at a time."""
    for i in range(0, x.shape[0], WIDTH):
        store(flat(out), i, fma(spread(factor), load(flat(x), i), load(y, i)))


@njit
def calculate(x, y, out):  # type: ignore[no-untyped-def]
    """Each kind of arithmetic on one vector, and the largest number of x."""
    a, b = load(flat(x), 0), load(flat(y), 0)
    found = (divide(a, b), plus(a, b), times(a, b), root(a), larger(a, b))
    for i in range(5):
        store(flat(out), i * WIDTH, found[i])
    return largest(a)


@njit
def shift(x):  # type: ignore[no-untyped-def]
    """Change numbers through an address: one by one, and by a slice."""
    here = flat(x)
    here[0] = here[1] + 1.0
    part = here[2:6].reshape((2, 2))
    part[1, 1] = part[0, 0] * 10.0
    return part.sum()


def test_vectors_equal_numbers() -> None:
    """Every number is loaded, combined and stored, and nothing beside them."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 3 * WIDTH))
    out = np.full(4 * WIDTH, -1.0)
    combine(x, y, 2.5, out[WIDTH:])
    np.testing.assert_allclose(out[WIDTH:], 2.5 * x + y, rtol=1e-15, atol=1e-15)  # one rounding less
    np.testing.assert_array_equal(out[:WIDTH], -1.0)


@pytest.mark.parametrize("top", range(WIDTH))
def test_arithmetic_is_that_of_numbers(top: int) -> None:
    """To the last bit, also the root of what is less than 0; the largest number is found wherever it stands."""
    rng = np.random.default_rng(top)
    x, y = rng.normal(size=(2, WIDTH))
    x[top] = 10.0
    out = np.empty((5, WIDTH))
    assert calculate(x, y, out) == 10.0
    assert x.min() < 0.0
    expected = (x / y, x + y, x * y, np.sqrt(np.maximum(x, 0.0)), np.maximum(x, y))
    for found, numbers in zip(out, expected, strict=True):
        np.testing.assert_array_equal(found, numbers)
    one = (divide(x[0], y[0]), plus(x[0], y[0]), times(x[0], y[0]), root(x[0]), larger(x[0], y[0]))
    assert list(one) == [numbers[0] for numbers in expected]
    assert largest(-3.0) == -3.0


def test_uncompiled_they_mean_one_number() -> None:
    """What a GPU's thread and Numba's simulator do: one number at a time."""
    x = np.array([1.0, 2.0])
    simd.store(x, 1, simd.fma(simd.spread(3.0), simd.load(x, 0), simd.load(x, 1)))
    np.testing.assert_array_equal(x, [1.0, 5.0])


def test_an_address_reads_and_writes_the_array() -> None:
    """Numbers and slices of `flat(x)` are those of x."""
    x = np.arange(8.0)
    assert shift(x) == 2.0 + 3.0 + 4.0 + 20.0
    np.testing.assert_array_equal(x, [2.0, 1.0, 2.0, 3.0, 4.0, 20.0, 6.0, 7.0])


def test_only_contiguous_arrays_have_an_address() -> None:
    """Neighbours in memory must be neighbours in the array."""
    with pytest.raises(TypingError):
        shift(np.arange(16.0)[::2])


@pytest.mark.parametrize("shape", [(1,), (3, 16), (0,), (2, 0)])
def test_aligned_arrays_begin_at_a_vector(shape: tuple[int, ...]) -> None:
    """New arrays of zeros, each at a multiple of a vector's size in memory."""
    for _ in range(20):
        array = aligned(*shape)
        assert array.shape == shape
        assert array.ctypes.data % (8 * WIDTH) == 0 or array.size == 0
        assert not array.any()
