"""Clusterings of units (rows, or fixed fairlets) under the relaxed law p(z) ~ exp(-lambda L(z) - V(z)), and their moves.

V is 0 exactly on the balanced set S (DESIGN 2.6), and a chain that is watched on S alone has the law exp(-lambda L) on S. So
no move must itself stay in S, and any form of balance is served by the same loops. Without families V is 0 everywhere.
"""

from math import isfinite, nan
from typing import NamedTuple

import numpy as np
from numpy import int64

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.balance import penalty
from bayesfair.gibbs.chance import accept, integer
from bayesfair.gibbs.losses import PAIRS, copy_row, is_own, joining, leaving, loss_of, paid_at, reach_all

IMPOSSIBLE = -1e300
NEGLIGIBLE = 36.0  # e^-36 is below the resolution of a draw

LAMBDA, LOSS, EACH = range(3)
ROW, PASS, WAITED, VISITS, INSIDE, MOVED, TRIED, SWAPPED, OUTSIDE, FAILED, DRAWS = range(11)


class Units(NamedTuple):
    """The units of all chains: features (N, d), as they come, weights (N,), and the combination of groups of each, its cell.

    order[first[c] : first[c + 1]] are the units of cell c.
    """

    x: np.ndarray
    weight: np.ndarray
    cell: np.ndarray
    order: np.ndarray
    first: np.ndarray


class UnitState(NamedTuple):
    """A chain's clustering and sums, which moves keep up to date.

    label (N,); count (K, H) of groups; size, mass and total (K, ...): numbers, weights, and weighted sums of clusters. Losses
    of pairs keep reach (N, K), what a unit pays to a cluster's members, and pairs (K,), the sum over a cluster's pairs.
    strength (K, H + 1) and penalty (K,) are of V. `number`: lambda, the loss, and the visits in S that a pass brings, as the
    warm-up has seen them; `step`: counters, see above.
    """

    words: np.ndarray
    label: np.ndarray
    count: np.ndarray
    size: np.ndarray
    mass: np.ndarray
    total: np.ndarray
    reach: np.ndarray
    pairs: np.ndarray
    strength: np.ndarray
    penalty: np.ndarray
    number: np.ndarray
    step: np.ndarray


class UnitScratch(NamedTuple):
    """Space that moves use: means (d, K), costs and probabilities (K,), rows of features (d,), and V as it would be.

    without and joined (K, C): V of a cluster with a unit of a combination less or more, NaN until it is asked for.
    """

    mean: np.ndarray
    without: np.ndarray
    joined: np.ndarray
    cost: np.ndarray
    p: np.ndarray
    x: np.ndarray
    y: np.ndarray
    old: np.ndarray
    new: np.ndarray
    sum_a: np.ndarray
    sum_b: np.ndarray


def new_state(words, labels, units: Units, loss, balance, n_clusters, strength, lam) -> UnitState:
    """The state of these labels, with every sum from scratch."""
    n_obs, dim = units.x.shape
    n_groups = balance.n_groups
    state = UnitState(
        words=words,
        label=np.array(labels, np.int32),
        count=np.zeros((n_clusters, n_groups), np.int64),
        size=np.zeros(n_clusters, np.int64),
        mass=np.zeros(n_clusters),
        total=np.zeros((n_clusters, dim)),
        reach=np.zeros((n_obs if loss.kind >= PAIRS else 0, n_clusters)),
        pairs=np.zeros(n_clusters),
        strength=np.array(strength, float) + np.zeros((n_clusters, n_groups + 1)),
        penalty=np.zeros(n_clusters),
        number=np.array([lam, 0.0, n_obs]),
        step=np.zeros(11, np.int64),
    )
    sum_up(units, loss, balance, state)
    state.step[ROW] = n_obs - 1
    return state


def make_scratch(balance, state) -> UnitScratch:
    """Space for the moves of a chain, as its state is now."""
    (n_clusters, dim), n_cells = state.total.shape, len(balance.of_cell)
    of_cells, of_clusters, of_rows = (n_clusters, n_cells), np.empty((2, n_clusters)), np.empty((6, dim))
    return UnitScratch(means(state), np.full(of_cells, nan), np.full(of_cells, nan), *of_clusters, *of_rows)


def means(state):
    """The means (d, K) of clusters."""
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray((state.total / state.mass[:, None]).T)


def sum_up(units, loss, balance, state):
    """Every sum of a state from its labels alone."""
    k = len(state.size)
    state.size[:] = np.bincount(state.label, minlength=k)
    state.mass[:] = np.bincount(state.label, units.weight, k)
    for f in range(balance.group.shape[1]):
        counted = np.bincount(state.label * balance.n_groups + balance.group[:, f], minlength=state.count.size)
        groups = slice(balance.first[f], balance.first[f + 1])
        state.count[:, groups] = counted.reshape(state.count.shape)[:, groups]
    for e in range(units.x.shape[1]):
        state.total[:, e] = np.bincount(state.label, units.weight * units.x[:, e], k)
    state.pairs[:] = 0.0
    row, other = np.empty((2, units.x.shape[1]))
    if loss.kind >= PAIRS:
        state.reach[:] = 0.0
        reach_all(units.x, units.weight, loss.paid, state.label, state.reach, row, other)
        own = state.reach[np.arange(len(state.label)), state.label]
        state.pairs[:] = np.bincount(state.label, units.weight * own, k)
        used = state.mass > 0
        state.number[LOSS] = (state.pairs[used] / (2.0 * state.mass[used])).sum()
    else:
        center = np.ascontiguousarray(means(state).T)
        state.number[LOSS] = loss_of(units.x, units.weight, loss.paid, state.label, center, row)
    penalties(balance.first, balance.bounds, balance.extra, state.strength, state.count, state.size, state.penalty)
    state.step[OUTSIDE] = (state.penalty > 0).sum()


