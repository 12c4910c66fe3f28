"""Pairs of near rows of one group, between which fairlets exchange rows."""

import numpy as np

NEIGHBOURS = 8
BLOCK = 4096  # rows within which neighbours are looked for


def near_pairs(X, code, seed: int) -> np.ndarray:
    """Pairs (E, 2) of rows of one group, one of the other's nearest each; of many rows, nearest within their block."""
    from scipy.spatial import cKDTree

    rng, found = np.random.default_rng(seed), []
    for g in np.unique(code):
        for rows in blocks(X, np.flatnonzero(code == g), rng):
            near = min(NEIGHBOURS + 1, len(rows))
            own = np.asarray(X[rows], np.float64)
            _, at = cKDTree(own).query(own, near)
            pairs = np.stack([np.repeat(rows, near), rows[np.reshape(at, -1)]], 1)
            pairs.sort(axis=1)
            found.append(np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def blocks(X, rows, rng):
    """The rows in parts of at most BLOCK, halved along random directions."""
    if len(rows) <= BLOCK:
        return [rows]
    along = X[rows] @ rng.normal(size=X.shape[1])
    order = np.argpartition(along, len(rows) // 2)
    halves = rows[np.sort(order[: len(rows) // 2])], rows[np.sort(order[len(rows) // 2 :])]
    return [part for half in halves for part in blocks(X, half, rng)]
