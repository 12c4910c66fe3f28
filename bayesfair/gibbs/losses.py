"""Clustering losses as kernels read them: a number says which one, and small functions do the rest.

Bregman losses pay sum_i w_i d(x_i, mean_k) for the weighted mean of a cluster (Banerjee et al. 2005). Losses of pairs pay
sum_ij w_i w_j D(x_i, x_j) / (2 W_k) (Rigon, Herring and Dunson 2023). A loss of the user's own is a function that Numba has
compiled to a first-class one, so that every kernel is compiled once for all losses.
"""

from math import exp, inf, lgamma, log, pi, sqrt
from typing import NamedTuple

from bayesfair._compiled import kernel
from bayesfair.gibbs.chance import beta, log_gamma, normal
from bayesfair.gibbs.own_functions import packed, unpacked

KMEANS, KL, ITAKURA_SAITO, BINARY, OWN_DIVERGENCE, MINKOWSKI, OWN_PAIR = range(7)
NEAR = 1e-2  # |x / y - 1| below which divergences are series, as the closed forms cancel
SERIES_FROM = 4.0  # above, remainders of log Gamma are series, to 1e-10; below, closed forms
HALF_LOG_2PI = 0.5 * log(2.0 * pi)
TINY = 1e-300  # least positive centre
EDGE = 1e-16  # least distance of a centre from 1


class LossCode(NamedTuple):
    """A loss for kernels: its number, the power of a norm, and a compiled function of two rows (a stand-in if unused)."""

    kind: int
    power: float
    own: object

    def __reduce__(self):
        return remade, (self.kind, self.power, packed(self.own))


def remade(kind, power, own: bytes) -> LossCode:
    """A loss that was pickled."""
    return LossCode(kind, power, unpacked(own))


@kernel
def is_own(loss):
    """Whether it is a function of the user's own, whose values nobody has checked."""
    return loss.kind == OWN_DIVERGENCE or loss.kind == OWN_PAIR


@kernel
def has_centers(loss):
    """Whether clusters have centres: the Bregman family."""
    return loss.kind <= OWN_DIVERGENCE


@kernel
def has_conjugate_centers(loss):
    """Whether the law of a centre given its cluster is known."""
    return loss.kind <= BINARY


@kernel
def kl(x, y):
    """x log(x / y) - x + y, without cancellation near y; infinite for x > 0 = y."""
    if y <= 0.0:
        return 0.0 if x <= 0.0 else inf
    r = x / y - 1.0
    if abs(r) < NEAR:
        return y * r * r * (1.0 / 2.0 - r / 6.0 + r * r / 12.0 - r * r * r / 20.0 + r**4 / 30.0 - r**5 / 42.0)
    return y if x <= 0.0 else x * log(x / y) - x + y


@kernel
def itakura_saito(x, y):
    """x / y - log(x / y) - 1, without cancellation near y."""
    if y <= 0.0:
        return 0.0 if x <= 0.0 else inf
    r = x / y - 1.0
    if abs(r) < NEAR:
        return r * r * (1.0 / 2.0 - r / 3.0 + r * r / 4.0 - r * r * r / 5.0 + r**4 / 6.0 - r**5 / 7.0)
    return inf if x <= 0.0 else r - log(x / y)


@kernel
def divergence(loss, x, m):
    """d(x, m) of a Bregman loss, for two float64 rows."""
    total = 0.0
    if loss.kind == KMEANS:
        for e in range(len(x)):
            total += (x[e] - m[e]) ** 2
    elif loss.kind == KL:
        for e in range(len(x)):
            total += kl(x[e], m[e])
    elif loss.kind == ITAKURA_SAITO:
        for e in range(len(x)):
            total += itakura_saito(x[e], m[e])
    elif loss.kind == BINARY:
        for e in range(len(x)):
            total += kl(x[e], m[e]) + kl(1.0 - x[e], 1.0 - m[e])
    else:
        total = loss.own(x, m)
    return total


@kernel
def pair(loss, x, y):
    """D(x, y) of a loss of pairs: a norm (not its power), or a function of the user's own."""
    if loss.kind == OWN_PAIR:
        return loss.own(x, y)
    if loss.power == 1.0:
        total = 0.0
        for e in range(len(x)):
            total += abs(x[e] - y[e])
        return total
    largest = 0.0
    for e in range(len(x)):
        largest = max(largest, abs(x[e] - y[e]))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for e in range(len(x)):
        total += (abs(x[e] - y[e]) / largest) ** loss.power
    return largest * total ** (1.0 / loss.power)


@kernel
def of_rows(own, x, y, paid):
    """A function of the user's own of every row of x (n, d) and the same row of y."""
    for i in range(len(x)):
        paid[i] = own(x[i], y[i])


@kernel
def to_center(loss, x, center):
    """What a member of a fairlet pays for the fairlet's mean."""
    return divergence(loss, x, center) if has_centers(loss) else pair(loss, x, center)


