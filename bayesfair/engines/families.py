"""Gaussian mixtures: densities, E-steps and M-steps, and components on unconstrained parameters, times categoricals.

FMC, eq. (13) and (84)-(87). Arrays (clusters, obs) are three times as fast as (obs, clusters): sums run along rows.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from bayesfair._tables import EncodedTable

COVARIANCE_TYPES = ("isotropic", "diag", "full")
MIN_VARIANCE = 1e-4  # least variance of a component, in units of the columns' variance
MIN_COUNT = 1e-3  # rows of a component below which its mean and spread stay unchanged
ROUNDINGS = 4  # floor of eigenvalues, in roundings of the largest one per coordinate
UNROLL = 8  # coordinates of a full covariance that one unrolled loop compiles
FLATTENED = 0.5  # pull of a hot component's level probabilities towards those of all rows
SMOOTHING = 1e-2  # rows added to every level of a categorical feature, so that no level is impossible


class Components(NamedTuple):
    """Unconstrained parameters of a mixture; `logits`: of the levels.

    `spread`: log variance () or (K, d), or the precision's Cholesky factor, logarithms on its diagonal (K, d, d).
    """

    log_mixing: Float[ArrayLike, " clusters"]
    mean: Float[ArrayLike, "clusters dim"]
    spread: Float[ArrayLike, "..."]
    logits: Float[ArrayLike, "clusters levels"]


class Moments(NamedTuple):
    """What an E-step tells the M-step, as sums over rows: all that Q, eq. (9), needs.

    `shift`: of deviations from the means of the E-step. `square`: of their squares, one number in all, (K, d) or (K, d, d).
    """

    mass: Float[Array, " clusters"]
    shift: Float[Array, "clusters dim"]
    square: Float[Array, "..."]
    counts: Float[Array, "clusters levels"] | tuple = ()

    def about(self, move: Float[Array, "clusters dim"]) -> "Moments":
        """The same sums for means that are moved by `move`."""
        mass, shift = self.mass[:, None], self.shift
        if self.square.ndim == 3:
            across = move[:, :, None] * shift[:, None, :]
            square = self.square - across - across.mT + (mass * move)[:, :, None] * move[:, None, :]
        else:
            summed = jnp.asarray if self.square.ndim else jnp.sum
            square = self.square - summed(2 * move * shift) + summed(mass * jnp.square(move))
        return self._replace(shift=shift - mass * move, square=square)

    def centred(self, least):
        """(mask of the components of more mass than `least`, the steps to their means, variances about these)."""
        alive, mass = self.mass > least, jnp.maximum(self.mass, least)[:, None]
        move = jnp.where(alive[:, None], self.shift / mass, 0.0)
        if self.square.ndim == 3:
            variance = self.square / mass[:, :, None] - move[:, :, None] * move[:, None, :]
        elif self.square.ndim == 2:
            variance = self.square / mass - jnp.square(move)
        else:
            variance = (self.square - (mass * jnp.square(move)).sum()) / max(move.shape[1], 1) / self.mass.sum()
        return alive, move, variance


def full_moments(responsibilities, deviation: Float[Array, "clusters dim rows"], counts=()) -> Moments:
    """The moments of full covariances."""
    shift = (deviation @ responsibilities[:, :, None])[:, :, 0]
    square = (responsibilities[:, None] * deviation) @ deviation.mT
    return Moments(responsibilities.sum(1), shift, square, counts)


def log_normal(dim, log_determinant, square):
    """The log density of a Gaussian in `dim` coordinates, `square` being the squared Mahalanobis distance."""
    return -0.5 * math.log(2 * math.pi) * dim - 0.5 * (log_determinant + square)


@dataclass(frozen=True)
class Family:
    """The compiled part: the covariance type and the number of levels of each categorical feature."""

    covariance_type: str
    n_levels: tuple[int, ...] = ()

    def log_joint(self, parameters: Components, table: EncodedTable) -> Float[Array, "clusters obs"]:
        """log pi_k + log f(x_i; theta_k)."""
        log_mixing = jax.nn.log_softmax(parameters.log_mixing)
        total = jnp.broadcast_to(log_mixing[:, None], (len(parameters.mean), len(table.x)))
        if table.x.shape[1]:
            total = total + self.log_gaussian(parameters, table)
        if self.n_levels:
            total = total + self.log_levels(parameters.logits) @ table.levels.T
        return total

    def log_gaussian(self, parameters: Components, table: EncodedTable) -> Float[Array, "clusters obs"]:
        x, mean, spread = table.x.T, parameters.mean, parameters.spread
        if self.covariance_type == "isotropic":
            square = jnp.exp(-spread) * squared_distances(mean, table.x, table.square)
        elif self.covariance_type == "diag":
            precision = jnp.exp(-spread)
            square = precision @ jnp.square(x) - 2 * (precision * mean) @ x + (precision * mean**2).sum(1)[:, None]
        else:
            square = whitened_square(unpack_factor(spread)[0], mean, x)
        return log_normal(len(x), self.log_determinant(spread, len(x))[..., None], square)

    def log_determinant(self, spread, dim):
        """Of the covariances: (clusters,), or one number if they share one."""
        if self.covariance_type == "isotropic":
            return dim * spread
        return spread.sum(1) if self.covariance_type == "diag" else -2 * unpack_factor(spread)[1].sum(1)

    def log_levels(self, logits):
        """Log probabilities (K, levels): a softmax within each feature."""
        parts, start = [], 0
        for n in self.n_levels:
            parts.append(jax.nn.log_softmax(logits[:, start : start + n], 1))
            start += n
        return jnp.concatenate(parts, 1) if parts else logits

    def heated(self, parameters: Components, spread_out=1.0) -> Components:
        """Gaussians as wide as the scaled data, levels near those of all rows; `spread_out` scales what differs."""
        logits = parameters.logits
        if self.n_levels:
            own, apart = jnp.exp(self.log_levels(logits)), (1 - FLATTENED) * spread_out
            logits = np.asarray(jnp.log(apart * own + (1 - apart) * (jax.nn.softmax(parameters.log_mixing) @ own)))
        mean, spread = spread_out * np.asarray(parameters.mean), np.zeros(parameters.spread.shape, np.float32)
        return parameters._replace(mean=mean, spread=spread, logits=logits)

    def expected(self, parameters: Components, table: EncodedTable, responsibilities) -> Moments:
        """The moments of the rows."""
        mean, counts = parameters.mean, responsibilities @ table.levels
        if self.covariance_type == "full":
            return full_moments(responsibilities, table.x.T - mean[:, :, None], counts)
        mass = responsibilities.sum(1)
        shift = responsibilities @ table.x - mass[:, None] * mean
        if self.covariance_type == "isotropic":
            square = (responsibilities * squared_distances(mean, table.x, table.square)).sum()
        else:
            square = jax.vmap(lambda r, m: r @ jnp.square(table.x - m))(responsibilities, mean)
        return Moments(mass, shift, square, counts)

    def expected_log_joint(self, parameters: Components, old: Components, known: Moments) -> Float[Array, ""]:
        """sum_ik r_ik log_joint_ik, from moments about the means of `old`."""
        total = known.mass @ jax.nn.log_softmax(parameters.log_mixing)
        if self.n_levels:
            total = total + (known.counts * self.log_levels(parameters.logits)).sum()
        dim, spread = parameters.mean.shape[1], parameters.spread
        if dim == 0:
            return total
        precision, square = jnp.exp(-spread), known.about(parameters.mean - old.mean).square
        if self.covariance_type == "full":
            factor, _ = unpack_factor(spread)
            precision = factor @ factor.mT
        n_obs, log_determinant = known.mass.sum(), self.log_determinant(spread, dim)
        log_determinant = jnp.dot(known.mass if log_determinant.ndim else n_obs, log_determinant)
        return total - 0.5 * ((precision * square).sum() + log_determinant + n_obs * dim * math.log(2 * math.pi))

    def m_step(self, old: Components, known: Moments) -> Components:
        """The maximiser of Q, eq. (9), from moments about the means of `old`; (almost) empty components only lose weight."""
        alive, move, variance = known.centred(MIN_COUNT)
        logits = (
            jnp.where(alive[:, None], jnp.log(known.counts + SMOOTHING), old.logits) if self.n_levels else old.logits
        )
        log_mixing = jnp.log(jnp.maximum(known.mass, 1e-30) / known.mass.sum())
        if self.covariance_type == "isotropic":
            spread = jnp.log(jnp.maximum(variance, MIN_VARIANCE))
        elif self.covariance_type == "diag":
            spread = jnp.where(alive[:, None], jnp.log(jnp.maximum(variance, MIN_VARIANCE)), old.spread)
        else:
            spread = jnp.where(alive[:, None, None], pack_precision(variance), old.spread)
        return Components(log_mixing, old.mean + move, spread, logits)


def whitened_square(factor, mean, x) -> Float[Array, "clusters obs"]:
    """||F'(x - mu)||^2 for F (K, d, d) and x (dim, obs): one coordinate at a time, as (K, d, obs) is slow to differentiate."""

    def add(square, coordinate):
        direction, offset = coordinate
        return square + jnp.square(direction @ x - offset[:, None]), None

    coordinates = factor.transpose(2, 0, 1), jnp.einsum("kd,kde->ek", mean, factor)
    start = jnp.zeros((len(mean), x.shape[1]), jnp.result_type(x, factor))
    return jax.lax.scan(add, start, coordinates, unroll=UNROLL)[0]


