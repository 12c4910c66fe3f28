"""Exact draws of pairs of clusters leave the labels' law given the centres invariant: transition matrices on all labellings.

The matrix of a draw is made of what it publishes: where a line of counts leads, and who a group's counts are made of. Lines
depend on uniform numbers as whole numbers of halves, so that four of them stand for all.
"""

from dataclasses import replace
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import QUICKLY, divergence, invariance_error, is_norm, log_normalizers, normalise, some_centers, trials_law
from exact_labels import EVERY, LAMBDA, all_states, tiny

from bayesfair._arrays import on_device
from bayesfair.gibbs import poisson_binomial
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.loss import cluster_means
from bayesfair.gibbs.moves import pair_draws

pytestmark = pytest.mark.usefixtures("x64")

TOLERANCE, CAUGHT = 1e-10, 1e-4
OF_TRIALS = jax.jit(jax.vmap(trials_law, (None, 0)))
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
    """(directions, cells): a mixed one, one group's, one group against another; a cell for every half."""
    n_groups = t.target.n_groups
    one, other = np.eye(n_groups)[[0, -1]]
    ways = np.array([np.where(np.arange(n_groups) == n_groups - 1, 1, 0.5), one, one - other * (n_groups > 1)])
    cells = np.array(list(product([0.25, 0.75], repeat=n_groups)))
    return ways.astype(np.float32), cells.astype(np.float32)


def draw_matrices(t, centers, number=0, reach=FAR, line=pair_draws.line, block_of=pair_draws.block_of, cells=None):
    """The transition matrix of a draw of one block along a line of each direction."""
    target, pairs = t.target, pairs_of(t)
    ways, every = lines(t)
    cells = every if cells is None else cells

    def laws(state):
        given = state._replace(centers=on_device(centers))
        ordered = pair_draws.in_order(target, given, pairs, reach)
        block = block_of(ordered, number, state.label)
        held, size = block.in_a.sum(-1), block.there.sum(-1)
        tilt = poisson_binomial.tilted_to(block.margin, block.there, held)
        tree = poisson_binomial.count_tree(block.margin + tilt[..., None], block.there)
        log_laws = poisson_binomial.log_count_law(tree, tilt)
        counts = target.counts(state.label)
        stay = counts[pairs] - jnp.stack([held, size - held], 1)
        n_places = 2 * log_laws.shape[-1] - 1

        def ends(way, cell, begin):
            along = line(held, way[None], cell[None], begin[None], n_places)
            law = jax.nn.softmax(pair_draws.log_line_law(target, given, stay, size, log_laws, along)[0])
            return along[0], law

        begins = jnp.arange(1 - n_places, 1)
        of_begins = jax.vmap(ends, (None, None, 0))
        of_cells = jax.vmap(of_begins, (None, 0, None))
        return block, tree, jax.vmap(of_cells, (0, None, None))(ways, cells, begins)

    told = all_states(t, laws)
    block, tree, (along, law) = told
    log_rest = rest_of(t, centers)
    matrices = np.zeros((len(ways), len(t.labels), len(t.labels)))
    for s, label in enumerate(t.labels):
        there, row = block.there[s, 0], block.row[s, 0]
        fixed = np.ones(len(label), bool)
        fixed[row[there]] = False
        in_pair = np.isin(t.labels, np.asarray(pairs)[0])
        reached = np.flatnonzero(((t.labels == label) | ~fixed & in_pair).all(1) & (in_pair == in_pair[s]).all(1))
        trials = np.where(there, t.labels[:, row] == np.asarray(pairs)[0, 0], 0).astype(
            np.int32
        )  # of all: one shape for every state
        probability = np.ones(len(t.labels))
        for group in range(target.n_groups):
            own = [level[s, 0, group] for level in tree]
            probability *= np.asarray(OF_TRIALS(own, trials[:, group]))
        probability, counts = probability[reached], trials[reached].sum(-1)
        for way in range(len(ways)):
            places, mass = along[s, way].reshape(-1, target.n_groups), law[s, way].ravel() / law[s, way][..., 0].size
            towards = (places == counts[:, None]) @ np.ones(target.n_groups) == target.n_groups
            moved = probability * (towards * mass).sum(1)
            assert abs(moved.sum() - 1) < 1e-9, "a draw left the balanced labellings"
            kept = np.minimum(1, np.exp(log_rest[reached] - log_rest[s]))
            matrices[way, s, reached] += moved * kept
            matrices[way, s, s] += (moved * (1 - kept)).sum()
    return matrices


