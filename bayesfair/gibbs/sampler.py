"""One sweep of the sampler as an assembly of kernels, and a compiled chunk of sweeps over all chains.

A sweep is: centres m | B, C (augmentation), swaps | m, C, reallocation, inverse temperature | B, C. Each step leaves
the target invariant (tests build their transition matrices), so the sweep does.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesfair._check import message
from bayesfair.gibbs import blocked, collapsed, loop, swaps
from bayesfair.gibbs.matchings import draw_pairing
from bayesfair.gibbs.target import Allocation, InverseTemperatures, Rows, Target, settled
from bayesfair.gibbs.temperature import Dispersion, draw_inverse_dispersion, from_dispersion, log_prior

__all__ = ["ChainState", "Info", "Schedule", "choose_schedule", "run_chunk", "sweep"]

COLLAPSED_LIMIT = 2_000  # fairlets: above it a sequential sweep costs more than its better mixing is worth
SWAP_ROUND_FAIRLETS = 40_000  # rounds of swaps in a sweep: about this many fairlets are asked, at most MAX_ROUNDS times
MAX_ROUNDS = 16


class Schedule(NamedTuple):
    """What a sweep does; static, so that each combination compiles once."""

    swaps: str = "parallel"  # or "sequential"
    rounds: int = 1
    reallocation: str = "collapsed"  # or "blocked"
    n_blocks: int = 1
    inner_steps: int = 1  # reallocations per sweep: more than one for the cut target
    prior: Dispersion | None = Dispersion()  # None: fixed temperatures


class ChainState(NamedTuple):
    """Where a chain is."""

    allocation: Allocation
    temperatures: InverseTemperatures


class Info(NamedTuple):
    """What a sweep reports; `lp`, the log density, has the terms of lambda's prior where lambda is sampled."""

    lp: Float[Array, ""] | None  # None where the target's density is not known
    fairlet_loss: Float[Array, ""]
    clustering_loss: Float[Array, ""]
    swap_rate: Float[Array, ""]
    reallocation_rate: Float[Array, ""]
    block_acceptance: Float[Array, ""]


