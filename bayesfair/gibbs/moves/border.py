"""Visits to rows on the border between two clusters: only the few rows that might change cluster are tried.

Given centres m, the responsibilities p_ik of clusters for rows (every group with the same shares of every cluster) do
not depend on the state. Visits are drawn from them: a pair of clusters k and l by their overlap, rows by
(p_ik p_il)^HEAT. Each is decided by the exact ratio given m, and is one of

* a *trade*: two rows of a group, of different fairlets, exchange places; anchors take everything with them;
* a *flip*: a fairlet of cluster k or l moves to the other one. A border row b of its old cluster first replaces one of
  its members v. The fairlet moves. Then a row c of its new cluster, drawn with probability proportional to p_c,
  replaces b. The reverse move brings the same b and takes v: the ratio of the proposals is that of the laws of v and c.
  Without b and c almost no fairlet would move, as all of its members would have to be at the border at once;
* an *extra*: a row moves to an empty place of a random fairlet.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesfair._arrays import computed_once
from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.loss import ClusterMeans, cluster_means
from bayesfair.gibbs.moves.blocked import log_ratio_of_means
from bayesfair.gibbs.moves.matchings import draw_group, scaled
from bayesfair.gibbs.moves.swaps import fits
from bayesfair.gibbs.states import OpenState

SHARING_STEPS = 4  # iterations towards equal shares of all groups
PAIRS = 4  # pairs of clusters per sweep
UNIFORMS = 5  # uniform numbers per visit: four to choose, one to decide
HEAT = 0.75


class Seats(NamedTuple):
    """The part of the state that visits change: rows in slots, clusters of the fairlets, and means of the clusters."""

    members: Int[Array, "fairlets slots"]
    cluster: Int[Array, " fairlets"]
    place: Int[Array, " obs_and_phantom"]  # fairlet times slots plus slot
    means: ClusterMeans


class Guide(NamedTuple):
    """Laws of the rows to visit, from the data and the centres alone; of `border` and `near`, running sums over rows."""

    ends: Int[Array, "pairs 2"]  # pairs of clusters
    border: Float[Array, "pairs groups obs"]  # (p_ik p_il)^HEAT
    near: Float[Array, "clusters groups obs"]  # p_ik
    log_law: Float[Array, "clusters obs_and_phantom"]  # log of p_ik over its sum in the group of i


class Candidate(NamedTuple):
    """A few fairlets as a visit would leave them; a repeated fairlet counts once."""

    fairlets: Int[Array, " touched"]
    first: Bool[Array, " touched"]
    members: Int[Array, "touched slots"]
    cluster: Int[Array, " touched"]
    log_proposal: Float[Array, ""]  # log law of the reverse proposal, less that of the proposal
    possible: Bool[Array, ""]


@dataclass(frozen=True)
class BorderVisits:
    """About equally many flips, trades and extras in a sweep, inside `GivenCenters`."""

    flips: int = 64
    trades: int = 128
    extras: int = 64

    statistics = {"border_rate": Statistic("figure")}  # noqa: RUF012

    @classmethod
    def of(cls, n_obs: int):
        """The move for a table of `n_obs` rows, with at most as many visits of a kind as rows."""
        return cls(min(cls.flips, n_obs), min(cls.trades, n_obs), min(cls.extras, n_obs))

    def __call__(self, key, target: HasFairlets, state: OpenState):
        kinds = [(flip, flips, self.flips), (trade, trades, self.trades)]
        if target.free_sizes:
            kinds.append((extra, extras, self.extras))
        each = [-(-number // PAIRS) for _, _, number in kinds]
        # One call of the generator: each call takes a quarter of a second to compile.
        drawn = jax.random.uniform(jax.random.fold_in(key, 0), (PAIRS, 1 + UNIFORMS * sum(each)), target.x.dtype)
        seats = seats_of(target, state)
        guide = guide_of(drawn[:, 0], target, state, seats)
        accepted, made, uniforms = jnp.zeros((), jnp.int32), 0, drawn[:, 1:].reshape(PAIRS, UNIFORMS, -1).swapaxes(0, 1)
        for (kind, choose, _), own in zip(kinds, jnp.split(uniforms, np.cumsum(each)[:-1], axis=2)):
            choices = choose(jax.random.fold_in(key, 1), own[:-1], target, guide)
            log_uniforms = jnp.log(own[-1]).ravel()

            def visit(seats, inputs, kind=kind):
                choice, log_uniform = inputs
                return decided(target, state, seats, kind(target, seats, guide, choice), log_uniform)

            seats, taken = jax.lax.scan(visit, seats, computed_once((choices, log_uniforms)))
            accepted, made = accepted + taken.sum(dtype=jnp.int32), made + len(log_uniforms)
        after = state._replace(fairlets=target.opened(seats.members, target.x[seats.members]), cluster=seats.cluster)
        return after, {"border_rate": accepted.astype(target.x.dtype) / made}


def seats_of(target: HasFairlets, state: OpenState) -> Seats:
    """Seats of all rows."""
    members = state.fairlets.members
    places = jnp.arange(members.size, dtype=jnp.int32).reshape(members.shape)
    place = jnp.zeros(target.n_obs + 1, jnp.int32).at[members].set(places)
    return Seats(members, state.cluster, place, cluster_means(target.units_of(state), target.n_clusters))


# Choose rows to visit


def guide_of(uniforms, target: HasFairlets, state: OpenState, seats: Seats) -> Guide:
    """The guide to a sweep's visits."""
    group = group_of(target, seats, slice(-1))
    in_group = jnp.arange(target.lower.shape[1])[:, None] == group
    log_p = responsibilities(target, state, in_group)
    root = jnp.exp(0.5 * log_p)
    pairs = np.stack(np.triu_indices(target.n_clusters, 1), 1)
    overlap = jnp.cumsum((root @ root.T)[tuple(pairs.T)])
    drawn = jnp.searchsorted(overlap, (1 - uniforms) * overlap[-1])
    ends = jnp.asarray(pairs, jnp.int32)[jnp.minimum(drawn, len(pairs) - 1)]
    border = jnp.cumsum(root[ends].prod(1)[:, None] ** (2 * HEAT) * in_group, 2)
    near = jnp.cumsum(jnp.square(root)[:, None] * in_group, 2)
    log_law = jnp.pad(log_p - jnp.log(near[:, group, -1]), ((0, 0), (0, 1)))
    return Guide(ends, border, near, log_law)


