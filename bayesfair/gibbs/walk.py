"""A chain of units: pair draws and swaps between passes of visits, watched on S; what "labels" is made of."""

from math import exp, isnan, nan
from typing import NamedTuple

import numpy as np
from numpy import int64

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.balance import penalty, penalty_with, reference_of, rows_beyond
from bayesfair.gibbs.chance import category, gamma
from bayesfair.gibbs.losses import KMEANS, copy_row, is_own, visit_costs
from bayesfair.gibbs.pair_draws import draw_pair, make_tables
from bayesfair.gibbs.units import (
    EACH,
    FAILED,
    IMPOSSIBLE,
    INSIDE,
    LAMBDA,
    LOSS,
    MOVED,
    NEGLIGIBLE,
    OUTSIDE,
    PASS,
    ROW,
    VISITS,
    WAITED,
    failed,
    make_scratch,
    shift_reach,
    sum_up,
    swaps,
    transfer,
)

ANEW = 64  # passes after which sums are made from scratch
LOOK = 16  # visits between looks at the counts in the warm-up
MEMORY = 32  # passes of the warm-up over which visits in S are averaged
SELDOM = 4  # passes between draws of a pair of clusters, which take longer than a pass and pay where visits get stuck
FEWEST = 64  # a sweep has at least one in so many visits in S
WEAKEST = 6.0  # the penalty of a row beyond a bound at the start


class Schedule(NamedTuple):
    """What comes before a pass over every unit, and the law of lambda: Gamma(shape, rate + loss).

    pairs: whether pairs of clusters are drawn. swaps: how many of every unit. shape 0: lambda is fixed.
    """

    pairs: bool
    swaps: int
    shape: float
    rate: float


def go_on(units, loss, balance, schedule, state, thinning, visits, labels, numbers, first):
    """Fill draws from `first` on, within `visits`: the number of the next draw.

    A draw comes after as many visits in S as `thinning` passes bring. The warm-up has fixed how many these are.
    """
    scratch, tables, nobody = make_scratch(balance, state), make_tables(units, state), np.empty((0, 0))
    draw, last = first, state.step[VISITS] + visits
    per = max(1, int(thinning * max(state.number[EACH], len(state.label) / FEWEST)))
    while draw < len(labels) and state.step[VISITS] < last and state.step[FAILED] == 0:
        if is_between_passes(state) and state.step[PASS] % ANEW == 0:
            sum_up(units, loss, balance, state)
            scratch = make_scratch(balance, state)
        begin_pass(units, loss, balance, schedule, state, scratch, tables)
        args = units, loss, balance, schedule, state, scratch, per, last, pass_to_stop_after(schedule, state)
        draw = walk(state.words, *args, nobody, labels, numbers, draw)
    return draw


def learn(units, loss, balance, schedule, state, passes):
    """A warm-up that learns a penalty for every count of every cluster, pass by pass, and how many visits are in S."""
    n_obs, kind = len(state.label), np.min_scalar_type(-len(state.size))
    nothing = np.empty((0, n_obs), kind), np.empty((0, 2))
    scratch, tables = make_scratch(balance, state), make_tables(units, state)
    for _ in range(passes):
        begin_pass(units, loss, balance, schedule, state, scratch, tables)
        outside, last = np.zeros(state.strength.shape), state.step[VISITS] + n_obs
        inside = state.step[INSIDE]
        if state.step[FAILED]:
            return
        args = units, loss, balance, schedule, state, scratch, -1, last, state.step[PASS] + 1
        walk(state.words, *args, outside, *nothing, 0)
        if state.step[FAILED]:
            return
        state.number[EACH] += (state.step[INSIDE] - inside - state.number[EACH]) / MEMORY
        raise_strength(state.strength, outside / np.ceil(n_obs / LOOK))
        sum_up(units, loss, balance, state)
        scratch = make_scratch(balance, state)
    state.step[WAITED] = 0


def begin_pass(units, loss, balance, schedule, state, scratch, tables):
    """If a pass is to begin: draws of pairs now and then, and swaps."""
    if is_between_passes(state) and len(state.size) > 1:
        if schedule.pairs and state.step[PASS] % SELDOM == 0:
            draw_pair(units, loss, balance, state, scratch, tables)
        if schedule.swaps:
            swaps(state.words, units, loss, balance, state, scratch, 0, schedule.swaps * len(state.label))


def is_between_passes(state):
    """Whether the next visit begins a pass."""
    return state.step[ROW] == len(state.label) - 1


