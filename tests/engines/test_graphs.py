"""The normalised cut of affinities and graphs that are given."""

import pickle
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

import bayesfair as bf
from bayesfair._affinities import nearest_neighbors, nodes_of_graph, nodes_of_matrix, spectral_points
from bayesfair.engines.variational import NEIGHBOURS, links_of

KARATE = nx.karate_club_graph()
CLUB = [club for _, club in KARATE.nodes(data="club")]
WEIGHTS = nx.to_numpy_array(KARATE)


def cut(k=2, **settings):
    return bf.VariationalFairClustering(k, objective="ncut", n_init=4, random_state=0, **settings)


def given(k=2, **settings):
    return cut(k, affinity="precomputed", **settings)


def same(one, other):
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.objective_trace_, other.objective_trace_)
    np.testing.assert_array_equal(one.soft_assignment_, other.soft_assignment_)
    assert (one.cost_, one.fairness_error_) == (other.cost_, other.fairness_error_)


@pytest.mark.slow
def test_the_affinity_that_is_built_gives_the_same_where_it_is_passed():
    rng = np.random.default_rng(0)
    X, groups, weight = rng.normal(size=(60, 2)), rng.choice(["f", "m"], 60), rng.integers(1, 4, 60)
    built = cut(n_neighbors=5).fit(X, sensitive_features=groups, sample_weight=weight)
    W = nearest_neighbors((X - X.mean(0)), 5)
    for matrix in (8 * W.tocoo(), W.toarray()):
        same(given().fit(matrix, sensitive_features=groups, sample_weight=weight), built)
    np.testing.assert_array_equal(built.cluster_centers_.shape, (2, 2))


def test_fewer_neighbours_are_another_affinity():
    X = np.random.default_rng(0).normal(size=(60, 2))
    wide, narrow = (nearest_neighbors(X, n) for n in (NEIGHBOURS, 5))
    assert narrow.nnz < wide.nnz / 2
    np.testing.assert_array_equal(wide.toarray(), wide.toarray().T)
    assert set(narrow.data) == {0.5, 1.0}


