"""Exact draws of a pair of clusters given their centres, for losses with conjugate centres (DESIGN 2.6).

Given centres m and lambda the units of two clusters are independent but for the counts: a unit is in cluster a with log odds
r = lambda w (d(x, m_b) - d(x, m_a)). The number of a combination's units in a is Poisson-binomial, a running table over the
units. Counts move by Metropolis steps under these laws and exp(-V); then units are drawn given counts, backwards through the
table (Chen, Dempster and Liu 1994). The normalisers of the centres come in by one Metropolis step at the end.
"""

from math import exp, floor, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy import int64

from bayesfair._compiled import inner, kernel
from bayesfair.gibbs.balance import penalty
from bayesfair.gibbs.chance import accept, bernoulli, category, integer, shuffle
from bayesfair.gibbs.losses import center_at, copy_row, joining, leaving, log_g_at, paid_at
from bayesfair.gibbs.units import IMPOSSIBLE, LAMBDA, LOSS, MOVED, settle, transfer

BLOCK = 512  # units of a combination that are drawn at a time
WINDOW = 9.0  # standard deviations of a count about its mean that a table holds
COUNT_STEPS = 20  # Metropolis steps for every combination
LARGEST_STEP = 3  # of a count, in units
CERTAIN = 40.0  # log odds beyond which a unit is not in doubt


class Tables(NamedTuple):
    """Space for a block of a pair: per combination the law of counts, in windows, and the units with their odds."""

    law: np.ndarray
    low: np.ndarray
    width: np.ndarray
    p: np.ndarray
    odds: np.ndarray
    unit: np.ndarray
    number: np.ndarray
    held: np.ndarray
    now: np.ndarray
    up: np.ndarray
    tilt: np.ndarray
    member: np.ndarray
    first: np.ndarray
    center: np.ndarray
    into_a: np.ndarray


def make_tables(units, state) -> Tables:
    """Space for `pair_draw`."""
    (n_clusters, dim), c = state.total.shape, len(units.first) - 1
    b = min(BLOCK, int(np.diff(units.first).max()))
    return Tables(
        law=np.empty((c, b + 1, b + 2)),
        low=np.empty((c, b + 1), np.int64),
        width=np.empty((c, b + 1), np.int64),
        p=np.empty((c, b)),
        odds=np.empty((c, b)),
        unit=np.empty((c, b), np.int64),
        number=np.empty(c, np.int64),
        held=np.empty(c, np.int64),
        now=np.empty(c, np.int64),
        up=np.empty(c, np.int64),
        tilt=np.empty(c),
        member=np.empty(len(state.label), np.int32),
        first=np.empty(c + 1, np.int64),
        center=np.empty((n_clusters, dim)),
        into_a=np.empty((c, b), np.bool_),
    )


def draw_pair(units, loss, balance, state, scratch, tables):
    """Draw centres given the clusters, choose a pair, near ones more often, and draw its units given the centres."""
    n_clusters = len(state.size)
    weight = np.zeros((n_clusters, n_clusters))
    choose(state.words, loss, state.number[LAMBDA], state.mass, state.total, tables.center, weight)
    far = weight[np.tril_indices(n_clusters, -1)]
    weight[np.tril_indices(n_clusters, -1)] = np.exp(-np.minimum(0.35 * (far - far.min()), 4.0))
    a, b = divmod(category(state.words, weight.ravel(), n_clusters**2), n_clusters)
    n_steps = COUNT_STEPS * (len(units.first) - 1)
    pair_draw(state.words, units, loss, balance, state, scratch, tables, a, b, n_steps)


@kernel
def choose(s, loss, lam, mass, total, center, far):
    """Draw centres, and how far they are apart, the same in both directions."""
    for k in range(len(mass)):
        center_at(loss.draw_center, s, lam * mass[k], mass[k], total[k], center[k])
        for j in range(k):
            far[k, j] = lam * min(paid_at(loss.paid, center[k], center[j]), paid_at(loss.paid, center[j], center[k]))


