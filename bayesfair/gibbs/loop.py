"""One swap after the other, each with the exact ratio: the rectangular loop on a decomposition, for any loss.

With one fairlet per observation the weighted rectangular loop (DESIGN 2.1, Algorithm 1 of the paper) is a swap of two
same-group observations between two fairlets. Its ratio here is that of the joint target: it carries the change in the
clustering loss, which the weights exp(-lambda_f l_ij) alone leave out. Needed where fairlets are not independent given
the centres (k-dissimilarities, losses of a user's own), and mixes better than parallel swaps where fairlets are few.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bayesfair.gibbs.swaps import Pairing, energies, propose
from bayesfair.gibbs.target import InverseTemperatures, Rows, Target

__all__ = ["log_swap_ratio", "sweep"]


class Pair(NamedTuple):
    """Two fairlets and the slot each offers."""

    fairlets: Int[Array, "2"]
    slots: Int[Array, "2"]


def clustering_gain(target: Target, rest, pair: Pair, units):
    """What putting the two fairlets back, with these centres and weights, adds to the clustering loss."""
    a, b = pair.fairlets
    first = a, units.center[0], units.weight[0]
    second = b, units.center[1], units.weight[1]
    gain = target.loss.insertion(rest, *first, target.n_clusters)[units.cluster[0]]
    rest = target.loss.insert(rest, *first, units.cluster[0])
    return gain + target.loss.insertion(rest, *second, target.n_clusters)[units.cluster[1]]


def log_swap_ratio(target: Target, rest, rows: Rows, cluster, temperatures: InverseTemperatures, pair: Pair):
    """(log ratio, rows after the swap) of one pair; `rest` are the loss's statistics without the two fairlets.

    `rows` holds just the two fairlets. The fairlet part is that of the parallel kernel without centres.
    """
    local = Pairing(jnp.array([1, 0]), pair.slots)
    energy = energies(target, rows, cluster, temperatures, None)
    proposal, _ = propose(target, rows, energy, cluster, temperatures, None, local)
    log_ratio = jnp.where(proposal.moves[0], proposal.log_ratio[0], -jnp.inf)
    if target.clustering_moves_fairlets:
        old = clustering_gain(target, rest, pair, target.units(rows, cluster))
        new = clustering_gain(target, rest, pair, target.units(proposal.rows, cluster))
        log_ratio += temperatures.clustering * (old - new)
    return log_ratio, proposal.rows


def sweep(key, target: Target, rows: Rows, cluster, temperatures: InverseTemperatures, pairing: Pairing):
    """Every pair of the matching in turn; returns the rows and the share of possible swaps that were accepted."""
    n_fairlets = cluster.shape[0]
    own = jnp.arange(n_fairlets)
    n_pairs = n_fairlets // 2
    first = jnp.nonzero(own < pairing.partner, size=n_pairs, fill_value=n_fairlets)[0]
    uniforms = jax.random.uniform(key, (n_pairs,), rows.x.dtype)
    stats = target.loss.start(target.units(rows, cluster), target.n_clusters)

    def step(carry, inputs):
        stats, rows = carry
        a, uniform = inputs
        exists, a = a < n_fairlets, jnp.minimum(a, n_fairlets - 1)
        fairlets = jnp.stack([a, pairing.partner[a]])
        # Where there are fewer pairs than n // 2, a placeholder pair of two different fairlets stays as it is.
        fairlets = jnp.where(exists, fairlets, jnp.array([0, 1]))
        pair = Pair(fairlets, pairing.slot[fairlets])
        two, two_clusters = jax.tree.map(lambda part: part[fairlets], rows), cluster[fairlets]
        rest = _without(target, stats, two, two_clusters, fairlets)
        log_ratio, swapped = log_swap_ratio(target, rest, two, two_clusters, temperatures, pair)
        accepted = exists & (jnp.log(uniform) < log_ratio)
        two = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), swapped, two)
        stats = _with(target, rest, two, two_clusters, fairlets)
        rows = jax.tree.map(lambda all_, part: all_.at[fairlets].set(part), rows, two)
        return (stats, rows), (accepted, exists & (log_ratio > -jnp.inf))

    (_, rows), (accepted, possible) = jax.lax.scan(step, (stats, rows), (first, uniforms))
    return rows, accepted.sum() / jnp.maximum(possible.sum(), 1)


def _without(target, stats, rows, cluster, fairlets):
    units = target.units(rows, cluster)
    for place in (0, 1):
        stats = target.loss.remove(stats, fairlets[place], units.center[place], units.weight[place], cluster[place])
    return stats


def _with(target, stats, rows, cluster, fairlets):
    units = target.units(rows, cluster)
    for place in (0, 1):
        stats = target.loss.insert(stats, fairlets[place], units.center[place], units.weight[place], cluster[place])
    return stats
