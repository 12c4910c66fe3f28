"""Repair given labels: to balance with as few moves as the counts allow, and on to the cheapest labels nearby."""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import cell_masses
from bayesfair.balanced.centroids import Paid
from bayesfair.balanced.descent import descend
from bayesfair.balanced.labels import in_own_units
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.transport import assign
from bayesfair.fairness.balanced import BalanceConstraint, nearest_counts

DETER = 4  # cost of a move over the largest difference of costs: one more stop on a path saves at most three of these


class Repair(NamedTuple):
    """Balanced labels (N,): with as few moves as the nearest counts need; and the end of a descent from there."""

    fewest: np.ndarray
    cheapest: np.ndarray


def moves_needed(constraint: BalanceConstraint, counts):
    """(balanced counts nearest to those given (K, J), the least number of rows that have to move, up to 1%)."""
    balanced = nearest_counts(constraint, counts.sum(0), counts, widest=counts.sum())
    return balanced, int(np.maximum(counts - balanced, 0).sum())


def repair(problem: BalancedProblem, labels) -> Repair:
    """What makes `labels` (N,), codes of all clusters of the problem, balanced; an error if nobody can be labelled so."""
    problem, _ = in_own_units(problem)
    fewest = _fewest(problem, labels)
    cheapest = descend(problem, fewest)[0]
    return Repair(cheapest if (cheapest != labels).sum() <= (fewest != labels).sum() else fewest, cheapest)


def _fewest(problem, labels):
    X, code, weight, constraint, loss, n_clusters = problem
    counts, _ = moves_needed(constraint, cell_masses(labels, code, (n_clusters, code.max() + 1)))
    centers, moved = loss.centers(X, labels, n_clusters, weight), labels.copy()
    for group in range(counts.shape[1]):
        rows = np.flatnonzero(code == group)
        cost, own = Paid(loss, X, centers, weight, rows)[:], labels[rows]
        cost -= cost[np.arange(len(rows)), own][:, None]
        deter = DETER * max(np.abs(cost).max(), np.finfo(float).tiny)
        cost += np.where(np.arange(n_clusters) == own[:, None], 0.0, deter)
        moved[rows], _ = assign(cost, counts[:, group], np.zeros(n_clusters))
    return moved
