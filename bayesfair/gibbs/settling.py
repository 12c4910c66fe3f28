"""Labels from cooled starts: counts in whole people, then centres and exact transport in turn until neither gains."""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import MANY
from bayesfair._progress import progress
from bayesfair.fairness import nearest_counts
from bayesfair.gibbs.centroids import Centroids, Paid, mean, resolve_centroids
from bayesfair.gibbs.cooling import Cooled
from bayesfair.gibbs.descent import descend
from bayesfair.gibbs.recombination import search
from bayesfair.gibbs.transport_to_clusters import assign

__all__ = ["Cheapest", "Settled", "balanced_labels", "cheapest_labels", "cooled_labels", "settle"]

ROUNDS, ROUNDS_OF_MANY = 50, 3  # of starts, which sweeps settle further
FINALISTS = 3  # starts that are brought to a local optimum; all of them and others where rows are few
FEW_ROWS = 50
AT_ONCE = 2**16  # rows of a group whose costs are in memory together
RANDOM = 4  # times as many starts at random as cooled ones, where rows are few
GENERATIONS = 5  # in which the cooled starts are recombined


class Settled(NamedTuple):
    """Balanced labels, the duals of their transport (groups, clusters), and the losses on the way to them."""

    labels: np.ndarray
    duals: np.ndarray
    trace: np.ndarray


def cooled_labels(X, code, weight, constraint, n_clusters, loss, n_starts, seed):
    """(labels (n_starts, N), of the smallest type, losses (n_starts,)), best first, each balanced: starts of chains.

    X: rows (N, d), float64 or float32, near their spread where the loss has a degree. code: their groups (N,), those of the
    constraint's counts. weight: (N,), above zero and of mean 1, of the loss; counts are of rows. loss: a name or a `Loss`, see
    `resolve_centroids`.

    Raises
    ------
    ValueError: nobody can be labelled so (`nearest_counts`), or a loss without centres.
    """
    loss, rng = resolve_centroids(loss), np.random.default_rng(seed)
    X, unit = in_own_units(X, loss)
    cooled = search(X, code, weight, constraint, loss, n_clusters, n_starts, 0, rng)
    labels, losses = np.empty((n_starts, len(X)), np.min_scalar_type(n_clusters)), np.empty(n_starts)
    for at in range(n_starts):
        settled = settle(X, code, weight, constraint, loss, cooled.run(at), rounds_of_starts(len(X)))
        labels[at], losses[at] = settled.labels, unit * settled.trace[-1]
    order = np.argsort(losses, kind="stable")
    return labels[order], losses[order]


def balanced_labels(X, code, weight, constraint, centers):
    """The local optimum (N,) of balanced k-means that `centers` (clusters, dim) lead to."""
    loss, sizes = resolve_centroids("kmeans"), np.bincount(code)
    if len(X) < MANY:
        centers = centers - X.mean(0)
    X = centered(X, loss)
    wanted = np.zeros((len(centers), len(sizes)))
    np.add.at(wanted, (loss.distances(X, centers).argmin(1), code), 1.0)
    start = Cooled(centers, np.zeros((len(sizes), len(centers))), wanted, np.inf)
    return settle(X, code, weight, constraint, loss, start, rounds_of_starts(len(X))).labels


def rounds_of_starts(n_obs):
    return ROUNDS if n_obs < MANY else ROUNDS_OF_MANY


class Cheapest(NamedTuple):
    """Balanced labels (N,), the losses on the way to them, and whether nothing in their neighbourhood is cheaper."""

    labels: np.ndarray
    trace: np.ndarray
    optimal: bool


