"""Fairlets and k-means: the guarantee, and agreement with both of its halves."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesfair as bf
from bayesfair import FairletKMeans


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(list("abc")[: len(sizes)], sizes))
    return rng.normal(size=(len(group), 2)) + 2 * (group == "a")[:, None], group


@pytest.mark.parametrize(
    ("sizes", "balance"), [((40, 40), 1.0), ((30, 60), 0.5), ((20, 30), 2 / 3), ((20, 40, 20), 0.5)]
)
def test_balance_is_that_of_the_whole(sizes, balance):
    X, group = table(sizes)
    est = FairletKMeans(3, random_state=0).fit(X, sensitive_features=group)
    np.testing.assert_allclose(bf.fairness.balance(est.labels_, group), balance)
    assert est.decomposition_.optimal or len(sizes) > 2 or sizes == (20, 30)


def test_ratios_that_do_not_divide_keep_the_balance_of_the_worst_fairlet():
    X, group = table((37, 61))
    est = FairletKMeans(3, random_state=0).fit(X, sensitive_features=group)
    assert bf.fairness.balance(est.labels_, group) >= 0.5


def test_members_of_a_fairlet_stay_together_and_centres_are_means():
    X, group = table((30, 60))
    est = FairletKMeans(3, random_state=0).fit(X, sensitive_features=group)
    fairlet = est.decomposition_.fairlet
    assert all(len(np.unique(est.labels_[fairlet == i])) == 1 for i in range(30))
    for k in range(3):
        np.testing.assert_allclose(est.cluster_centers_[k], X[est.labels_ == k].mean(0))
    np.testing.assert_allclose(est.inertia_, ((X - est.cluster_centers_[est.labels_]) ** 2).sum())


@pytest.mark.filterwarnings("ignore:No sensitive features given")
def test_without_groups_it_is_k_means():
    X, _ = table((40, 40))
    est = FairletKMeans(3, random_state=0).fit(X)
    np.testing.assert_allclose(est.inertia_, KMeans(3, n_init=10, random_state=0).fit(X).inertia_, rtol=1e-6)


def test_more_clusters_than_fairlets_are_refused():
    X, group = table((30, 60))
    with pytest.raises(ValueError, match="There are 30 fairlets"):
        FairletKMeans(31).fit(X, sensitive_features=group)


@pytest.mark.filterwarnings("ignore:No sensitive features given")
@parametrize_with_checks([FairletKMeans(3)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
