"""Labels from cooled starts: counts in whole people, then centres and exact transport in turn until neither changes."""

from typing import NamedTuple

import numpy as np

from bayesfair.fairness import nearest_counts
from bayesfair.gibbs.centroids import Centroids, resolve_centroids
from bayesfair.gibbs.cooling import Cooled, cool
from bayesfair.gibbs.transport_to_clusters import assign

__all__ = ["Settled", "cooled_labels", "settle"]

ROUNDS = 50


class Settled(NamedTuple):
    """Balanced labels, the duals of their transport (groups, clusters), and the losses on the way to them."""

    labels: np.ndarray
    duals: np.ndarray
    trace: np.ndarray


def cooled_labels(X, code, constraint, n_clusters, loss, n_starts, seed):
    """(labels (n_starts, N), losses (n_starts,)), best first, each balanced: starts of chains and of the descent.

    X: rows (N, d), float64, in units near their spread. code: their groups (N,), those of the constraint's counts. loss:
    a name or a `Loss`, see `resolve_centroids`.

    Raises
    ------
    ValueError: nobody can be labelled so (`nearest_counts`), or a loss without centres.
    """
    loss, rng = resolve_centroids(loss), np.random.default_rng(seed)
    X = X - X.mean(0) if loss.degree else X
    cooled = cool(X, code, constraint, loss, n_clusters, n_starts, rng)
    settled = [settle(X, code, constraint, loss, start) for start in runs(cooled)]
    order = np.argsort([one.trace[-1] for one in settled], kind="stable")
    return np.stack([settled[at].labels for at in order]), np.array([settled[at].trace[-1] for at in order])


def runs(cooled: Cooled):
    """The starts one by one, best first."""
    return [Cooled(*(part[at] for part in cooled)) for at in np.argsort(cooled.loss, kind="stable")]


def settle(X, code, constraint, loss: Centroids, start: Cooled, rounds=ROUNDS) -> Settled:
    """Counts nearest to those of one cooled start, then transport at these counts and centres in turn: the loss never rises."""
    counts = nearest_counts(constraint, np.bincount(code, minlength=start.counts.shape[1]), start.counts)
    return alternate(X, code, counts, loss, start.centers, start.duals, rounds)


def alternate(X, code, counts, loss: Centroids, centers, duals, rounds=ROUNDS) -> Settled:
    """Transport to clusters of `counts` (clusters, groups) and centres in turn until labels stay."""
    n_clusters, n_groups = counts.shape
    members = [np.flatnonzero(code == group) for group in range(n_groups)]
    labels, trace, duals = np.full(len(X), -1), [], duals.copy()
    for _ in range(rounds):
        cost, before = loss.distances(X, centers), labels.copy()
        for group, rows in enumerate(members):
            labels[rows], duals[group] = assign(cost[rows], counts[:, group], duals[group])
        centers = loss.centers(X, labels, n_clusters)
        trace.append(loss.value(X, labels, n_clusters))
        if (labels == before).all():
            break
    return Settled(labels, duals, np.array(trace))
