"""Clustering losses as kernels read them: compiled functions of two rows, and what follows from them.

Bregman losses pay sum_i w_i d(x_i, mean_k) for the weighted mean of a cluster (Banerjee et al. 2005). Losses of pairs pay
sum_ij w_i w_j D(x_i, x_j) / (2 W_k) (Rigon, Herring and Dunson 2023). Kernels call a loss through pointers, so that they are
small, and are compiled once for all losses, those of the user's own too; squared distances are also written out where it pays.
"""

from functools import cache
from math import exp, inf, lgamma, log, pi, sqrt
from typing import NamedTuple

from numba import cfunc, types

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.addresses import address_of, at, in_kernels
from bayesfair.gibbs.chance import beta, log_gamma, normal
from bayesfair.gibbs.own_functions import packed, unpacked

KMEANS, KL, ITAKURA_SAITO, BINARY, OWN_DIVERGENCE, MINKOWSKI, OWN_PAIR = range(7)
PAIRS = MINKOWSKI  # the first loss of pairs: those before have centres
NEAR = 1e-2  # |x / y - 1| below which divergences are series, as the closed forms cancel
SERIES_FROM = 4.0  # above, remainders of log Gamma are series, to 1e-10; below, closed forms
HALF_LOG_2PI = 0.5 * log(2.0 * pi)
TINY = 1e-300  # least positive centre
EDGE = 1e-16  # least distance of a centre from 1

NUMBER, ROW = types.float64, types.float64[::1]
PAID = NUMBER(ROW, ROW)
NORMALIZER = NUMBER(NUMBER, NUMBER, ROW)
DRAWN = NUMBER(types.uint64[::1], NUMBER, NUMBER, ROW, ROW)


def paid_at(address, x, y):
    """d(x, mean) or D(x, y) of two rows."""
    return at(address)(x, y)


def log_g_at(address, rate, mass, total):
    """log g of a centre, see `kmeans_log_g`."""
    return at(address)(rate, mass, total)


def center_at(address, s, rate, mass, total, center):
    """Draw a centre into `center`, see `kmeans_center`."""
    return at(address)(s, rate, mass, total, center)


for call, form in ((paid_at, PAID), (log_g_at, NORMALIZER), (center_at, DRAWN)):
    in_kernels(form, call)


class LossCode(NamedTuple):
    """A loss for kernels: which one it is, the power of a norm, and the addresses of its functions.

    paid(x, y): d(x, mean) or D(x, y) of two float64 rows. log_g(rate, mass, total) and draw_center(s, rate, mass, total,
    center): see `kmeans_log_g`; without conjugate centres they are stand-ins.
    """

    kind: int
    power: float
    paid: int
    log_g: int
    draw_center: int

    def __reduce__(self):
        if self.kind in (OWN_DIVERGENCE, OWN_PAIR):
            return remade, (self.kind, packed(self.paid))
        return loss_code, (list(CONJUGATE)[self.kind] if self.kind <= BINARY else "", self.power)


def remade(kind: int, own: bytes) -> LossCode:
    """A loss of the user's own that was pickled."""
    return without_centers_law(kind, unpacked(own))


@inner
def is_own(loss):
    """Whether it is a function of the user's own, whose values nobody has checked."""
    return loss.kind == OWN_DIVERGENCE or loss.kind == OWN_PAIR


def loss_code(name: str, power: float = 1.0) -> LossCode:
    """The loss of the package with this name; a norm's power is read if there is no such name."""
    if name in CONJUGATE:
        functions = (kept(function, form) for function, form in zip(CONJUGATE[name], (PAID, NORMALIZER, DRAWN)))
        return LossCode(list(CONJUGATE).index(name), 1.0, *functions)
    return without_centers_law(MINKOWSKI, kept(manhattan if power == 1.0 else minkowski(power), PAID), power)


def without_centers_law(kind: int, paid, power: float = 1.0) -> LossCode:
    """A loss whose centres have no known law, or that has none."""
    return LossCode(kind, power, paid, kept(no_log_g, NORMALIZER), kept(no_center, DRAWN))


