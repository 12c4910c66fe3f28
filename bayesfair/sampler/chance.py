"""All chance of the kernels: a xoshiro256++ generator of four words per chain, and the draws that are made from it.

Nothing else draws. The words are part of a chain's state, so a resumed run repeats a longer one bit for bit. Tests replace
these functions by scripted ones and so read a kernel's exact transition matrix off the kernel itself.
"""

from math import cos, exp, log, pi, sqrt

import numpy as np

from bayesfair.sampler.compiled import kernel

DOUBLES = 1.0 / 9007199254740992.0  # 2^-53


def seeded(seed: int, *spawn_key: int) -> np.ndarray:
    """The four words of a generator of its own for every `spawn_key`."""
    return np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(4, np.uint64)


@kernel
def uniform(s):
    """A number in (0, 1), never 0 or 1."""
    a = s[0] + s[3]
    r = ((a << np.uint64(23)) | (a >> np.uint64(41))) + s[0]
    t = s[1] << np.uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = (s[3] << np.uint64(45)) | (s[3] >> np.uint64(19))
    return (float(r >> np.uint64(11)) + 0.5) * DOUBLES


@kernel
def integer(s, n):
    """A whole number in [0, n)."""
    return min(int(uniform(s) * n), n - 1)


@kernel
def bernoulli(s, p):
    """True with probability p."""
    return uniform(s) < p


@kernel
def accept(s, log_ratio):
    """The Metropolis rule: True with probability min(1, exp(log_ratio)); NaN is refused."""
    return log_ratio >= 0.0 or bernoulli(s, exp(log_ratio))


@kernel
def category(s, weight, n):
    """A whole number k in [0, n) with probability in proportion to weight[k] >= 0."""
    total = 0.0
    for k in range(n):
        total += weight[k]
    u = uniform(s) * total
    last = 0
    for k in range(n):
        if weight[k] > 0.0:
            last = k
            u -= weight[k]
            if u <= 0.0:
                return k
    return last


@kernel
def normal(s):
    """A standard normal number, by Box and Muller (1958)."""
    return sqrt(-2.0 * log(uniform(s))) * cos(2.0 * pi * uniform(s))


@kernel
def log_gamma(s, shape):
    """The log of a Gamma(shape, 1) number, by Marsaglia and Tsang (2000); small shapes do not underflow."""
    boost = 0.0
    if shape < 1.0:
        boost = log(uniform(s)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        x = normal(s)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and log(uniform(s)) < 0.5 * x * x + d - d * v + d * log(v):
            return log(d * v) + boost


@kernel
def gamma(s, shape):
    """A Gamma(shape, 1) number."""
    return exp(log_gamma(s, shape))


@kernel
def beta(s, a, b):
    """A Beta(a, b) number."""
    difference = log_gamma(s, b) - log_gamma(s, a)
    if difference > 700.0:
        return 0.0
    return 1.0 / (1.0 + exp(difference))


@kernel
def shuffle(s, values, first, last):
    """Put values[first:last] into random order, in place."""
    for i in range(last - 1, first, -1):
        j = first + integer(s, i - first + 1)
        values[i], values[j] = values[j], values[i]
