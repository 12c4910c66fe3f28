"""The profile of clusters: texts and colours by number. How the picture looks was checked by eye."""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import bayesfair as bf
from bayesfair.plots.profile_plot import profile_grid


def test_texts_are_in_the_units_of_the_table_and_colours_in_standard_deviations():
    table = pd.DataFrame({"age": [20.0, 30.0, 60.0, 70.0], "town": ["York", "York", "York", "Hull"]})
    grid = profile_grid(bf.posterior.profile(["a", "a", "b", "b"], table, sensitive_features=list("fmfm")))
    assert grid.lines == ["age", "town: Hull", "town: York", "f", "m"]
    assert grid.columns == ["everyone\n4 rows", "a\n2", "b\n2"]
    assert grid.n_features == 3
    assert grid.text[[0, 2, 3]].tolist() == [["45", "25", "65"], ["75%", "100%", "50%"], ["50%", "50%", "50%"]]
    assert np.isnan(grid.shade[:, 0]).all()
    np.testing.assert_allclose(grid.shade[0, 1:], [-20 / table["age"].std(ddof=0), 20 / table["age"].std(ddof=0)])
    np.testing.assert_allclose(grid.shade[3:, 1:], 0)
    few = profile_grid(bf.posterior.profile(["a", "a", "b", "b"], table), max_lines=1)
    assert few.lines == ["age"]


def test_the_picture_is_wider_for_many_clusters_and_for_long_names(make_tree):
    usual, many, long = make_tree(), make_tree(n_clusters=20), make_tree(dim=1, feature_names=["a long name " * 10])
    widths = [bf.plots.profile(tree).figure.get_figwidth() for tree in (usual, many, long)]
    assert widths[0] == 7
    assert min(widths[1:]) > 9


def test_every_cell_is_written_on_axes_of_ones_own(make_tree):
    tree, given = make_tree(), plt.subplots()[1]
    assert bf.plots.profile(tree, ax=given) is given
    cells = [text.get_text() for text in given.texts]
    assert cells == profile_grid(bf.posterior.profile(tree)).text.ravel().tolist()
