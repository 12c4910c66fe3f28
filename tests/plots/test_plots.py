"""The arrays by number; the axes by what they hold. How pictures look is checked by eye."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayesfair as bf
from bayesfair.plots.elbow_plot import elbow_costs
from bayesfair.plots.matrix import ordered_matrix
from bayesfair.plots.style import MARKERS, cluster_colors
from bayesfair.plots.uncertainty_plot import uncertainty_points


def test_points_are_the_principal_components_with_the_posterior_of_each(make_tree):
    tree = make_tree()
    X = tree["observed_data"]["X"].values
    points = uncertainty_points(tree)
    variances = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    np.testing.assert_allclose(points.position.var(0, ddof=1), variances[:2])
    reference = tree["constant_data"]["reference_labels"].values
    expected = bf.posterior.misclassification_probability(tree, reference=reference)
    np.testing.assert_allclose(points.probability, expected)
    np.testing.assert_array_equal(points.cluster, reference)
    np.testing.assert_array_equal(points.group, tree["constant_data"]["group"])
    assert points.groups == ("group 0", "group 1")
    assert "% of variance" in points.axes[0]


def test_points_take_columns_by_name_and_place(make_tree):
    tree = make_tree()
    X = tree["observed_data"]["X"].values
    points = uncertainty_points(tree, columns=("f3", 0))
    np.testing.assert_array_equal(points.position, X[:, [3, 0]])
    assert points.axes == ("f3", "f0")
    other = pd.DataFrame({"income": X[:, 0] * 2, "age": X[:, 1]})
    points = uncertainty_points(tree, other)
    np.testing.assert_array_equal(points.position, other)
    assert points.axes == ("income", "age")
    one = uncertainty_points(make_tree(dim=1))
    assert one.axes == ("f0", "row")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"columns": ("f0", "f9")}, "be among f0, f1, f2, f3, got 'f9'"),
        ({"columns": ("f0",)}, "`columns` must name two features"),
        ({"columns": (0, 4)}, "positions below 4"),
        ({"X": np.ones((3, 2))}, "one entry per row"),
    ],
)
def test_bad_columns_are_told(make_tree, arguments, text):
    with pytest.raises(ValueError, match=text):
        bf.plots.uncertainty(make_tree(), **arguments)


def test_uncertainty_draws_every_point_once(make_tree):
    tree = make_tree(n_obs=200, n_clusters=12, n_groups=6)
    ax = bf.plots.uncertainty(tree)
    assert sum(len(part.get_offsets()) for part in ax.collections) == 200
    assert len({part.get_paths()[0].vertices.tobytes() for part in ax.collections}) == 6  # markers
    given = plt.subplots()[1]
    assert bf.plots.uncertainty(tree, ax=given) is given


def test_groups_beyond_the_markers_are_not_told_apart_and_the_legend_says_so(make_tree):
    total = len(MARKERS) + 3
    ax = bf.plots.uncertainty(make_tree(n_obs=200, n_groups=total))
    assert len({part.get_paths()[0].vertices.tobytes() for part in ax.collections}) == 1
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"{total} groups: not told apart" in texts
    assert len(texts) == len({*texts})  # and no group's name is there, which would be a number like a cluster's


def test_the_legend_shows_marks_in_the_size_they_have(make_tree):
    """Many points are drawn smaller; the sizes that explain them must shrink with them."""
    for n_obs in (60, 6_000):
        tree = make_tree(n_obs=n_obs)
        ax = bf.plots.uncertainty(tree)
        points = uncertainty_points(tree)
        drawn = np.concatenate([part.get_sizes() for part in ax.collections])
        legend = ax.get_legend()
        texts = [text.get_text() for text in legend.get_texts()]
        area = {text: mark.get_markersize() ** 2 for text, mark in zip(texts, legend.legend_handles)}
        slope = (area["0.75"] - area["0.0"]) / 0.75
        np.testing.assert_allclose(np.sort(drawn), np.sort(area["0.0"] + slope * points.probability))


def test_ten_clusters_have_colours_far_apart():
    colors = cluster_colors(10)[:, :3]
    apart = np.abs(colors[:, None] - colors).sum(axis=2)[~np.eye(10, dtype=bool)]
    assert apart.min() > 0.3  # neighbours among ten colours of viridis are 0.15 apart


def test_profile_falls(make_tree):
    ax = bf.plots.uncertainty_profile(make_tree())
    heights = ax.collections[-1].get_offsets()[:, 1]
    assert (np.diff(heights) <= 0).all()
    reference = make_tree()["constant_data"]["reference_labels"].values
    expected = bf.posterior.misclassification_probability(make_tree(), reference=reference)
    np.testing.assert_allclose(np.sort(heights), np.sort(expected))


def test_matrix_is_in_block_order(make_tree):
    tree = make_tree()
    ordered = ordered_matrix(tree)
    cluster = tree["constant_data"]["reference_labels"].values
    doubt = bf.posterior.misclassification_probability(tree, reference=cluster)
    assert (np.diff(cluster[ordered.order]) >= 0).all()
    for k in range(3):
        assert (np.diff(doubt[ordered.order[cluster[ordered.order] == k]]) >= 0).all()
    np.testing.assert_array_equal(ordered.ends, np.cumsum(np.bincount(cluster)))
    whole = bf.posterior.co_clustering(tree)
    np.testing.assert_array_equal(ordered.matrix, whole[np.ix_(ordered.order, ordered.order)])
    ax = bf.plots.co_clustering(tree)
    np.testing.assert_array_equal(ax.images[0].get_array(), ordered.matrix)


def test_matrix_orders_by_doubt_about_the_clusters_it_shows(make_tree):
    """Where the point estimate and the MAP disagree, being sure of the MAP's cluster is no reason to come first."""
    tree = make_tree()
    cluster = tree["constant_data"]["reference_labels"].values
    stray = np.flatnonzero(cluster == 0)[0]
    tree["posterior"]["labels"][:, :, stray] = 1  # surely in cluster 1, shown in 0
    order = ordered_matrix(tree).order
    assert order[(cluster == 0).sum() - 1] == stray