def rest_of(t, centers):
    """`log_rest` of every labelling, summed over the pair; zeros where nobody decides by it."""
    if not pair_draws.reads_who_moves(t.target):
        return np.zeros(len(t.labels))

    def of_state(state):
        given = state._replace(centers=on_device(centers))
        return pair_draws.log_rest(t.target, given, pair_draws.filled(t.target, given).means)[pairs_of(t)[0]].sum()

    return all_states(t, of_state)


def worst(t, loss, **planted):
    centers = np.asarray(some_centers(t, 1))
    pi = given_centers(t, loss, centers)
    return max(invariance_error(pi, P) for P in draw_matrices(t, centers, **planted))


@pytest.mark.parametrize(("case", "loss"), [pair for pair in EVERY if not is_norm(pair[1])])
def test_draws_of_a_pair_are_exact(case, loss):
    t = tiny(case, loss)
    centers = np.asarray(some_centers(t, 1))
    pi = given_centers(t, loss, centers)
    for P in draw_matrices(t, centers):
        assert invariance_error(pi, P) < TOLERANCE
        np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=TOLERANCE)
        assert (np.diag(P) < 1 - 1e-3).any()


@pytest.mark.parametrize(
    ("case", "reach"),
    [("sizes that do not divide", FAR), ("at least a third", 0.5), ("sizes that do not divide, of 3 or 4", 0.5)],
)
def test_blocks_of_few_rows_are_exact(case, reach, monkeypatch):
    monkeypatch.setattr(pair_draws, "BLOCK", 2)
    assert worst(tiny(case), "kmeans", number=1, reach=reach) < TOLERANCE


def test_the_order_is_the_same_for_all_who_differ_within_pairs():
    for case in ("1:1, three clusters", "three groups", "attributes"):
        t = tiny(case)
        pairs, centers = pairs_of(t), some_centers(t, 1)

        def laid_out(state):
            return pair_draws.in_order(t.target, state._replace(centers=centers), pairs, 0.5)  # noqa: B023

        told = all_states(t, laid_out)
        seen = {}
        for s, label in enumerate(t.labels):
            who = tuple(np.isin(label, np.asarray(pairs)).tolist())
            fixed = [part[s].tolist() for part in (told.row, told.margin, told.first, told.near)]
            assert seen.setdefault(who, fixed) == fixed
        assert len(seen) < len(t.labels)


def planted_line(held, direction, cell, begin, n_places):
    """One way only."""
    return pair_draws.line(held, direction, cell, jnp.maximum(begin, 0), n_places)


def test_planted_bugs_are_caught(monkeypatch):
    t = tiny("sizes that do not divide")
    law = pair_draws.log_line_law
    assert worst(t, "kmeans") < TOLERANCE
    assert worst(t, "kmeans", line=planted_line) > CAUGHT
    assert worst(t, "kmeans", cells=np.zeros((1, 2))) > CAUGHT  # nothing drawn between whole numbers

    def of_another_group(target, state, stay, size, log_laws, along):
        return law(target, state, stay, size, log_laws[:, ::-1], along)

    def without_normalisers(target, state, stay, size, log_laws, along):
        monkeypatch.setattr(pair_draws, "log_normalizers_at", lambda target, state, size: jnp.zeros(size.shape))
        told = law(target, state, stay, size, log_laws, along)
        monkeypatch.undo()
        return told

    for planted, case in ((of_another_group, "1:1, three clusters"), (without_normalisers, "sizes that do not divide")):
        with monkeypatch.context() as patch:
            patch.setattr(pair_draws, "log_line_law", planted)
            assert worst(tiny(case), "kmeans") > CAUGHT


