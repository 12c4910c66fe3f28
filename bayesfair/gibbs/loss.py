"""The protocol of a clustering loss L_c(C | u): what kernels need from it.

Kernels take units out of clusters (`remove`), ask for the cost of joining each cluster (`insertion`) and put units back
(`insert`), on statistics that only the loss reads. Losses whose clusters have a conjugate centre (`augmentation`, the
Bregman family) can also move all units at once. Losses compare by value, so that equal ones share compiled samplers.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesfair.fairlets.dissimilarity import resolve_dissimilarity
from bayesfair.gibbs.parts_of_rows import sum_over_rows


class Units(NamedTuple):
    """The units of a clustering. A weight of zero means that the unit is not there.

    Attributes
    ----------
    center : array of shape (n_units, n_features)
        Their centres.
    weight : array of shape (n_units,)
        Their weights.
    cluster : int array of shape (n_units,) or None
        Their clusters.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> bf.gibbs.Units(np.zeros((2, 1)), np.ones(2), np.array([0, 1])).weight.tolist()
    [1.0, 1.0]
    """

    center: Float[Array, "units dim"]
    weight: Float[Array, " units"]
    cluster: Int[Array, " units"] | None


@dataclass(frozen=True)
class Loss:
    """A clustering loss that is a sum over clusters. Subclass it and write `cluster_losses`.

    Parameters
    ----------
    dissimilarity : Dissimilarity, optional
        What members of fairlets pay. Its domain is that of the loss. By default squared Euclidean.
    degree : float, optional
        h: the normaliser of exp(-lambda L) over N rows in d dimensions falls as lambda^(-N d / h), which sets the conjugate
        step of the inverse temperature. 2 for squared distances, 1 for norms. Without one, inverse temperatures are fixed.
    translation_invariant : bool, default False
        Whether the loss stays the same if all rows move alike.

    References
    ----------
    Rigon, Herring and Dunson (2023).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.KMeansLoss().degree
    2.0
    """

    dissimilarity: Any = field(default_factory=lambda: resolve_dissimilarity("kmeans"))
    degree: float | None = None
    translation_invariant: bool = False
    homogeneous = False  #: Whether L(s X) = s^degree L(X). The degree is then exact.
    augmentation = None  #: The loss itself if it has conjugate centres, a `BregmanLoss`.

    def cluster_losses(self, units: Units, n_clusters: int) -> Float[Array, " clusters"]:
        """The loss of every cluster.

        Units of weight zero must count for nothing. An empty cluster costs 0.

        Parameters
        ----------
        units : Units
            The units and their clusters.
        n_clusters : int
            Number of clusters.

        Returns
        -------
        array of shape (n_clusters,)
        """
        raise NotImplementedError(f"{type(self).__name__} must define cluster_losses(units, n_clusters).")

    def start(self, units: Units, n_clusters: int):
        """Statistics of a clustering, from scratch.

        Parameters
        ----------
        units : Units
            The units and their clusters.
        n_clusters : int
            Number of clusters.

        Returns
        -------
        tree of arrays
        """
        return units

    def remove(self, stats, i, center, weight, cluster):
        """Statistics after unit i has left its cluster.

        Parameters
        ----------
        stats : tree of arrays
            Statistics with the unit.
        i : int
            The unit.
        center : array of shape (n_features,)
            Its centre.
        weight : float
            Its weight.
        cluster : int
            Its cluster.

        Returns
        -------
        tree of arrays
        """
        return stats._replace(weight=stats.weight.at[i].set(0.0))

    def insert(self, stats, i, center, weight, cluster):
        """Statistics after unit i, which is in no cluster, has joined one.

        Parameters
        ----------
        stats : tree of arrays
            Statistics without the unit.
        i : int
            The unit.
        center : array of shape (n_features,)
            Its centre.
        weight : float
            Its weight.
        cluster : int
            The cluster that it joins.

        Returns
        -------
        tree of arrays
        """
        return Units(stats.center.at[i].set(center), stats.weight.at[i].set(weight), stats.cluster.at[i].set(cluster))

    def insertion(self, stats, i, center, weight, n_clusters: int) -> Float[Array, " clusters"]:
        """What the loss would gain if unit i, which is in no cluster, joined each of them.

        Parameters
        ----------
        stats : tree of arrays
            Statistics without the unit.
        i : int
            The unit.
        center : array of shape (n_features,)
            Its centre.
        weight : float
            Its weight.
        n_clusters : int
            Number of clusters.

        Returns
        -------
        array of shape (n_clusters,)
        """

        def joined(k):
            return self.cluster_losses(self.insert(stats, i, center, weight, k), n_clusters)[k]

        return jax.vmap(joined)(jnp.arange(n_clusters)) - self.cluster_losses(stats, n_clusters)


def taken_out(loss: Loss, stats, numbers, units: Units, unroll=False):
    """Statistics without these units, which have these numbers."""

    def step(stats, unit):
        return loss.remove(stats, *unit), None

    return jax.lax.scan(step, stats, (numbers, *units), unroll=unroll)[0]


def put_back(loss: Loss, stats, numbers, units: Units, n_clusters: int, unroll=False):
    """(statistics with these units, which were taken out, in their clusters; the increase of the loss)."""

    def step(stats, inputs):
        *unit, cluster = inputs
        return loss.insert(stats, *unit, cluster), loss.insertion(stats, *unit, n_clusters)[cluster]

    stats, gains = jax.lax.scan(step, stats, (numbers, *units), unroll=unroll)
    return stats, sum(gains)


class ClusterMeans(NamedTuple):
    """Sufficient statistics of the Bregman family: units, total weight and weighted sum of each cluster."""

    count: Int[Array, " clusters"]
    mass: Float[Array, " clusters"]
    sum: Float[Array, "clusters dim"]

    @property
    def mean(self):
        return self.sum / jnp.where(self.count > 0, self.mass, 1.0)[:, None]

    def add(self, cluster, center, weight, sign):
        return ClusterMeans(
            self.count.at[cluster].add(sign),
            self.mass.at[cluster].add(sign * weight),
            self.sum.at[cluster].add(sign * weight * center),
        )


def cluster_means(units: Units, n_clusters: int) -> ClusterMeans:
    """Counts, weights and weighted sums of every cluster."""

    def means(units):
        summed = partial(jax.ops.segment_sum, segment_ids=units.cluster, num_segments=n_clusters)
        count = summed((units.weight > 0).astype(jnp.int32))
        return ClusterMeans(count, summed(units.weight), summed(units.weight[:, None] * units.center))

    return _summed(means, units)


def _summed(of, units: Units):
    """`of(units)`, a sum over units, computed part by part if there are many."""
    return sum_over_rows(lambda part, new: of(part._replace(weight=jnp.where(new, part.weight, 0.0))), units)


@dataclass(frozen=True)
class BregmanLoss(Loss):
    """A Bregman divergence to the weighted mean: L_k = sum_i w_i d_phi(u_i, mean_k).

    Given conjugate centres the units of a clustering are independent. The blocked kernels use that.

    Parameters
    ----------
    dissimilarity : Bregman, optional
        The divergence. By default squared Euclidean.
    degree : float, default 2.0
        See `Loss`.
    translation_invariant : bool, default False
        See `Loss`.

    Notes
    -----
    Degree 2 is exact for squared distances. The other divergences are not homogeneous of degree 2 (Kullback-Leibler has
    degree 1, Itakura-Saito 0, the logistic none). Near the mean each is half a squared distance in the metric phi'', so that
    N d / 2 is the power of lambda to second order, better for larger lambda.

    References
    ----------
    Banerjee, Merugu, Dhillon and Ghosh (2005).

    Examples
    --------
    >>> import bayesfair as bf
    >>> issubclass(bf.gibbs.PoissonLoss, bf.gibbs.BregmanLoss)
    True
    """

    degree: float | None = 2.0

    def divergence(self, x, y):
        """d_phi(x, y) over the last axis.

        Parameters
        ----------
        x : array of shape (..., n_features)
            Points.
        y : array of shape (..., n_features)
            Points, of a shape that broadcasts.

        Returns
        -------
        array of shape (...)
        """
        return self.dissimilarity.divergence(x, y)

    @property
    def augmentation(self):
        return self

    normalizer_reads_mean = True  #: Whether `log_normalizer` reads more than counts and weights.
    log_measure = None  #: Log of the density of mu in the `coordinates`, a method, if it is known.

    def coordinates(self, centers) -> Float[Array, "clusters dim"]:
        """Centres in coordinates that may be any real numbers.

        If `log_measure(coordinates)`, the log of the density of mu in them, is known, chains can jump between modes.

        Parameters
        ----------
        centers : array of shape (n_clusters, n_features)
            Centres.

        Returns
        -------
        array of shape (n_clusters, n_features)
        """
        return centers

    def centers_at(self, coordinates) -> Float[Array, "clusters dim"]:
        """The centres that have given coordinates.

        Parameters
        ----------
        coordinates : array of shape (n_clusters, n_features)
            What `coordinates` returned.

        Returns
        -------
        array of shape (n_clusters, n_features)
        """
        return coordinates

    def divergences(self, u, centers) -> Float[Array, "units clusters"]:
        """d_phi of every unit to every centre, up to a term of the unit's own.

        Parameters
        ----------
        u : array of shape (n_units, n_features)
            Centres of the units.
        centers : array of shape (n_clusters, n_features)
            Centres of the clusters.

        Returns
        -------
        array of shape (n_units, n_clusters)
        """
        return jax.vmap(lambda center: self.divergence(u, center), out_axes=1)(centers)

    def draw_centers(self, key, inverse_temperature, means: ClusterMeans) -> Float[Array, "clusters dim"]:
        """Draw conjugate centres from p(m) proportional to exp(-lambda W_k d_phi(mean_k, m)) mu(m).

        The loss chooses the measure mu.

        Parameters
        ----------
        key : jax.Array
            A JAX random key.
        inverse_temperature : float
            lambda.
        means : ClusterMeans
            Counts, weights W and weighted sums of the clusters.

        Returns
        -------
        array of shape (n_clusters, n_features)
        """
        raise NotImplementedError

    def log_normalizer(self, inverse_temperature, means: ClusterMeans) -> Float[Array, " clusters"]:
        """The log of the integral of exp(-lambda W_k d_phi(mean_k, m)) mu(dm), for every cluster.

        Call it log g_k. The integral of prod_i exp(-lambda w_i d_phi(u_i, m)) mu(dm) is then g_k exp(-lambda L_k).

        Parameters
        ----------
        inverse_temperature : float
            lambda.
        means : ClusterMeans
            Counts, weights W and weighted sums of the clusters.

        Returns
        -------
        array of shape (n_clusters,)
            Infinite or NaN for an empty cluster.

        Notes
        -----
        The losses that ship are within 2e-6 a feature of the exact value in float32, for lambda W_k from 1e-2 to 1e8. So is the
        difference when a unit moves, which enters acceptance.
        """
        raise NotImplementedError

    def cluster_losses(self, units, n_clusters):
        mean = cluster_means(units, n_clusters).mean

        def losses(units):
            each = units.weight * self.divergence(units.center, mean[units.cluster])
            return jax.ops.segment_sum(each, units.cluster, n_clusters)

        return _summed(losses, units)

    def start(self, units, n_clusters):
        return cluster_means(units, n_clusters)

    def remove(self, stats, i, center, weight, cluster):
        return stats.add(cluster, center, weight, -1)

    def insert(self, stats, i, center, weight, cluster):
        return stats.add(cluster, center, weight, +1)

    def insertion(self, stats, i, center, weight, n_clusters):
        """w d(u, new mean) + W d(old mean, new mean): two terms above zero instead of a difference of large ones."""
        empty = stats.count == 0  # an empty cluster's sum may hold rounding, which is no mean
        mass = jnp.where(empty, 0.0, stats.mass)
        new_mean = jnp.where(empty[:, None], center, (stats.sum + weight * center) / (stats.mass + weight)[:, None])
        old_mean = jnp.where(empty[:, None], center, stats.mean)
        return weight * self.divergence(center, new_mean) + mass * self.divergence(old_mean, new_mean)
