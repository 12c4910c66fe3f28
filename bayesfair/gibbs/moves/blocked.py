"""Blocked reallocation: many units change cluster at once, exactly.

Bregman losses are augmented with conjugate centres,

    p(C, B, m) = p(C, B) prod_k exp(-lambda W_k d(ubar_k, m_k)) mu(m_k) / g_k.

Given m, units are independent apart from 1 / prod_k g_k. So propose from softmax_k(-lambda w_i d(u_i, m_k)) and accept
a block with probability min(1, prod_k g_k / g'_k). For k-means g_k is proportional to W_k^{-d/2}.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesfair._arrays import computed_once
from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.loss import ClusterMeans, Units, cluster_means
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation, draw_cluster, share_moved
from bayesfair.gibbs.states import OpenState
from bayesfair.gibbs.sweep import in_turn

BLOCKS = (1, 8, 64)
# The log ratio of an eightfold block spreads sqrt(8) times as much: if small blocks are accepted at 0.9, large ones are
# at 0.7; if large ones are at 0.3, small ones are at 0.7. So neither decision triggers the other.
SPLIT_BELOW, MERGE_ABOVE = 0.3, 0.9


@dataclass(frozen=True)
class GivenCenters:
    """Draws centres m given the clustering, runs moves given m, and drops m again."""

    moves: tuple

    def __call__(self, key, target: HasUnits, state):
        means = cluster_means(target.units_of(state), target.n_clusters)
        centers = target.loss.augmentation.draw_centers(jax.random.fold_in(key, 0), state.lambda_c, means)
        known = {"means": means} if isinstance(self.moves[0], BlockedReallocation) else {}
        inside, stats = in_turn(key, target, state._replace(centers=centers, **known), self.moves, first=1)
        return inside._replace(centers=None), stats


@dataclass(frozen=True)
class BlockedReallocation:
    """All units propose a cluster given the centres; blocks of them are accepted in turn. The warm-up chooses `n_blocks`."""

    n_blocks: int = 1
    backwards: bool = False  # visit the last block first

    statistics = {**CollapsedReallocation.statistics, "block_acceptance": Statistic("tuning")}  # noqa: RUF012
    tunes = ("n_blocks",)

    def __call__(self, key, target: HasUnits, state: OpenState):
        units = computed_once(target.units_of(state))
        cluster, accepted = decide_blocks(key, target, units, state.centers, state.lambda_c, self, state.means)
        stats = {**share_moved(target, state.cluster, cluster), "block_acceptance": accepted}
        return state._replace(cluster=cluster, means=None), stats

    def adjoint(self):
        return replace(self, backwards=not self.backwards)

    def adapt(self, target: HasUnits, recent, tried):
        """Split blocks if few are accepted; merge them if nearly all are."""
        n_blocks = choose_blocks(self.n_blocks, recent["block_acceptance"], target.n_units, tried)
        return replace(self, n_blocks=n_blocks)

    def complaint(self, recent, window):
        where, why = f" (n_blocks = {self.n_blocks})", f"; blocks are split every {window} sweeps"
        return poor_blocks(recent, where, why, window)


def choose_blocks(n_blocks: int, acceptance: float, n_fairlets: int, merged: set[int]) -> int:
    """The next number of blocks. Each is reached by merging at most once (`merged`), so that the search ends."""
    sizes = [min(size, n_fairlets) for size in BLOCKS]
    finer, coarser = [size for size in sizes if size > n_blocks], [size for size in sizes if size < n_blocks]
    if acceptance < SPLIT_BELOW and finer:
        return finer[0]
    if acceptance > MERGE_ABOVE and coarser and coarser[-1] not in merged:
        merged.add(coarser[-1])
        return coarser[-1]
    return n_blocks


def poor_blocks(recent, where, why, window) -> str | None:
    """A warning if few blocks were accepted at the end of the warm-up."""
    if recent["block_acceptance"] >= SPLIT_BELOW:
        return None
    return (
        f"Only {recent['block_acceptance']:.0%} of the blocks of fairlets were accepted at the end of the warm-up{where}: "
        f"clusters will change slowly. Use a longer warm-up (num_warmup of at least {4 * window}{why}), or pass "
        "reallocation='collapsed'."
    )


def proposal_logits(target: HasUnits, units: Units, centers, inverse_temperature) -> Float[Array, "units clusters"]:
    """-lambda w_i d(u_i, m_k), up to a constant of the unit."""
    return -inverse_temperature * units.weight[:, None] * target.loss.divergences(units.center, centers)


def log_block_ratio(target: HasUnits, old: Units, new: Units, inverse_temperature):
    """log prod_k g_k / g'_k, -inf if `new` has an empty cluster."""
    means = (cluster_means(units, target.n_clusters) for units in (old, new))
    return log_ratio_of_means(target, *means, inverse_temperature)


def log_ratio_of_means(target: HasUnits, before: ClusterMeans, after: ClusterMeans, inverse_temperature):
    """`log_block_ratio` from the means of the clusters."""
    log_normalizer = target.loss.augmentation.log_normalizer
    change = log_normalizer(inverse_temperature, before) - log_normalizer(inverse_temperature, after)
    return jnp.where((after.count > 0).all(), change.sum(), -jnp.inf)


def decide_blocks(
    key, target: HasUnits, units: Units, centers, inverse_temperature, move: BlockedReallocation, means=None
):
    """(clusters, accepted share): propose all at once and accept block by block. `means`: of the clusters, if known."""
    key_proposal, key_accept = jax.random.split(key)
    n_units, n_blocks = units.cluster.shape[0], move.n_blocks
    uniforms = jax.random.uniform(key_proposal, (n_units,), units.center.dtype)
    logits = proposal_logits(target, units, centers, inverse_temperature)
    proposed = draw_cluster(uniforms, logits).astype(units.cluster.dtype)
    block = jnp.arange(n_units) % n_blocks

    def means_of(cluster):
        return cluster_means(units._replace(cluster=cluster), target.n_clusters)

    def step(now, inputs):
        (cluster, before), (b, uniform) = now, inputs
        candidate = jnp.where(block == b, proposed, cluster)
        after = means_of(candidate)
        accepted = jnp.log(uniform) < log_ratio_of_means(target, before, after, inverse_temperature)
        return jax.tree.map(partial(jnp.where, accepted), (candidate, after), now), accepted

    uniforms = jax.random.uniform(key_accept, (n_blocks,), units.center.dtype)
    start = units.cluster, means_of(units.cluster) if means is None else means
    (cluster, _), accepted = jax.lax.scan(step, start, (jnp.arange(n_blocks), uniforms), reverse=move.backwards)
    return cluster, accepted.mean()
