"""Draws of the sampler's kernels, on the four words of a chain's generator (`bayesfair._chance`); nothing else draws.

The words are part of a chain's state, so a resumed run repeats a longer one bit for bit.
"""

from math import cos, exp, log, pi, sqrt

from bayesfair._chance import bernoulli, category, integer, seeded, uniform
from bayesfair._compiled import kernel

__all__ = [
    "accept",
    "bernoulli",
    "beta",
    "category",
    "gamma",
    "integer",
    "log_gamma",
    "normal",
    "seeded",
    "shuffle",
    "uniform",
]


@kernel
def accept(s, log_ratio):
    """The Metropolis rule: True with probability min(1, exp(log_ratio)); NaN is refused."""
    return log_ratio >= 0.0 or bernoulli(s, exp(log_ratio))


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
