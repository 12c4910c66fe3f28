"""Decompositions in the hub form, where every fairlet pays D to its own centre: a local optimum and a lower bound.

The problem is NP-hard (two members of every group in a fairlet already hold three-dimensional matching). Transport of
every group to the hubs alternates with moving the hubs to their members' mean, then same-group swaps between near
fairlets are accepted at a falling temperature. In large tables blocks solved exactly stand for exact transport,
and the bound is from
rows drawn at random.
"""

from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cluster_sums
from bayesfair.fairlets.by_blocks import transport_by_blocks
from bayesfair.fairlets.dissimilarity import Dissimilarity, Minkowski, SquaredEuclidean, Weighted
from bayesfair.fairlets.near_pairs import Problem
from bayesfair.fairlets.transport import transport

__all__ = ["decompose_hubs", "fairlet_centers", "lower_bound", "member_table"]

RESTARTS, FEW = 3, 5_000  # up to so many rows; one start beyond
ALTERNATIONS = 15
SETTLED = 5e-3  # of the cost: an alternation that gains less is the last, of those that are not exact
ASKED_PAIRS = 2_000_000_000  # of two groups: up to so many the lower bound asks all for near ones, beyond it draws rows
SWAP_ROUNDS = 600
FAILURE = 1e-9  # probability that a sampled bound is too high


class _ToCenter(Dissimilarity):
    """The cost of joining a hub, as a transport cost: the first argument is the hub."""

    def __init__(self, dissimilarity):
        self.dissimilarity = dissimilarity

    def between(self, x, y):
        return self.dissimilarity.to_center(y, x)

    def to_center(self, x, center):
        return self.dissimilarity.to_center(x, center)


def decompose_hubs(X, code, capacities, dissimilarity, rng, *, exactly):
    """The best of several alternations, improved by annealed swaps: fairlet (N,) in [m]. `exactly`: hubs are filled by exact
    transport; otherwise by blocks."""
    m = len(capacities.lower)
    best = None
    for _ in range(RESTARTS if len(X) <= FEW else 1):
        hubs = X[rng.choice(len(X), m, replace=False)]
        fairlet, cost = _alternate(X, code, capacities, dissimilarity, hubs, None if exactly else rng)
        if best is None or cost < best[1]:
            best = fairlet, cost
    return _anneal(X, code, capacities, dissimilarity, best[0], rng)


def _alternate(X, code, capacities, dissimilarity, hubs, rng):
    """Transport to the hubs, exact without `rng`, hubs to the means, while the cost falls."""
    best, best_cost = None, np.inf
    same = isinstance(dissimilarity, (SquaredEuclidean, Minkowski))  # D to a member and to a centre
    joining = dissimilarity if same else _ToCenter(dissimilarity)
    tolerance = 1e-9 if rng is None else SETTLED
    for _ in range(ALTERNATIONS):
        fairlet = np.empty(len(X), np.int64)
        for group in range(capacities.lower.shape[1]):
            rows = np.flatnonzero(code == group)
            problem = Problem(hubs, X[rows], capacities.lower[:, group], capacities.upper[:, group], joining)
            fairlet[rows] = _filled(problem, rng)
        hubs = fairlet_centers(X, fairlet, X[:, -1] if isinstance(dissimilarity, Weighted) else None).astype(X.dtype)
        cost = float(dissimilarity.to_center(X, hubs[fairlet]).sum(dtype=np.float64))
        settled = cost >= best_cost * (1 - tolerance)
        if cost < best_cost:
            best, best_cost = fairlet, cost
        if settled:
            break
    return best, best_cost


def _filled(problem, rng):
    """The hub of every member."""
    if rng is None:
        return transport(*problem, random_state=0).anchor
    return transport_by_blocks(problem, rng).anchor


def fairlet_centers(X: ArrayLike, fairlet: ArrayLike, sample_weight: ArrayLike | None = None) -> np.ndarray:
    """The mean (m, d) of the rows of every fairlet, weighted by `sample_weight` (N,); `fairlet` (N,) numbers them from 0 and
    leaves no number out."""
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    mass = np.bincount(fairlet, weight)
    return cluster_sums(X, fairlet, len(mass), weight) / mass[:, None]


def member_table(fairlet, code, upper):
    """Members of every fairlet (m, slots), `upper[:, j].max()` slots for group j; index N where a slot is empty."""
    fairlet, code = np.asarray(fairlet), np.asarray(code)
    n_obs, n_fairlets = len(fairlet), len(upper)
    width = upper.max(0)
    start = np.concatenate([[0], np.cumsum(width)[:-1]])
    order = np.lexsort((fairlet, code))  # by group, then fairlet, then row
    run = code[order].astype(np.int64) * n_fairlets + fairlet[order]
    rank = np.arange(n_obs) - np.searchsorted(run, run)
    table = np.full((n_fairlets, int(width.sum())), n_obs, dtype=np.int32)
    table[fairlet[order], start[code[order]] + rank] = order
    return table


