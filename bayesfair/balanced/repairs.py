"""Repair given labels: to balance with as few moves as the counts allow, and on to the cheapest labels nearby."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import cell_masses
from bayesfair._progress import progress
from bayesfair.balanced.centroids import Paid
from bayesfair.balanced.descent import PASSES, descend
from bayesfair.balanced.labels import ROUNDS, ROWS_WITH_RUNGS, alternate, in_own_units
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.transport import assign
from bayesfair.fairness.balanced import GAP, BalanceConstraint, WithinOnePerson, nearest_counts
from bayesfair.fairness.counts_of_sizes import WIDEST, counts_of_sizes, nearest_sizes

SEARCHED = 24  # counts up to which the sizes of clusters are searched too
SEARCHED_FOR_BALANCE = 100  # the same of a Balance, beyond which nothing is found
RELAXED = 1_000  # counts up to which the sizes of the relaxed program are tried
DESCENDED = 320  # counts up to which a descent looks for cheaper labels: it tries every group between all clusters
DETER = 4  # cost of a move over the largest difference of costs: one more stop on a path saves at most three of these


class Repair(NamedTuple):
    """Balanced labels (N,): with as few moves as the nearest counts need; and the end of a descent from there, or None.

    room: of the `Moves`. There is no descent where it is above 1, or with many groups.
    """

    fewest: np.ndarray
    cheapest: np.ndarray | None
    room: float = 1


class Moves(NamedTuple):
    """Balanced counts (clusters, groups) and the number of rows that have to move.

    room: every balanced count is less than so many rows from its share; above 1 where attributes leave their combinations none
    such. Combinations that are not balanced do not count.
    """

    counts: np.ndarray
    number: int
    room: float = 1


def moves_needed(constraint: BalanceConstraint, counts) -> Moves | None:
    """The moves from counts (K, J) to balanced ones, few or, in small tables, the fewest; None if none are found.

    Of a Balance, those of more than `SEARCHED` counts are the fewest up to 1%. Of exact balance they are looked for at two sets
    of sizes of its clusters: those it has, and those of the relaxed program.
    """
    sizes, exact = counts.sum(0), isinstance(constraint, WithinOnePerson)
    if constraint.satisfied(counts).all():
        return Moves(counts, 0)
    if counts.size <= (SEARCHED if exact else SEARCHED_FOR_BALANCE):
        gap = 0.0 if counts.size <= SEARCHED else GAP
        with suppress(ValueError):
            balanced = nearest_counts(constraint, sizes, counts, widest=counts.sum(), gap=gap)
            return Moves(balanced, _moved(counts, balanced))
    if not exact:
        return None
    together, member = constraint.together, constraint.member
    rooms = range(constraint.room, WIDEST + 1) if together else (np.inf,)
    tried = [counts.sum(1)]
    tried += [nearest_sizes(counts, sizes, member, together=together)] if counts.size <= RELAXED else []
    found = [counts_of_sizes(counts, sizes, held, member, rooms) for held in tried]
    moves = [
        Moves(one.counts, _moved(counts, one.counts), one.room if together else 1) for one in found if one is not None
    ]
    return min(moves, key=lambda one: (one.room, one.number), default=None)


def _moved(counts, balanced):
    return int(np.maximum(counts - balanced, 0).sum())


def repair(problem: BalancedProblem, labels, progress_bar=False) -> Repair | None:
    """What makes `labels` (N,), codes of all clusters of the problem, balanced; None if no balanced counts are found."""
    problem, _ = in_own_units(problem)
    moves = moves_needed(problem.constraint, cell_masses(labels, problem.code, shape_of(problem)))
    if moves is None:
        return None
    fewest = _placed(problem, labels, moves.counts)
    if moves.room > 1 or moves.counts.size > DESCENDED:
        return Repair(fewest, None, moves.room)
    with progress(ROUNDS + PASSES, "repair", progress_bar, at_most=True) as bar:
        cheapest = descend(problem, _settled(problem, fewest, moves.counts, bar.update), done=bar.update)[0]
    return Repair(cheapest if (cheapest != labels).sum() <= moves.number else fewest, cheapest)


def _settled(problem, labels, counts, done):
    """Labels of these counts from which a descent is short: in many rows transport and centres come first, in turn."""
    if len(labels) <= ROWS_WITH_RUNGS:
        return labels
    centers = problem.loss.centers(problem.X, labels, problem.n_clusters, problem.weight)
    return alternate(problem, counts, centers, np.zeros(counts.T.shape), ROUNDS, done).labels


def shape_of(problem):
    """(clusters, groups) of the problem's counts."""
    return problem.n_clusters, int(problem.code.max()) + 1


def _placed(problem, labels, counts):
    """Labels of these counts, at the least cost of the rows that move."""
    X, code, weight, _, loss, n_clusters = problem
    centers, moved = loss.centers(X, labels, n_clusters, weight), labels.copy()
    for group in range(counts.shape[1]):
        rows = np.flatnonzero(code == group)
        cost, own = Paid(loss, X, centers, weight, rows)[:], labels[rows]
        cost -= cost[np.arange(len(rows)), own][:, None]
        deter = DETER * max(np.abs(cost).max(), np.finfo(float).tiny)
        cost += np.where(np.arange(n_clusters) == own[:, None], 0.0, deter)
        moved[rows], _ = assign(cost, counts[:, group], np.zeros(n_clusters))
    return moved