@kernel
def penalties(first, bounds, extra, strength, count, size, v):
    """V of every cluster."""
    for k in range(len(size)):
        v[k] = penalty(first, bounds, extra, strength, count, k, size[k])


@inner
def transfer(x, weight, group, label, count, size, mass, total, i, a, b):
    """Unit i goes from cluster a to b: labels, counts, weights and sums follow. A cluster left empty is exactly so."""
    w = weight[i]
    label[i] = b
    size[a] -= 1
    size[b] += 1
    mass[a] -= w
    mass[b] += w
    for f in range(group.shape[1]):
        count[a, group[i, f]] -= 1
        count[b, group[i, f]] += 1
    for e in range(x.shape[1]):
        total[a, e] -= w * x[i, e]
        total[b, e] += w * x[i, e]
    if size[a] == 0:
        mass[a] = 0.0
        for e in range(x.shape[1]):
            total[a, e] = 0.0


@inner
def shift_reach(x, weight, paid, label, reach, pairs, row, other, i, a, b):
    """reach and pairs when unit i leaves cluster a for b."""
    w = weight[i]
    pairs[a] -= 2.0 * w * reach[i, a]
    pairs[b] += 2.0 * w * reach[i, b]
    copy_row(x, i, row)
    for j in range(len(label)):
        if j != i:
            copy_row(x, j, other)
            far = w * paid_at(paid, row, other)
            reach[j, a] -= far
            reach[j, b] += far


@inner
def settle(balance, state, mean, without, joined, k):
    """What follows from the sums of a cluster that has changed: its mean, and V."""
    for e in range(len(mean)):
        mean[e, k] = state.total[k, e] / state.mass[k]
    state.step[OUTSIDE] -= state.penalty[k] > 0.0
    state.penalty[k] = penalty(
        balance.first, balance.bounds, balance.extra, state.strength, state.count, k, state.size[k]
    )
    state.step[OUTSIDE] += state.penalty[k] > 0.0
    for c in range(without.shape[1]):
        without[k, c] = nan
        joined[k, c] = nan


@inner
def failed(step, number, value, i):
    """Whether unit i made a loss of the user's own NaN or infinite: it is noted, with the value, and stops the run."""
    if isfinite(value):
        return False
    step[FAILED] = i + 1
    number[LOSS] = value
    return True


@kernel
def swaps(s, units, loss, balance, state, scratch, first, last):
    """The units first..last, modulo N, change places with random ones of their combination: counts and V stay."""
    for at in range(first, last):
        i = at % len(state.label)
        c = units.cell[i]
        j = int64(units.order[units.first[c] + integer(s, units.first[c + 1] - units.first[c])])
        a, b = int64(state.label[i]), int64(state.label[j])
        if a != b:
            state.step[TRIED] += 1
            change = exchange_cost(units, loss, state, scratch, i, j)
            if is_own(loss) and failed(state.step, state.number, change, i):
                break
            if accept(s, -state.number[LAMBDA] * change):
                state.step[SWAPPED] += 1
                state.number[LOSS] += change
                for r, there, then in ((i, a, b), (j, b, a)):
                    if len(state.reach) > 0:
                        shift_reach(
                            units.x, units.weight, loss.paid, state.label, state.reach, state.pairs, scratch.x, scratch.y,
                            r, there, then,
                        )  # fmt: skip
                    transfer(
                        units.x, units.weight, balance.group, state.label, state.count, state.size, state.mass,
                        state.total, r, there, then,
                    )  # fmt: skip
                    state.step[MOVED] += 1
                settle(balance, state, scratch.mean, scratch.without, scratch.joined, a)
                settle(balance, state, scratch.mean, scratch.without, scratch.joined, b)


@inner
def exchange_cost(units, loss, state, scratch, i, j):
    """Change of the loss if units i and j, of different clusters, change places."""
    a, b, w, v = int64(state.label[i]), int64(state.label[j]), units.weight[i], units.weight[j]
    x, y, old, new, sum_a, sum_b = scratch.x, scratch.y, scratch.old, scratch.new, scratch.sum_a, scratch.sum_b
    copy_row(units.x, i, x)
    copy_row(units.x, j, y)
    if loss.kind >= PAIRS:
        far = paid_at(loss.paid, x, y)
        own = state.pairs[a] + 2.0 * v * (state.reach[j, a] - w * far) - 2.0 * w * state.reach[i, a]
        other = state.pairs[b] + 2.0 * w * (state.reach[i, b] - v * far) - 2.0 * v * state.reach[j, b]
        change = own / (2.0 * (state.mass[a] - w + v)) + other / (2.0 * (state.mass[b] - v + w))
        return change - state.pairs[a] / (2.0 * state.mass[a]) - state.pairs[b] / (2.0 * state.mass[b])
    for e in range(len(x)):
        sum_a[e] = state.total[a, e] - w * x[e]
        sum_b[e] = state.total[b, e] - v * y[e]
    change = joining(loss, y, v, sum_a, state.mass[a] - w, old, new)
    change += joining(loss, x, w, sum_b, state.mass[b] - v, old, new)
    change -= leaving(loss, x, w, state.total[a], state.mass[a], old, new)
    return change - leaving(loss, y, v, state.total[b], state.mass[b], old, new)
