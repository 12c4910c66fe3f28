"""Fairlets B and their clusters C: the state of a chain, and its sums.

Everything is on the scale of the rows: a fairlet weighs the sum of its rows' weights, and `LOSS_C` is (mean size) L_c, so that
its inverse temperature is lambda_c / (mean size), the lambda of the dispersion. For Bregman losses the rows of a cluster pay
in all what the rows of its fairlets pay to these fairlets' means, plus (mean size) L_c: so exchanges of rows need sums only.
"""

from typing import NamedTuple

import numpy as np

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.fairlet_costs import anchored_loss, copy_center, hub_loss
from bayesfair.gibbs.losses import divergence, has_centers, pair

NOBODY = -1  # in place of a row: nobody comes back; in place of an anchor: fairlets have hubs

LAMBDA_F, LAMBDA, LOSS_F, LOSS_C = range(4)
PLACE, SWEEP, SINCE, TRIED, SWAPPED, VISITED, MOVED, FAILED, DRAWS = range(9)


class Fairlets(NamedTuple):
    """What all chains share: rows as they come, their groups and weights, and which fairlets there may be.

    order[first[g] : first[g + 1]] are the rows of group g, `movers` the rows that are no anchors. lower, upper (m, J) bound the
    members of a fairlet; fairlets of one `kind` have the same bounds. rank (N,): the number of a fairlet with this anchor.
    edges (E, 2): pairs of near rows of a group. width (J,): most members of a group. anchor: the anchors' group, or NOBODY.
    """

    x: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    order: np.ndarray
    first: np.ndarray
    movers: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kind: np.ndarray
    rank: np.ndarray
    edges: np.ndarray
    width: np.ndarray
    anchor: int


class State(NamedTuple):
    """A chain's fairlets and clusters, and sums that moves keep up to date.

    fairlet, slot (N,): members[fairlet, slot] is the row. size, count, mass, total: rows, rows of every group, weight and
    weighted sum of a fairlet. number, weight, sums: fairlets, weight and weighted sum of a cluster. Losses of pairs keep
    reach (m, K), what a fairlet's centre pays to the fairlets of a cluster, and pairs (K,), the sum over a cluster's pairs.
    `value`: inverse temperatures and losses; `step`: counters, see above.
    """

    words: np.ndarray
    fairlet: np.ndarray
    slot: np.ndarray
    members: np.ndarray
    size: np.ndarray
    count: np.ndarray
    cluster: np.ndarray
    anchor: np.ndarray
    mass: np.ndarray
    total: np.ndarray
    number: np.ndarray
    weight: np.ndarray
    sums: np.ndarray
    reach: np.ndarray
    pairs: np.ndarray
    value: np.ndarray
    step: np.ndarray


