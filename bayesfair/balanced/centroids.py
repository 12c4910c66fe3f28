"""Clusters with a centre each: sums over rows of a distance to the cluster's centre, for annealing and for descent.

Bregman divergences are affine in the row but for a term of its own, d(x, m) = own(x) + a(m) + <b(m), x>, and their best
centre is the mean; the loss of a cluster is the sum of own terms less n phi(mean), phi convex, so that what a move
changes is exact and cheap. Manhattan distances have medians, and no such formula.
"""

from dataclasses import dataclass
from itertools import pairwise, starmap

import jax.numpy as jnp
import numpy as np

from bayesfair._arrays import cluster_sums, namespace, row_blocks
from bayesfair._check import message

__all__ = ["CENTROIDS", "Centroids", "Paid", "mean", "medians", "resolve_centroids"]

EDGE = 1e-6  # how near to the edge of the domain a centre may be, in the loss's own `units`
WIDEST = 1e30  # the largest entry of a column in such units: float32 holds it
ROUNDING = 1e-12  # of the sum of weights: what lies so near to half of it is half of it
PRODUCTS = 2**17  # of numbers: of twice as many BLAS makes one thread alone; others would wait longer than they work
NEAR = 1e-4  # distance below which the weights of the medians grow no more


@dataclass(frozen=True)
class Centroids:
    """The Bregman divergence of phi = `potential`; subclass it and write `potential` and `gradient`, of arrays (..., d)."""

    name = "custom"
    degree = 0  # h where L(s X + a) = s^h L(X)
    lowest, highest = -np.inf, np.inf  # of the coordinates of centres
    exact_moves = True

    def potential(self, x):
        """phi (...,)."""
        raise NotImplementedError

    def gradient(self, x):
        """grad phi (..., d)."""
        raise NotImplementedError

    def units(self, X):
        """What to divide X by (all columns, or each) to have it near 1, and the unit of losses then: labels stay, and so do
        centres, but for what `inside` does to them."""
        return 1.0, 1.0

    def inside(self, centers):
        """Centres where the gradient is finite."""
        return np.clip(centers, self.lowest, self.highest)

    def affine(self, centers):
        """(a (...,), b (..., d)): d(x, m) is own(x) + a(m) + <b(m), x>."""
        gradient = self.gradient(centers)
        return (gradient * centers).sum(-1) - self.potential(centers), -gradient

    def soft(self, centers, x):
        """d without own terms (starts, clusters, rows), and what weights of that shape make of it: masses and sums of the
        rows, whose ratio is the centre."""
        a, b = self.affine(centers)

        def pull(weight):
            mass = weight.sum(2)[..., None]
            return jnp.broadcast_to(mass, centers.shape), jnp.einsum("tkb,bd->tkd", weight, x)

        return a[..., None] + jnp.einsum("tkd,bd->tkb", b, x), pull

    def own(self, X):
        """phi of the rows (N,)."""
        return self.potential(X)

    def distances(self, X, centers, weight=None):
        """d of every row to every centre (N, K), times the row's weight."""
        a, b = self.affine(self.inside(centers))
        out = np.empty((len(X), len(centers)))
        few = max(64, PRODUCTS // b.size // 64 * 64)
        for rows in starmap(slice, pairwise([0, *range(few, len(X) - few + 1, few), len(X)])):
            far = self.own(X[rows])[:, None] + a
            far += X[rows] @ b.T
            np.maximum(far, 0.0, out=out[rows])
        return out if weight is None else np.multiply(out, weight[:, None], out=out)

    def centers(self, X, labels, n_clusters, weight):
        """The best centre of every cluster (K, d), all of which are used; `weight` (N,): of the rows, here and below."""
        return cluster_sums(X, labels, n_clusters, weight) / np.bincount(labels, weight, n_clusters)[:, None]

    def reach(self, X):
        """The most that the centre of a cluster of one row would gain by giving way to a row that comes instead; in larger
        clusters it is divided by their sizes. Infinite where no bound is known."""
        return np.inf

    def drift(self, moved, reach):
        """The most by which distances to centres that have `moved` so far (K, d) differ from what they were (K,); of losses
        with a `reach`."""
        raise NotImplementedError

    def value(self, X, labels, centers, weight):
        """The loss of labels (N,) whose best centres those are."""
        middle = self.inside(centers)
        potential, gradient, paid = self.potential(middle), self.gradient(middle), np.empty(len(X))
        for rows in row_blocks(len(X)):
            own = labels[rows]
            far = self.own(X[rows]) - potential[own]
            paid[rows] = np.maximum(far - (gradient[own] * (X[rows] - middle[own])).sum(1), 0.0)
        return float(weight @ paid)


@dataclass(frozen=True)
class Means(Centroids):
    """k-means: phi = ||x||^2."""

    name = "kmeans"
    degree = 2

    def potential(self, x):
        return (x * x).sum(-1)

    def gradient(self, x):
        return 2 * x

    def reach(self, X):
        """The squared diameter: a swap of x and y changes the loss by their margins less ||x - y||^2 (1 / n_k + 1 / n_l)."""
        middle = mean(X)
        farthest = max(np.square(X[rows] - middle).sum(1).max() for rows in row_blocks(len(X)))
        return 4 * farthest

    def drift(self, moved, reach):
        """| ||x - m'||^2 - ||x - m||^2 | <= ||m' - m|| (||x - m'|| + ||x - m||), neither of which is above the diameter."""
        return 2 * np.sqrt(reach * np.square(moved).sum(1))

    def value(self, X, labels, centers, weight):
        paid = (weight[rows] @ np.square(X[rows] - centers[labels[rows]]) for rows in row_blocks(len(X)))
        return float(sum(paid).sum())


@dataclass(frozen=True)
class PoissonMeans(Centroids):
    """Kullback-Leibler divergence of counts: phi = sum x log x - x."""

    name = "kl"
    lowest = EDGE

    def units(self, X):
        """The mean."""
        mean = X.sum() / X.size or 1.0
        return mean, mean

    def potential(self, x):
        xp = namespace(x)
        return (x * xp.log(xp.where(x > 0, x, 1.0)) - x).sum(-1)

    def gradient(self, x):
        return namespace(x).log(x)


@dataclass(frozen=True)
class ScaleMeans(Centroids):
    """Itakura-Saito divergence: phi = -sum log x."""

    name = "itakura-saito"
    lowest = EDGE

    def units(self, X):
        """The least entry of every column: centres, which are above it, are never moved."""
        return np.maximum(X.min(0), X.max(0) / WIDEST), 1.0

    def potential(self, x):
        return -namespace(x).log(x).sum(-1)

    def gradient(self, x):
        return -1 / x


@dataclass(frozen=True)
class BinaryMeans(Centroids):
    """Logistic divergence of shares: phi = sum x log x + (1 - x) log(1 - x)."""

    name = "binary"
    lowest, highest = EDGE, 1 - EDGE

    def potential(self, x):
        xp = namespace(x)
        inner = lambda part: part * xp.log(xp.where(part > 0, part, 1.0))  # noqa: E731
        return (inner(x) + inner(1 - x)).sum(-1)

    def gradient(self, x):
        xp = namespace(x)
        return xp.log(x) - xp.log1p(-x)


@dataclass(frozen=True)
class Medians(Centroids):
    """k-medians: sums of absolute differences to the median of every coordinate."""

    name = "manhattan"
    degree = 1
    exact_moves = False

    def soft(self, centers, x):
        apart = jnp.abs(x.T - centers[..., None])  # (starts, clusters, dim, rows)

        def pull(weight):
            pulled = weight[:, :, None] / jnp.maximum(apart, NEAR)
            return pulled.sum(3), jnp.einsum("tkdb,bd->tkd", pulled, x)

        return apart.sum(2), pull

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
    """What rows pay in every cluster (rows, clusters), found where it is asked for: an array of it would be as large as the
    table. `rows`: which ones of X, all unless given."""

    def __init__(self, loss: Centroids, X, centers, weight, rows=None):
        self.loss, self.X, self.centers, self.weight, self.rows = loss, X, centers, weight, rows
        self.shape = len(X if rows is None else rows), len(centers)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, part):
        rows = part if self.rows is None else self.rows[part]
        return self.loss.distances(self.X[rows], self.centers, self.weight[rows])


