"""Rows to point at in a notebook: what is handed to jupyter-scatter, which draws it. How it looks is checked by eye."""

import sys

import numpy as np
import pytest
from draws import tree_of_draws

import bayesfair as bf
from bayesfair.plots.scatter import uncertainty_points, usual_view
from bayesfair.plots.style import cluster_colors

NAMES = ["row", "cluster", "probability", "runner-up", "its probability", "group"]


@pytest.fixture
def scatter():
    return pytest.importorskip("jscatter", reason="jupyter-scatter is not installed")


def test_at_the_pointer_stands_what_memberships_say_of_the_row(scatter):
    tree = tree_of_draws()
    shown, table = bf.plots.explore(tree), bf.posterior.memberships(tree)
    told = shown.widget.data
    assert list(told) == shown.widget.tooltip_properties == NAMES
    assert told["row"].tolist() == [str(name) for name in table.index]
    assert told["cluster"].astype(int).tolist() == table["cluster"].tolist()
    assert told["group"].tolist() == table["group"].tolist()
    np.testing.assert_array_equal(told["probability"], table["probability"])
    np.testing.assert_array_equal(told["its probability"], table["runner_up_probability"])
    alone = table["runner_up"].isna().to_numpy()
    assert (told["runner-up"] == "none").tolist() == alone.tolist()
    assert told["runner-up"][~alone].astype(int).tolist() == table["runner_up"][~alone].tolist()


def test_positions_and_colours_are_those_of_uncertainty_and_doubt_is_large(scatter):
    tree = tree_of_draws(n_clusters=3)
    shown, points = bf.plots.explore(tree, columns=("f3", 0)), uncertainty_points(tree, columns=("f3", 0))
    low, high = usual_view(points.position)
    x, y, cluster, doubt = shown.widget.points.T
    np.testing.assert_allclose(np.c_[x, y], 2 * (points.position - low) / (high - low) - 1, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(cluster, points.cluster)
    np.testing.assert_allclose(doubt, points.probability, atol=1e-6)
    np.testing.assert_allclose(shown.widget.color[:3], cluster_colors(3))
    assert shown.widget.axes_labels == ["f3", "f0"]
    sizes = shown.widget.size
    assert sizes == sorted(sizes)


def test_clusters_of_ones_own_and_a_tree_without_groups(scatter):
    labels = [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    tree = bf.posterior.tree_from_labels(labels, [[0.0], [1.0], [8.0], [9.0]])
    told = bf.plots.explore(tree, reference=[0, 1, 1, 1]).widget.data
    assert told["cluster"].tolist() == ["0", "1", "1", "1"]
    assert list(told) == NAMES[:-1]


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jscatter", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesfair\[explore\]'"):
        bf.plots.explore(tree_of_draws())
