"""Fairlets B and their clusters C: the state of a chain, its sums, and what a change of B or C costs.

Everything is on the scale of the rows: a fairlet weighs the sum of its rows' weights, and `LOSS_C` is (mean size) L_c, so that
its inverse temperature is lambda_c / (mean size), the lambda of the dispersion. For Bregman losses the rows of a cluster pay
in all what the rows of its fairlets pay to these fairlets' means, plus (mean size) L_c: so exchanges of rows need sums only.
"""

from typing import NamedTuple

import numpy as np

from bayesfair.sampler.compiled import inner, kernel
from bayesfair.sampler.losses import KMEANS, between, divergence, has_centers, joining, leaving, pair, to_center

NOBODY = -1  # in place of a row: nobody comes back; in place of an anchor: fairlets have hubs

LAMBDA_F, LAMBDA, LOSS_F, LOSS_C = range(4)
PLACE, SWEEP, SINCE, TRIED, SWAPPED, VISITED, MOVED, FAILED = range(8)


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
    """Space that moves use: rows and centres (d,), costs and probabilities (K,), and the changes of both losses."""

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
    cost: np.ndarray
    p: np.ndarray
    change: np.ndarray


@kernel
def make_scratch(dim, n_clusters):
    """Space for the moves of a chain."""
    d, k = dim, n_clusters
    return Scratch(
        np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d), np.empty(k), np.empty(k), np.empty(2),
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
        step=np.zeros(8, np.int64),
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


@inner
def copy_row(rows, i, x):
    """Row i in float64."""
    for e in range(len(x)):
        x[e] = rows[i, e]


@inner
def copy_center(total, mass, f, x):
    """The centre of fairlet f."""
    for e in range(len(x)):
        x[e] = total[f, e] / mass[f]


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
        reach_anew(loss, state, scratch, f)
    state.value[LOSS_C] = 0.0
    for k in range(len(state.pairs)):
        pair_up(state, k)
        state.value[LOSS_C] += state.pairs[k] / (2.0 * state.weight[k])


@inner
def reach_anew(loss, state, scratch, f):
    """What the centre of fairlet f pays to every cluster."""
    state.reach[f] = 0.0
    copy_center(state.total, state.mass, f, scratch.x)
    for j in range(len(state.cluster)):
        if j != f:
            copy_center(state.total, state.mass, j, scratch.y)
            state.reach[f, state.cluster[j]] += state.mass[j] * pair(loss, scratch.x, scratch.y)


@inner
def pair_up(state, k):
    """The sum over the pairs of cluster k, each taken twice."""
    state.pairs[k] = 0.0
    for f in range(len(state.cluster)):
        if state.cluster[f] == k:
            state.pairs[k] += state.mass[f] * state.reach[f, k]


# What fairlets pay


@inner
def price(data, loss, scratch, i, j):
    """What row i pays for the anchor j, with w v / (w + v) twice for their weights."""
    copy_row(data.x, i, scratch.x)
    copy_row(data.x, j, scratch.y)
    w, v = data.weight[i], data.weight[j]
    return 2.0 * w * v / (w + v) * between(loss, scratch.x, scratch.y, scratch.z)


@inner
def hub_loss(data, loss, state, scratch, f, center, out, incoming):
    """What the members of f pay for this centre, with `incoming` in the place of `out`; either may be NOBODY."""
    paid = 0.0
    for t in range(state.size[f]):
        i = int(state.members[f, t])
        if i != out:
            copy_row(data.x, i, scratch.x)
            paid += data.weight[i] * to_center(loss, scratch.x, center)
    if incoming != NOBODY:
        copy_row(data.x, incoming, scratch.x)
        paid += data.weight[incoming] * to_center(loss, scratch.x, center)
    return paid


@inner
def anchored_loss(data, loss, state, scratch, f, anchor):
    """What the members of f pay, its own anchor apart, if this is the anchor."""
    paid = 0.0
    for t in range(state.size[f]):
        i = int(state.members[f, t])
        if i != state.anchor[f]:
            paid += price(data, loss, scratch, i, anchor)
    return paid


@inner
def fairlet_loss(data, loss, state, scratch, f):
    """What the members of fairlet f pay."""
    if data.anchor != NOBODY:
        return anchored_loss(data, loss, state, scratch, f, int(state.anchor[f]))
    copy_center(state.total, state.mass, f, scratch.f_old)
    return hub_loss(data, loss, state, scratch, f, scratch.f_old, NOBODY, NOBODY)


# Exchanges: row a of fairlet f and row b of fairlet h change places, or a goes to h alone


