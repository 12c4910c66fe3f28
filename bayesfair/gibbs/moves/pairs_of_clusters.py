"""Moves of balanced labellings between the two clusters of a pair, for all pairs and in parallel, given centres m.

Given m the law of a labelling is prod_i exp(-lambda d(x_i, m_{z_i})) / prod_k g_k on the balanced ones, so that who is
where within a pair (a, b) of clusters matters through everybody's margin r_i = lambda (d(x_i, m_b) - d(x_i, m_a)) alone.
`InPairs` draws which clusters are paired and sorts the members of each pair by group and margin: an order that no move
within the pairs changes, in which neighbours have nearly the same to gain (DESIGN.md, section 2.6).

* `MarginSwaps`: two of a group, 1, 2, 4, ... places apart, exchange clusters: the counts stay as they are. With the
  weights exp(-lambda d) this is the weighted rectangular loop on the group's rows of the labelling.
* `Bundles`: some of every group, in the groups' ratio, who stand at the same place of their groups and share a cluster
  change it together: sizes of clusters change and balance does not.
* `PairedSingles`: one person changes cluster where balance allows it.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from bayesfair._draws import Statistic
from bayesfair._parts import map_rows
from bayesfair.gibbs.labellings import CenteredLabelling, PairedLabelling
from bayesfair.gibbs.losses import ClusterMeans, cluster_means
from bayesfair.gibbs.shards import common, from_one, is_shared, own, total
from bayesfair.gibbs.states import computed_once
from bayesfair.gibbs.sweep import adjoint, in_turn
from bayesfair.gibbs.target import Target

__all__ = [
    "Bundles",
    "InPairs",
    "MarginSwaps",
    "PairedSingles",
    "block_outcome",
    "border",
    "bundle_changes",
    "bundles_of",
    "flip_logit",
    "in_order",
    "labels_of",
    "log_round_ratio",
    "means_of",
    "neighbours",
    "swap_log_ratio",
]

BLOCKS = 32  # of bundles, that are accepted or rejected together
SORT_BITS = 32
BORDER = 4.0  # of log odds: who stands farther from the border moves once in fifty visits


@dataclass(frozen=True)
class InPairs:
    """Pairs the clusters at random (one stays alone where K is odd), runs moves within the pairs, `times` times over."""

    moves: tuple
    times: int = 1

    def __call__(self, key, target: Target, state: CenteredLabelling):
        def once(i, carry):
            state, _ = carry
            key_round = jax.random.fold_in(key, i)
            n_clusters, n_segments = target.n_clusters, (target.n_clusters + 1) // 2 * target.n_groups
            uniforms = jax.random.uniform(jax.random.fold_in(key_round, 0), (n_clusters + n_segments,))
            paired = in_order(target, state, jnp.argsort(uniforms[:n_clusters]), uniforms[n_clusters:])
            paired, stats = in_turn(key_round, target, paired, self.moves, first=1)
            return state._replace(label=labels_of(paired)), stats

        blank = jax.tree.map(jnp.zeros_like, jax.eval_shape(once, 0, (state, None))[1])
        return jax.lax.fori_loop(0, self.times, once, (state, blank))

    def adjoint(self):
        return replace(self, moves=adjoint(self.moves))


def in_order(target: Target, state: CenteredLabelling, clusters, uniforms) -> PairedLabelling:
    """Everybody in order, the clusters paired as they follow each other in `clusters` (K,), and in bundles, for which
    `uniforms` (segments,) say where each segment's begin."""
    n_clusters, n_groups = target.n_clusters, target.n_groups
    n_pairs = n_clusters // 2
    pairs = clusters[: 2 * n_pairs].reshape(n_pairs, 2)
    if n_clusters % 2:  # the one that is left is a pair with itself, between whose ends nobody moves
        pairs = jnp.concatenate([pairs, jnp.broadcast_to(clusters[-1], (1, 2))])
    pair_of = jnp.zeros(n_clusters, jnp.int32).at[pairs].set(jnp.arange(len(pairs), dtype=jnp.int32)[:, None])
    in_b = jnp.zeros(n_clusters, bool).at[pairs[:n_pairs, 1]].set(True)
    pair = pair_of[state.label]
    margin = state.temperatures * margins(target, pair, pairs, state.centers)
    margin = margin if target.weight is None else target.weight * margin
    margin = computed_once(margin.astype(target.x.dtype))
    segment = pair * n_groups + target.group
    n_segments = len(pairs) * n_groups
    if target.present is not None:
        segment = jnp.where(target.present, segment, n_segments)  # behind all others
    order = _sorted(segment, margin, n_segments + (target.present is not None))
    size = jnp.zeros(n_segments, jnp.int32).at[segment].add(1)
    first = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(size)])
    segment = segment[order]
    bundle = bundles_of(target, segment, first, uniforms)
    counts = target.counts(state.label)
    side = in_b[state.label][order]
    return PairedLabelling(side, order, margin[order], segment, first, pairs, bundle, counts, state.temperatures)


