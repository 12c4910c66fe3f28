"""A fair Gaussian mixture fitted to a table, and tables from it, whose true clusters are known and balanced."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayesfair._check import message
from bayesfair.datasets.fair_mixture import clusters_of_counts, points_of, whole_sizes
from bayesfair.fairness.balanced import least_room
from bayesfair.fairness.groups import Groups

STEPS = 20  # of EM from the clusters of the run
SCALINGS = 10  # of every E-step, which balance the groups
FLOOR = 1e-6  # of a column's variance, in every direction
ELONGATED = 2.0  # times that a cluster is longer than wide


class Truth(NamedTuple):
    """The law of a row: its cluster by `share` (K,), then its numbers and, independent of them, its discrete columns.

    `numbers`: positions of the columns that are normal, with centres (K, n) and covariances (K, n, n). `discrete`: of every
    set of columns (positions, values (levels, columns), shares (K, levels)). `low`, `high` (n,): bounds of the numbers.
    """

    share: np.ndarray
    numbers: np.ndarray
    center: np.ndarray
    covariance: np.ndarray
    discrete: list
    low: np.ndarray
    high: np.ndarray

    @property
    def is_elongated(self) -> bool:
        """Whether the rows of an average cluster are spread much more along one direction than across."""
        if self.numbers.size < 2:
            return False
        spread = np.sqrt(np.linalg.eigvalsh(self.covariance))
        return bool(self.share @ (spread[:, -1] / spread[:, 0]) > ELONGATED)

    def features(self, rng, cluster):
        """Random features (N, d) of rows in these clusters."""
        width = len(self.numbers) + sum(len(where) for where, _, _ in self.discrete)
        X = np.empty((len(cluster), width))
        normal = np.full(len(self.share), np.inf)
        X[:, self.numbers] = np.clip(points_of(rng, cluster, self.center, self.covariance, normal), self.low, self.high)
        for where, values, share in self.discrete:
            level = (rng.random(len(cluster))[:, None] > np.cumsum(share, axis=1)[cluster]).sum(1)
            X[:, where] = values[np.minimum(level, len(values) - 1)]
        return X


def fitted_truth(X, code, labels, n_clusters, n_numbers, widths, bounded) -> Truth:
    """The fair mixture after a few steps of EM from given clusters (N,); `code` (N,): the groups.

    The first `n_numbers` columns are numbers, then come sets of indicators of these `widths`. Numbers of two values are
    discrete too. Every group has the same share of every component. `bounded`: numbers stay within their range.
    """
    numbers, sets = _kinds(X, n_numbers, widths)
    known = [np.unique(X[:, where], axis=0, return_inverse=True) for where in sets]
    discrete = [(where, values, which.ravel()) for where, (values, which) in zip(sets, known)]
    soft, x = np.eye(n_clusters)[labels], X[:, numbers].astype(float)
    low, high = (x.min(0), x.max(0)) if bounded else (np.full(x.shape[1], -np.inf), np.full(x.shape[1], np.inf))
    for _ in range(STEPS):
        truth = Truth(soft.mean(0), numbers, *_normals(x, soft), _levels(soft, discrete), low, high)
        soft = _balanced(_log_density(truth, x, discrete), code, truth.share)
    return truth


def _kinds(X, n_numbers, widths):
    """(positions of the normal columns, positions of every set of discrete columns)."""
    few = np.array([len(np.unique(X[:, at])) <= 2 for at in range(n_numbers)], bool)
    ends = n_numbers + np.cumsum([0, *widths])
    sets = [np.array([at]) for at in np.flatnonzero(few)]
    sets += [np.arange(first, last) for first, last in itertools.pairwise(ends)]
    return np.flatnonzero(~few), sets


def _normals(x, soft):
    """(centres (K, n), covariances (K, n, n)), each drawn to the mean covariance as by n + 2 more rows of it."""
    size, dim = np.maximum(soft.sum(0), 1e-9), x.shape[1]
    center = soft.T @ x / size[:, None]
    apart = x[:, None] - center
    scatter = np.einsum("nk,nki,nkj->kij", soft, apart, apart, optimize=True)
    pooled = scatter.sum(0) / len(x) + FLOOR * np.diag(x.var(0))
    extra = dim + 2
    return center, (scatter + extra * pooled) / (size[:, None, None] + extra)


def _levels(soft, discrete):
    """Every set of discrete columns with the shares of its values in every component, each value counted once more in all."""
    found = []
    for where, values, which in discrete:
        held = np.stack([np.bincount(which, column, len(values)) for column in soft.T])
        held += np.bincount(which, minlength=len(values)) / len(which)
        found.append((where, values, held / held.sum(1, keepdims=True)))
    return found


def _log_density(truth, x, discrete):
    """log density (N, K) of every row in every component, with its share."""
    factor = np.linalg.cholesky(truth.covariance)
    apart = np.linalg.solve(factor, np.swapaxes(x[:, None] - truth.center, 0, 1).swapaxes(1, 2))
    log = np.log(np.maximum(truth.share, 1e-12)) - 0.5 * np.square(apart).sum(1).T
    log -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    for (_, _, which), (_, _, share) in zip(discrete, truth.discrete):
        log += np.log(share[:, which]).T
    return log


def _balanced(log, code, share):
    """Soft labels (N, K) of the rows, scaled until every group has these shares of the components."""
    soft = softmax(log, axis=1)
    members = [code == group for group in range(code.max() + 1)]
    for _ in range(SCALINGS):
        for rows in members:
            soft[rows] *= share / np.maximum(soft[rows].mean(0), 1e-12)
        soft /= soft.sum(1, keepdims=True)
    return soft


class Truths(NamedTuple):
    """What simulated tables share: the law of a row, the groups, and how many rows of each are in each cluster (K, J)."""

    truth: Truth
    groups: Groups
    counts: np.ndarray

    def table(self, rng):
        """(features (N, d), true clusters (N,)) of one table, other than the groups'."""
        cluster = clusters_of_counts(rng, self.groups.code, self.counts)
        return self.truth.features(rng, cluster), cluster


def some_of(groups: Groups, number) -> Groups:
    """The groups of `number` rows, in which each has its share of these; all rows if there are no more."""
    if len(groups.code) <= number:
        return groups
    sizes = whole_sizes(groups.sizes / len(groups.code), max(number, len(groups.names)))
    rows = [np.flatnonzero(groups.code == group)[:size] for group, size in enumerate(sizes)]
    return groups.take(np.sort(np.concatenate(rows)))


def balanced_counts(constraint, groups: Groups, share):
    """Counts (K, J) of the groups in clusters with these shares of the rows, as balanced as they can be."""
    n_obs, n_clusters = len(groups.code), len(share)
    if n_obs < n_clusters:
        raise ValueError(message("est", "have a row for each cluster", n_obs, "Ask for fewer clusters."))
    sizes = whole_sizes(share, n_obs)
    return least_room(constraint, groups.sizes, np.outer(sizes, groups.sizes) / n_obs)[1]
