"""A path from one mode to another for units: the centres move in small steps, and the units follow, given the centres."""

from math import exp, inf, isnan

import numpy as np

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.balance import penalty, penalty_with
from bayesfair.gibbs.chance import bernoulli, category
from bayesfair.gibbs.losses import KMEANS, copy_row, paid_at
from bayesfair.gibbs.modes.places import choose_way, log_density, log_gain, make_way, place_at, pull
from bayesfair.gibbs.units import (
    IMPOSSIBLE,
    LAMBDA,
    LOSS,
    NEGLIGIBLE,
    OUTSIDE,
    make_scratch,
    sum_up,
    transfer,
)


def unit_path(units, loss, balance, schedule, places, state, length):
    """(the mode of origin, log of exp(w) |dT|) of a path from a state in S to another mode, at whose end the state is left.

    The log is -inf if T does not lead back, or the path does not end in S: then the jump is refused.
    """
    way, scratch = make_way(*state.total.shape), make_scratch(balance, state)
    origin, log_ratio = along(state.words, units, loss, balance, schedule, places, state, scratch, way, length)
    sum_up(units, loss, balance, state)
    return origin, log_ratio if state.step[OUTSIDE] == 0 else -inf


@kernel
def along(s, units, loss, balance, schedule, places, state, scratch, way, length):
    """(the mode of origin, log of exp(w) |dT|) of the path, whether or not it ends in S."""
    start, shape, rate = state.number[LAMBDA], schedule.shape, schedule.rate
    origin, there, log_ratio = choose_way(s, loss, places, way, start, state.mass, state.total, shape > 0.0)
    if log_ratio == -inf:
        return origin, log_ratio
    place_at(loss, way, 0.0)
    for t in range(1, length + 1):
        before = density(loss, way, state, shape, rate, scratch.x)
        state.number[LAMBDA] = start * (there / start) ** (t / length)
        place_at(loss, way, t / length)
        log_ratio += density(loss, way, state, shape, rate, scratch.x) - before
        if t < length:
            follow(s, units, loss, balance, state, scratch, way, bernoulli(s, 0.5))
    return origin, log_ratio


@inner
def density(loss, way, state, shape, rate, mean):
    """log pi(z, theta) of the state, at the place on the way."""
    return log_density(loss, way, state.number[LAMBDA], state.mass, state.total, state.number[LOSS], shape, rate, mean)


@inner
def follow(s, units, loss, balance, state, scratch, way, backwards):
    """Every unit once, in turn or `backwards`, given the centres on the way."""
    before = pull(loss, way, state.mass, state.total, scratch.old)
    paid = visits_given(s, units, loss, balance, state, scratch, way.center, backwards)
    state.number[LOSS] += paid - (pull(loss, way, state.mass, state.total, scratch.old) - before)


@kernel
def visits_given(s, units, loss, balance, state, scratch, center, backwards):
    """Units take clusters by their full conditionals under the relaxed law given centres; what they pay more for these.

    A lone unit may not leave its cluster. cost[k] is lambda w d(x, m_k), and what log g_k gains by the unit.
    """
    x, weight, label, count, size, mass = units.x, units.weight, state.label, state.count, state.size, state.mass
    total, v, strength, step, lam = state.total, state.penalty, state.strength, state.step, state.number[LAMBDA]
    cell, of_cell, first, bounds, extra = units.cell, balance.of_cell, balance.first, balance.bounds, balance.extra
    without, joined, group = scratch.without, scratch.joined, balance.group
    mean, cost, p, row, after = scratch.mean, scratch.cost, scratch.p, scratch.x, scratch.new
    n_obs, (n_clusters, dim), paid = len(label), total.shape, 0.0
    for k in range(n_clusters):
        for e in range(dim):
            mean[e, k] = center[k, e]
    without[:] = np.nan
    joined[:] = np.nan
    for turn in range(n_obs):
        i = n_obs - 1 - turn if backwards else turn
        a, w = int(label[i]), weight[i]
        if size[a] == 1:
            continue
        copy_row(x, i, row)
        if loss.kind == KMEANS:
            cost[:] = 0.0
            for e in range(dim):
                for k in range(n_clusters):
                    off = row[e] - mean[e, k]
                    cost[k] += off * off
        else:
            for k in range(n_clusters):
                cost[k] = paid_at(loss.paid, row, center[k])
        for k in range(n_clusters):
            more = -1.0 if k == a else 1.0
            p[k] = lam * w * cost[k] + more * log_gain(loss, lam, mass[k], total[k], w, row, more, after)
        own, near = p[a] + v[a] + NEGLIGIBLE, False
        for k in range(n_clusters):
            near |= k != a and p[k] - v[k] < own
        if not near:
            continue
        c = cell[i]
        if isnan(without[a, c]):
            without[a, c] = penalty_with(first, bounds, extra, strength, count, a, size[a], of_cell, c, -1)
        own, top = p[a], 0.0
        for k in range(n_clusters):
            if k != a and p[k] - v[k] < own + v[a] + NEGLIGIBLE:
                if isnan(joined[k, c]):
                    joined[k, c] = penalty_with(first, bounds, extra, strength, count, k, size[k], of_cell, c, 1)
                p[k] = own - p[k] - (without[a, c] - v[a]) - (joined[k, c] - v[k])
                top = max(top, p[k])
            else:
                p[k] = 0.0 if k == a else IMPOSSIBLE
        for k in range(n_clusters):
            p[k] = exp(p[k] - top)
        b = category(s, p, n_clusters)
        if b != a:
            paid += w * (cost[b] - cost[a])
            transfer(x, weight, group, label, count, size, mass, total, i, a, b)
            step[OUTSIDE] -= v[a] > 0.0
            step[OUTSIDE] -= v[b] > 0.0
            v[a] = penalty(first, bounds, extra, strength, count, a, size[a])
            v[b] = penalty(first, bounds, extra, strength, count, b, size[b])
            step[OUTSIDE] += v[a] > 0.0
            step[OUTSIDE] += v[b] > 0.0
            without[a], without[b], joined[a], joined[b] = np.nan, np.nan, np.nan, np.nan
    return paid
