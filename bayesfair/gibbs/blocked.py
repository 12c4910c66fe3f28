"""Blocked reallocation: many units change cluster at once, exactly.

Bregman losses are augmented with conjugate centres,

    p(C, B, m) = p(C, B) prod_k exp(-lambda W_k d(ubar_k, m_k)) mu(m_k) / g_k,

which makes the units independent given m but for 1 / prod_k g_k: propose from softmax_k(-lambda w_i d(u_i, m_k)),
accept a block with probability min(1, prod_k g_k / g'_k). For k-means g_k is proportional to W_k^{-d/2}, which gives
(n'_k / n_k)^{d/2} where all weights are one.

Other losses have no such centres. There a block is taken out, every unit in it is proposed from its conditional given
the units that stayed, and the block is accepted with the exact ratio: an independence sampler within the block.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesfair.gibbs.collapsed import conditional, draw_cluster
from bayesfair.gibbs.losses import Units, cluster_means
from bayesfair.gibbs.target import Target

__all__ = ["draw_centers", "log_block_ratio", "proposal_logits", "reallocate", "reallocate_independently"]

BLOCK_SIZE = 16


def draw_centers(key, target: Target, units: Units, inverse_temperature):
    """The augmentation: m_k given the clustering."""
    means = cluster_means(units, target.n_clusters)
    return target.loss.augmentation.draw_centers(key, inverse_temperature, means)


def proposal_logits(target: Target, units: Units, centers, inverse_temperature) -> Float[Array, "units clusters"]:
    """-lambda w_i d(u_i, m_k), up to a constant of the unit's own."""
    return -inverse_temperature * units.weight[:, None] * target.loss.divergences(units.center, centers)


def log_block_ratio(target: Target, old: Units, new: Units, inverse_temperature):
    """log prod_k g_k / g'_k, -inf where `new` leaves a cluster empty: what is left of the ratio after a proposal drawn
    from the softmax, or local in m."""
    before, after = cluster_means(old, target.n_clusters), cluster_means(new, target.n_clusters)
    log_normalizer = target.loss.augmentation.log_normalizer
    change = log_normalizer(inverse_temperature, before) - log_normalizer(inverse_temperature, after)
    return jnp.where((after.count > 0).all(), change.sum(), -jnp.inf)


def reallocate(key, target: Target, units: Units, centers, inverse_temperature, n_blocks: int = 1):
    """Propose all clusters at once, accept block by block (one block: all or nothing); (clusters, accepted share)."""
    key_proposal, key_accept = jax.random.split(key)
    n_units = units.cluster.shape[0]
    uniforms = jax.random.uniform(key_proposal, (n_units,), units.center.dtype)
    logits = proposal_logits(target, units, centers, inverse_temperature)
    proposed = draw_cluster(uniforms, logits).astype(units.cluster.dtype)
    block = jnp.arange(n_units) % n_blocks

    def step(cluster, inputs):
        b, uniform = inputs
        candidate = jnp.where(block == b, proposed, cluster)
        log_ratio = log_block_ratio(
            target, units._replace(cluster=cluster), units._replace(cluster=candidate), inverse_temperature
        )
        accepted = jnp.log(uniform) < log_ratio
        return jnp.where(accepted, candidate, cluster), accepted

    uniforms = jax.random.uniform(key_accept, (n_blocks,), units.center.dtype)
    cluster, accepted = jax.lax.scan(step, units.cluster, (jnp.arange(n_blocks), uniforms))
    return cluster, accepted.mean()


def take_out(target: Target, stats, units: Units, block):
    """Statistics without the units of `block`."""

    def step(stats, i):
        return target.loss.remove(stats, i, units.center[i], units.weight[i], units.cluster[i]), None

    return jax.lax.scan(step, stats, block)[0]


def put_in(target: Target, stats, units: Units, block, cluster):
    """Statistics with the units of `block` in the clusters given, and what that adds to the loss."""

    def step(carry, inputs):
        stats, gain = carry
        i, k = inputs
        unit = i, units.center[i], units.weight[i]
        gain += target.loss.insertion(stats, *unit, target.n_clusters)[k]
        return (target.loss.insert(stats, *unit, k), gain), None

    return jax.lax.scan(step, (stats, jnp.zeros((), units.center.dtype)), (block, cluster))[0]


def independent_logits(target: Target, rest, units: Units, block, inverse_temperature):
    """Log proposal of every unit of the block given the units that stayed, normalised (block, clusters)."""

    def logits(i):
        return conditional(target, rest, i, units.center[i], units.weight[i], inverse_temperature)

    return jax.nn.log_softmax(jax.vmap(logits)(block), axis=-1)


def log_independence_ratio(target: Target, rest, units: Units, block, proposed, logits, inverse_temperature):
    """Log acceptance ratio of moving the block from its clusters to the proposed ones."""
    current = units.cluster[block]
    place = jnp.arange(block.shape[0])
    _, old_gain = put_in(target, rest, units, block, current)
    _, new_gain = put_in(target, rest, units, block, proposed)
    proposal = logits[place, current].sum() - logits[place, proposed].sum()
    occupied = jnp.zeros(target.n_clusters, bool).at[units.cluster.at[block].set(proposed)].set(True).all()
    return jnp.where(occupied, inverse_temperature * (old_gain - new_gain) + proposal, -jnp.inf)


def reallocate_independently(key, target: Target, units: Units, inverse_temperature, block_size: int = BLOCK_SIZE):
    """A sweep of blocks of units for any loss; (clusters, accepted share). The last block wraps around."""
    n_units = units.cluster.shape[0]
    size = min(block_size, n_units)
    n_blocks = -(-n_units // size)

    def step(carry, inputs):
        stats, cluster = carry
        b, uniforms = inputs
        block = (b * size + jnp.arange(size)) % n_units
        now = units._replace(cluster=cluster)
        rest = take_out(target, stats, now, block)
        logits = independent_logits(target, rest, now, block, inverse_temperature)
        proposed = draw_cluster(uniforms[1:], logits).astype(cluster.dtype)
        log_ratio = log_independence_ratio(target, rest, now, block, proposed, logits, inverse_temperature)
        accepted = jnp.log(uniforms[0]) < log_ratio
        chosen = jnp.where(accepted, proposed, cluster[block])
        stats, _ = put_in(target, rest, now, block, chosen)
        return (stats, cluster.at[block].set(chosen)), accepted

    uniforms = jax.random.uniform(key, (n_blocks, size + 1), units.center.dtype)
    start = target.loss.start(units, target.n_clusters), units.cluster
    (_, cluster), accepted = jax.lax.scan(step, start, (jnp.arange(n_blocks), uniforms))
    return cluster, accepted.mean()
