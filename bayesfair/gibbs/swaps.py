"""Swaps of two same-group observations between two fairlets, all pairs of a matching at once.

A pairing names for every fairlet a partner and the slot it offers. It is drawn without looking at who would gain, from
a law that is the same before and after the swap, so the proposal is symmetric. Given cluster centres m (the
augmentation of `blocked.py`) the log ratio is a sum of one term per fairlet, and the pairs decide independently.

Sources: the rectangular loop of G. Wang (2020) with the weights of Chakraborty, Bhattacharya and Pati
(arXiv 2305.17557) is one such swap at a time.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bayesfair.gibbs.target import InverseTemperatures, Rows, Target, settled

__all__ = ["Pairing", "Proposal", "accept", "propose"]


class Pairing(NamedTuple):
    """A matching of the fairlets (a fairlet without a partner is its own) and the slot each one offers."""

    partner: Int[Array, " fairlets"]
    slot: Int[Array, " fairlets"]


class Proposal(NamedTuple):
    """Every pair's swap, carried out: the rows as they would be, and the log acceptance ratio of each pair."""

    rows: Rows
    log_ratio: Float[Array, " fairlets"]  # the same number at both ends of a pair; -inf where a pair cannot swap
    moves: Bool[Array, " fairlets"]  # would the swap change anything?


def draw_group(key, target: Target) -> Int[Array, ""]:
    """A group to swap, in proportion to the slots it owns."""
    slots = jnp.asarray(target.swap_slots)
    slot_group = jnp.asarray(target.slot_group)
    return slot_group[slots[jax.random.randint(key, (), 0, len(target.swap_slots))]]


def draw_slots(key, target: Target, group) -> Int[Array, " fairlets"]:
    """A slot of `group` for every fairlet, uniform over the ones that it may fill.

    Where capacities are fixed these are its members' in every state, the slots beyond them empty for good: two fairlets
    of different capacities a and b offer with probability 1 / (a b) before a swap and after it. A fairlet that may hold
    none offers its empty slot, which `fits` refuses.
    """
    capacity, start = target.upper[:, group], jnp.argmax(jnp.asarray(target.slot_group) == group)
    offset = jnp.floor(jax.random.uniform(key, capacity.shape) * capacity).astype(jnp.int32)
    return start + jnp.maximum(jnp.minimum(offset, capacity - 1), 0)


def phantom_slots(target: Target, group, rows: Rows, otherwise) -> Int[Array, " fairlets"]:
    """The empty slot of `group` where a fairlet has one, else the slot in `otherwise`; for free sizes only.

    Offering the empty slot to a full partner moves an extra member across. Reversed, the partner has the empty slot and
    this fairlet is the full one: both offer with the same probability, as free capacities are alike in all fairlets and
    leave each at most one slot empty.
    """
    empty = ~rows.present & (jnp.asarray(target.slot_group) == group)
    return jnp.where(empty.any(1), jnp.argmax(empty, 1), otherwise)


def energies(target: Target, rows: Rows, cluster, temperatures: InverseTemperatures, centers):
    """Each fairlet's part of -log p(B, C | m); without `centers`, of -log p(B) = lambda_f L_f alone."""
    energy = temperatures.fairlet * target.fairlet_losses(rows)
    if centers is None:
        return energy
    units = target.units(rows, cluster)
    return energy + temperatures.clustering * units.weight * target.loss.divergence(units.center, centers[cluster])


def propose(target: Target, rows: Rows, energy, cluster, temperatures, centers, pairing: Pairing):
    """Carry out every swap of the pairing; returns the `Proposal` and the energies of its rows."""
    own = jnp.arange(rows.members.shape[0])
    offered = jnp.take_along_axis(rows.members, pairing.slot[:, None], 1)[:, 0]
    incoming = offered[pairing.partner]
    swapped = target.replace_slot(rows, pairing.slot, incoming)
    new_energy = energies(target, swapped, cluster, temperatures, centers)
    change = energy - new_energy
    if target.has_phantoms:
        change = jnp.where(fits(target, swapped, pairing.slot), change, -jnp.inf)
    change = settled(change)
    # a + b == b + a exactly, so both ends of a pair see the same ratio and decide alike.
    log_ratio = change + change[pairing.partner]
    moves = (pairing.partner != own) & (incoming != offered)
    return Proposal(swapped, jnp.where(moves, log_ratio, 0.0), moves), new_energy


def fits(target: Target, rows: Rows, slot) -> Bool[Array, " fairlets"]:
    """Does each fairlet hold as many of the group of its `slot` as it may?"""
    own = jnp.arange(rows.members.shape[0])
    group = jnp.asarray(target.slot_group)[slot]
    held = (rows.present & (jnp.asarray(target.slot_group) == group[:, None])).sum(1)
    return (held >= rows.lower[own, group]) & (held <= rows.upper[own, group])


def accept(key, pairing: Pairing, proposal: Proposal) -> Bool[Array, " fairlets"]:
    """Metropolis: every pair draws one uniform number and both ends compare with it."""
    own = jnp.arange(pairing.partner.shape[0])
    uniform = jax.random.uniform(key, own.shape, proposal.log_ratio.dtype)
    shared = uniform[jnp.minimum(own, pairing.partner)]
    return proposal.moves & (jnp.log(shared) < proposal.log_ratio)


def keep(accepted, proposed, current):
    """The proposed value of every fairlet that accepted, the current one elsewhere."""
    return jax.tree.map(
        lambda new, old: jnp.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old), proposed, current
    )
