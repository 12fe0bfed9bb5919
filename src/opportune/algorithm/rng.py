"""Randomness as a pure function: `draw(seed, stream, step, purpose)`, and distributions based on it.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). It has no state: key and counter go in, 128 random bits come out. A draw therefore does not depend
on device, chunking, thread count or order, and anyone can recompute it from a log.
"""

import math

import numpy as np

from opportune.engine.compiled import dual_function

# The purposes of draws. Two purposes share one Philox block (its two 64-bit halves), neighbours by design:
# arrival and noise are needed at every step, the others rarely.
ARRIVAL = 0
NOISE = 1
COIN = 2
ANSWER = 3
OPEN = 4
ZERO = 5  # the zero-inflation of the brushing world
TREATMENT = 6  # actions that are drawn
PARAMETER = 8  # true effects of generated worlds
PROBABILITY = 9  # context probabilities of generated worlds
AVAILABLE = 10
LOST = 11  # whether a reward never arrives
DELAY = 12  # how late it arrives
SPELL = 16  # whether the participant goes away for some days
PERSON = 17  # at step 0: how a participant differs from others in answering
VARIABLE = 32  # and up: the variables of a context, contexts not finite
SAMPLE = 1024  # and up: a drawn parameter, one number per coordinate
STAY = 2**20  # and up: whether a variable of a context stays as it was

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_11 = np.uint64(11)
_UNIT = 2.0**-53


@dual_function
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Ten rounds of Philox 4x32: counter (c0..c3) and key (k0, k1), each a 32-bit word held in a uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0 = (p1 >> _32) ^ c1 ^ k0
        c1 = p1 & _LOW
        c2 = (p0 >> _32) ^ c3 ^ k1
        c3 = p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@dual_function
def draw_pair(seed, stream, step, purpose):  # type: ignore[no-untyped-def]
    """The two uniforms in [0, 1) of the block that holds `purpose`: the even purpose's, then the odd one's."""
    seed = np.uint64(seed)
    stream = np.uint64(stream)
    x0, x1, x2, x3 = philox(
        np.uint64(step) & _LOW,
        np.uint64(purpose) >> np.uint64(1),
        stream & _LOW,
        stream >> _32,
        seed & _LOW,
        seed >> _32,
    )
    return (((x1 << _32) | x0) >> _11) * _UNIT, (((x3 << _32) | x2) >> _11) * _UNIT


@dual_function
def draw(seed, stream, step, purpose):  # type: ignore[no-untyped-def]
    """One uniform in [0, 1), a pure function of (seed, stream, step, purpose)."""
    even, odd = draw_pair(seed, stream, step, purpose)
    return odd if purpose & 1 else even


@dual_function
def categorical(u, cumulative):  # type: ignore[no-untyped-def]
    """The first index whose cumulative probability exceeds u."""
    last = cumulative.shape[0] - 1
    for k in range(last):
        if u < cumulative[k]:
            return k
    return last


@dual_function
def normal(u):  # type: ignore[no-untyped-def]
    """The standard normal quantile of u in [0, 1), to about 1e-15 relative (Wichura 1988, AS 241, PPND16).

    u is a multiple of 2^-53; half a unit is added so that the argument is never 0. The distance to the nearer end is
    computed from u itself, exactly, since u plus half a unit may round up to 1.
    """
    q = (u - 0.5) + 0.5 * _UNIT
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = r * 2509.0809287301226727 + 33430.575583588128105
        num = num * r + 67265.770927008700853
        num = num * r + 45921.953931549871457
        num = num * r + 13731.693765509461125
        num = num * r + 1971.5909503065514427
        num = num * r + 133.14166789178437745
        num = num * r + 3.387132872796366608
        den = r * 5226.495278852545925 + 28729.085735721942674
        den = den * r + 39307.89580009271061
        den = den * r + 21213.794301586595867
        den = den * r + 5394.1960214247511077
        den = den * r + 687.1870074920579083
        den = den * r + 42.313330701600911252
        den = den * r + 1.0
        return q * num / den
    r = math.sqrt(-math.log(u + 0.5 * _UNIT if q < 0 else (1.0 - u) - 0.5 * _UNIT))
    if r <= 5.0:
        r -= 1.6
        num = r * 7.7454501427834140764e-4 + 0.0227238449892691845833
        num = num * r + 0.24178072517745061177
        num = num * r + 1.27045825245236838258
        num = num * r + 3.64784832476320460504
        num = num * r + 5.7694972214606914055
        num = num * r + 4.6303378461565452959
        num = num * r + 1.42343711074968357734
        den = r * 1.05075007164441684324e-9 + 5.475938084995344946e-4
        den = den * r + 0.0151986665636164571966
        den = den * r + 0.14810397642748007459
        den = den * r + 0.68976733498510000455
        den = den * r + 1.6763848301838038494
        den = den * r + 2.05319162663775882187
        den = den * r + 1.0
    else:
        r -= 5.0
        num = r * 2.01033439929228813265e-7 + 2.71155556874348757815e-5
        num = num * r + 0.0012426609473880784386
        num = num * r + 0.026532189526576123093
        num = num * r + 0.29656057182850489123
        num = num * r + 1.7848265399172913358
        num = num * r + 5.4637849111641143699
        num = num * r + 6.6579046435011037772
        den = r * 2.04426310338993978564e-15 + 1.4215117583164458887e-7
        den = den * r + 1.8463183175100546818e-5
        den = den * r + 7.868691311456132591e-4
        den = den * r + 0.0148753612908506148525
        den = den * r + 0.13692988092273580531
        den = den * r + 0.59983220655588793769
        den = den * r + 1.0
    return -num / den if q < 0 else num / den


@dual_function
def poisson(u, rate, most):  # type: ignore[no-untyped-def]
    """The Poisson quantile of u in [0, 1): the least y with P(Y <= y) > u, at most `most`.

    The search starts where the mass below is negligible (less than 1e-30) and walks up.
    """
    if rate <= 0.0:
        return 0
    y = max(0, int(rate - 12.0 * math.sqrt(rate) - 12.0))
    if y >= most:
        return most
    mass = math.exp(y * math.log(rate) - rate - math.lgamma(y + 1.0))
    below = mass
    last = min(most, int(rate + 12.0 * math.sqrt(rate) + 40.0))
    while below <= u and y < last:
        y += 1
        mass *= rate / y
        below += mass
    return y