def responsibilities(target: HasFairlets, state: OpenState, in_group) -> Float[Array, "clusters obs"]:
    """log p_ik: softmax of -lambda d(x_i, m_k) + alpha_gk, with alpha such that all groups have nearly the same shares."""
    pull = -target.dispersion_of(state.lambdas) * target.loss.divergences(target.x[:-1], state.centers).T
    member = in_group.astype(pull.dtype)
    size, tiny = member.sum(1), jnp.finfo(pull.dtype).eps

    def shared(_, alpha):
        share = jax.nn.softmax(pull + alpha @ member, 0) @ member.T / size
        together = (share * size).sum(1, keepdims=True) / size.sum()
        return alpha + jnp.log(together + tiny) - jnp.log(share + tiny)

    alpha = jax.lax.fori_loop(0, SHARING_STEPS, shared, jnp.zeros((len(pull), len(size)), pull.dtype))
    return jax.nn.log_softmax(pull + alpha @ member, 0)


def people(uniforms, running) -> Int[Array, "pairs groups visits"]:
    """A row of every group for each of the `uniforms` (pairs, visits), by weights with these `running` sums.

    Thresholds are above zero and at most the total: no row of weight zero is drawn unless all weights are zero.
    """
    level = (1 - uniforms)[:, None] * running[..., -1:]
    found = jax.vmap(jax.vmap(jnp.searchsorted))(running, level)
    return jnp.minimum(found, running.shape[2] - 1).astype(jnp.int32)


def of_groups(people, group):
    """The entries of `people` for one group each (pairs, visits)."""
    return jnp.take_along_axis(people, group[:, None], 1)[:, 0]


def in_a_row(*arrays) -> tuple:
    """Arrays (pairs, visits, ...) with all visits along one axis."""
    return tuple(each.reshape(-1, *each.shape[2:]) for each in arrays)


