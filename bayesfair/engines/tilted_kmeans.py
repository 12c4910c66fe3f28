"""Tilted k-means, TKM: individually fair centres through exponential tilting.

Minimises sum_k (1/t) log((1/N) sum_i exp(t delta_ik ||x_i - c_k||^2)), where points outside cluster k count as
exp(0) = 1; a row of weight w counts as w rows, in N too. The limit t -> 0 is SSE / N, t -> infinity the sum of the
clusters' squared radii (up to log N / t). The variant that divides by the cluster's own size instead of N,
sum_k (1/t) log((1/n_k) sum_{i in k} exp(t d_ik)), tends to the sum of within-cluster *means*; it is not what this file
minimises.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int
from sklearn.exceptions import ConvergenceWarning

from bayesfair._arrays import aligned_empty, inner_sum, row_blocks, stack
from bayesfair._check import check_integer, check_number, message, refuse_unread, tell
from bayesfair._parts import map_rows
from bayesfair._units import center_and_spread, check_costs, scaling, warn_of_scales
from bayesfair.distributed import agreed
from bayesfair.engines.base import Engine, check_distinct
from bayesfair.engines.blocks import (
    is_shared,
    max_over_rows,
    own_part,
    sum_over_own_rows,
    sum_over_rows,
    total,
)
from bayesfair.engines.hard_clusters import squares
from bayesfair.engines.shares import Share, StepInShares, free, here, in_shares

__all__ = ["TiltedKMeans"]

SAFE_EXPONENT = 30.0  # exp of it, summed over millions of rows, is far from float32's end
LARGEST_EXPONENT = 1e6  # of t times a squared distance: beyond it float32 cannot tell two exponents apart
SMALLEST_EXPONENT = 1e-12  # below it exp(x) - 1 is x to every digit of float32: k-means
HALVINGS = 6
EXPLORE_ROWS = 10_000
TILT_RATIO = 4.0  # between the tilts on the way to a large one
SGD_PATIENCE = 20
BLOCK, BLOCKS = 64, 64  # rows of one cluster whose moments are one product, and so many products at a time
DIRECT = 64  # columns up to which Newton's systems are solved with matrices
CG_STEPS, CG_TOLERANCE = 50, 1e-4


class TiltedRows(NamedTuple):
    """Centred rows, their squares' sums, the tilt in their units, the step length of the paper's solver, and the rows' weights,
    whose mean is 1.

    Where processes share the rows, weights of 0 mark those that fill up the last rows of a process: nobody's, whose label is
    K, one beyond the clusters.
    """

    x: Float[Array, "obs dim"]
    square: Float[Array, " obs"]
    tilt: Float[Array, ""]
    learning_rate: Float[Array, ""]
    weight: Float[Array, " obs"]

    @property
    def mass(self):
        """Of the rows of all processes."""
        return total(self.weight.sum())

    def take(self, rows):
        return self._replace(x=self.x[rows], square=self.square[rows], weight=self.weight[rows])


class Partition(NamedTuple):
    """Centres, and the labels that the objective counts."""

    centers: Float[Array, "clusters dim"]
    labels: Int[Array, " obs"]
    key: Int[Array, "2"]


def distances(x, centers) -> Float[Array, "obs clusters"]:
    """||x_i - c_k||^2 of centred data, up to ||x_i||^2: enough to find the nearest centre."""
    return jnp.square(centers).sum(1) - 2 * x @ centers.T


def nearest(problem: TiltedRows, centers) -> Int[Array, " obs"]:
    """The labels of the nearest centres."""
    return map_rows(lambda x: distances(x, centers).argmin(1), problem.x)


def of_somebody(problem: TiltedRows, labels, n_clusters):
    """Labels, K of those who are nobody."""
    return jnp.where(problem.weight == 0, n_clusters, labels) if is_shared() else labels


def sum_in_clusters(of, rows, labels, n_clusters):
    """Sums in every cluster, over the rows of all processes, of `of(part)`, an array with a row for every one of the part."""

    def of_part(part, new):
        values = of(part[0])
        return jax.ops.segment_sum(
            jnp.where(new.reshape(-1, *[1] * (values.ndim - 1)), values, 0.0), part[1], n_clusters
        )

    return sum_over_rows(of_part, (rows, labels))


class Tilted(NamedTuple):
    """What the objective reads of every row: the squared distance to its own centre, its label and its weight."""

    own: Float[Array, " obs"]
    label: Int[Array, " obs"]
    weight: Float[Array, " obs"]


def tilted_rows(problem: TiltedRows, centers, labels) -> Tilted:
    own = map_rows(lambda rows: inner_sum(jnp.square(rows[0] - centers[rows[1]])), (problem.x, labels))
    return Tilted(own, labels, problem.weight)


def shifts(tilt, rows: Tilted, n_clusters):
    """What is taken off the exponents of each cluster before they are exponentiated; 0 where none is large."""
    largest = max_over_rows(lambda part: jax.ops.segment_max(tilt * part.own, part.label, n_clusters), rows)
    return jnp.maximum(largest - SAFE_EXPONENT, 0.0)


def cluster_losses(problem: TiltedRows, centers, labels) -> Float[Array, " clusters"]:
    """(1/t) log(1 + sum_{i in k} (exp(t d_ik) - 1) / N), by expm1 where exponents are moderate; sum d / N at t = 0."""
    rows, n_clusters = tilted_rows(problem, centers, labels), centers.shape[0]
    shift = shifts(problem.tilt, rows, n_clusters)

    def excess_and_distance(part: Tilted):
        exponent, off = problem.tilt * part.own, shift[part.label]
        large = jnp.exp(exponent - off) - jnp.exp(-off)
        terms = jnp.where(off > 0, large, jnp.expm1(jnp.minimum(exponent, SAFE_EXPONENT)))
        return part.weight[:, None] * jnp.column_stack([terms, part.own])

    mean, plain = (sum_in_clusters(excess_and_distance, rows, labels, n_clusters) / problem.mass).T
    log = shift + jnp.where(shift > 0, jnp.log(jnp.exp(-shift) + mean), jnp.log1p(mean))
    return jnp.where(problem.tilt > 0, log / jnp.where(problem.tilt > 0, problem.tilt, 1.0), plain)


def tilted_weights(problem: TiltedRows, centers, labels) -> Float[Array, " obs"]:
    """d J_k / d d_ik: exp(t d_ik) over the sum in its cluster, others counting 1; each times the row's weight."""
    rows, n_clusters = tilted_rows(problem, centers, labels), centers.shape[0]
    shift = shifts(problem.tilt, rows, n_clusters)

    def mass(part: Tilted):
        return part.weight * jnp.exp(problem.tilt * part.own - shift[part.label])

    both = sum_in_clusters(lambda part: jnp.column_stack([mass(part), part.weight]), rows, labels, n_clusters)
    held = both[:, 0] + (problem.mass - both[:, 1]) * jnp.exp(-shift)
    return map_rows(lambda part: mass(part) / held[part.label], rows)


