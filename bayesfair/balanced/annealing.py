"""Cheap balanced labellings by deterministic annealing with group duals (DESIGN.md, section 2.6).

Soft labels softmax_k(-lambda d(x_i, m_k) + alpha_gk), g the group of i, minimise the free energy among all labels whose
expected counts are balanced; alpha are the multipliers of that constraint (Rose, Gurewitz and Fox 1990 for the
annealing; with two groups and exact balance alpha is a Sinkhorn scaling). lambda grows geometrically. At every lambda,
damped Newton steps solve for the duals and centres take a step of EM. Many starts cool as one batch; `labels` turns
their ends into labels.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from bayesfair._arrays import row_blocks
from bayesfair.balanced.centroids import Centroids
from bayesfair.balanced.newton import held_steps
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.soft_labels import add_moments
from bayesfair.fairness.balanced import is_exact
from bayesfair.fairness.bounded_sizes import balance_of, size_bounds

PART = 2**16  # rows that are sorted together
RATE = 1.2  # growth factor of lambda
COLDEST = 50.0  # lambda times the loss per row at which labels are practically hard
MOST = 250  # largest number of temperatures, if the loss goes to 0
JITTER = 1e-3  # relative to the spread: separates equal centres
SOLVES = 20  # largest number of Newton steps at one temperature
ON_THE_WAY = 2e-2  # violation, in rows of an average cluster, at which duals are good enough
UNFAIR = 1e-3  # the same at the last temperature: counts are rounded from there, and their rows may be dear
DAMPING = 1e-3  # damping of Newton's first step, in rows of an average cluster
LEAST_DAMPING = 1e-5  # a smaller one leads hard labels too far, and is raised again in vain
EASED, HARDENED = 10.0, 10.0  # good steps divide the damping by it, bad ones multiply
ROUNDING = 1e-6  # rise of the dual per row that may be rounding
FEW_DUALS = 100  # duals up to which one system of all of them is solved sooner than one for each group
FEW = 1e-6


class SortedRows(NamedTuple):
    """Rows by group, one feature after the other: rows first[g] to first[g + 1] are of group g. Weights have mean 1."""

    x: Float[ndarray, "dim rows"]
    weight: Float[ndarray, " rows"]
    first: Int[ndarray, " groups_and_1"]


class AnnealedRows:
    """`SortedRows` of a table in `parts`: in memory up to PART rows, else each part is made when it is used.

    sizes: of the groups (J,) in the table of which the rows are a sample; of these rows by default. stand_for: how many rows
    of its group each row stands for.
    """

    def __init__(self, X, code, n_groups, relative, sizes=None):
        self.X, self.relative = X, relative
        here = np.bincount(code, minlength=n_groups)
        self.sizes = here if sizes is None else sizes
        self.stand_for = self.sizes / np.maximum(here, 1)
        self.total = float(self.sizes.sum())
        self.order = np.argsort(code, kind="stable").astype(np.min_scalar_type(len(code)))
        self.first = np.concatenate([[0], np.cumsum(here)])
        self.parts = row_blocks(len(X), PART)
        self.held = None

    def of(self, part) -> SortedRows:
        """One of the `parts`."""
        if len(self.parts) > 1:
            return self._sorted(part)
        if self.held is None:
            self.held = self._sorted(part)
        return self.held

    def _sorted(self, part) -> SortedRows:
        rows = self.order[part]
        x = np.empty((self.X.shape[1], len(rows)), np.float32)
        for block in row_blocks(len(rows)):
            x[:, block] = self.X[rows[block]].T
        first = np.clip(self.first - part.start, 0, len(rows))
        return SortedRows(x, self.relative[rows].astype(np.float32), first)


class SoftMoments(NamedTuple):
    """Sums over soft labels, for every start; `slope`: derivatives by alpha of the counts, which are those of the `dual`."""

    counts: Float[ndarray, "starts groups clusters"]
    slope: Float[ndarray, "starts groups clusters clusters"]
    mass: Float[ndarray, "starts clusters dim"]
    sum: Float[ndarray, "starts clusters dim"]
    loss: Float[ndarray, " starts"]
    dual: Float[ndarray, " starts"]


class Multipliers(NamedTuple):
    """The constraint on expected counts n, A n = limit (rows that are `equal`) or A n <= limit in every cluster, and its duals.

    alpha = -A' mu. Limits are 0 for balance, numbers of rows for sizes. share: of every group if A is I - share 1',
    else None.
    """

    A: Float[ndarray, "rows groups"]
    equal: Bool[ndarray, "rows one"]
    limit: Float[ndarray, "rows clusters_or_one"]
    share: Float[ndarray, " groups"] | None = None

    @classmethod
    def of(cls, constraint):
        balance, exact = balance_of(constraint), is_exact(constraint)
        combinations = exact and balance.together  # whose shares are those of attributes too
        A = balance.rows()[0]
        A = A[: A.shape[1] if combinations else len(A) // 2] if exact else A
        equal, limit = np.full((len(A), 1), exact), np.zeros((len(A), 1))
        share = balance.sizes[: len(A)] / balance.n_obs if combinations else None
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
        if self.share is None or mu[0].size <= FEW_DUALS:
            return self._held_step(mu, excess, slope, ridge)
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
        """`_held_step` of balance if A is I - share 1', for every last entry of `excess`; time grows with the groups.

        The curvature is each group's own, D, plus one of rank 2 K that couples them, W M W' with W = (slope, share) and
        M = (0, -I; -I, sum of slope): Woodbury.
        """
        n_starts, n_groups, n_clusters, _ = excess.shape
        one, sharing = np.eye(n_clusters), np.einsum("g,kl->gkl", self.share, np.eye(n_clusters))
        W = np.concatenate([slope, np.broadcast_to(sharing, slope.shape)], 3)
        solved = solved_for(slope + ridge[:, None, None, None] * one, np.concatenate([W, excess], 3))
        inner = W.reshape(n_starts, -1, 2 * n_clusters).swapaxes(1, 2)
        inner = inner @ solved.reshape(n_starts, n_groups * n_clusters, -1)
        coupling, rest = np.split(inner, [2 * n_clusters], axis=2)  # + the inverse of M
        coupling[:, :n_clusters, :n_clusters] -= slope.sum(1)
        coupling[:, :n_clusters, n_clusters:] -= one
        coupling[:, n_clusters:, :n_clusters] -= one
        among, alone = np.split(solved, [2 * n_clusters], axis=3)
        return alone - among @ solved_for(coupling, rest)[:, None]

    def _held_step(self, mu, excess, slope, ridge):
        """Newton's steps of the duals that are held, one system for each start."""
        step, held = np.zeros(mu.shape), self.equal | (mu > 0) | (excess > 0)
        held_steps(*map(np.ascontiguousarray, (self.A, held, slope, excess)), ridge, step)
        return step


