"""The cheapest assignment of rows to K clusters with given counts: a transport problem with K duals.

Start from the assignment at given prices (duals). Surplus rows then leave along shortest paths in the graph of the
clusters, whose arc k -> l costs the least extra of any row of k that moves to l (successive shortest paths; Ahuja,
Magnanti and Orlin 1993, ch. 9). The assignment is optimal for its own counts before and after every path, so the last
one is optimal for the counts asked for. At these prices all arcs are at least 0 up to rounding, which is cut off:
otherwise ties could make cycles of negative cost, and a path would run in a circle. A path moves one row. If thousands
are to move, prices are first brought near the optimum, cluster by cluster. Of many rows, paths only look at those that
are cheapest to move.
"""

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair.balanced.shortest_paths import along_paths, lengths_at_prices

WHOLE = 2**16  # rows up to which paths look at all of them
MANY_PATHS = 500  # paths, each of which looks at all rows of its clusters
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
    rows = np.arange(len(cost))
    if len(rows) > WHOLE:
        rows, _ = cheapest_to_move(cost, labels, int(np.abs(surplus).sum()) + 1)
    own, duals = labels[rows], duals.astype(float)
    least = along_paths(np.ascontiguousarray(cost[rows], float), own, surplus, duals)
    labels[rows] = own
    return labels, middle_duals(lengths_at_prices(least, duals) + duals - duals[:, None])


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
