"""Moves of fairlets B (exchanges of rows, extra members, the rectangular loop) and of their clusters C (paper, eq. 12)."""

from math import exp, isnan
from typing import NamedTuple

from bayesfair.sampler.chance import accept, bernoulli, category, integer
from bayesfair.sampler.compiled import inner
from bayesfair.sampler.fairlets import (
    FAILED,
    LAMBDA,
    LAMBDA_F,
    LOSS_C,
    MOVED,
    NOBODY,
    SWAPPED,
    TRIED,
    VISITED,
    changes,
    copy_center,
    exchange,
    pair_up,
)
from bayesfair.sampler.losses import has_centers, joining, leaving, pair


class Plan(NamedTuple):
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
def attempt(s, data, loss, plan, state, scratch, a, b, h, in_loop):
    """Row a goes to fairlet h and b, unless NOBODY, back: by Metropolis, or by the heat bath of the rectangular loop."""
    state.step[TRIED] += 1
    changes(data, loss, state, scratch, a, b, h)
    log = log_ratio(plan, state, scratch)
    if isnan(log):
        state.step[FAILED] = a + 1
    elif bernoulli(s, heat_bath(log)) if in_loop else accept(s, log):
        state.step[SWAPPED] += 1
        exchange(data, loss, state, scratch, a, b, h)


@inner
def log_ratio(plan, state, scratch):
    """Log of the ratio of the target by the changes of both losses."""
    log = -state.value[LAMBDA_F] * scratch.change[0]
    return log - state.value[LAMBDA] * scratch.change[1] if plan.joint else log


# Proposals: rows a and b, and the fairlet h of b; a is NOBODY if nothing is proposed


@inner
def same_group(data, state, a, b):
    """Rows a and b of one group, if they may change places: anchors only between fairlets with the same bounds."""
    f, h = int(state.fairlet[a]), int(state.fairlet[b])
    if f == h or (data.group[a] == data.anchor and data.kind[f] != data.kind[h]):
        return NOBODY, NOBODY, h
    return a, b, h


@inner
def near_rows(s, data, state):
    """One of a fixed list of pairs of near rows."""
    at = integer(s, len(data.edges))
    return same_group(data, state, int(data.edges[at, 0]), int(data.edges[at, 1]))


@inner
def random_rows(s, data, state):
    """Any row, and any row of its group."""
    a = integer(s, len(data.group))
    g = int(data.group[a])
    b = int(data.order[data.first[g] + integer(s, data.first[g + 1] - data.first[g])])
    return same_group(data, state, a, b)


@inner
def may_go(data, state, a, h):
    """Whether row a may leave its fairlet for h."""
    f, g = int(state.fairlet[a]), int(data.group[a])
    return f != h and state.count[f, g] > data.lower[f, g] and state.count[h, g] < data.upper[h, g]


@inner
def extra_member(s, data, state):
    """Any row that is no anchor, alone, and any fairlet, where bounds allow it."""
    a = int(data.movers[integer(s, len(data.movers))])
    h = integer(s, len(state.cluster))
    return (a if may_go(data, state, a, h) else NOBODY), NOBODY, h


@inner
def member(data, state, f, g, at):
    """The member number `at` of group g in fairlet f, or NOBODY if that slot is empty."""
    for t in range(state.size[f]):
        i = int(state.members[f, t])
        if data.group[i] == g:
            if at == 0:
                return i
            at -= 1
    return NOBODY


