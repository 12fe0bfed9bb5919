"""Draws: the generator against published vectors, the distributions against scipy."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from opportune.algorithm.rng import (
    ARRIVAL,
    COIN,
    NOISE,
    OPEN,
    categorical,
    draw,
    draw_pair,
    normal,
    philox,
    poisson,
)

UNIT = 2.0**-53
MOST = 10**9

# counter, key, output: Random123's file of known answers (kat_vectors), philox4x32 with 10 rounds
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def words(values: Sequence[int]) -> list[np.uint64]:
    """32-bit words as the generator takes them."""
    return [np.uint64(value) for value in values]


def plain_philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10 in Python's own whole numbers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 % 2**32, (p0 >> 32) ^ c3 ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The multiples of 2^-53 below these values: what a draw can be."""
    return np.asarray(np.floor(np.asarray(values) * 2.0**53) * UNIT)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    """Philox 4x32-10 returns the known answers published with it."""
    assert tuple(int(x) for x in philox(*words(counter), *words(key))) == answer
    assert plain_philox(counter, key) == answer


def test_philox_keeps_to_32_bits() -> None:
    """On any counter and key the four words are those of a plain reading, each below 2^32."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        block = [int(x) for x in rng.integers(0, 2**32, size=6)]
        got = tuple(int(x) for x in philox(*words(block)))
        assert got == plain_philox(block[:4], block[4:])


def test_a_draw_is_the_philox_block_of_its_arguments() -> None:
    """Step, purpose, stream and seed fill counter and key as documented; 53 of 64 bits become the number."""
    seed, stream, step = 0x0123456789ABCDEF, 0xFEDCBA9876543210, 41
    for purpose in range(10):
        counter = (step, purpose >> 1, stream & 0xFFFFFFFF, stream >> 32)
        x0, x1, x2, x3 = plain_philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
        high, low = (x3, x2) if purpose & 1 else (x1, x0)
        got = draw(np.uint64(seed), np.uint64(stream), step, purpose)
        assert got == ((high << 32 | low) >> 11) * UNIT


def test_two_purposes_share_a_block() -> None:
    """A pair is the even purpose's draw and the odd one's."""
    assert draw_pair(3, 5, 7, ARRIVAL) == (draw(3, 5, 7, ARRIVAL), draw(3, 5, 7, NOISE))
    assert draw_pair(3, 5, 7, ARRIVAL) == draw_pair(3, 5, 7, NOISE)


def test_a_draw_is_a_pure_function() -> None:
    """The same arguments give the same number, as plain whole numbers or as unsigned ones."""
    first = draw(1, 2, 3, COIN)
    assert draw(1, 2, 3, COIN) == first
    assert draw(np.uint64(1), np.uint64(2), np.int64(3), COIN) == first


def test_every_argument_matters() -> None:
    """Changing seed, stream, step or purpose changes the number, also in their high bits."""
    calls = [(1, 1, 1, COIN)]
    calls += [(seed, 1, 1, COIN) for seed in (0, 2, 2**32 + 1, 2**63 + 1)]
    calls += [(1, stream, 1, COIN) for stream in (0, 2, 2**32 + 1, 2**63 + 1)]
    calls += [(1, 1, step, COIN) for step in (0, 2, 2**31 + 1)]
    calls += [(1, 1, 1, purpose) for purpose in range(10) if purpose != COIN]
    numbers = {draw(np.uint64(a), np.uint64(b), c, d) for a, b, c, d in calls}
    assert len(numbers) == len(calls)


@pytest.mark.parametrize("purpose", [ARRIVAL, NOISE, COIN, OPEN])
def test_draws_are_uniform(purpose: int) -> None:
    """Along steps and along streams, draws lie in [0, 1), are uniform and uncorrelated."""
    along_steps = np.array([draw(11, 4, step, purpose) for step in range(20_000)])
    along_streams = np.array([draw(11, stream, 4, purpose) for stream in range(20_000)])
    for u in (along_steps, along_streams):
        assert u.min() >= 0.0
        assert u.max() < 1.0
        assert stats.kstest(u, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 4 / np.sqrt(u.size)


def test_normal_is_the_quantile_function() -> None:
    """`normal` agrees with scipy's quantile function to 1e-14 relative, from one end of [0, 1) to the other.

    At a draw u it is asked for the quantile of u plus half a unit.
    """
    rng = np.random.default_rng(2)
    u = np.concatenate(
        [
            rng.random(20_000),
            rng.random(5_000) * 1e-9,
            np.arange(300) * UNIT,  # the lowest draws there are
            2.0 ** -np.arange(2.0, 53.0),
            0.075 + np.linspace(-1e-6, 1e-6, 401),  # where the approximation changes, |q| = 0.425
            np.exp(-25.0) * np.linspace(0.5, 1.5, 401),  # and again, r = 5
        ]
    )
    u = grid(u[(u < 0.499) | (u > 0.501)])
    lower = np.where(u < 0.5, u, 1.0 - UNIT - u)  # the draw that mirrors it
    expected = special.ndtri(lower + UNIT / 2) * np.where(u < 0.5, 1.0, -1.0)
    got = np.array([normal(x) for x in u])
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_normal_near_the_middle() -> None:
    """Near one half, where the quantile passes through zero, `normal` is right to 1e-15 of a unit."""
    u = grid(np.linspace(0.499, 0.501, 2001))
    got = np.array([normal(x) for x in u])
    np.testing.assert_allclose(got, special.ndtri(u), rtol=1e-13, atol=4e-16)


def test_normal_is_finite_and_symmetric_at_both_ends() -> None:
    """The lowest and the highest draw give finite numbers, each the other's negative."""
    for i in (0, 1, 2, 3, 1000, 2**40):
        low, high = normal(i * UNIT), normal(1.0 - (i + 1) * UNIT)
        assert np.isfinite(low)
        assert low < 0.0
        assert high == -low
    assert normal(0.0) == pytest.approx(-8.2923610758136, rel=1e-13)


