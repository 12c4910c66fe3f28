"""Every summary against its definition, by enumeration and double loops on a few points."""

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from draws import draws_of
from partitions import naive_vi, same

import bayesfair as bf
from bayesfair.posterior import (
    binder_partition,
    co_clustering,
    dahl_partition,
    diagnostic_vars,
    map_partition,
    memberships,
    misclassification_probability,
    reference_partition,
    relabel,
    summary,
    tables,
    vi_partition,
)
from bayesfair.posterior.membership import label_sets
from bayesfair.posterior.tables import count_labels
from bayesfair.posterior.tree import build_tree, most_frequent

N_OBS, N_CLUSTERS = 9, 3


def some_draws(labels, seed=0):
    rng = np.random.default_rng(seed)
    names = ("lambda_f", "lambda_c", "lp", "fairlet_loss", "clustering_loss", "swap_rate", "reallocation_rate")
    return draws_of(labels, **{name: rng.normal(size=labels.shape[:2]) for name in names})


@pytest.fixture(scope="module")
def labels():
    """Two chains of 20 draws, every cluster used, each draw with its own numbering."""
    rng = np.random.default_rng(1)
    truth = np.arange(N_OBS) % N_CLUSTERS
    drawn = np.where(rng.random((2, 20, N_OBS)) < 0.35, rng.integers(N_CLUSTERS, size=(2, 20, N_OBS)), truth)
    drawn[..., :N_CLUSTERS] = np.arange(N_CLUSTERS)
    return np.stack([[rng.permutation(N_CLUSTERS)[draw] for draw in chain] for chain in drawn]).astype(np.int8)


@pytest.fixture(scope="module")
def tree(labels):
    X = np.random.default_rng(2).normal(size=(N_OBS, 2))
    groups = ["a", "b", "a", "b", "a", "b", "a", "b", "a"]
    return build_tree(some_draws(labels), X, groups, n_clusters=N_CLUSTERS)


@pytest.fixture(scope="module")
def eta(labels):
    flat = labels.reshape(-1, N_OBS)
    return np.array([[(flat[:, i] == flat[:, j]).mean() for j in range(N_OBS)] for i in range(N_OBS)])