@inner
def changes(data, loss, state, scratch, a, b, h):
    """change = (L_f, (mean size) L_c) if row a goes to fairlet h and b, unless NOBODY, back."""
    f, spread = int(state.fairlet[a]), 0.0
    if has_centers(loss):
        spread = spread_change(data, loss, state, scratch, a, b, h)
        scratch.change[0] = spread
        scratch.change[1] = cluster_change(data, loss, state, scratch, a, b, h) - spread
    else:
        new_centers(data, state, scratch, a, b, h)
        scratch.change[1] = pairs_change(loss, state, scratch, f, h, new_mass(data, a, b))
    if data.anchor != NOBODY:
        scratch.change[0] = anchored_change(data, loss, state, scratch, a, b, h)
    elif not has_centers(loss):
        now = hub_loss(data, loss, state, scratch, f, scratch.f_old, NOBODY, NOBODY)
        now += hub_loss(data, loss, state, scratch, h, scratch.h_old, NOBODY, NOBODY)
        then = hub_loss(data, loss, state, scratch, f, scratch.f_new, a, b)
        scratch.change[0] = then + hub_loss(data, loss, state, scratch, h, scratch.h_new, b, a) - now


@inner
def new_mass(data, a, b):
    """What fairlet f gains in weight, and h loses."""
    return (0.0 if b == NOBODY else data.weight[b]) - data.weight[a]


@inner
def anchored_change(data, loss, state, scratch, a, b, h):
    """Change of the anchored L_f: of both fairlets if anchors change places, else of the two rows."""
    f = int(state.fairlet[a])
    if data.group[a] == data.anchor:
        then = anchored_loss(data, loss, state, scratch, f, b) + anchored_loss(data, loss, state, scratch, h, a)
        now = anchored_loss(data, loss, state, scratch, f, a) + anchored_loss(data, loss, state, scratch, h, b)
        return then - now
    p, q = int(state.anchor[f]), int(state.anchor[h])
    change = price(data, loss, scratch, a, q) - price(data, loss, scratch, a, p)
    if b != NOBODY:
        change += price(data, loss, scratch, b, p) - price(data, loss, scratch, b, q)
    return change


@inner
def replaced(data, loss, scratch, total, mass, alone, out, incoming):
    """Change of what a set of rows pays to its mean if one leaves and one comes. `alone`: the set is that one row."""
    w = 0.0 if out == NOBODY else data.weight[out]
    v = 0.0 if incoming == NOBODY else data.weight[incoming]
    change = 0.0
    if loss.kind == KMEANS and w == v:
        for e in range(len(total)):
            x, y = float(data.x[out, e]), float(data.x[incoming, e])
            change += (y - x) * (x + y - 2.0 * total[e] / mass - (y - x) * w / mass)
        return w * change
    rest = scratch.rest
    for e in range(len(total)):
        rest[e] = total[e]
    if out != NOBODY:
        copy_row(data.x, out, scratch.x)
        if not alone:
            change -= leaving(loss, scratch.x, w, total, mass, scratch.old, scratch.new)
        for e in range(len(total)):
            rest[e] -= w * scratch.x[e]
    if incoming != NOBODY:
        copy_row(data.x, incoming, scratch.x)
        change += joining(loss, scratch.x, v, rest, 0.0 if alone else mass - w, scratch.old, scratch.new)
    return change


@inner
def spread_change(data, loss, state, scratch, a, b, h):
    """Change of what the rows of two fairlets pay to their own means."""
    f = int(state.fairlet[a])
    change = replaced(data, loss, scratch, state.total[f], state.mass[f], state.size[f] == 1, a, b)
    return change + replaced(
        data, loss, scratch, state.total[h], state.mass[h], b != NOBODY and state.size[h] == 1, b, a
    )


@inner
def cluster_change(data, loss, state, scratch, a, b, h):
    """Change of what the rows of two clusters pay to these clusters' means."""
    f = int(state.fairlet[a])
    k, q = int(state.cluster[f]), int(state.cluster[h])
    if k == q:
        return 0.0
    alone = state.number[k] == 1 and state.size[f] == 1
    change = replaced(data, loss, scratch, state.sums[k], state.weight[k], alone, a, b)
    alone = b != NOBODY and state.number[q] == 1 and state.size[h] == 1
    return change + replaced(data, loss, scratch, state.sums[q], state.weight[q], alone, b, a)


@inner
def new_centers(data, state, scratch, a, b, h):
    """The centres of both fairlets before and after an exchange."""
    f, gain = int(state.fairlet[a]), new_mass(data, a, b)
    copy_center(state.total, state.mass, f, scratch.f_old)
    copy_center(state.total, state.mass, h, scratch.h_old)
    for e in range(len(scratch.x)):
        shift = -data.weight[a] * data.x[a, e]
        if b != NOBODY:
            shift += data.weight[b] * data.x[b, e]
        scratch.f_new[e] = (state.total[f, e] + shift) / (state.mass[f] + gain)
        scratch.h_new[e] = (state.total[h, e] - shift) / (state.mass[h] - gain)


