"""Decompositions as matrices and graphs, and matrices of margins that exist, against enumeration."""

from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from bayesfair.fairlets import decompose, feasible_matrix, from_matrices, rectangular_loop

CASES = {  # sizes, composition
    "1:1": ((5, 5), "auto"),
    "1:2": ((4, 8), "auto"),
    "floor and ceiling": ((4, 7), "auto"),
    "three groups": ((3, 3, 6), "auto"),
    "hubs": ((6, 9), 3),
}


def found_of(name, **settings):
    sizes, composition = CASES[name]
    rng = np.random.default_rng(0)
    names = np.array(["a", "b", "c"])[rng.permutation(np.repeat(np.arange(len(sizes)), sizes))]
    rows = pd.Index([f"row {i}" for i in range(sum(sizes))])
    X = pd.DataFrame(rng.normal(size=(sum(sizes), 2)), index=rows)
    groups = pd.Series(names, index=rows)
    return decompose(X, groups, composition, random_state=0, **settings), X, groups


@pytest.mark.parametrize(("name", "dense"), [(name, name == "hubs") for name in CASES])
def test_a_decomposition_is_its_matrices(name, dense):
    found, X, groups = found_of(name, dissimilarity="manhattan")
    matrices = found.matrices()
    for group, H in matrices.items():
        assert H.shape == (len(found.composition), (groups == group).sum())
        np.testing.assert_array_equal(H.sum(0), 1)
        np.testing.assert_array_equal(H.sum(1), found.composition[:, list(matrices).index(group)])
    given = {group: H.toarray() for group, H in matrices.items()} if dense else matrices
    again = from_matrices(given, groups, X, dissimilarity="manhattan")
    np.testing.assert_array_equal(again.fairlet, found.fairlet)
    np.testing.assert_array_equal(again.composition, found.composition)
    assert again.cost == pytest.approx(found.cost)
    assert again.anchored == found.anchored
    assert not again.optimal
    assert np.isnan(from_matrices(given, groups).cost)


def test_fairlets_keep_the_numbers_of_their_rows():
    """And anchors are told by their group, wherever they are."""
    matrices = {"a": [[0, 1], [1, 0]], "b": [[1, 0], [0, 1]]}
    found = from_matrices(matrices, X=[[0.0], [5.0], [1.0], [7.0]])
    assert found.fairlet.tolist() == [1, 0, 0, 1]
    assert found.cost == 4**2 + 7**2
    for group, H in found.matrices().items():
        np.testing.assert_array_equal(H.toarray(), matrices[group])
    assert set(found.graph().edges) == {(1, 2), (0, 3)}


@pytest.mark.parametrize("name", CASES)
def test_the_graph_joins_members_with_their_anchor_or_hub(name):
    found, X, groups = found_of(name)
    graph = found.graph()
    assert {node: group for node, group in graph.nodes(data="group") if group} == groups.to_dict()
    fairlets = dict(graph.nodes(data="fairlet"))
    assert [fairlets[row] for row in X.index] == found.fairlet.tolist()
    assert nx.number_connected_components(graph) == len(found.composition)
    total = 0.0
    for one, other, far in graph.edges(data="distance"):
        assert fairlets[one] == fairlets[other]
        if found.anchored:
            assert far == pytest.approx(np.square(X.loc[one] - X.loc[other]).sum())
        total += far
    assert total == pytest.approx(found.cost)


def test_weights_are_what_the_loop_weighs_ones_by():
    found, X, groups = found_of("1:2")
    (name, weights), *others = found.weights(0.5).items()
    assert not others
    anchors = X[(groups != name).to_numpy()].to_numpy()
    far = np.square(anchors[:, None] - X[(groups == name).to_numpy()].to_numpy()).sum(-1)
    np.testing.assert_allclose(weights, np.exp(-0.5 * far))
    assert weights.shape == found.matrices()[name].shape
    with pytest.raises(ValueError, match="hub form has no `weights`"):
        found_of("hubs")[0].weights(0.5)


def exists(r, c, zeros):
    cells = (np.array(bits).reshape(zeros.shape) for bits in product((0, 1), repeat=zeros.size))
    return any((H.sum(1) == r).all() and (H.sum(0) == c).all() and not (H * zeros).any() for H in cells)


