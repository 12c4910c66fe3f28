"""One swap after the other, each with the exact ratio: the rectangular loop on a decomposition, for any loss.

With one fairlet per row, the weighted rectangular loop (DESIGN 2.1, Algorithm 1 of the paper) is a swap of two
same-group rows between two fairlets. Its ratio here is that of the joint target: it includes the change in the
clustering loss, which the weights exp(-lambda_f l_ij) alone omit. It is needed if fairlets are not independent given
the centres (k-dissimilarities, your own losses), and mixes better than parallel swaps with few fairlets.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.moves.matchings import Chances, Pairing
from bayesfair.gibbs.moves.swaps import Swaps, in_rounds, propose
from bayesfair.gibbs.states import OpenState


@dataclass(frozen=True)
class SwapsInTurn:
    """Visits the pairs of a matching in turn, each by the exact ratio of `log_swap_ratio`."""

    statistics = Swaps.statistics

    def __call__(self, key, target: HasFairlets, state: OpenState):
        return in_rounds(swap_pairs, 1, key, target, state)


class Pair(NamedTuple):
    """Two fairlets and the slot each offers."""

    fairlets: Int[Array, "2"]
    slots: Int[Array, "2"]


def clustering_gain(target: HasFairlets, rest, pair: Pair, units):
    """Increase of the clustering loss when the two fairlets return with these centres and weights."""
    a, b = pair.fairlets
    first = a, units.center[0], units.weight[0]
    second = b, units.center[1], units.weight[1]
    gain = target.loss.insertion(rest, *first, target.n_clusters)[units.cluster[0]]
    rest = target.loss.insert(rest, *first, units.cluster[0])
    return gain + target.loss.insertion(rest, *second, target.n_clusters)[units.cluster[1]]


def log_swap_ratio(target: HasFairlets, rest, state: OpenState, pair: Pair):
    """(log ratio, fairlets after the swap) of one pair; `rest` are the loss's statistics without the two fairlets.

    `state` holds just the two fairlets.
    """
    temperature = state.lambdas.clustering
    proposal = propose(target, state, Pairing(jnp.array([1, 0]), pair.slots), target.fairlet_energies)
    log_ratio = jnp.where(proposal.moves[0], proposal.log_ratio[0], -jnp.inf)
    if target.clustering_moves_fairlets:
        old = clustering_gain(target, rest, pair, target.units(state.fairlets, state.cluster))
        new = clustering_gain(target, rest, pair, target.units(proposal.fairlets, state.cluster))
        log_ratio += temperature * (old - new)
    return log_ratio, proposal.fairlets


def swap_pairs(chances: Chances, target: HasFairlets, state: OpenState, pairing: Pairing):
    """The fairlets after visiting every pair of the matching in turn, and the share of possible swaps accepted."""
    n_fairlets = state.cluster.shape[0]
    own = jnp.arange(n_fairlets)
    n_pairs = n_fairlets // 2
    first = jnp.nonzero(own < pairing.partner, size=n_pairs, fill_value=n_fairlets)[0]
    stats = target.loss.start(target.units(state.fairlets, state.cluster), target.n_clusters)

    def step(carry, inputs):
        stats, fairlets = carry
        a, uniform = inputs
        exists, a = a < n_fairlets, jnp.minimum(a, n_fairlets - 1)
        both = jnp.stack([a, pairing.partner[a]])
        # With fewer pairs than n // 2, a placeholder pair of two different fairlets stays unchanged.
        both = jnp.where(exists, both, jnp.array([0, 1]))
        now = state._replace(fairlets=fairlets)
        pair = Pair(both, pairing.slot[both])
        stats, fairlets, told = swap_pair(target, stats, now, pair, lambda log: exists & (jnp.log(uniform) < log))
        return (stats, fairlets), (told[0], exists & told[1])

    (_, fairlets), (accepted, possible) = jax.lax.scan(step, (stats, state.fairlets), (first, chances.pair[:n_pairs]))
    return fairlets, accepted.sum(dtype=target.x.dtype) / jnp.maximum(possible.sum(), 1)


def swap_pair(target: HasFairlets, stats, state: OpenState, pair: Pair, takes):
    """Swap one pair if `takes(log ratio)`: (statistics, fairlets, (was it swapped?, was it possible?))."""
    both = pair.fairlets
    two = state._replace(fairlets=jax.tree.map(lambda part: part[both], state.fairlets), cluster=state.cluster[both])
    rest = moved(target.loss.remove, target, stats, two, both)
    log_ratio, swapped = log_swap_ratio(target, rest, two, pair)
    accepted = takes(log_ratio)
    now = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), swapped, two.fairlets)
    stats = moved(target.loss.insert, target, rest, two._replace(fairlets=now), both)
    fairlets = jax.tree.map(lambda all_, part: all_.at[both].set(part), state.fairlets, now)
    return stats, fairlets, (accepted, log_ratio > -jnp.inf)


def moved(move, target: HasFairlets, stats, two: OpenState, both):
    """The loss's statistics after two fairlets were moved out or in, by the loss's own `move`."""
    units = target.units(two.fairlets, two.cluster)
    for place in (0, 1):
        stats = move(stats, both[place], units.center[place], units.weight[place], units.cluster[place])
    return stats
