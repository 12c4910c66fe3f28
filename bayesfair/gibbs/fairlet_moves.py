"""Moves of fairlets B (exchanges of rows, extra members, the rectangular loop) and of their clusters C (paper, eq. 12).

The loops take arrays out of the tuples once, and call functions of the few arrays that they need: see `compiled`.
"""

from math import exp, isinf, isnan
from typing import NamedTuple

from numpy import int64

from bayesfair._compiled import inner
from bayesfair.gibbs.chance import accept, bernoulli, category, integer
from bayesfair.gibbs.fairlet_costs import (
    anchored_change,
    anchors_change,
    copy_center,
    hub_change,
    new_centers,
    pairs_change,
    pulled,
    replaced,
    squares_change,
)
from bayesfair.gibbs.fairlets import (
    FAILED,
    LAMBDA,
    LAMBDA_F,
    LOSS_C,
    LOSS_F,
    MOVED,
    NOBODY,
    SWAPPED,
    TRIED,
    VISITED,
    pair_up,
    reach_anew,
)
from bayesfair.gibbs.losses import KMEANS, is_own, paid_at, visit_costs


class SweepPlan(NamedTuple):
    """What a sweep is: numbers of moves of B, then `visits` visits of every fairlet, each followed by a draw of lambda.

    joint: whether moves of B read L_c; if not, lambda_f is never drawn. near, random, extra, steps: exchanges of near rows, of
    any two rows of a group, moves of extra members, steps of the rectangular loop. lambda | . ~ Gamma(shape,
    rate + factor L_f + (mean size) L_c), or fixed if shape is 0.
    """

    joint: bool
    near: int
    random: int
    extra: int
    steps: int
    visits: int
    shape: float
    rate: float
    factor: float


@inner
def exchanges(s, data, loss, plan, state, scratch, first, last):
    """The moves first..last of B in a sweep: a row a goes to fairlet h, and b, unless NOBODY, comes back.

    Near anchors of fairlets with the same bounds change places too, and the other members stay. A row goes alone where bounds
    allow it. Proposals are symmetric: Metropolis decides, or the heat bath of the rectangular loop.
    """
    x, weight, group, order, starts = data.x, data.weight, data.group, data.order, data.first
    movers, lower, upper, edges, width = data.movers, data.lower, data.upper, data.edges, data.width
    fairlet, slot, members, size, count = state.fairlet, state.slot, state.members, state.size, state.count
    cluster, anchors, mass, total = state.cluster, state.anchor, state.mass, state.total
    number, heavy, sums, reach, pairs = state.number, state.weight, state.sums, state.reach, state.pairs
    row, other, middle, old, new, rest = scratch.x, scratch.y, scratch.z, scratch.old, scratch.new, scratch.rest
    f_old, f_new, h_old, h_new = scratch.f_old, scratch.f_new, scratch.h_old, scratch.h_new
    value, step, lam_f = state.value, state.step, state.value[LAMBDA_F]
    lam, given = value[LAMBDA] if plan.joint else 0.0, scratch.given
    n_single = plan.near + plan.random + plan.extra
    for at in range(first, last):
        if at < plan.near:
            a, b = near_rows(s, edges)
            h = int64(fairlet[b])
        elif at < plan.near + plan.random:
            a, b = random_rows(s, movers, group, order, starts)
            h = int64(fairlet[b])
        elif at < n_single:
            a, b, h = extra_member(s, movers, len(cluster))
        else:
            a, b, h = loop_step(s, group, members, size, width, data.anchor, len(cluster))
        if a == NOBODY or fairlet[a] == h:
            continue
        f, g, comes = int64(fairlet[a]), int64(group[a]), b != NOBODY
        if not comes and (count[f, g] <= lower[f, g] or count[h, g] >= upper[h, g]):
            continue
        if g == data.anchor and not have_same_bounds(lower, upper, f, h):
            continue
        step[TRIED] += 1
        if not comes:
            b = a
        w, v, k, q = weight[a], weight[b] if comes else 0.0, int64(cluster[f]), int64(cluster[h])
        if loss.kind == KMEANS:
            fairlets = squares_change(x, a, w, b, v, total, mass, f, h)
            clusters = squares_change(x, a, w, b, v, sums, heavy, k, q) - fairlets if k != q else -fairlets
        elif len(reach) == 0:
            lone_f, lone_h = size[f] == 1, size[h] == 1
            fairlets = replaced(x, loss, row, rest, old, new, total[f], mass[f], lone_f, a, w, b, v)
            fairlets += replaced(x, loss, row, rest, old, new, total[h], mass[h], lone_h, b, v, a, w)
            clusters = -fairlets
            if k != q:
                lone_f, lone_h = lone_f and number[k] == 1, lone_h and number[q] == 1
                clusters += replaced(x, loss, row, rest, old, new, sums[k], heavy[k], lone_f, a, w, b, v)
                clusters += replaced(x, loss, row, rest, old, new, sums[q], heavy[q], lone_h, b, v, a, w)
        else:
            new_centers(x, a, w, b, v, total, mass, f, h, f_old, f_new, h_old, h_new)
            clusters = pairs_change(
                loss, cluster, total, mass, heavy, reach, pairs, middle, f_old, f_new, h_old, h_new, f, h, v - w
            )
            fairlets = 0.0
            if data.anchor == NOBODY:
                fairlets = hub_change(x, weight, loss, row, members, size, f_old, f_new, h_old, h_new, a, w, b, v, f, h)
        if g == data.anchor:
            fairlets = anchors_change(x, weight, loss, row, other, middle, members, size, a, b, f, h)
        elif data.anchor != NOBODY:
            fairlets = anchored_change(x, weight, loss, row, other, middle, anchors, a, v, b, f, h)
        log = log_ratio(lam_f, lam, fairlets, clusters)
        if len(given) > 0 and k != q:
            log -= pulled(x, loss, old, new, given[k], sums[k], heavy[k], lam, a, w, b, v)
            log -= pulled(x, loss, old, new, given[q], sums[q], heavy[q], lam, b, v, a, w)
        if isnan(log) or (is_own(loss) and isinf(fairlets + clusters)):
            step[FAILED] = a + 1
            value[LOSS_C] = fairlets + clusters
            break
        if bernoulli(s, heat_bath(log)) if at >= n_single else accept(s, log):
            step[SWAPPED] += 1
            value[LOSS_F] += fairlets
            value[LOSS_C] += clusters
            if g == data.anchor:
                anchors[f], anchors[h] = b, a
            if comes:
                change_places(fairlet, slot, members, a, b, f, h)
            else:
                go_alone(fairlet, slot, members, size, count, a, g, f, h)
            shift(x, a, w, b, v, total, mass, f, h)
            if k != q:
                shift(x, a, w, b, v, sums, heavy, k, q)
            if len(reach) > 0:
                for z in range(2):
                    i, j, gain = (f, h, v - w) if z == 0 else (h, f, w - v)
                    then, now = (f_old, f_new) if z == 0 else (h_old, h_new)
                    reach_further(loss.paid, cluster, total, mass, reach, row, then, now, mass[i] - gain, i, j)
                for z in range(2):
                    reach_anew(loss.paid, cluster, total, mass, reach, row, other, f if z == 0 else h)
                for z in range(2):
                    pair_up(cluster, mass, reach, pairs, k if z == 0 else q)


