"""Clusters with a centre each: sums over rows of a distance to the cluster's centre, for annealing and descent.

Bregman divergences are affine in the row apart from a term of its own, d(x, m) = own(x) + a(m) + <b(m), x>, and their
best centre is the mean. The loss of a cluster is the sum of own terms less n phi(mean), with phi convex, so that the
effect of a move is exact and cheap. Manhattan distances have medians and no such formula.
"""

from dataclasses import dataclass
from itertools import pairwise, starmap

import numpy as np

from bayesfair._arrays import cluster_sums, row_blocks
from bayesfair.fairlets.dissimilarity import (
    Bernoulli,
    Bregman,
    Dissimilarity,
    ItakuraSaito,
    KullbackLeibler,
    Minkowski,
    SquaredEuclidean,
)

ROUNDING = 1e-12  # relative to the sum of weights: so near to half of it counts as half
PRODUCTS = 2**17  # of numbers: BLAS uses one thread up to twice as many; more threads would mostly wait


@dataclass(frozen=True)
class Centroids:
    """Means as centres, under a Bregman divergence that has a `potential` and a `gradient`.

    Parameters
    ----------
    dissimilarity : Bregman
        The divergence.

    Attributes
    ----------
    degree : float
        h if L(s X + a) = s^h L(X), 0 if there is none.
    exact_moves : bool
        Whether what a move gains is known from the means.

    Notes
    -----
    The search asks for the following, of rows `X` (n_obs, n_features) with their `labels` and `weight` (n_obs,) and of
    `centers` (n_clusters, n_features):

    * scale(X): what to divide X by to have it near 1, a number or one for each column, and the unit of losses then.
      Labels stay the same, and so do centres, apart from what `inside` does to them;
    * inside(centers): centres where the gradient is finite;
    * affine(centers): a (n_clusters,) and b (n_clusters, n_features) of d(x, m) = own(x) + a(m) + <b(m), x>;
    * own(X): the rows' own terms, (n_obs,);
    * soft(centers), with several starts (n_starts, n_clusters, n_features): offsets (n_starts, n_clusters), slopes of the
      centers' shape, and whether a row pays the sum of |x - slope| beside its offset, as medians do, or <slope, x>;
    * distances(X, centers, weight): (n_obs, n_clusters), times the weights if there are any;
    * centers(X, labels, n_clusters, weight): the best ones; value(X, labels, centers, weight): the loss with these;
    * reach(X): the most that the centre of a cluster of one row can gain when another row replaces it, to be divided by
      the sizes of larger ones; infinite if no bound is known;
    * drift(moved, reach): the most by which distances change when centres move so far, if there is a `reach`.
    """

    dissimilarity: Dissimilarity

    degree = 0
    exact_moves = True

    @property
    def name(self):
        return self.dissimilarity.name

    def scale(self, X):
        return self.dissimilarity.scale(X)

    def inside(self, centers):
        return np.clip(centers, self.dissimilarity.lowest, self.dissimilarity.highest)

    def affine(self, centers):
        gradient = self.dissimilarity.gradient(centers)
        return (gradient * centers).sum(-1) - self.dissimilarity.potential(centers), -gradient

    def soft(self, centers):
        return *self.affine(centers), False

    def own(self, X):
        return self.dissimilarity.potential(X)

    def distances(self, X, centers, weight=None):
        a, b = self.affine(self.inside(centers))
        out = np.empty((len(X), len(centers)))
        few = max(64, PRODUCTS // b.size // 64 * 64)
        for rows in starmap(slice, pairwise([0, *range(few, len(X) - few + 1, few), len(X)])):
            far = self.own(X[rows])[:, None] + a
            far += X[rows] @ b.T
            np.maximum(far, 0.0, out=out[rows])
        return out if weight is None else np.multiply(out, weight[:, None], out=out)

    def centers(self, X, labels, n_clusters, weight):
        return cluster_sums(X, labels, n_clusters, weight) / np.bincount(labels, weight, n_clusters)[:, None]

    def reach(self, X):
        return np.inf

    def value(self, X, labels, centers, weight):
        middle, paid = self.inside(centers), np.empty(len(X))
        potential, gradient = self.dissimilarity.potential(middle), self.dissimilarity.gradient(middle)
        for rows in row_blocks(len(X)):
            own = labels[rows]
            far = self.own(X[rows]) - potential[own]
            paid[rows] = np.maximum(far - (gradient[own] * (X[rows] - middle[own])).sum(1), 0.0)
        return float(weight @ paid)


@dataclass(frozen=True)
class Means(Centroids):
    """k-means, whose distances bound what a move can gain."""

    degree = 2

    def reach(self, X):
        """The squared diameter: a swap of x and y changes the loss by their margins less ||x - y||^2 (1 / n_k + 1 / n_l)."""
        middle = X.mean(0)
        farthest = max(np.square(X[rows] - middle).sum(1).max() for rows in row_blocks(len(X)))
        return 4 * farthest

    def drift(self, moved, reach):
        """| ||x - m'||^2 - ||x - m||^2 | <= ||m' - m|| (||x - m'|| + ||x - m||), neither of which is above the diameter."""
        return 2 * np.sqrt(reach * np.square(moved).sum(1))

    def value(self, X, labels, centers, weight):
        paid = (weight[rows] @ np.square(X[rows] - centers[labels[rows]]) for rows in row_blocks(len(X)))
        return float(sum(paid).sum())


@dataclass(frozen=True)
class Medians(Centroids):
    """k-medians: sums of absolute differences to the median of every coordinate; not a Bregman divergence."""

    degree = 1
    exact_moves = False

    def soft(self, centers):
        return np.zeros(centers.shape[:-1]), centers, True

    def own(self, X):
        return np.zeros(len(X))

    def reach(self, X):
        return 0.0

    def drift(self, moved, reach):
        return np.abs(moved).sum(1)

    def distances(self, X, centers, weight=None):
        from scipy.spatial.distance import cdist

        out = cdist(X, centers, "cityblock")
        return out if weight is None else np.multiply(out, weight[:, None], out=out)

    def centers(self, X, labels, n_clusters, weight):
        return np.stack([medians(X[labels == k], weight[labels == k]) for k in range(n_clusters)])

    def value(self, X, labels, centers, weight):
        return float(weight @ np.abs(X - centers[labels]).sum(1))


class Paid:
    """Costs of `rows` of X (all by default) in every cluster, computed on access: an array would be as large as the table."""

    def __init__(self, loss: Centroids, X, centers, weight, rows=None):
        self.loss, self.X, self.centers, self.weight, self.rows = loss, X, centers, weight, rows
        self.shape = len(X if rows is None else rows), len(centers)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, part):
        rows = part if self.rows is None else self.rows[part]
        return self.loss.distances(self.X[rows], self.centers, self.weight[rows])


def medians(X, weight):
    """Weighted medians (d,) of rows (N, d): the middle of the values with half of the weight on either side."""
    order = np.argsort(X, axis=0, kind="stable")
    values, running = np.take_along_axis(X, order, 0), np.cumsum(weight[order], axis=0)
    half = running[-1] / 2
    slack = ROUNDING * running[-1]
    low, high = (running < half - slack).sum(0), (running <= half + slack).sum(0)
    column = np.arange(X.shape[1])
    return (values[low, column] + values[np.minimum(high, len(X) - 1), column]) / 2


_OF_MEANS = (Centroids(kind()) for kind in (KullbackLeibler, ItakuraSaito, Bernoulli))
CENTROIDS = {one.name: one for one in (Means(SquaredEuclidean()), Medians(Minkowski()), *_OF_MEANS)}


def centroids_of(dissimilarity: Dissimilarity) -> Centroids | None:
    """The centroids of a dissimilarity, or None if its best centres have no formula."""
    known = next((one for one in CENTROIDS.values() if one.dissimilarity == dissimilarity), None)
    has_potential = isinstance(dissimilarity, Bregman) and type(dissimilarity).potential is not Bregman.potential
    return known or (Centroids(dissimilarity) if has_potential else None)