@kernel
def pair_draw(s, units, loss, balance, state, scratch, tables, a, b, n_steps):
    """Draw the units of clusters a and b given the centres `tables.center`, block by block."""
    n_cells, most = len(units.first) - 1, 1
    sort_members(units, state, tables, a, b)
    for c in range(n_cells):
        most = max(most, tables.first[c + 1] - tables.first[c])
    n_blocks = (most + BLOCK - 1) // BLOCK
    if n_blocks > 1:
        for c in range(n_cells):
            shuffle(s, tables.member, tables.first[c], tables.first[c + 1])
    for block in range(n_blocks):
        for c in range(n_cells):
            n = tables.first[c + 1] - tables.first[c]
            fill(units, loss, state, scratch, tables, a, b, c, n * block // n_blocks, n * (block + 1) // n_blocks)
        before = log_g(loss, state, a) + log_g(loss, state, b)
        own = move_counts(s, balance, state, tables, a, b, len(scratch.x), n_steps)
        draw_units(s, units, loss, balance, state, scratch, tables, a, b, own, before)


@inner
def sort_members(units, state, tables, a, b):
    """The members of a and b, combination by combination."""
    at = 0
    for c in range(len(units.first) - 1):
        tables.first[c] = at
        for z in range(units.first[c], units.first[c + 1]):
            i = units.order[z]
            if state.label[i] == a or state.label[i] == b:
                tables.member[at] = i
                at += 1
    tables.first[len(units.first) - 1] = at


@inner
def fill(units, loss, state, scratch, tables, a, b, c, first, last):
    """The units first..last of a combination's members: their log odds, how many are in a, and the law of that number."""
    n, held, lam = last - first, int64(0), state.number[LAMBDA]
    for z in range(n):
        i = int64(tables.member[tables.first[c] + first + z])
        copy_row(units.x, i, scratch.x)
        to_a = paid_at(loss.paid, scratch.x, tables.center[a])
        tables.unit[c, z] = i
        tables.odds[c, z] = lam * units.weight[i] * (paid_at(loss.paid, scratch.x, tables.center[b]) - to_a)
        held += state.label[i] == a
    tables.number[c], tables.held[c], tables.now[c] = n, held, held
    if n > 0:
        tables.tilt[c] = tilt_to(tables.odds[c], n, held)
        count_law(tables.odds[c], n, tables.tilt[c], tables.law[c], tables.low[c], tables.width[c], tables.p[c])


@inner
def tilt_to(odds, n, held):
    """What to add to all log odds so that `held` units are expected in a: Newton's method, kept inside a bracket."""
    wanted, low, high = min(max(float(held), 0.5), n - 0.5), 1e30, -1e30
    for z in range(n):
        low, high = min(low, odds[z]), max(high, odds[z])
    low, high = -high - CERTAIN, -low + CERTAIN
    tilt = min(max(0.0, low), high)
    for _ in range(60):
        mean, variance = 0.0, 0.0
        for z in range(n):
            q = 1.0 / (1.0 + exp(-(odds[z] + tilt)))
            mean += q
            variance += q * (1.0 - q)
        if mean < wanted:
            low = tilt
        else:
            high = tilt
        if abs(mean - wanted) < 0.3 or high - low < 1e-9:
            break
        newton = tilt + (wanted - mean) / max(variance, 1e-12)
        tilt = newton if low < newton < high else 0.5 * (low + high)
    return tilt


@inner
def count_law(odds, n, tilt, law, low, width, p):
    """law[z, c - low[z]]: the probability of c successes among the first z units, in a window about its mean."""
    mean, variance = 0.0, 0.0
    low[0], width[0], law[0, 0] = 0, 1, 1.0
    for z in range(n):
        q = 1.0 / (1.0 + exp(-(odds[z] + tilt)))
        p[z] = q
        mean += q
        variance += q * (1.0 - q)
        reach = WINDOW * sqrt(variance) + 3.0
        first = max(floor(mean - reach), low[z])
        last = min(int64(mean + reach) + 1, low[z] + width[z])
        low[z + 1], width[z + 1] = first, last - first + 1
        now, then = law[z], law[z + 1]
        begin, end = max(first, low[z] + 1), min(last, low[z] + width[z] - 1) + 1
        if first == low[z]:
            then[0] = (1.0 - q) * now[0]
        if begin < end:
            stay, more = now[begin - low[z] : end - low[z]], now[begin - low[z] - 1 : end - low[z] - 1]
            into = then[begin - first : end - first]
            for k in range(len(into)):
                into[k] = (1.0 - q) * stay[k] + q * more[k]
        if last == low[z] + width[z]:
            then[last - first] = q * now[width[z] - 1]


@inner
def log_law(tables, c, count):
    """Log probability, untilted and up to a constant, that `count` units of the block's combination are in a."""
    n = tables.number[c]
    k = count - tables.low[c, n]
    if k < 0 or k >= tables.width[c, n] or tables.law[c, n, k] <= 0.0:
        return IMPOSSIBLE
    return log(tables.law[c, n, k]) - tables.tilt[c] * count


@inner
def log_g(loss, state, k):
    """Log of the normaliser of cluster k's centre."""
    return log_g_at(loss.log_g, state.number[LAMBDA] * state.mass[k], state.mass[k], state.total[k])


@inner
def about_g(dim, size_a, size_b):
    """What the normalisers of two clusters are by their sizes alone, up to a constant: exact for k-means without weights."""
    return -0.5 * dim * (log(float(size_a)) + log(float(size_b)))


@inner
def move_counts(s, balance, state, tables, a, b, dim, n_steps):
    """Counts of the block in a, by Metropolis steps; returns `about_g` of the old sizes."""
    own = about_g(dim, state.size[a], state.size[b])
    v = state.penalty[a] + state.penalty[b]
    size_a, size_b = state.size[a], state.size[b]
    for _ in range(n_steps):
        rows = propose(s, tables)
        then_a, then_b, ratio = size_a + rows, size_b - rows, 0.0
        if then_a < 1 or then_b < 1:
            continue
        for c in range(len(tables.up)):
            ratio += step_ratio(tables, c)
        if ratio <= 0.5 * IMPOSSIBLE:
            continue
        shift_all(balance, state, a, b, tables.up, 1)
        first, bounds, extra, strength = balance.first, balance.bounds, balance.extra, state.strength
        then = penalty(first, bounds, extra, strength, state.count, a, then_a)
        then += penalty(first, bounds, extra, strength, state.count, b, then_b)
        ratio += about_g(dim, size_a, size_b) - about_g(dim, then_a, then_b) - (then - v)
        if accept(s, ratio):
            for c in range(len(tables.up)):
                tables.now[c] += tables.up[c]
            size_a, size_b, v = then_a, then_b, then
        else:
            shift_all(balance, state, a, b, tables.up, -1)
    for c in range(len(tables.up)):  # units move one by one, and take their counts with them
        tables.up[c] = tables.held[c] - tables.now[c]
    shift_all(balance, state, a, b, tables.up, 1)
    return own - about_g(dim, size_a, size_b)


@inner
def propose(s, tables):
    """Write a step of the counts to `up`, the opposite step as likely; returns how many rows it brings to a.

    It changes one or two combinations by a few rows, or all of them in proportion, by any number of rows.
    """
    n_cells, rows = len(tables.up), 0
    n_units = tables.first[n_cells]
    for c in range(n_cells):
        tables.up[c] = 0
    if bernoulli(s, 0.5):
        c, d = integer(s, n_cells), integer(s, n_cells)
        tables.up[c] = integer(s, 2 * LARGEST_STEP + 1) - LARGEST_STEP
        if c != d:
            tables.up[d] = integer(s, 2 * LARGEST_STEP + 1) - LARGEST_STEP
    else:
        most = 1 << integer(s, int64(log(n_units + 1.0)) + 1)
        wanted, sign = 1 + integer(s, most), 2 * bernoulli(s, 0.5) - 1
        for c in range(n_cells):
            share = wanted * (tables.first[c + 1] - tables.first[c]) / n_units
            tables.up[c] = sign * (int64(share) + bernoulli(s, share - int64(share)))
    for c in range(n_cells):
        rows += tables.up[c]
    return rows


@inner
def step_ratio(tables, c):
    """Log ratio of the law of a combination's count after the step `up`."""
    up = tables.up[c]
    if up == 0:
        return 0.0
    if tables.number[c] == 0:
        return IMPOSSIBLE
    return log_law(tables, c, tables.now[c] + up) - log_law(tables, c, tables.now[c])


@inner
def shift_all(balance, state, a, b, up, sign):
    """up[c] units of every combination go from b to a, in the counts of every family; back again with sign -1."""
    for c in range(len(up)):
        for f in range(balance.of_cell.shape[1]):
            state.count[a, balance.of_cell[c, f]] += sign * up[c]
            state.count[b, balance.of_cell[c, f]] -= sign * up[c]


@inner
def draw_units(s, units, loss, balance, state, scratch, tables, a, b, about, before):
    """Units given counts, backwards through the tables. Normalisers that are not those of the sizes decide at the end."""
    for c in range(len(tables.number)):
        count = tables.now[c]
        for z in range(tables.number[c] - 1, -1, -1):
            k = count - tables.low[c, z]
            p, width = tables.p[c, z], tables.width[c, z]
            up = p * tables.law[c, z, k - 1] if 0 <= k - 1 < width else 0.0
            down = (1.0 - p) * tables.law[c, z, k] if 0 <= k < width else 0.0
            tables.into_a[c, z] = bernoulli(s, up / (up + down))
            count -= tables.into_a[c, z]
    change = flip_block(units, loss, balance, state, scratch, tables, a, b)
    if accept(s, before - log_g(loss, state, a) - log_g(loss, state, b) - about):
        state.number[LOSS] += change
    else:
        flip_block(units, loss, balance, state, scratch, tables, a, b)
    settle(balance, state, scratch.mean, scratch.without, scratch.joined, a)
    settle(balance, state, scratch.mean, scratch.without, scratch.joined, b)


@inner
def flip_block(units, loss, balance, state, scratch, tables, a, b):
    """Units of the block take the cluster in `into_a`, which then holds the old ones; returns the change of the loss."""
    change = 0.0
    for c in range(len(tables.number)):
        for z in range(tables.number[c]):
            i = tables.unit[c, z]
            old, new = int64(state.label[i]), a if tables.into_a[c, z] else b
            tables.into_a[c, z] = old == a
            if old != new:
                copy_row(units.x, i, scratch.x)
                w = units.weight[i]
                change -= leaving(loss, scratch.x, w, state.total[old], state.mass[old], scratch.old, scratch.new)
                change += joining(loss, scratch.x, w, state.total[new], state.mass[new], scratch.old, scratch.new)
                transfer(
                    units.x, units.weight, balance.group, state.label, state.count, state.size, state.mass, state.total,
                    i, old, new,
                )  # fmt: skip
                state.step[MOVED] += 1
    return change
