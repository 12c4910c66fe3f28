"""Gaussian mixtures with full covariances: densities and EM, of all coordinates, of some, or of what each row has.

A marginal is a mask, never a shape: masked coordinates get a unit variance and a zero deviation, so that one compiled
program serves every subset. What a row lacks follows through its regression on what it has, as in EM with missing
values (Little and Rubin 2019, section 8.2).
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

__all__ = [
    "Gaussians",
    "Moments",
    "e_step",
    "e_step_of_rows",
    "log_joint",
    "log_joint_of_rows",
    "m_step",
    "moments",
    "rotate",
]

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


def log_joint(parameters: Gaussians, x, seen: Bool[Array, " dim"]) -> Float[Array, "clusters obs"]:
    """log pi_k + log N(x_T; mu_kT, Sigma_kTT), T the coordinates seen."""
    columns = x.T

    def one(weight, mean, covariance):
        factor = jnp.linalg.cholesky(masked(covariance, seen))
        whitener = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(mean), dtype=x.dtype), lower=True)
        square = jnp.square(whitener @ deviations(columns, mean, seen)).sum(0)
        log_determinant = 2 * jnp.log(jnp.diagonal(factor)).sum()
        return jnp.log(weight) - 0.5 * (square + log_determinant + seen.sum() * math.log(2 * math.pi))

    return jax.lax.map(lambda part: one(*part), tuple(parameters))


def deviations(columns, mean, seen) -> Float[Array, "dim obs"]:
    """Of the coordinates seen, from one mean; (dim, obs), for sums over the longer axis are the faster ones."""
    return jnp.where(seen[:, None], columns - mean[:, None], 0.0)


def moments(parameters: Gaussians, x, responsibilities, seen: Bool[Array, " dim"]) -> Moments:
    """Statistics of the coordinates seen, the same in every row; zero elsewhere."""
    n_obs, columns = x.shape[0], x.T

    def one(part):
        r, mean = part
        deviation = deviations(columns, mean, seen)
        return r.sum() / n_obs, deviation @ r / n_obs, (r * deviation) @ deviation.T / n_obs

    return Moments(*jax.lax.map(one, (responsibilities, parameters.mean)))


def e_step(parameters: Gaussians, x, seen: Bool[Array, " dim"]):
    """Mean log density of the coordinates seen, and Moments under the responsibilities."""
    joint = log_joint(parameters, x, seen)
    return jax.nn.logsumexp(joint, 0).mean(), moments(parameters, x, jax.nn.softmax(joint, 0), seen)


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


def whiten(parameters: Gaussians, x, seen: Bool[Array, " dim"], others):
    """log pi_k + log N(x_T) (K,) of one row, L^-1 (x_T - mu_T) (K, d) and L^-1 `others` (K, d, any), L L' = Sigma_TT."""
    factor = jnp.linalg.cholesky(masked(parameters.covariance, seen))
    deviation = jnp.where(seen, x - parameters.mean, 0.0)
    white = jax.scipy.linalg.solve_triangular(factor, jnp.dstack([deviation, others]), lower=True)
    log_determinant = 2 * jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)).sum(1)
    square = jnp.square(white[:, :, 0]).sum(1)
    joint = jnp.log(parameters.weight) - 0.5 * (square + log_determinant + seen.sum() * math.log(2 * math.pi))
    return joint, white[:, :, 0], white[:, :, 1:]


def log_joint_of_rows(parameters: Gaussians, x, seen: Bool[Array, "obs dim"]) -> Float[Array, "clusters obs"]:
    """`log_joint` where each row has coordinates of its own; those not seen may hold anything finite."""
    nothing = jnp.zeros((*parameters.mean.shape, 0), x.dtype)
    return jax.lax.map(lambda row: whiten(parameters, *row, nothing)[0], (x, seen), batch_size=ROWS).T


def completed(parameters: Gaussians, x, seen: Bool[Array, " dim"]):
    """One row: its log joint (K,), its expected deviation from the means (K, d), and V (K, d, d), V'V being by how
    much what it has narrows the covariance of what it lacks. Never a difference on coordinates seen."""
    across = jnp.where(seen[:, None] & ~seen, parameters.covariance, 0.0)
    joint, white, slope = whiten(parameters, x, seen, across)
    follows = (slope.mT @ white[:, :, None])[:, :, 0]
    return joint, jnp.where(seen, x - parameters.mean, follows), slope


def e_step_of_rows(parameters: Gaussians, x, seen: Bool[Array, "obs dim"]):
    """`e_step` where each row has coordinates of its own, ROWS at a time; Moments of all coordinates."""
    n_obs = x.shape[0]
    n_blocks = -(-n_obs // ROWS)
    pad = ((0, n_blocks * ROWS - n_obs), (0, 0))
    rows = (x, seen, jnp.ones((n_obs, 1), x.dtype))  # the last is zero for rows that only fill the last block
    blocks = [jnp.pad(part, pad).reshape(n_blocks, ROWS, -1) for part in rows]

    def add(total, block):
        x, seen, there = block
        joint, shift, slope = jax.vmap(partial(completed, parameters))(x, seen)
        r = there * jax.nn.softmax(joint, 1) / n_obs
        lacks = jnp.where(seen, 0.0, 1.0)
        spread = jnp.einsum("nki,nkj->kij", r[:, :, None] * shift, shift)
        spread += parameters.covariance * jnp.einsum("nk,ni,nj->kij", r, lacks, lacks)
        spread -= jnp.einsum("nkai,nkaj->kij", r[:, :, None, None] * slope, slope)
        log_density = (there[:, 0] * jax.nn.logsumexp(joint, 1)).sum() / n_obs
        new = log_density, Moments(r.sum(0), jnp.einsum("nk,nki->ki", r, shift), spread)
        return jax.tree.map(jnp.add, total, new), None

    zero = jnp.zeros((), x.dtype), Moments(*(jnp.zeros_like(part) for part in parameters))
    return jax.lax.scan(add, zero, tuple(blocks))[0]