def newton_step(problem: TiltedRows, centers, labels):
    """-Hessian^-1 gradient of each J_k, which is smooth and strictly convex in c_k; at t = 0 the step to the mean.

    Above DIRECT columns by conjugate gradients, whose every iterate is a descent direction: O(obs dim) each for all
    clusters together, where matrices would take O(clusters dim^3).
    """
    weight = tilted_weights(problem, centers, labels)
    if centers.shape[1] <= DIRECT:
        return solved(problem.tilt, *moments(problem, weight, centers, labels))

    def first_moments(rows):
        x, weight, label = rows
        return weight[:, None] * jnp.column_stack([x - centers[label], jnp.ones_like(weight)])

    sums = sum_in_clusters(first_moments, (problem.x, weight, labels), labels, len(centers))
    first, mass = sums[:, :-1], jnp.maximum(sums[:, -1], 1e-30)
    return conjugate_gradients(partial(curvature, problem, weight, centers, labels, mass, first), first)


def solved(tilt, mass, first, second):
    """Newton's steps from the weighted moments of every cluster."""
    mass = jnp.maximum(mass, 1e-30)
    spread = second - first[:, :, None] * first[:, None, :]
    hessian = mass[:, None, None] * jnp.eye(first.shape[1], dtype=first.dtype) + 2 * tilt * spread
    return jnp.linalg.solve(hessian, first[:, :, None])[:, :, 0]