def test_a_feasible_matrix_is_found_where_there_is_one():
    rng, there = np.random.default_rng(0), []
    for _ in range(40):
        zeros = rng.random((3, 4)) < 0.3
        r = rng.integers(0, 4, 3)
        c = np.bincount(rng.integers(0, 4, r.sum()), minlength=4)
        there.append(exists(r, c, zeros))
        if not there[-1]:
            with pytest.raises(ValueError, match=r"No binary matrix has these margins: rows .* need \d+ ones, and"):
                feasible_matrix(r, c, zeros)
            continue
        H = feasible_matrix(r, c, zeros)
        np.testing.assert_array_equal(H.sum(1), r)
        np.testing.assert_array_equal(H.sum(0), c)
        assert not (H * zeros).any()
    assert 6 < sum(there) < 34


def test_the_error_names_the_cut():
    """Rows 0 and 2 need four ones: column 1 takes one, and column 2 at most one of each."""
    zeros = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 0]], bool)
    with pytest.raises(
        ValueError, match=r"rows 0, 2 need 4 ones, and the columns open to them, 1, 2, can .* at most 3\."
    ):
        feasible_matrix([2, 1, 2], [1, 1, 3], zeros)
    with pytest.raises(ValueError, match=r"sums\.$"):
        feasible_matrix([3, 0], [2, 1])


def test_the_loop_starts_from_margins_alone():
    weights = 1 - np.eye(4)
    H, _ = rectangular_loop(None, weights, 50, margins=([1, 2, 1, 1], [2, 1, 1, 1]))
    np.testing.assert_array_equal(H.sum(1), [1, 2, 1, 1])
    np.testing.assert_array_equal(H.sum(0), [2, 1, 1, 1])
    assert not H[np.eye(4, dtype=bool)].any()
    for H, margins in ((None, None), (np.eye(4), ([1] * 4, [1] * 4))):
        with pytest.raises(ValueError, match="`margins` must be given if and only if H is None"):
            rectangular_loop(H, weights, 50, margins=margins)


@pytest.mark.parametrize(
    ("matrices", "settings", "text"),
    [
        ({"a": np.eye(2), "b": [[1, 1], [1, 0]]}, {}, "a single one in every column, got 2 ones in column 0 of 'b'"),
        ({"a": np.eye(2), "b": 2 * csr_array(np.eye(2))}, {}, "a single one in every column, got other entries of 'b'"),
        ({"a": np.eye(2), "b": np.eye(3)}, {}, "a row for each fairlet in every group"),
        ({"a": np.eye(3)[:, :2], "b": np.eye(3)[:, :2]}, {}, "no empty fairlet, got one in row 2"),
        ({"a": np.eye(2), "b": np.eye(2)}, {"sensitive": ["a", "b", "b", "b"]}, "a column for each row of every group"),
        ({"a": np.eye(2), "b": np.eye(2)}, {"X": -np.ones((4, 1)), "dissimilarity": "kl"}, "be at least 0 for 'kl'"),
    ],
)
def test_bad_matrices_are_told(matrices, settings, text):
    with pytest.raises(ValueError, match=text):
        from_matrices(matrices, **settings)


@pytest.mark.parametrize(
    ("margins", "text"),
    [
        (([1, 1], [1]), "`column_sums` must have the total of `row_sums`, 2, got 1"),
        (([1.5], [1]), "`row_sums` must be whole numbers"),
        (([1], [1], np.zeros((2, 2))), "`zeros` must have the shape"),
    ],
)
def test_bad_margins_are_told(margins, text):
    with pytest.raises(ValueError, match=text):
        feasible_matrix(*margins)


def test_matrices_and_graphs_need_what_was_decomposed():
    alone = from_matrices({"a": np.eye(2), "b": np.eye(2)})
    with pytest.raises(ValueError, match=r"made of matrices alone has no `graph`. Remedy: pass from_matrices\(X=\)"):
        alone.graph()
    with pytest.raises(ValueError, match="each row is a fairlet has no `matrices`"):
        alone._replace(rows=None).matrices()
    X = pd.DataFrame({"x": [0.0, 1.0, 5.0, 6.0]}, index=["one", "two", "one", "three"])
    with pytest.raises(ValueError, match="`X` must name each row once, got 'one' 2 times"):
        decompose(X, ["a", "b", "a", "b"]).graph()
