"""Labels from cooled starts: whole counts, then centres and exact transport in turn until neither gains."""

from contextlib import suppress
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import MANY, cell_masses
from bayesfair._check import Interrupted, tell
from bayesfair._progress import progress
from bayesfair.balanced.annealing import Cooled, Multipliers
from bayesfair.balanced.centroids import Centroids, Means, Paid
from bayesfair.balanced.cheaper_counts import cheaper_counts
from bayesfair.balanced.descent import descend
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.recombination import search
from bayesfair.balanced.transport import assign
from bayesfair.fairness.balanced import nearest_counts, tighter
from bayesfair.fairness.bounded_sizes import BoundedSizes, size_bounds

ROUNDS, ROUNDS_OF_MANY = 50, 3  # rounds from given centres; more gain little in many rows
ROUNDS_OF_STARTS = 3  # rounds of starts of chains, which sweeps improve further
FINALISTS = 3  # starts that descend to a local optimum; with few rows all of them and random ones
FEW_ROWS = 50
ROWS_WITH_RUNGS = 1_000  # rows up to which tighter bounds are solved before the one asked for; all finalists descend
AT_ONCE = 2**16  # rows of a group whose costs are in memory together
RANDOM = 4  # random starts per cooled one, with few rows
SMALLEST_GAIN = 1e-9  # relative gain of the loss that is worth exchanging bounds
GENERATIONS, GENERATIONS_OF_MANY = 5, 3  # generations of recombined starts; more gain nothing in many rows


def cooled_labels(problem: BalancedProblem, n_starts, seed):
    """(labels (n_starts, N), of the smallest type, losses (n_starts,)), best first, each balanced: starts of chains."""
    problem, unit = in_own_units(problem)
    cooled = search(problem, n_starts, 0, np.random.default_rng(seed))
    labels, losses = np.empty((n_starts, len(problem.X)), np.min_scalar_type(problem.n_clusters)), np.empty(n_starts)
    for at in range(n_starts):
        settled = settle(problem, cooled.run(at), ROUNDS_OF_STARTS)
        labels[at], losses[at] = settled.labels, unit * settled.trace[-1]
    order = np.argsort(losses, kind="stable")
    return labels[order], losses[order]


def balanced_labels(problem: BalancedProblem, centers):
    """The local optimum of balanced k-means to which given centres lead.

    Parameters
    ----------
    problem : BalancedProblem
        The rows and the rule.
    centers : numpy.ndarray of shape (n_clusters, n_features)
        Where the search starts.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.
    """
    X, code, loss = problem.X, problem.code, problem.loss
    if len(X) < MANY:
        centers = centers - X.mean(0)
    problem = problem._replace(X=centered(X, loss))
    nearest = loss.distances(problem.X, centers).argmin(1)
    start = uncooled(problem, centers, cell_masses(nearest, code, (len(centers), int(code.max()) + 1)))
    return settle(problem, start, rounds_at(len(X))).labels


def rounds_at(n_obs):
    return ROUNDS if n_obs < MANY else ROUNDS_OF_MANY


class Cheapest(NamedTuple):
    """Balanced labels and the losses on the way to them.

    Attributes
    ----------
    labels : numpy.ndarray of shape (n_obs,)
        Integer labels.
    trace : numpy.ndarray
        The losses, which never rise.
    optimal : bool
        Whether nothing in the neighbourhood is cheaper.
    interrupted : bool
        Whether Ctrl-C ended the search.
    """

    labels: np.ndarray
    trace: np.ndarray
    optimal: bool
    interrupted: bool = False