def margins(target: Target, pair, pairs, centers):
    """d(x_i, m_b) - d(x_i, m_a) of everybody, where (a, b) is their `pair` (obs,) of clusters."""

    def of(rows):
        x, pair = rows
        a, b = (target.loss.divergence(x, centers[end[pair]]) for end in pairs.T)
        return b - a

    return map_rows(of, (target.x, pair))


def _sorted(segment, margin, n_segments):
    """The order by segment, then margin. One key of 32 bits for both: four times as fast as two, and exact to the segment;
    margins that agree in their leading bits stand as they come."""
    bits = max(n_segments - 1, 1).bit_length()
    raw = jax.lax.bitcast_convert_type(margin.astype(jnp.float32), jnp.int32)
    ascending = jnp.where(raw < 0, ~raw, raw ^ jnp.int32(-(2**31))).astype(jnp.uint32)
    key = (segment.astype(jnp.uint32) << (SORT_BITS - bits)) | (ascending >> bits)
    everyone = jnp.arange(len(segment), dtype=jnp.int32)
    return jax.lax.sort((key, everyone), num_keys=1, is_stable=True)[1]


def labels_of(paired: PairedLabelling):
    """Back from places to observations."""
    label = clusters_at(paired)
    return jnp.zeros_like(label).at[paired.order].set(label, unique_indices=True)