@pytest.fixture(scope="module")
def blocks():
    """Four blocks, two of each group, of which two and two are tied: cuts fall between groups, or between pairs of blocks."""
    ties = 0.02 * np.ones((4, 4))
    ties[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.12
    np.fill_diagonal(ties, 0.4)
    graph = nx.stochastic_block_model([30] * 4, ties, seed=1)
    for node, block in graph.nodes(data="block"):
        graph.nodes[node]["sex"] = "ffmm"[block] if node % 30 < 27 else "mmff"[block]
    return graph


def test_planted_blocks_are_found_and_fair_clusters_are_balanced(blocks):
    pairs = np.array([block // 2 for _, block in blocks.nodes(data="block")])
    sex = [sex for _, sex in blocks.nodes(data="sex")]
    unfair = cut(fairness_weight=0.0).fit(blocks, sensitive_features="sex")
    assert adjusted_rand_score(pairs, unfair.labels_) == 1
    assert bf.fairness.balance(unfair.labels_, sex) < 0.15
    fair = cut(fairness_weight=10.0).fit(blocks, sensitive_features="sex")
    assert bf.fairness.balance(fair.labels_, sex) > 0.8
    across = np.array([block in (0, 2) for _, block in blocks.nodes(data="block")])
    other = np.array([block in (0, 3) for _, block in blocks.nodes(data="block")])
    assert max(adjusted_rand_score(split, fair.labels_) for split in (across, other)) > 0.9
    assert fair.cost_ > unfair.cost_
    enough = cut(max_fairness_error=0.1).fit(blocks, sensitive_features="sex")
    assert enough.fairness_error_ <= 0.1


def same_affinity(one, other):
    one, other = one.affinity, other.affinity
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_graph_is_its_adjacency_matrix_dense_or_sparse():
    graph = nx.relabel_nodes(KARATE, {node: ("member", node) for node in KARATE})
    graph.add_edge(("member", 3), ("member", 3), weight=50.0)
    names, matrix = list(graph), nx.to_numpy_array(graph)
    frame = pd.DataFrame(matrix, names, names).rename(columns=str)
    for W in (frame, matrix.tolist(), sparse.coo_matrix(matrix)):
        same_affinity(nodes_of_matrix(W), nodes_of_graph(graph))
    wanted = cut().fit(graph, sensitive_features="club")
    same(cut().fit(graph, sensitive_features=pd.Series(CLUB, pd.Index(names, tupleize_cols=False))), wanted)
    same(given().fit(frame, sensitive_features=CLUB), wanted)
    assert wanted.n_features_in_ == len(names)


def test_edges_without_a_weight_count_one():
    graph = nx.Graph(KARATE)
    for _, _, known in graph.edges(data=True):
        del known["weight"]
    same_affinity(nodes_of_graph(graph), nodes_of_matrix((WEIGHTS > 0).astype(int)))


def test_the_cost_is_the_cut_and_knows_no_unit():
    fitted = given(fairness_weight=0.5).fit(WEIGHTS, sensitive_features=CLUB)
    s = np.eye(2)[fitted.labels_]
    wanted = 2 - sum(s[:, k] @ WEIGHTS @ s[:, k] / (WEIGHTS.sum(1) @ s[:, k]) for k in range(2))
    np.testing.assert_allclose(fitted.cost_, wanted, rtol=1e-5)
    for scale in (2.0**-900, 2.0**900):
        same(given(fairness_weight=0.5).fit(scale * WEIGHTS, sensitive_features=CLUB), fitted)


def test_a_sparse_affinity_stays_sparse():
    """Of a ring of 10,000 nodes, not a tenth of what the smallest dense array takes."""
    n = 10_000
    ring = sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1])
    tracemalloc.start()
    affinity = nodes_of_matrix(ring).affinity
    spectral_points(affinity, np.ones(n), 2, np.random.default_rng(0), np.arange(n) % 2)
    links = links_of(affinity, np.ones(n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n / 10
    assert np.count_nonzero(links.value) == ring.nnz


def test_rows_held_together_are_near_in_spectral_points():
    """Also where a weight of 2 stands for two rows of which each is tied to all others of the two."""
    W = np.kron(np.eye(2), np.ones((6, 6))) + 0.05
    np.fill_diagonal(W, 0)
    points = spectral_points(sparse.csr_array(W), np.ones(12), 2, np.random.default_rng(0))[0]
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    assert apart[:6, :6].max() < 0.2 * apart[:6, 6:].min()
    weight = np.resize([1, 2, 3], 12)
    copies = np.repeat(np.arange(12), weight)
    of_copies = sparse.csr_array(W[np.ix_(copies, copies)])
    repeated = spectral_points(of_copies, np.ones(len(copies)), 2, np.random.default_rng(0))[0]
    weighted = spectral_points(sparse.csr_array(W), weight, 2, np.random.default_rng(0))[0]
    for one, other in ((repeated, copies), (weighted, np.arange(12))):
        leading = one[:, -2:]
        gram = leading @ leading.T
        wanted = (weighted[:, -2:] @ weighted[:, -2:].T)[np.ix_(other, other)]
        np.testing.assert_allclose(gram, wanted, rtol=1e-2, atol=1e-2)


def test_fair_spectral_points_have_one_mean_in_every_group():
    """In the weights given; and where they are two of four blocks, fair pairs of blocks are nearer than unfair ones."""
    W = np.kron(np.eye(4), np.ones((8, 8))) + 0.01
    np.fill_diagonal(W, 0)
    code, block, weight = np.repeat([0, 0, 1, 2], 8), np.repeat(np.arange(4), 8), np.resize([1.0, 2.0], 32)
    points = spectral_points(sparse.csr_array(W), weight, 2, np.random.default_rng(0), code)[0]
    means = [np.average(points[code == g], axis=0, weights=weight[code == g]) for g in range(3)]
    np.testing.assert_allclose(means, [means[0]] * 3, atol=1e-8)
    plain = spectral_points(sparse.csr_array(W), weight, 2, np.random.default_rng(0))[0]
    assert np.ptp([plain[code == g].mean(0) for g in range(3)], axis=0).max() > 0.1
    middles = [points[block == one].mean(0) for one in range(4)]
    assert np.linalg.norm(middles[0] - middles[1]) > 10 * np.linalg.norm(middles[2] - middles[3])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fairness_error_ is infinite")  # where fairness has no weight
def test_as_many_clusters_as_nodes_and_nodes_that_are_alike():
    alone = given(4, fairness_weight=0.0).fit(np.ones((4, 4)), sensitive_features=[0, 1, 0, 1])
    assert sorted(alone.labels_) == [0, 1, 2, 3]
    star = nx.star_graph(6)
    labels = cut(3, fairness_weight=0.0).fit(star, sensitive_features=np.resize(["a", "b"], 7)).labels_
    assert len(set(labels)) == 3


def test_new_rows_have_no_place():
    est = cut().fit(KARATE, sensitive_features="club")
    with pytest.raises(ValueError, match="Clusters of a graph or"):
        pickle.loads(pickle.dumps(est)).predict(WEIGHTS)
    with pytest.raises(NotFittedError):
        given().predict(WEIGHTS)
    X = np.random.default_rng(0).normal(size=(34, 2))
    assert est.fit(X, sensitive_features=CLUB).predict(X).shape == (34,)
    assert not hasattr(est.fit(KARATE, sensitive_features="club"), "cluster_centers_")


def test_the_tags_say_what_is_taken():
    for est, precomputed in ((cut(), False), (given(), True), (clone(given()), True)):
        tags = est.__sklearn_tags__().input_tags
        assert (tags.pairwise, tags.sparse, tags.positive_only) == (precomputed,) * 3


def graph_of(*edges, kind=nx.Graph, club=True):
    graph = kind()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0), *edges])
    for node in graph:
        graph.nodes[node]["club"] = "f" if node in "ac" else "m"
    if not club:
        del graph.nodes["c"]["club"]
    return graph


