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
import numpy as np

from bayesfair._draws import Statistic
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.labellings import CenteredLabelling, PairedLabelling
from bayesfair.gibbs.losses import ClusterMeans, Units, cluster_means
from bayesfair.gibbs.parts_of_rows import map_numbered, map_rows, sum_over_rows
from bayesfair.gibbs.states import computed_once
from bayesfair.gibbs.sweep import adjoint, in_turn
from bayesfair.gibbs.uniforms import uniform_at

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

    def __call__(self, key, target: HasLabels, state: CenteredLabelling):
        def once(i, carry):
            state, _ = carry
            key_round = jax.random.fold_in(key, i)
            n_clusters, n_segments = target.n_clusters, (target.n_clusters + 1) // 2 * target.n_groups
            uniforms = jax.random.uniform(jax.random.fold_in(key_round, 0), (n_clusters + n_segments,))
            paired = in_order(target, state, jnp.argsort(uniforms[:n_clusters]), uniforms[n_clusters:])
            paired, stats = in_turn(key_round, target, paired, self.moves, first=1)
            return state._replace(label=labels_of(paired, state.label)), stats

        blank = jax.tree.map(jnp.zeros_like, jax.eval_shape(once, 0, (state, None))[1])
        return jax.lax.fori_loop(0, self.times, once, (state, blank))

    def adjoint(self):
        return replace(self, moves=adjoint(self.moves))


def in_order(target: HasLabels, state: CenteredLabelling, clusters, uniforms) -> PairedLabelling:
    """Everybody in order, the clusters paired as they follow each other in `clusters` (K,), and in bundles, for which
    `uniforms` (segments,) say where each segment's begin."""
    n_clusters, n_groups = target.n_clusters, target.n_groups
    n_pairs = n_clusters // 2
    pairs = clusters[: 2 * n_pairs].reshape(n_pairs, 2)
    if n_clusters % 2:  # the one that is left is a pair with itself, between whose ends nobody moves
        pairs = jnp.concatenate([pairs, jnp.broadcast_to(clusters[-1], (1, 2))])
    pair_of = jnp.zeros(n_clusters, jnp.int32).at[pairs].set(jnp.arange(len(pairs), dtype=jnp.int32)[:, None])
    in_b = jnp.zeros(n_clusters, bool).at[pairs[:n_pairs, 1]].set(True)
    n_segments = len(pairs) * n_groups
    rows = {"x": target.x, "label": state.label, "group": target.group}
    rows |= {} if target.weight is None else {"weight": target.weight}

    def of(rows, number):
        pair = pair_of[rows["label"]]
        margin = state.lambdas * margins(target, rows["x"], pair, pairs, state.centers)
        margin = (rows["weight"] * margin if "weight" in rows else margin).astype(target.x.dtype)
        return sort_key(pair * n_groups + rows["group"], margin, n_segments), number, margin

    key, order, margin = computed_once(map_numbered(of, rows))
    # One key of 32 bits for segment and margin: four times as fast as two.
    key, order = jax.lax.sort((key, order), num_keys=1, is_stable=True)
    narrow = np.min_scalar_type(-n_segments - 1)  # of what is kept for everybody

    def in_place(rows):
        key, number = rows
        return segment_of(key, n_segments).astype(narrow), in_b[state.label[number]], margin[number]

    segment, side, margin = map_rows(in_place, (key, order))
    first = jnp.searchsorted(segment, jnp.arange(n_segments + 1, dtype=narrow)).astype(jnp.int32)
    bundles_of_pair, skipped = laid_in_bundles(target, first, uniforms)
    counts = target.counts(state.label)
    return PairedLabelling(side, order, margin, segment, first, pairs, bundles_of_pair, skipped, counts, state.lambdas)


def margins(target: HasLabels, x, pair, pairs, centers):
    """d(x_i, m_b) - d(x_i, m_a) of some rows, where (a, b) is their `pair` (rows,) of clusters."""
    a, b = (target.loss.divergence(x, centers[end[pair]]) for end in pairs.T)
    return b - a


def sort_key(segment, margin, n_kinds):
    """What is sorted by segment, then margin: exact to the segment; margins that agree in their leading bits stand as they
    come. `n_kinds`: of segments."""
    bits = max(n_kinds - 1, 1).bit_length()
    raw = jax.lax.bitcast_convert_type(margin.astype(jnp.float32), jnp.int32)
    ascending = jnp.where(raw < 0, ~raw, raw ^ jnp.int32(-(2**31))).astype(jnp.uint32)
    return (segment.astype(jnp.uint32) << (SORT_BITS - bits)) | (ascending >> bits)