# Proposals


@inner
def near_rows(s, edges):
    """One of a fixed list of pairs of near rows."""
    at = integer(s, len(edges))
    return int64(edges[at, 0]), int64(edges[at, 1])


@inner
def random_rows(s, movers, group, order, starts):
    """Any row that is no anchor, and any row of its group."""
    a = int64(movers[integer(s, len(movers))])
    g = group[a]
    return a, int64(order[starts[g] + integer(s, starts[g + 1] - starts[g])])


@inner
def extra_member(s, movers, n_fairlets):
    """Any row that is no anchor, alone, and any fairlet."""
    return int64(movers[integer(s, len(movers))]), NOBODY, integer(s, n_fairlets)


@inner
def loop_step(s, group, members, size, width, anchor, m):
    """A step of the rectangular loop (Algorithm 1): its checkerboard, which is swapped with probability w' / (w + w').

    The matrix of a group has a row for every fairlet and a column for every member or empty slot, so that columns sum to one. A
    step draws a cell (i1, j1). If it holds a one, j2 is among the zeros of row i1, and i2 is the row that holds j2. If it holds
    a zero, i2 is the row that holds j1, and j2 is among the zeros of row i2. Either way another row than j1's holds j2, and the
    cells are a checkerboard if i1 is one of these two rows. The proposal is symmetric (`fairlets.rectangular_loop`).
    """
    row, f = integer(s, m), integer(s, m)
    h = (f + 1 + integer(s, m - 1)) % m
    if row != f and row != h:
        return NOBODY, NOBODY, h
    n_slots = 0
    for g in range(len(width)):
        n_slots += 0 if g == anchor else width[g]
    at, g = integer(s, n_slots), 0
    while g == anchor or at >= width[g]:
        at -= 0 if g == anchor else width[g]
        g += 1
    a = member(group, members, size, f, g, at)
    b = member(group, members, size, h, g, integer(s, width[g]))
    return (a, b, h) if a != NOBODY else (b, a, f)


@inner
def member(group, members, size, f, g, at):
    """The member number `at` of group g in fairlet f, or NOBODY if that slot is empty."""
    for t in range(size[f]):
        i = int64(members[f, t])
        if group[i] == g:
            if at == 0:
                return i
            at -= 1
    return NOBODY


# Decisions


@inner
def have_same_bounds(lower, upper, f, h):
    """Whether fairlets f and h may have the same members: an anchor keeps the composition that was asked for it."""
    same = True
    for g in range(lower.shape[1]):
        same &= lower[f, g] == lower[h, g] and upper[f, g] == upper[h, g]
    return same


@inner
def log_ratio(lam_f, lam, fairlets, clusters):
    """Log of the ratio of the target by the changes of both losses."""
    return -lam_f * fairlets - lam * clusters