def isolated(graph):
    graph.add_node("e", club="f")
    return graph


def entry(row, column, value, kind=np.asarray):
    W = np.ones((4, 4))
    W[row, column] = value
    return kind(W)


FM = ["f", "m", "f", "m"]
PASSED = {"affinity": "precomputed"}
BAD = [
    (isolated(graph_of()), "club", {}, r"by more than 1e-12 .*, got no tie of node 'e'"),
    (graph_of(("e", "e", 2.0)), "club", {}, r"no tie of node 'e'. .* The diagonal does not count"),
    (graph_of(("d", "e", 1e-13)), "club", {}, "no tie of node 'e'"),
    (graph_of(("a", "d", -1.0)), "club", {}, "no negative affinities, got -1 between node '[ad]' and node"),
    (graph_of(("a", "d", "strong")), "club", {}, "numbers as `weight` of its edges, got 'strong' between"),
    (graph_of(kind=nx.DiGraph), "club", {}, r"undirected edges, got a DiGraph. .*pass affinity='precomputed'"),
    (graph_of(kind=nx.MultiGraph), "club", {}, "one edge between two nodes, got a MultiGraph"),
    (nx.Graph(), [], {}, "`X` must have edges, got 0 nodes"),
    (graph_of(), "sex", {}, "got 'sex', which is missing for node 'a' .4 such.. Known attributes: 'club'"),
    (graph_of(club=False), "club", {}, "'club', which is missing for node 'c'"),
    (graph_of(), pd.Series(FM), {}, r"got 0, 1, 2 but nodes begin with 'a', 'b', 'c'. .*loc\[list\(X\)\]"),
    (graph_of(), "club", {"objective": "kmeans"}, "be a table if objective='kmeans', got a graph. Pass objective"),
    (graph_of(), "club", {"n_neighbors": 5}, "`n_neighbors` must be left out if X is a graph"),
    (np.ones((4, 3)), FM, PASSED, r"square if affinity='precomputed', got the shape \(4, 3\)"),
    (entry(0, 2, 3), FM, PASSED, "symmetric, got 3 from row 0 to row 2 and 1 back"),
    (entry(1, 2, -3), FM, PASSED, "got -3 between row 1 and row 2. Pass similarities"),
    (entry(1, 2, np.nan), FM, PASSED, "`X` must be finite, got nan at row 1, column 2"),
    (entry(1, 2, np.nan, sparse.csr_array), FM, PASSED, "got nan between row 1 and row 2"),
    (sparse.csr_array(1j * np.eye(4)), FM, PASSED, "hold real numbers, got entries of type complex"),
    (np.eye(4), FM, PASSED, r"no tie of row 0 \(4 such\)"),
    (graph_of(), "club", {"n_clusters": 5}, "`n_clusters` must be .*There are 4 rows"),
    (sparse.csr_array(np.ones((4, 4))), FM, {}, "dense table, got a sparse csr_array"),
    (np.eye(4), FM, PASSED | {"objective": "kmeans"}, "`affinity` must be left out"),
    (np.ones((4, 4)), FM, PASSED | {"n_neighbors": 3}, "left out if affinity='pre"),
    (np.ones((4, 4)), FM, {"affinity": "rbf"}, "`affinity` must be one of 'nearest_neighbors', 'precomputed'"),
]


@pytest.mark.parametrize(("X", "groups", "settings", "text"), BAD)
def test_what_is_wrong_is_told(X, groups, settings, text):
    est = cut().set_params(**settings)
    with pytest.raises((ValueError, TypeError), match=text):
        est.fit(X, sensitive_features=groups)


def test_weights_leave_nobody_out():
    weight = np.ones(34)
    weight[3] = 0
    for est, X in ((cut(), KARATE), (given(), WEIGHTS)):
        with pytest.raises(
            ValueError, match="`sample_weight` must be above zero for a graph or an affinity, got 0 at row 3"
        ):
            est.fit(X, sensitive_features=CLUB, sample_weight=weight)
    with pytest.raises(ValueError, match="`sample_weight` must have the nodes as its index"):
        cut().fit(KARATE, sensitive_features="club", sample_weight=pd.Series(np.ones(34), range(1, 35)))
