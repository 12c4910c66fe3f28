"""Blocked reallocation for losses without conjugate centres: an independence sampler within every block."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bayesfair._arrays import computed_once
from bayesfair.gibbs.capabilities import HasUnits
from bayesfair.gibbs.loss import Units, put_back, taken_out
from bayesfair.gibbs.moves.blocked import BlockedReallocation, poor_blocks
from bayesfair.gibbs.moves.collapsed import conditional, draw_cluster, share_moved
from bayesfair.gibbs.states import OpenState


@dataclass(frozen=True)
class IndependentBlocks:
    """Blocks of units in turn: each is proposed given the units outside it, and accepted with the exact ratio."""

    block_size: int = 16

    statistics = BlockedReallocation.statistics

    def __call__(self, key, target: HasUnits, state: OpenState):
        units = computed_once(target.units_of(state))
        cluster, accepted = visit_blocks(key, target, units, state.lambda_c, self.block_size)
        stats = {**share_moved(target, state.cluster, cluster), "block_acceptance": accepted}
        return state._replace(cluster=cluster), stats

    def complaint(self, recent, window):
        return poor_blocks(recent, "", "", window)


def of_block(units: Units, block) -> Units:
    return jax.tree.map(lambda part: part[block], units)


def independent_logits(target: HasUnits, rest, units: Units, block, inverse_temperature):
    """Log proposal of every unit of the block given the units that stayed, normalised (block, clusters)."""

    def logits(i):
        return conditional(target, rest, (i, units.center[i], units.weight[i]), inverse_temperature)

    return jax.nn.log_softmax(jax.vmap(logits)(block), axis=-1)


def log_independence_ratio(target: HasUnits, rest, units: Units, block, proposed, logits, inverse_temperature):
    """Log acceptance ratio of moving the block from its clusters to the proposed ones."""
    own, place = of_block(units, block), jnp.arange(block.shape[0])
    current = own.cluster
    _, old_gain = put_back(target.loss, rest, block, own, target.n_clusters)
    _, new_gain = put_back(target.loss, rest, block, own._replace(cluster=proposed), target.n_clusters)
    proposal = logits[place, current].sum() - logits[place, proposed].sum()
    occupied = jnp.zeros(target.n_clusters, bool).at[units.cluster.at[block].set(proposed)].set(True).all()
    return jnp.where(occupied, inverse_temperature * (old_gain - new_gain) + proposal, -jnp.inf)


def visit_blocks(key, target: HasUnits, units: Units, inverse_temperature, block_size: int):
    """A sweep of blocks of units for any loss; (clusters, accepted share). The last block wraps around."""
    n_units = units.cluster.shape[0]
    size = min(block_size, n_units)
    n_blocks = -(-n_units // size)

    def step(carry, inputs):
        stats, cluster = carry
        b, uniforms = inputs
        block = (b * size + jnp.arange(size)) % n_units
        now = units._replace(cluster=cluster)
        own = of_block(now, block)
        rest = taken_out(target.loss, stats, block, own)
        logits = independent_logits(target, rest, now, block, inverse_temperature)
        proposed = draw_cluster(uniforms[1:], logits).astype(cluster.dtype)
        log_ratio = log_independence_ratio(target, rest, now, block, proposed, logits, inverse_temperature)
        accepted = jnp.log(uniforms[0]) < log_ratio
        chosen = jnp.where(accepted, proposed, own.cluster)
        stats, _ = put_back(target.loss, rest, block, own._replace(cluster=chosen), target.n_clusters)
        return (stats, cluster.at[block].set(chosen)), accepted

    uniforms = jax.random.uniform(key, (n_blocks, size + 1), units.center.dtype)
    start = target.loss.start(units, target.n_clusters), units.cluster
    (_, cluster), accepted = jax.lax.scan(step, start, (jnp.arange(n_blocks), uniforms))
    return cluster, accepted.mean()