def squared_distances(centers, x, square) -> Float[Array, "clusters obs"]:
    """||x_i - c_k||^2 with `square` ||x_i||^2, for centred x, so that little cancels."""
    return square - 2 * centers @ x.T + jnp.square(centers).sum(1)[:, None]


def unpack_factor(spread):
    """The lower triangular factor F of the precision F F' (K, d, d) and the logarithms of its diagonal (K, d)."""
    log_diagonal = jnp.diagonal(spread, axis1=1, axis2=2)
    return jnp.tril(spread, -1) + jax.vmap(jnp.diag)(jnp.exp(log_diagonal)), log_diagonal


def floored(covariance, least):
    """Eigenvalues and vectors of covariances (K, d, d): values at least `least`, and at least what rounds of the largest."""
    values, vectors = jnp.linalg.eigh((covariance + covariance.mT) / 2)
    rounding = ROUNDINGS * values.shape[1] * jnp.finfo(values.dtype).eps * values[:, -1:]
    return jnp.maximum(values, jnp.maximum(least, rounding))[:, None, :], vectors


def pack_precision(covariance):
    """The unconstrained form of covariances (K, d, d), eigenvalues floored."""
    values, vectors = floored(covariance, MIN_VARIANCE)
    return _pack((vectors / values) @ vectors.mT)


