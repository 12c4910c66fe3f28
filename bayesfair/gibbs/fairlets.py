"""Fairlets B and their clusters C: the state of a chain, and its sums.

Everything is on the scale of the rows: a fairlet weighs the sum of its rows' weights, and `LOSS_C` is (mean size) L_c, so that
its inverse temperature is lambda_c / (mean size), the lambda of the dispersion. For Bregman losses the rows of a cluster pay
in all what the rows of its fairlets pay to these fairlets' means, plus (mean size) L_c: so exchanges of rows need sums only.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.fairlet_costs import copy_center, price
from bayesfair.gibbs.losses import PAIRS, loss_of, paid_at, reach_all

NOBODY = -1  # in place of a row: nobody comes back; in place of an anchor: fairlets have hubs

LAMBDA_F, LAMBDA, LOSS_F, LOSS_C = range(4)
PLACE, SWEEP, SINCE, TRIED, SWAPPED, VISITED, MOVED, FAILED, DRAWS = range(9)


class Fairlets(NamedTuple):
    """What all chains share: rows as they come, their groups and weights, and which fairlets there may be.

    order[first[g] : first[g + 1]] are the rows of group g, `movers` the rows that are no anchors. lower, upper (m, J) bound the
    members of a fairlet. edges (E, 2): pairs of near rows of a group. width (J,): most members of a group. anchor: the
    anchors' group, or NOBODY.
    """

    x: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    order: np.ndarray
    first: np.ndarray
    movers: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
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


def make_scratch(dim: int, n_clusters: int) -> Scratch:
    """Space for the moves of a chain."""
    return Scratch(*np.empty((10, dim)), np.empty((dim, n_clusters)), *np.empty((2, n_clusters)), np.empty((0, dim)))


def new_state(words, data: Fairlets, loss, fairlet, cluster, n_clusters, lambda_f, lam) -> State:
    """The state of these fairlets (N,) and clusters (m,), with every sum from scratch."""
    (n_obs, dim), (n_fairlets, n_groups) = data.x.shape, data.lower.shape
    n_kept = n_fairlets if loss.kind >= PAIRS else 0
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
    seat(data.group, data.anchor, state.fairlet, state.slot, state.members, state.size, state.count, state.anchor)
    sum_up(data, loss, state)
    return state


@kernel
def seat(group, anchor, fairlet, slot, members, size, count, anchors):
    """Members, slots, counts and anchors of the fairlets of the rows, in the order of the rows."""
    for i in range(len(fairlet)):
        f, g = int64(fairlet[i]), int64(group[i])
        members[f, size[f]] = i
        slot[i] = size[f]
        size[f] += 1
        count[f, g] += 1
        if g == anchor:
            anchors[f] = i


def sum_up(data, loss, state):
    """Every sum and both losses from scratch."""
    add_up(data.x, data.weight, state.fairlet, state.mass, state.total)
    add_up(state.total, np.ones(len(state.cluster)), state.cluster, state.weight, state.sums)
    state.number[:] = state.weight
    state.weight[:] = np.bincount(state.cluster, state.mass, len(state.weight))
    centers, (row, other, middle) = state.total / state.mass[:, None], np.empty((3, data.x.shape[1]))
    if data.anchor == NOBODY:
        state.value[LOSS_F] = loss_of(data.x, data.weight, loss.paid, state.fairlet, centers, row)
    else:
        state.value[LOSS_F] = paid_to_anchors(
            data.x, data.weight, loss, state.fairlet, state.anchor, row, other, middle
        )
    if loss.kind >= PAIRS:
        state.reach[:] = 0.0
        reach_all(centers, state.mass, loss.paid, state.cluster, state.reach, row, other)
        own = state.reach[np.arange(len(state.cluster)), state.cluster]
        state.pairs[:] = np.bincount(state.cluster, state.mass * own, len(state.pairs))
        state.value[LOSS_C] = (state.pairs / (2.0 * state.weight)).sum()
    else:
        means = state.sums / state.weight[:, None]
        state.value[LOSS_C] = loss_of(centers, state.mass, loss.paid, state.cluster, means, row)


def add_up(x, weight, member_of, mass, total):
    """Weights and weighted sums of sets of rows, in place."""
    mass[:] = np.bincount(member_of, weight, len(mass))
    for e in range(x.shape[1]):
        total[:, e] = np.bincount(member_of, weight * x[:, e], len(mass))


@kernel
def paid_to_anchors(x, weight, loss, fairlet, anchors, row, other, middle):
    """What all rows pay for the anchors of their fairlets."""
    paid = 0.0
    for i in range(len(fairlet)):
        anchor = int64(anchors[fairlet[i]])
        if i != anchor:
            paid += price(x, weight, loss, row, other, middle, i, anchor)
    return paid


@inner
def reach_anew(paid, cluster, total, mass, reach, x, y, f):
    """What the centre of fairlet f pays to every cluster."""
    reach[f] = 0.0
    copy_center(total, mass, f, x)
    for j in range(len(cluster)):
        if j != f:
            copy_center(total, mass, j, y)
            reach[f, cluster[j]] += mass[j] * paid_at(paid, x, y)


@inner
def pair_up(cluster, mass, reach, pairs, k):
    """The sum over the pairs of cluster k, each taken twice."""
    pairs[k] = 0.0
    for f in range(len(cluster)):
        if cluster[f] == k:
            pairs[k] += mass[f] * reach[f, k]
