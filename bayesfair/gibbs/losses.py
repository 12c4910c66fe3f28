"""The clustering losses of the package: the Bregman family, by the law of its centres, and pairwise dissimilarities."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Float, Int

from bayesfair.fairlets.dissimilarity import Minkowski, resolve_dissimilarity
from bayesfair.gibbs.loss import BregmanLoss, Loss, Units

SERIES_FROM = 4.0  # below, closed forms are accurate to 1e-6 in float32; above, the series to 1e-10 in float64
STIRLING = np.array([1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360])
HALF_STEP = -(1 - 2.0 ** (1 - 2 * np.arange(1, 7))) * STIRLING
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _stirling_remainder(s):
    """R(s) = log Gamma(s) - (s - 1/2) log s + s - log(2 pi) / 2 for s > 0, which falls to 0 as 1 / (12 s).

    With R and `_half_step_remainder`, normalisers have no terms of order s log s, which cancel in float32 at s = 1e6.
    """
    closed = gammaln(s) - (s - 0.5) * jnp.log(s) + s - HALF_LOG_2PI
    return jnp.where(s < SERIES_FROM, closed, _odd_powers(STIRLING, s))


def _half_step_remainder(s):
    """Q(s) = log Gamma(s + 1/2) - s log s + s - log(2 pi) / 2 for s >= 0: -log(2) / 2 at 0, rises to 0 as -1 / (24 s)."""
    closed = gammaln(s + 0.5) - xlogy(s, s) + s - HALF_LOG_2PI
    return jnp.where(s < SERIES_FROM, closed, _odd_powers(HALF_STEP, s))


def _odd_powers(coefficients, s):
    """c_0 / s + c_1 / s^3 + c_2 / s^5 + ... for s >= SERIES_FROM."""
    inverse = 1 / jnp.maximum(s, SERIES_FROM)
    return inverse * jnp.polyval(jnp.asarray(coefficients[::-1], inverse.dtype), inverse**2)


@dataclass(frozen=True)
class KMeansLoss(BregmanLoss):
    """Squared Euclidean distance to the mean of the cluster. Conjugate centres are normal.

    Parameters
    ----------
    dissimilarity : Bregman, optional
        By default squared Euclidean.
    degree : float, default 2.0
        Exact for this loss.
    translation_invariant : bool, default True
        See `Loss`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.KMeansLoss().homogeneous
    True
    """

    translation_invariant: bool = True
    homogeneous = True
    normalizer_reads_mean = False

    def log_measure(self, coordinates):
        return jnp.zeros((), coordinates.dtype)

    def divergences(self, u, centers):
        """||m_k||^2 - 2 <u_i, m_k>, five times as fast as squares.

        Measured from the centres' mean, so that the rounding error is that of ||u_i - m_k||^2 itself.
        """
        middle = centers.mean(0)
        shifted = centers - middle
        return jnp.square(shifted).sum(1) - 2 * (u - middle) @ shifted.T

    def draw_centers(self, key, inverse_temperature, means):
        noise = jax.random.normal(key, means.sum.shape, means.sum.dtype)
        return means.mean + noise / jnp.sqrt(2 * inverse_temperature * means.mass)[:, None]

    def log_normalizer(self, inverse_temperature, means):
        return 0.5 * means.sum.shape[1] * jnp.log(math.pi / (inverse_temperature * means.mass))


class _PositiveCenters(BregmanLoss):
    """Coordinates are logs; a gamma draw that rounded to 0 counts as the smallest positive number."""

    def coordinates(self, centers):
        return jnp.log(jnp.maximum(centers, jnp.finfo(centers.dtype).tiny))

    def centers_at(self, coordinates):
        return jnp.exp(coordinates)


@dataclass(frozen=True)
class PoissonLoss(_PositiveCenters):
    """Generalised Kullback-Leibler divergence of counts, x log(x/y) - x + y. Conjugate centres are gamma.

    Parameters
    ----------
    dissimilarity : Bregman, optional
        By default "kl".
    degree : float, default 2.0
        To second order, see `BregmanLoss`.
    translation_invariant : bool, default False
        See `Loss`.

    Notes
    -----
    The measure mu(dm) = m^(-1/2) dm keeps the gamma proper if the mean of a cluster is zero.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.PoissonLoss().dissimilarity.name
    'kl'
    """

    dissimilarity: Any = field(default_factory=lambda: resolve_dissimilarity("kl"))

    def log_measure(self, coordinates):
        return 0.5 * coordinates.sum()

    def draw_centers(self, key, inverse_temperature, means):
        rate = (inverse_temperature * means.mass)[:, None]
        shape = rate * means.mean + 0.5
        return jnp.exp(jax.random.loggamma(key, shape)) / rate

    def log_normalizer(self, inverse_temperature, means):
        """d log(2 pi / r) / 2 + sum Q(r ubar), r = lambda W: terms of order r log r have cancelled."""
        total = _half_step_remainder(inverse_temperature * means.sum).sum(1)
        return total + 0.5 * means.sum.shape[1] * jnp.log(2 * math.pi / (inverse_temperature * means.mass))


@dataclass(frozen=True)
class ItakuraSaitoLoss(_PositiveCenters):
    """Itakura-Saito divergence x/y - log(x/y) - 1 of positive data. Conjugate centres are inverse gamma.

    Parameters
    ----------
    dissimilarity : Bregman, optional
        By default "itakura-saito".
    degree : float, default 2.0
        To second order, see `BregmanLoss`.
    translation_invariant : bool, default False
        See `Loss`.

    Notes
    -----
    The measure is mu(dm) = dm / m.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.ItakuraSaitoLoss().dissimilarity.name
    'itakura-saito'
    """

    dissimilarity: Any = field(default_factory=lambda: resolve_dissimilarity("itakura-saito"))
    normalizer_reads_mean = False

    def log_measure(self, coordinates):
        return jnp.zeros((), coordinates.dtype)

    def draw_centers(self, key, inverse_temperature, means):
        shape = jnp.broadcast_to((inverse_temperature * means.mass)[:, None], means.sum.shape)
        return shape * means.mean * jnp.exp(-jax.random.loggamma(key, shape))

    def log_normalizer(self, inverse_temperature, means):
        """d (log(2 pi / r) / 2 + R(r)), r = lambda W: the rest of r + log Gamma(r) - r log r."""
        rate = inverse_temperature * means.mass
        return means.sum.shape[1] * (0.5 * jnp.log(2 * math.pi / rate) + _stirling_remainder(rate))


@dataclass(frozen=True)
class BinaryLoss(BregmanLoss):
    """Logistic (Bernoulli) divergence of shares in [0, 1]. Conjugate centres are beta.

    Parameters
    ----------
    dissimilarity : Bregman, optional
        By default "binary".
    degree : float, default 2.0
        To second order, see `BregmanLoss`.
    translation_invariant : bool, default False
        See `Loss`.

    Notes
    -----
    The measure is mu(dm) = (m (1 - m))^(-1/2) dm.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.BinaryLoss().dissimilarity.name
    'binary'
    """

    dissimilarity: Any = field(default_factory=lambda: resolve_dissimilarity("binary"))

    def coordinates(self, centers):
        return jnp.log(centers) - jnp.log1p(-centers)

    def centers_at(self, coordinates):
        edge = jnp.finfo(coordinates.dtype).epsneg
        return jnp.clip(jax.nn.sigmoid(coordinates), edge, 1 - edge)

    def log_measure(self, coordinates):
        return 0.5 * (jax.nn.log_sigmoid(coordinates) + jax.nn.log_sigmoid(-coordinates)).sum()

    def draw_centers(self, key, inverse_temperature, means):
        mass, mean = (inverse_temperature * means.mass)[:, None], jnp.clip(means.mean, 0.0, 1.0)
        edge = jnp.finfo(means.sum.dtype).epsneg  # a beta draw may round to 0 or 1, where the divergence is infinite
        return jnp.clip(jax.random.beta(key, mass * mean + 0.5, mass * (1 - mean) + 0.5), edge, 1 - edge)

    def log_normalizer(self, inverse_temperature, means):
        """d (log(2 pi / r) / 2 - R(r)) + sum Q(r ubar) + Q(r (1 - ubar)), r = lambda W: the log of a beta function."""
        rate = inverse_temperature * means.mass
        ones = inverse_temperature * means.sum
        # W - sum, not W (1 - mean): the quotient's rounding, times W, would be an error of whole rows.
        zeros = inverse_temperature * jnp.maximum(means.mass[:, None] - means.sum, 0.0)
        total = (_half_step_remainder(ones) + _half_step_remainder(zeros)).sum(1)
        return total + means.sum.shape[1] * (0.5 * jnp.log(2 * math.pi / rate) - _stirling_remainder(rate))


class PairSums(NamedTuple):
    """Statistics of the k-dissimilarities: the units, and each cluster's total weight and sum of w w' D over pairs."""

    units: Units
    count: Int[Array, " clusters"]
    mass: Float[Array, " clusters"]
    pairs: Float[Array, " clusters"]


@dataclass(frozen=True)
class DissimilarityLoss(Loss):
    """Dissimilarities of all pairs in a cluster: L_k = sum of w_i w_j D(u_i, u_j) / (2 W_k).

    A move costs time in proportion to the number of units; for the Bregman family it costs a constant.

    Parameters
    ----------
    dissimilarity : Dissimilarity, optional
        D. By default squared Euclidean.
    degree : float, default 1.0
        See `Loss`. Exact for norms.
    translation_invariant : bool, default True
        See `Loss`.

    References
    ----------
    Rigon, Herring and Dunson (2023).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.DissimilarityLoss(bf.fairlets.Minkowski(1.0)).homogeneous
    True
    """

    degree: float | None = 1.0
    translation_invariant: bool = True

    @property
    def homogeneous(self):
        return isinstance(self.dissimilarity, Minkowski) and self.degree == 1

    def _reach(self, units, center, n_clusters):
        """sum_i w_i D(center, u_i) over the units of every cluster."""
        each = units.weight * self.dissimilarity.between(center, units.center)
        return jnp.where(units.cluster[None, :] == jnp.arange(n_clusters)[:, None], each, 0.0).sum(1)

    def start(self, units, n_clusters) -> PairSums:
        member = (units.cluster[None, :] == jnp.arange(n_clusters)[:, None]) & (units.weight > 0)
        reach = jax.lax.map(lambda center: self._reach(units, center, n_clusters), units.center)  # no N x N matrix
        weight = jnp.where(member, units.weight, 0.0)
        return PairSums(units, member.sum(1), weight.sum(1), (weight * reach.T).sum(1))

    def cluster_losses(self, units, n_clusters):
        stats = self.start(units, n_clusters)
        return self._value(stats.count, stats.mass, stats.pairs)

    @staticmethod
    def _value(count, mass, pairs):
        return jnp.where(count > 0, pairs / (2 * jnp.where(count > 0, mass, 1.0)), 0.0)

    def remove(self, stats, i, center, weight, cluster):
        rest = super().remove(stats.units, i, center, weight, cluster)
        return self._shift(stats._replace(units=rest), center, weight, cluster, -1)

    def insert(self, stats, i, center, weight, cluster):
        units = super().insert(stats.units, i, center, weight, cluster)
        return self._shift(stats, center, weight, cluster, +1)._replace(units=units)

    def _shift(self, stats, center, weight, cluster, sign):
        """The sums with a unit more or less, from `stats.units` without it."""
        reach = self._reach(stats.units, center, stats.mass.shape[0])[cluster]
        return stats._replace(
            count=stats.count.at[cluster].add(sign),
            mass=stats.mass.at[cluster].add(sign * weight),
            pairs=stats.pairs.at[cluster].add(sign * 2 * weight * reach),
        )

    def insertion(self, stats, i, center, weight, n_clusters):
        reach = self._reach(stats.units, center, n_clusters)
        joined = (stats.pairs + 2 * weight * reach) / (2 * (stats.mass + weight))
        return jnp.where(stats.count > 0, joined, 0.0) - self._value(stats.count, stats.mass, stats.pairs)


def resolve_loss(loss, power=1.0) -> Loss:
    """The loss of that name, or the `Loss` itself.

    The names are those of `bayesfair.fairlets.resolve_dissimilarity`: "kmeans", "manhattan", "minkowski" (the norm
    ||x - y||_power), "kl", "itakura-saito", "binary".
    """
    if isinstance(loss, Loss):
        return loss
    dissimilarity = resolve_dissimilarity(loss, power, argument="loss", own="gibbs.Loss")
    bregman = {one.dissimilarity: one for one in (KMeansLoss(), PoissonLoss(), ItakuraSaitoLoss(), BinaryLoss())}
    return bregman.get(dissimilarity, DissimilarityLoss(dissimilarity=dissimilarity))
