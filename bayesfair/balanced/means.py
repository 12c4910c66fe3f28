"""What transfers of k-means gain, from the clusters' sums and masses."""

import numpy as np

from bayesfair._compiled import allocating


@allocating
def gains_of_means(X, weight, sums, masses, changes):
    """The decrease of the loss by each of the changes: (from, to, rows that move, a row that comes back); -1 for no row.

    A cluster's loss is its rows' own terms less ||S||^2 / W, with S the sum of its rows and W their mass.
    """
    gains, moved = np.empty(len(changes)), np.empty(X.shape[1])
    for c in range(len(changes)):
        start, end, mass = changes[c, 0], changes[c, 1], 0.0
        for j in range(len(moved)):
            moved[j] = 0.0
        for at in range(2, changes.shape[1]):
            row = changes[c, at]
            if row >= 0:
                signed = weight[row] if at < changes.shape[1] - 1 else -weight[row]
                mass += signed
                for j in range(len(moved)):
                    moved[j] += signed * X[row, j]
        left, joined, here, there = 0.0, 0.0, 0.0, 0.0
        for j in range(len(moved)):
            left += (sums[start, j] - moved[j]) ** 2
            joined += (sums[end, j] + moved[j]) ** 2
            here += sums[start, j] ** 2
            there += sums[end, j] ** 2
        left, joined = left / max(masses[start] - mass, 1e-300), joined / (masses[end] + mass)
        gains[c] = left + joined - here / masses[start] - there / masses[end]
    return gains