@pytest.mark.parametrize("rows", [9, 2_000])  # of a block: three draws, and all
def test_co_clustering_is_the_share_of_draws(tree, eta, rows, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK_ROWS", rows)
    np.testing.assert_allclose(co_clustering(tree), eta, atol=1e-6)
    np.testing.assert_allclose(co_clustering(tree, indices=[5, 2]), eta[np.ix_([5, 2], [5, 2])], atol=1e-6)
    np.testing.assert_allclose(co_clustering(tree, indices=np.arange(9) == 4), 1)
    with pytest.raises(ValueError, match="only up to `max_obs` rows"):
        co_clustering(tree, max_obs=8)
    for indices in ([9], ["a"], [], 3, [[1, 2]], [0.5]):
        with pytest.raises(ValueError, match="`indices` must be positions of rows below 9"):
            co_clustering(tree, indices=indices)


@pytest.mark.parametrize(
    ("estimate", "loss"),
    [
        (dahl_partition, lambda s, flat, eta: ((same(s) - eta) ** 2).sum()),
        (binder_partition, lambda s, flat, eta: np.mean([np.abs(same(s) - same(t)).sum() for t in flat])),
        (vi_partition, lambda s, flat, eta: np.mean([naive_vi(s, t) for t in flat])),
        (
            lambda tree: binder_partition(tree, a=1.0, b=3.0),
            lambda s, flat, eta: np.mean([((1 - same(s)) * same(t) + 3 * same(s) * (1 - same(t))).sum() for t in flat]),
        ),
    ],
    ids=["dahl", "binder", "vi", "binder 1:3"],
)
def test_point_estimates_have_the_least_expected_loss_of_all_draws(tree, labels, eta, estimate, loss):
    flat = labels.reshape(-1, N_OBS)
    losses = [loss(s, flat, eta) for s in flat]
    np.testing.assert_allclose(loss(estimate(tree), flat, eta), min(losses))
    assert max(losses) > min(losses) + 0.01  # another draw would have been wrong


def test_map_is_the_draw_of_highest_density(tree, labels):
    best = labels.reshape(-1, N_OBS)[np.argmax(tree["sample_stats"]["lp"].values)]
    np.testing.assert_array_equal(same(map_partition(tree)), same(best))


def test_misclassification_is_one_minus_the_probability_of_the_cluster(tree, labels):
    """Of the reference, and of another partition, for which draws are numbered anew."""
    other = labels.reshape(-1, N_OBS)[np.argmin(tree["sample_stats"]["lp"].values)]
    for reference in (None, other):
        told = misclassification_probability(tree, reference=reference)
        np.testing.assert_allclose(told, 1 - memberships(tree, reference=reference)["probability"])
    assert misclassification_probability(tree, reference=np.arange(N_OBS)).shape == (
        N_OBS,
    )  # more clusters than draws use
    foreign = tree.copy()  # whose draws have numbers of their own
    foreign["posterior"] = type(tree)(tree["posterior"].to_dataset().assign(labels=(("chain", "draw", "obs"), labels)))
    np.testing.assert_allclose(misclassification_probability(foreign), misclassification_probability(tree))
    with pytest.raises(ValueError, match="`method` must be one of"):
        misclassification_probability(tree, method="median")


def test_the_papers_misclassification_is_measured_at_the_medoid(tree, labels, eta):
    """Of the partition that `reference_labels` names, and of another, such as the paper's MAP, where it is asked for."""
    reference = tree["constant_data"]["reference_labels"].values
    other = labels.reshape(-1, N_OBS)[np.argmin(tree["sample_stats"]["lp"].values)]
    found = [misclassification_probability(tree, reference=one, method="medoid") for one in (None, other)]
    for partition, probability in zip([reference, other], found):
        expected = np.empty(N_OBS)
        for k in np.unique(partition):
            members = np.flatnonzero(partition == k)
            medoid = members[np.argmax(eta[np.ix_(members, members)].sum(1))]
            expected[members] = 1 - eta[members, medoid]
        np.testing.assert_allclose(probability, expected)
    assert not np.allclose(*found)


def test_memberships_are_the_shares_of_draws_that_they_say(tree, labels):
    table, drawn = memberships(tree), tree["posterior"]["labels"].values.reshape(-1, N_OBS)
    assert table["cluster"].tolist() == reference_partition(tree).tolist()
    assert table["group"].tolist() == list("ababababa")
    np.testing.assert_array_equal(table["misclassification_probability"], misclassification_probability(tree))
    for row, (_, told) in enumerate(table.iterrows()):
        shares = {k: np.mean([draw[row] == k for draw in drawn]) for k in range(N_CLUSTERS)}
        assert told["probability"] == shares.pop(told["cluster"])
        assert told["runner_up_probability"] == max(shares.values())
        if max(shares.values()) > 0:
            assert shares[told["runner_up"]] == max(shares.values())
    foreign = tree.copy()  # which is relabelled first
    foreign["constant_data"] = type(tree)(tree["constant_data"].to_dataset().drop_vars("reference_labels"))
    foreign["posterior"] = type(tree)(tree["posterior"].to_dataset().assign(labels=(("chain", "draw", "obs"), labels)))
    pd.testing.assert_frame_equal(memberships(foreign), memberships(relabel(foreign)))


def test_label_sets_are_the_smallest_that_hold_the_level_the_likelier_first():
    """Against all subsets, with exact fractions: of those of the least size, the most probable, with the lowest numbers."""
    rng, n_draws = np.random.default_rng(0), 20
    counts = np.vstack([rng.multinomial(n_draws, share, 40) for share in ([0.6, 0.3, 0.1, 0], [0.25] * 4)])
    subsets = [np.array(one, bool) for one in product((1, 0), repeat=4) if any(one)]
    for level in (Fraction(1, 2), Fraction(9, 10), Fraction(19, 20)):
        for share in (counts / n_draws, (counts / n_draws).astype(np.float32)):
            for row, found in zip(counts, label_sets(share, float(level))):
                enough = [one for one in subsets if Fraction(int(row[one].sum()), n_draws) >= level]
                best = min(enough, key=lambda one: (one.sum(), -row[one].sum(), np.flatnonzero(one).tolist()))
                np.testing.assert_array_equal(found, best)


def test_rounding_adds_no_cluster_to_a_set():
    tenths = np.array([[0.1, 0.1, 0.1, 0.7 - 1e-9, 0.0], [0.3, 0.3, 0.3, 0.1, 0.0], [1 - 1e-6, 0, 0, 0, 0]])
    assert sum([0.7, 0.1, 0.1]) < 0.9
    assert label_sets([[0.1, 0.7, 0.1, 0.1]], 0.9).tolist() == [[True, True, True, False]]
    assert label_sets(tenths, 0.9).sum(1).tolist() == [4, 3, 1]  # 1e-9 is no rounding
    assert label_sets(tenths, 1 - 1e-9).sum(1).tolist() == [4, 4, 1]  # nothing is left to add


def test_memberships_say_in_which_clusters_a_row_may_be(tree):
    drawn = tree["posterior"]["labels"].values.reshape(-1, N_OBS)
    shares = (drawn[:, :, None] == np.arange(N_CLUSTERS)).mean(0)
    for level in (0.5, 0.9):
        table = memberships(tree, level=level)
        expected = [" or ".join(map(str, np.flatnonzero(one))) for one in label_sets(shares, level)]
        assert table["label_set"].tolist() == expected
        sizes = pd.Series([one.count("or") + 1 for one in expected]).value_counts().sort_index()
        assert table.attrs["set_sizes"] == sizes.to_dict()
        assert f"with {100 * level:.0f}% of a row's draws has " in table.attrs["sentence"]
        assert all(re.search(rf"\b{size}\D* for {rows}\b", table.attrs["sentence"]) for size, rows in sizes.items())
    with pytest.raises(ValueError, match=r"`level` must be between 0 and 1, got 1.5"):
        memberships(tree, level=1.5)


def test_there_is_no_runner_up_to_a_sure_membership():
    sure = np.tile(np.array([0, 0, 1, 1, 2, 2, 2], np.int8), (2, 5, 1))
    table = memberships(build_tree(draws_of(sure), np.zeros((7, 1)), None, n_clusters=N_CLUSTERS))
    assert table["runner_up"].isna().all()
    assert table["runner_up"].dtype == "Int64"
    assert (table["probability"] == 1).all()
    assert (table["runner_up_probability"] == 0).all()
    assert "group" not in table
    assert table.index.tolist() == list(range(7))


def test_relabelling_undoes_any_numbering(tree, labels):
    relabelled = relabel(tree)["posterior"]["labels"].values.reshape(-1, N_OBS)
    reference = tree["constant_data"]["reference_labels"].values
    for new, old in zip(relabelled, labels.reshape(-1, N_OBS)):
        np.testing.assert_array_equal(same(new), same(old))
        best = max((np.array(p)[old] == reference).sum() for p in product(range(3), repeat=3) if len(set(p)) == 3)
        assert (new == reference).sum() == best


def test_a_relabelled_tree_carries_the_reference_it_was_relabelled_to(tree):
    """A page about it would mix two numberings otherwise."""
    with_state = tree.copy()
    with_state["sampler_state"] = type(tree)(tree["observed_data"].to_dataset().rename(X="members"))
    reference = (2 - map_partition(tree)).astype(int)
    relabelled = relabel(with_state, reference)
    np.testing.assert_array_equal(reference_partition(relabelled), reference)
    assert relabelled["constant_data"]["reference_labels"].attrs == {"point": "given"}
    np.testing.assert_array_equal(relabelled["constant_data"]["group"], tree["constant_data"]["group"])
    assert relabelled["sampler_state"].identical(with_state["sampler_state"])
    assert tree["constant_data"]["reference_labels"].attrs == {"point": "likeliest"}
    expected = misclassification_probability(tree, reference=reference)
    np.testing.assert_array_equal(misclassification_probability(relabelled), expected)
    back = relabel(relabelled, reference_partition(tree))
    for name, values in tree["posterior"].data_vars.items():
        np.testing.assert_array_equal(back["posterior"][name], values, err_msg=name)


def test_relabelling_to_nothing_new_changes_nothing(tree):
    assert relabel(tree).identical(tree)
    bare = tree.copy()
    del bare["constant_data"]
    assert relabel(bare)["constant_data"]["reference_labels"].attrs == {"point": "dahl"}
    np.testing.assert_array_equal(reference_partition(relabel(bare)), dahl_partition(bare))


def test_labels_are_not_wrapped_where_a_reference_has_more_clusters_than_a_byte(tree):
    reference = np.arange(N_OBS) + 150
    plain = type(tree).from_dict({"posterior": tree["posterior"].to_dataset()[["labels"]]})
    moved = relabel(plain, reference)
    np.testing.assert_array_equal(reference_partition(moved), reference)
    assert moved["posterior"]["labels"].values.min() >= 0
    assert moved["posterior"]["labels"].values.max() >= 150


def test_themost_frequent_labels_use_every_cluster_that_all_draws_use():
    """By brute force over all labels: as many draws agree as can under that condition."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        flat = rng.choice(4, p=[0.5, 0.3, 0.15, 0.05], size=(12, 6))
        flat[:, rng.permutation(6)[:3]] = rng.permuted(np.tile([0, 1, 2], (12, 1)), axis=1)
        needed = {k for k in range(4) if (flat == k).any(axis=1).all()}
        found = most_frequent(flat, count_labels(flat, 4))
        assert needed <= set(found)
        agreeing = [(flat == z).sum() for z in product(range(4), repeat=6) if needed <= set(z)]
        assert (flat == found).sum() == max(agreeing)


def test_centers_and_balance_are_those_of_the_labels(tree):
    X, group = tree["observed_data"]["X"].values, tree["constant_data"]["group"].values
    for chain, draw in product(range(2), range(3)):
        z = tree["posterior"]["labels"].values[chain, draw]
        means = [X[z == k].mean(0) for k in range(N_CLUSTERS)]
        np.testing.assert_allclose(tree["posterior"]["centers"].values[chain, draw], means)
        balance = tree["sample_stats"]["balance"].values[chain, draw]
        np.testing.assert_allclose(balance, bf.fairness.balance(z, group))


def test_summary_reads_scalars(tree):
    table = summary(tree)
    np.testing.assert_allclose(table.loc["lp", "mean"], tree["sample_stats"]["lp"].mean())
    assert not any("labels" in name for name in table.index)
    scalars = diagnostic_vars(tree)
    assert all(set(values.dims) == {"chain", "draw"} for values in scalars.values())
    sizes = np.sort([np.bincount(z, minlength=3) for z in tree["posterior"]["labels"].values.reshape(-1, N_OBS)])
    np.testing.assert_array_equal(scalars["cluster_size_1"].values.ravel(), sizes[:, -1])


def test_rounding_of_float32_sums_is_no_disagreement(tree):
    """Two chains in one partition that they number differently: 235.64966 and 235.64967, R-hat 1.94."""
    rng = np.random.default_rng(0)
    moved = np.float32(rng.random((2, 20)) < 0.2) * 5
    rounded = np.float32(235.64966) + moved
    rounded[1] += 2 * np.spacing(rounded[1])
    dense = (1000 + np.arange(40).reshape(2, 20) * np.spacing(np.float32(1000))).astype(np.float32)
    stats = tree["sample_stats"].to_dataset()

    def scalars_of(**values):
        other = tree.copy()
        other["sample_stats"] = type(tree)(stats.assign({k: stats[k].copy(data=v) for k, v in values.items()}))
        return diagnostic_vars(other)

    scalars = scalars_of(lp=rounded, clustering_loss=dense)
    assert np.unique(scalars["lp"]).size == 2
    np.testing.assert_array_equal(scalars["lp"] > 237, moved > 0)
    np.testing.assert_array_equal(scalars["clustering_loss"], dense)  # a dense run is left alone
    exact = rounded.astype(float)
    np.testing.assert_array_equal(scalars_of(lp=exact)["lp"], exact)


def test_many_draws_are_thinned_in_time_and_none_need_an_n_by_n_matrix():
    rng = np.random.default_rng(0)
    n_obs = 30_000  # N x N in float32 would be 3.6 GB
    labels = rng.integers(4, size=(2, 30, n_obs)).astype(np.int8)
    tree = build_tree(some_draws(labels), rng.normal(size=(n_obs, 2)), rng.integers(2, size=n_obs), n_clusters=4)
    assert vi_partition(tree).shape == misclassification_probability(tree).shape == (n_obs,)
