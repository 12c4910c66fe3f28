"""Fairlets and k-means: the guarantee, and agreement with both of its halves."""

import tracemalloc

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import bayesfair as bf
from bayesfair import FairletKMeans, _arrays
from bayesfair.fairlets import by_blocks, decomposition, transport
from bayesfair.fairlets.compositions import capacities


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(list("abc")[: len(sizes)], sizes))
    return rng.normal(size=(len(group), 2)) + 2 * (group == "a")[:, None], group


@pytest.mark.parametrize(("sizes", "balance"), [((30, 60), 0.5), ((20, 40, 20), 0.5), ((37, 61), 0.5)])
def test_balance_is_that_of_the_worst_fairlet_and_centres_are_means(sizes, balance):
    X, group = table(sizes)
    est = FairletKMeans(3, random_state=0).fit(X, sensitive_features=group)
    assert bf.fairness.balance(est.labels_, group) >= balance - 1e-9
    assert est.decomposition_.optimal or sizes in ((20, 40, 20), (37, 61))
    for k in range(3):
        np.testing.assert_allclose(est.cluster_centers_[k], X[est.labels_ == k].mean(0))
    np.testing.assert_allclose(est.inertia_, ((X - est.cluster_centers_[est.labels_]) ** 2).sum())


@pytest.mark.filterwarnings("ignore:No sensitive features given")
def test_without_groups_it_is_k_means():
    X, _ = table((40, 40))
    est = FairletKMeans(3, random_state=0).fit(X)
    np.testing.assert_allclose(est.inertia_, KMeans(3, n_init=10, random_state=0).fit(X).inertia_, rtol=1e-6)
    np.testing.assert_array_equal(est.decomposition_.composition, np.ones((80, 1)))


def test_singletons_are_k_means_whatever_the_groups():
    X, group = table((30, 50))
    est = FairletKMeans(3, composition="singletons", n_init=50, random_state=0).fit(X, sensitive_features=group)
    np.testing.assert_allclose(est.inertia_, KMeans(3, n_init=50, random_state=1).fit(X).inertia_, rtol=1e-6)
    np.testing.assert_array_equal(est.decomposition_.composition.sum(0), [30, 50])
    assert est.decomposition_.cost == 0


@pytest.mark.parametrize("composition", [(1, 2), 15, np.tile([2, 4], (15, 1)), np.repeat([[1, 2], [2, 4]], 10, 0)])
def test_every_composition_of_the_fairlets_room_is_kept(composition):
    X, group = table((30, 60))
    est = FairletKMeans(3, composition=composition, random_state=0).fit(X, sensitive_features=group)
    held = capacities([30, 60], composition)
    np.testing.assert_array_equal(est.decomposition_.composition, held.lower)
    fairlet = est.decomposition_.fairlet
    assert all(len(np.unique(est.labels_[fairlet == i])) == 1 for i in range(len(held.lower)))
    np.testing.assert_allclose(bf.fairness.balance(est.labels_, group), 0.5)


def test_more_clusters_than_distinct_fairlets_are_refused():
    """scikit-learn would leave clusters empty, and their means would be NaN."""
    X, group = table((30, 60))
    with pytest.raises(ValueError, match="There are 30 fairlets"):
        FairletKMeans(31).fit(X, sensitive_features=group)
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    with pytest.raises(ValueError, match="distinct fairlet centres, 2, got 3"):
        FairletKMeans(3).fit(X, sensitive_features=np.arange(40) % 2)


def test_a_path_starts_everywhere_from_the_same_random_numbers():
    path = bf.engines.fairness_path(FairletKMeans(n_init=1), *table((30, 60)), "n_clusters", [7] * 4)
    assert path["cost"].nunique() == 1


def test_stopping_early_is_told():
    X, group = table((40, 40))
    with pytest.warns(ConvergenceWarning, match="Remedy: raise max_iter"):
        est = FairletKMeans(3, max_iter=1, n_init=1, random_state=0).fit(X, sensitive_features=group)
    assert not est.converged_
    assert FairletKMeans(3, random_state=0).fit(X, sensitive_features=group).converged_


def test_the_search_for_fairlets_can_be_watched(capsys):
    X, group = table((20, 20))
    watched = FairletKMeans(2, random_state=0, progress_bar=True).fit(X, sensitive_features=group)
    assert "fairlets: 100%" in capsys.readouterr().err
    plain = FairletKMeans(2, random_state=0).fit(X, sensitive_features=group)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(watched.labels_, plain.labels_)


def memory_beyond_the_table(n_obs):
    """The most bytes that NumPy had at a time in a fit of so many rows."""
    X, half = np.random.default_rng(0).normal(size=(n_obs, 25)).astype(np.float32), n_obs * 12 // 25
    groups = np.repeat([0, 1], [half, n_obs - half])
    tracemalloc.start()
    try:
        FairletKMeans(5, exact_up_to=0, n_init=1, random_state=0).fit(X, sensitive_features=groups)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_further_row_of_a_large_table_takes_less_than_400_bytes(monkeypatch):
    """What is worked on at a time is made small here, so that what grows is what is kept for every row."""
    parts = [(by_blocks, "BLOCK", 100), (by_blocks, "CELLS", 16), (_arrays, "BLOCK", 256), (decomposition, "FEW", 50)]
    parts.append((transport, "cpu_count", lambda: 1))
    for changed in parts:
        monkeypatch.setattr(*changed)
    memory_beyond_the_table(500)  # libraries
    few, many = memory_beyond_the_table(1_500), memory_beyond_the_table(3_000)
    assert (many - few) / 1_500 < 400
