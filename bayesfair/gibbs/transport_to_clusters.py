"""The cheapest assignment of rows to K clusters with given counts: a transport problem with K duals.

From the assignment that prices (duals) suggest, surplus rows leave along shortest paths in the graph of
the clusters, whose arc k -> l costs what the cheapest row of k pays for going to l (successive shortest paths; Ahuja,
Magnanti and Orlin 1993, ch. 9): the assignment is optimal for its own counts before and after every path, so that the last
one is optimal for the counts asked for. A path moves one row: where thousands are to move, prices are brought near the
optimum before, cluster by cluster.
"""

from itertools import pairwise

import numpy as np

from bayesfair._arrays import row_blocks

__all__ = ["assign", "shortest_paths"]

MANY_PATHS = 500  # each takes milliseconds
ENOUGH = 0.9  # of the surplus may be left after a round of prices, or another is of no use


def assign(cost, counts, duals):
    """(labels (n,), duals (K,)): the cheapest labels whose clusters have `counts` (K,), where row i pays cost[i, k] (n, K).

    duals: prices near the optimum; the better, the fewer paths. Those returned are in the middle of the optimal ones:
    cost - duals is least, over clusters, at a row's label.
    """
    labels, surplus = choices(cost, counts, duals)
    if np.abs(surplus).sum() > MANY_PATHS:
        duals = ascend(cost, counts, duals, surplus)
        labels, surplus = choices(cost, counts, duals)
    graph = Margins(cost, labels, int(np.abs(surplus).sum()))
    while surplus.any():
        length, successor = shortest_paths(graph.least)
        reach = np.where((surplus > 0)[:, None] & (surplus < 0), length, np.inf)
        start, end = np.unravel_index(reach.argmin(), reach.shape)
        surplus[start] -= 1
        surplus[end] += 1
        graph.push(start, end, successor)
    return labels, middle_duals(shortest_paths(graph.least)[0])


def choices(cost, counts, duals):
    """(the cheapest cluster of every row at these prices, how many more than its count each cluster has)."""
    labels = np.empty(len(cost), int)
    for rows in row_blocks(len(cost)):
        labels[rows] = (cost[rows] - duals).argmin(1)
    return labels, np.bincount(labels, minlength=len(counts)) - counts


def ascend(cost, counts, duals, surplus):
    """Duals at which fewer rows choose wrongly: each in turn is set so that its cluster has its count at the prices of the
    others, an ascent of the concave dual by its coordinates, as long as rounds are of use."""
    best, fewest, left = duals, np.abs(surplus).sum(), np.inf
    duals = duals.copy()
    while MANY_PATHS < fewest < ENOUGH * left:
        left = fewest
        for k in range(len(counts)):
            duals[k] = fitting_price(cost, counts[k], duals, k)
        now = np.abs(choices(cost, counts, duals)[1]).sum()
        if now < fewest:
            best, fewest = duals.copy(), now
    return best


def fitting_price(cost, count, duals, k):
    """The price of cluster k at which `count` rows choose it."""
    others = np.full(len(cost), np.inf)
    for other in np.delete(np.arange(len(duals)), k):
        np.minimum(others, cost[:, other] - duals[other], out=others)
    margin = cost[:, k] - others
    last, first = max(count - 1, 0), min(count, len(cost) - 1)  # of those who choose it, and of the others
    return np.partition(margin, (last, first))[[last, first]].mean()


class Margins:
    """What the cheapest row of every cluster pays for going to every other one, kept up to date as rows move.

    Only rows that may move are looked at: the cheapest `most` of every pair of clusters.
    """

    def __init__(self, cost, labels, most):
        self.cost, self.labels = cost, labels
        n_clusters = cost.shape[1]
        self.least = np.full((n_clusters, n_clusters), np.inf)
        self.first = np.zeros((n_clusters, n_clusters), int)
        self.rows = [self._candidates(k, most + 1) for k in range(n_clusters)]
        for k in range(n_clusters):
            self._look(k)

    def _candidates(self, cluster, most):
        rows = np.flatnonzero(self.labels == cluster)
        if len(rows) <= 4 * most:
            return rows
        margin = self.cost[rows] - self.cost[rows, cluster][:, None]
        return rows[np.unique(np.argpartition(margin, most, axis=0)[:most])]

    def _look(self, cluster):
        rows = self.rows[cluster]
        if len(rows) == 0:
            self.least[cluster] = np.inf
            return
        margin = self.cost[rows] - self.cost[rows, cluster][:, None]
        cheapest = margin.argmin(0)
        self.first[cluster], self.least[cluster] = rows[cheapest], margin[cheapest, np.arange(len(cheapest))]
        self.least[cluster, cluster] = np.inf

    def push(self, start, end, successor):
        """One row moves along every arc of the path from `start` to `end`."""
        path = [start]
        while path[-1] != end:
            path.append(successor[path[-1], end])
        for row, here, there in [(self.first[arc], *arc) for arc in pairwise(path)]:
            self.labels[row] = there
            self.rows[here] = self.rows[here][self.rows[here] != row]
            self.rows[there] = np.append(self.rows[there], row)
        for k in path:
            self._look(k)


def shortest_paths(least):
    """(lengths (K, K), the next cluster on the way): Floyd and Warshall, for arcs without negative cycles."""
    n_clusters = len(least)
    length = least.copy()
    np.fill_diagonal(length, 0.0)
    successor = np.tile(np.arange(n_clusters), (n_clusters, 1))
    for via in range(n_clusters):
        through = length[:, via, None] + length[via]
        shorter = through < length - 1e-13 * np.abs(length, where=np.isfinite(length), out=np.zeros_like(length))
        length = np.where(shorter, through, length)
        successor = np.where(shorter, successor[:, via, None], successor)
    return length, successor


def middle_duals(length):
    """Optimal duals from the lengths of shortest paths: a row of them is optimal, so is a column with its sign changed."""
    finite = np.where(np.isfinite(length), length, 0.0)
    forward = np.isfinite(length).all(1)
    if not forward.any():
        return np.zeros(len(length))
    duals = finite[forward].mean(0)
    backward = np.isfinite(length).all(0)
    if backward.any():
        duals = (duals - finite[:, backward].mean(1)) / 2
    return duals