def cheapest_labels(
    X,
    code,
    weight,
    constraint,
    n_clusters,
    loss,
    n_starts,
    seed,
    *,
    max_iter,
    progress_bar=False,
) -> Cheapest:
    """The cheapest balanced labels found: starts cooled and recombined, the best of them brought to a local optimum.

    Arguments as of `cooled_labels`. max_iter: rounds of transport, and passes of the descent, of every finalist.
    progress_bar: one of generations and finalists.
    """
    loss, rng = resolve_centroids(loss), np.random.default_rng(seed)
    X, unit = in_own_units(X, loss)
    few = len(X) <= FEW_ROWS
    n_cooled, n_random = (n_starts, RANDOM * n_starts) if few else (min(FINALISTS, n_starts), 0)
    with progress(GENERATIONS + n_cooled + n_random, "cooling", progress_bar) as bar:
        settings = {"finalists": n_cooled, "done": bar.update}
        cooled = search(X, code, weight, constraint, loss, n_clusters, n_starts, GENERATIONS, rng, **settings)
        starts = [cooled.run(at) for at in range(n_cooled)]
        if few:
            starts += [random_start(X, code, n_clusters, rng) for _ in range(n_random)]
        ends = []
        for start in starts:
            ends.append(descent(X, code, weight, constraint, loss, start, max_iter))
            bar.update(1)
    best = min(ends, key=lambda end: end.trace[-1])
    return best._replace(trace=unit * best.trace)


def descent(X, code, weight, constraint, loss: Centroids, start: Cooled, max_iter) -> Cheapest:
    """The local optimum that a start leads to."""
    settled = settle(X, code, weight, constraint, loss, start, max_iter)
    about = constraint, loss, len(start.centers), max_iter - len(settled.trace)
    labels, trace, optimal = descend(X, code, weight, settled.labels, *about)
    return Cheapest(labels, np.concatenate([settled.trace, trace[1:]]), optimal)


def random_start(X, code, n_clusters, rng) -> Cooled:
    """Rows as centres and sizes of clusters at random: of few rows annealing averages too much, and descents cost little."""
    sizes = np.bincount(code)
    counts = rng.dirichlet(np.full(n_clusters, 2.0))[:, None] * sizes
    return Cooled(X[rng.choice(len(X), n_clusters, replace=False)], np.zeros((len(sizes), n_clusters)), counts, np.inf)


def centered(X, loss: Centroids):
    """Rows less their mean where that changes no distance: less is lost to rounding. Many rows come without it."""
    return X - mean(X) if loss.degree and len(X) < MANY else X


def in_own_units(X, loss: Centroids):
    """(rows in units in which labels are found, the unit of losses there)."""
    of_rows, of_losses = loss.units(X)
    X = X if np.all(of_rows == 1) else X / np.asarray(of_rows, X.dtype)
    return centered(X, loss), float(of_losses)


def settle(X, code, weight, constraint, loss: Centroids, start: Cooled, rounds) -> Settled:
    """Counts nearest to those of one cooled start, then transport at these counts and centres in turn: the loss never rises."""
    sizes = np.bincount(code, minlength=start.counts.shape[1])
    counts = nearest_counts(constraint, sizes, start.counts)
    return alternate(X, code, weight, counts, loss, start.centers, start.duals, rounds)


def alternate(X, code, weight, counts, loss: Centroids, centers, duals, rounds=ROUNDS) -> Settled:
    """Transport to clusters of `counts` (clusters, groups) and centres in turn until nothing is gained."""
    n_clusters, n_groups = counts.shape
    labels, duals, trace, stays = np.full(len(X), -1, np.int32), duals.copy(), [], False
    while len(trace) < rounds and not stays:
        for group in range(n_groups):
            rows = np.flatnonzero(code == group)
            paid = Paid(loss, X, centers, weight, rows)
            cost = paid[:] if len(rows) <= AT_ONCE else paid
            labels[rows], duals[group] = assign(cost, counts[:, group], duals[group])
        centers = loss.centers(X, labels, n_clusters, weight)
        value, last = loss.value(X, labels, centers, weight), min(trace, default=np.inf)
        trace.append(min(value, last))
        stays = value >= last  # labels that are tied may change for ever
    return Settled(labels, duals, np.array(trace))
