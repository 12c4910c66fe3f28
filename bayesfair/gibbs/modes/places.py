"""Where modes are: their centres with spreads, which mode is nearest, and the map from one to another (DESIGN 2.7).

Centres are in the coordinates of their loss, in which no place is out of reach: themselves for squared distances, logs for
positive centres, log odds for shares. log pi(z, theta) of theta = (centres, lambda) is

    -lambda (L(z) + sum_k W_k d(mean_k, m_k)) - sum_k log g_k + log mu(m) + (shape - 1) log lambda - rate lambda.
"""

from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.chance import integer
from bayesfair.gibbs.losses import BINARY, KL, KMEANS, center_at, log_g_at, paid_at


class Places(NamedTuple):
    """The modes: centres and their spreads in coordinates (M, K, d), clusters numbered alike, and lambda (M,)."""

    center: np.ndarray
    spread: np.ndarray
    lam: np.ndarray


class Way(NamedTuple):
    """From one mode to another: coordinates here, there and on the way (K, d), and the centres on the way.

    number, back (K,): the cluster of the state that is the mode's, here and there. apart (K, K), paired (K,): scratch space.
    """

    here: np.ndarray
    there: np.ndarray
    now: np.ndarray
    center: np.ndarray
    number: np.ndarray
    back: np.ndarray
    apart: np.ndarray
    paired: np.ndarray


def make_way(n_clusters, dim):
    """Space for a jump."""
    k, d = n_clusters, dim
    return Way(
        np.empty((k, d)), np.empty((k, d)), np.empty((k, d)), np.empty((k, d)), np.empty(k, np.int64), np.empty(k, np.int64),
        np.empty((k, k)), np.empty(k, np.int64),
    )  # fmt: skip


@inner
def coordinate(loss, m):
    """Of one number of a centre."""
    if loss.kind == KMEANS:
        return m
    return log(m) - log(1.0 - m) if loss.kind == BINARY else log(m)


@inner
def from_coordinate(loss, y):
    """The number of a centre at this coordinate."""
    if loss.kind == KMEANS:
        return y
    return 1.0 / (1.0 + exp(-y)) if loss.kind == BINARY else exp(y)


@inner
def log_measure(loss, m):
    """Log of the measure of one number of a centre, see `losses.kmeans_log_g`, per unit of its coordinate."""
    if loss.kind == KL:
        return 0.5 * log(m)
    return 0.5 * (log(m) + log(1.0 - m)) if loss.kind == BINARY else 0.0


@kernel
def draw_coordinates(s, loss, lam, mass, total, into):
    """Coordinates (K, d) of centres drawn given the clusters' weights and sums."""
    for k in range(len(mass)):
        center_at(loss.draw_center, s, lam * mass[k], mass[k], total[k], into[k])
        for e in range(into.shape[1]):
            into[k, e] = coordinate(loss, into[k, e])


@kernel
def draw_many(s, loss, lam, mass, total, into):
    """Coordinates (n, K, d) of centres, drawn n times."""
    for draw in range(len(into)):
        draw_coordinates(s, loss, lam, mass, total, into[draw])


@inner
def pair_up(apart, number):
    """Pair rows with columns, the nearest first: number[column] is the row. Returns the sum; `apart` is used up."""
    n, total = len(apart), 0.0
    for _ in range(n):
        least, row, column = inf, 0, 0
        for k in range(n):
            for q in range(n):
                if apart[k, q] < least:
                    least, row, column = apart[k, q], k, q
        total += least
        number[column] = row
        apart[row, :] = inf
        apart[:, column] = inf
    return total


@inner
def nearest(places, y, apart, paired, number):
    """The mode nearest to coordinates y (K, d) in units of its spread; number[q] is the cluster that is its cluster q."""
    least, mode = inf, 0
    for j in range(len(places.lam)):
        for k in range(len(y)):
            for q in range(len(y)):
                apart[k, q] = 0.0
                for e in range(y.shape[1]):
                    apart[k, q] += ((y[k, e] - places.center[j, q, e]) / places.spread[j, q, e]) ** 2
        far = pair_up(apart, paired)
        if far < least:
            least, mode = far, j
            for q in range(len(number)):
                number[q] = paired[q]
    return mode


@inner
def move_place(places, way, lam, is_sampled, origin, to):
    """T: the same place of mode `to`, into `way.there`; (lambda there, log |dT|)."""
    log_jacobian = 0.0
    for q in range(len(way.number)):
        k = way.number[q]
        for e in range(way.here.shape[1]):
            wider = places.spread[to, q, e] / places.spread[origin, q, e]
            way.there[k, e] = places.center[to, q, e] + wider * (way.here[k, e] - places.center[origin, q, e])
            log_jacobian += log(wider)
    if not is_sampled:
        return lam, log_jacobian
    ratio = places.lam[to] / places.lam[origin]
    return lam * ratio, log_jacobian + log(ratio)


@inner
def choose_way(s, loss, places, way, lam, mass, total, is_sampled):
    """Draw centres given the clusters, and choose another mode: (the mode here, lambda there, log |dT|).

    The log is -inf if T does not lead back: there the nearest mode must be the one chosen, with clusters paired as here.
    """
    draw_coordinates(s, loss, lam, mass, total, way.here)
    origin = nearest(places, way.here, way.apart, way.paired, way.number)
    to = (origin + 1 + integer(s, len(places.lam) - 1)) % len(places.lam)
    there, log_jacobian = move_place(places, way, lam, is_sampled, origin, to)
    leads_back = nearest(places, way.there, way.apart, way.paired, way.back) == to
    for q in range(len(way.number)):
        leads_back &= way.back[q] == way.number[q]
    return origin, there, log_jacobian if leads_back else -inf


@inner
def place_at(loss, way, share):
    """Go to this share of the way: coordinates and centres."""
    for k in range(len(way.here)):
        for e in range(way.here.shape[1]):
            way.now[k, e] = way.here[k, e] + share * (way.there[k, e] - way.here[k, e])
            way.center[k, e] = from_coordinate(loss, way.now[k, e])


@inner
def pull(loss, way, mass, total, mean):
    """sum_k W_k d(mean_k, m_k) for the centres on the way; `mean` is scratch space."""
    value = 0.0
    for k in range(len(mass)):
        for e in range(len(mean)):
            mean[e] = total[k, e] / mass[k]
        value += mass[k] * paid_at(loss.paid, mean, way.center[k])
    return value


@inner
def log_density(loss, way, lam, mass, total, spent, shape, rate, mean):
    """log pi(z, theta) at the place on the way; `spent` is L(z). What only z changes is left out if lambda is fixed."""
    value = -lam * pull(loss, way, mass, total, mean)
    for k in range(len(mass)):
        value -= log_g_at(loss.log_g, lam * mass[k], mass[k], total[k])
        for e in range(len(mean)):
            value += log_measure(loss, way.center[k, e])
    if shape > 0.0:
        value += (shape - 1.0) * log(lam) - (rate + spent) * lam
    return value


@inner
def log_gain(loss, lam, mass, total, w, x, more, after):
    """Change of log g if a unit (x, w) joins a cluster (more = 1) or leaves it (-1); `after` is scratch space."""
    then = mass + more * w
    if loss.kind == KMEANS:
        return -0.5 * len(x) * log(then / mass)
    for e in range(len(x)):
        after[e] = total[e] + more * w * x[e]
    return log_g_at(loss.log_g, lam * then, then, after) - log_g_at(loss.log_g, lam * mass, mass, total)