@inner
def pairs_change(loss, state, scratch, f, h, gain):
    """Change of (mean size) L_c of a loss of pairs if fairlets f and h take their new centres and weights."""
    k, q = int(state.cluster[f]), int(state.cluster[h])
    far_f, far_h = 0.0, 0.0
    for j in range(len(state.cluster)):
        c = state.cluster[j]
        if j != f and j != h and c in (k, q):
            copy_center(state.total, state.mass, j, scratch.z)
            if c == k:
                far_f += state.mass[j] * pair(loss, scratch.z, scratch.f_new)
            if c == q:
                far_h += state.mass[j] * pair(loss, scratch.z, scratch.h_new)
    mass_f, mass_h = state.mass[f] + gain, state.mass[h] - gain
    own = mass_f * far_f - state.mass[f] * state.reach[f, k]
    other = mass_h * far_h - state.mass[h] * state.reach[h, q]
    if k == q:
        both = mass_f * mass_h * pair(loss, scratch.f_new, scratch.h_new)
        both += state.mass[f] * state.mass[h] * pair(loss, scratch.f_old, scratch.h_old)
        return (own + other + both) / state.weight[k]
    change = (state.pairs[k] + 2.0 * own) / (2.0 * (state.weight[k] + gain)) - state.pairs[k] / (2.0 * state.weight[k])
    then = (state.pairs[q] + 2.0 * other) / (2.0 * (state.weight[q] - gain))
    return change + then - state.pairs[q] / (2.0 * state.weight[q])


@inner
def exchange(data, loss, state, scratch, a, b, h):
    """Row a goes to fairlet h and b, unless NOBODY, back. `scratch` holds the changes of both losses."""
    f = int(state.fairlet[a])
    state.value[LOSS_F] += scratch.change[0]
    state.value[LOSS_C] += scratch.change[1]
    reseat(data, state, a, b, h)
    k, q, gain = int(state.cluster[f]), int(state.cluster[h]), new_mass(data, a, b)
    state.mass[f] += gain
    state.mass[h] -= gain
    if k != q:
        state.weight[k] += gain
        state.weight[q] -= gain
    for e in range(data.x.shape[1]):
        shift = -data.weight[a] * data.x[a, e]
        if b != NOBODY:
            shift += data.weight[b] * data.x[b, e]
        state.total[f, e] += shift
        state.total[h, e] -= shift
        if k != q:
            state.sums[k, e] += shift
            state.sums[q, e] -= shift
    if not has_centers(loss):
        reach_further(loss, state, scratch, f, h, gain)


@inner
def reseat(data, state, a, b, h):
    """Fairlets, slots, members, counts and anchors after an exchange."""
    f, g = int(state.fairlet[a]), data.group[a]
    state.fairlet[a] = h
    if b != NOBODY:
        state.fairlet[b] = f
        state.members[f, state.slot[a]] = b
        state.members[h, state.slot[b]] = a
        state.slot[a], state.slot[b] = state.slot[b], state.slot[a]
        if g == data.anchor:
            state.anchor[f] = b
            state.anchor[h] = a
        return
    state.size[f] -= 1
    state.count[f, g] -= 1
    last = int(state.members[f, state.size[f]])
    state.members[f, state.slot[a]] = last
    state.slot[last] = state.slot[a]
    state.members[h, state.size[h]] = a
    state.slot[a] = state.size[h]
    state.size[h] += 1
    state.count[h, g] += 1


@inner
def reach_further(loss, state, scratch, f, h, gain):
    """reach and pairs after the centres and weights of fairlets f and h have changed."""
    k, q = int(state.cluster[f]), int(state.cluster[h])
    for j in range(len(state.cluster)):
        if j != f and j != h:
            copy_center(state.total, state.mass, j, scratch.z)
            then, now = pair(loss, scratch.z, scratch.f_new), pair(loss, scratch.z, scratch.f_old)
            state.reach[j, k] += state.mass[f] * then - (state.mass[f] - gain) * now
            then, now = pair(loss, scratch.z, scratch.h_new), pair(loss, scratch.z, scratch.h_old)
            state.reach[j, q] += state.mass[h] * then - (state.mass[h] + gain) * now
    reach_anew(loss, state, scratch, f)
    reach_anew(loss, state, scratch, h)
    pair_up(state, k)
    pair_up(state, q)
