"""Soft assignments in logarithms, and the Kullback-Leibler penalty on the groups' masses in them (VFC, eq. 2-3 and 9)."""

import jax
import jax.numpy as jnp

FLOOR = -15.0  # least log s relative to the row's largest: a cluster given up can still come back
START = -3.0  # log s of the other clusters at the start
SERIES = 1e-2  # |P / U - 1| below which the divergence is a series: the closed form cancels there
AT_REST = 1e-2  # relative to E: largest gain left in the linearised objective at the end of a run


def fairness_penalty(masses, target):
    """sum_k KL(U || P_k), eq. (2)-(3), from the groups' masses in the clusters; groups with U = 0 are free.

    Summed as U log(U / P) - U + P, never negative: a large weight makes rounding visible.
    """
    share = masses / masses.sum(1, keepdims=True)
    wanted = jnp.where(target > 0, target, 1.0)
    excess = (share - target) / wanted
    small = jnp.square(excess) * (1 / 2 - excess / 3 + jnp.square(excess) / 4)
    term = jnp.where(jnp.abs(excess) < SERIES, small, excess - jnp.log1p(excess))
    return jnp.where(target > 0, target * term, share).sum()


def fairness_potential(masses, target, n_obs):
    """obs * d/ds_pk of the penalty for a member of group j (clusters, groups): eq. (9) without 1 / L."""
    size = masses.sum(1, keepdims=True)
    return n_obs / size * (1 - target * size / masses)


def log_simplex(logits):
    """Logarithms of assignments (clusters, obs), none more than FLOOR below the row's largest."""
    return jax.nn.log_softmax(jnp.maximum(logits - logits.max(0), FLOOR), 0)