def test_normal_draws_are_normal() -> None:
    """Normal numbers made from draws pass a Kolmogorov-Smirnov test."""
    z = np.array([normal(draw(12, 0, step, NOISE)) for step in range(20_000)])
    assert stats.kstest(z, "norm").pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0, 3.3, 10.0, 40.0, 123.4, 400.0, 1000.0])
def test_poisson_is_the_quantile_function(rate: float) -> None:
    """`poisson` equals scipy's quantile function wherever u is not within 1e-12 of a jump."""
    rng = np.random.default_rng(3)
    u = np.concatenate([grid(rng.random(500)), grid(rng.random(200) * 1e-6), 1.0 - grid(rng.random(200) * 1e-6)])
    u = u[(u > 0.0) & (u < 1.0)]
    got = np.array([poisson(x, rate, MOST) for x in u])
    clear = (np.abs(stats.poisson.cdf(got, rate) - u) > 1e-12) & (np.abs(stats.poisson.cdf(got - 1, rate) - u) > 1e-12)
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(got[clear], stats.poisson.ppf(u[clear], rate))


@pytest.mark.parametrize("rate", [0.01, 1.0, 10.0, 1000.0])
def test_poisson_at_the_ends(rate: float) -> None:
    """The lowest and the highest draws give numbers that hold all but 1e-11 of the mass between them."""
    for u in (0.0, UNIT, 1e-12, 1.0 - 1e-12, 1.0 - UNIT):
        y = poisson(u, rate, MOST)
        assert stats.poisson.cdf(y - 1, rate) - 1e-11 <= u
        assert stats.poisson.cdf(y, rate) >= u - 1e-11
    assert poisson(0.0, rate, MOST) < rate + 1.0
    assert poisson(0.5, 0.0, MOST) == 0


@pytest.mark.parametrize("rate", [0.5, 150.0, 400.0, 900.0])
def test_poisson_stops_where_it_is_told_to(rate: float) -> None:
    """With a highest number the quantile is that number or itself, whichever is less."""
    for u in grid(np.random.default_rng(4).random(200)):
        for most in (0, 1, 140, 180):
            assert poisson(u, rate, most) == min(poisson(u, rate, MOST), most)


def test_poisson_draws_are_poisson() -> None:
    """Counts made from draws have the Poisson distribution, by a chi-squared test."""
    counts = np.bincount([poisson(draw(13, 0, step, NOISE), 2.5, MOST) for step in range(20_000)], minlength=10)
    observed = np.append(counts[:8], counts[8:].sum())
    expected = 20_000 * np.append(stats.poisson.pmf(np.arange(8), 2.5), stats.poisson.sf(7, 2.5))
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_categorical_is_the_first_cumulative_above() -> None:
    """A category is the first whose cumulative probability exceeds u; none with probability zero is met."""
    cumulative = np.cumsum([0.0, 0.25, 0.0, 0.5, 0.25])
    expected = {0.0: 1, 0.25 - UNIT: 1, 0.25: 3, 0.75 - UNIT: 3, 0.75: 4, 1.0 - UNIT: 4}
    assert {u: categorical(u, cumulative) for u in expected} == expected


def test_categorical_survives_rounding() -> None:
    """Where rounding leaves the last cumulative probability below 1, a draw above it is the last category."""
    cumulative = np.array([0.3, 0.6, 1.0 - 1e-12])
    assert categorical(1.0 - UNIT, cumulative) == 2


def test_categorical_frequencies() -> None:
    """Categories made from draws come as often as their probabilities say, by a chi-squared test."""
    p = np.array([0.1, 0.2, 0.3, 0.4])
    seen = np.bincount([categorical(draw(14, 0, t, ARRIVAL), np.cumsum(p)) for t in range(20_000)], minlength=4)
    assert stats.chisquare(seen, 20_000 * p).pvalue > 1e-3
