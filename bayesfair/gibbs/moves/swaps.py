"""Swaps of two same-group rows between two fairlets, all pairs of a matching at once.

A pairing is drawn from a law that is the same before and after the swap, so the proposal is symmetric. Given cluster
centres m (the augmentation of `blocked.py`) the log ratio is a sum of one term per fairlet, and pairs decide
independently. The rectangular loop of G. Wang (2020) with the weights of Chakraborty, Bhattacharya and Pati (arXiv
2305.17557) is one such swap at a time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bayesfair._arrays import computed_once
from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasFairlets, HasUnits
from bayesfair.gibbs.moves.matchings import Chances, Pairing, draw_chances, draw_pairing
from bayesfair.gibbs.states import Fairlets


@dataclass(frozen=True)
class Swaps:
    """Rounds of swaps in parallel by `target.swap_energies`, for a target with fairlets (`HasFairlets`); none if 0."""

    rounds: int = 1

    statistics = {"swap_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasUnits, state):
        return in_rounds(swap_round, self.rounds, key, target, state)


def in_rounds(swap, rounds: int, key, target: HasUnits, state):
    """`swap(chances, target, state, pairing)` for `rounds` pairings; (state, share of possible swaps accepted)."""
    zero = jnp.zeros((), target.x.dtype)
    if rounds == 0:
        return state, {"swap_rate": zero}

    def one(carry, chances):
        members, x, rate = carry
        now = state._replace(fairlets=target.opened(members, x))
        pairing = computed_once(draw_pairing(chances, target, now.fairlets))
        fairlets, share = swap(chances, target, now, pairing)
        return (fairlets.members, fairlets.x, rate + share / rounds), None

    start = state.fairlets.members, state.fairlets.x, zero
    (members, x, rate), _ = jax.lax.scan(one, start, computed_once(draw_chances(key, target, rounds)))
    return state._replace(fairlets=target.opened(members, x)), {"swap_rate": rate}


def swap_round(chances: Chances, target: HasFairlets, state, pairing: Pairing):
    """One matching's swaps at once; (fairlets, share of possible swaps accepted)."""
    proposal = propose(target, state, pairing, target.swap_energies)
    accepted = computed_once(accept(chances.pair, pairing, proposal))
    after = state._replace(fairlets=keep(accepted, proposal.fairlets, state.fairlets))
    accepted &= jnp.log(chances.round) < target.log_round_ratio(state, after)
    share = accepted.sum(dtype=target.x.dtype) / jnp.maximum(proposal.moves.sum(), 1)
    return keep(accepted, proposal.fairlets, state.fairlets), share


class Proposal(NamedTuple):
    """Every pair's swap, carried out: the resulting fairlets, and the log acceptance ratio of each pair."""

    fairlets: Fairlets
    log_ratio: Float[Array, " fairlets"]  # the same at both ends of a pair; -inf if a pair cannot swap
    moves: Bool[Array, " fairlets"]  # would the swap change anything?


def propose(target: HasFairlets, state, pairing: Pairing, energies) -> Proposal:
    """Carry out every swap of the pairing; `energies(state)` is minus the log of the law, one term per fairlet."""
    own = jnp.arange(state.fairlets.members.shape[0])
    energy = computed_once(energies(state))
    offered = jnp.take_along_axis(state.fairlets.members, pairing.slot[:, None], 1)[:, 0]
    incoming = offered[pairing.partner]
    swapped = target.replace_slot(state.fairlets, pairing.slot, incoming)
    change = energy - energies(state._replace(fairlets=swapped))
    if target.has_phantoms:
        change = jnp.where(fits(target, swapped), change, -jnp.inf)
    change = computed_once(change)
    # a + b == b + a exactly, so both ends of a pair see the same ratio and decide alike.
    log_ratio = change + change[pairing.partner]
    moves = (pairing.partner != own) & (incoming != offered)
    return Proposal(swapped, jnp.where(moves, log_ratio, 0.0), moves)


def fits(target: HasFairlets, fairlets: Fairlets) -> Bool[Array, " fairlets"]:
    """Does each fairlet hold an allowed number of every group?"""
    slot_group = np.asarray(target.slot_group)
    held = jnp.stack([fairlets.present[:, slot_group == group].sum(1) for group in np.unique(slot_group)], 1)
    return ((held >= fairlets.lower) & (held <= fairlets.upper)).all(1)


def accept(uniform, pairing: Pairing, proposal: Proposal) -> Bool[Array, " fairlets"]:
    """Metropolis: both ends of a pair use the uniform number (fairlets,) of the first end."""
    own = jnp.arange(pairing.partner.shape[0])
    shared = uniform[jnp.minimum(own, pairing.partner)]
    return proposal.moves & (jnp.log(shared) < proposal.log_ratio)


def keep(accepted, proposed, current):
    """The proposed value of every fairlet that accepted, the current value otherwise."""
    return jax.tree.map(
        lambda new, old: jnp.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old), proposed, current
    )
