"""The cheapest assignment of rows to K clusters with given counts: a transport problem with K duals.

Start from the assignment at given prices (duals). Surplus rows then leave along shortest paths in the graph of the
clusters, whose arc k -> l costs the least extra of any row of k that moves to l (successive shortest paths; Ahuja,
Magnanti and Orlin 1993, ch. 9). The assignment is optimal for its own counts before and after every path, so the last
one is optimal for the counts asked for. At these prices all arcs are at least 0 up to rounding, which is cut off:
otherwise ties could make cycles of negative cost, and a path would run in a circle. A path moves one row. If thousands
are to move, prices are first brought near the optimum, cluster by cluster. Paths only look at the rows that are
cheapest to move.
"""

from itertools import pairwise

import numpy as np

from bayesfair._arrays import row_blocks

MANY_PATHS = 500  # paths; each takes milliseconds
ENOUGH = 0.9  # largest share of the surplus after a round of prices that is worth another round


def assign(cost, counts, duals):
    """(labels (n,), duals (K,)): the cheapest labels whose clusters have `counts` (K,), if row i costs cost[i, k] (n, K).

    duals: prices near the optimum; the better they are, the fewer paths. The returned duals are in the middle of the
    optimal ones: cost - duals is least, over clusters, at a row's label.
    """
    labels, surplus = choices(cost, counts, duals)
    if np.abs(surplus).sum() > MANY_PATHS:
        duals = ascend(cost, counts, duals, surplus)
        labels, surplus = choices(cost, counts, duals)
    rows, _ = cheapest_to_move(cost, labels, int(np.abs(surplus).sum()) + 1)
    graph = Margins(cost[rows], labels[rows])
    for _ in range(surplus[surplus > 0].sum()):
        length, before = shortest_paths(at_prices(graph.least, duals))
        nearest = length[surplus > 0].min(0)
        end = np.where(surplus < 0, nearest, np.inf).argmin()
        start = np.where(surplus > 0, length[:, end], np.inf).argmin()
        surplus[start] -= 1
        surplus[end] += 1
        graph.push(start, end, before[start])
        duals = duals + np.minimum(nearest, nearest[end])  # at these prices the path costs nothing
    labels[rows] = graph.labels
    return labels, middle_duals(shortest_paths(at_prices(graph.least, duals))[0] + duals - duals[:, None])


def at_prices(least, duals):
    """Arcs (K, K) less the difference of prices: at least 0 at optimal prices, with rounding cut off."""
    return np.maximum(least + duals[:, None] - duals, 0.0)


def choices(cost, counts, duals):
    """(the cheapest cluster of every row at these prices, the surplus of each cluster over its count)."""
    labels = np.empty(len(cost), np.int32)
    for rows in row_blocks(len(cost)):
        labels[rows] = (cost[rows] - duals).argmin(1)
    return labels, np.bincount(labels, minlength=len(counts)) - counts


def ascend(cost, counts, duals, surplus):
    """Duals at which fewer rows choose wrongly, by coordinate ascent: in turn, each cluster's price is made to fit."""
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
    margin = np.empty(len(cost))
    for rows in row_blocks(len(cost)):
        paid = cost[rows]
        others = np.full(len(paid), np.inf)
        for other in np.delete(np.arange(len(duals)), k):
            np.minimum(others, paid[:, other] - duals[other], out=others)
        margin[rows] = paid[:, k] - others
    last, first = max(count - 1, 0), min(count, len(cost) - 1)  # last row that chooses it, first row that does not
    return np.partition(margin, (last, first))[[last, first]].mean()