class Scratch(NamedTuple):
    """Space that moves use: rows and centres (d,), means (d, K) of clusters, costs and probabilities (K,).

    given: the centres (K, d) of clusters on a path between modes, (0, d) elsewhere.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    old: np.ndarray
    new: np.ndarray
    rest: np.ndarray
    f_old: np.ndarray
    f_new: np.ndarray
    h_old: np.ndarray
    h_new: np.ndarray
    mean: np.ndarray
    cost: np.ndarray
    p: np.ndarray
    given: np.ndarray


@kernel
def make_scratch(dim, n_clusters, n_given=0):
    """Space for the moves of a chain."""
    d, k = dim, n_clusters
    return Scratch(
        np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d), np.empty((d, k)), np.empty(k), np.empty(k), np.empty((n_given, d)),
    )  # fmt: skip


def new_state(words, data: Fairlets, loss, fairlet, cluster, n_clusters, lambda_f, lam) -> State:
    """The state of these fairlets (N,) and clusters (m,), with every sum from scratch."""
    (n_obs, dim), (n_fairlets, n_groups) = data.x.shape, data.lower.shape
    n_kept = 0 if has_centers(loss) else n_fairlets
    state = State(
        words=words,
        fairlet=np.array(fairlet, np.int32),
        slot=np.zeros(n_obs, np.int32),
        members=np.full((n_fairlets, int(data.width.sum())), NOBODY, np.int32),
        size=np.zeros(n_fairlets, np.int32),
        count=np.zeros((n_fairlets, n_groups), np.int32),
        cluster=np.array(cluster, np.int32),
        anchor=np.full(n_fairlets, NOBODY, np.int32),
        mass=np.zeros(n_fairlets),
        total=np.zeros((n_fairlets, dim)),
        number=np.zeros(n_clusters, np.int64),
        weight=np.zeros(n_clusters),
        sums=np.zeros((n_clusters, dim)),
        reach=np.zeros((n_kept, n_clusters)),
        pairs=np.zeros(n_clusters),
        value=np.array([lambda_f, lam, 0.0, 0.0]),
        step=np.zeros(9, np.int64),
    )
    seat(data, state)
    sum_up(data, loss, state, make_scratch(dim, n_clusters))
    return state


@kernel
def seat(data, state):
    """Members, slots, counts and anchors of the fairlets of the rows, in the order of the rows."""
    for i in range(len(state.fairlet)):
        f, g = int(state.fairlet[i]), int(data.group[i])
        state.members[f, state.size[f]] = i
        state.slot[i] = state.size[f]
        state.size[f] += 1
        state.count[f, g] += 1
        if g == data.anchor:
            state.anchor[f] = i


@kernel
def sum_up(data, loss, state, scratch):
    """Every sum and both losses from scratch."""
    dim = data.x.shape[1]
    state.mass[:] = 0.0
    state.total[:] = 0.0
    state.number[:] = 0
    state.weight[:] = 0.0
    state.sums[:] = 0.0
    for i in range(len(state.fairlet)):
        f, w = int(state.fairlet[i]), data.weight[i]
        state.mass[f] += w
        for e in range(dim):
            state.total[f, e] += w * data.x[i, e]
    for f in range(len(state.cluster)):
        k = int(state.cluster[f])
        state.number[k] += 1
        state.weight[k] += state.mass[f]
        for e in range(dim):
            state.sums[k, e] += state.total[f, e]
    state.value[LOSS_F] = 0.0
    for f in range(len(state.cluster)):
        state.value[LOSS_F] += fairlet_loss(data, loss, state, scratch, f)
    if has_centers(loss):
        sum_up_centers(loss, state, scratch)
    else:
        sum_up_pairs(loss, state, scratch)


@inner
def sum_up_centers(loss, state, scratch):
    """(mean size) L_c of a loss with centres: what fairlets' centres pay to the mean of their cluster."""
    state.value[LOSS_C] = 0.0
    for f in range(len(state.cluster)):
        k = int(state.cluster[f])
        for e in range(len(scratch.y)):
            scratch.y[e] = state.sums[k, e] / state.weight[k]
        copy_center(state.total, state.mass, f, scratch.x)
        state.value[LOSS_C] += state.mass[f] * divergence(loss, scratch.x, scratch.y)


@inner
def sum_up_pairs(loss, state, scratch):
    """reach, pairs and (mean size) L_c of a loss of pairs."""
    for f in range(len(state.cluster)):
        reach_anew(loss, state.cluster, state.total, state.mass, state.reach, scratch.x, scratch.y, f)
    state.value[LOSS_C] = 0.0
    for k in range(len(state.pairs)):
        pair_up(state.cluster, state.mass, state.reach, state.pairs, k)
        state.value[LOSS_C] += state.pairs[k] / (2.0 * state.weight[k])


@inner
def reach_anew(loss, cluster, total, mass, reach, x, y, f):
    """What the centre of fairlet f pays to every cluster."""
    reach[f] = 0.0
    copy_center(total, mass, f, x)
    for j in range(len(cluster)):
        if j != f:
            copy_center(total, mass, j, y)
            reach[f, cluster[j]] += mass[j] * pair(loss, x, y)


@inner
def pair_up(cluster, mass, reach, pairs, k):
    """The sum over the pairs of cluster k, each taken twice."""
    pairs[k] = 0.0
    for f in range(len(cluster)):
        if cluster[f] == k:
            pairs[k] += mass[f] * reach[f, k]


@inner
def fairlet_loss(data, loss, state, scratch, f):
    """What the members of fairlet f pay."""
    if data.anchor != NOBODY:
        own = state.anchor[f]
        return anchored_loss(
            data.x, data.weight, loss, scratch.x, scratch.y, scratch.z, state.members, state.size, f, own, own
        )
    copy_center(state.total, state.mass, f, scratch.f_old)
    return hub_loss(data.x, data.weight, loss, scratch.x, state.members, state.size, f, scratch.f_old)
