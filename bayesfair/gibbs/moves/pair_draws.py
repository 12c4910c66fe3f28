"""Exact draws of the labels of two clusters at once, for all pairs of clusters side by side, given centres m (DESIGN 2.6).

Given m, the law of a labelling is prod_i exp(-lambda w_i d(x_i, m_{z_i})) / prod_k g_k on the balanced ones. So between
two clusters a and b, each of their members is in a with log odds r_i = lambda w_i (d(x_i, m_b) - d(x_i, m_a)),
independently apart from the constraint on the groups' counts and g. A draw has two steps:

* how many rows of each group are in a: their laws are Poisson-binomial (`poisson_binomial.py`), restricted to the
  counts for which a and b are balanced, times 1 / (g_a g_b). Counts are drawn along lines;
* which rows of each group these are, given their number.

If g reads more than counts, the draw is a proposal, and each pair of clusters accepts or refuses it. Rows near the
border of two clusters are dealt into blocks, which are drawn one after the other while all other rows stay. The choice
of these rows depends on their margins r alone: exchanging labels within a pair changes neither its rows nor margins.

Near clusters are paired more often, as few rows change between far ones. The choice reads nothing but centres and lambda.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bayesfair._arrays import computed_once, power_of_two
from bayesfair.fairness.balanced import is_exact
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.loss import ClusterMeans, Units, cluster_means
from bayesfair.gibbs.moves.collapsed import CollapsedReallocation, share_moved
from bayesfair.gibbs.parts_of_rows import map_rows
from bayesfair.gibbs.poisson_binomial import by_inverse, count_tree, drawn_trials, log_count_law, tilted_to

# The log chance that two clusters are paired falls from 0 to LEAST: by FALL for every nat of lambda times their divergence,
# as fast as the number of rows that move.
FALL, LEAST = 0.35, -4.0
AGAIN = 1e3  # added to the log time of a pair that was chosen: all others come first
BLOCK = 256  # rows of a group in a pair of clusters that are drawn at once
MORE_LINES, PLACES = 3, 128  # lines along which counts are drawn beyond the number of groups; places per line
QUANTILES = 128  # quantiles of margins that are searched for the border
DECIDED = 2.5  # log odds from the border beyond which rows are often left out
BINS, BINS_PER_UNIT = 256, 8  # of log(1 + |margin|), with the margin's sign; a bin's number is one byte
MANY_BLOCKS = 1 << 20  # a random number below it modulo the number of blocks is nearly uniform


class NearRows(NamedTuple):
    """The rows near the border of every pair of clusters, sorted by pair and group."""

    row: Int[Array, " obs"]
    margin: Float[Array, " obs"]  # of every row of the table: log odds of the pair's first cluster
    pairs: Int[Array, "pairs 2"]
    first: Int[Array, "pairs groups"]  # the place of each group's first row
    size: Int[Array, "pairs groups"]

    @property
    def block_size(self) -> int:
        return block_size(len(self.row), self.first.size)

    @property
    def n_blocks(self):
        """The number of blocks (pairs, groups)."""
        return jnp.maximum(-(-self.size // self.block_size), 1)


class Block(NamedTuple):
    """Rows that are drawn at once: some of each group, `there` or padding."""

    row: Int[Array, "pairs groups rows"]
    there: Bool[Array, "pairs groups rows"]
    in_a: Bool[Array, "pairs groups rows"]  # is it in the first of its pair's clusters?
    margin: Float[Array, "pairs groups rows"]

    @property
    def size(self) -> Int[Array, "pairs groups"]:
        return self.there.sum(-1, dtype=jnp.int32)

    @property
    def held(self) -> Int[Array, "pairs groups"]:
        """How many are in the first of the clusters."""
        return self.in_a.sum(-1, dtype=jnp.int32)


class Filled(NamedTuple):
    """Labels and the statistics of their clusters; `means`: None if nothing reads them."""

    label: Int[Array, " obs"]
    counts: Int[Array, "clusters groups"]
    means: ClusterMeans | None


@dataclass(frozen=True)
class PairDraws:
    """Draws the labels of all pairs of clusters of a random matching (with K odd one stays alone), `times` times."""

    times: int = 1

    statistics = CollapsedReallocation.statistics

    def __call__(self, key, target: HasLabels, state: Labelling):
        shape = target.n_clusters, target.n_clusters
        uniforms = jax.random.uniform(jax.random.fold_in(key, self.times), shape)
        matchings = random_matchings(uniforms, log_chances(target, state), self.times)

        def once(i, label):
            return drawn(jax.random.fold_in(key, i), target, state._replace(label=label), matchings[i])

        label = jax.lax.fori_loop(0, self.times, once, state.label)
        return state._replace(label=label), share_moved(target, state.label, label)


def drawn(key, target: HasLabels, state: Labelling, pairs) -> Int[Array, " obs"]:
    """Labels after a draw of all pairs of a matching."""
    key_here, key_blocks = jax.random.split(key)
    uniforms = jax.random.uniform(key_here, (3,))
    # The median reach is 3.5 log odds; one draw in a hundred reaches 25, so that no row is left out for good.
    near = near_rows(target, state, pairs, DECIDED / jnp.sqrt(jnp.maximum(uniforms[0], 1e-6)))
    # As many blocks as pairs have on average, from a random one on, either way: a sequence and its reverse are equally likely.
    first, step = (uniforms[1] * MANY_BLOCKS).astype(jnp.int32), jnp.where(uniforms[2] < 0.5, 1, -1)

    def once(i, filled):
        return drawn_block(jax.random.fold_in(key_blocks, i), target, state, near, first + step * i, filled)

    n_blocks = jnp.ceil(near.n_blocks.mean()).astype(jnp.int32)
    return jax.lax.fori_loop(0, n_blocks, once, filled(target, state)).label


def random_matchings(uniforms: Float[Array, "clusters clusters"], log_chances, number) -> Int[Array, "number pairs 2"]:
    """Random matchings of the clusters.

    Each takes pairs of free clusters one by one, in proportion to their chances, by an exponential race. No pair comes
    twice while another one could be taken.
    """
    n_clusters = len(uniforms)
    time = jnp.log(-jnp.log1p(-uniforms)) - log_chances
    time = jnp.where(jnp.tri(n_clusters, k=-1, dtype=bool), time, jnp.inf)

    def choose(time, _):
        pair = jnp.stack(jnp.unravel_index(time.argmin(), time.shape)).astype(jnp.int32)
        return time.at[pair].set(jnp.inf).at[:, pair].set(jnp.inf), pair

    def match(time, _):
        pairs = jax.lax.scan(choose, time, length=n_clusters // 2)[1]
        return time.at[tuple(pairs.T)].add(AGAIN), pairs

    return jax.lax.scan(match, time, length=number)[1]


def log_chances(target: HasLabels, state: Labelling) -> Float[Array, "clusters clusters"]:
    """Log chances of all pairs of clusters, up to a constant: they fall with the divergence of the centres, down to a floor."""
    apart = target.loss.divergences(state.centers, state.centers)
    apart -= jnp.diag(apart)[:, None]
    apart = state.lambdas * mean_weight(target) * (apart + apart.T) / 2
    nearest = jnp.where(jnp.eye(len(apart), dtype=bool), jnp.inf, apart).min()
    return jnp.maximum(-FALL * (apart - nearest), LEAST)


def filled(target: HasLabels, state: Labelling) -> Filled:
    means = None
    if reads_who_moves(target):
        means = cluster_means(Units(target.x, target.weights, state.label), target.n_clusters)
    return Filled(state.label, target.counts(state.label), means)


def drawn_block(key, target: HasLabels, state: Labelling, near: NearRows, number, now: Filled) -> Filled:
    """Draw the block of this number for each group in each pair."""
    key_counts, key_labels, key_accept = jax.random.split(key, 3)
    block = block_of(near, number, now.label)
    tilt = tilted_to(block.margin, block.there, block.held)
    tree = computed_once(count_tree(block.margin + tilt[..., None], block.there))
    counts = now.counts[near.pairs]
    count = counts_along(key_counts, target, state, counts, block, log_count_law(tree, tilt))
    trials = drawn_trials(key_labels, tree, count)
    # If the odds are too extreme for floating point, the tables are empty and the rows stay.
    told = ((trials == 0) | (trials == 1) & block.there).all((1, 2)) & (trials.sum(-1) == count).all(1)
    in_a = jnp.where(told[:, None, None], trials == 1, block.in_a)
    after = with_block(target, now, near.pairs, block, in_a)
    if now.means is None:
        return after
    log_ratio = log_rest(target, state, after.means)[near.pairs] - log_rest(target, state, now.means)[near.pairs]
    kept = jnp.log(jax.random.uniform(key_accept, log_ratio.shape[:1], target.x.dtype)) < log_ratio.sum(1)
    return with_block(target, now, near.pairs, block, jnp.where(kept[:, None, None], in_a, block.in_a))


def with_block(target: HasLabels, now: Filled, pairs, block: Block, in_a) -> Filled:
    """The labels with those of a block replaced."""
    a, b = pairs[:, :, None, None].swapaxes(0, 1)
    row = jnp.where(block.there, block.row, target.n_obs)
    label = now.label.at[row].set(jnp.where(in_a, a, b).astype(now.label.dtype), mode="drop", unique_indices=True)
    joined = jnp.where(block.there, in_a.astype(jnp.int32) - block.in_a, 0)

    def moved(whole, gain):
        return whole.at[pairs].add(jnp.stack([gain, -gain], 1))

    counts = moved(now.counts, joined.sum(-1, dtype=jnp.int32))
    if now.means is None:
        return Filled(label, counts, None)
    weight = joined * target.weights[block.row]
    mass, total = weight.sum((1, 2)), jnp.einsum("pgr,pgrd->pd", weight, target.x[block.row])
    means = ClusterMeans(counts.sum(1, dtype=jnp.int32), moved(now.means.mass, mass), moved(now.means.sum, total))
    return Filled(label, counts, means)


# Blocks


def near_rows(target: HasLabels, state: Labelling, pairs, reach) -> NearRows:
    """The rows within `reach` of the border of their pair of clusters."""
    n_groups, n_pairs = target.n_groups, len(pairs)
    n_segments = n_pairs * n_groups + 1  # the last one holds rows in no pair, or not near the border
    pair_of = (
        jnp.full(target.n_clusters, n_pairs, jnp.int32).at[pairs].set(jnp.arange(n_pairs, dtype=jnp.int32)[:, None])
    )

    def of(rows, _):
        x, label, group, weight = rows
        pair = pair_of[label]
        margin = state.lambdas * margins(target, x, pair, pairs, state.centers)
        margin = (margin if weight is None else weight * margin).astype(target.x.dtype)
        return jnp.minimum(pair * n_groups + group, n_segments - 1), margin, bin_of(margin)

    rows = target.x, state.label, target.group, target.weight
    segment, margin, bin = computed_once(map_rows(of, rows))
    held = jnp.zeros((n_segments - 1, BINS), jnp.int32).at[segment, bin].add(1, mode="drop")
    least, most = near_bins(target, held, n_pairs, reach)
    is_near = (segment < n_segments - 1) & (bin >= least[segment]) & (bin <= most[segment])
    segment = jnp.where(is_near, segment, n_segments - 1)
    numbered = segment, jnp.arange(target.n_obs, dtype=jnp.int32)
    segment, row = jax.lax.sort(numbered, num_keys=1, is_stable=False)  # any order of a segment's rows will do
    begins = jnp.searchsorted(segment, jnp.arange(n_segments)).astype(jnp.int32)
    first, size = (part.reshape(n_pairs, n_groups) for part in (begins[:-1], jnp.diff(begins)))
    return NearRows(row, margin, pairs, first, size)


def margins(target: HasLabels, x, pair, pairs, centers):
    """d(x_i, m_b) - d(x_i, m_a) for rows with `pair` (rows,) of clusters (a, b); undefined for rows in no pair."""
    a, b = (target.loss.divergence(x, centers[end[pair]]) for end in pairs.T)
    return b - a


def bin_of(margin):
    """The bin of each margin: bins are narrow near zero, and the outermost ones have no end."""
    scaled = jnp.sign(margin) * jnp.log1p(jnp.abs(margin)) * BINS_PER_UNIT
    return jnp.clip(scaled + BINS / 2, 0, BINS - 1).astype(jnp.uint8)


def near_bins(target: HasLabels, held: Int[Array, "segments bins"], n_pairs, reach):
    """The first and last bin of margins (segments,) near the border of two clusters, given how many rows bins hold.

    Clusters with every group in the same proportion meet at the quantile of all groups where margins, times sizes, add
    up to zero. There may be no row at that place, so the quantiles on both sides count. Other clusters meet anywhere
    between that and margin zero. Bins a little further away fill the last block at no cost.
    """
    scaled = (jnp.arange(BINS, dtype=jnp.float32) - BINS / 2) / BINS_PER_UNIT
    lowest = jnp.sign(scaled) * jnp.expm1(jnp.abs(scaled))  # the least margin of each bin
    up_to = jnp.cumsum(held, 1)
    size = up_to[:, -1:]
    bins = jax.vmap(jnp.searchsorted)(up_to, size * (jnp.arange(QUANTILES) + 0.5) / QUANTILES)
    paid = (size * lowest[bins]).reshape(n_pairs, -1, QUANTILES).sum(1)
    meet = jnp.repeat((paid < 0).sum(1), target.n_groups)[:, None]
    first, last = (jnp.take_along_axis(bins, jnp.clip(at, 0, QUANTILES - 1), 1) for at in (meet - 1, meet))
    if not is_exact(target.constraint):
        first, last = jnp.minimum(first, BINS // 2), jnp.maximum(last, BINS // 2)
    first = jnp.minimum(bin_of(lowest[first] - reach), first)
    last = jnp.maximum(bin_of(lowest[last] + reach), last)
    block, until = block_size(target.n_obs, len(held)), jnp.take_along_axis(up_to, last, 1)
    near = until - jnp.take_along_axis(up_to - held, first, 1)
    room = block * jnp.maximum(-(-near // block), 1)
    until = jnp.clip(until + (room - near) // 2, jnp.minimum(room, size), size)
    first = jnp.minimum(first, (up_to - held < until - room).sum(1, keepdims=True))
    last = jnp.maximum(last, (up_to <= until).sum(1, keepdims=True) - 1)
    return first[:, 0], last[:, 0]


def block_size(n_obs, n_segments) -> int:
    """Block size, a power of two: a group's rows in a pair if groups are alike, or up to four times as many."""
    alike = -(-2 * n_obs // n_segments)
    return min(BLOCK, power_of_two(alike))


def block_of(near: NearRows, number, label) -> Block:
    """Every n-th row near the border from row `number` modulo n on, with n the number of blocks."""
    apart, size = near.n_blocks[..., None], near.size[..., None]
    rank = number % apart + apart * jnp.arange(near.block_size, dtype=jnp.int32)
    there = rank < size
    row = near.row[jnp.where(there, near.first[..., None] + rank, 0)]
    in_a = there & (label[row] == near.pairs[:, :1, None])
    return Block(row, there, in_a, jnp.where(there, near.margin[row], 0))


# Counts


def counts_along(key, target: HasLabels, state, counts, block: Block, log_laws) -> Int[Array, "pairs groups"]:
    """Number of rows of each group in the block that are in a, after draws along random lines.

    `counts` (pairs, 2, groups): of the clusters; `log_laws` (pairs, groups, numbers): of the block by its margins.
    """
    size, held = block.size, block.held
    stay = counts - jnp.stack([held, size - held], 1)  # members outside the block
    members = counts.sum(1)
    n_places = min(2 * log_laws.shape[-1] - 1, PLACES)
    n_lines, (n_pairs, n_groups) = target.n_groups + MORE_LINES, members.shape
    uniforms = jax.random.uniform(key, (n_lines, n_pairs, 5 + n_groups), log_laws.dtype)

    def once(i, held):
        begin, place, ways, cell = jnp.split(uniforms[i], (1, 2, 5), axis=1)
        begin = 1 - n_places + (begin[:, 0] * n_places).astype(jnp.int32)
        along = line(held, directions(ways, members), cell, begin, n_places)
        log_law = log_line_law(target, state, stay, size, log_laws, along)
        likeliest = log_law.max(-1, keepdims=True)
        place = by_inverse(place[:, 0], jnp.exp(log_law - likeliest))
        return jnp.where(jnp.isfinite(likeliest), jnp.take_along_axis(along, place[:, None, None], 1)[:, 0], held)

    return jax.lax.fori_loop(0, n_lines, once, held)


def directions(uniforms: Float[Array, "pairs 3"], members) -> Float[Array, "pairs groups"]:
    """Random directions: the groups' numbers in the pair, the largest as 1; or one group, alone or against another."""
    n_groups = members.shape[1]
    kind, one, other = (jnp.array([4, n_groups, n_groups]) * uniforms).astype(jnp.int32).T[..., None]
    one, other = one == jnp.arange(n_groups), other == jnp.arange(n_groups)
    alone = jnp.where(one, 1.0, jnp.where(other & (kind == 2), -1.0, 0.0))
    return jnp.where(kind < 2, members / members.max(1, keepdims=True), alone).astype(jnp.float32)


def line(held, direction, cell, begin, n_places) -> Int[Array, "pairs places groups"]:
    """Counts along a line through `held` (pairs, groups): floor(held + cell + t direction), for t from `begin` (pairs,) on.

    `cell` is uniform in the unit cube, and `begin` among the starts that include t = 0; steps t keep volumes. So drawing
    a place by its law is a Gibbs step.
    """
    steps = begin[:, None] + jnp.arange(n_places)
    return held[:, None] + jnp.floor(cell[:, None] + steps[..., None] * direction[:, None]).astype(jnp.int32)


def log_line_law(target: HasLabels, state, stay, size, log_laws, along) -> Float[Array, "pairs places"]:
    """Log of the unnormalised law of the places of a line; -inf if counts are impossible or unbalanced."""
    able = ((along >= 0) & (along <= size[:, None])).all(-1)
    in_a = jnp.clip(along, 0, size[:, None])
    of_margins = jnp.take_along_axis(log_laws, in_a.swapaxes(1, 2), -1).sum(1)
    counts = stay[:, None] + jnp.stack([in_a, size[:, None] - in_a], 2)  # (pairs, places, 2, groups)
    able &= target.constraint.satisfied(counts).all(-1)
    change = log_normalizers_at(target, state, jnp.maximum(counts.sum(-1), 1)).sum(-1)
    return jnp.where(able, of_margins - change, -jnp.inf)


def log_normalizers_at(target: HasLabels, state, size: Int[Array, "*clusters"]):
    """log g of clusters with `size` members, for a g that reads their number alone."""
    flat = size.reshape(-1)
    mass = flat * mean_weight(target)
    means = ClusterMeans(flat, mass.astype(target.x.dtype), jnp.zeros((len(flat), target.x.shape[1]), target.x.dtype))
    return target.loss.augmentation.log_normalizer(state.lambdas, means).reshape(size.shape)


def mean_weight(target: HasLabels):
    return 1 if target.weight is None else target.weight.mean()


def reads_who_moves(target: HasLabels) -> bool:
    """Do the normalisers g_k read more than the number of a cluster's members?"""
    return target.loss.normalizer_reads_mean or target.weight is not None


def log_rest(target: HasLabels, state, means: ClusterMeans) -> Float[Array, " clusters"]:
    """Log of 1 / g_k beyond its dependence on the number of members, which the law of the counts includes."""
    of_number = log_normalizers_at(target, state, jnp.maximum(means.count, 1))
    return of_number - target.loss.augmentation.log_normalizer(state.lambdas, means)
