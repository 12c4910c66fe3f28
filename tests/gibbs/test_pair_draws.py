"""Exact draws of pairs of clusters leave the labels' law given the centres invariant: transition matrices on all labellings.

The matrix of a draw is made of what it publishes: where a line of counts leads, and who a group's counts are made of. Lines
depend on uniform numbers as whole numbers of halves, so that four of them stand for all.
"""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import (
    CAUGHT,
    QUICKLY,
    TOLERANCE,
    divergence,
    invariance_error,
    log_normalizers,
    normalise,
    some_centers,
    trials_law,
)
from exact_labels import EVERY, LAMBDA, all_states, tiny

from bayesfair._arrays import on_device
from bayesfair.gibbs import poisson_binomial
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.loss import cluster_means
from bayesfair.gibbs.moves import pair_draws

pytestmark = pytest.mark.usefixtures("x64")

OF_TRIALS = jax.jit(jax.vmap(jax.vmap(jax.vmap(trials_law, (None, 0)), (0, 1), 1)))  # states, groups, trials
FAR = 1e9  # as a reach: everybody is near the border


def given_centers(t, loss, centers):
    """p(z | m), from the formula, for k-means; the normalisers of other losses are the package's, tested elsewhere."""
    X = t.X - t.X.mean(0) if t.target.loss.translation_invariant else t.X
    paid = np.array([[w * divergence(loss, x, center) for center in centers] for x, w in zip(X, t.weight)])
    log = np.array([-LAMBDA * paid[np.arange(len(X)), label].sum() for label in t.labels])
    if loss == "kmeans":
        sizes = np.array([np.bincount(label, t.weight, t.target.n_clusters) for label in t.labels])
        return normalise(log + 0.5 * X.shape[1] * np.log(sizes).sum(1))
    return normalise(log - log_normalizers(t, LAMBDA, all_states))


def pairs_of(t):
    """The last clusters first, so that with three of them the one in the middle stays alone."""
    return on_device([[t.target.n_clusters - 1, 0]])


def lines(t):
    """(directions, cells): a mixed one, one group's, one group against another; a cell for every half, and a corner."""
    n_groups = t.target.n_groups
    one, other = np.eye(n_groups)[[0, -1]]
    ways = np.array([np.where(np.arange(n_groups) == n_groups - 1, 1, 0.5), one, one - other * (n_groups > 1)])
    cells = np.array([*product([0.25, 0.75], repeat=n_groups), np.zeros(n_groups)])
    return ways.astype(np.float32), cells.astype(np.float32)


def blocks_of(t, number=0, reach=FAR, block_of=pair_draws.block_of):
    """(block, tables, log laws of the groups' counts in it, who stays in either cluster) of every state."""
    target, pairs, centers = t.target, pairs_of(t), some_centers(t, 1)

    def of_state(state):
        near = pair_draws.near_rows(target, state._replace(centers=centers), pairs, reach)
        block = block_of(near, number, state.label)
        held, size = block.in_a.sum(-1), block.there.sum(-1)
        tilt = poisson_binomial.tilted_to(block.margin, block.there, held)
        tree = poisson_binomial.count_tree(block.margin + tilt[..., None], block.there)
        stay = target.counts(state.label)[pairs] - jnp.stack([held, size - held], 1)
        return block, tree, poisson_binomial.log_count_law(tree, tilt), stay

    return all_states(t, of_state)


whole_blocks = cache(blocks_of)


def laws_of(t, blocks=None):
    """(block, tables, counts, their laws) of every state, where one block is drawn along the lines of every direction, cell and
    beginning."""
    block, tree, log_laws, stay = blocks or whole_blocks(t)
    (ways, cells), centers, n_places = lines(t), some_centers(t, 1), 2 * log_laws.shape[-1] - 1

    def of_state(label, held, size, log_laws, stay):
        given = t.state(label)._replace(centers=centers)

        def ends(way, cell, begin):
            along = pair_draws.line(held, way[None], cell[None], begin[None], n_places)
            return along[0], jax.nn.softmax(pair_draws.log_line_law(t.target, given, stay, size, log_laws, along)[0])

        of_begins = jax.vmap(ends, (None, None, 0))
        of_cells = jax.vmap(of_begins, (None, 0, None))
        return jax.vmap(of_cells, (0, None, None))(ways, cells, jnp.arange(1 - n_places, 1))

    compiled = jax.jit(jax.vmap(of_state), compiler_options=QUICKLY)
    return block, tree, *map(np.asarray, compiled(t.labels, block.in_a.sum(-1), block.there.sum(-1), log_laws, stay))


