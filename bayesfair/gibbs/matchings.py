"""Who might swap with whom: matchings drawn without looking at the state, so that swaps stay symmetric.

Two families. *Random*: the reflection i <-> c - i (mod m) with c uniform pairs any two fairlets with probability 1/m,
and needs neither a sort nor memory. *Near*: a pool of matchings of a k-nearest-neighbour graph, made once: of the
anchors (anchored form, one per fairlet), or of the observations within each group (hub form, where fairlets have no
place of their own). Random matchings travel far, near ones are accepted often.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from bayesfair.gibbs.swaps import Pairing, draw_group, draw_slots, phantom_slots
from bayesfair.gibbs.target import Rows, Target

__all__ = ["draw_pairing", "near_pairing", "neighbour_matchings", "reflection"]

NEIGHBOURS = 8
POOL_ENTRIES = 4_000_000  # int32: 16 MB at most, shared by all chains


def reflection(n: int, shift) -> Int[Array, " n"]:
    """The involution i <-> shift - i (mod n)."""
    return (shift - jnp.arange(n)) % n


NEAR_SHARE = 0.5
EXCHANGE_SHARE = 0.25


def draw_pairing(key, target: Target, rows: Rows) -> Pairing:
    """A pairing from a near matching or a random one; sometimes empty slots are offered first, to move extras."""
    key_kind, key_match, key_group, key_slot = jax.random.split(key, 4)
    near, exchange = jax.random.uniform(key_kind, (2,)) < jnp.array([NEAR_SHARE, EXCHANGE_SHARE])
    matching = target.matchings[jax.random.randint(key_match, (), 0, target.matchings.shape[0])]
    shift = jax.random.randint(key_match, (), 0, target.n_fairlets)
    group = draw_group(key_group, target)
    slot = draw_slots(key_slot, target, group)
    if target.free_sizes:
        slot = jnp.where(exchange, phantom_slots(target, group, rows, slot), slot)
    random = Pairing(reflection(target.n_fairlets, shift), slot)
    if target.anchor is None:
        close = near_pairing(jax.random.uniform(key_slot, matching.shape), target, rows, matching)
    else:
        close = Pairing(matching, slot)
    return jax.tree.map(lambda a, b: jnp.where(near, a, b), close, random)


def near_pairing(priority, target: Target, rows: Rows, mate) -> Pairing:
    """Fairlets paired through matched observations (hub form), each pair of fairlets by its best pair of observations.

    Every matched pair of observations draws one priority; a fairlet offers its member of highest priority, and two
    fairlets meet if each offers the other's mate. A swap exchanges two members that share a priority, so the same
    pairing comes out afterwards: the proposal is symmetric.
    """
    n_obs, own = target.n_obs, jnp.arange(target.n_fairlets)
    everyone = jnp.arange(n_obs)
    shared = jnp.where(mate == everyone, -1.0, priority[jnp.minimum(everyone, mate)])
    shared, mate = jnp.append(shared, -1.0), jnp.append(mate, n_obs)
    offer = shared[rows.members]
    slot = jnp.argmax(offer, 1)
    member = rows.members[own, slot]
    fairlet = jnp.zeros(n_obs + 1, own.dtype).at[rows.members].set(own[:, None])
    partner = fairlet[mate[member]]
    meet = (offer[own, slot] >= 0) & (rows.members[partner, slot[partner]] == mate[member])
    return Pairing(jnp.where(meet, partner, own), slot)


def neighbour_matchings(points, group, rng: np.random.Generator) -> Int[np.ndarray, "pool points"]:
    """A pool of matchings of near neighbours among `points` (n, d), within each value of `group` (n,)."""
    n_points = len(points)
    size = int(np.clip(POOL_ENTRIES // n_points, 4, 64))
    pool = np.tile(np.arange(n_points, dtype=np.int32), (size, 1))
    for value in np.unique(group):
        rows = np.flatnonzero(group == value)
        if len(rows) > 1:
            neighbours = _nearest(points[rows])
            for matching in pool:
                matching[rows] = rows[_random_matching(neighbours, rng)]
    return pool


def _nearest(points) -> Int[np.ndarray, "points neighbours"]:
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(points) - 1)).fit(points)
    return index.kneighbors(return_distance=False)


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
        suitor[choice[proposer]] = proposer  # of several, the last one written is taken
        chosen = np.flatnonzero(suitor >= 0)
        mate[chosen], mate[suitor[chosen]] = suitor[chosen], chosen
        free[chosen] = free[suitor[chosen]] = False
    return mate