def choose_schedule(target: Target, reallocation="auto", swaps="auto", prior=None, inner_steps=10) -> Schedule:
    """The schedule for this target: collapsed kernels where fairlets are few, blocked ones where they are many."""
    if reallocation not in ("auto", "collapsed", "blocked"):
        remedy = "Both are exact; 'auto' takes the one that suits the number of fairlets."
        raise ValueError(message("reallocation", "be 'auto', 'collapsed' or 'blocked'", repr(reallocation), remedy))
    augmented = target.loss.augmentation is not None
    if reallocation == "auto":
        reallocation = "collapsed" if target.n_fairlets <= COLLAPSED_LIMIT or not augmented else "blocked"
    if swaps == "auto":
        swaps = "parallel" if augmented or not target.clustering_moves_fairlets else "sequential"
    rounds = min(max(SWAP_ROUND_FAIRLETS // target.n_fairlets, 1), MAX_ROUNDS) if swaps == "parallel" else 1
    if target.name == "optimal" or not target.swap_slots or target.n_fairlets == 1:
        rounds = 0
    return Schedule(swaps, rounds, reallocation, 1, inner_steps if target.name == "cut" else 1, prior)


def sweep(key, target: Target, state: ChainState, schedule: Schedule) -> tuple[ChainState, Info]:
    """One sweep; pure in the key."""
    key_swap, key_move = jax.random.split(key)
    allocation, temperatures = state
    rows = target.rows(allocation.members)
    key_centers, key_swap = jax.random.split(key_swap)
    centers = draw_centers(key_centers, target, rows, allocation.cluster, temperatures, schedule)
    rows, swap_rate = move_fairlets(key_swap, target, rows, allocation.cluster, temperatures, centers, schedule)

    def step(i, carry):
        cluster, temperatures, _ = carry
        key_cluster, key_temperature = jax.random.split(jax.random.fold_in(key_move, i))
        cluster, acceptance = reallocate(key_cluster, target, rows, cluster, temperatures, centers, schedule)
        losses = target.losses_of(rows, cluster)
        if schedule.prior is not None:
            temperatures = draw_temperatures(key_temperature, target, temperatures, losses, schedule.prior)
        return cluster, temperatures, (*losses, acceptance)

    one = jnp.ones((), rows.x.dtype)
    start = allocation.cluster, temperatures, (one, one, one)
    cluster, temperatures, (fairlet_loss, clustering_loss, acceptance) = jax.lax.fori_loop(
        0, schedule.inner_steps, step, start
    )
    lp = log_density(target, temperatures, (fairlet_loss, clustering_loss), schedule.prior)
    moved = (cluster != allocation.cluster).mean(dtype=rows.x.dtype)
    info = Info(lp, fairlet_loss, clustering_loss, swap_rate, moved, acceptance)
    return ChainState(Allocation(rows.members, cluster), temperatures), info


def draw_temperatures(key, target: Target, temperatures, losses, prior):
    """The conjugate step. Under the cut, lambda_f stays: what clusters say must not reach the decomposition."""
    drawn = from_dispersion(target, draw_inverse_dispersion(key, target, prior, *losses))
    return drawn if target.name != "cut" else drawn._replace(fairlet=temperatures.fairlet)


def log_density(target: Target, temperatures, losses, prior: Dispersion | None):
    """log p(B, C), or log p(B, C, lambda) where lambda has a prior, up to a constant; None for the cut."""
    if not target.has_density:
        return None
    lp = -temperatures.fairlet * losses[0] - temperatures.clustering * losses[1]
    return lp if prior is None else lp + log_prior(target, prior, temperatures)


def draw_centers(key, target: Target, rows: Rows, cluster, temperatures, schedule: Schedule):
    """The augmentation m | B, C, where the swaps of this schedule condition on it, else None."""
    if schedule.swaps != "parallel" or not target.clustering_moves_fairlets:
        return None
    return blocked.draw_centers(key, target, target.units(rows, cluster), temperatures.clustering)


def move_fairlets(key, target: Target, rows: Rows, cluster, temperatures, centers, schedule: Schedule):
    """`rounds` rounds of swaps; (rows, share of possible swaps accepted)."""
    zero = jnp.zeros((), rows.x.dtype)
    if schedule.rounds == 0:
        return rows, zero

    def round_(i, carry):
        members, x, rate = carry
        rows = target.opened(members, x)
        key_pairing, key_accept = jax.random.split(jax.random.fold_in(key, i))
        pairing = settled(draw_pairing(key_pairing, target, rows))
        if schedule.swaps == "sequential":
            rows, share = loop.sweep(key_accept, target, rows, cluster, temperatures, pairing)
        else:
            rows, share = swap_round(key_accept, target, rows, cluster, temperatures, centers, pairing)
        return rows.members, rows.x, rate + share / schedule.rounds

    members, x, rate = jax.lax.fori_loop(0, schedule.rounds, round_, (rows.members, rows.x, zero))
    return target.opened(members, x), rate


def swap_round(key, target: Target, rows: Rows, cluster, temperatures, centers, pairing):
    """One matching's swaps at once; (rows, share of possible swaps accepted)."""
    key_pairs, key_block = jax.random.split(key)
    energy = settled(swaps.energies(target, rows, cluster, temperatures, centers))
    proposal, _ = swaps.propose(target, rows, energy, cluster, temperatures, centers, pairing)
    accepted = settled(swaps.accept(key_pairs, pairing, proposal))
    after = swaps.keep(accepted, proposal.rows, rows)
    uniform = jax.random.uniform(key_block, dtype=rows.x.dtype)
    accepted &= jnp.log(uniform) < log_round_ratio(target, rows, after, cluster, temperatures, centers)
    share = accepted.sum(dtype=rows.x.dtype) / jnp.maximum(proposal.moves.sum(), 1)
    return swaps.keep(accepted, proposal.rows, rows), share


def log_round_ratio(target: Target, rows: Rows, after: Rows, cluster, temperatures, centers):
    """What the pairs' own ratios leave out: the change in the augmentation's normaliser, where there can be one."""
    if centers is None or not (target.free_sizes or target.loss.normalizer_reads_mean):
        return jnp.zeros((), rows.x.dtype)
    before, afterwards = target.units(rows, cluster), target.units(after, cluster)
    return blocked.log_block_ratio(target, before, afterwards, temperatures.clustering)


def reallocate(key, target: Target, rows: Rows, cluster, temperatures, centers, schedule: Schedule):
    """New clusters, and the share of accepted blocks (1 for the collapsed kernel, which refuses nothing).

    Centres that the swaps conditioned on serve the blocked kernel too: (B, C, m) is the state until they are dropped.
    """
    units = settled(target.units(rows, cluster))
    if schedule.reallocation == "collapsed":
        return collapsed.reallocate(key, target, units, temperatures.clustering), jnp.ones((), rows.x.dtype)
    if target.loss.augmentation is None:
        return blocked.reallocate_independently(key, target, units, temperatures.clustering)
    key_centers, key_block = jax.random.split(key)
    if centers is None:
        centers = blocked.draw_centers(key_centers, target, units, temperatures.clustering)
    return blocked.reallocate(key_block, target, units, centers, temperatures.clustering, schedule.n_blocks)


@partial(jax.jit, static_argnames=("schedule", "length"))
def run_chunk(keys, first, n_draws, thinning, target: Target, states: ChainState, schedule: Schedule, length: int):
    """`n_draws` <= `length` draws, `thinning` sweeps each, of all chains at once.

    Sweep t of a chain uses fold_in(key, t), whatever the chunk: a resumed run repeats a longer one bit for bit.
    Returns (states, labels (chains, length, obs), Info of (chains, length)); rows past `n_draws` mean nothing.
    """
    label_type = jnp.int8 if target.n_clusters <= 127 else jnp.int16

    def chain(key, state):
        def draw(i, carry):
            state, labels, temperatures, infos = carry

            def one(j, inner):
                return sweep(jax.random.fold_in(key, first + i * thinning + j), target, inner[0], schedule)

            state, info = jax.lax.fori_loop(0, thinning, one, (state, jax.tree.map(lambda part: part[0], infos)))
            labels = labels.at[i].set(target.labels(state.allocation).astype(label_type))
            temperatures, infos = jax.tree.map(
                lambda all_, new: all_.at[i].set(new), (temperatures, infos), (state.temperatures, info)
            )
            return state, labels, temperatures, infos

        blank = jnp.zeros(length, target.x.dtype)
        labels = jnp.zeros((length, target.n_obs), label_type)
        infos = Info(*[blank] * len(Info._fields))._replace(lp=blank if target.has_density else None)
        start = state, labels, InverseTemperatures(blank, blank), infos
        return jax.lax.fori_loop(0, n_draws, draw, start)

    return jax.vmap(chain)(keys, states)