def cheapest_labels(problem: BalancedProblem, n_starts, seed, *, max_iter, progress_bar=False) -> Cheapest:
    """The cheapest balanced labels found.

    Starts are cooled and recombined, and the best of them go down to a local optimum. In small tables the labels of tighter
    bounds are starts as well: the loss never rises when such a bound is loosened. In larger ones the best finalist alone
    descends, once transport has settled them all. Ctrl-C keeps the cheapest labels so far.

    Parameters
    ----------
    problem : BalancedProblem
        The rows and the rule.
    n_starts : int
        Starts from one point, and as many from k-means++.
    seed : int
        Seed of the search.
    max_iter : int
        Rounds of transport, and passes of the descent, of every finalist.
    progress_bar : bool, default False
        Whether to show a progress bar over generations and finalists.

    Returns
    -------
    Cheapest
    """
    problem, unit = in_own_units(problem)
    few, many = len(problem.X) <= FEW_ROWS, len(problem.X) > ROWS_WITH_RUNGS
    generations = (GENERATIONS_OF_MANY if many else GENERATIONS) if n_starts > 1 else 0
    rungs = [] if many else rungs_of(problem)
    n_cooled, n_random = (n_starts, RANDOM * n_starts) if few else (min(FINALISTS, n_starts), 0)
    ends = []  # of the bounds that are tried, or of the tighter ones before, which will do too
    with progress((1 + len(rungs)) * (1 + generations + n_cooled + n_random), "cooling", progress_bar) as bar:
        try:
            for constraint in (*rungs, problem.constraint):
                rng, rung = np.random.default_rng(seed), problem._replace(constraint=constraint)
                cooled = search(rung, n_starts, generations, rng, finalists=n_cooled, done=bar.update)
                starts = [cooled.run(at) for at in range(n_cooled)]
                starts += [random_start(rung, rng) for _ in range(n_random)]
                ends = [Cheapest(*descend(rung, cheapest(ends).labels, max_iter))] if ends else []
                for start in starts:
                    ends.append(settle(rung, start, max_iter))  # what Ctrl-C keeps during the descent
                    ends[-1] = ends[-1] if many else descended(rung, ends[-1], max_iter)
                    bar.update(1)
                if many:
                    ends = [descended(rung, cheapest(ends), max_iter)]
                best = best_bounds(rung, cheapest(ends), max_iter)
                ends.append(best)
        except KeyboardInterrupt:
            if not ends:
                raise
            best = cheapest(ends)._replace(optimal=False, interrupted=True)
            tell("Interrupted: the cheapest labels so far are kept.", Interrupted)
    return best._replace(trace=unit * best.trace)


def cheapest(ends) -> Cheapest:
    """The end with the smallest loss."""
    return min(ends, key=lambda end: end.trace[-1])


def rungs_of(problem: BalancedProblem):
    """The `tighter` bounds that some labels satisfy."""
    sizes, rungs = np.bincount(problem.code), []
    alike = np.tile(sizes / problem.n_clusters, (problem.n_clusters, 1))
    for constraint in tighter(problem.constraint, sizes):
        with suppress(ValueError):
            nearest_counts(constraint, sizes, alike)
            rungs.append(constraint)
    return rungs


def settled_descent(problem: BalancedProblem, start: Cooled, max_iter) -> Cheapest:
    """The local optimum reached from a start."""
    return descended(problem, settle(problem, start, max_iter), max_iter)


def descended(problem: BalancedProblem, settled: Cheapest, max_iter) -> Cheapest:
    """The local optimum reached from a start that has settled."""
    labels, trace, optimal = descend(problem, settled.labels, max_iter - len(settled.trace))
    return Cheapest(labels, np.concatenate([settled.trace, trace[1:]]), optimal)


def best_bounds(problem: BalancedProblem, best: Cheapest, max_iter) -> Cheapest:
    """The best labels after clusters exchanged their bounds two by two, until no exchange gains.

    With many rows, only labels that are cheaper before descend to a local optimum.
    """
    bounds = [np.broadcast_to(bound, problem.n_clusters) for bound in size_bounds(problem.constraint)]
    every, tried = combinations(range(problem.n_clusters), 2), set()
    pairs = [(one, other) for one, other in every if any(bound[one] != bound[other] for bound in bounds)]
    while left := [pair for pair in pairs if pair not in tried]:
        tried.add(left[0])
        end = exchanged(problem, best, *left[0], max_iter)
        if end.trace[-1] < best.trace[-1] * (1 - SMALLEST_GAIN):
            best, tried = end._replace(trace=np.append(best.trace, end.trace[-1])), set()
    return best


