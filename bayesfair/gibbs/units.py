"""Clusterings of units (rows, or fixed fairlets) under the relaxed law p(z) ~ exp(-lambda L(z) - V(z)), and their moves.

V is 0 exactly on the balanced set S (DESIGN 2.6), and a chain that is watched on S alone has the law exp(-lambda L) on S. So
no move must itself stay in S, and any form of balance is served by the same loops. Without families V is 0 everywhere.
"""

from math import exp, isfinite, isnan, nan
from typing import NamedTuple

import numpy as np

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.balance import penalty, penalty_with
from bayesfair.gibbs.chance import accept, category, integer
from bayesfair.gibbs.losses import KMEANS, OWN_DIVERGENCE, divergence, has_centers, is_own, joining, leaving, pair

IMPOSSIBLE = -1e300
NEGLIGIBLE = 36.0  # e^-36 is below the resolution of a draw

LAMBDA, LOSS = range(2)
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
    strength (K, H + 1) and penalty (K,) are of V. `number`: lambda and the loss; `step`: counters, see above.
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
        reach=np.zeros((0 if loss.kind <= OWN_DIVERGENCE else n_obs, n_clusters)),
        pairs=np.zeros(n_clusters),
        strength=np.array(strength, float) + np.zeros((n_clusters, n_groups + 1)),
        penalty=np.zeros(n_clusters),
        number=np.array([lam, 0.0]),
        step=np.zeros(11, np.int64),
    )
    sum_up(units, loss, balance, state, make_scratch(dim, n_clusters, len(balance.of_cell)))
    state.step[ROW] = n_obs - 1
    return state


@kernel
def make_scratch(dim, n_clusters, n_cells):
    """Space for the moves of a chain."""
    k, d = n_clusters, dim
    return UnitScratch(
        np.empty((d, k)), np.full((k, n_cells), nan), np.full((k, n_cells), nan), np.empty(k), np.empty(k),
        np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d),
    )  # fmt: skip


@kernel
def sum_up(units, loss, balance, state, scratch):
    """Every sum of a state from its labels alone."""
    n_obs, dim = units.x.shape
    state.count[:] = 0
    state.size[:] = 0
    state.mass[:] = 0.0
    state.total[:] = 0.0
    state.pairs[:] = 0.0
    for i in range(n_obs):
        k, w = state.label[i], units.weight[i]
        state.size[k] += 1
        state.mass[k] += w
        for f in range(balance.group.shape[1]):
            state.count[k, balance.group[i, f]] += 1
        for e in range(dim):
            state.total[k, e] += w * units.x[i, e]
    if has_centers(loss):
        state.number[LOSS] = loss_of(units, loss, state, scratch)
    else:
        reach_all(units, loss, state, scratch)
    state.step[OUTSIDE] = 0
    for k in range(len(state.size)):
        state.penalty[k] = penalty_of(balance, state, k)
        state.step[OUTSIDE] += state.penalty[k] > 0.0
    refresh(state, scratch)


@kernel
def refresh(state, scratch):
    """The means of a state's clusters, and V as it would be with other units: not yet asked for."""
    scratch.without[:] = nan
    scratch.joined[:] = nan
    for k in range(len(state.size)):
        set_mean(state, scratch, k)


@inner
def penalty_of(balance, state, k):
    """V of cluster k as it is."""
    return penalty(balance.first, balance.bounds, balance.extra, state.strength, state.count, k, state.size[k])


@inner
def loss_of(units, loss, state, scratch):
    """sum_i w_i d(x_i, mean of its cluster)."""
    value = 0.0
    for i in range(len(state.label)):
        k = state.label[i]
        copy_row(units, i, scratch.x)
        for e in range(len(scratch.x)):
            scratch.old[e] = state.total[k, e] / state.mass[k]
        value += units.weight[i] * divergence(loss, scratch.x, scratch.old)
    return value


@inner
def reach_all(units, loss, state, scratch):
    """reach, pairs and the loss of a loss of pairs, from scratch."""
    n_obs = len(state.label)
    state.reach[:] = 0.0
    state.number[LOSS] = 0.0
    for i in range(n_obs):
        copy_row(units, i, scratch.x)
        for j in range(i):
            copy_row(units, j, scratch.y)
            far = pair(loss, scratch.x, scratch.y)
            state.reach[i, state.label[j]] += units.weight[j] * far
            state.reach[j, state.label[i]] += units.weight[i] * far
    for i in range(n_obs):
        state.pairs[state.label[i]] += units.weight[i] * state.reach[i, state.label[i]]
    for k in range(len(state.size)):
        if state.mass[k] > 0.0:
            state.number[LOSS] += state.pairs[k] / (2.0 * state.mass[k])


@inner
def copy_row(units, i, x):
    """Row i in float64."""
    for e in range(len(x)):
        x[e] = units.x[i, e]


@inner
def set_mean(state, scratch, k):
    """The mean of cluster k, in the layout that `costs` reads."""
    for e in range(len(scratch.x)):
        scratch.mean[e, k] = state.total[k, e] / state.mass[k]


