"""Cheap balanced labellings by deterministic annealing with group duals (DESIGN.md, section 2.6).

Soft labels softmax_k(-lambda d(x_i, m_k) + alpha_gk), g the group of i, minimise the free energy among all labels whose
expected counts are balanced; alpha are the multipliers of that constraint (Rose, Gurewitz and Fox 1990 for the
annealing; with two groups and exact balance alpha is a Sinkhorn scaling). lambda grows geometrically. At every lambda,
damped Newton steps solve for the duals and centres take a step of EM. Many starts cool as one batch; `labels` turns
their ends into labels.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from bayesfair._arrays import aligned_empty, row_blocks
from bayesfair._jit import jit
from bayesfair.balanced.centroids import Centroids
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairness.balanced import is_exact
from bayesfair.fairness.bounded_sizes import balance_of, size_bounds

PART = 2**16  # rows that are sorted together
BLOCK = 1024  # rows whose soft labels, for all starts, are in memory together
RATE = 1.1  # growth factor of lambda
COLDEST = 50.0  # lambda times the loss per row at which labels are practically hard
MOST = 250  # largest number of temperatures, if the loss goes to 0
JITTER = 1e-3  # relative to the spread: separates equal centres
SOLVES = 20  # largest number of Newton steps at one temperature
UNFAIR = 1e-2  # violation, in rows of an average cluster, at which duals are good enough
DAMPING = 1e-3  # damping of Newton's first step, in rows of an average cluster
EASED, HARDENED = 10.0, 10.0  # good steps divide the damping by it, bad ones multiply
ROUNDING = 1e-6  # rise of the dual per row that may be rounding
FEW = 1e-6
PARTS = 8  # parts of a table of more than PART rows


class SortedRows(NamedTuple):
    """Rows in blocks of one group each. `there`: how many rows of its group each stands for, 0 for padding; mean weight 1."""

    x: Float[Array, "blocks rows dim"]
    there: Float[Array, "blocks rows"]
    weight: Float[Array, "blocks rows"]
    group: Int[Array, " blocks"]


class AnnealedRows:
    """`SortedRows` of a table in `parts`: on the device up to about PART rows, else each part is made when it is used.

    sizes: of the groups (J,) in the table of which the rows are a sample; of these rows by default.
    """

    def __init__(self, X, code, n_groups, relative, sizes=None):
        self.X, self.relative = X, relative
        here = np.bincount(code, minlength=n_groups)
        self.sizes = here if sizes is None else sizes
        self.stand_for = self.sizes / np.maximum(here, 1)
        self.total = float(self.sizes.sum())
        block = min(BLOCK, max(16, 2 ** int(np.ceil(np.log2(len(X) / (4 * n_groups))))))
        held = [-(-size // block) for size in here]
        n_blocks, at_once = sum(held), PART // block
        self.many = n_blocks > 2 * at_once
        size = at_once if self.many else n_blocks if n_blocks <= at_once else -(-n_blocks // PARTS)
        self.parts = [slice(first, first + size) for first in range(0, n_blocks, size)]
        self.order = np.full((self.parts[-1].stop, block), -1, np.int32)
        self.group = np.zeros(len(self.order), int)
        self.group[:n_blocks] = np.repeat(np.arange(n_groups), held)
        for group, first in enumerate(np.cumsum(held) - held):
            rows = np.flatnonzero(code == group)
            self.order.reshape(-1)[first * block :][: len(rows)] = rows
        self.held = {}

    def of(self, part) -> SortedRows:
        """One of the `parts`."""
        if self.many:
            return self._sorted(part)
        if part.start not in self.held:
            self.held[part.start] = self._sorted(part)
        return self.held[part.start]

    def _sorted(self, part) -> SortedRows:
        rows = self.order[part]
        x = aligned_empty((*rows.shape, self.X.shape[1]))
        for block, own in zip(x, rows):
            block[:] = self.X[np.maximum(own, 0)]
        there = np.where(rows >= 0, self.stand_for[self.group[part]][:, None], 0.0).astype(np.float32)
        weight = self.relative[np.maximum(rows, 0)].astype(np.float32)
        return SortedRows(*map(jax.device_put, (x, there, weight, self.group[part])))


class SoftMoments(NamedTuple):
    """Sums over soft labels, for every start; `slope`: derivatives by alpha of the counts, which are those of the `dual`."""

    counts: Float[ArrayLike, "*starts groups clusters"]
    slope: Float[ArrayLike, "*starts groups clusters clusters"]
    mass: Float[ArrayLike, "*starts clusters dim"]
    sum: Float[ArrayLike, "*starts clusters dim"]
    loss: Float[ArrayLike, "*starts"]
    dual: Float[ArrayLike, "..."]


@jit(static_argnames="loss")
def moments(loss, rows: SortedRows, centers, alpha, inverse_temperature, wanted) -> SoftMoments:
    """Moments of these rows at centres and alpha (starts, ...), for the starts that are `wanted`; the dual is per block."""

    def one_start(start):
        centers, alpha, wanted = start
        shapes = alpha.shape, (*alpha.shape, len(centers)), centers.shape, centers.shape, (), ()
        none = SoftMoments(*(jnp.zeros(shape, jnp.float32) for shape in shapes))

        def one_block(total, block):
            x, there, weight, group = block
            d, pull = loss.soft(centers[None], x)
            d = d[0] * weight
            logits = alpha[group][:, None] - inverse_temperature * d
            largest = logits.max(0)
            unscaled = jnp.exp(logits - largest)
            whole = unscaled.sum(0)
            share = unscaled / whole
            soft = there * share
            counts = soft.sum(1)
            slope = jnp.diag(counts) - soft @ share.T
            mass, sums = pull((soft * weight)[None])
            counts, slope = total.counts.at[group].add(counts), total.slope.at[group].add(slope)
            mass, sums, paid = total.mass + mass[0], total.sum + sums[0], total.loss + (soft * d).sum()
            dual = (there * (largest + jnp.log(whole))).sum()
            return SoftMoments(counts, slope, mass, sums, paid, total.dual), dual

        def found():
            total, duals = jax.lax.scan(one_block, none, rows)
            return total._replace(dual=duals)

        return jax.lax.cond(wanted, found, lambda: none._replace(dual=jnp.zeros(len(rows.group), jnp.float32)))

    return jax.lax.map(one_start, (centers, alpha, wanted))


class Multipliers(NamedTuple):
    """The constraint on expected counts n, A n = limit (rows that are `equal`) or A n <= limit in every cluster, and its duals.

    alpha = -A' mu. Limits are 0 for balance, numbers of rows for sizes. share: of every group if A is I - share 1',
    else None.
    """

    A: Float[np.ndarray, "rows groups"]
    equal: Bool[np.ndarray, "rows one"]
    limit: Float[np.ndarray, "rows clusters_or_one"]
    share: Float[np.ndarray, " groups"] | None = None

    @classmethod
    def of(cls, constraint):
        balance, exact = balance_of(constraint), is_exact(constraint)
        A = balance.rows()[0]
        A = A[: len(A) // 2] if exact else A
        equal, limit = np.full((len(A), 1), exact), np.zeros((len(A), 1))
        share = balance.sizes / balance.n_obs if exact and balance.incidence is None else None
        if balance is constraint:
            return cls(A, equal, limit, share)
        size = np.ones((1, A.shape[1]))
        least, most = (np.atleast_1d(bound).astype(float)[None] for bound in size_bounds(constraint))
        limit = np.concatenate([np.broadcast_to(0.0, (len(A), least.shape[1])), most, -least])
        return cls(np.concatenate([A, size, -size]), np.concatenate([equal, [[False], [False]]]), limit, share)

    def nearest(self, alpha):
        """The duals of bounds, at least 0, with alpha nearest to that of equations (starts, groups, clusters)."""
        from scipy.optimize import nnls

        columns = alpha.swapaxes(1, 2)
        found = [nnls(-self.A.T, column)[0] for column in columns.reshape(-1, alpha.shape[1])]
        return np.reshape(found, (*columns.shape[:2], -1)).swapaxes(1, 2)

    def alpha(self, mu):
        return -np.einsum("jg,tjk->tgk", self.A, mu)

    def excess(self, counts):
        """A n - limit (starts, rows, clusters): the direction in which mu goes."""
        return np.einsum("jg,tgk->tjk", self.A, counts) - self.limit

    def price(self, mu):
        """The limits' part of the dual, for every start."""
        return (mu * self.limit).sum((1, 2))

    def unfair(self, mu, counts):
        """Distance of every start from balance, in rows; a bound with a dual above 0 is one that clusters reach."""
        excess = self.excess(counts)
        return np.where(self.equal | (mu > 0), np.abs(excess), excess).max((1, 2), initial=0.0)

    def newton(self, mu, counts, slope, ridge):
        """Newton's step of mu on the convex dual, with a `ridge` (starts,) on its curvature; only active bounds move."""
        excess = self.excess(counts)
        if self.share is None or not self.A.size:
            return self._dense_step(mu, excess, slope, ridge)
        of_balance, of_sizes = np.split(excess, [len(self.share)], axis=1)
        step = self._step_by_groups(of_balance[..., None], slope, ridge)[..., 0]
        sizes = np.zeros(of_sizes.shape)
        if of_sizes.size:
            held = (mu[:, len(self.share) :] > 0) | (of_sizes > 0)
            step, sizes = self._step_of_sizes(step, of_sizes, held, slope, ridge)
        step = step - np.einsum("g,tgk->tk", self.share, step)[:, None]
        return np.concatenate([step, sizes], 1)

    def _step_of_sizes(self, step, excess, held, slope, ridge):
        """(step of balance, step of sizes), from that of balance alone, by the Schur complement of the sizes' curvature.

        `excess`, `held` (starts, 2, clusters): of the largest and the smallest sizes.
        """
        n_starts, _, n_clusters = excess.shape
        whole = slope.sum(1)
        both = slope - np.einsum("g,tkl->tgkl", self.share, whole)  # curvature between balance and sizes
        moved = self._step_by_groups(both, slope, ridge)
        left = whole - np.einsum("tgkl,tgkm->tlm", both, moved)
        signs, held = np.array([1.0, -1.0]), held.reshape(n_starts, -1)
        curvature = np.einsum("i,j,tkl->tikjl", signs, signs, left).reshape(n_starts, 2 * n_clusters, -1)
        rest = excess - signs[:, None] * np.einsum("tgkl,tgk->tl", both, step)[:, None]
        sizes = _step_of_held(held, curvature, rest.reshape(n_starts, -1), ridge).reshape(excess.shape)
        return step - np.einsum("tgkl,tl->tgk", moved, sizes[:, 0] - sizes[:, 1]), sizes

    def _step_by_groups(self, excess, slope, ridge):
        """`_dense_step` of balance if A is I - share 1', for every last entry of `excess`; time grows with the groups.

        The curvature is each group's own, D, plus one of rank 2 K that couples them, W M W' with W = (slope, share) and
        M = (0, -I; -I, sum of slope): Woodbury.
        """
        n_starts, n_groups, n_clusters, _ = excess.shape
        one, sharing = np.eye(n_clusters), np.einsum("g,kl->gkl", self.share, np.eye(n_clusters))
        W = np.concatenate([slope, np.broadcast_to(sharing, slope.shape)], 3)
        solved = np.linalg.solve(slope + ridge[:, None, None, None] * one, np.concatenate([W, excess], 3))
        inner = W.reshape(n_starts, -1, 2 * n_clusters).swapaxes(1, 2)
        inner = inner @ solved.reshape(n_starts, n_groups * n_clusters, -1)
        coupling, rest = np.split(inner, [2 * n_clusters], axis=2)  # + the inverse of M
        coupling[:, :n_clusters, :n_clusters] -= slope.sum(1)
        coupling[:, :n_clusters, n_clusters:] -= one
        coupling[:, n_clusters:, :n_clusters] -= one
        among, alone = np.split(solved, [2 * n_clusters], axis=3)
        return alone - among @ np.linalg.solve(coupling, rest)[:, None]

    def _dense_step(self, mu, excess, slope, ridge):
        n_starts, n_rows, n_clusters = mu.shape
        curvature = np.einsum("jg,tgkl,ig->tjkil", self.A, slope, self.A, optimize=True)
        curvature = curvature.reshape(n_starts, n_rows * n_clusters, -1)
        held = (self.equal | (mu > 0) | (excess > 0)).reshape(n_starts, -1)
        return _step_of_held(held, curvature, excess.reshape(n_starts, -1), ridge).reshape(mu.shape)


