"""Variational fair clustering, VFC: Ziko, Yuan, Granger and Ben Ayed (2021).

Minimises E(S) = F(S) + fairness_weight * sum_k KL(U || P_k) over soft assignments S (clusters, obs), eq. (2)-(4). F is
the k-means or k-medians cost *per row*, or the normalised cut. The update is (13),
s <- s exp(-(a + fairness_weight b) / L), a mirror-descent step; one that would raise E is refused and L doubled.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from bayesfair._arrays import on_device
from bayesfair._jit import jit
from bayesfair._rows import Rows, each, total
from bayesfair.engines.families import squared_distances
from bayesfair.engines.hard_clusters import NEAR
from bayesfair.engines.optimize import NOTHING

NEIGHBOURS = 20
FILL = 4  # an affinity's list of entries is padded to a multiple of so many times its rows
FEW_ENTRIES = 100_000
FLOOR = -15.0  # least log s relative to the row's largest: a cluster given up can still come back
START = -3.0  # log s of the other clusters at the start
SERIES = 1e-2  # |P / U - 1| below which the divergence is a series: the closed form cancels there
AT_REST = 1e-2  # relative to E, or to NOTHING of its unit: largest gain left in the linearised objective at the end


class SoftRows(NamedTuple):
    """A block of rows, the codes of their groups, and weights of mean 1 over the table, 0 for padding."""

    x: Float[Array, "dim rows"]
    code: UInt[Array, " rows"]
    weight: Float[Array, " rows"]


class TargetedRows(NamedTuple):
    """Rows, their number, and the target proportions. `links`: for the normalised cut alone."""

    rows: Rows
    n_obs: Float[Array, ""]
    target: Float[Array, " groups"]
    links: Any = ()

    def member(self, code):
        """Indicators of the row's group (groups, rows)."""
        return (code == jnp.arange(len(self.target))[:, None]).astype(jnp.float32)


class Links(NamedTuple):
    """A symmetric affinity as a list of its entries, sorted by row.

    A row of weight w stands for w rows, not linked to each other: `value` includes the weight of the `column`.
    """

    row: Int[Array, " entries"]
    column: Int[Array, " entries"]
    value: Float[Array, " entries"]
    degree: Float[Array, " obs"]


class SoftClusters(NamedTuple):
    """Soft assignments and what follows from them; `loss` is E. `potential`: obs * dF/dS, of the cut alone."""

    log_s: Float[Array, "blocks clusters rows"]
    potential: Any
    masses: Float[Array, "clusters groups"]
    centers: Float[Array, "clusters dim"]
    loss: Float[Array, ""]
    lipschitz: Float[Array, ""]
    fairness_weight: Float[Array, ""]


def distances(x, centers):
    """||x_i - c_k||^2 (clusters, rows), at least 0, for x (dim, rows)."""
    return jnp.maximum(squared_distances(centers, x.T, jnp.square(x).sum(0)), 0.0)


class KMeans:
    """sum_ik s_ik ||x_i - c_k||^2 with c_k the weighted means (Table 1); `degree`: power of the scale of X in it."""

    degree = 2

    @staticmethod
    def potential(x, centers):
        return distances(x, centers)

    @staticmethod
    def sums(own, potential, x):
        """Sums over a block, with `own` its assignments times weights."""
        return own @ x.T, (own * potential).sum()

    @staticmethod
    def finished(problem, log_s, centers, sums, size):
        """(cost per row, centres, potentials if kept) from the sums about the old centres; `size`: of the clusters.

        With the means c' the cost is sum s d(x, c) - sum_k S_k |c' - c|^2.
        """
        first, cost = sums
        means = first / size[:, None]
        return (cost - (size * jnp.square(means - centers).sum(1)).sum()) / problem.n_obs, means, ()


class KMedians:
    """The same with ||x_i - c_k||, medians in place of the paper's medoids: one Weiszfeld step never raises the cost."""

    degree = 1

    @staticmethod
    def potential(x, centers):
        return jnp.sqrt(distances(x, centers))

    @staticmethod
    def sums(own, potential, x):
        pull = own / jnp.maximum(potential, NEAR)
        return pull @ x.T, pull.sum(1)

    @staticmethod
    def finished(problem, log_s, centers, sums, size):
        first, pull = sums
        centers = first / pull[:, None]

        def cost(block, centers):
            rows, log_s = block
            return (rows.weight * jnp.exp(log_s) * KMedians.potential(rows.x, centers)).sum()

        return total(cost, problem.rows.beside(log_s), centers) / problem.n_obs, centers, ()


class NormalizedCut:
    """K - sum_k s_k' W s_k / d' s_k (Table 1), of all rows at once."""

    degree = 0

    @staticmethod
    def sums(own, potential, x):
        return ()

    @staticmethod
    def finished(problem, log_s, centers, sums, size):
        links, s = problem.links, jnp.exp(log_s[0])
        entries = links.value[:, None] * s.T[links.column]  # a neighbour's assignments are contiguous
        ws = jax.ops.segment_sum(entries, links.row, s.shape[1], indices_are_sorted=True).T
        own = problem.rows.parts.weight[0] * s
        volume = own @ links.degree
        within = (own * ws).sum(1)
        potential = (within / volume**2)[:, None] * links.degree - 2 * ws / volume[:, None]
        return s.shape[0] - (within / volume).sum(), centers, s.shape[1] * potential[None]


OBJECTIVES = {"kmeans": KMeans, "kmedians": KMedians, "ncut": NormalizedCut}


