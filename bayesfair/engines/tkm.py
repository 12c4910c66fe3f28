"""Tilted k-means, TKM: individually fair centres through exponential tilting.

Minimises sum_k (1/t) log((1/N) sum_i exp(t delta_ik ||x_i - c_k||^2)). Points outside cluster k count as exp(0) = 1. The
limit t -> 0 is SSE / N; t -> infinity gives the sum of the clusters' squared radii (up to log N / t). The variant that
divides by the cluster's own size tends to the sum of within-cluster *means* and is not used here.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_max, segment_sum
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesfair._arrays import inner_sum
from bayesfair._jit import jit
from bayesfair._rows import Rows, each, farthest, largest, sum_of_terms, total
from bayesfair.engines.families import squared_distances

SAFE_EXPONENT = 30.0  # its exponential, summed over millions of rows, is far from float32's limit
HALVINGS = 6
MEMBERS, PACKS = 64, 64  # rows of one cluster per product of moments; products at a time
DIRECT = 64  # columns up to which Newton's systems are solved as matrices
CG_STEPS, CG_TOLERANCE = 50, 1e-4
NOTHING_LEFT = 1e-3  # share of the objective: gradient steps that stand still with more than that to gain are too short


class WeightedRows(NamedTuple):
    """A block of centred rows, their squared norms, and weights of mean 1 over the table, 0 for padding."""

    x: Float[Array, "dim rows"]
    square: Float[Array, " rows"]
    weight: Float[Array, " rows"]

    def distances(self, centers) -> Float[Array, "clusters rows"]:
        """||x_i - c_k||^2."""
        return squared_distances(centers, self.x.T, self.square)


class TiltedRows(NamedTuple):
    """Rows, their total weight, the tilt in their units, and the step length of the paper's solver."""

    rows: Rows
    mass: Float[Array, ""]
    tilt: Float[Array, ""]
    learning_rate: Float[Array, ""]


class Partition(NamedTuple):
    """Centres, the labels under which the objective is computed, and its parts J_k there."""

    centers: Float[Array, "clusters dim"]
    labels: Int[Array, "blocks rows"]
    losses: Float[Array, " clusters"]
    key: PRNGKeyArray


def nearest(problem: TiltedRows, centers) -> Int[Array, "blocks rows"]:
    """Labels of the nearest centres."""
    return each(lambda block, centers: block.distances(centers).argmin(0), problem.rows, centers)


def offsets(x, label, centers) -> Float[Array, "dim rows"]:
    """Offsets of the rows from their clusters' centres."""
    return x - centers.T[:, label]


def with_own(problem: TiltedRows, centers, labels) -> Rows:
    """The rows with their squared distances to their clusters' centres, and their labels."""

    def own(block, centers):
        rows, label = block
        return inner_sum(jnp.square(offsets(rows.x, label, centers)), 0)

    return problem.rows.beside((each(own, problem.rows.beside(labels), centers), labels))


def shifts(tilt, rows: Rows, n_clusters):
    """Shift of the exponents of each cluster that prevents overflow; 0 if none is large."""

    def of_block(block, tilt):
        rows, (own, label) = block
        return segment_max(jnp.where(rows.weight > 0, tilt * own, 0.0), label, n_clusters)

    return jnp.maximum(largest(of_block, rows, tilt) - SAFE_EXPONENT, 0.0)


def cluster_losses(problem: TiltedRows, centers, labels) -> Float[Array, " clusters"]:
    """J_k, whose sum is the objective."""
    return tilted_sums(problem, with_own(problem, centers, labels), len(centers))


def pooled_loss(problem: TiltedRows, centers, labels) -> Float[Array, ""]:
    """(1/t) log((1/N) sum_i exp(t d_i)) over the rows of all clusters: Algorithm 2 with exact steps never raises it.

    The nearest centre makes every d_i least, and the c_k that makes J_k least makes its cluster's part of the sum least.
    """
    rows, (own, label) = with_own(problem, centers, labels).parts
    return tilted_sums(problem, Rows((rows, (own, jnp.zeros_like(label))), problem.rows.mesh), 1)[0]


def tilted_sums(problem: TiltedRows, rows: Rows, n_clusters) -> Float[Array, " clusters"]:
    """(1/t) log(1 + sum_{i in k} (exp(t d_ik) - 1) / N), by expm1 where exponents are moderate; sum d / N at t = 0."""
    shift = shifts(problem.tilt, rows, n_clusters)

    def excess_and_distance(block, tilt, shift):
        rows, (own, label) = block
        exponent, off = tilt * own, shift[label]
        large = jnp.exp(exponent - off) - jnp.exp(-off)
        terms = jnp.where(off > 0, large, jnp.expm1(jnp.minimum(exponent, SAFE_EXPONENT)))
        return segment_sum(rows.weight[:, None] * jnp.column_stack([terms, own]), label, n_clusters)

    mean, plain = (total(excess_and_distance, rows, problem.tilt, shift) / problem.mass).T
    log = shift + jnp.where(shift > 0, jnp.log(jnp.exp(-shift) + mean), jnp.log1p(mean))
    return jnp.where(problem.tilt > 0, log / jnp.where(problem.tilt > 0, problem.tilt, 1.0), plain)


