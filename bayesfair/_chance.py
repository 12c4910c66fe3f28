"""All chance of compiled loops: four functions on the four words of a xoshiro256++ generator.

Kernels draw by these alone, so that tests can put scripted chance in their place (tests/scripted.py).
"""

import numpy as np
from numba import njit


def seeded(seed, *spawn_key):
    """The four words (uint64) of the generator with this seed (int or None), and these numbers of the stream."""
    return np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(4, np.uint64)


@njit(cache=True, _nrt=False)
def uniform(s):
    """A number in (0, 1); neither end is possible. Blackman and Vigna (2021), xoshiro256++; 52 bits are used."""
    total = s[0] + s[3]
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s[0]
    shifted = s[1] << np.uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= shifted
    s[3] = (s[3] << np.uint64(45)) | (s[3] >> np.uint64(19))
    return (float(word >> np.uint64(12)) + 0.5) / 4503599627370496.0


@njit(cache=True, _nrt=False)
def integer(s, n):
    """A whole number from 0 to n - 1."""
    return int(uniform(s) * n)


@njit(cache=True, _nrt=False)
def bernoulli(s, p):
    """True with probability p."""
    return uniform(s) < p


@njit(cache=True, _nrt=False)
def category(s, weight, n):
    """k below n with probability proportional to weight[k] >= 0, of which one at least is above 0."""
    total = 0.0
    for k in range(n):
        total += weight[k]
    left, last = uniform(s) * total, 0
    for k in range(n):
        if weight[k] > 0:
            last = k
            left -= weight[k]
            if left < 0:
                return k
    return last  # rounding