def _anneal(X, code, capacities, dissimilarity, fairlet, rng):
    """Metropolis swaps between fairlets that are neighbours along a random direction, then without uphill moves."""
    table, padded = member_table(fairlet, code, capacities.upper), np.vstack([X, np.zeros(X.shape[1])])
    slot_group = np.repeat(np.arange(capacities.upper.shape[1]), capacities.upper.max(0))
    energy = _energies(dissimilarity, padded, table)
    best, best_cost = table.copy(), energy.sum()
    hot = 0.5 * energy.mean()
    for round_ in range(SWAP_ROUNDS):
        temperature = hot * max(0.0, 1 - round_ / (0.8 * SWAP_ROUNDS)) ** 2
        pairs = _neighbours_along_a_direction(padded, table, rng)
        swapped = _swap(table[pairs], slot_group, rng)
        if swapped is None:
            break
        fits = _fits(swapped, slot_group, capacities, pairs, len(X))
        after = _energies(dissimilarity, padded, swapped.reshape(-1, table.shape[1])).reshape(pairs.shape)
        gain = energy[pairs].sum(1) - after.sum(1)
        chance = np.exp(np.minimum(gain / temperature, 0)) if temperature > 0 else gain > 0
        accepted = fits & (rng.random(len(pairs)) < chance)
        table[pairs[accepted]], energy[pairs[accepted]] = swapped[accepted], after[accepted]
        if energy.sum() < best_cost:
            best, best_cost = table.copy(), energy.sum()
    improved = np.empty(len(X) + 1, np.int64)
    improved[best] = np.arange(len(best))[:, None]
    return improved[:-1]


def _energies(dissimilarity, padded, table):
    return np.asarray(dissimilarity.hub(padded[table], table < len(padded) - 1))


def _neighbours_along_a_direction(padded, table, rng):
    """Disjoint pairs of fairlets (pairs, 2), each with the next one in a random projection of the centres."""
    present = (table < len(padded) - 1).sum(1)
    place = (padded[table].sum(1) / present[:, None]) @ rng.normal(size=padded.shape[1])
    order = np.argsort(place)[rng.integers(2) if len(table) > 2 else 0 :]
    return order[: len(order) // 2 * 2].reshape(-1, 2)


def _swap(rows, slot_group, rng):
    """Rows (pairs, 2, slots) with a slot of one random group exchanged within every pair."""
    if len(rows) == 0:
        return None
    columns = np.flatnonzero(slot_group == slot_group[rng.integers(len(slot_group))])
    slots = rng.choice(columns, size=rows.shape[:2])
    pair, swapped = np.arange(len(rows)), rows.copy()
    swapped[pair, 0, slots[:, 0]], swapped[pair, 1, slots[:, 1]] = (
        rows[pair, 1, slots[:, 1]],
        rows[pair, 0, slots[:, 0]],
    )
    return swapped


def _fits(rows, slot_group, capacities, pairs, n_obs):
    """Does every fairlet of every pair keep within its capacities?"""
    inside = np.ones(len(rows), bool)
    for group in range(capacities.lower.shape[1]):
        held = (rows[:, :, slot_group == group] < n_obs).sum(2)
        limits = capacities.lower[pairs, group], capacities.upper[pairs, group]
        inside &= ((held >= limits[0]) & (held <= limits[1])).all(1)
    return inside


def lower_bound(X, code, capacities, dissimilarity, rng):
    """(a number that no hub decomposition can beat, the probability that it is too high): 0, which says nothing, for all but
    squared distances. Of weighted rows the bound without weights times the least of them.

    The sum of squares of a fairlet is the sum over its pairs of ||x - y||^2 / n_i. A member of group g has at least
    min_i lower[i, h] companions from group h, which cannot be nearer than its nearest ones there; the pairs of two
    groups are counted from the side that gives more, and n_i is at most the largest fairlet.
    """
    if isinstance(dissimilarity, Weighted):
        bound, risk = lower_bound(X[:, :-1], code, capacities, dissimilarity.own, rng)
        return float(X[:, -1].min()) * bound, risk
    if not isinstance(dissimilarity, SquaredEuclidean):
        return 0.0, 0.0
    least, total, risk = capacities.lower.min(0), 0.0, 0.0
    groups = [X[code == group] for group in range(len(least))]
    for h, others in enumerate(groups):
        for g, own in enumerate(groups[: h + 1]):
            if g == h and least[h] > 1:
                paid, doubt = _paid_to_nearest(own, own, least[h] - 1, rng)
                total, risk = total + paid / 2, risk + doubt
            elif g < h and min(least[g], least[h]) > 0:
                there, back = _paid_to_nearest(own, others, least[h], rng), _paid_to_nearest(others, own, least[g], rng)
                total, risk = total + max(there[0], back[0]), risk + there[1] + back[1]
    return float(total / capacities.upper.sum(1).max()), risk


def _paid_to_nearest(own, others, count, rng):
    """(what the squared distances of all `own` rows to their `count` nearest `others`, beside themselves, sum to at least,
    the probability that this is too much), from rows drawn at random where the pairs are many."""
    from sklearn.neighbors import NearestNeighbors

    def paid(rows):
        near = np.square(index.kneighbors(rows, count + (own is others))[0], dtype=np.float64)
        return near.sum(1)  # its own distance, where it is among the others, is 0

    index = NearestNeighbors().fit(others)
    if len(own) * len(others) <= ASKED_PAIRS:
        return paid(own).sum(), 0.0
    sample = paid(own[rng.choice(len(own), ASKED_PAIRS // len(others))])

    def mean_at_least(values, most):
        return most - mean_at_most(most - np.minimum(values, most), most)

    # The first rows tell up to where the others are worth counting.
    pilot, sample = np.split(sample, [len(sample) // 4])
    most = max(np.unique(pilot), key=lambda most: mean_at_least(pilot, most))
    return len(own) * max(mean_at_least(sample, most), 0.0), FAILURE


def mean_at_most(sample, most):
    """What the mean of a law on [0, most] exceeds with a probability of `FAILURE` at most, from independent draws (Theorem 4
    of Maurer and Pontil 2009, "Empirical Bernstein bounds and sample variance penalization")."""
    count, doubt = len(sample), log(2 / FAILURE)
    return sample.mean() + sqrt(2 * sample.var(ddof=1) * doubt / count) + 7 * most * doubt / (3 * (count - 1))