def tilted_weights(problem: TiltedRows, centers, labels) -> Float[Array, "blocks rows"]:
    """d J_k / d d_ik: exp(t d_ik) over its cluster's sum, where other rows count 1, times the row's weight."""
    rows, n_clusters = with_own(problem, centers, labels), len(centers)
    shift = shifts(problem.tilt, rows, n_clusters)

    def mass(block, tilt, shift):
        rows, (own, label) = block
        return rows.weight * jnp.exp(tilt * own - shift[label])

    def masses(block, tilt, shift):
        both = jnp.column_stack([mass(block, tilt, shift), block[0].weight])
        return segment_sum(both, block[1][1], n_clusters)

    tilted, plain = total(masses, rows, problem.tilt, shift).T
    whole = tilted + (problem.mass - plain) * jnp.exp(-shift)
    share = lambda block, tilt, shift, whole: mass(block, tilt, shift) / whole[block[1][1]]  # noqa: E731
    return each(share, rows, problem.tilt, shift, whole)


def newton_step(problem: TiltedRows, centers, labels):
    """-Hessian^-1 gradient of each J_k, which is smooth and strictly convex in c_k; at t = 0 the step to the mean.

    Above DIRECT columns by conjugate gradients, for all clusters as one system: O(obs dim), not O(clusters dim^3).
    """
    rows = problem.rows.beside((tilted_weights(problem, centers, labels), labels))
    if centers.shape[1] <= DIRECT:
        return solved(problem.tilt, *total(moments, rows, centers))

    def along(block, centers, direction):
        rows, (weight, label) = block
        offset = offsets(rows.x, label, centers)
        length = weight * (offset * direction.T[:, label]).sum(0)
        return segment_sum((length * offset).T, label, len(centers))

    def hessian(direction):
        """Half the Hessian, times a direction (clusters, dim) for every cluster."""
        spread = total(along, rows, centers, direction) - (first * direction).sum(1)[:, None] * first
        return mass[:, None] * direction + 2 * problem.tilt * spread

    sums = total(first_moments, rows, centers)
    first, mass = sums[:, :-1], jnp.maximum(sums[:, -1], 1e-30)
    size = jnp.maximum(jnp.linalg.norm(first, axis=1, keepdims=True), 1e-30)
    return size * jax.scipy.sparse.linalg.cg(hessian, first / size, tol=CG_TOLERANCE, maxiter=CG_STEPS)[0]


def first_moments(block: tuple[WeightedRows, tuple], centers) -> Float[Array, "clusters dim+1"]:
    """Weighted sums of every cluster's offsets, and beside them its weight."""
    rows, (weight, label) = block
    offset = offsets(rows.x, label, centers)
    return segment_sum((weight * jnp.concatenate([offset, jnp.ones_like(offset[:1])])).T, label, len(centers))


def left_to_gain(problem: TiltedRows, centers, labels) -> Float[Array, ""]:
    """About what the objective falls by if every centre moves to the weighted mean of its rows; at t = 0 just that."""
    rows = problem.rows.beside((tilted_weights(problem, centers, labels), labels))
    sums = total(first_moments, rows, centers)
    return (jnp.square(sums[:, :-1]).sum(1) / jnp.maximum(sums[:, -1], 1e-30)).sum()


def solved(tilt, mass, first, second):
    """Newton's steps from the weighted moments of every cluster."""
    mass = jnp.maximum(mass, 1e-30)
    spread = second - first[:, :, None] * first[:, None, :]
    hessian = mass[:, None, None] * jnp.eye(first.shape[1], dtype=first.dtype) + 2 * tilt * spread
    return jnp.linalg.solve(hessian, first[:, :, None])[:, :, 0]