def pass_to_stop_after(schedule, state):
    """How many passes are begun when something has to be done again before the next one."""
    done = state.step[PASS] - (not is_between_passes(state))
    each = 1 if schedule.swaps else SELDOM if schedule.pairs else ANEW
    return (done // each + 1) * each


def raise_strength(strength, outside):
    """Penalties of a warm-up, in place: raised where counts were beyond bounds in over .3 of the looks.

    They are never lowered: a chain whose penalty is too low when the warm-up ends hardly comes into S again. So they rise
    slowly, as those that are higher than they need be are walls.
    """
    often = outside > 0.3
    strength[often] = 1.1 * strength[often] + 1.0


@kernel
def walk(s, units, loss, balance, schedule, state, scratch, per, last, last_pass, outside, labels, numbers, draw):
    """Visit units in turn until all draws are made, `last` visits are, or pass number `last_pass` ends: the next draw.

    A visit moves a unit by its full conditional under the relaxed law, over the clusters that are not negligible. A lone unit
    may not leave its cluster. cost[k] is what its own cluster saves without it, and what every other one pays with it. If
    `outside` (K, H + 1) is not empty, it counts how often counts are beyond bounds.
    """
    x, weight, label, count, size, mass = units.x, units.weight, state.label, state.count, state.size, state.mass
    total, v, strength, step = state.total, state.penalty, state.strength, state.step
    reach, pairs, number = state.reach, state.pairs, state.number
    cell, of_cell, first, bounds, extra = units.cell, balance.of_cell, balance.first, balance.bounds, balance.extra
    without, joined, group = scratch.without, scratch.joined, balance.group
    mean, cost, p, row, old, new = scratch.mean, scratch.cost, scratch.p, scratch.x, scratch.old, scratch.new
    n_obs, n_clusters, n_cells, lam, one = len(label), len(size), without.shape[1], number[LAMBDA], int64(1)
    while step[VISITS] < last:
        i = step[ROW] + 1
        if i == n_obs:
            if step[PASS] >= last_pass:
                break
            step[PASS] += 1
            i = 0
            if schedule.shape > 0.0:
                lam = gamma(s, schedule.shape) / (schedule.rate + number[LOSS])
                number[LAMBDA] = lam
        a = int64(label[i])
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
                copy_row(x, i, row)
                visit_costs(loss, row, w, mass, total, reach, pairs, old, new, cost, i, a)
                if is_own(loss):
                    for k in range(n_clusters):
                        if step[FAILED] == 0:
                            failed(step, number, cost[k], i)
                    if step[FAILED] > 0:
                        break
            own = lam * cost[a] + v[a] + NEGLIGIBLE
            near = False
            for k in range(n_clusters):
                near |= k != a and lam * cost[k] - v[k] < own
            if near:
                c = int64(cell[i])
                if isnan(without[a, c]):
                    without[a, c] = penalty_with(first, bounds, extra, strength, count, a, size[a], of_cell, c, -one)
                top = 0.0
                for k in range(n_clusters):
                    p[k] = IMPOSSIBLE
                    if k != a and lam * cost[k] - v[k] < own:
                        if isnan(joined[k, c]):
                            joined[k, c] = penalty_with(
                                first, bounds, extra, strength, count, k, size[k], of_cell, c, one
                            )
                        p[k] = lam * (cost[a] - cost[k]) - (without[a, c] - v[a]) - (joined[k, c] - v[k])
                        top = max(top, p[k])
                p[a] = 0.0
                for k in range(n_clusters):
                    p[k] = exp(p[k] - top)
                b = category(s, p, n_clusters)
                if b != a:
                    if len(reach) > 0:
                        shift_reach(x, weight, loss.paid, label, reach, pairs, row, old, i, a, b)
                    transfer(x, weight, group, label, count, size, mass, total, i, a, b)
                    number[LOSS] += cost[b] - cost[a]
                    step[MOVED] += 1
                    for z in range(2):
                        k = b if z else a
                        step[OUTSIDE] -= v[k] > 0.0
                        v[k] = penalty(first, bounds, extra, strength, count, k, size[k])
                        step[OUTSIDE] += v[k] > 0.0
                        for e in range(n_cells):
                            without[k, e] = nan
                            joined[k, e] = nan
                        for e in range(x.shape[1]):
                            mean[e, k] = total[k, e] / mass[k]
        step[ROW] = i
        step[VISITS] += 1
        if len(outside) > 0 and i % LOOK == 0 and step[OUTSIDE] > 0:
            look(first, bounds, extra, count, size, outside)
        if step[OUTSIDE] == 0:
            step[INSIDE] += 1
            step[WAITED] += 1
            if step[WAITED] == per:
                step[WAITED] = 0
                for j in range(n_obs):
                    labels[draw, j] = label[j]
                numbers[draw, 0], numbers[draw, 1] = lam, number[LOSS]
                draw += 1
                if draw == len(labels):
                    break
    return draw


@inner
def look(first, bounds, extra, count, size, outside):
    """Count which groups of which clusters are beyond their bounds now."""
    last = outside.shape[1] - 1
    for k in range(len(size)):
        for f in range(len(first) - 1):
            reference = reference_of(first, extra, count, k, size[k], f)
            for h in range(first[f], first[f + 1]):
                if rows_beyond(bounds, reference, count[k, h], h) > 0.0:
                    outside[k, h] += 1.0
        if max(extra[1] - size[k], size[k] - extra[2]) > 0.0:
            outside[k, last] += 1.0
