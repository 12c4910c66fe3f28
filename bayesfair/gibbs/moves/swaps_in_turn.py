"""One swap after the other, each with the exact ratio, for any loss.

Needed if fairlets are not independent given the centres (k-dissimilarities, your own losses).
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.loss import put_back, taken_out
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
    """Two fairlets and the slot each offers; or many pairs, stacked."""

    fairlets: Int[Array, "*pairs 2"]
    slots: Int[Array, "*pairs 2"]


def log_swap_ratio(target: HasFairlets, rest, state: OpenState, pair: Pair):
    """(log ratio, fairlets after the swap) of the pair in `state`; `rest`: the loss's statistics without the two."""
    temperature = state.lambdas.clustering
    proposal = propose(target, state, Pairing(jnp.array([1, 0]), pair.slots), target.fairlet_energies)
    log_ratio = jnp.where(proposal.moves[0], proposal.log_ratio[0], -jnp.inf)
    if target.clustering_moves_fairlets:
        rejoin = partial(put_back, target.loss, rest, pair.fairlets, n_clusters=target.n_clusters, unroll=True)
        _, old = rejoin(target.units(state.fairlets, state.cluster))
        _, new = rejoin(target.units(proposal.fairlets, state.cluster))
        log_ratio += temperature * (old - new)
    return log_ratio, proposal.fairlets


def swap_pairs(chances: Chances, target: HasFairlets, state: OpenState, pairing: Pairing):
    """`swap_in_turn` of the pairs of a matching."""
    is_first = jnp.arange(len(state.cluster)) < pairing.partner
    first = jnp.nonzero(is_first, size=len(state.cluster) // 2)[0]
    both = jnp.stack([first, pairing.partner[first]], 1)
    takes = lambda t, log: jnp.log(chances.pair[t]) < log  # noqa: E731
    return swap_in_turn(target, state, Pair(both, pairing.slot[both]), is_first.sum(), takes)


def swap_in_turn(target: HasFairlets, state: OpenState, pairs: Pair, number, takes):
    """Swap pair t < `number` if `takes(t, log ratio)`: (the fairlets, the share of possible swaps accepted)."""
    stats = target.loss.start(target.units_of(state), target.n_clusters)

    def step(t, carry):
        stats, fairlets, *counts = carry
        pair, now = jax.tree.map(lambda part: part[t], pairs), state._replace(fairlets=fairlets)
        stats, fairlets, told = swap_pair(target, stats, now, pair, lambda log: takes(t, log))
        return stats, fairlets, *(count + one for count, one in zip(counts, told))

    _, fairlets, accepted, possible = jax.lax.fori_loop(0, number, step, (stats, state.fairlets, 0, 0))
    return fairlets, accepted.astype(target.x.dtype) / jnp.maximum(possible, 1)


def swap_pair(target: HasFairlets, stats, state: OpenState, pair: Pair, takes):
    """Swap one pair if `takes(log ratio)`: (statistics, fairlets, (was it swapped?, was it possible?))."""
    both, loss = pair.fairlets, target.loss
    two = state._replace(fairlets=jax.tree.map(lambda part: part[both], state.fairlets), cluster=state.cluster[both])
    rest = taken_out(loss, stats, both, target.units(two.fairlets, two.cluster), unroll=True)
    log_ratio, swapped = log_swap_ratio(target, rest, two, pair)
    accepted = takes(log_ratio)
    now = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), swapped, two.fairlets)
    stats, _ = put_back(loss, rest, both, target.units(now, two.cluster), target.n_clusters, unroll=True)
    fairlets = jax.tree.map(lambda all_, part: all_.at[both].set(part), state.fairlets, now)
    return stats, fairlets, (accepted, log_ratio > -jnp.inf)
