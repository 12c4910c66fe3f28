"""Swaps of people whose rows are in different shards, given centres m, inside `InPairs`.

Without them every shard would keep its own counts but for single moves: with exact balance these are few. Shards meet in
twos, i and c - i, c drawn without looking at the state; of every segment each shows some places, evenly spaced in the order
of margins, so that those who meet have nearly the same to gain: rows are dealt at random, and the orders are alike.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from bayesfair._draws import Statistic
from bayesfair.gibbs.labellings import PairedLabelling
from bayesfair.gibbs.moves.pairs_of_clusters import log_round_ratio
from bayesfair.gibbs.shards import AXIS, common, of_all, own, total
from bayesfair.gibbs.target import Target

__all__ = ["Meeting", "SwapsAcrossShards", "places_shown", "swap_of_two_shards"]


class Meeting(NamedTuple):
    """Who meets: shards i and `cycle` - i, slot t of the lower one and slot t + `turn` of the upper one."""

    cycle: Int[Array, ""]
    turn: Int[Array, ""]


@dataclass(frozen=True)
class SwapsAcrossShards:
    """Of every pair of clusters and group, `slots` people of a shard meet as many of another; two on different sides exchange
    clusters by their exact ratio."""

    slots: int = 64

    statistics = {"across_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: Target, state: PairedLabelling):
        n_segments = len(state.first) - 1
        drawn = jax.random.uniform(key, (3 + len(state.pairs),), target.x.dtype)
        uniforms = jax.random.uniform(own(key), (n_segments, 1 + self.slots), target.x.dtype)
        cycle = (drawn[0] * jax.lax.axis_size(AXIS)).astype(jnp.int32)
        turn = jnp.where(drawn[1] < 0.5, 0, (drawn[2] * self.slots).astype(jnp.int32))
        place, there = places_shown(state, uniforms[:, 0], self.slots)
        log_ratio, index = swap_of_two_shards(state, Meeting(cycle, turn), place, there)
        swap = decided_by_lower(jnp.log(uniforms[:, 1:]) < log_ratio, cycle, index)
        if target.loss.normalizer_reads_mean:
            after = state.side.at[jnp.where(swap, place, target.n_obs)].set(~state.side[place])
            kept = common(jnp.log(drawn[3:]) < log_round_ratio(target, state, after))
            swap &= jnp.repeat(kept, target.n_groups)[:, None]
        side = state.side.at[jnp.where(swap, place, target.n_obs)].set(~state.side[place])  # beyond the end: nobody
        swapped, able = total((swap.sum(dtype=target.x.dtype), (log_ratio > -jnp.inf).sum(dtype=target.x.dtype)))
        return state._replace(side=side), {"across_rate": swapped / jnp.maximum(able, 1)}


def places_shown(state: PairedLabelling, uniform, slots):
    """(places (segments, slots), which of them there are): every one of a short segment, else evenly spaced from a place that
    `uniform` (segments,) says. Never one twice."""
    first, size, slot = state.first[:-1, None], jnp.diff(state.first)[:, None], jnp.arange(slots)
    start = jnp.minimum((uniform[:, None] * size).astype(jnp.int32), size - 1)
    place = first + jnp.where(size > slots, (slot * size + start) // slots, slot)
    there = slot < size
    return jnp.where(there, place, 0), there


def swap_of_two_shards(state: PairedLabelling, meeting: Meeting, place, there):
    """(log ratio (segments, slots) of the swap of this shard's person in every slot with whom they meet, -inf where there is
    none; the slot (slots,) of the other shard that each meets).

    Who is in a pays 0 and who is in b the margin: what changes is the margin that leaves b less the one that joins.
    """
    side = state.side[place]
    gain = jnp.where(side, state.margin[place], -state.margin[place])
    shown = of_all(jnp.stack([gain, side.astype(gain.dtype), there.astype(gain.dtype)]))
    partner, lower = _partner(meeting.cycle)
    slots = place.shape[1]
    index = (jnp.arange(slots) + jnp.where(lower, meeting.turn, -meeting.turn)) % slots
    their_gain, their_side, they_are = shown[partner][:, :, index]
    able = there & (they_are > 0) & (side != (their_side > 0)) & (partner != jax.lax.axis_index(AXIS))
    return jnp.where(able, gain + their_gain, -jnp.inf), index


def _partner(cycle):
    here = jax.lax.axis_index(AXIS)
    partner = (cycle - here) % jax.lax.axis_size(AXIS)
    return partner, here < partner


def decided_by_lower(swap, cycle, index):
    """What the lower of two shards has decided, in both, to the last bit."""
    partner, lower = _partner(cycle)
    return jnp.where(lower, swap, of_all(swap)[partner][:, index])
