"""Cheap balanced labellings by deterministic annealing with group duals (DESIGN.md, section 2.6).

Soft labels softmax_k(-lambda d(x_i, m_k) + alpha_gk), g the group of i, are those of least free energy among all whose
expected counts are balanced, alpha the multipliers of that constraint (Rose, Gurewitz and Fox 1990 for the annealing;
with two groups and exact balance alpha is a Sinkhorn scaling). lambda grows geometrically, the duals are solved by
Newton's method at every lambda, centres take a step of EM. Many starts cool as one batch; `labels` has what makes
labels of what they end with.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from bayesfair._arrays import aligned_empty, row_blocks
from bayesfair.balanced.centroids import Centroids
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.fairness.balanced import WithinOnePerson

__all__ = ["AnnealedRows", "Annealer", "Cooled", "Multipliers", "SortedRows", "balanced_moments"]

PART = 2**16  # rows that are sorted together
BLOCK = 1024  # rows whose soft labels, of all starts, are in memory together
RATE = 1.1  # by which lambda grows
COLDEST = 50.0  # lambda times the loss per row at which labels are as good as hard
MOST = 250  # temperatures, where the loss goes to 0
JITTER = 1e-3  # of the spread, by which centres that coincide are told apart
SOLVES = 10  # of Newton's steps at one temperature
FIRST, ONWARDS, BACK = 4.0, 1.5, 0.5  # the longest step of a dual, and what it is multiplied by
UNFAIR = 1e-4  # of the people of an average cluster: the violation at which duals are good
FEW = 1e-6
PARTS = 8  # of more than PART rows


class SortedRows(NamedTuple):
    """Rows in blocks of one group each, padded with rows that are not `there` (0 instead of 1). Balance counts those that are;
    weights, of mean 1, enter the loss."""

    x: Float[Array, "blocks rows dim"]
    there: Float[Array, "blocks rows"]
    weight: Float[Array, "blocks rows"]
    group: Int[Array, " blocks"]


class AnnealedRows:
    """`SortedRows` of a table in `parts`, on the device where they are PART rows or two; of more rows each part is made when it
    is asked for, so that there is no second table."""

    def __init__(self, X, code, n_groups, relative):
        self.X, self.relative = X, relative
        block = min(BLOCK, max(16, 2 ** int(np.ceil(np.log2(len(X) / (4 * n_groups))))))
        held = [-(-size // block) for size in np.bincount(code, minlength=n_groups)]
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

    def __len__(self):
        return len(self.X)

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
        there = (rows >= 0).astype(np.float32)
        weight = there * self.relative[np.maximum(rows, 0)].astype(np.float32)
        return SortedRows(*map(jax.device_put, (x, there, weight, self.group[part])))


class SoftMoments(NamedTuple):
    """What soft labels add up to, of every start: expected counts, their derivatives by alpha, and the centres' sums."""

    counts: Float[ArrayLike, "starts groups clusters"]
    slope: Float[ArrayLike, "starts groups clusters clusters"]
    mass: Float[ArrayLike, "starts clusters dim"]
    sum: Float[ArrayLike, "starts clusters dim"]
    loss: Float[ArrayLike, " starts"]

    @classmethod
    def zeros(cls, centers, alpha):
        n_starts, n_clusters = centers.shape[:2]
        shapes = alpha.shape, (*alpha.shape, n_clusters), centers.shape, centers.shape, (n_starts,)
        return cls(*(jnp.zeros(shape, jnp.float32) for shape in shapes))


@partial(jax.jit, static_argnames="loss")
def moments(loss, rows: SortedRows, centers, alpha, inverse_temperature) -> SoftMoments:
    """Of these rows at centres (starts, clusters, dim), alpha (starts, groups, clusters) and one inverse temperature."""

    def one_block(total, block):
        x, there, weight, group = block
        d, pull = loss.soft(centers, x)
        d *= weight
        logits = alpha[:, group, :, None] - inverse_temperature * d
        unscaled = jnp.exp(logits - logits.max(1, keepdims=True))
        soft = unscaled * (there / unscaled.sum(1, keepdims=True))
        counts = soft.sum(2)
        slope = jax.vmap(jnp.diag)(counts) - jnp.einsum("tkb,tlb->tkl", soft, soft)
        mass, sums = pull(soft * weight)
        paid = jnp.einsum("tkb,tkb->t", soft, d)
        counts, slope = total.counts.at[:, group].add(counts), total.slope.at[:, group].add(slope)
        return SoftMoments(counts, slope, total.mass + mass, total.sum + sums, total.loss + paid), None

    return jax.lax.scan(one_block, SoftMoments.zeros(centers, alpha), rows)[0]