@inner
def loop_step(s, data, state):
    """A step of the rectangular loop (Algorithm 1): its checkerboard, which is swapped with probability w' / (w + w').

    The matrix of a group has a row for every fairlet and a column for every member or empty slot, so that columns sum to one. A
    step draws a cell (i1, j1). If it holds a one, j2 is among the zeros of row i1, and i2 is the row that holds j2. If it holds
    a zero, i2 is the row that holds j1, and j2 is among the zeros of row i2. Either way another row than j1's holds j2, and the
    cells are a checkerboard if i1 is one of these two rows. The proposal is symmetric (`fairlets.rectangular_loop`).
    """
    m = len(state.cluster)
    row, f = integer(s, m), integer(s, m)
    h = (f + 1 + integer(s, m - 1)) % m
    if row != f and row != h:
        return NOBODY, NOBODY, h
    n_slots = 0
    for g in range(len(data.width)):
        n_slots += 0 if g == data.anchor else data.width[g]
    at, g = integer(s, n_slots), 0
    while g == data.anchor or at >= data.width[g]:
        at -= 0 if g == data.anchor else data.width[g]
        g += 1
    a = member(data, state, f, g, at)
    b = member(data, state, h, g, integer(s, data.width[g]))
    if a == NOBODY:
        a, b, f, h = b, a, h, f
    if a == NOBODY or (b == NOBODY and not may_go(data, state, a, h)):
        return NOBODY, NOBODY, h
    return a, b, h


@inner
def heat_bath(log):
    """w' / (w + w') from log(w' / w), without overflow."""
    return 1.0 / (1.0 + exp(-log)) if log >= 0.0 else exp(log) / (1.0 + exp(log))


@inner
def reallocate(s, loss, state, scratch, f):
    """Fairlet f takes a cluster by its full conditional, eq. (12); a lone fairlet may not leave its cluster."""
    a, cost, p = int(state.cluster[f]), scratch.cost, scratch.p
    state.step[VISITED] += 1
    if state.number[a] == 1:
        return
    costs(loss, state, scratch, f)
    least = cost[0]
    for k in range(len(cost)):
        least = min(least, cost[k])
        if isnan(cost[k]):
            state.step[FAILED] = state.members[f, 0] + 1
    for k in range(len(cost)):
        p[k] = exp(-state.value[LAMBDA] * (cost[k] - least))
    b = category(s, p, len(cost))
    if b != a:
        state.value[LOSS_C] += cost[b] - cost[a]
        join(loss, state, scratch, f, b)


@inner
def costs(loss, state, scratch, f):
    """What its own cluster saves without fairlet f, and what every other one pays with it."""
    a, w = int(state.cluster[f]), state.mass[f]
    copy_center(state.total, state.mass, f, scratch.x)
    for k in range(len(state.number)):
        if not has_centers(loss):
            w_k, far, sign = state.weight[k], state.reach[f, k], -1.0 if k == a else 1.0
            then = (state.pairs[k] + sign * 2.0 * w * far) / (2.0 * (w_k + sign * w))
            scratch.cost[k] = sign * (then - state.pairs[k] / (2.0 * w_k))
        elif k == a:
            scratch.cost[k] = leaving(loss, scratch.x, w, state.sums[k], state.weight[k], scratch.old, scratch.new)
        else:
            scratch.cost[k] = joining(loss, scratch.x, w, state.sums[k], state.weight[k], scratch.old, scratch.new)


@inner
def join(loss, state, scratch, f, b):
    """Fairlet f leaves its cluster for b: every sum follows."""
    a, w = int(state.cluster[f]), state.mass[f]
    state.step[MOVED] += 1
    state.cluster[f] = b
    state.number[a] -= 1
    state.number[b] += 1
    state.weight[a] -= w
    state.weight[b] += w
    for e in range(state.total.shape[1]):
        state.sums[a, e] -= state.total[f, e]
        state.sums[b, e] += state.total[f, e]
    if not has_centers(loss):
        copy_center(state.total, state.mass, f, scratch.x)
        for j in range(len(state.cluster)):
            if j != f:
                copy_center(state.total, state.mass, j, scratch.y)
                far = w * pair(loss, scratch.x, scratch.y)
                state.reach[j, a] -= far
                state.reach[j, b] += far
        pair_up(state, a)
        pair_up(state, b)