def moments(problem: TiltedRows, weight, centers, labels):
    """Weights and weighted moments of the offsets of every cluster: (clusters,), (clusters, dim), (clusters, dim, dim)."""

    def of_part(part, new):
        x, weight, labels = part
        return moments_of_part(x, jnp.where(new, weight, 0.0), centers, labels)

    return sum_over_rows(of_part, (problem.x, weight, labels))


def moments_of_part(x, weight, centers, labels):
    """Rows come in the order of their labels, a block of them of one cluster: no row's products are made for clusters not its
    own."""
    n_clusters, order = len(centers), jnp.argsort(labels)
    size = jax.ops.segment_sum(jnp.ones_like(labels), labels, n_clusters)
    blocks, last = -(-size // BLOCK), size.cumsum()
    at = jnp.arange(len(labels) // BLOCK + n_clusters)  # as many blocks as there may be
    owner = jnp.minimum((at[:, None] >= blocks.cumsum()).sum(1), n_clusters - 1)
    start = (last - size)[owner] + BLOCK * (at - (blocks.cumsum() - blocks)[owner])

    def of_blocks(part, new):
        start, owner, last = part
        place = start[:, None] + jnp.arange(BLOCK)
        row = order[jnp.minimum(place, len(order) - 1)]
        offset = x[row] - centers[owner][:, None]
        own = jnp.where(new[:, None] & (place < last[:, None]), weight[row], 0.0)
        weighted = own[:, :, None] * offset
        member = (owner == jnp.arange(n_clusters)[:, None]).astype(offset.dtype)
        second = jnp.einsum("bri,brj->bij", weighted, offset)
        return member @ own.sum(1), member @ weighted.sum(1), jnp.einsum("kb,bij->kij", member, second)

    return sum_over_own_rows(of_blocks, (start, owner, last[owner]), BLOCKS)


def curvature(problem: TiltedRows, weight, centers, labels, mass, first, direction):
    """Half the Hessians times `direction` (clusters, dim), one for each cluster."""

    def along(rows):
        x, weight, label = rows
        offset = x - centers[label]
        return (weight * (offset * direction[label]).sum(1))[:, None] * offset

    spread = sum_in_clusters(along, (problem.x, weight, labels), labels, len(direction))
    return mass[:, None] * direction + 2 * problem.tilt * (spread - (first * direction).sum(1)[:, None] * first)


def conjugate_gradients(product, right):
    """x (clusters, dim) with product(x) = right, one system for each cluster, to CG_TOLERANCE or CG_STEPS."""
    goal = CG_TOLERANCE**2 * jnp.square(right).sum(1)

    def step(carry):
        i, x, residual, direction, square = carry
        image = product(direction)
        length = ratio(square, (direction * image).sum(1))[:, None]
        x, residual = x + length * direction, residual - length * image
        new = jnp.square(residual).sum(1)
        new = jnp.where((square > 0) & (new > goal), new, 0.0)  # 0 from when it is solved
        return i + 1, x, residual, residual + ratio(new, square)[:, None] * direction, new

    def go_on(carry):
        return (carry[0] < CG_STEPS) & (carry[-1] > 0).any()

    start = 0, jnp.zeros_like(right), right, right, jnp.square(right).sum(1)
    return jax.lax.while_loop(go_on, step, start)[1]


def ratio(a, b):
    """a / b, 0 where a is: a system that is solved stands still."""
    return jnp.where(a > 0, a / jnp.where(a > 0, b, 1.0), 0.0)


def refine(problem: TiltedRows, centers, labels):
    """A Newton step of every centre, halved where it would raise its J_k; not taken at all if no halving helps."""
    step = newton_step(problem, centers, labels)
    before = cluster_losses(problem, centers, labels)

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


def assign(problem: TiltedRows, state: Partition):
    """Labels of the nearest centres (Algorithm 2), where that does not raise the objective.

    It can: J_k is concave in what its members add, so that a move to a nearer centre may cost more than it saves. Then
    labels minimise the linear bound of every J_k, which never raises the sum.
    """
    labels = of_somebody(problem, nearest(problem, state.centers), len(state.centers))
    now = cluster_losses(problem, state.centers, state.labels).sum()
    raised = ~(cluster_losses(problem, state.centers, labels).sum() <= now)

    # A loop of at most one round, not lax.cond: under vmap that works out both branches, this only what a run needs.
    def instead(_):
        return jnp.bool_(False), bounded_labels(problem, state)

    return jax.lax.while_loop(lambda carry: carry[0], instead, (raised, labels))[1]


def bounded_labels(problem: TiltedRows, state: Partition):
    """argmin_k of expm1(t d_ik) / (1 + A_k), A_k = exp(t J_k) - 1 the sum in cluster k; in logarithms."""
    slope = problem.tilt * cluster_losses(problem, state.centers, state.labels)

    def cheapest(rows):
        x, square = rows
        exponent = problem.tilt * jnp.maximum(distances(x, state.centers) + square[:, None], 0.0)
        return (exponent + jnp.log(-jnp.expm1(-jnp.maximum(exponent, 1e-30))) - slope).argmin(1)

    labels = of_somebody(problem, map_rows(cheapest, (problem.x, problem.square)), len(state.centers))
    now = cluster_losses(problem, state.centers, state.labels).sum()
    lower = cluster_losses(problem, state.centers, labels).sum() <= now  # rounding may disagree with the bound
    return jnp.where(lower, labels, state.labels)


def revive(problem: TiltedRows, state: Partition) -> Partition:
    """Centres of empty clusters go to the rows farthest from their own: the objective does not read them."""
    n_clusters = state.centers.shape[0]
    count = sum_in_clusters(
        lambda labels: jnp.ones(len(labels), problem.x.dtype), state.labels, state.labels, n_clusters
    )
    far = farthest_rows(problem, tilted_rows(problem, state.centers, state.labels).own, n_clusters)
    empty = count == 0
    rank = jnp.minimum(jnp.cumsum(empty) - 1, len(far) - 1)
    return state._replace(centers=jnp.where(empty[:, None], far[rank], state.centers))


def farthest_rows(problem: TiltedRows, own, most):
    """Rows (at most `most`, dim) of all processes that are farthest from their centres."""
    if not is_shared():
        return problem.x[jax.lax.top_k(own, min(most, len(own)))[1]]
    apart, at = jax.lax.top_k(jnp.where(problem.weight == 0, -1.0, own), min(most, len(own)))
    # Every process puts its own in their place among all: a sum is the same everywhere, by type too.
    place = jax.lax.axis_index("rows"), slice(None)
    blank = own_part(jnp.zeros((jax.lax.axis_size("rows"), len(at), problem.x.shape[1] + 1), problem.x.dtype))
    told = total(blank.at[place].set(jnp.column_stack([problem.x[at], apart]))).reshape(-1, problem.x.shape[1] + 1)
    return told[jax.lax.top_k(told[:, -1], min(most, len(told)))[1], :-1]


def newton(problem: TiltedRows, state: Partition):
    """Assignment, then refinement; the objective never increases."""
    state = revive(problem, state)
    labels = assign(problem, state)
    centers = refine(problem, state.centers, labels)
    return Partition(centers, labels, state.key), cluster_losses(problem, centers, labels).sum()


@dataclass(frozen=True)
class GradientDescent:
    """An iteration of the paper's Algorithm 2: `n_epochs` steps (13) on mini-batches at fixed labels, then assignment."""

    batch_size: int
    n_epochs: int = 5

    def __call__(self, problem: TiltedRows, state: Partition):
        state = revive(problem, state)
        key, draw = jax.random.split(state.key)

        def epoch(i, centers):
            rows = jax.random.randint(jax.random.fold_in(draw, i), (self.batch_size,), 0, problem.x.shape[0])
            batch = problem.take(rows)
            labels = state.labels[rows]
            weight = tilted_weights(batch, centers, labels)[:, None] * (batch.x - centers[labels])
            return centers + 2 * problem.learning_rate * jax.ops.segment_sum(weight, labels, len(centers))

        centers = jax.lax.fori_loop(0, self.n_epochs, epoch, state.centers)
        labels = nearest(problem, centers)
        return Partition(centers, labels, key), cluster_losses(problem, centers, labels).sum()


class TiltedKMeans(Engine):
    """k-means whose centres lean towards the members that are far away (TKM).

    Parameters
    ----------
    n_clusters: K. tilt: t >= 0; 0 is k-means, large ones approach the centre of each cluster's smallest enclosing ball.
    solver: "newton" (deterministic; the objective never increases) or "sgd", the paper's, with `learning_rate` and
        `batch_size`.
    n_init: k-means++ seeds, run together on at most 10,000 rows; the best goes on with all of them.
    max_iter, tol: iterations, and the relative change of the objective below which they end; "sgd" keeps its step, so
        that it seldom settles. random_state: an int makes runs repeatable. progress_bar: show one.
    mesh: `bayesfair.distributed.mesh(rows=...)`, processes that have some of the rows each (solver "newton"); `labels_` are
        those of the process's own rows, everything else is of all.

    Groups are not used: every row is to be treated alike. `sensitive_features` is taken so that engines can be swapped.

    Attributes
    ----------
    cluster_centers_ (K, d). labels_ (N,): the assignment that the objective counts; where the nearest centre would
    raise it, another one than `predict` gives. tilted_sse_: the objective. inertia_: sum of squared distances.
    within_cluster_variance_ (K,): variance of the squared distances. max_distance_ (K,): of a member to its centre.
    objective_trace_, n_iter_, converged_.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_diabetes()
    >>> est = bf.TiltedKMeans(3, tilt=0.01, random_state=0).fit(data.features)
    >>> est.cluster_centers_.shape[0]
    3
    """

    uses_groups = False

    cluster_centers_: np.ndarray
    tilted_sse_: float
    inertia_: float

    def __init__(
        self,
        n_clusters: int = 4,
        *,
        tilt: float = 0.1,
        solver: Literal["newton", "sgd"] = "newton",
        learning_rate: float = 0.05,
        batch_size: int = 100,
        n_init: int = 16,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        progress_bar: bool = False,
        mesh: jax.sharding.Mesh | None = None,
    ):
        self.n_clusters = n_clusters
        self.tilt = tilt
        self.solver = solver
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.progress_bar = progress_bar
        self.mesh = mesh

    @property
    def monotone(self):
        return self.solver == "newton"

    def check_settings(self):
        if self.solver not in ("newton", "sgd"):
            rule, remedy = "be 'newton' or 'sgd'", "See the docstring."
            raise ValueError(message("solver", rule, repr(self.solver), remedy))
        if self.mesh is not None and self.solver != "newton":
            rule, remedy = (
                "be None where solver is not 'newton'",
                "Mini-batches are drawn from all rows, in one process.",
            )
            raise ValueError(message("mesh", rule, "one", remedy))
        check_number("tilt", self.tilt, minimum=0)
        check_number("learning_rate", self.learning_rate)
        check_integer("batch_size", self.batch_size)
        if self.solver == "newton":
            refuse_unread(self, "learning_rate", "batch_size", where="unless solver='sgd'")

    def problem(self, data) -> TiltedRows:
        (n_obs, dim), share = data.X.shape, data.share
        if share.mesh is None:
            check_distinct(data.X, self.n_clusters)
        whole = {"weight": data.given_weight, "everybody": share.everybody}
        self._units = scaling(data.X, names=data.columns.names, precision=np.float32, **whole)
        spread = center_and_spread(data.X, **whole)[1]
        # Of degree 4: the variance of squared distances.
        check_costs(spread, names=data.columns.names, degree=4, terms=share.n_obs * dim)
        warn_of_scales(data.X, data.columns.names)
        self._axes = span(self._units.rows(data.X))[1] if n_obs < dim and share.mesh is None else None
        x, square = aligned_empty((n_obs, dim if self._axes is None else len(self._axes))), aligned_empty(n_obs)
        for block in row_blocks(n_obs):
            rows = self._rows(data.X, block)
            x[block], square[block] = rows, (rows**2).sum(1)
        return self._tilted(x, square, data.relative_weight, share)

    def _rows(self, X, at):
        """Some of the rows of a fit, float64, in the coordinates that are worked in."""
        return self._units.rows(X[at]) if self._axes is None else span(self._units.rows(X))[0][at]

    def _tilted(self, x, square, weight, share: Share) -> TiltedRows:
        tilt, largest = self._units.cost(self.tilt) if self.tilt else 0.0, max(share.everybody(square.max()))
        self._mean_square = sum(share.everybody(weight @ square)) / share.n_obs
        exponent = tilt * 4 * largest
        if not exponent <= LARGEST_EXPONENT:
            rule = f"keep tilt times squared distances within {LARGEST_EXPONENT:.0e}"
            limit = LARGEST_EXPONENT / 4 / self._units.cost(largest)
            remedy = f"Scale the columns of X, or use a tilt below {limit:.3g}."
            raise ValueError(message("tilt", rule, f"{self.tilt} with distances that give {exponent:.3g}", remedy))
        if exponent < SMALLEST_EXPONENT:
            tilt = 0.0
        if share.mesh is not None:
            nobody = 0, share.largest - len(x)
            x, square, weight = np.pad(x, (nobody, (0, 0))), np.pad(square, nobody), np.pad(weight, nobody)
        parts = x, square, tilt, self.learning_rate, weight
        return share.placed(TiltedRows(*(np.asarray(part, np.float32) for part in parts)), SPECS)

    def solve(self, problem, data):
        """From all seeds on at most EXPLORE_ROWS rows; the best goes on with all of them."""
        rng, n_obs = np.random.RandomState(data.seed), data.share.n_obs
        if data.share.mesh is not None:
            return self._solve_over_processes(problem, data, rng)
        if n_obs <= EXPLORE_ROWS:
            Z = self._rows(data.X, slice(None))
            return self._descend(problem, seeds(Z, self.n_clusters, self.n_init, rng, data.weight), data.seed)
        rows = rng.choice(n_obs, EXPLORE_ROWS, replace=False)
        starts = seeds(self._rows(data.X, rows), self.n_clusters, self.n_init, rng, data.weight[rows])
        best = self._descend(problem.take(rows), starts, data.seed)
        return self._descend(problem, best.state.centers[None], data.seed)

    def _solve_over_processes(self, problem, data, rng):
        """The same, but that some rows are all rows where these are few; every process has these some."""
        n_obs, share = data.share.n_obs, data.share
        rows = rng.choice(n_obs, min(n_obs, EXPLORE_ROWS), replace=False)
        Z, weight = self._units.rows(share.take(data.X, rows)), share.take(data.relative_weight, rows)
        check_distinct(Z, self.n_clusters)
        parts = Z, (Z**2).sum(1), problem.tilt, problem.learning_rate, weight
        few = TiltedRows(*(jnp.asarray(np.asarray(part), jnp.float32) for part in parts))
        best = self._descend(few, seeds(Z, self.n_clusters, self.n_init, rng, weight), data.seed)
        states = start_over_processes(share.mesh, problem, agreed(best.state.centers))
        outcome = self._descend_from(problem, states, StepInShares(newton, share.mesh, SPECS, STATE_SPECS))
        own = here(outcome.state.labels)[:, : len(data.X)]
        return outcome._replace(state=outcome.state._replace(labels=own)).best

    def _descend(self, problem, starts, seed):
        """The best run."""
        states = stack([start_state(problem, centers, seed + i) for i, centers in enumerate(starts)])
        if self.solver == "sgd":
            return self.run(problem, states, step=GradientDescent(self.batch_size), patience=SGD_PATIENCE).best
        return self._descend_from(problem, states, newton).best

    def _descend_from(self, problem, states, step):
        """Newton's method comes to a large tilt through smaller ones, where the objective is smoother."""
        steps = np.ceil(np.log(max(float(problem.tilt) * self._mean_square, 1.0)) / np.log(TILT_RATIO))
        for divisor in TILT_RATIO ** np.arange(steps, -1, -1):
            outcome = self.run(
                problem._replace(tilt=jnp.float32(problem.tilt / divisor)), states, step=step, patience=3
            )
            states = outcome.state
        return outcome

    def report(self, outcome, problem, data):
        free(problem)
        self.labels_ = np.asarray(outcome.state.labels)
        centers = np.asarray(outcome.state.centers, np.float64)
        centers = centers if self._axes is None else centers @ self._axes
        self.cluster_centers_ = self._units.points(centers)
        self.tilted_sse_ = float(self._units.cost(outcome.loss))
        squared, share, weight = squares(data, self._units, self.labels_, centers), data.share, data.weight
        self.inertia_ = float(self._units.cost(sum(share.everybody(weight @ squared))))
        own = (self.labels_ == k for k in range(self.n_clusters))
        members = [(share.of_all(squared[rows]), share.of_all(weight[rows])) for rows in own]
        spreads = [(variance_of(*part), part[0].max()) if len(part[0]) else (np.nan,) * 2 for part in members]
        variance, radius = np.array(spreads).T
        self.within_cluster_variance_ = self._units.cost(variance, 4)
        self.max_distance_ = self._units.cost(np.sqrt(radius), 1)
        empty = [k for k, (part, _) in enumerate(members) if len(part) == 0]
        if empty:
            what = f"clusters {empty} are empty, as this tilt prefers. Remedy: lower tilt or n_clusters."
            tell(f"TiltedKMeans: {what}", ConvergenceWarning)

    def objective_of(self, losses):
        return self._units.cost(losses)


def span(Z):
    """Centred rows (obs, dim) in the at most `obs` coordinates of their own span, and its orthonormal axes (obs, dim);
    the rows as they are and None where that saves nothing. Distances, all that TKM reads, stay the same."""
    if len(Z) >= Z.shape[1]:
        return Z, None
    axes, coordinates = np.linalg.qr(Z.T)
    return np.ascontiguousarray(coordinates.T), axes.T


def variance_of(values, weight):
    mean = np.average(values, weights=weight)
    return np.average(np.square(values - mean), weights=weight)


def seeds(X, n_clusters, n_init, rng, weight):
    """k-means++ seeds (n_init, n_clusters, dim), as they are: Lloyd's iterations would make them alike."""
    from sklearn.cluster import kmeans_plusplus

    return np.stack([kmeans_plusplus(X, n_clusters, sample_weight=weight, random_state=rng)[0] for _ in range(n_init)])


def start_state(problem: TiltedRows, centers, seed) -> Partition:
    centers = jnp.asarray(centers, jnp.float32)
    return Partition(centers, jax.jit(nearest)(problem, centers), jax.random.PRNGKey(seed))


ALL, ROWS = PartitionSpec(), PartitionSpec("rows")  # where the rows of processes lie
SPECS, STATE_SPECS = TiltedRows(ROWS, ROWS, ALL, ALL, ROWS), Partition(ALL, ROWS, ALL)


@partial(jax.jit, static_argnames="mesh")
def start_over_processes(mesh, problem: TiltedRows, centers) -> Partition:
    """A batch of one run."""

    def labels_of(problem, centers):
        return of_somebody(problem, nearest(problem, centers), len(centers))

    labels = in_shares(labels_of, mesh, (SPECS, ALL), ROWS)(problem, centers)
    return Partition(centers[None], labels[None], jax.random.PRNGKey(0)[None])