@cache
def kept(function, form):
    """The address of a function of the package, compiled once per installation."""
    return address_of(cfunc(form, cache=True, error_model="numpy", _nrt=False)(function))


# What a row pays


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


def squared_distance(x, m):
    """|x - m|^2."""
    total = 0.0
    for e in range(len(x)):
        total += (x[e] - m[e]) ** 2
    return total


def kl_divergence(x, m):
    """Kullback-Leibler, of the Poisson law."""
    total = 0.0
    for e in range(len(x)):
        total += kl(x[e], m[e])
    return total


def itakura_saito_divergence(x, m):
    """Itakura-Saito, of the gamma law."""
    total = 0.0
    for e in range(len(x)):
        total += itakura_saito(x[e], m[e])
    return total


def binary_divergence(x, m):
    """Logistic, of the Bernoulli law."""
    total = 0.0
    for e in range(len(x)):
        total += kl(x[e], m[e]) + kl(1.0 - x[e], 1.0 - m[e])
    return total


def manhattan(x, y):
    """The norm with power 1."""
    total = 0.0
    for e in range(len(x)):
        total += abs(x[e] - y[e])
    return total


@cache
def minkowski(power):
    """The norm (not its power), without overflow."""

    def distance(x, y):
        largest, total = 0.0, 0.0
        for e in range(len(x)):
            largest = max(largest, abs(x[e] - y[e]))
        if largest > 0.0:
            for e in range(len(x)):
                total += (abs(x[e] - y[e]) / largest) ** power
        return largest * total ** (1.0 / power)

    return distance


@kernel
def of_rows(own, x, y, paid):
    """A function of the user's own of every row of x (n, d) and the same row of y."""
    for i in range(len(x)):
        paid[i] = paid_at(own, x[i], y[i])


@inner
def between(loss, x, y, middle):
    """D(x, y) between a member and an anchor: twice the Jensen gap, |x - y|^2 for k-means. `middle` is scratch space."""
    if loss.kind == KMEANS or loss.kind >= PAIRS:
        return paid_at(loss.paid, x, y)
    for e in range(len(x)):
        middle[e] = 0.5 * (x[e] + y[e])
    return 2.0 * (paid_at(loss.paid, x, middle) + paid_at(loss.paid, y, middle))


@inner
def joining(loss, x, w, total, mass, old, new):
    """Cost of a unit (x, w) that joins a cluster with sum `total` and weight `mass`: w d(x, new mean) + W d(mean, new mean).

    A unit that leaves saves the cost of joining the rest. `old` and `new` are scratch space.
    """
    if mass <= 0.0:
        return 0.0
    for e in range(len(x)):
        old[e] = total[e] / mass
        new[e] = (total[e] + w * x[e]) / (mass + w)
    return w * paid_at(loss.paid, x, new) + mass * paid_at(loss.paid, old, new)


@inner
def leaving(loss, x, w, total, mass, old, new):
    """What a cluster saves when its unit (x, w) leaves: the cost of joining the rest."""
    rest = mass - w
    if rest <= 0.0:
        return 0.0
    for e in range(len(x)):
        old[e] = (total[e] - w * x[e]) / rest
        new[e] = total[e] / mass
    return w * paid_at(loss.paid, x, new) + rest * paid_at(loss.paid, old, new)


@inner
def visit_costs(loss, x, w, mass, total, reach, pairs, old, new, cost, i, a):
    """cost[k]: what its own cluster a saves without the unit i, (x, w), and what every other one pays with it."""
    for k in range(len(mass)):
        if len(reach) > 0:
            sign = -1.0 if k == a else 1.0
            then = (pairs[k] + sign * 2.0 * w * reach[i, k]) / (2.0 * (mass[k] + sign * w))
            cost[k] = sign * (then - pairs[k] / (2.0 * mass[k]))
        elif k == a:
            cost[k] = leaving(loss, x, w, total[k], mass[k], old, new)
        else:
            cost[k] = joining(loss, x, w, total[k], mass[k], old, new)


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


