"""Gaussian mixtures with full covariances: densities and EM, of all coordinates, of some, or of what each row has.

A marginal is a mask, never a shape: masked coordinates get a unit variance and a zero deviation, so that one compiled
program serves every subset. What a row lacks follows through its regression on what it has, as in EM with missing
values (Little and Rubin 2019, section 8.2).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

__all__ = ["Gaussians", "Moments", "log_joint", "log_joint_of_rows", "m_step", "moments", "moments_of_rows", "rotate"]

MIN_MASS = 1e-6  # share of the rows below which a component keeps its place
ROWS = 128  # rows whose own masks are worked on together


class Gaussians(NamedTuple):
    weight: Float[Array, " clusters"]
    mean: Float[Array, "clusters dim"]
    covariance: Float[Array, "clusters dim dim"]


class Moments(NamedTuple):
    """Expected sufficient statistics per row: mass, mean and second moment of deviations from the old means."""

    mass: Float[Array, " clusters"]
    shift: Float[Array, "clusters dim"]
    spread: Float[Array, "clusters dim dim"]


def masked(covariance, seen):
    """`covariance` (..., d, d) with ones instead of what `seen` (..., d) leaves out."""
    both = seen[..., :, None] & seen[..., None, :]
    return jnp.where(both, covariance, jnp.eye(covariance.shape[-1], dtype=covariance.dtype))


def log_joint(parameters: Gaussians, x, seen: Bool[Array, " dim"]) -> Float[Array, "obs clusters"]:
    """log pi_k + log N(x_T; mu_kT, Sigma_kTT), T the coordinates seen."""

    def one(weight, mean, covariance):
        factor = jnp.linalg.cholesky(masked(covariance, seen))
        whitener = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(mean), dtype=x.dtype), lower=True).T
        square = jnp.square(jnp.where(seen, x - mean, 0.0) @ whitener).sum(1)
        log_determinant = 2 * jnp.log(jnp.diagonal(factor)).sum()
        return jnp.log(weight) - 0.5 * (square + log_determinant + seen.sum() * math.log(2 * math.pi))

    return jax.lax.map(lambda part: one(*part), tuple(parameters)).T


def regression(covariance, seen):
    """G (K, d, d) = Sigma_.T Sigma_TT^-1: the identity on T, how the others follow elsewhere; and what is left of Sigma."""
    some = jnp.where(seen[..., None, :], covariance, 0.0)
    slope = jnp.linalg.solve(masked(covariance, seen), some.mT).mT
    slope = jnp.where(seen[..., None, :], slope, 0.0)
    return slope, covariance - slope @ some.mT


def moments(parameters: Gaussians, x, responsibilities, seen) -> Moments:
    """Statistics where every row has the same coordinates."""
    n_obs = x.shape[0]
    slope, rest = regression(parameters.covariance, seen)

    def one(part):
        r, mean, slope, rest = part
        deviation = jnp.where(seen, x - mean, 0.0)
        shift = r @ deviation / n_obs
        spread = (r[:, None] * deviation).T @ deviation / n_obs  # (obs, d) at a time
        return r.sum() / n_obs, slope @ shift, slope @ spread @ slope.T + r.sum() / n_obs * rest

    return Moments(*jax.lax.map(one, (responsibilities.T, parameters.mean, slope, rest)))


def m_step(old: Gaussians, statistics: Moments, seen: Bool[Array, " dim"], prior, min_eigenvalue) -> Gaussians:
    """Means and covariances of the coordinates seen, the others as they were; eigenvalues floored, which also makes a
    covariance of the two together. Weights by eq. (11), `prior` being its eta."""
    mass, n_clusters = statistics.mass, old.weight.shape[0]
    alive = mass > MIN_MASS
    safe = jnp.where(alive, mass, 1.0)
    shift = statistics.shift / safe[:, None]
    spread = statistics.spread / safe[:, None, None] - shift[:, :, None] * shift[:, None, :]
    spread = jnp.where(seen[:, None] & seen, spread, old.covariance)
    values, vectors = jnp.linalg.eigh((spread + spread.mT) / 2)
    spread = (vectors * jnp.maximum(values, min_eigenvalue)[:, None, :]) @ vectors.mT
    return Gaussians(
        (mass + prior) / (mass.sum() + n_clusters * prior),
        jnp.where(alive[:, None] & seen, old.mean + shift, old.mean),
        jnp.where(alive[:, None, None], spread, old.covariance),
    )


def rotate(parameters: Gaussians, rotation) -> Gaussians:
    """The mixture of A x, A orthogonal (d, d)."""
    return parameters._replace(
        mean=parameters.mean @ rotation.T, covariance=rotation @ parameters.covariance @ rotation.T
    )


def log_joint_of_rows(parameters: Gaussians, x, seen: Bool[Array, "obs dim"]) -> Float[Array, "obs clusters"]:
    """`log_joint` where each row has coordinates of its own; those not seen may hold anything finite."""

    def one(row):
        x, seen = row
        factor = jnp.linalg.cholesky(masked(parameters.covariance, seen))
        deviation = jnp.where(seen, x - parameters.mean, 0.0)
        white = jax.scipy.linalg.solve_triangular(factor, deviation[:, :, None], lower=True)[:, :, 0]
        log_determinant = 2 * jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)).sum(1)
        constant = log_determinant + seen.sum() * math.log(2 * math.pi)
        return jnp.log(parameters.weight) - 0.5 * (jnp.square(white).sum(1) + constant)

    return jax.lax.map(one, (x, seen), batch_size=ROWS)


def moments_of_rows(parameters: Gaussians, x, responsibilities, seen: Bool[Array, "obs dim"]) -> Moments:
    """`moments` where each row has coordinates of its own, summed ROWS at a time."""
    n_obs = x.shape[0]
    n_blocks = -(-n_obs // ROWS)
    pad = n_blocks * ROWS - n_obs
    blocks = [
        jnp.pad(part, ((0, pad), (0, 0))).reshape(n_blocks, ROWS, -1) for part in (x, responsibilities, seen)
    ]  # padded rows have no responsibility

    def one(x, r, seen):
        slope, rest = regression(parameters.covariance, seen)
        shift = (slope @ jnp.where(seen, x - parameters.mean, 0.0)[:, :, None])[:, :, 0]
        spread = shift[:, :, None] * shift[:, None, :] + rest
        return Moments(r, r[:, None] * shift, r[:, None, None] * spread)

    def add(total, block):
        parts = jax.vmap(one)(*block)
        return jax.tree.map(lambda a, b: a + b.sum(0) / n_obs, total, parts), None

    zero = Moments(*(jnp.zeros_like(part) for part in parameters))
    return jax.lax.scan(add, zero, tuple(blocks))[0]