def moments(block: tuple[WeightedRows, tuple], centers):
    """Weights and weighted moments of the offsets of every cluster: (clusters,), (clusters, dim), (clusters, dim, dim).

    Rows sorted by label are packed by MEMBERS of one cluster: no products are wasted on other clusters.
    """
    rows, (weight, label) = block
    n_clusters, order = len(centers), jnp.argsort(label)
    x = jax.lax.optimization_barrier(rows.x.T)  # makes rows contiguous
    size = segment_sum(jnp.ones_like(label), label, n_clusters)
    packs, last = -(-size // MEMBERS), size.cumsum()
    most = len(label) // MEMBERS + n_clusters  # largest number of packs

    def of_packs(i):
        at = PACKS * i + jnp.arange(PACKS)
        owner = jnp.minimum((at[:, None] >= packs.cumsum()).sum(1), n_clusters - 1)
        start = (last - size)[owner] + MEMBERS * (at - (packs.cumsum() - packs)[owner])
        place = start[:, None] + jnp.arange(MEMBERS)
        row = order[jnp.minimum(place, len(order) - 1)]
        offset = x[row] - centers[owner][:, None]
        own = jnp.where(place < last[owner][:, None], weight[row], 0.0)
        weighted = own[:, :, None] * offset
        member = (owner == jnp.arange(n_clusters)[:, None]).astype(offset.dtype)
        second = jnp.einsum("bri,brj->bij", weighted, offset)
        return member @ own.sum(1), member @ weighted.sum(1), jnp.einsum("kb,bij->kij", member, second)

    return sum_of_terms(of_packs, -(-most // PACKS))


def partition_at(problem: TiltedRows, centers, key) -> Partition:
    """Every row with its nearest centre."""
    labels = nearest(problem, centers)
    return Partition(centers, labels, cluster_losses(problem, centers, labels), key)


def refine(problem: TiltedRows, centers, labels, before):
    """A Newton step of every centre, halved while it raises its J_k, `before`, and not taken if no halving helps."""
    step = newton_step(problem, centers, labels)

    def halve(carry):
        i, length, _ = carry
        worse = cluster_losses(problem, centers + length[:, None] * step, labels) > before
        length = jnp.where(worse, length / 2, length)
        return i + 1, jnp.where(worse & (i == HALVINGS), 0.0, length), worse.any()

    def go_on(carry):
        i, _, worse = carry
        return worse & (i <= HALVINGS)

    start = 0, jnp.ones(len(centers), centers.dtype), jnp.bool_(True)
    _, length, _ = jax.lax.while_loop(go_on, halve, start)
    return centers + length[:, None] * step


def revive(problem: TiltedRows, state: Partition) -> Partition:
    """Move the centres of empty clusters to the rows farthest from theirs: the objective does not depend on them."""
    n_clusters, rows = len(state.centers), with_own(problem, state.centers, state.labels)
    count = total(lambda block: segment_sum((block[0].weight > 0) * 1.0, block[1][1], n_clusters), rows)
    values = each(lambda block: jnp.where(block[0].weight > 0, block[1][0], -1.0), rows)
    far = farthest(values, problem.rows, n_clusters).x
    empty = count == 0
    rank = jnp.minimum(jnp.cumsum(empty) - 1, len(far) - 1)
    return state._replace(centers=jnp.where(empty[:, None], far[rank], state.centers))


def newton(problem: TiltedRows, state: Partition):
    """An iteration of Algorithm 2 with Newton's steps: refinement at fixed labels, then every row to its nearest centre.

    The refinement never raises the objective. The assignment can, because J_k is concave in its members' terms; where it was
    refused for that, clusters lost all rows but a few outliers. Neither raises `pooled_loss`, so labels cannot go in circles.
    """
    state = revive(problem, state)
    state = partition_at(problem, refine(problem, *state[:3]), state.key)
    return state, state.losses.sum()


def pulled(problem: TiltedRows, centers, labels, numbers):
    """Step (13) on a mini-batch, the rows with these numbers, as the authors' program takes it.

    A row has the weight that it has among all rows under `labels`, and pulls the centre that is nearest to it now.
    """
    batch = problem.rows.beside(tilted_weights(problem, centers, labels)).pick(numbers)
    rows, weight = jax.tree.map(lambda part: part[0], batch.parts)
    label = rows.distances(centers).argmin(0)
    pull = weight * offsets(rows.x, label, centers)
    return centers + 2 * problem.learning_rate * segment_sum(pull.T, label, len(centers))


@dataclass(frozen=True)
class GradientDescent:
    """An iteration of the paper's Algorithm 2: `n_epochs` of steps (13) on mini-batches, then assignment."""

    batch_size: int
    n_epochs: int

    def __call__(self, problem: TiltedRows, state: Partition):
        state = revive(problem, state)
        key, draw = jax.random.split(state.key)
        n_obs = problem.mass.astype(int)

        def epoch(i, centers):
            numbers = jax.random.randint(jax.random.fold_in(draw, i), (self.batch_size,), 0, n_obs)
            return pulled(problem, centers, state.labels, numbers)

        centers = jax.lax.fori_loop(0, self.n_epochs, epoch, state.centers)
        state = partition_at(problem, centers, key)
        loss = state.losses.sum()
        return state, loss, left_to_gain(problem, centers, state.labels) > NOTHING_LEFT * loss


@jit
def start_states(problem: TiltedRows, centers, keys):
    """Partitions of all runs."""
    return jax.vmap(partial(partition_at, problem))(centers, keys)


@jit
def pooled_losses(problem: TiltedRows, states) -> Float[Array, " runs"]:
    """`pooled_loss` of all runs."""
    return jax.vmap(partial(pooled_loss, problem))(states.centers, states.labels)