class Multipliers(NamedTuple):
    """The balance of expected counts n, A n = 0 or A n <= 0 in every cluster, and its duals: alpha = -A' mu. share: that of
    every group where A is I - share 1', None where it is another."""

    A: Float[np.ndarray, "rows groups"]
    equal: bool
    share: Float[np.ndarray, " groups"] | None = None

    @classmethod
    def of(cls, constraint):
        equal = isinstance(constraint, WithinOnePerson)
        A = constraint.rows()[0]
        share = constraint.sizes / constraint.n_obs if equal and constraint.incidence is None else None
        return cls(A[: len(A) // 2] if equal else A, equal, share)

    def alpha(self, mu):
        return -np.einsum("jg,tjk->tgk", self.A, mu)

    def excess(self, counts):
        """A n (starts, rows, clusters): the direction in which mu goes."""
        return np.einsum("jg,tgk->tjk", self.A, counts)

    def unfair(self, counts):
        """The largest violation of every start, in people."""
        excess = self.excess(counts)
        return (np.abs(excess) if self.equal else excess).max((1, 2), initial=0.0)

    def newton(self, mu, counts, slope):
        """Newton's step of mu on the convex dual; of inequalities, for those that are or become active."""
        excess = self.excess(counts)
        ridge = FEW * counts.sum((1, 2)) * max(np.square(self.A).mean(), FEW) if self.A.size else np.zeros(len(mu))
        if self.share is None or not self.A.size:
            return self._dense_step(mu, excess, slope, ridge)
        step = self._step_by_groups(excess, slope, ridge)
        return step - np.einsum("g,tgk->tk", self.share, step)[:, None]

    def _step_by_groups(self, excess, slope, ridge):
        """`_dense_step` where A is I - share 1': the curvature is that of each group by itself, D, and one of rank 2 K that
        couples them, W M W' with W = (slope, share) and M = (0, -I; -I, sum of slope). Woodbury: time grows with the groups."""
        n_starts, n_groups, n_clusters = excess.shape
        one, sharing = np.eye(n_clusters), np.einsum("g,kl->gkl", self.share, np.eye(n_clusters))
        W = np.concatenate([slope, np.broadcast_to(sharing, slope.shape)], 3)
        solved = np.linalg.solve(slope + ridge[:, None, None, None] * one, np.concatenate([W, excess[..., None]], 3))
        inner = W.reshape(n_starts, -1, 2 * n_clusters).swapaxes(1, 2) @ solved.reshape(
            n_starts, n_groups * n_clusters, -1
        )
        coupling = inner[..., :-1]  # + the inverse of M
        coupling[:, :n_clusters, :n_clusters] -= slope.sum(1)
        coupling[:, :n_clusters, n_clusters:] -= one
        coupling[:, n_clusters:, :n_clusters] -= one
        shared = np.linalg.solve(coupling, inner[..., -1:])
        return (solved[..., -1:] - solved[..., :-1] @ shared[:, None])[..., 0]

    def _dense_step(self, mu, excess, slope, ridge):
        n_starts, n_rows, n_clusters = mu.shape
        curvature = np.einsum("jg,tgkl,ig->tjkil", self.A, slope, self.A, optimize=True).reshape(
            n_starts, n_rows * n_clusters, -1
        )
        held = np.ones(mu.shape, bool) if self.equal else (mu > 0) | (excess > 0)
        held = held.reshape(n_starts, -1)
        curvature = curvature * (held[:, :, None] & held[:, None])
        curvature += np.eye(curvature.shape[1]) * np.where(held, ridge[:, None], 1.0)[:, None]
        return np.linalg.solve(curvature, np.where(held, excess.reshape(n_starts, -1), 0.0)[..., None]).reshape(
            mu.shape
        )

    def projected(self, mu):
        return mu if self.equal else np.maximum(mu, 0.0)


class Cooled(NamedTuple):
    """Where the starts ended: centres, duals of the distances (alpha / lambda), expected counts, losses without own terms."""

    centers: Float[np.ndarray, "*starts clusters dim"]
    duals: Float[np.ndarray, "*starts groups clusters"]
    counts: Float[np.ndarray, "*starts clusters groups"]
    loss: Float[ArrayLike, "*starts"]

    def run(self, at):
        """One start alone; of several, those starts."""
        return Cooled(*(part[at] for part in self))


class Annealer(NamedTuple):
    """What all temperatures share. own: the weighted sum of the rows' own terms. per_row: the loss of one cluster, a row. The
    rows' weights have a mean of 1 here, so that temperatures do not depend on their scale."""

    rows: AnnealedRows
    multipliers: Multipliers
    loss: Centroids
    middle: np.ndarray
    spread: np.ndarray
    per_row: float
    own: float
    n_obs: int
    rng: np.random.Generator

    @classmethod
    def of(cls, problem: BalancedProblem, rng):
        X, code, weight, constraint, loss, _ = problem
        multipliers = Multipliers.of(constraint)
        n_obs, total = len(X), weight.sum()
        weight = weight if total == n_obs else weight / (total / n_obs)
        rows = AnnealedRows(X, code, multipliers.A.shape[1], weight)
        middle = loss.inside(loss.centers(X, np.zeros(len(X), np.int32), 1, weight)[0])
        parts = row_blocks(len(X))
        paid = loss.distances(X, middle[None], weight)[:, 0].sum()
        own = sum(float(weight[part] @ loss.own(X[part])) for part in parts)
        spread = sum(weight[part] @ np.abs(X[part] - middle) for part in parts)
        return cls(rows, multipliers, loss, middle, spread / n_obs, max(paid / n_obs, FEW), own, n_obs, rng)

    def from_one_cluster(self, n_starts, n_clusters) -> Cooled:
        """`n_starts` starts, all centres in the middle, from a temperature at which that is the only optimum."""
        return self.cool(np.tile(self.middle, (n_starts, n_clusters, 1)), 2 * self.per_row)

    def coldest(self, per_row):
        """The temperature at which labels that lose so much per row are as good as hard."""
        return max(per_row, FEW * self.per_row) / COLDEST

    def cool(self, centers, temperature) -> Cooled:
        """From centres (starts, clusters, dim) at a temperature down to hard labels."""
        mu = np.zeros((len(centers), len(self.multipliers.A), centers.shape[1]))
        for _ in range(MOST):
            noise = JITTER * self.spread * self.rng.normal(size=centers.shape)
            centers = self.loss.inside(centers + noise)
            mu, found = balanced_moments(self.loss, self.rows, self.multipliers, centers, mu, temperature)
            centers = np.where(found.mass > FEW, found.sum / np.maximum(found.mass, FEW), centers)
            if temperature <= self.coldest((found.loss.min() + self.own) / self.n_obs):
                break
            temperature, mu = temperature / RATE, mu * RATE
        duals = self.multipliers.alpha(mu) * temperature
        return Cooled(centers, duals, found.counts.swapaxes(1, 2), found.loss + self.own)


def balanced_moments(loss, rows: AnnealedRows, multipliers: Multipliers, centers, mu, temperature):
    """(mu, moments) after Newton's method. Where no row is near a border the dual is flat and a step endless: every number has
    a longest step of its own, which grows where it is reached and is halved where a step goes back."""
    fair = UNFAIR * float(len(rows)) / centers.shape[1]
    longest, before = np.full(mu.shape, FIRST), np.zeros(mu.shape)
    for _ in range(SOLVES):
        found = moments_of(loss, rows, centers, multipliers.alpha(mu), temperature)
        if multipliers.unfair(found.counts).max() <= fair:
            break
        step = multipliers.newton(mu, found.counts, found.slope)
        if multipliers.equal:  # what all clusters have in common changes nothing
            step -= np.median(step, 2, keepdims=True)
        longest *= np.where(step * before < 0, BACK, np.where(np.abs(step) > longest, ONWARDS, 1.0))
        before = np.clip(step, -longest, longest)
        mu = multipliers.projected(mu + before)
    return mu, found


def moments_of(loss, rows: AnnealedRows, centers, alpha, temperature) -> SoftMoments:
    """Of all rows, in float64; their parts are added up in one order."""
    arguments = *(np.asarray(each, np.float32) for each in (centers, alpha)), np.float32(1 / temperature)

    def of_part(part):
        return [*map(np.asarray, moments(loss, rows.of(part), *arguments))]

    return SoftMoments(*(np.sum(each, 0, dtype=np.float64) for each in zip(*map(of_part, rows.parts))))