def test_matrix_refuses_a_size_and_offers_a_sample(make_tree):
    tree = make_tree(n_obs=80)
    with pytest.raises(ValueError, match="Pass sample=50"):
        bf.plots.co_clustering(tree, max_obs=50)
    assert bf.plots.co_clustering(tree, sample=50, max_obs=50).images[0].get_array().shape == (50, 50)
    with pytest.raises(ValueError, match="`sample` must be an integer, between 1 and 80"):
        bf.plots.co_clustering(tree, sample=81)


def test_trace_has_a_row_per_scalar(make_tree):
    tree = make_tree()
    axes = bf.plots.trace(tree, var_names=["lp", "lambda_c"])
    assert axes.shape == (2, 2)
    np.testing.assert_array_equal(axes[0, 0].lines[1].get_ydata(), tree["sample_stats"]["lp"].values[1])
    assert bf.plots.trace(tree).shape[0] >= 4
    with pytest.raises(ValueError, match="'temperature'"):
        bf.plots.trace(tree, var_names=["temperature"])


def test_trace_shows_the_scalars_on_which_chains_agree_least_and_their_r_hat(make_tree):
    """A run looked fine in the first six of its scalars, while the one at R-hat 1.31 was not among them."""
    tree = make_tree()
    stats = tree["sample_stats"]
    stats["gap"] = stats["lp"] + 30 * stats["lp"]["chain"]  # the last of the scalars with a name
    stats["clustering_loss"] = stats["lp"] * 0 + stats["lp"]["chain"]  # chains that stand still at different values
    stats["fairlet_loss"] = stats["lp"] * 0  # nothing to see
    axes = bf.plots.trace(tree)
    labels = [ax.get_ylabel() for ax in axes[:, 0]]
    table = bf.posterior.summary(tree)
    assert labels[0] == "clustering loss\nR-hat inf"
    assert labels[1] == f"gap\nR-hat {table.loc['gap', 'r_hat']:.2f}"
    assert len(labels) == 6 < len(table) - 4
    assert not any("fairlet" in label for label in labels)
    shown = [float(label.split()[-1]) for label in labels]
    assert shown == sorted(shown, reverse=True)
    others = table.drop([label.split("\n")[0].replace(" ", "_") for label in labels])["r_hat"]
    assert min(shown) >= others.max() - 0.01  # to two digits
    one = bf.plots.trace(tree.isel(chain=[0]))
    assert {ax.get_ylabel().split("\n")[1] for ax in one[:, 0]} == {"no R-hat"}


def test_trace_of_a_run_in_which_nothing_moved(make_tree):
    still = make_tree().isel(draw=[0] * 8, chain=[0, 0])
    assert bf.plots.trace(still).shape == (6, 2)


def test_trace_of_a_scalar_that_moves_by_one_step_of_rounding(make_tree):
    tree = make_tree()
    for chain, lp in enumerate([-123.456, 1e17]):
        tree["sample_stats"]["lp"][:] = lp
        tree["sample_stats"]["lp"][chain, 3] = np.nextafter(lp, 0)
        bf.plots.trace(tree, var_names=["lp"])[0, 1].figure.canvas.draw()


def test_elbow_pays_for_balance():
    data = bf.datasets.make_well_specified()
    costs = elbow_costs(data.features, data.sensitive, range(2, 5))
    assert (costs.fair >= costs.plain * (1 - 1e-9)).all()
    assert (np.diff(costs.plain) < 0).all()
    ax = bf.plots.elbow(data.features, data.sensitive, (1, 2))
    total = ((data.features - data.features.mean()) ** 2).to_numpy().sum()
    np.testing.assert_allclose([line.get_ydata()[0] for line in ax.lines], total)
    with pytest.raises(ValueError, match="There are 50 fairlets"):
        elbow_costs(data.features, data.sensitive, [51])