@kernel
def visits(s, units, loss, balance, state, scratch, last, per):
    """Visit the units in turn, up to the one before `last` or until `per` visits have ended in S since the last draw.

    A visit moves a unit by its full conditional under the relaxed law, over the clusters that are not negligible. A lone unit
    may not leave its cluster. cost[k] is what its own cluster saves without it, and what every other one pays with it.
    """
    x, weight, label, count, size, mass = units.x, units.weight, state.label, state.count, state.size, state.mass
    total, v, strength, step, reach, pairs = (
        state.total,
        state.penalty,
        state.strength,
        state.step,
        state.reach,
        state.pairs,
    )
    cell, of_cell, first, bounds, extra = units.cell, balance.of_cell, balance.first, balance.bounds, balance.extra
    without, joined, group = scratch.without, scratch.joined, balance.group
    mean, cost, p, row, old, new = scratch.mean, scratch.cost, scratch.p, scratch.x, scratch.old, scratch.new
    number, lam, n_clusters = state.number, state.number[LAMBDA], len(state.size)
    for i in range(step[ROW] + 1, last):
        a = label[i]
        if size[a] > 1:
            w = weight[i]
            if loss.kind == KMEANS:
                for k in range(n_clusters):
                    cost[k] = 0.0
                for e in range(x.shape[1]):
                    value = x[i, e]
                    for k in range(n_clusters):
                        off = value - mean[e, k]
                        cost[k] += off * off
                own = cost[a] * (w * mass[a] / (mass[a] - w))
                for k in range(n_clusters):
                    cost[k] *= w * mass[k] / (mass[k] + w)
                cost[a] = own
            else:
                other_costs(x, w, loss, total, mass, reach, pairs, row, old, new, cost, i, a)
                if is_own(loss) and failed(step, number, cost, i):
                    break
            own = lam * cost[a] + v[a] + NEGLIGIBLE
            near = False
            for k in range(n_clusters):
                near |= k != a and lam * cost[k] - v[k] < own
            if near:
                c = cell[i]
                if isnan(without[a, c]):
                    without[a, c] = penalty_with(first, bounds, extra, strength, count, a, size[a], of_cell, c, -1)
                top = 0.0
                for k in range(n_clusters):
                    p[k] = IMPOSSIBLE
                    if k != a and lam * cost[k] - v[k] < own:
                        if isnan(joined[k, c]):
                            joined[k, c] = penalty_with(
                                first, bounds, extra, strength, count, k, size[k], of_cell, c, 1
                            )
                        p[k] = lam * (cost[a] - cost[k]) - (without[a, c] - v[a]) - (joined[k, c] - v[k])
                        top = max(top, p[k])
                p[a] = 0.0
                for k in range(n_clusters):
                    p[k] = exp(p[k] - top)
                b = category(s, p, n_clusters)
                if b != a:
                    if len(reach) > 0:
                        shift_reach(x, weight, loss, label, reach, pairs, row, old, i, a, b)
                    transfer(x, weight, group, label, count, size, mass, total, i, a, b)
                    number[LOSS] += cost[b] - cost[a]
                    step[MOVED] += 1
                    step[OUTSIDE] -= v[a] > 0.0
                    step[OUTSIDE] -= v[b] > 0.0
                    v[a] = penalty(first, bounds, extra, strength, count, a, size[a])
                    v[b] = penalty(first, bounds, extra, strength, count, b, size[b])
                    without[a], without[b], joined[a], joined[b] = nan, nan, nan, nan
                    step[OUTSIDE] += v[a] > 0.0
                    step[OUTSIDE] += v[b] > 0.0
                    for e in range(x.shape[1]):
                        mean[e, a] = total[a, e] / mass[a]
                        mean[e, b] = total[b, e] / mass[b]
        step[ROW] = i
        step[VISITS] += 1
        if step[OUTSIDE] == 0:
            step[INSIDE] += 1
            step[WAITED] += 1
            if step[WAITED] == per:
                break


@inner
def failed(step, number, costs, i):
    """Whether unit i made a loss of the user's own NaN or infinite: it is noted, with the value, and stops the run."""
    for value in costs:
        if not isfinite(value):
            step[FAILED] = i + 1
            number[LOSS] = value
            return True
    return False


@inner
def other_costs(x, w, loss, total, mass, reach, pairs, row, old, new, cost, i, a):
    """cost[k] of unit i for losses other than k-means, see `visits`."""
    for e in range(len(row)):
        row[e] = x[i, e]
    for k in range(len(mass)):
        if len(reach) > 0:
            sign = -1.0 if k == a else 1.0
            then = (pairs[k] + sign * 2.0 * w * reach[i, k]) / (2.0 * (mass[k] + sign * w))
            cost[k] = sign * (then - pairs[k] / (2.0 * mass[k]))
        elif k == a:
            cost[k] = leaving(loss, row, w, total[k], mass[k], old, new)
        else:
            cost[k] = joining(loss, row, w, total[k], mass[k], old, new)


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
        total[a] = 0.0