def pack_factor(factor):
    """The unconstrained form of covariances L L', with `factor` L (K, d, d) lower triangular."""
    inverse = inverse_of_lower(factor)
    return _pack(inverse.mT @ inverse)


def inverse_of_lower(factor):
    """Of lower triangular matrices (K, d, d)."""
    identity = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return jax.scipy.linalg.solve_triangular(factor, identity, lower=True)


def _pack(precision):
    factor = jnp.linalg.cholesky((precision + precision.mT) / 2)
    log_diagonal = jnp.log(jnp.diagonal(factor, axis1=1, axis2=2))
    return jnp.tril(factor, -1) + jax.vmap(jnp.diag)(log_diagonal)


def sample_rows(family: Family, key, parameters: Components, label):
    """One row per label: x (N, d) in the table's units, and codes of the levels (N, features)."""
    key_x, key_levels = jax.random.split(key)
    step = jax.random.normal(key_x, (len(label), parameters.mean.shape[1]))
    if step.shape[1]:
        step = _scaled(family, parameters, step, label)
    log_levels = family.log_levels(parameters.logits)[label]
    codes, start = [jnp.zeros((len(label), 0), int)], 0
    for n, key in zip(family.n_levels, jax.random.split(key_levels, max(1, len(family.n_levels)))):
        codes.append(jax.random.categorical(key, log_levels[:, start : start + n])[:, None])
        start += n
    return parameters.mean[label] + step, jnp.concatenate(codes, 1)


def _scaled(family, parameters, noise, label):
    if family.covariance_type == "full":
        factor, _ = unpack_factor(parameters.spread)
        return jax.scipy.linalg.solve_triangular(factor.mT[label], noise[:, :, None], lower=False)[:, :, 0]
    deviation = jnp.exp(parameters.spread / 2)
    return noise * (deviation if family.covariance_type == "isotropic" else deviation[label])