def flips(key, uniforms, target: HasFairlets, guide: Guide):
    """Choices for `flip`: a, b of every group, c of every group and either end, the ends, and the slot."""
    one, two, three, which = uniforms
    keeper = 0 if target.anchor is None else target.anchor
    a, b = jnp.split(people(jnp.concatenate([one, two], 1), guide.border), 2, axis=2)
    near = guide.near[guide.ends]  # (pairs, 2, groups, obs)
    c = people(three, near.reshape(len(near), -1, near.shape[-1])).reshape(*near.shape[:3], -1)
    ends = jnp.broadcast_to(guide.ends[:, None], (*which.shape, 2))
    return in_a_row(a[:, keeper], jnp.moveaxis(b, 1, 2), jnp.moveaxis(c, 3, 1), ends, which)


def trades(key, uniforms, target: HasFairlets, guide: Guide):
    """Choices for `trade`: two rows of a group."""
    one, two, which, _ = uniforms
    group = scaled(which, target.lower.shape[1])
    found = jnp.split(people(jnp.concatenate([one, two], 1), guide.border), 2, axis=2)
    return in_a_row(*(of_groups(each, group) for each in found))


def extras(key, uniforms, target: HasFairlets, guide: Guide):
    """Choices for `extra`: a row of a group that can move between fairlets, and a fairlet, each equally likely."""
    one, which, *_ = uniforms
    b = of_groups(people(one, guide.border), draw_group(which, target))
    return in_a_row(b, jax.random.randint(key, b.shape, 0, target.n_fairlets))


# Carry out a visit


def touched(seats: Seats, *fairlets):
    """(the fairlets, whether each is named for the first time, their members; -1 for a repeated one)."""
    fairlets = jnp.stack(fairlets)
    first = jnp.argmax(fairlets[:, None] == fairlets, 1) == jnp.arange(len(fairlets))
    return fairlets, first, jnp.where(first[:, None], seats.members[fairlets], -1)


def group_of(target: HasFairlets, seats: Seats, who):
    """The groups of rows, from the slots that they fill."""
    return jnp.asarray(target.slot_group)[seats.place[who] % len(target.slot_group)]


def seat(members, who):
    """Position of a row among the members of a few fairlets."""
    return jnp.argmax(members.ravel() == who)


def exchanged(members, one, other):
    """The members after two positions exchanged theirs."""
    flat, here = members.ravel(), jnp.arange(members.size)
    return jnp.where(here == one, flat[other], jnp.where(here == other, flat[one], flat)).reshape(members.shape)


