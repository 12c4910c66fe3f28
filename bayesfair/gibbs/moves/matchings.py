"""Pairings for swaps: matchings drawn without looking at the state, so that swaps stay symmetric.

*Random* ones travel far: the reflection i <-> c - i (mod m) with c uniform pairs any two fairlets with probability 1/m.
*Near* ones are accepted often: a pool of matchings of a k-nearest-neighbour graph, of the anchors (anchored form), or
of the rows within each group (hub form, as fairlets have no place of their own).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.states import Fairlets

NEIGHBOURS = 8
NEAR_SHARE, EXCHANGE_SHARE = 0.5, 0.25  # shares of the pairings
POOL_ENTRIES = 4_000_000  # int32: 16 MB at most, shared by all chains


class Chances(NamedTuple):
    """Uniform numbers in [0, 1) for one round of swaps: to draw its pairing and to decide."""

    near: Float[Array, ""]
    exchange: Float[Array, ""]
    matching: Float[Array, ""]
    shift: Float[Array, ""]
    group: Float[Array, ""]
    round: Float[Array, ""]
    slot: Float[Array, " fairlets"]
    pair: Float[Array, " fairlets"]
    priority: Float[Array, " priorities"]  # for the hub form; empty in the anchored one


def draw_chances(key, target: HasFairlets, rounds: int):
    """Chances for `rounds` rounds, stacked."""
    n_fairlets, scalars = target.n_fairlets, len(Chances._fields) - 3
    n_points = target.matchings.shape[1] if target.anchor is None else 0
    # One call of the generator: each takes a quarter of a second to compile.
    drawn = jax.random.uniform(key, (rounds, scalars + 2 * n_fairlets + n_points), target.x.dtype)
    few, slot, pair, priority = jnp.split(drawn, np.cumsum([scalars, n_fairlets, n_fairlets]), axis=1)
    return Chances(*few.T, slot, pair, priority)


def scaled(uniform, n: int) -> Int[Array, "..."]:
    """One of n integers from a uniform number."""
    return jnp.minimum((uniform * n).astype(jnp.int32), n - 1)


class Pairing(NamedTuple):
    """A matching of the fairlets (a fairlet without a partner is its own) and the slot that each one offers."""

    partner: Int[Array, " fairlets"]
    slot: Int[Array, " fairlets"]


def reflection(n: int, shift) -> Int[Array, " n"]:
    """The involution i <-> shift - i (mod n)."""
    return (shift - jnp.arange(n)) % n


def draw_pairing(chances: Chances, target: HasFairlets, fairlets: Fairlets) -> Pairing:
    """A near or a random pairing; sometimes empty slots are offered first, to move extra members."""
    matching = target.matchings[scaled(chances.matching, target.matchings.shape[0])]
    group = draw_group(chances.group, target)
    slot = draw_slots(chances.slot, target, group)
    if target.free_sizes:
        exchange = chances.exchange < EXCHANGE_SHARE
        slot = jnp.where(exchange, phantom_slots(target, group, fairlets, slot), slot)
    random = Pairing(reflection(target.n_fairlets, scaled(chances.shift, target.n_fairlets)), slot)
    is_hub = target.anchor is None
    close = near_pairing(chances.priority, target, fairlets, matching) if is_hub else Pairing(matching, slot)
    return jax.tree.map(lambda a, b: jnp.where(chances.near < NEAR_SHARE, a, b), close, random)


def draw_group(uniform, target: HasFairlets) -> Int[Array, "..."]:
    """The group whose members are to move, drawn in proportion to its slots."""
    owners = jnp.asarray([target.slot_group[slot] for slot in target.swap_slots])
    return owners[scaled(uniform, len(owners))]


def draw_slots(uniform: Float[Array, " fairlets"], target: HasFairlets, group) -> Int[Array, " fairlets"]:
    """A slot of `group` for every fairlet, uniform over the slots that it may fill.

    So two fairlets of capacities a and b offer with probability 1 / (a b) before and after a swap. A fairlet that may
    hold none offers its empty slot, which `fits` refuses.
    """
    capacity, start = target.upper[:, group], jnp.argmax(jnp.asarray(target.slot_group) == group)
    offset = jnp.floor(uniform * capacity).astype(jnp.int32)
    return start + jnp.maximum(jnp.minimum(offset, capacity - 1), 0)


def phantom_slots(target: HasFairlets, group, fairlets: Fairlets, otherwise) -> Int[Array, " fairlets"]:
    """The fairlet's empty slot of `group`, or else the slot in `otherwise`; for free sizes only.

    A full partner's member moves here. Symmetric, as free capacities leave each fairlet at most one empty slot.
    """
    empty = ~fairlets.present & (jnp.asarray(target.slot_group) == group)
    return jnp.where(empty.any(1), jnp.argmax(empty, 1), otherwise)


def near_pairing(priority, target: HasFairlets, fairlets: Fairlets, mate) -> Pairing:
    """Fairlets paired through matched rows (hub form): two meet if each offers the other's mate.

    A fairlet offers its member of highest priority. Mates share theirs, so a swap does not change the pairing.
    """
    members = fairlets.members
    n_obs, own = target.n_obs, jnp.arange(target.n_fairlets)
    everyone = jnp.arange(n_obs)
    shared = jnp.where(mate == everyone, -1.0, priority[jnp.minimum(everyone, mate)])
    shared, mate = jnp.append(shared, -1.0), jnp.append(mate, n_obs)
    offer = shared[members]
    slot = jnp.argmax(offer, 1)
    member = members[own, slot]
    fairlet = jnp.zeros(n_obs + 1, own.dtype).at[members].set(own[:, None])
    partner = fairlet[mate[member]]
    meet = (offer[own, slot] >= 0) & (members[partner, slot[partner]] == mate[member])
    return Pairing(jnp.where(meet, partner, own), slot)


def neighbour_matchings(points, group, rng: np.random.Generator) -> Int[np.ndarray, "pool points"]:
    """A pool of matchings of near neighbours among `points` (n, d), within each value of `group` (n,)."""
    from sklearn.neighbors import NearestNeighbors

    n_points = len(points)
    size = int(np.clip(POOL_ENTRIES // n_points, 4, 64))
    pool = np.tile(np.arange(n_points, dtype=np.int32), (size, 1))
    for value in np.unique(group):
        rows = np.flatnonzero(group == value)
        if len(rows) > 1:
            index = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(rows) - 1)).fit(points[rows])
            neighbours = index.kneighbors(return_distance=False)
            for matching in pool:
                matching[rows] = rows[_random_matching(neighbours, rng)]
    return pool


def _random_matching(neighbours, rng, rounds=8) -> Int[np.ndarray, " points"]:
    """A random matching of the graph: each round, half of the free points propose to a neighbour in the other half."""
    n_points, degree = neighbours.shape
    mate, everyone = np.arange(n_points), np.arange(n_points)
    free = np.ones(n_points, dtype=bool)
    for _ in range(rounds):
        proposes = rng.random(n_points) < 0.5
        choice = neighbours[everyone, rng.integers(degree, size=n_points)]
        proposer = np.flatnonzero(proposes & free & free[choice] & ~proposes[choice])
        suitor = np.full(n_points, -1)
        suitor[choice[proposer]] = proposer  # with several suitors, the last one written wins
        chosen = np.flatnonzero(suitor >= 0)
        mate[chosen], mate[suitor[chosen]] = suitor[chosen], chosen
        free[chosen] = free[suitor[chosen]] = False
    return mate