def matrices(t, told, log_rest=None, cells=slice(None, -1), begins=slice(None)):
    """The transition matrix for each direction, with cells and beginnings equally likely."""
    block, tree, along, law = told
    along, law = (part[:, :, cells, begins] for part in (along, law))
    first, log_rest = np.asarray(pairs_of(t))[0, 0], rest_of(t) if log_rest is None else log_rest
    there, row = block.there[:, 0], block.row[:, 0]  # (states, groups, rows)
    trials = np.where(there[:, None], (t.labels == first)[:, row].swapaxes(0, 1), 0).astype(np.int32)
    probability = np.asarray(OF_TRIALS([level[:, 0] for level in tree], trials)).prod(-1)
    found, in_pair = np.zeros((law.shape[1], *probability.shape)), np.isin(t.labels, np.asarray(pairs_of(t))[0])
    for s, label in enumerate(t.labels):
        fixed = np.ones(len(label), bool)
        fixed[row[s][there[s]]] = False
        reached = np.flatnonzero(((t.labels == label) | ~fixed & in_pair).all(1) & (in_pair == in_pair[s]).all(1))
        counts = trials[s, reached].sum(-1)
        kept = np.minimum(1, np.exp(log_rest[reached] - log_rest[s]))
        for way, matrix in enumerate(found):
            places, mass = along[s, way].reshape(-1, counts.shape[1]), law[s, way].ravel() / law[s, way][..., 0].size
            moved = probability[s, reached] * ((places == counts[:, None]).all(-1) * mass).sum(1)
            assert abs(moved.sum() - 1) < 1e-9, "a draw left the balanced labellings"
            matrix[s, reached] += moved * kept
            matrix[s, s] += (moved * (1 - kept)).sum()
    return found


def rest_of(t):
    """`log_rest` of every labelling, summed over the pair; zeros where nobody decides by it."""
    if not pair_draws.reads_who_moves(t.target):
        return np.zeros(len(t.labels))

    centers = some_centers(t, 1)

    def of_state(state):
        given = state._replace(centers=centers)
        return pair_draws.log_rest(t.target, given, pair_draws.filled(t.target, given).means)[pairs_of(t)[0]].sum()

    return all_states(t, of_state)


def worst(t, loss, told, *wrong, **planted):
    pi = given_centers(t, loss, np.asarray(some_centers(t, 1)))
    return max(invariance_error(pi, P) for P in matrices(t, told, *wrong, **planted))


@pytest.mark.parametrize(("case", "loss"), EVERY[2:4])
def test_draws_of_a_pair_are_exact(case, loss):
    t = tiny(case, loss)
    pi = given_centers(t, loss, np.asarray(some_centers(t, 1)))
    for P in matrices(t, laws_of(t)):
        assert invariance_error(pi, P) < TOLERANCE
        np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=TOLERANCE)
        assert (np.diag(P) < 1 - 1e-3).any()


@pytest.mark.parametrize(("case", "reach"), [("sizes that do not divide", FAR), ("at least a third", 0.5)])
def test_blocks_of_few_rows_are_exact(case, reach, monkeypatch):
    monkeypatch.setattr(pair_draws, "BLOCK", 2)
    t = tiny(case)
    assert worst(t, "kmeans", laws_of(t, blocks_of(t, 1, reach))) < TOLERANCE


def test_the_rows_near_a_border_are_the_same_for_all_who_differ_within_pairs():
    for case in ("1:1, three clusters", "attributes"):
        t = tiny(case)
        pairs, centers = pairs_of(t), some_centers(t, 1)

        def laid_out(state):
            return pair_draws.near_rows(t.target, state._replace(centers=centers), pairs, 0.5)  # noqa: B023

        told = all_states(t, laid_out)
        seen = {}
        for s, label in enumerate(t.labels):
            who = tuple(np.isin(label, np.asarray(pairs)).tolist())
            fixed = [part[s].tolist() for part in (told.row, told.margin, told.first, told.size)]
            assert seen.setdefault(who, fixed) == fixed
        assert len(seen) < len(t.labels)