@dataclass(frozen=True)
class Descent:
    """One step of (13) on the objective of this name."""

    objective: str

    def unit(self, dim):
        """The cost per row of one cluster of scaled rows, up to a factor of 2: columns have a mean variance of 1/2 to 2."""
        return float(dim) ** (OBJECTIVES[self.objective].degree / 2)

    def potential(self, rows: SoftRows, kept, centers):
        """obs * dF/dS of a block, computed unless it was `kept`."""
        return kept if self.objective == "ncut" else OBJECTIVES[self.objective].potential(rows.x, centers)

    def evaluate(self, problem: TargetedRows, log_s, centers, fairness_weight, lipschitz) -> SoftClusters:
        """The soft clusters of these assignments, from potentials at the previous centres."""
        objective = OBJECTIVES[self.objective]

        def of_block(block, centers):
            rows, log_s = block
            own = rows.weight * jnp.exp(log_s)
            return objective.sums(own, self.potential(rows, (), centers), rows.x), own @ problem.member(rows.code).T

        sums, masses = total(of_block, problem.rows.beside(log_s), centers)
        cost, centers, kept = objective.finished(problem, log_s, centers, sums, masses.sum(1))
        loss = cost + fairness_weight * fairness_penalty(masses, problem.target)
        return SoftClusters(log_s, kept, masses, centers, loss, lipschitz, fairness_weight)

    def __call__(self, problem: TargetedRows, state: SoftClusters):
        def step(block, centers, unfair, rate):
            """(log s after the step, the Frank-Wolfe gap <dE/dS, S - S'>, S' the best vertex: 0 only at a stationary point)."""
            rows, (log_s, kept) = block
            gradient = self.potential(rows, kept, centers) + unfair @ problem.member(rows.code)
            gain = (jnp.exp(log_s) * gradient).sum(0) - gradient.min(0)
            return log_simplex(log_s - rate * gradient), gain

        rows = problem.rows.beside((state.log_s, state.potential))
        log_s, gain = each(step, rows, state.centers, unfairness(problem, state), 1 / state.lipschitz)
        new = self.evaluate(problem, log_s, state.centers, state.fairness_weight, state.lipschitz / 1.3)
        refused = state._replace(lipschitz=2 * state.lipschitz)
        state = jax.tree.map(lambda a, b: jnp.where(new.loss <= state.loss, a, b), new, refused)
        # Refused steps shrink, so a standing E alone is no sign of an optimum.
        gain = total(lambda block: block[0].weight @ block[1], problem.rows.beside(gain)) / problem.n_obs
        least = NOTHING * self.unit(state.centers.shape[1])
        return state, state.loss, gain > AT_REST * jnp.maximum(state.loss, least)


def unfairness(problem: TargetedRows, state: SoftClusters):
    """obs * d/ds of the fairness term for a member of each group (clusters, groups)."""
    return state.fairness_weight * fairness_potential(state.masses, problem.target, problem.n_obs)


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


def links_of(affinity, weight) -> Links:
    """Links of an affinity (N, N) and weights (N,), padded with zeros.

    Each number of entries compiles anew: it is a multiple of the rows or, for few rows, as many as neighbours have.
    """
    n_obs = affinity.shape[0]
    fill = 0, -affinity.nnz % (n_obs * (2 * NEIGHBOURS if affinity.nnz <= FEW_ENTRIES else FILL))
    row, value = np.repeat(np.arange(n_obs), np.diff(affinity.indptr)), affinity.data * weight[affinity.indices]
    entries = [np.pad(part.astype(np.int32), fill, constant_values=n_obs - 1) for part in (row, affinity.indices)]
    entries.append(np.pad(value.astype(np.float32), fill))
    return Links(*map(on_device, entries), on_device(np.bincount(row, value), jnp.float32))


@jit(static_argnames="descent")
def cost_per_row(descent: Descent, problem: TargetedRows, centers):
    """Cost per row at the nearest centres, without fairness."""

    def of_block(block, centers):
        return block.weight @ descent.potential(block, (), centers).min(0)

    return total(of_block, problem.rows, centers.astype(jnp.float32)) / problem.n_obs


def start_state(descent: Descent, problem: TargetedRows, centers, fairness_weight, others) -> SoftClusters:
    """Soft assignments: log s is 0 at the nearest of `centers`, `others` elsewhere; L has the size of potential differences."""

    def nearest(block, centers, others):
        hard = jax.nn.one_hot(distances(block.x, centers).argmin(0), len(centers), dtype=bool, axis=0)
        return log_simplex(jnp.where(hard, 0.0, others))

    def spread(block, centers, unfair):
        rows, kept = block
        potential = descent.potential(rows, kept, centers) + unfair @ problem.member(rows.code)
        return rows.weight @ (potential.mean(0) - potential.min(0))

    log_s = each(nearest, problem.rows, centers, others)
    state = descent.evaluate(problem, log_s, centers, fairness_weight, jnp.float32(1.0))
    rows = problem.rows.beside(state.potential)
    lipschitz = total(spread, rows, state.centers, unfairness(problem, state)) / problem.n_obs
    return state._replace(lipschitz=jnp.maximum(lipschitz, jnp.finfo(jnp.float32).tiny))


@jit(static_argnames="descent")
def start_states(descent: Descent, problem: TargetedRows, centers, weights, others):
    """`start_state` for every run."""
    return jax.vmap(partial(start_state, descent, problem))(centers, weights, others)
