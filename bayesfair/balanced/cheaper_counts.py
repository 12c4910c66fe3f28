"""Counts at which labels cost less: what one person more of a group in a cluster costs is known from transport.

Where sizes of clusters are bounded nobody may go alone, and who takes their place may come by way of other clusters: a chain of
moves, each of the person who pays least for it, is a shortest path between clusters (`transport`).
"""

import numpy as np

from bayesfair.balanced.centroids import Paid
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.transport import Margins, at_prices, cheapest_to_move, shortest_paths
from bayesfair.fairness.bounded_sizes import within

TRIED = 4096  # changes, those that gain most
SMALL = 1e-10  # of the loss: what counts as no gain


def cheaper_counts(problem: BalancedProblem, counts, centers, labels, duals):
    """The counts (clusters, groups) after the change that gains most at these centres, None where none does: somebody of one
    group goes from a cluster to another, somebody of another group comes back, or nobody does.

    labels (N,), duals (groups, clusters): the cheapest labels with these counts, and the prices at which they are.
    """
    n_clusters, n_groups = counts.shape
    length = np.zeros((n_groups + 1, n_clusters, n_clusters))  # the last one: nobody
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
    """What it costs (clusters, clusters) to have one person less in a cluster and one more in another."""
    rows, _ = cheapest_to_move(cost, labels, 1)
    at_these = shortest_paths(at_prices(Margins(cost[rows], labels[rows]).least, duals))[0]
    return at_these + duals - duals[:, None]