@inner
def heat_bath(log):
    """w' / (w + w') from log(w' / w), without overflow."""
    return 1.0 / (1.0 + exp(-log)) if log >= 0.0 else exp(log) / (1.0 + exp(log))


# What follows an exchange


@inner
def change_places(fairlet, slot, members, a, b, f, h):
    """Row a takes the place of b in fairlet h, and b that of a in f."""
    fairlet[a], fairlet[b] = h, f
    members[f, slot[a]], members[h, slot[b]] = b, a
    slot[a], slot[b] = slot[b], slot[a]


@inner
def go_alone(fairlet, slot, members, size, count, a, g, f, h):
    """Row a of group g leaves fairlet f for h; the last member of f takes its place."""
    fairlet[a] = h
    size[f] -= 1
    count[f, g] -= 1
    last = members[f, size[f]]
    members[f, slot[a]] = last
    slot[last] = slot[a]
    members[h, size[h]] = a
    slot[a] = size[h]
    size[h] += 1
    count[h, g] += 1


@inner
def shift(x, a, w, b, v, total, mass, f, h):
    """Weights and sums of the sets f and h: row a goes from f to h, and b comes back."""
    mass[f] += v - w
    mass[h] -= v - w
    for e in range(x.shape[1]):
        g = v * x[b, e] - w * x[a, e]
        total[f, e] += g
        total[h, e] -= g


@inner
def reach_further(paid, cluster, total, mass, reach, x, then, now, before, f, h):
    """What all but f and h pay to the cluster of f, after its centre was `then` and its weight `before`."""
    for j in range(len(cluster)):
        if j != f and j != h:
            copy_center(total, mass, j, x)
            reach[j, cluster[f]] += mass[f] * paid_at(paid, x, now) - before * paid_at(paid, x, then)


# Clusters


@inner
def reallocations(s, loss, state, scratch, first, last):
    """The fairlets first..last take clusters by their full conditionals, eq. (12); a lone one may not leave its cluster."""
    cluster, members, mass, total = state.cluster, state.members, state.mass, state.total
    number, heavy, sums, reach, pairs = state.number, state.weight, state.sums, state.reach, state.pairs
    mean, cost, p, center, other = scratch.mean, scratch.cost, scratch.p, scratch.x, scratch.y
    old, new, value, step, lam = scratch.old, scratch.new, state.value, state.step, state.value[LAMBDA]
    n_clusters, dim = sums.shape
    for k in range(n_clusters):
        set_mean(mean, sums, heavy, k)
    for f in range(first, last):
        step[VISITED] += 1
        a, w = int64(cluster[f]), mass[f]
        if number[a] == 1:
            continue
        copy_center(total, mass, f, center)
        if loss.kind == KMEANS:
            for k in range(n_clusters):
                cost[k] = 0.0
            for e in range(dim):
                for k in range(n_clusters):
                    off = center[e] - mean[e, k]
                    cost[k] += off * off
            own = cost[a] * (w * heavy[a] / (heavy[a] - w))
            for k in range(n_clusters):
                cost[k] *= w * heavy[k] / (heavy[k] + w)
            cost[a] = own
        else:
            visit_costs(loss, center, w, heavy, sums, reach, pairs, old, new, cost, f, a)
        least = cost[0]
        for k in range(n_clusters):
            least = min(least, cost[k])
            if isnan(cost[k]) or (is_own(loss) and isinf(cost[k])):
                step[FAILED] = members[f, 0] + 1
                value[LOSS_C] = cost[k]
        if step[FAILED] > 0:
            break
        for k in range(n_clusters):
            p[k] = exp(-lam * (cost[k] - least))
        b = category(s, p, n_clusters)
        if b != a:
            step[MOVED] += 1
            value[LOSS_C] += cost[b] - cost[a]
            join(cluster, mass, total, number, heavy, sums, f, a, b)
            set_mean(mean, sums, heavy, a)
            set_mean(mean, sums, heavy, b)
            if len(reach) > 0:
                shift_reach(loss, cluster, mass, total, reach, center, other, f, a, b)
                pair_up(cluster, mass, reach, pairs, a)
                pair_up(cluster, mass, reach, pairs, b)


@inner
def set_mean(mean, sums, weight, k):
    """The mean of cluster k, in the layout that costs are computed in."""
    for e in range(len(mean)):
        mean[e, k] = sums[k, e] / weight[k]


@inner
def join(cluster, mass, total, number, weight, sums, f, a, b):
    """Fairlet f leaves cluster a for b: numbers, weights and sums follow."""
    cluster[f] = b
    number[a] -= 1
    number[b] += 1
    weight[a] -= mass[f]
    weight[b] += mass[f]
    for e in range(total.shape[1]):
        sums[a, e] -= total[f, e]
        sums[b, e] += total[f, e]


@inner
def shift_reach(loss, cluster, mass, total, reach, center, other, f, a, b):
    """What other fairlets pay to clusters a and b after f has left a for b."""
    for j in range(len(cluster)):
        if j != f:
            copy_center(total, mass, j, other)
            far = mass[f] * paid_at(loss.paid, center, other)
            reach[j, a] -= far
            reach[j, b] += far