def _step_of_held(held, curvature, rest, ridge):
    """Newton's step (starts, duals) of the duals that are `held`; the others stay."""
    curvature = curvature * (held[:, :, None] & held[:, None])
    curvature += np.eye(held.shape[1]) * np.where(held, ridge[:, None], 1.0)[:, None]
    return np.linalg.solve(curvature, np.where(held, rest, 0.0)[..., None])[..., 0]


class Cooled(NamedTuple):
    """Ends of the starts: centres, duals of balance in units of distances (mu / lambda), expected counts, losses."""

    centers: Float[np.ndarray, "*starts clusters dim"]
    mu: Float[np.ndarray, "*starts rows clusters"]
    counts: Float[np.ndarray, "*starts clusters groups"]
    loss: Float[ArrayLike, "*starts"]

    def run(self, at):
        """One start, or several."""
        return Cooled(*(part[at] for part in self))


class Annealer(NamedTuple):
    """The common part of all temperatures; rows' weights have mean 1, so that temperatures do not depend on their scale.

    own: the weighted sum of the rows' own terms. per_row: the loss of one cluster, per row.
    """

    rows: AnnealedRows
    multipliers: Multipliers
    loss: Centroids
    middle: np.ndarray
    spread: np.ndarray
    per_row: float
    own: float
    rng: np.random.Generator

    @classmethod
    def of(cls, problem: BalancedProblem, rng, sizes=None):
        """The annealer of a problem; sizes: as in `AnnealedRows`."""
        X, code, weight, constraint, loss, _ = problem
        multipliers, weight = Multipliers.of(constraint), weight / weight.mean()
        rows = AnnealedRows(X, code, multipliers.A.shape[1], weight, sizes)
        weight = weight * rows.stand_for[code]
        middle = loss.inside(loss.centers(X, np.zeros(len(X), np.int32), 1, weight)[0])
        parts = row_blocks(len(X))
        paid = loss.distances(X, middle[None], weight)[:, 0].sum()
        own = sum(float(weight[part] @ loss.own(X[part])) for part in parts)
        spread = sum(weight[part] @ np.abs(X[part] - middle) for part in parts)
        return cls(rows, multipliers, loss, middle, spread / rows.total, max(paid / rows.total, FEW), own, rng)

    def from_one_cluster(self, n_starts, n_clusters) -> Cooled:
        """Cool `n_starts` starts with all centres in the middle, from a temperature at which that is the only optimum."""
        return self.cool(np.tile(self.middle, (n_starts, n_clusters, 1)), 2 * self.per_row)

    def coldest(self, per_row):
        """The temperature at which labels with this loss per row are practically hard; at most that of one cluster."""
        return min(max(per_row, FEW * self.per_row), self.per_row) / COLDEST

    def cool(self, centers, temperature, mu=None) -> Cooled:
        """Cool centres (starts, clusters, dim) from a temperature to hard labels, from the duals `mu` if given.

        Starts whose labels are not balanced get an infinite loss.
        """
        mu = np.zeros((len(centers), len(self.multipliers.A), centers.shape[1])) if mu is None else mu / temperature
        for _ in range(MOST):
            noise = JITTER * self.spread * self.rng.normal(size=centers.shape)
            centers = self.loss.inside(centers + noise)
            mu, found = balanced_moments(self.loss, self.rows, self.multipliers, centers, mu, temperature)
            centers = np.where(found.mass > FEW, found.sum / np.maximum(found.mass, FEW), centers)
            if temperature <= self.coldest((found.loss.min() + self.own) / self.rows.total):
                break
            temperature, mu = temperature / RATE, mu * RATE
        fair = self.multipliers.unfair(mu, found.counts) <= UNFAIR * self.rows.total / centers.shape[1]
        loss = np.where(fair, found.loss + self.own, np.inf)
        return Cooled(centers, mu * temperature, found.counts.swapaxes(1, 2), loss)