def solved_for(matrix, wanted):
    """matrix^-1 wanted of every start; in least squares if the curvature of one of them vanishes."""
    try:
        return np.linalg.solve(matrix, wanted)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix) @ wanted


def _step_of_held(held, curvature, rest, ridge):
    """Newton's step (starts, duals) of the duals that are `held`; the others stay."""
    curvature = curvature * (held[:, :, None] & held[:, None])
    curvature += np.eye(held.shape[1]) * np.where(held, ridge[:, None], 1.0)[:, None]
    return np.linalg.solve(curvature, np.where(held, rest, 0.0)[..., None])[..., 0]


class Cooled(NamedTuple):
    """Ends of the starts: centres, duals of balance in units of distances (mu / lambda), expected counts, losses."""

    centers: Float[ndarray, "*starts clusters dim"]
    mu: Float[ndarray, "*starts rows clusters"]
    counts: Float[ndarray, "*starts clusters groups"]
    loss: Float[ndarray, "*starts"] | float

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
    middle: ndarray
    spread: ndarray
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
        per_row = self.per_row
        for step in range(MOST):
            noise = JITTER * self.spread * self.rng.normal(size=centers.shape)
            centers = self.loss.inside(centers + noise)
            is_last = step > 0 and temperature <= self.coldest(per_row)  # before, the loss is not known
            unfair = UNFAIR if is_last else ON_THE_WAY
            mu, found = balanced_moments(self.loss, self.rows, self.multipliers, centers, mu, temperature, unfair)
            centers = np.where(found.mass > FEW, found.sum / np.maximum(found.mass, FEW), centers)
            if is_last:
                break
            per_row = (found.loss.min() + self.own) / self.rows.total
            temperature, mu = temperature / RATE, mu * RATE
        fair = self.multipliers.unfair(mu, found.counts) <= ON_THE_WAY * self.rows.total / centers.shape[1]
        loss = np.where(fair, found.loss + self.own, np.inf)
        return Cooled(centers, mu * temperature, found.counts.swapaxes(1, 2), loss)


def balanced_moments(loss, rows: AnnealedRows, multipliers: Multipliers, centers, mu, temperature, unfair):
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
        damping = np.where(better, np.maximum(damping / EASED, LEAST_DAMPING), damping * HARDENED)
    return mu, found


def where(chosen, one, other):
    """Values of `one` for the `chosen` starts, of `other` for the rest."""
    return np.where(chosen.reshape(-1, *(1,) * (one.ndim - 1)), one, other)


def moments_of(loss, rows: AnnealedRows, centers, alpha, temperature, wanted) -> SoftMoments:
    """Moments of all rows at centres and alpha (starts, ...), for the starts that are `wanted`; parts are added in order."""
    (n_starts, n_groups, n_clusters), dim = alpha.shape, rows.X.shape[1]
    shapes = (n_groups, n_clusters), (n_groups, n_clusters, n_clusters), (n_clusters, dim), (n_clusters, dim), (2,)
    *sums, numbers = (np.zeros((n_starts, *shape)) for shape in shapes)
    offset, slope, absolute = loss.soft(centers)
    at = *(each.astype(np.float32, order="C") for each in (offset, slope, alpha)), absolute  # one type, compiled once
    for part in rows.parts:
        x, weight, first = rows.of(part)
        add_moments(x, weight, first, rows.stand_for, *at, np.float32(1 / temperature), wanted, *sums, numbers)
    return SoftMoments(*sums, *numbers.T)
