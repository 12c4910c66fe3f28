"""Variational fair k-means of more rows than fit twice: the iterations of `variational.Descent`, block by block.

An iteration is one pass. The assignments that a step leads to are not written down before it is taken: the state holds those
before it and the step, and the next pass applies it, block by block in place, while it tries the next one. With the means
c' of the new assignments the cost is sum s d(x, c) - sum_k S_k |c' - c|^2, c being the centres of the distances at hand.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, UInt

from bayesfair._arrays import aligned_empty
from bayesfair.engines.blocks import members, own_part, sum_over_blocks
from bayesfair.engines.families import squared_distances
from bayesfair.engines.shares import StepInShares, here, in_shares, mesh_of
from bayesfair.engines.soft_clusters import AT_REST, START, fairness_penalty, fairness_potential, log_simplex

__all__ = [
    "BlockedRows",
    "PendingClusters",
    "descend",
    "descent_over",
    "rows_in_blocks",
    "soft_assignment",
    "start_state",
]

BLOCK = 8192  # rows


class BlockedRows(NamedTuple):
    """Rows in blocks, the codes of their groups, weights of mean 1, which are one number for a block where nobody gave any, and
    the proportions wanted. What fills the last block is of no group, and counts for nothing."""

    x: Float[Array, "blocks dim rows"]
    code: UInt[Array, "blocks rows"]
    weight: Float[Array, "blocks #rows"]
    target: Float[Array, " groups"]
    n_obs: Float[Array, ""]

    @property
    def rows(self):
        return self.x, self.code, self.weight

    def membership(self, code, weight):
        """Of a block: indicators of the groups (groups, rows), and the weights (rows,)."""
        n_groups = len(self.target)
        return members(code, n_groups), weight * (code < n_groups)


class Step(NamedTuple):
    """log s <- log s - rate (d(x, centers) + unfair of the row's group), and what `log_simplex` makes of it."""

    centers: Float[Array, "clusters dim"]
    unfair: Float[Array, "clusters groups"]
    rate: Float[Array, ""]


class PendingClusters(NamedTuple):
    """Soft assignments as they were before a step, that step, and what was summed up after it; `loss` is E."""

    log_s: Float[Array, "blocks clusters rows"]
    step: Step
    centers: Float[Array, "clusters dim"]
    masses: Float[Array, "clusters groups"]
    loss: Float[Array, ""]
    lipschitz: Float[Array, ""]
    weight: Float[Array, ""]


ALL, ROWS = PartitionSpec(), PartitionSpec("rows")
# Where the rows of several processes lie.
SPECS = BlockedRows(ROWS, ROWS, ROWS, ALL, ALL)
STATE_SPECS = PendingClusters(ROWS, ALL, ALL, ALL, ALL, ALL, ALL)


def rows_in_blocks(data, units, target) -> BlockedRows:
    """The rows of a table in `units`."""
    X, code, share = data.X, data.groups.code, data.share
    relative = share.n_obs / data.total_weight
    n_blocks, n_filled = -(-share.largest // BLOCK), -(-len(X) // BLOCK)
    n_weights = BLOCK if any(share.everybody(data.given_weight is not None)) else 1
    x = aligned_empty((n_blocks, X.shape[1], BLOCK))
    codes = aligned_empty((n_blocks, BLOCK), np.min_scalar_type(len(target)))
    weight = aligned_empty((n_blocks, n_weights))
    x[n_filled - 1 :], codes[n_filled - 1 :], weight[n_filled - 1 :] = 0, len(target), 0
    for block in range(n_filled):
        own = slice(block * BLOCK, (block + 1) * BLOCK)
        rows = units.rows(X[own])
        x[block, :, : len(rows)], codes[block, : len(rows)] = rows.T, code[own]
        weight[block, : len(rows)] = relative * data.weight_of(own)[:n_weights]
    return share.placed(BlockedRows(x, codes, weight, np.asarray(target, np.float32), np.float32(share.n_obs)), SPECS)


def distances(x, centers):
    """||x_i - c_k||^2 (clusters, rows), at least 0, of x (dim, rows)."""
    return jnp.maximum(squared_distances(centers, x.T, jnp.square(x).sum(0)), 0.0)


def potential_of(block, member, centers, unfair):
    """obs * dE/dS (clusters, rows)."""
    return distances(block, centers) + unfair @ member


def after(log_s, x, member, step: Step):
    return log_simplex(log_s - step.rate * potential_of(x, member, step.centers, step.unfair))


def clusters_of(problem: BlockedRows, sums, centers, weight):
    """(E, centres, masses) from the sums of s d(x, centers), of s x and of s over the groups."""
    cost, first, masses = sums
    size = masses.sum(1)
    means = first / size[:, None]
    cost = (cost - (size * jnp.square(means - centers).sum(1)).sum()) / problem.n_obs
    return cost + weight * fairness_penalty(masses, problem.target), means, masses


def sums_of(s, distance, x, member):
    return (s * distance).sum(), s @ x.T, s @ member.T


def descend(problem: BlockedRows, state: PendingClusters):
    """`variational.Descent` of k-means."""
    unfair = state.weight * fairness_potential(state.masses, problem.target, problem.n_obs)

    def of_block(rows, before):
        x, *rest = rows
        member, there = problem.membership(*rest)
        now = after(before, x, member, state.step)
        distance = distances(x, state.centers)
        gradient = distance + unfair @ member
        s = there * jnp.exp(log_simplex(now - gradient / state.lipschitz))
        gain = (there * ((jnp.exp(now) * gradient).sum(0) - gradient.min(0))).sum()
        return (sums_of(s, distance, x, member), gain), now

    (sums, gain), log_s = sum_over_blocks(of_block, problem.rows, buffer=state.log_s)
    loss, centers, masses = clusters_of(problem, sums, state.centers, state.weight)
    taken = loss <= state.loss
    new = centers, masses, loss, state.lipschitz / 1.3
    old = state.centers, state.masses, state.loss, 2 * state.lipschitz
    chosen = [jnp.where(taken, one, other) for one, other in zip(new, old)]
    step = Step(state.centers, unfair, jnp.where(taken, 1 / state.lipschitz, 0.0))
    state = PendingClusters(log_s, step, *chosen, state.weight)
    return state, state.loss, gain / problem.n_obs > AT_REST * jnp.abs(state.loss)


descend.stays_finite = True


def descent_over(problem: BlockedRows):
    """`descend` in every process that has some of the rows."""
    mesh = mesh_of(problem.x)
    return descend if mesh is None else StepInShares(descend, mesh, SPECS, STATE_SPECS)


def start_state(problem: BlockedRows, centers, weight) -> PendingClusters:
    """As `variational.start_state`, a batch of one run."""
    return _start_states(mesh_of(problem.x), problem, np.asarray(centers, np.float32), np.float32(weight))


@partial(jax.jit, static_argnames="mesh")
def _start_states(mesh, problem: BlockedRows, centers, weight) -> PendingClusters:
    state = in_shares(_start_state, mesh, (SPECS, ALL, ALL), STATE_SPECS)(problem, centers, weight)
    return jax.tree.map(lambda part: part[None], state)


def _start_state(problem: BlockedRows, centers, weight) -> PendingClusters:
    blank = own_part(jnp.zeros((len(problem.x), len(centers), problem.x.shape[2])))

    def nearest(rows, _):
        x, *rest = rows
        distance, (member, there) = distances(x, centers), problem.membership(*rest)
        hard = jax.nn.one_hot(distance.argmin(0), len(centers), dtype=bool, axis=0)
        log_s = log_simplex(jnp.where(hard, 0.0, START))
        return sums_of(there * jnp.exp(log_s), distance, x, member), log_s

    sums, log_s = sum_over_blocks(nearest, problem.rows, buffer=blank)
    loss, means, masses = clusters_of(problem, sums, centers, weight)
    unfair = weight * fairness_potential(masses, problem.target, problem.n_obs)

    def spread(rows):
        x, *rest = rows
        member, there = problem.membership(*rest)
        potential = potential_of(x, member, means, unfair)
        return (there * (potential.mean(0) - potential.min(0))).sum()

    lipschitz = sum_over_blocks(spread, problem.rows) / problem.n_obs
    rest = Step(means, unfair, jnp.float32(0))
    lipschitz = jnp.maximum(lipschitz, jnp.finfo(jnp.float32).tiny)
    return PendingClusters(log_s, rest, means, masses, loss, lipschitz, weight)


def soft_assignment(problem: BlockedRows, state: PendingClusters, n_rows):
    """s (obs, clusters) of a batch of one run, of the `n_rows` rows of this process, after the step that is pending. In the
    memory of log s, which is gone."""
    return np.asarray(_soft_assignment(*here((problem, *state[:2]))))[:n_rows]


@partial(jax.jit, donate_argnames="log_s")
def _soft_assignment(problem: BlockedRows, log_s, step: Step):
    shape, step = log_s.shape[1:], jax.tree.map(lambda part: part[0], step)

    def settle(i, log_s):
        x, code = problem.x[i], problem.code[i]
        now = jnp.exp(after(log_s[i], x, members(code, len(problem.target)), step))
        return log_s.at[i].set(now.T.reshape(now.shape))  # where (clusters, rows) were, (rows, clusters) are

    return jax.lax.fori_loop(0, shape[0], settle, log_s.reshape(shape)).reshape(-1, shape[1])