@inner
def shift_reach(x, weight, loss, label, reach, pairs, row, other, i, a, b):
    """reach and pairs when unit i leaves cluster a for b."""
    w = weight[i]
    pairs[a] -= 2.0 * w * reach[i, a]
    pairs[b] += 2.0 * w * reach[i, b]
    for e in range(len(row)):
        row[e] = x[i, e]
    for j in range(len(label)):
        if j != i:
            for e in range(len(row)):
                other[e] = x[j, e]
            far = w * pair(loss, row, other)
            reach[j, a] -= far
            reach[j, b] += far


@inner
def move(units, loss, balance, state, scratch, i, b):
    """Unit i goes to cluster b, and all sums but the loss and V follow; `settle` the clusters afterwards."""
    a = state.label[i]
    if len(state.reach) > 0:
        shift_reach(
            units.x, units.weight, loss, state.label, state.reach, state.pairs, scratch.new, scratch.old, i, a, b
        )
    transfer(
        units.x, units.weight, balance.group, state.label, state.count, state.size, state.mass, state.total, i, a, b
    )
    state.step[MOVED] += 1


@inner
def settle(balance, state, scratch, k):
    """What follows from the sums of a cluster that has changed: its mean, and V."""
    set_mean(state, scratch, k)
    state.step[OUTSIDE] -= state.penalty[k] > 0.0
    state.penalty[k] = penalty_of(balance, state, k)
    state.step[OUTSIDE] += state.penalty[k] > 0.0
    scratch.without[k] = nan
    scratch.joined[k] = nan


@inner
def exchange_cost(units, loss, state, scratch, i, j):
    """Change of the loss if units i and j, of different clusters, change places."""
    a, b, w, v = state.label[i], state.label[j], units.weight[i], units.weight[j]
    copy_row(units, i, scratch.x)
    copy_row(units, j, scratch.y)
    if not has_centers(loss):
        far = pair(loss, scratch.x, scratch.y)
        own = state.pairs[a] + 2.0 * v * (state.reach[j, a] - w * far) - 2.0 * w * state.reach[i, a]
        other = state.pairs[b] + 2.0 * w * (state.reach[i, b] - v * far) - 2.0 * v * state.reach[j, b]
        change = own / (2.0 * (state.mass[a] - w + v)) + other / (2.0 * (state.mass[b] - v + w))
        return change - state.pairs[a] / (2.0 * state.mass[a]) - state.pairs[b] / (2.0 * state.mass[b])
    for e in range(len(scratch.x)):
        scratch.sum_a[e] = state.total[a, e] - w * scratch.x[e]
        scratch.sum_b[e] = state.total[b, e] - v * scratch.y[e]
    old, new = scratch.old, scratch.new
    change = joining(loss, scratch.y, v, scratch.sum_a, state.mass[a] - w, old, new)
    change += joining(loss, scratch.x, w, scratch.sum_b, state.mass[b] - v, old, new)
    change -= leaving(loss, scratch.x, w, state.total[a], state.mass[a], old, new)
    return change - leaving(loss, scratch.y, v, state.total[b], state.mass[b], old, new)


@kernel
def swap(s, units, loss, balance, state, scratch, i):
    """Unit i and a random one of its combination change places, by Metropolis: counts and V stay."""
    c = units.cell[i]
    j = units.order[units.first[c] + integer(s, units.first[c + 1] - units.first[c])]
    a, b = state.label[i], state.label[j]
    if a == b:
        return
    state.step[TRIED] += 1
    change = exchange_cost(units, loss, state, scratch, i, j)
    if is_own(loss):
        scratch.cost[0] = change
        if failed(state.step, state.number, scratch.cost[:1], i):
            return
    if accept(s, -state.number[LAMBDA] * change):
        state.step[SWAPPED] += 1
        state.number[LOSS] += change
        move(units, loss, balance, state, scratch, i, b)
        move(units, loss, balance, state, scratch, j, a)
        settle(balance, state, scratch, a)
        settle(balance, state, scratch, b)


@inner
def raise_strength(balance, state, outside, n_looks):
    """Penalties of a warm-up: raised where a count was beyond its bounds in more than .3 of the looks, lowered slowly."""
    for k in range(len(state.size)):
        for h in range(state.strength.shape[1]):
            share = outside[k, h] / n_looks
            if share > 0.3:
                state.strength[k, h] = 1.5 * state.strength[k, h] + 2.0
            elif share < 0.02:
                state.strength[k, h] = max(6.0, 0.9 * state.strength[k, h])


@inner
def look(balance, state, outside):
    """Count which groups of which clusters are beyond their bounds now."""
    first, bounds, last = balance.first, balance.bounds, state.strength.shape[1] - 1
    for k in range(len(state.size)):
        if state.penalty[k] > 0.0:
            for f in range(len(first) - 1):
                count = state.count[k, first[f] : first[f + 1]]
                reference = np.max(count) if balance.extra[0] > 0.0 else state.size[k]
                for h in range(first[f], first[f + 1]):
                    n = state.count[k, h]
                    outside[k, h] += max(bounds[h, 0] * reference - n, n - bounds[h, 1] * reference) > bounds[h, 2]
            outside[k, last] += max(balance.extra[1] - state.size[k], state.size[k] - balance.extra[2]) > 0.0