def balanced_moments(loss, rows: AnnealedRows, multipliers: Multipliers, centers, mu, temperature, unfair=UNFAIR):
    """(mu, moments) at the minimum of the convex dual, by damped Newton steps (Levenberg and Marquardt).

    A start whose step would raise its dual stays, and its next step is shorter. Starts that are balanced up to `unfair`
    of the rows of an average cluster wait for the others.
    """
    people, damping = rows.total / centers.shape[1], np.full(len(mu), DAMPING)
    found = moments_of(loss, rows, centers, multipliers.alpha(mu), temperature, np.ones(len(mu), bool))
    for _ in range(SOLVES):
        left = multipliers.unfair(mu, found.counts) > unfair * people
        if not left.any():
            break
        there = mu + multipliers.newton(mu, found.counts, found.slope, damping * people)
        there = np.where(multipliers.equal, there, np.maximum(there, 0.0))
        tried = moments_of(loss, rows, centers, multipliers.alpha(there), temperature, left)
        most = found.dual + multipliers.price(mu) + ROUNDING * rows.total
        better = left & (tried.dual + multipliers.price(there) <= most)
        mu, found = where(better, there, mu), SoftMoments(*(where(better, *pair) for pair in zip(tried, found)))
        damping = np.where(better, damping / EASED, damping * HARDENED)
    return mu, found


def where(chosen, one, other):
    """Values of `one` for the `chosen` starts, of `other` for the rest."""
    return np.where(chosen.reshape(-1, *(1,) * (one.ndim - 1)), one, other)


def moments_of(loss, rows: AnnealedRows, centers, alpha, temperature, wanted) -> SoftMoments:
    """Moments of all rows in float64; parts are always added in the same order."""
    arguments = *(np.asarray(each, np.float32) for each in (centers, alpha)), np.float32(1 / temperature), wanted

    def of_part(part):
        found = moments(loss, rows.of(part), *arguments)
        return [*map(np.asarray, found[:-1]), np.asarray(found.dual, np.float64).sum(1)]

    return SoftMoments(*(np.sum(each, 0, dtype=np.float64) for each in zip(*map(of_part, rows.parts))))
