"""The graph of rows that are together, against the matrix by its definition."""

import numpy as np
import pytest
from draws import draws_of

import bayesfair as bf
from bayesfair.posterior import co_clustering_graph, pairs, tables
from bayesfair.posterior.tree import build_tree
from bayesfair.posterior.view import View

N_OBS, N_CLUSTERS = 40, 3


def tree_of(labels, names=None):
    """With rows in two groups, turn by turn."""
    n_obs = labels.shape[2]
    X = np.zeros((n_obs, 1))
    draws = draws_of(labels.astype(np.int8), lp=np.zeros(labels.shape[:2]))
    groups = np.resize(["a", "b"], n_obs)
    return build_tree(draws, X, groups, n_clusters=int(labels.max()) + 1, obs_names=names)


@pytest.fixture(scope="module")
def tree():
    """Rows of which some are together in every draw, and some in none."""
    rng = np.random.default_rng(1)
    truth = np.arange(N_OBS) % N_CLUSTERS
    kind = np.minimum(np.arange(N_OBS), 25) // 2 * 2  # twins, and fifteen that are alike
    drawn = np.where(rng.random((2, 10, N_OBS)) < 0.4, rng.integers(N_CLUSTERS, size=(2, 10, N_OBS)), truth)[..., kind]
    labels = np.stack([[rng.permutation(N_CLUSTERS)[draw] for draw in chain] for chain in drawn])
    return tree_of(labels, [f"row {i}" for i in range(N_OBS)])


def shares(tree):
    """By a double loop."""
    flat = tree["posterior"]["labels"].values.reshape(-1, N_OBS)
    return np.array([[(flat[:, i] == flat[:, j]).mean() for j in range(N_OBS)] for i in range(N_OBS)])


@pytest.mark.parametrize(("threshold", "tile"), [(0.5, 3), (0.55, 2_048), (1e-9, 3)])
def test_edges_are_the_pairs_that_are_together_as_often(tree, threshold, tile, monkeypatch):
    monkeypatch.setattr(pairs, "TILE", tile)
    monkeypatch.setattr(tables, "_BLOCK_ROWS", 5 * N_CLUSTERS)  # draws are in blocks too
    eta, graph = shares(tree), co_clustering_graph(tree, threshold)
    names = tree["posterior"]["obs"].values.tolist()
    wanted = {(i, j): eta[i, j] for i in range(N_OBS) for j in range(i) if eta[i, j] >= threshold}
    assert len(wanted) > 30
    assert graph.number_of_edges() == len(wanted)
    assert {(i, j): graph.edges[names[i], names[j]]["probability"] for i, j in wanted} == wanted
    assert list(graph) == names


def test_nodes_say_who_they_are(tree):
    graph = co_clustering_graph(View(tree), 0.9)
    table = bf.posterior.memberships(tree)
    assert dict(graph.nodes(data="group")) == table["group"].to_dict()
    assert dict(graph.nodes(data="cluster")) == table["cluster"].to_dict()
    without = tree.copy()
    del without["constant_data"]
    assert set(co_clustering_graph(without).nodes["row 0"]) == {"cluster"}


def test_no_matrix_of_all_rows(monkeypatch):
    """5,000 rows that are all different: a matrix of them would be counted, of which only tiles are."""
    rng, seen, count = np.random.default_rng(0), [], pairs.count_together

    def told(*arguments):
        seen.append(count(*arguments))
        return seen[-1]

    monkeypatch.setattr(pairs, "count_together", told)
    labels = rng.integers(2, size=(1, 40, 5_000))
    graph = co_clustering_graph(tree_of(labels), 0.9)
    assert max(map(np.size, seen)) <= pairs.TILE**2
    assert len(seen) == 6
    one, other, edge = next(iter(graph.edges(data="probability")))
    assert edge == (labels[0, :, one] == labels[0, :, other]).mean()


def test_what_is_wrong_is_told(tree):
    n_edges = co_clustering_graph(tree, 0.4).number_of_edges()
    assert co_clustering_graph(tree, 0.4, max_edges=n_edges).number_of_edges() == n_edges
    for most in (n_edges - 1, 3):  # 3: rows that are alike are more already
        with pytest.raises(
            ValueError, match=rf"at most {most} edges at this threshold, got \d+ so far. Raise `threshold`"
        ):
            co_clustering_graph(tree, 0.4, max_edges=most)
    for threshold in (0, -0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="`threshold` must be a finite number above zero and at most 1"):
            co_clustering_graph(tree, threshold)
    with pytest.raises(TypeError, match="`threshold` must be a finite number"):
        co_clustering_graph(tree, "half")
    with pytest.raises(ValueError, match="name each row once, got 'x' 20 times"):
        co_clustering_graph(tree_of(tree["posterior"]["labels"].values, np.resize(["x", "y"], N_OBS)))