def test_planted_bugs_are_caught(monkeypatch):
    t, law = tiny("sizes that do not divide"), pair_draws.log_line_law
    told = laws_of(t)
    assert worst(t, "kmeans", told) < TOLERANCE
    assert worst(t, "kmeans", told, begins=[-1]) > CAUGHT  # one way only
    assert worst(t, "kmeans", told, cells=[-1]) > CAUGHT  # nothing drawn between whole numbers

    def of_another_group(target, state, stay, size, log_laws, along):
        return law(target, state, stay, size, log_laws[:, ::-1], along)

    def without_normalisers(target, state, size):
        return jnp.zeros(size.shape)

    for name, planted, case in (
        ("log_line_law", of_another_group, "1:1, three clusters"),
        ("log_normalizers_at", without_normalisers, "sizes that do not divide"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(pair_draws, name, planted)
            assert worst(tiny(case), "kmeans", laws_of(tiny(case))) > CAUGHT


def test_counts_that_ignore_the_other_cluster_leave_the_space(monkeypatch):
    t = tiny("1:1, three clusters")
    law = pair_draws.log_line_law

    def of_a_alone(target, state, stay, size, log_laws, along):
        class OneCluster:
            def satisfied(self, counts):
                return target.constraint.satisfied(counts[..., :1, :]) | jnp.zeros(counts.shape[:-1], bool)

        return law(replace(target, constraint=OneCluster()), state, stay, size, log_laws, along)

    monkeypatch.setattr(pair_draws, "log_line_law", of_a_alone)
    with pytest.raises(AssertionError, match="left the balanced labellings"):
        worst(t, "kmeans", laws_of(t))


def test_counts_that_ignore_sizes_leave_the_space(monkeypatch):
    t, law = tiny("sizes that do not divide, of 3 or 4"), pair_draws.log_line_law

    def of_balance_alone(target, *rest):
        return law(replace(target, constraint=target.constraint.balance), *rest)

    monkeypatch.setattr(pair_draws, "log_line_law", of_balance_alone)
    with pytest.raises(AssertionError, match="left the balanced labellings"):
        worst(t, "kmeans", laws_of(t))


def test_a_block_chosen_by_labels_is_caught(monkeypatch):
    monkeypatch.setattr(pair_draws, "BLOCK", 2)
    t = tiny("sizes that do not divide")

    def of_members(near, number, label):
        """Blocks begin with the members of the second cluster."""
        side = (label[near.row] == 0).astype(jnp.int32)
        segment = jnp.searchsorted(near.first.ravel(), jnp.arange(len(label)), side="right")
        by_side = near._replace(row=near.row[jnp.lexsort((side, segment))], size=jnp.minimum(near.size, 2))
        return pair_draws.block_of(by_side, 0, label)

    assert worst(t, "kmeans", laws_of(t, blocks_of(t, block_of=of_members))) > CAUGHT


def test_pairs_have_the_chances_asked_for():
    """Of the matchings of five clusters, by the chances of every sequence of pairs."""
    log_chances = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    chance = {(i, j): np.exp(log_chances[i, j]) for i in range(5) for j in range(i)}
    expected, total = np.zeros((5, 5)), sum(chance.values())
    for first in chance:
        free = {pair: chance[pair] for pair in chance if not set(pair) & set(first)}
        for second in free:
            mass = chance[first] / total * free[second] / sum(free.values())
            expected[first] += mass
            expected[second] += mass
    uniforms = jax.random.uniform(jax.random.PRNGKey(0), (20_000, 5, 5))
    matchings = jax.jit(jax.vmap(partial(pair_draws.random_matchings, number=1), (0, None)))(uniforms, log_chances)
    pairs = np.asarray(matchings)[:, 0]
    assert pairs.shape == (20_000, 2, 2)
    seen = np.zeros((5, 5))
    np.add.at(seen, tuple(pairs.reshape(-1, 2).T), 1 / len(pairs))
    np.testing.assert_allclose(seen, expected, atol=4 * np.sqrt(0.25 / len(pairs)))


def test_matchings_have_every_pair_once_before_any_twice():
    uniforms = jax.random.uniform(jax.random.PRNGKey(0), (50, 4, 4))
    of_three = jax.jit(jax.vmap(lambda u: pair_draws.random_matchings(u, jnp.zeros((4, 4)), 3)))
    for matchings in np.asarray(of_three(uniforms)):
        assert len({frozenset(pair.tolist()) for pair in matchings.reshape(-1, 2)}) == 6
        assert all(len(set(pairs.ravel().tolist())) == 4 for pairs in matchings)


@pytest.mark.parametrize("loss", ["kmeans", "kl"])
def test_chances_of_pairs_fall_with_the_divergence_of_their_centers_and_read_nothing_else(loss):
    t = tiny("1:1, three clusters", loss)
    centers = some_centers(t, 1)
    told = np.asarray(all_states(t, lambda state: pair_draws.log_chances(t.target, state._replace(centers=centers))))
    assert (told == told[0]).all()
    apart = np.array([[divergence(loss, a, b) for b in np.asarray(centers)] for a in np.asarray(centers)])
    apart = LAMBDA * t.weight.mean() * (apart + apart.T) / 2
    pairs = np.tril_indices(3, -1)
    right = np.maximum(-pair_draws.FALL * (apart[pairs] - apart[pairs].min()), pair_draws.LEAST)
    np.testing.assert_allclose(told[0][pairs], right, atol=1e-9)


def near(margins, reach):
    """(the bin of each margin, the first and last bin that are near) if both groups have these margins."""
    t = tiny("1:1, three clusters")

    @jax.jit
    def of(margins):
        bins = pair_draws.bin_of(margins)
        held = jnp.zeros((2, pair_draws.BINS), jnp.int32).at[:, bins].add(1)
        return bins, *pair_draws.near_bins(t.target, held, 1, reach)

    bins, first, last = map(np.asarray, of(margins))
    return bins, first[0], last[0]


def test_rows_on_both_sides_of_an_empty_border_are_near(monkeypatch):
    """Where the border of two clusters has no row, those on either side decide how many cross it."""
    monkeypatch.setattr(pair_draws, "BLOCK", 1)
    for low, high in ((-3.0, 3.0), (-1.0, 30.0)):
        bins, first, last = near(np.r_[np.linspace(low - 20, low, 25), np.linspace(high, high + 20, 25)], 0.0)
        assert first <= bins[24]
        assert last >= bins[25]
        assert ((bins >= first) & (bins <= last)).sum() <= 4


def test_rows_a_little_further_away_fill_a_block(monkeypatch):
    monkeypatch.setattr(pair_draws, "block_size", lambda n_obs, n_segments: 16)
    for reach, least in ((0.1, 8), (2.5, 24)):
        bins, first, last = near(np.linspace(-20.0, 20.0, 201), reach)
        assert least <= ((bins >= first) & (bins <= last)).sum() <= least + 8


def test_the_move_carries_out_what_the_laws_say():
    """Labels stay balanced; what is kept of the clusters is what the labels say."""
    t = tiny("1:1, three clusters", "kl")
    centers = some_centers(t, 1)

    def run(state):
        def one(key):
            given = state._replace(centers=centers)
            key_pairs, key_block = jax.random.split(key)
            (pairs,) = pair_draws.random_matchings(jax.random.uniform(key_pairs, (3, 3)), jnp.zeros((3, 3)), 1)
            near = pair_draws.near_rows(t.target, given, pairs, FAR)
            now = pair_draws.filled(t.target, given)
            return pair_draws.drawn_block(key_block, t.target, given, near, 0, now)

        return jax.vmap(one)(jax.random.split(jax.random.PRNGKey(3), 3))

    after = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), all_states(t, run))
    which = [t.index[tuple(label)] for label in after.label.tolist()]  # all are balanced
    counts, means = all_states(
        t, lambda state: (t.target.counts(state.label), cluster_means(t.target.units_of(state), 3))
    )
    np.testing.assert_array_equal(after.counts, counts[which])
    for told, right in zip(after.means, means):
        np.testing.assert_allclose(told, right[which], atol=1e-12)


def test_clusters_stay_balanced_where_odds_are_extreme():
    """In float32, from margins that are all alike to margins that overflow."""
    t = tiny("1:1, three clusters", dtype=np.float32)
    centers = some_centers(t, 1).astype(np.float32)

    @partial(jax.jit, compiler_options=QUICKLY)
    def run(keys, label, dispersion):
        def one(key):
            given = Labelling(label, dispersion, centers)
            return pair_draws.PairDraws()(key, t.target, given)[0].label

        return jax.vmap(one)(keys)

    keys = jax.random.split(jax.random.PRNGKey(0), 50)
    for label, scale in product(t.labels[::60], (1e-30, 1e6, 1e30)):
        for after in np.asarray(run(keys, label, np.float32(scale))):
            assert tuple(after.tolist()) in t.index