def cheapest_to_move(cost, labels, most, cells=None, n_cells=None, also=None):
    """(rows in order, bounds (cells, clusters)): the `most` rows of every cell that cost least more elsewhere.

    They are chosen for every other cluster; all other rows cost at least the bound of their cell more. Cells of few
    rows are whole, without bounds. cells: of every row, within one cluster; by default the clusters. also: given a
    block of rows and their extra costs (rows, clusters), marks more rows to keep.
    """
    n_clusters = cost.shape[1]
    cells, n_cells = (labels, n_clusters) if cells is None else (cells, n_cells)
    bounds, room = np.full((n_cells, n_clusters), np.inf), np.full(n_cells, 4 * most)
    kept, margins, others = np.zeros(0, int), np.zeros((0, n_clusters)), []
    for block in row_blocks(len(cost)):
        margin = cost[block]
        margin = margin - margin[np.arange(len(margin)), labels[block]][:, None]
        if also is not None:
            others.append(block.start + np.flatnonzero(also(block, margin)))
        near = np.flatnonzero((margin < bounds[cells[block]]).any(1))
        kept, margins = np.append(kept, block.start + near), np.concatenate([margins, margin[near]])
        stay = np.ones(len(kept), bool)
        for cell in range(n_cells):
            own = np.flatnonzero(cells[kept] == cell)
            if len(own) > room[cell]:
                first = np.argpartition(margins[own], most, axis=0)[:most]
                bounds[cell] = np.take_along_axis(margins[own], first, 0).max(0)
                stay[own] = False
                stay[own[first]] = True
                room[cell] = max(room[cell], 2 * stay[own].sum())
        kept, margins = kept[stay], margins[stay]
    return np.unique(np.concatenate([kept, *others])), bounds


class Margins:
    """The least extra cost of any row of a cluster in every other one, updated as rows move; moves change `labels` in place."""

    def __init__(self, cost, labels):
        self.cost, self.labels = cost, labels
        n_clusters = cost.shape[1]
        self.least = np.full((n_clusters, n_clusters), np.inf)
        self.first = np.zeros((n_clusters, n_clusters), int)
        self.rows = [np.flatnonzero(labels == k) for k in range(n_clusters)]
        for k in range(n_clusters):
            self._look(k)

    def _look(self, cluster):
        rows = self.rows[cluster]
        if len(rows) == 0:
            self.least[cluster] = np.inf
            return
        margin = self.cost[rows] - self.cost[rows, cluster][:, None]
        cheapest = margin.argmin(0)
        self.first[cluster], self.least[cluster] = rows[cheapest], margin[cheapest, np.arange(len(cheapest))]
        self.least[cluster, cluster] = np.inf

    def push(self, start, end, before):
        """Move one row along every arc of the path from `start` to `end`; `before` (K,): the cluster before each one."""
        path = [end]
        while path[-1] != start:
            path.append(before[path[-1]])
        path.reverse()
        for row, here, there in [(self.first[arc], *arc) for arc in pairwise(path)]:
            self.labels[row] = there
            self.rows[here] = self.rows[here][self.rows[here] != row]
            self.rows[there] = np.append(self.rows[there], row)
        for k in path:
            self._look(k)


def shortest_paths(arcs):
    """(lengths (K, K), the cluster before the last one on the path): Dijkstra from every cluster, for arcs of at least 0.

    A cluster is reached only from earlier ones, so that every path ends even with ties.
    """
    n_clusters = len(arcs)
    each = np.arange(n_clusters)
    length = np.where(np.eye(n_clusters, dtype=bool), 0.0, np.inf)
    before, left = np.zeros(length.shape, int) + each[:, None], np.ones(length.shape, bool)
    for _ in range(n_clusters):
        via = np.where(left, length, np.inf).argmin(1)
        left[each, via] = False
        through = length[each, via][:, None] + arcs[via]
        shorter = left & (through < length)
        length = np.where(shorter, through, length)
        before = np.where(shorter, via[:, None], before)
    return length, before


def middle_duals(length):
    """Optimal duals from the lengths of shortest paths: a row of them is optimal, and so is a column with its sign changed."""
    finite = np.where(np.isfinite(length), length, 0.0)
    forward = np.isfinite(length).all(1)
    if not forward.any():
        return np.zeros(len(length))
    duals = finite[forward].mean(0)
    backward = np.isfinite(length).all(0)
    if backward.any():
        duals = (duals - finite[:, backward].mean(1)) / 2
    return duals
