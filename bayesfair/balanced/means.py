"""What transfers of k-means gain, from the clusters' sums and masses, and swaps made one after another."""

import numpy as np

from bayesfair._compiled import allocating, inner, kernel


@inner
def gain_of_change(X, weight, sums, masses, change):
    """The decrease of the loss by a change: (from, to, rows that move, a row that comes back); -1 for no row.

    A cluster's loss is its rows' own terms less ||S||^2 / W, with S the sum of its rows and W their mass.
    """
    start, end, last = change[0], change[1], len(change) - 1
    mass, left, joined, here, there = 0.0, 0.0, 0.0, 0.0, 0.0
    for at in range(2, last + 1):
        if change[at] >= 0:
            mass += weight[change[at]] if at < last else -weight[change[at]]
    for j in range(X.shape[1]):
        moved = 0.0
        for at in range(2, last + 1):
            row = change[at]
            if row >= 0:
                moved += (weight[row] if at < last else -weight[row]) * X[row, j]
        left += (sums[start, j] - moved) ** 2
        joined += (sums[end, j] + moved) ** 2
        here += sums[start, j] ** 2
        there += sums[end, j] ** 2
    left, joined = left / max(masses[start] - mass, 1e-300), joined / (masses[end] + mass)
    return left + joined - here / masses[start] - there / masses[end]


@allocating
def gains_of_means(X, weight, sums, masses, changes):
    """The decrease of the loss by each of the changes."""
    gains = np.empty(len(changes))
    for c in range(len(changes)):
        gains[c] = gain_of_change(X, weight, sums, masses, changes[c])
    return gains


@kernel
def make_swaps(X, weight, sums, masses, labels, changes, tiny):
    """Make the changes, each a swap of two rows, that still gain more than `tiny`, one after another; return their number."""
    made = 0
    for c in range(len(changes)):
        start, end, out, back = changes[c, 0], changes[c, 1], changes[c, 2], changes[c, 3]
        if labels[out] != start or labels[back] != end:
            continue
        if gain_of_change(X, weight, sums, masses, changes[c]) <= tiny:
            continue
        labels[out], labels[back] = end, start
        masses[start] -= weight[out] - weight[back]
        masses[end] += weight[out] - weight[back]
        for j in range(X.shape[1]):
            moved = weight[out] * X[out, j] - weight[back] * X[back, j]
            sums[start, j] -= moved
            sums[end, j] += moved
        made += 1
    return made
