"""Counts at which labels are cheaper: transport gives the cost of one more row of a group in a cluster.

With bounds on sizes no row may move alone, and its replacement may come through other clusters: a chain of moves, each
of the cheapest row, is a shortest path between clusters (`transport`).
"""

import numpy as np

from bayesfair.balanced.centroids import Paid
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.shortest_paths import lengths_at_prices
from bayesfair.balanced.transport import cheapest_to_move
from bayesfair.fairness.bounded_sizes import within

TRIED = 4096  # changes that are tried, those that gain most
SMALL = 1e-10  # relative to the loss: a smaller gain is none


def cheaper_counts(problem: BalancedProblem, counts, centers, labels, duals):
    """The counts (clusters, groups) after the change that gains most at these centres, or None without a gain.

    A row of one group moves to another cluster, and a row of another group comes back, or none. labels (N,), duals
    (groups, clusters): the cheapest labels with these counts, and their prices.
    """
    n_clusters, n_groups = counts.shape
    length = np.zeros((n_groups + 1, n_clusters, n_clusters))  # the last one: no row
    for group in range(n_groups):
        rows = np.flatnonzero(problem.code == group)
        paid = Paid(problem.loss, problem.X, centers, problem.weight, rows)
        length[group] = lengths(paid, labels[rows], duals[group])
    paid = length[:, None] + length.swapaxes(1, 2)[None]  # (who goes, who comes back, from, to)
    paid[np.arange(n_groups + 1), np.arange(n_groups + 1)] = 0.0
    tiny = SMALL * problem.loss.value(problem.X, labels, centers, problem.weight)
    gain = np.flatnonzero(paid.ravel() < -tiny)
    gain = gain[np.argsort(paid.ravel()[gain], kind="stable")[:TRIED]]
    go, back, k, to = np.unravel_index(gain, paid.shape)
    one = np.eye(n_groups + 1, n_groups, dtype=counts.dtype)
    change = one[go] - one[back]
    less, more = counts[k] - change, counts[to] + change
    allowed = within(problem.constraint, k).satisfied(less) & within(problem.constraint, to).satisfied(more)
    able = np.flatnonzero(allowed & (less >= 0).all(1) & (more >= 0).all(1))
    if len(able) == 0:
        return None
    first, after = able[0], counts.copy()
    after[k[first]], after[to[first]] = less[first], more[first]
    return after


def lengths(cost, labels, duals):
    """The cost (clusters, clusters) of one row less in a cluster and one more in another."""
    rows, _ = cheapest_to_move(cost, labels, 1)
    paid, own, least = cost[rows], labels[rows], np.full((len(duals), len(duals)), np.inf)
    np.minimum.at(least, own, paid - paid[np.arange(len(own)), own][:, None])
    np.fill_diagonal(least, np.inf)
    return lengths_at_prices(least, duals) + duals - duals[:, None]