def clusters_at(paired: PairedLabelling):
    """The cluster of the observation at every place."""
    n_groups = paired.counts.shape[1]

    def of(rows):
        segment, side = rows
        a, b = paired.pairs[segment // n_groups].T
        return jnp.where(side, b, a).astype(jnp.int32)

    return map_rows(of, (paired.segment, paired.side))


# Swaps


@dataclass(frozen=True)
class MarginSwaps:
    """Rounds of swaps of people of one group, 2^t places apart, one for every t in `powers`."""

    powers: tuple[int, ...]

    statistics = {"swap_rate": Statistic("figure")}  # noqa: RUF012

    def adjoint(self):
        return replace(self, powers=self.powers[::-1])

    def __call__(self, key, target: Target, state: PairedLabelling):
        def one(carry, inputs):
            side, possible, accepted = carry
            key, apart = inputs
            swap, able = swapped(key, target, state._replace(side=side), apart)
            return (side ^ swap, possible + able.sum(dtype=jnp.int32), accepted + swap.sum(dtype=jnp.int32)), None

        apart = 1 << jnp.asarray(self.powers)
        start = state.side, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
        (side, possible, accepted), _ = jax.lax.scan(one, start, (jax.random.split(key, len(apart)), apart))
        accepted, possible = total((accepted, possible))
        rate = accepted.astype(target.x.dtype) / jnp.maximum(possible, 1)
        return state._replace(side=side), {"swap_rate": rate}


def swapped(key, target: Target, state: PairedLabelling, apart):
    """A round of swaps of places that are `apart`: (who swaps, who might have)."""
    uniforms = jax.random.uniform(own(key), (target.n_obs + len(state.pairs) + 1,), target.x.dtype)
    shift = (uniforms[-1] * (2 * apart)).astype(jnp.int32)

    def of(place):
        partner = neighbours(state, place, apart, shift)
        log_ratio = swap_log_ratio(state, place, partner)
        return jnp.log(uniforms[jnp.minimum(partner, place)]) < log_ratio, log_ratio > -jnp.inf

    swap, able = map_rows(of, jnp.arange(target.n_obs))
    if reads_who_moves(target):
        kept = jnp.log(uniforms[target.n_obs : -1]) < log_round_ratio(target, state, state.side ^ swap)
        swap &= common(kept)[state.segment // target.n_groups]
    return swap, able


def reads_who_moves(target: Target) -> bool:
    """Do the normalisers g_k read more than how many are in a cluster?"""
    return target.loss.normalizer_reads_mean or target.weight is not None


def neighbours(state: PairedLabelling, place, apart: int, shift):
    """The place `apart` from each that it may swap with; its own where that is in another segment."""
    upward = ((place + shift) // apart) % 2 == 0
    partner = jnp.clip(jnp.where(upward, place + apart, place - apart), 0, len(state.order) - 1)
    alike = state.segment[partner] == state.segment[place]
    return jnp.where(alike & (jnp.abs(partner - place) == apart), partner, place)


def swap_log_ratio(state: PairedLabelling, place, partner):
    """Log of the acceptance ratio of exchanging the sides of each place and its partner; -inf where they share one.

    Who is in a pays 0 and who is in b the margin: the pair's change is the margin that leaves b less the one that joins.
    """

    def gained(at):
        """What leaving its side gains the one who is there."""
        return jnp.where(state.side[at], state.margin[at], -state.margin[at])

    return jnp.where(state.side[place] != state.side[partner], gained(place) + gained(partner), -jnp.inf)


def log_round_ratio(target: Target, state: PairedLabelling, side):
    """What the swaps' own terms leave out of the log ratio of a round, of every pair of clusters: prod g_k / g'_k, which
    changes where g reads means and not only counts."""
    old, new = means_of(target, state), means_of(target, state._replace(side=side))
    return change_of_normalizers(target, state, old, new).sum(1)


def means_of(target: Target, state: PairedLabelling) -> ClusterMeans:
    if is_shared() and not reads_who_moves(target):  # nobody has to be asked
        count = state.counts.sum(1)
        blank = jnp.zeros((target.n_clusters, target.x.shape[1]), target.x.dtype)
        return ClusterMeans(count, count.astype(target.x.dtype), blank)
    label = labels_of(state)
    return cluster_means(target.units(label), target.n_clusters)


# Bundles


@dataclass(frozen=True)
class Bundles:
    """Bundles, of the target's `composition` (members of each group), whose members share a cluster flip together.

    Each is proposed to flip with its probability given m, exp(-change) / (1 + exp(-change)); blocks of the proposals are
    accepted with probability min(1, prod_k g_k / g'_k) where the clusters stay balanced, see `block_outcome`.
    """

    backwards: bool = False  # the last block first

    statistics = {"bundle_rate": Statistic("figure")}  # noqa: RUF012

    def adjoint(self):
        return replace(self, backwards=not self.backwards)

    def __call__(self, key, target: Target, state: PairedLabelling):
        n_places, n_bundles, bundle = len(state.pairs) * BLOCKS, target.n_bundles, state.bundle
        change, shared, in_b = bundle_changes(target, state)
        uniforms = jax.random.uniform(own(key), (n_bundles + n_places,), target.x.dtype)
        flips = shared & (uniforms[:n_bundles] < jax.nn.sigmoid(-change))
        # Everybody of a bundle is in one pair of clusters: any of its places tells which.
        pair = pairs_of_bundles(target, state)
        block = jnp.maximum(pair, 0) * BLOCKS + jnp.arange(n_bundles) % BLOCKS
        sign = jnp.where(flips, jnp.where(in_b, -1, 1), 0)  # members of b, in bundles
        net = jax.ops.segment_sum(sign, block, n_places).reshape(-1, BLOCKS)
        moved = self._sums(target, state, jnp.append(sign, 0)[bundle], jnp.append(block, 0)[bundle], n_places)
        accepted = self._blocks(uniforms[n_bundles:].reshape(net.shape), target, state, *total((net, moved)))
        flips &= common(accepted).ravel()[block]
        side = state.side ^ jnp.append(flips, False)[bundle]
        flipped, able, counts = total((flips.sum(), shared.sum(), counts_of(state._replace(side=side))))
        rate = flipped.astype(target.x.dtype) / jnp.maximum(able, 1)
        return state._replace(side=side, counts=counts), {"bundle_rate": rate}

    @staticmethod
    def _sums(target, state, sign, block, n_blocks):
        """What every block would add to mass and sum of its cluster b (pairs, BLOCKS, 1 + dim); 0 where g reads neither."""
        if not reads_who_moves(target):
            return jnp.zeros((n_blocks // BLOCKS, BLOCKS, 1 + target.x.shape[1]), target.x.dtype)
        moved = jax.ops.segment_sum(sign[:, None] * mass_and_sum(target, state.order), block, n_blocks)
        return moved.reshape(-1, BLOCKS, moved.shape[1])

    def _blocks(self, uniforms, target, state, net, moved):
        """Which blocks (pairs, BLOCKS) are accepted, one after the other within each pair."""

        def step(carry, inputs):
            net, total, uniform = inputs
            log_ratio, after = block_outcome(
                target, state, *carry, net[:, None] * jnp.asarray(target.composition), total
            )
            accepted = jnp.log(uniform) < log_ratio
            return chosen(accepted, state.pairs, after, carry), accepted

        start = state.counts, means_of(target, state)
        inputs = net.T, jnp.moveaxis(moved, 1, 0), uniforms.T
        return jax.lax.scan(step, start, inputs, reverse=self.backwards)[1].T


def mass_and_sum(target: Target, people):
    """What people add to mass and sum of their cluster: (people, 1 + dim)."""
    weight = target.weights[people][:, None]
    return jnp.concatenate([weight, weight * target.x[people]], 1)


def block_outcome(target: Target, state: PairedLabelling, counts, means: ClusterMeans, joined, total):
    """Of every pair (a, b), between which `joined` (pairs, groups) more people of each group go to b than come from it,
    their `mass_and_sum` adding up to `total` (pairs, 1 + dim): (log of prod g_k / g'_k, -inf where a or b would be unbalanced;
    (counts, means) afterwards)."""
    joined, total = jnp.stack([-joined, joined], 1).astype(jnp.int32), jnp.stack([-total, total], 1)
    n = joined.sum(-1, dtype=jnp.int32)
    counts = counts.at[state.pairs].add(joined)
    new = ClusterMeans(
        means.count.at[state.pairs].add(n),
        means.mass.at[state.pairs].add(n.astype(means.mass.dtype) if target.weight is None else total[..., 0]),
        means.sum.at[state.pairs].add(total[..., 1:]),
    )
    balanced = target.constraint.satisfied(counts)[state.pairs].all(1)
    log_ratio = change_of_normalizers(target, state, means, new).sum(1)
    return jnp.where(balanced, log_ratio, -jnp.inf), (counts, new)


def chosen(accepted, pairs, after, before):
    """What belongs to the clusters of accepted pairs from `after`, the rest from `before`."""
    n_clusters = len(jax.tree.leaves(before)[0])
    taken = jnp.zeros(n_clusters, bool).at[pairs].set(accepted[:, None])
    return jax.tree.map(lambda new, old: jnp.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old), after, before)


def change_of_normalizers(target: Target, state, old: ClusterMeans, new: ClusterMeans):
    """log g_k / g'_k of the clusters of every pair (pairs, 2); that of an empty cluster is never read."""
    log_normalizer = target.loss.augmentation.log_normalizer
    change = log_normalizer(state.temperatures, old) - log_normalizer(state.temperatures, new)
    return jnp.where(new.count > 0, change, 0.0)[state.pairs]


def bundles_of(target: Target, segment, first, uniforms):
    """The bundle of the one at every place; `target.n_bundles` means none.

    Within a pair of clusters, the t-th bundle holds the t-th few of each group, counted from a place drawn at random.
    """
    n_groups = target.n_groups
    wanted = jnp.asarray(target.composition, jnp.int32)
    size = jnp.diff(first).reshape(-1, n_groups)
    room = jnp.where(wanted > 0, size // jnp.maximum(wanted, 1), target.n_obs).min(1)
    if target.n_clusters % 2:
        room = room.at[-1].set(0)
    spare = size - room[:, None] * wanted
    offset = jnp.minimum((uniforms.reshape(spare.shape) * (spare + 1)).astype(jnp.int32), spare)
    before = jnp.cumsum(room) - room

    def of(rows):
        place, segment = rows
        pair, group = segment // n_groups, segment % n_groups
        rank = place - first[segment] - offset[pair, group]
        index = rank // jnp.maximum(wanted, 1)[group]
        inside = (rank >= 0) & (index < room[pair]) & (wanted[group] > 0) & (segment < len(size) * n_groups)
        return jnp.where(inside, before[pair] + index, target.n_bundles)

    return map_rows(of, (jnp.arange(target.n_obs), segment))


def over_bundles(reduce, target: Target, state: PairedLabelling, values):
    """Sums, or another reduction, over the members of every bundle."""
    return reduce(values, state.bundle, target.n_bundles + 1)[:-1]


def pairs_of_bundles(target: Target, state: PairedLabelling):
    """The pair of clusters of every bundle; below zero where there is no such bundle."""
    return over_bundles(jax.ops.segment_max, target, state, state.segment // target.n_groups)


def bundle_changes(target: Target, state: PairedLabelling):
    """(what flipping each bundle would add to the energy, whether its members share a cluster, whether that is b)."""
    total = over_bundles(jax.ops.segment_sum, target, state, state.margin)
    size = sum(target.composition)
    # In b a member counts for one, in a for one more than all: one sum tells both, and who is present.
    in_b = over_bundles(jax.ops.segment_sum, target, state, jnp.where(state.side, 1, size + 1))
    shared = (in_b == size) | (in_b == size * (size + 1))
    in_b = in_b == size
    return jnp.where(in_b, -total, total), shared, in_b


def counts_of(state: PairedLabelling):
    """Members of each group in each cluster, from the places of this shard."""
    n_groups = state.counts.shape[1]
    somebody = state.segment < len(state.pairs) * n_groups
    group = state.segment % n_groups
    return jnp.zeros_like(state.counts).at[clusters_at(state), group].add(somebody.astype(jnp.int32))


# Singles


@dataclass(frozen=True)
class PairedSingles:
    """`times` people of each pair of clusters in turn, drawn from their law given m and all the others.

    Who is asked is uniform among those near the margin at which the clusters meet (`border`), which, like the order, is the
    same for all labellings that differ within the pairs.
    """

    times: int

    statistics = {"single_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: Target, state: PairedLabelling):
        n_pairs = len(state.pairs)
        low, size = (part.reshape(n_pairs, -1) for part in border(target, state))
        before = jnp.cumsum(size, 1) - size
        drawn, uniforms = jax.random.uniform(own(key), (2, self.times, n_pairs), target.x.dtype)
        drawn *= size.sum(1)
        rank = jnp.minimum(drawn.astype(jnp.int32), size.sum(1) - 1)
        group = (rank[..., None] >= before).sum(-1) - 1
        each = jnp.arange(n_pairs)
        places = low[each, group] + rank - before[each, group]

        def step(carry, inputs):
            side, known = carry
            place, uniform = inputs
            logit, after = flip_logit(target, state, side, *known, place)
            flip = uniform < jax.nn.sigmoid(logit)
            return (side.at[place].set(side[place] ^ flip), chosen(flip, state.pairs, after, known)), flip

        start = state.side, (state.counts, means_of(target, state))
        (side, (counts, _)), flipped = jax.lax.scan(step, start, (places, uniforms))
        told = counts, flipped.mean(dtype=target.x.dtype)
        side, (counts, rate) = from_one(key, state.side, side, told)
        return state._replace(side=side, counts=counts), {"single_rate": rate}


def border(target: Target, state: PairedLabelling):
    """Of every segment, the first place near the border of the two clusters, and how many there are.

    Bundles in the groups' ratio pay more for b the later they stand: where that turns from a gain into a loss, the clusters
    would meet if they could. The margin there is each group's own.
    """
    n_groups, n_pairs = target.n_groups, len(state.pairs)
    change = over_bundles(jax.ops.segment_sum, target, state, state.margin)
    values = jnp.stack([change < 0, jnp.ones_like(change, bool)], 1).astype(jnp.int32)
    gain, held = jax.ops.segment_sum(values, pairs_of_bundles(target, state), n_pairs).T  # those of no pair are dropped
    share = jnp.repeat(gain / jnp.maximum(held, 1), n_groups, total_repeat_length=n_pairs * n_groups)
    first, size = state.first[:-1], jnp.diff(state.first)
    middle = first + jnp.clip((share * size).astype(jnp.int32), 0, jnp.maximum(size - 1, 0))
    margin = state.margin[jnp.minimum(middle, target.n_obs - 1)]
    apart = state.margin - margin[state.segment]
    below, near = (
        jax.ops.segment_sum(where.astype(jnp.int32), state.segment, n_pairs * n_groups)
        for where in (apart < -BORDER, jnp.abs(apart) <= BORDER)
    )
    return first + below, near


def flip_logit(target: Target, state: PairedLabelling, side, counts, means, place):
    """Log odds that the person at one place of each pair changes sides, -inf where a cluster would be unbalanced; and
    (counts, means) afterwards."""
    in_b, group = side[place], state.segment[place] % target.n_groups
    sign = jnp.where(in_b, -1, 1)[:, None]
    member = (group[:, None] == jnp.arange(target.n_groups)).astype(jnp.int32)
    log_ratio, after = block_outcome(
        target, state, counts, means, sign * member, sign * mass_and_sum(target, state.order[place])
    )
    apart = state.pairs[:, 0] != state.pairs[:, 1]
    return jnp.where(apart, log_ratio - sign[:, 0] * state.margin[place], -jnp.inf), after