def segment_of(key, n_kinds):
    """That of a `sort_key`."""
    return key >> (SORT_BITS - max(n_kinds - 1, 1).bit_length())


def labels_of(paired: PairedLabelling, over=None):
    """Back from places to observations; written over those labels, where they are not needed any more."""
    over = paired.order if over is None else over
    return over.at[paired.order].set(clusters_at(paired), unique_indices=True)


def clusters_at(paired: PairedLabelling):
    """The cluster of the observation at every place."""
    n_groups = paired.counts.shape[1]

    def of(rows):
        segment, side = rows
        a, b = paired.pairs[segment.astype(jnp.int32) // n_groups].T
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

    def __call__(self, key, target: HasLabels, state: PairedLabelling):
        def one(carry, inputs):
            side, possible, accepted = carry
            key, apart = inputs
            swap, able = swapped(key, target, state._replace(side=side), apart)
            return (side ^ swap, possible + able.sum(dtype=jnp.int32), accepted + swap.sum(dtype=jnp.int32)), None

        apart = 1 << jnp.asarray(self.powers)
        start = state.side, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
        (side, possible, accepted), _ = jax.lax.scan(one, start, (jax.random.split(key, len(apart)), apart))
        rate = accepted.astype(target.x.dtype) / jnp.maximum(possible, 1)
        return state._replace(side=side), {"swap_rate": rate}


def swapped(key, target: HasLabels, state: PairedLabelling, apart):
    """A round of swaps of places that are `apart`: (who swaps, who might have)."""
    n_pairs = len(state.pairs)
    uniforms = uniform_at(key, target.n_obs + jnp.arange(n_pairs + 1), target.x.dtype)
    shift = (uniforms[-1] * (2 * apart)).astype(jnp.int32)

    def of(_, place):
        partner = neighbours(state, place, apart, shift)
        log_ratio = swap_log_ratio(state, place, partner)
        uniform = uniform_at(key, jnp.minimum(partner, place), target.x.dtype)
        return jnp.log(uniform) < log_ratio, log_ratio > -jnp.inf

    swap, able = map_numbered(of, state.side)
    if reads_who_moves(target):
        kept = jnp.log(uniforms[:-1]) < log_round_ratio(target, state, state.side ^ swap)
        swap &= kept[state.segment // target.n_groups]
    return swap, able


def reads_who_moves(target: HasLabels) -> bool:
    """Do the normalisers g_k read more than how many are in a cluster?"""
    return target.loss.normalizer_reads_mean or target.weight is not None


def neighbours(state: PairedLabelling, place, apart, shift):
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


def log_round_ratio(target: HasLabels, state: PairedLabelling, side):
    """What the swaps' own terms leave out of the log ratio of a round, of every pair of clusters: prod g_k / g'_k, which
    changes where g reads means and not only counts."""
    old, new = means_of(target, state), means_of(target, state._replace(side=side))
    return change_of_normalizers(target, state, old, new).sum(1)


def means_of(target: HasLabels, state: PairedLabelling) -> ClusterMeans:
    if not reads_who_moves(target):  # nobody has to be asked
        count = state.counts.sum(1)
        blank = jnp.zeros((target.n_clusters, target.x.shape[1]), target.x.dtype)
        return ClusterMeans(count, count.astype(target.x.dtype), blank)
    return cluster_means(Units(target.x, target.weights, labels_of(state)), target.n_clusters)


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

    def __call__(self, key, target: HasLabels, state: PairedLabelling):
        n_blocks = len(state.pairs) * BLOCKS

        def propose(_, bundle):
            change, shared, in_b = bundle_law(target, state, bundle)
            flips = shared & (uniform_at(key, bundle, target.x.dtype) < jax.nn.sigmoid(-change))
            block = pair_of_bundle(state, bundle) * BLOCKS + bundle % BLOCKS
            return flips, shared, in_b, block.astype(np.min_scalar_type(-n_blocks - 1))

        flips, shared, in_b, block = map_numbered(propose, every_bundle(target, state))
        sign = jnp.where(flips, jnp.where(in_b, -1, 1), 0).astype(jnp.int8)  # members of b, in bundles
        net = summed_by(block, sign, n_blocks).reshape(-1, BLOCKS)
        moved = self._sums(target, state, sign, block, n_blocks)
        uniforms = uniform_at(key, target.n_bundles + jnp.arange(n_blocks), target.x.dtype).reshape(net.shape)
        accepted = self._blocks(uniforms, target, state, net, moved)
        flips = jnp.append(flips & accepted.ravel()[block], False)

        def flipped(rows, place):
            side, segment = rows
            return side ^ flips[bundle_at(target, state, segment, place)]

        side = map_numbered(flipped, (state.side, state.segment))
        counts = counts_of(state._replace(side=side))
        rate = flips.sum().astype(target.x.dtype) / jnp.maximum(shared.sum(), 1)
        return state._replace(side=side, counts=counts), {"bundle_rate": rate}

    @staticmethod
    def _sums(target, state, sign, block, n_blocks):
        """What every block would add to mass and sum of its cluster b (pairs, BLOCKS, 1 + dim); 0 where g reads neither."""
        if not reads_who_moves(target):
            return jnp.zeros((n_blocks // BLOCKS, BLOCKS, 1 + target.x.shape[1]), target.x.dtype)
        bundle = bundles_of(target, state)
        sign, block = jnp.append(sign, 0)[bundle], jnp.append(block, 0)[bundle]
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


def mass_and_sum(target: HasLabels, people):
    """What people add to mass and sum of their cluster: (people, 1 + dim)."""
    weight = target.weights[people][:, None]
    return jnp.concatenate([weight, weight * target.x[people]], 1)


def block_outcome(target: HasLabels, state: PairedLabelling, counts, means: ClusterMeans, joined, total):
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


def change_of_normalizers(target: HasLabels, state, old: ClusterMeans, new: ClusterMeans):
    """log g_k / g'_k of the clusters of every pair (pairs, 2); that of an empty cluster is never read."""
    log_normalizer = target.loss.augmentation.log_normalizer
    change = log_normalizer(state.lambdas, old) - log_normalizer(state.lambdas, new)
    return jnp.where(new.count > 0, change, 0.0)[state.pairs]


def laid_in_bundles(target: HasLabels, first, uniforms):
    """Of every pair of clusters (how many bundles it has (pairs,), how many of each group stand before them (pairs, groups)).

    Within a pair the t-th bundle holds the t-th few of each group, counted from a place drawn at random.
    """
    wanted = jnp.asarray(target.composition, jnp.int32)
    size = jnp.diff(first).reshape(-1, target.n_groups)
    bundles_of_pair = jnp.where(wanted > 0, size // jnp.maximum(wanted, 1), target.n_obs).min(1)
    if target.n_clusters % 2:
        bundles_of_pair = bundles_of_pair.at[-1].set(0)
    spare = size - bundles_of_pair[:, None] * wanted
    return bundles_of_pair, jnp.minimum((uniforms.reshape(spare.shape) * (spare + 1)).astype(jnp.int32), spare)


def every_bundle(target: HasLabels, state: PairedLabelling):
    """As many rows as there may be bundles at most, for maps over their numbers."""
    return state.side[: target.n_bundles]


def bundle_at(target: HasLabels, state: PairedLabelling, segment, place):
    """The bundle of those at some places, which are of these segments; `target.n_bundles` means none."""
    n_groups, wanted = target.n_groups, jnp.asarray(target.composition, jnp.int32)
    segment, before = segment.astype(jnp.int32), jnp.cumsum(state.bundles_of_pair) - state.bundles_of_pair
    pair, group = segment // n_groups, segment % n_groups
    rank = place - state.first[segment] - state.skipped[pair, group]
    index = rank // jnp.maximum(wanted, 1)[group]
    inside = (
        (rank >= 0) & (index < state.bundles_of_pair[pair]) & (wanted[group] > 0) & (segment < len(state.first) - 1)
    )
    return jnp.where(inside, before[pair] + index, target.n_bundles)


def bundles_of(target: HasLabels, state: PairedLabelling):
    """The bundle of the one at every place."""
    return map_numbered(lambda segment, place: bundle_at(target, state, segment, place), state.segment)


def pair_of_bundle(state: PairedLabelling, bundle):
    """The pair of clusters of these bundles; the last one where there is no such bundle."""
    pair = jnp.searchsorted(jnp.cumsum(state.bundles_of_pair), bundle, side="right").astype(jnp.int32)
    return jnp.minimum(pair, len(state.pairs) - 1)


def places_in(target: HasLabels, state: PairedLabelling, bundle):
    """(the places of the members of these bundles, an array of each member; whether there is such a bundle)."""
    pair, end = pair_of_bundle(state, bundle), jnp.cumsum(state.bundles_of_pair)
    there = bundle < end[-1]
    number = bundle - (end - state.bundles_of_pair)[pair]
    places = []
    for group, count in enumerate(target.composition):
        first = state.first[pair * target.n_groups + group] + state.skipped[pair, group] + number * count
        places += [jnp.where(there, first + member, 0) for member in range(count)]
    return places, there


def bundle_law(target: HasLabels, state: PairedLabelling, bundle):
    """Of these bundles (what flipping each would add to the energy, whether its members share a cluster, whether that is b)."""
    places, there = places_in(target, state, bundle)
    change = sum(state.margin[place] for place in places)
    n_in_b = sum(state.side[place].astype(jnp.int32) for place in places)
    in_b = there & (n_in_b == len(places))
    return jnp.where(in_b, -change, change), there & (in_b | (n_in_b == 0)), in_b


def bundle_changes(target: HasLabels, state: PairedLabelling):
    """`bundle_law` of all of them."""
    return map_numbered(lambda _, bundle: bundle_law(target, state, bundle), every_bundle(target, state))


def summed_by(index, values, n):
    """Sums (n,) of whole numbers at every index, those of an index n left out."""
    blank = jnp.zeros(n, jnp.int32)

    def of(rows, new):
        index, values = rows
        return blank.at[index.astype(jnp.int32)].add(jnp.where(new, values, 0).astype(jnp.int32), mode="drop")

    return sum_over_rows(of, (index, values))


def counts_of(state: PairedLabelling):
    """Members of each group in each cluster, from the places of this shard."""
    (n_clusters, n_groups), (a, b) = state.counts.shape, state.pairs.T

    def of(rows, new):
        segment, side = rows
        pair, group = segment.astype(jnp.int32) // n_groups, segment.astype(jnp.int32) % n_groups
        somebody = new & (pair < len(state.pairs))
        cluster = jnp.where(side, b[pair], a[pair])
        return jnp.zeros((n_clusters, n_groups), jnp.int32).at[cluster, group].add(somebody.astype(jnp.int32))

    return sum_over_rows(of, (state.segment, state.side))


# Singles


@dataclass(frozen=True)
class PairedSingles:
    """`times` people of each pair of clusters in turn, drawn from their law given m and all the others.

    Who is asked is uniform among those near the margin at which the clusters meet (`border`), which, like the order, is the
    same for all labellings that differ within the pairs.
    """

    times: int

    statistics = {"single_rate": Statistic("figure")}  # noqa: RUF012

    def __call__(self, key, target: HasLabels, state: PairedLabelling):
        n_pairs = len(state.pairs)
        low, size = (part.reshape(n_pairs, -1) for part in border(target, state))
        before = jnp.cumsum(size, 1) - size
        drawn, uniforms = jax.random.uniform(key, (2, self.times, n_pairs), target.x.dtype)
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
        return state._replace(side=side, counts=counts), {"single_rate": flipped.mean(dtype=target.x.dtype)}


def border(target: HasLabels, state: PairedLabelling):
    """Of every segment, the first place near the border of the two clusters, and how many there are.

    Bundles in the groups' ratio pay more for b the later they stand: where that turns from a gain into a loss, the clusters
    would meet if they could. The margin there is each group's own.
    """
    n_groups, n_pairs = target.n_groups, len(state.pairs)
    n_segments = n_pairs * n_groups
    narrow = state.segment.dtype

    def gains(_, bundle):
        places, there = places_in(target, state, bundle)
        gain = there & (sum(state.margin[place] for place in places) < 0)
        return jnp.where(gain, pair_of_bundle(state, bundle), n_pairs).astype(narrow)

    which = map_numbered(gains, every_bundle(target, state))
    share = jnp.repeat(
        summed_by(which, jnp.ones_like(which), n_pairs) / jnp.maximum(state.bundles_of_pair, 1),
        n_groups,
        total_repeat_length=n_segments,
    )
    first, size = state.first[:-1], jnp.diff(state.first)
    middle = first + jnp.clip((share * size).astype(jnp.int32), 0, jnp.maximum(size - 1, 0))
    margin = state.margin[jnp.minimum(middle, target.n_obs - 1)]
    blank = jnp.zeros(n_segments, jnp.int32)

    def below_and_near(rows, new):
        own, segment = rows
        segment = segment.astype(jnp.int32)
        apart = own - margin[segment]
        return tuple(
            blank.at[segment].add((new & where).astype(jnp.int32))
            for where in (apart < -BORDER, jnp.abs(apart) <= BORDER)
        )

    below, near = sum_over_rows(below_and_near, (state.margin, state.segment))
    return first + below, near


def flip_logit(target: HasLabels, state: PairedLabelling, side, counts, means, place):
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