@kernel
def between(loss, x, y, middle):
    """D(x, y) between a member and an anchor: twice the Jensen gap, |x - y|^2 for k-means. `middle` is scratch space."""
    if not has_centers(loss):
        return pair(loss, x, y)
    if loss.kind == KMEANS:
        return divergence(loss, x, y)
    for e in range(len(x)):
        middle[e] = 0.5 * (x[e] + y[e])
    return 2.0 * (divergence(loss, x, middle) + divergence(loss, y, middle))


@kernel
def joining(loss, x, w, total, mass, old, new):
    """Cost of a unit (x, w) that joins a cluster with sum `total` and weight `mass`: w d(x, new mean) + W d(mean, new mean).

    `old` and `new` are scratch space; they hold the two means afterwards.
    """
    if mass <= 0.0:
        return 0.0
    cost = 0.0
    if loss.kind == KMEANS:
        for e in range(len(x)):
            cost += (x[e] - total[e] / mass) ** 2
        return cost * w * mass / (mass + w)
    for e in range(len(x)):
        old[e] = total[e] / mass
        new[e] = (total[e] + w * x[e]) / (mass + w)
    return w * divergence(loss, x, new) + mass * divergence(loss, old, new)


@kernel
def leaving(loss, x, w, total, mass, old, new):
    """What a cluster saves when its unit (x, w) leaves: the cost of joining the rest."""
    rest = mass - w
    if rest <= 0.0:
        return 0.0
    cost = 0.0
    if loss.kind == KMEANS:
        for e in range(len(x)):
            cost += (x[e] - total[e] / mass) ** 2
        return cost * w * mass / rest
    for e in range(len(x)):
        old[e] = (total[e] - w * x[e]) / rest
        new[e] = total[e] / mass
    return w * divergence(loss, x, new) + rest * divergence(loss, old, new)


@kernel
def stirling(s):
    """R(s) = log Gamma(s) - (s - 1/2) log s + s - log(2 pi) / 2, which falls to 0 as 1 / (12 s)."""
    if s < SERIES_FROM:
        return lgamma(s) - (s - 0.5) * log(s) + s - HALF_LOG_2PI
    u = 1.0 / (s * s)
    return (1 / 12 + u * (-1 / 360 + u * (1 / 1260 + u * (-1 / 1680 + u * (1 / 1188 - u * 691 / 360360))))) / s


@kernel
def half_step(s):
    """Q(s) = log Gamma(s + 1/2) - s log s + s - log(2 pi) / 2, which rises from -log(2) / 2 to 0 as -1 / (24 s)."""
    if s < SERIES_FROM:
        return lgamma(s + 0.5) - (s * log(s) if s > 0.0 else 0.0) + s - HALF_LOG_2PI
    u = 1.0 / (s * s)
    a, b, c = -1 / 24, 7 / 2880, -31 / 40320
    return (a + u * (b + u * (c + u * (127 / 215040 + u * (-511 / 608256 + u * 691 * 2047 / 360360 / 2048))))) / s


@kernel
def log_normalizer(loss, rate, mass, total):
    """log g: the integral of exp(-rate d(mean, m)) mu(dm), rate = lambda W, for the measure mu of each loss.

    Squared distances: normal centres, mu = dm. Kullback-Leibler: gamma centres, mu = m^(-1/2) dm. Itakura-Saito: inverse
    gamma, mu = dm / m. Binary: beta, mu = (m (1 - m))^(-1/2) dm. The integral of prod_i exp(-lambda w_i d(x_i, m)) mu(dm) is
    then g exp(-lambda L).
    """
    d = len(total)
    if loss.kind == KMEANS:
        return 0.5 * d * log(pi / rate)
    value = 0.5 * d * log(2.0 * pi / rate)
    scale = rate / mass  # lambda
    if loss.kind == ITAKURA_SAITO:
        return value + d * stirling(rate)
    for e in range(d):
        value += half_step(scale * total[e])
        if loss.kind == BINARY:
            value += half_step(scale * max(mass - total[e], 0.0)) - stirling(rate)
    return value


@kernel
def draw_center(s, loss, rate, mass, total, center):
    """Draw a centre from exp(-rate d(mean, m)) mu(dm), rate = lambda W, into `center`."""
    for e in range(len(total)):
        mean = total[e] / mass
        if loss.kind == KMEANS:
            center[e] = mean + normal(s) / sqrt(2.0 * rate)
        elif loss.kind == KL:
            center[e] = max(exp(log_gamma(s, rate * max(mean, 0.0) + 0.5) - log(rate)), TINY)
        elif loss.kind == ITAKURA_SAITO:
            center[e] = max(mean * exp(log(rate) - log_gamma(s, rate)), TINY)
        else:
            mean = min(max(mean, 0.0), 1.0)
            center[e] = min(max(beta(s, rate * mean + 0.5, rate * (1.0 - mean) + 0.5), EDGE), 1.0 - EDGE)