def mean(X):
    """Of the rows (d,)."""
    return X.sum(0) / len(X)


def medians(X, weight):
    """Weighted medians (d,) of rows (N, d): the middle of those values beside which half of the weight lies on either side."""
    order = np.argsort(X, axis=0, kind="stable")
    values, running = np.take_along_axis(X, order, 0), np.cumsum(weight[order], axis=0)
    half = running[-1] / 2
    slack = ROUNDING * running[-1]
    low, high = (running < half - slack).sum(0), (running <= half + slack).sum(0)
    column = np.arange(X.shape[1])
    return (values[low, column] + values[np.minimum(high, len(X) - 1), column]) / 2


CENTROIDS = {kind.name: kind() for kind in (Means, Medians, PoissonMeans, ScaleMeans, BinaryMeans)}


def resolve_centroids(loss) -> Centroids:
    """The `Centroids` of that name, of a `Loss` whose dissimilarity has it, or the `Centroids` itself.

    Raises
    ------
    ValueError: a loss without centres that have a formula.
    """
    if isinstance(loss, Centroids):
        return loss
    dissimilarity = getattr(loss, "dissimilarity", loss)
    name = dissimilarity if isinstance(dissimilarity, str) else getattr(dissimilarity, "name", None)
    if name in CENTROIDS:
        return CENTROIDS[name]
    names = ", ".join(map(repr, CENTROIDS))
    raise ValueError(message("loss", f"be one of {names}", repr(loss), "Other losses have no centres with a formula."))
