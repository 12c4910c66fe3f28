"""The arrays by number; the axes by what they hold. How pictures look is checked by eye."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayesfair as bf
from bayesfair.plots.costs import elbow_costs
from bayesfair.plots.pairs import ordered_matrix
from bayesfair.plots.scatter import uncertainty_points
from bayesfair.plots.style import cluster_colors


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
    for arguments, text in (
        ({"columns": ("f0", "f9")}, "be among f0, f1, f2, f3, got 'f9'"),
        ({"columns": ("f0",)}, "`columns` must name two features"),
        ({"columns": (0, 4)}, "positions below 4"),
        ({"X": np.ones((3, 2))}, "one entry per row"),
    ):
        with pytest.raises(ValueError, match=text):
            bf.plots.uncertainty(tree, **arguments)


def test_uncertainty_draws_every_point_once_and_numbers_the_clusters_in_their_middle(make_tree):
    tree = make_tree(n_obs=200, n_clusters=12, n_groups=6)
    ax, points = bf.plots.uncertainty(tree), uncertainty_points(tree)
    assert sum(len(part.get_offsets()) for part in ax.collections) == 200
    assert [text.get_text() for text in ax.texts] == [str(cluster) for cluster in range(12)]
    np.testing.assert_allclose(ax.texts[5].get_position(), np.median(points.position[points.cluster == 5], axis=0))
    given = plt.subplots()[1]
    assert bf.plots.uncertainty(tree, ax=given) is given
    assert bf.plots.uncertainty(tree, figsize=(3, 2)).figure.get_size_inches().tolist() == [3, 2]
    with pytest.raises(ValueError, match="`figsize` must be left out if ax is given"):
        bf.plots.uncertainty(tree, ax=given, figsize=(3, 2))


def test_sure_rows_have_a_black_rim_and_no_others(make_tree):
    tree = make_tree(n_obs=60)
    sure = bf.posterior.sure_rows(tree)
    assert 10 < len(sure) < 60
    ax, points = bf.plots.uncertainty(tree, sure_rows=sure), uncertainty_points(tree)
    drawn = [
        (tuple(at), rim[:3].sum() == 0)
        for part in ax.collections
        for at, rim in zip(part.get_offsets(), part.get_edgecolors())
    ]
    rims = dict(drawn)
    assert [rims[tuple(at)] for at in points.position] == np.isin(np.arange(60), sure["position"]).tolist()
    assert "sure rows" in [text.get_text() for text in ax.get_legend().get_texts()]
    with pytest.raises(ValueError, match="`sure_rows` must name positions below 30"):
        bf.plots.uncertainty(make_tree(n_obs=30), sure_rows=sure)


def test_of_many_groups_the_two_largest_have_markers_of_their_own(make_tree):
    tree = make_tree(n_obs=200, n_groups=6)
    ax, group = bf.plots.uncertainty(tree), tree["constant_data"]["group"].values
    assert len({part.get_paths()[0].vertices.tobytes() for part in ax.collections}) == 3
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    first, second = np.argsort(-np.bincount(group), kind="stable")[:2]
    at = texts.index("group") + 1
    assert texts[at : at + 3] == [f"group {first}", f"group {second}", "4 other groups"]


def test_the_picture_is_as_high_as_its_legend(make_tree):
    for n_clusters in (3, 30):
        ax = bf.plots.uncertainty(make_tree(n_clusters=n_clusters))
        ax.figure.draw_without_rendering()
        assert ax.get_legend().get_window_extent().y0 > 0


def test_of_many_rows_some_are_drawn_in_the_sizes_of_the_legend_and_the_title_says_so(make_tree):
    """Many points are drawn smaller; the sizes that explain them must shrink with them."""
    for n_obs in (60, 6_000):
        tree = make_tree(n_obs=n_obs)
        ax = bf.plots.uncertainty(tree)
        points = uncertainty_points(tree)
        drawn = np.concatenate([part.get_sizes() for part in ax.collections])
        assert len(drawn) == min(n_obs, 1_000)
        assert ("1,000 of 6,000 rows are drawn" in ax.get_title()) == (n_obs == 6_000)
        legend = ax.get_legend()
        texts = [text.get_text() for text in legend.get_texts()]
        area = {text: mark.get_markersize() ** 2 for text, mark in zip(texts, legend.legend_handles)}
        slope = (area["0.75"] - area["0.0"]) / 0.75
        shares = np.linspace(0, 1, len(drawn))
        of_all = np.quantile(area["0.0"] + slope * points.probability, shares)
        np.testing.assert_allclose(np.sort(drawn), of_all, atol=0.1 * slope)


def test_rows_far_from_all_others_are_outside_of_the_view(make_tree):
    tree = make_tree(n_obs=400, dim=2)
    far = bf.plots.uncertainty(tree).get_xlim()
    tree["observed_data"]["X"][7] = [1_000.0, 0.0]
    ax = bf.plots.uncertainty(tree)
    assert ax.get_title().endswith("1 row is outside of the view")
    np.testing.assert_allclose(ax.get_xlim(), far, atol=0.2 * np.ptp(far))


def test_ten_clusters_have_colours_far_apart():
    colors = cluster_colors(10)[:, :3]
    apart = np.abs(colors[:, None] - colors).sum(axis=2)[~np.eye(10, dtype=bool)]
    assert apart.min() > 0.3  # neighbours among ten colours of viridis are 0.15 apart


def test_the_profile_of_uncertainty_falls_for_all_rows_and_for_every_cluster(make_tree):
    tree = make_tree()
    ax, cluster = bf.plots.uncertainty_profile(tree), tree["constant_data"]["reference_labels"].values
    doubt = bf.posterior.misclassification_probability(tree, reference=cluster)
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    assert list(lines) == ["all rows", "cluster 0", "cluster 1", "cluster 2"]
    for name, rows in (("all rows", doubt), ("cluster 2", doubt[cluster == 2])):
        shares, heights = lines[name][1:].T
        np.testing.assert_allclose(shares, (np.arange(len(rows)) + 1) / len(rows))
        np.testing.assert_allclose(heights, np.sort(rows)[::-1])


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
    drawn, apart = np.asarray(ax.images[0].get_array()), ~np.eye(60, dtype=bool)
    np.testing.assert_array_equal(drawn[apart], ordered.matrix[apart])
    assert drawn[30, 30] == (drawn[29, 30] + drawn[30, 31]) / 2  # and no line of ones


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
    assert labels[0] == "clustering loss\nR-hat infinite"
    assert labels[1] == f"gap\nR-hat {table.loc['gap', 'r_hat']:.3f}"
    assert len(labels) == 6 < len(table) - 4
    assert not any("fairlet" in label for label in labels)
    shown = [float(label.split()[-1].replace("infinite", "inf")) for label in labels]
    assert shown == sorted(shown, reverse=True)
    others = table.drop([label.split("\n")[0].replace(" ", "_") for label in labels])["r_hat"]
    assert min(shown) >= others.max() - 0.01  # to two digits
    one = bf.plots.trace(tree.isel(chain=[0]))
    assert {ax.get_ylabel().split("\n")[-1] for ax in one[:, 0]} == {"no R-hat"}
    (sizes,) = bf.plots.trace(tree, var_names=["cluster_size_2"])
    assert sizes[0].get_ylabel().split("\n")[:2] == ["size of the 2nd largest", "cluster"]


def test_trace_of_zeros_and_ones_is_their_share_in_a_window_and_whole_numbers_share_bins_alike(make_tree):
    tree = make_tree(draws=60)
    scalars = bf.posterior.diagnostic_vars(tree, constant=True)
    name = next(name for name in scalars if name.startswith("together") and 0 < scalars[name].mean() < 1)
    axes = bf.plots.trace(tree, var_names=[name, "cluster_size_1"])
    ones = scalars[name].values[0]
    np.testing.assert_allclose(axes[0, 0].lines[0].get_ydata(), (ones[:-2] + ones[1:-1] + ones[2:]) / 3, atol=1e-12)
    assert "share of 3 draws" in axes[0, 0].get_ylabel()
    edges = np.unique(axes[1, 1].patches[0].get_xy()[:, 0])
    assert (np.diff(edges) == 1).all()


@pytest.mark.slow
def test_trace_of_a_run_in_which_nothing_moved_or_by_one_step_of_rounding(make_tree):
    assert bf.plots.trace(make_tree().isel(draw=[0] * 8, chain=[0, 0])).shape == (6, 2)
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


def test_components_of_equal_rows_and_of_columns_far_from_zero(make_tree):
    """Equal rows have no variance to share; products of columns far from zero cancel."""
    tree = make_tree()
    near = uncertainty_points(tree)
    tree["observed_data"]["X"][:] = tree["observed_data"]["X"] + 1e6
    np.testing.assert_allclose(uncertainty_points(tree).position, near.position, atol=1e-6)
    tree["observed_data"]["X"][:] = 1.0
    assert uncertainty_points(tree).axes[0] == "principal component 1 (0% of variance)"