def test_counts_that_ignore_the_other_cluster_leave_the_space(monkeypatch):
    t = tiny("1:1, three clusters")
    law = pair_draws.log_line_law

    def of_a_alone(target, state, stay, size, log_laws, along):
        class OneCluster:
            def satisfied(self, counts):
                return target.constraint.satisfied(counts[..., :1, :]) | jnp.zeros(counts.shape[:-1], bool)

        class Ignorant:
            def __getattr__(self, name):
                return OneCluster() if name == "constraint" else getattr(target, name)

        return law(Ignorant(), state, stay, size, log_laws, along)

    monkeypatch.setattr(pair_draws, "log_line_law", of_a_alone)
    with pytest.raises(AssertionError, match="left the balanced labellings"):
        worst(t, "kmeans")


def test_counts_that_ignore_sizes_leave_the_space(monkeypatch):
    t, law = tiny("sizes that do not divide, of 3 or 4"), pair_draws.log_line_law

    def of_balance_alone(target, *rest):
        return law(replace(target, constraint=target.constraint.balance), *rest)

    monkeypatch.setattr(pair_draws, "log_line_law", of_balance_alone)
    with pytest.raises(AssertionError, match="left the balanced labellings"):
        worst(t, "kmeans")


def test_a_block_chosen_by_labels_is_caught(monkeypatch):
    monkeypatch.setattr(pair_draws, "BLOCK", 2)
    t = tiny("sizes that do not divide")

    def of_members(ordered, number, label):
        """Blocks begin with the members of the second cluster."""
        side = (label[ordered.row] == 0).astype(jnp.int32)
        segment = jnp.searchsorted(ordered.first.ravel(), jnp.arange(len(label)), side="right")
        order = jnp.lexsort((ordered.margin, side, segment))
        near = ordered.near.at[1].set(2)
        by_side = ordered._replace(row=ordered.row[order], margin=ordered.margin[order], near=near)
        return pair_draws.block_of(by_side, 0, label)

    assert worst(t, "kmeans", block_of=of_members) > CAUGHT


def test_unequal_weights_that_nobody_decides_by_are_caught(monkeypatch):
    t = tiny("2:3, weighted", "kl")
    assert worst(t, "kl") < TOLERANCE
    monkeypatch.setattr(pair_draws, "reads_who_moves", lambda target: False)
    assert worst(t, "kl") > CAUGHT


def test_the_move_carries_out_what_the_laws_say():
    """Labels stay balanced; what is kept of the clusters is what the labels say."""
    t = tiny("1:1, three clusters", "kl")
    centers = some_centers(t, 1)

    def run(state):
        def one(key):
            given = state._replace(centers=centers)
            key_pairs, key_block = jax.random.split(key)
            pairs = pair_draws.random_pairs(jax.random.uniform(key_pairs, (3,)))
            ordered = pair_draws.in_order(t.target, given, pairs, FAR)
            now = pair_draws.filled(t.target, given)
            return pair_draws.drawn_block(key_block, t.target, given, ordered, 0, now)

        return jax.vmap(one)(jax.random.split(jax.random.PRNGKey(3), 10))

    after = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), all_states(t, run))
    assert all(tuple(label.tolist()) in t.index for label in after.label)
    counts, means = jax.jit(jax.vmap(lambda label: kept_of(t, t.state(label))))(after.label)
    np.testing.assert_array_equal(after.counts, counts)
    for told, right in zip(after.means, means):
        np.testing.assert_allclose(told, right, atol=1e-12)


def kept_of(t, state):
    return t.target.counts(state.label), cluster_means(t.target.units_of(state), t.target.n_clusters)


def test_clusters_stay_balanced_where_odds_are_extreme():
    """In float32, from margins that are all alike to margins that overflow."""
    t = tiny("1:1, three clusters", dtype=np.float32)
    centers = some_centers(t, 1).astype(np.float32)

    @partial(jax.jit, compiler_options=QUICKLY)
    def run(keys, label, dispersion):
        def one(key):
            given = Labelling(label, dispersion, centers)
            return pair_draws.drawn(key, t.target, given)

        return jax.vmap(one)(keys)

    keys = jax.random.split(jax.random.PRNGKey(0), 50)
    for label, scale in product(t.labels[::60], (1e-30, 1e6, 1e30)):
        for after in np.asarray(run(keys, label, np.float32(scale))):
            assert tuple(after.tolist()) in t.index