def exchanged(problem: BalancedProblem, best: Cheapest, one, other, max_iter) -> Cheapest:
    """Where the best leads when two clusters exchange their places, and so their bounds."""
    order = np.arange(problem.n_clusters)
    order[[one, other]] = other, one
    centers = problem.loss.centers(problem.X, best.labels, problem.n_clusters, problem.weight)[order]
    counts = cell_masses(best.labels, problem.code, (problem.n_clusters, int(problem.code.max()) + 1))
    start = uncooled(problem, centers, counts[order])
    if len(problem.X) > ROWS_WITH_RUNGS:
        settled = settle(problem, start, rounds_at(len(problem.X)))
        if settled.trace[-1] >= best.trace[-1]:
            return settled
    return settled_descent(problem, start, max_iter)


def random_start(problem: BalancedProblem, rng) -> Cooled:
    """Random rows as centres, and random sizes: for few rows, where annealing averages too much and descents are cheap."""
    X, n_clusters, sizes = problem.X, problem.n_clusters, np.bincount(problem.code)
    counts = rng.dirichlet(np.full(n_clusters, 2.0))[:, None] * sizes
    return uncooled(problem, X[rng.choice(len(X), n_clusters, replace=False)], counts)


def uncooled(problem: BalancedProblem, centers, counts) -> Cooled:
    """A start at these centres and counts, without duals."""
    duals = np.zeros((len(Multipliers.of(problem.constraint).A), len(centers)))
    return Cooled(centers, duals, counts.astype(float), np.inf)


def centered(X, loss: Centroids):
    """Rows less their mean if distances stay the same, which loses less to rounding; large tables are centred already."""
    return X - X.mean(0) if loss.degree and len(X) < MANY else X


def in_own_units(problem: BalancedProblem):
    """(the problem in the search's units, the unit of losses there)."""
    X, loss = problem.X, problem.loss
    of_rows, of_losses = loss.scale(X)
    X = centered(X if np.all(of_rows == 1) else X / np.asarray(of_rows, X.dtype), loss)
    if isinstance(loss, Means) and X.shape[1] > len(X):  # distances stay the same in coordinates of the rows' span
        X = np.linalg.qr(X.T, mode="r").T
    return problem._replace(X=np.ascontiguousarray(X)), float(of_losses)


def settle(problem: BalancedProblem, start: Cooled, rounds) -> Cheapest:
    """Round the counts of one cooled start, then alternate transport and centres: the loss never rises."""
    sizes = np.bincount(problem.code, minlength=start.counts.shape[1])
    counts = nearest_counts(problem.constraint, sizes, start.counts)
    duals = Multipliers.of(problem.constraint).alpha(start.mu[None])[0]
    return alternate(problem, counts, start.centers, duals, rounds)


def alternate(problem: BalancedProblem, counts, centers, duals, rounds, done=lambda _: None) -> Cheapest:
    """Alternate transport to clusters of `counts` (K, J) and centres while it gains; with bounds, also at cheaper counts.

    `done(1)` is called after every round.
    """
    X, code, weight, loss = problem.X, problem.code, problem.weight, problem.loss
    labels, duals, trace, stays = np.full(len(X), -1, np.int32), duals.copy(), [], False
    while len(trace) < rounds and not stays:
        for group in range(counts.shape[1]):
            rows = np.flatnonzero(code == group)
            paid = Paid(loss, X, centers, weight, rows)
            cost = paid[:] if len(rows) <= AT_ONCE else paid
            labels[rows], duals[group] = assign(cost, counts[:, group], duals[group])
        centers = loss.centers(X, labels, problem.n_clusters, weight)
        value, last = loss.value(X, labels, centers, weight), min(trace, default=np.inf)
        trace.append(min(value, last))
        done(1)
        stays = value >= last  # tied labels could change for ever
        if stays and isinstance(problem.constraint, BoundedSizes):
            cheaper = cheaper_counts(problem, counts, centers, labels, duals)
            counts, stays = (counts, True) if cheaper is None else (cheaper, False)
    return Cheapest(labels, np.array(trace), False)