def trade(target: HasFairlets, seats: Seats, guide: Guide, choice) -> Candidate:
    """Rows a and b of one group exchange places; the reverse proposal is equally likely.

    A fairlet keeps its anchor: two anchors stay, and their fairlets exchange all other members and clusters instead.
    """
    (a, b), n_slots = choice, len(target.slot_group)
    fairlets, first, members = touched(seats, seats.place[a] // n_slots, seats.place[b] // n_slots)
    cluster = seats.cluster[fairlets]
    possible = (cluster[0] != cluster[1]) & (group_of(target, seats, a) == group_of(target, seats, b))
    members = exchanged(members, seat(members, a), seat(members, b))
    if target.anchor is not None:
        anchors = seats.place[a] % n_slots == target.slot_group.index(target.anchor)
        members, cluster = (jnp.where(anchors, part[::-1], part) for part in (members, cluster))
    return Candidate(fairlets, first, members, cluster, jnp.zeros((), target.x.dtype), possible)


def flip(target: HasFairlets, seats: Seats, guide: Guide, choice) -> Candidate:
    """The fairlet of a moves to the other end with b (groups,) aboard, and trades b for c (2, groups).

    `which` in [0, 1) selects v among the other members of a's fairlet. The reverse move is given by a, b and v.
    """
    (a, b, c, ends, which), n_slots = choice, len(target.slot_group)
    fairlet, own = seats.place[a] // n_slots, seats.place[a] % n_slots
    old = seats.cluster[fairlet]
    end = (old == ends[0]).astype(jnp.int32)  # its destination
    new = ends[end]
    others = (seats.members[fairlet] < target.n_obs) & (jnp.arange(n_slots) != own)
    if target.anchor is not None:
        others &= own == target.slot_group.index(target.anchor)
    slot = jnp.searchsorted(jnp.cumsum(others), (which * others.sum()).astype(jnp.int32), side="right")
    slot = jnp.minimum(slot, n_slots - 1)
    group = jnp.asarray(target.slot_group)[slot]
    v, b, c = seats.members[fairlet, slot], b[group], c[end, group]
    fairlets, first, members = touched(seats, fairlet, seats.place[b] // n_slots, seats.place[c] // n_slots)
    members = exchanged(members, slot, seat(members, b))
    cluster = jnp.where(fairlets == fairlet, new, seats.cluster[fairlets])
    destination = seat(members, c)
    possible = (old == ends).any() & others.any() & (seats.cluster[fairlets[1]] == old) & (b != a)
    possible &= (cluster[destination // n_slots] == new) & (c != a)
    possible &= (group_of(target, seats, b) == group) & (group_of(target, seats, c) == group)
    members = exchanged(members, slot, destination)
    log_proposal = guide.log_law[old, v] - guide.log_law[new, c]
    return Candidate(fairlets, first, members, cluster, log_proposal, possible)


def extra(target: HasFairlets, seats: Seats, guide: Guide, choice) -> Candidate:
    """b moves to an empty place of the fairlet; the reverse move is given by b and its old fairlet."""
    (b, fairlet), n_slots = choice, len(target.slot_group)
    fairlets, first, members = touched(seats, fairlet, seats.place[b] // n_slots)
    empty = (members[0] >= target.n_obs) & (jnp.asarray(target.slot_group) == group_of(target, seats, b))
    members = exchanged(members, jnp.argmax(empty), seat(members, b))
    possible = empty.any() & (fairlets[0] != fairlets[1])
    return Candidate(fairlets, first, members, seats.cluster[fairlets], jnp.zeros((), target.x.dtype), possible)


# Accept or refuse


def log_ratio(target: HasFairlets, state: OpenState, seats: Seats, candidate: Candidate):
    """(log acceptance ratio given the centres, -inf if impossible; the means of the clusters afterwards)."""
    size, here = len(candidate.fairlets), candidate.fairlets
    members = jnp.concatenate([seats.members[here], jnp.maximum(candidate.members, 0)])  # before, then after
    cluster = jnp.concatenate([seats.cluster[here], candidate.cluster])
    lower, upper = (jnp.concatenate([part[here]] * 2) for part in (target.lower, target.upper))
    fairlets = target.opened(members, target.x[members])._replace(lower=lower, upper=upper)
    both = state._replace(fairlets=fairlets, cluster=cluster)
    energy = target.swap_energies(both)
    change = jnp.where(candidate.first, energy[:size] - energy[size:], 0.0).sum()
    difference = _means(target, both, jnp.concatenate([-1 * candidate.first, candidate.first]))
    means = jax.tree.map(jnp.add, seats.means, difference)
    change += log_ratio_of_means(target, seats.means, means, state.lambda_c)
    possible = candidate.possible
    if target.has_phantoms:
        possible &= (fits(target, fairlets) | ~jnp.tile(candidate.first, 2)).all()
    return jnp.where(possible, change + candidate.log_proposal, -jnp.inf), means


def decided(target: HasFairlets, state: OpenState, seats: Seats, candidate: Candidate, log_uniform):
    """(the seats after accepting or refusing the candidate, whether it was accepted)."""
    change, means = log_ratio(target, state, seats, candidate)
    accepted = log_uniform < change
    where = jnp.where(accepted & candidate.first, candidate.fairlets, len(seats.members))
    members = seats.members.at[where].set(candidate.members, mode="drop")
    cluster = seats.cluster.at[where].set(candidate.cluster, mode="drop")
    n_slots = candidate.members.shape[1]
    who = jnp.where((accepted & candidate.first)[:, None], candidate.members, target.n_obs + 1)
    place = seats.place.at[who].set(candidate.fairlets[:, None] * n_slots + jnp.arange(n_slots), mode="drop")
    means = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), means, seats.means)
    return Seats(members, cluster, place, means), accepted


def _means(target, state: OpenState, times) -> ClusterMeans:
    """Means of a few fairlets, each counted `times`; sums over so few are products with indicators."""
    units = target.units_of(state)
    counted = (jnp.arange(target.n_clusters)[:, None] == units.cluster) * times
    weight = counted * units.weight
    return ClusterMeans(counted.sum(1, dtype=jnp.int32), weight.sum(1), weight @ units.center)
