"""Blocks of the contingency pass, every partition by enumeration, edges of credible balls, medoids."""

from types import SimpleNamespace

import arviz as az
import numpy as np
import pytest
import xarray as xr
from draws import draws_of
from partitions import every_partition, naive_vi, same

from bayesfair.posterior import (
    binder_partition,
    credible_ball,
    dahl_partition,
    diagnostic_vars,
    map_partition,
    partition_distance,
    relabel,
    summary,
    tables,
    vi_partition,
)
from bayesfair.posterior.tree import build_tree


def pairs_apart(first, second):
    return np.triu(same(first) != same(second), 1).sum()


def make_tree(labels, n_clusters, *, groups=None, seed=0, **scalars):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(labels.shape[2], 2))
    draws = draws_of(labels, **scalars)
    return build_tree(draws, X, groups, facts={"loss": "kmeans"}, n_clusters=n_clusters)


@pytest.fixture(scope="module")
def some():
    """A skewed sample of the 4,140 partitions of eight points, in two chains."""
    everything = every_partition(8, 8)
    assert len(everything) == 4140  # Bell's number
    rng = np.random.default_rng(3)
    return everything[rng.integers(0, 60, size=80) ** 2].reshape(2, 40, 8)


@pytest.fixture
def tiny_blocks(monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK_ROWS", 24)  # three draws of eight clusters: 27 blocks for 80 draws


def company_by(way, labels, n_clusters, monkeypatch):
    """`company` of all draws by the tables of their pairs, or by the matrix of observations."""
    with monkeypatch.context() as patched:
        patched.setattr(tables, "_MOST_COLUMNS", 0 if way == "tables" else 5_000)
        patched.setattr(tables, "_MATRIX_ENTRY", 0)
        _, by_matrix = tables._plan(None, len(labels), n_clusters, labels.shape[1])
        assert by_matrix == (way == "matrix")
        return tables.company(labels, n_clusters, None)


@pytest.fixture(scope="module")
def every_pair():
    """Every partition of six points into at most four clusters as a draw, and what the definitions say of each pair."""
    draws = every_partition(6, 4)
    assert len(draws) == 187  # S(6,1) + ... + S(6,4) = 1 + 31 + 90 + 65
    together = np.array([same(draw) for draw in draws])[:, np.triu(np.ones((6, 6), bool), 1)]
    split = ((1 - together)[:, None] * together).sum(2)
    vi = np.array([[naive_vi(s, t) for t in draws] for s in draws])
    return draws, SimpleNamespace(split=split, joined=split.T, vi=vi)


@pytest.mark.parametrize("way", ["tables", "matrix"])
def test_all_partitions_agree_with_their_definitions_in_many_blocks(tiny_blocks, every_pair, way, monkeypatch):
    draws, pairs = every_pair
    found = company_by(way, draws, 4, monkeypatch)
    eta = np.mean([same(draw) for draw in draws], axis=0)
    np.testing.assert_allclose(found.least_squares, [((same(draw) - eta) ** 2).sum() for draw in draws])
    np.testing.assert_allclose(found.binder(), (pairs.split + pairs.joined).mean(1))
    np.testing.assert_allclose(found.binder(a=2.0, b=5.0), (2 * pairs.split + 5 * pairs.joined).mean(1))
    known = tables.information(draws, 4, None)
    np.testing.assert_allclose(known.variation_of_information, pairs.vi.mean(1), atol=1e-12)


def test_both_ways_to_company_give_the_same_whole_numbers(monkeypatch):
    """Equal to the last bit, so that the draw that is chosen does not depend on which way was cheaper."""
    rng = np.random.default_rng(7)
    labels = np.repeat(rng.integers(5, size=(300, 40)).astype(np.int8), 3, axis=1)
    ways = [company_by(way, labels, 5, monkeypatch) for way in ("tables", "matrix")]
    for one, other in zip(*ways):
        np.testing.assert_array_equal(one, other)


def test_auto_counts_all_work_and_takes_every_draw_where_it_can():
    """40 observations with 80,000 draws took six minutes, all of them in the entries of tables of pairs of draws."""
    chosen, by_matrix = tables._plan("auto", 80_000, 3, 40)
    assert by_matrix
    assert len(chosen) == 80_000
    assert 5_000 < tables._most_by_tables("entropies", 3, 40) < 15_000


def test_estimates_do_not_depend_on_numbering_or_repeated_rows(some):
    """Observations that are always together are merged for speed: doubling every row must double every count."""
    rng = np.random.default_rng(5)
    renumbered = np.stack([[rng.permutation(8)[draw] for draw in chain] for chain in some]).astype(np.int8)
    for estimate in (dahl_partition, binder_partition, vi_partition):
        found = estimate(make_tree(some, 8))
        np.testing.assert_array_equal(same(estimate(make_tree(renumbered, 8))), same(found))
    trees = [make_tree(labels, 8)["posterior"] for labels in (some, renumbered)]  # with many ties between assignments
    for name in ("labels", "centers"):
        np.testing.assert_array_equal(trees[0][name], trees[1][name])
    doubled = np.repeat(some, 2, axis=2)
    both = [labels.reshape(80, -1) for labels in (some, doubled)]
    vi = [tables.information(labels, 8, None).variation_of_information for labels in both]
    np.testing.assert_allclose(vi[1], vi[0])
    losses = [tables.company(labels, 8, None).least_squares for labels in both]
    np.testing.assert_allclose(losses[1], 4 * losses[0])
    assert len(tables.distinct_observations(doubled.reshape(80, -1))[0]) == 8


def test_thinned_candidates_are_spread_over_all_draws(some):
    thinned = tables.information(some.reshape(-1, 8), 8, 5)
    np.testing.assert_array_equal(tables.company(some.reshape(-1, 8), 8, 5).draw, thinned.draw)
    np.testing.assert_array_equal(thinned.draw, [0, 19, 39, 59, 79])
    used = some.reshape(-1, 8)[thinned.draw]
    vi = [np.mean([naive_vi(s, t) for t in used]) for s in used]
    np.testing.assert_allclose(thinned.variation_of_information, vi, atol=1e-12)
    most = tables._most_by_tables
    assert most("squares", 10, 32_561) < 2_000 <= most("entropies", 3, 442)


@pytest.mark.parametrize(("max_draws", "error"), [("all", ValueError), (0, ValueError), (2.5, TypeError)])
def test_bad_max_draws_is_told(some, max_draws, error):
    with pytest.raises(error, match="`max_draws` must"):
        dahl_partition(make_tree(some, 8), max_draws=max_draws)


@pytest.mark.parametrize(
    ("metric", "distance"), [("vi", naive_vi), ("binder", lambda a, b: 2 / 64 * pairs_apart(a, b))]
)
def test_credible_ball_has_the_edges_of_wade_and_ghahramani(some, metric, distance):
    flat = some.reshape(-1, 8)
    ball = credible_ball(make_tree(some, 8), level=0.7, metric=metric)
    naive = np.array([distance(ball.estimate, draw) for draw in flat])
    np.testing.assert_allclose(ball.distance, naive, atol=1e-12)
    inside = naive <= ball.radius + 1e-12
    assert inside.mean() == ball.coverage >= 0.7 > (naive < ball.radius - 1e-12).mean()
    used = np.array([len(set(draw)) for draw in flat])
    choices = {
        "upper": inside & (used == used[inside].min()),
        "lower": inside & (used == used[inside].max()),
        "horizontal": inside,
    }
    assert used[choices["upper"]][0] < used[choices["lower"]][0]  # the bounds differ here
    for name, allowed in choices.items():
        edge = allowed & (naive >= naive[allowed].max() - 1e-12)
        expected = {tuple(same(draw).ravel()) for draw in flat[edge]}
        found = [tuple(same(draw).ravel()) for draw in getattr(ball, name)]
        assert set(found) == expected
        assert len(found) == len(expected)  # each partition once


def test_distances_are_of_draws_to_a_partition_and_nothing_else():
    assert partition_distance([[0, 1, 1], [2, 0, 0]], [1, 0, 0]).tolist() == [0, 0]
    for labels in ([0, 1, 1, 0], [[0, -1, 1]], [[0.0, 1.0, 1.0]], [["a", "b", "b"]], [[]]):
        with pytest.raises(ValueError, match="`labels` must be integers from 0 on, a row for each draw"):
            partition_distance(labels, [0, 1, 1])
    for partition in ([1], [0, -1, 1], [0.0, 1.0, 1.0], ["x", "y", "y"]):
        with pytest.raises(ValueError, match="`partition` must be 3 integer labels from 0 on"):
            partition_distance([[0, 1, 1]], partition)


def test_credible_ball_takes_a_centre_and_refuses_bad_ones(some):
    tree = make_tree(some, 8)
    center = np.zeros(8, dtype=int)
    distance = credible_ball(tree, estimate=center).distance
    np.testing.assert_allclose(distance, partition_distance(some.reshape(-1, 8).tolist(), center.tolist()))
    for arguments, text in (
        ({"estimate": center[:5]}, "8 integer labels"),
        ({"estimate": center - 1}, "8 integer labels"),
        ({"level": 1.0}, "between 0 and 1"),
        ({"metric": "rand"}, "'vi' or 'binder'"),
    ):
        with pytest.raises(ValueError, match=text):
            credible_ball(tree, **arguments)


def test_relabel_moves_everything_that_has_clusters(some):
    tree = make_tree(some, 8)
    rng = np.random.default_rng(0)
    extra = xr.DataArray(rng.normal(size=(2, 40, 3, 8)), dims=("chain", "draw", "other", "cluster"))
    tree["posterior"] = tree["posterior"].assign(weight=extra)
    reference = (7 - tree["posterior"]["labels"].values[1, 3]).astype(int)
    moved = relabel(tree, reference)
    for t in range(40):
        old, new = (source["posterior"]["labels"].values[1, t] for source in (tree, moved))
        for label in set(old):
            (target,) = set(new[old == label])
            before, after = (source["posterior"].isel(chain=1, draw=t) for source in (tree, moved))
            np.testing.assert_array_equal(after["weight"][:, target], before["weight"][:, label])
            np.testing.assert_array_equal(after["centers"][target], before["centers"][label])
    np.testing.assert_array_equal(moved["posterior"]["labels"][1, 3], reference)


def test_features_keep_their_type_and_centres_their_digits():
    """A year in float32: a mean that is summed up in float32 is off by a part of the spread."""
    rng = np.random.default_rng(0)
    X, labels = (2000 + rng.normal(size=(50_000, 1))).astype(np.float32), rng.integers(2, size=(1, 3, 50_000))
    tree = build_tree(draws_of(labels), X, None, facts={"loss": "kmeans"}, n_clusters=2)
    wide = build_tree(draws_of(labels), X.astype(float), None, facts={"loss": "kmeans"}, n_clusters=2)
    assert tree["observed_data"]["X"].dtype == np.float32
    assert wide["observed_data"]["X"].dtype == np.float64
    np.testing.assert_allclose(tree["posterior"]["centers"], wide["posterior"]["centers"], rtol=1e-9)


def test_empty_clusters_have_no_centre_and_trees_may_lack_groups_and_density(some):
    tree = make_tree(some, 8)
    used = np.array([len(set(draw)) for draw in some.reshape(-1, 8)]).reshape(2, 40)
    np.testing.assert_array_equal(np.isfinite(tree["posterior"]["centers"][..., 0]).sum("cluster"), used)
    assert "balance" not in tree["sample_stats"]
    assert "group" not in tree["constant_data"]
    assert "cluster_size_8" in diagnostic_vars(tree, constant=True)
    with pytest.raises(ValueError, match="hold `lp`"):
        map_partition(tree)
    with pytest.raises(ValueError, match="hold `labels`"):
        dahl_partition(tree["observed_data"])


@pytest.mark.parametrize(
    ("labels", "n_clusters", "text"),
    [
        (np.zeros((2, 3), int), 2, "chain, draw, obs"),
        (np.zeros((1, 2, 3)), 2, "chain, draw, obs"),
        (np.zeros((1, 0, 3), int), 2, "at least one"),
        (np.full((1, 2, 3), 2), 2, r"lie in \[0, 2\)"),
    ],
)
def test_bad_draws_are_told(labels, n_clusters, text):
    draws = draws_of(labels)
    with pytest.raises(ValueError, match=text):
        build_tree(draws, np.eye(3), None, n_clusters=n_clusters)


@pytest.mark.parametrize(("num_chains", "num_draws"), [(1, 1), (3, 2)])
def test_few_draws_summarise_without_warnings(num_chains, num_draws):
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=(num_chains, num_draws, 6)).astype(np.int8)
    lp = rng.normal(size=(num_chains, num_draws))
    table = summary(make_tree(labels, 2, lp=lp, groups=list("aababb")))
    np.testing.assert_allclose(table.loc["lp", "mean"], lp.mean())
    assert table["r_hat"].isna().all()


def test_summary_has_the_figures_of_arviz():
    lp = np.random.default_rng(4).normal(size=(3, 80))
    labels = np.random.default_rng(5).integers(2, size=(3, 80, 6)).astype(np.int8)
    row = summary(make_tree(labels, 2, lp=lp)).loc["lp"]
    theirs = az.summary(xr.Dataset({"lp": (("chain", "draw"), lp)}), round_to="none").loc["lp"]
    np.testing.assert_array_equal(row, theirs[row.index])
    np.testing.assert_allclose(row["ess_tail"], float(az.ess(lp, method="tail", prob=(0.11, 0.89))))
    np.testing.assert_allclose(row[["eti89_lb", "eti89_ub"]], np.quantile(lp, [0.055, 0.945]))
