"""Who is matched with whom, against counting pairs draw by draw."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import xarray as xr
from draws import draws_of, tree_of_draws

import bayesfair as bf
from bayesfair._draws import FairletDraws
from bayesfair._numbers import percent
from bayesfair.posterior import draws as labels_module
from bayesfair.posterior.pairs import matched_sentence
from bayesfair.posterior.tree import build_tree


def tree_of(fairlet, groups, names=None, kept=None):
    """A tree of these fairlets (chain, draw, obs), of the draws `kept` of twice as many where some are."""
    fairlet = np.asarray(fairlet, np.int32)
    chains, draws, n_obs = fairlet.shape
    labels = np.zeros((chains, draws if kept is None else 2 * draws, n_obs), np.int8)
    draws = draws_of(labels)._replace(fairlets=FairletDraws(fairlet, kept))
    X = np.random.default_rng(0).normal(size=(n_obs, 3))
    return build_tree(draws, X, groups, n_clusters=1, obs_names=names)


@pytest.fixture(scope="module")
def pairs():
    """One women and two men in each of six fairlets, the men at random: (chain, draw, obs)."""
    rng = np.random.default_rng(1)
    men = [[rng.permutation(np.repeat(np.arange(6), 2)) for _ in range(9)] for _ in range(2)]
    return np.concatenate([np.broadcast_to(np.arange(6), (2, 9, 6)), np.array(men)], axis=2)


GROUPS = ["w"] * 6 + ["m"] * 12
NAMES = [f"person {row}" for row in range(18)]


def by_hand(fairlet):
    flat = fairlet.reshape(-1, fairlet.shape[2])
    P = np.mean([draw[:, None] == draw for draw in flat], axis=0)
    return P - np.eye(len(P))


@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_probabilities_are_shares_of_draws(pairs, monkeypatch, block):
    monkeypatch.setattr(labels_module, "BLOCK", block)
    P = bf.posterior.fairlet_probability(tree_of(pairs, GROUPS))
    np.testing.assert_allclose(P.toarray(), by_hand(pairs), atol=1e-12)
    assert (P.data > 0).all()
    assert P.has_sorted_indices


def test_of_draws_that_are_kept_alone(pairs):
    tree = tree_of(pairs, GROUPS, kept=2 * np.arange(9))
    np.testing.assert_allclose(bf.posterior.fairlet_probability(tree).toarray(), by_hand(pairs), atol=1e-12)
    selected = tree.isel(chain=[1], kept_draw=[0, 3], missing_dims="ignore")
    expected = by_hand(pairs[1:, [0, 3]])
    np.testing.assert_allclose(bf.posterior.fairlet_probability(selected).toarray(), expected, atol=1e-12)


def test_no_array_has_a_cell_for_every_pair_of_rows():
    """80,000 rows would take 51 GB."""
    one = np.tile(np.arange(40_000), 2)
    other = np.concatenate([np.arange(40_000), np.roll(np.arange(40_000), 1)])
    P = bf.posterior.fairlet_probability(tree_of([[one, one, one, other]], ["a"] * 40_000 + ["b"] * 40_000))
    assert P.nnz == 4 * 40_000
    assert (P[0, 40_000], P[0, 40_001], P[0, 1]) == (0.75, 0.25, 0)


def test_sure_partners_are_counted_by_hand(pairs):
    fairlet = pairs.copy()
    fairlet[:, :, 6:8] = 0  # two men stay with the first woman
    fairlet[:, :, 8:] = np.maximum(fairlet[:, :, 8:], 1)
    most = by_hand(fairlet).max(1)
    assert (most[:6] >= 0.9).sum() == 1
    assert matched_sentence(tree_of(fairlet, GROUPS, NAMES)) == (
        "1 of 6 anchors have the same partner in at least 90% of the draws. Half of the rows are with their likeliest partner "
        f"in at least {percent(np.median(most))} of the draws."
    )


def test_of_hubs_rows_are_counted():
    hubs = tree_of([[[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 1, 0, 0, 0, 1, 1]]], ["a"] * 4 + ["b"] * 4)
    assert "of 8 rows" in matched_sentence(hubs)


def test_the_graph_has_the_pairs_above_the_threshold(pairs):
    P, threshold = by_hand(pairs), 0.3
    graph = bf.posterior.fairlet_graph(tree_of(pairs, GROUPS, NAMES), threshold)
    assert isinstance(graph, nx.Graph)
    assert dict(graph.nodes(data="group")) == dict(zip(NAMES, GROUPS))
    expected = {(NAMES[i], NAMES[j]): P[i, j] for i, j in combinations(range(18), 2) if P[i, j] >= threshold}
    told = {edge: data["probability"] for *edge, data in graph.edges(data=True) for edge in [tuple(edge)]}
    assert told == pytest.approx(expected)


def test_what_has_no_fairlets_is_refused_with_the_remedy(pairs):
    for summary in (bf.posterior.fairlet_probability, bf.posterior.fairlet_graph):
        with pytest.raises(ValueError, match=r"keep_fairlets=True"):
            summary(tree_of_draws())
        with pytest.raises(ValueError, match=r"keep every dimension"):
            summary(tree_of(pairs, GROUPS).isel(chain=0, missing_dims="ignore"))
    for bad in (0, -0.1, 1.5):
        with pytest.raises(ValueError, match=r"`threshold`"):
            bf.posterior.fairlet_graph(tree_of(pairs, GROUPS), bad)


def test_trees_of_several_runs_keep_them(pairs):
    tree = tree_of(pairs, GROUPS)
    both = bf.posterior.concatenate([tree, tree])
    assert both["posterior"]["fairlet"].sizes["chain"] == 4
    np.testing.assert_allclose(bf.posterior.fairlet_probability(both).toarray(), by_hand(pairs), atol=1e-12)
    xr.testing.assert_identical(bf.posterior.relabel(tree)["posterior"]["fairlet"], tree["posterior"]["fairlet"])