# The law of a centre: log_g is the log of the integral of exp(-rate d(mean, m)) mu(dm), rate = lambda W, for the measure mu of
# each loss, and draw_center draws from it. The integral of prod_i exp(-lambda w_i d(x_i, m)) mu(dm) is then g exp(-lambda L).


def kmeans_log_g(rate, mass, total):
    """Normal centres, mu = dm. rate: lambda W; mass: W; total: the weighted sum of the cluster."""
    return 0.5 * len(total) * log(pi / rate)


def kl_log_g(rate, mass, total):
    """Gamma centres, mu = m^(-1/2) dm."""
    value = 0.5 * len(total) * log(2.0 * pi / rate)
    for e in range(len(total)):
        value += half_step(rate / mass * total[e])
    return value


def itakura_saito_log_g(rate, mass, total):
    """Inverse gamma centres, mu = dm / m."""
    return len(total) * (0.5 * log(2.0 * pi / rate) + stirling(rate))


def binary_log_g(rate, mass, total):
    """Beta centres, mu = (m (1 - m))^(-1/2) dm."""
    value = 0.5 * len(total) * log(2.0 * pi / rate)
    for e in range(len(total)):
        value += half_step(rate / mass * total[e]) - stirling(rate)
        value += half_step(rate / mass * max(mass - total[e], 0.0))
    return value


def no_log_g(rate, mass, total):
    """A stand-in."""
    return 0.0


def kmeans_center(s, rate, mass, total, center):
    """Draw a centre from exp(-rate d(mean, m)) mu(dm) into `center`; the others likewise."""
    for e in range(len(total)):
        center[e] = total[e] / mass + normal(s) / sqrt(2.0 * rate)
    return 0.0


def kl_center(s, rate, mass, total, center):
    for e in range(len(total)):
        center[e] = max(exp(log_gamma(s, rate * max(total[e] / mass, 0.0) + 0.5) - log(rate)), TINY)
    return 0.0


def itakura_saito_center(s, rate, mass, total, center):
    for e in range(len(total)):
        center[e] = max(total[e] / mass * exp(log(rate) - log_gamma(s, rate)), TINY)
    return 0.0


def binary_center(s, rate, mass, total, center):
    for e in range(len(total)):
        mean = min(max(total[e] / mass, 0.0), 1.0)
        center[e] = min(max(beta(s, rate * mean + 0.5, rate * (1.0 - mean) + 0.5), EDGE), 1.0 - EDGE)
    return 0.0


def no_center(s, rate, mass, total, center):
    """A stand-in."""
    return 0.0


CONJUGATE = {
    "kmeans": (squared_distance, kmeans_log_g, kmeans_center),
    "kl": (kl_divergence, kl_log_g, kl_center),
    "itakura-saito": (itakura_saito_divergence, itakura_saito_log_g, itakura_saito_center),
    "binary": (binary_divergence, binary_log_g, binary_center),
}


# Sums over rows


@inner
def copy_row(x, i, row):
    """Row i in float64."""
    for e in range(len(row)):
        row[e] = x[i, e]


@kernel
def loss_of(x, weight, paid, label, center, row):
    """sum_i w_i d(x_i, center of its cluster). `row` and `other` are scratch space."""
    value = 0.0
    for i in range(len(label)):
        copy_row(x, i, row)
        value += weight[i] * paid_at(paid, row, center[label[i]])
    return value


@kernel
def reach_all(x, weight, paid, label, reach, row, other):
    """reach (N, K), from zeros: what every row pays to the other members of a cluster, times their weights."""
    for i in range(len(label)):
        copy_row(x, i, row)
        for j in range(i):
            copy_row(x, j, other)
            far = paid_at(paid, row, other)
            reach[i, label[j]] += weight[j] * far
            reach[j, label[i]] += weight[i] * far
