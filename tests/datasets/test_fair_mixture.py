"""Fair mixtures: balance exactly, laws by their moments and quantiles, and arguments that are refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, f

from bayesfair.datasets import make_fair_mixture
from bayesfair.datasets.fair_mixture import balanced_clusters, whole_sizes


def off_by(cluster, code):
    """How many rows every count of a group in a cluster is from its share."""
    counts = pd.crosstab(cluster, code).to_numpy()
    return np.abs(counts - np.outer(counts.sum(1), counts.sum(0)) / len(code))


@pytest.mark.parametrize("seed", range(10))
def test_every_group_has_its_share_of_every_cluster_to_within_one_row(seed):
    rng = np.random.default_rng(seed)
    shares, group_shares = rng.dirichlet(np.ones(5)) + 0.01, rng.dirichlet(np.ones(4)) + 0.01
    data = make_fair_mixture(97, 5, shares=shares, group_shares=group_shares, seed=seed)
    assert off_by(data.target, data.sensitive).max() < 1
    sizes = data.target.value_counts().sort_index().to_numpy()
    assert np.abs(sizes - 97 * shares / shares.sum()).max() < 1.5


def test_clusters_are_random_given_their_sizes_and_balanced_for_the_smallest_table():
    code, sizes = np.array([0, 0, 1, 1]), np.array([1, 3])
    drawn = {tuple(balanced_clusters(np.random.default_rng(seed), code, sizes).tolist()) for seed in range(50)}
    assert len(drawn) >= 2
    assert all(np.bincount(one).tolist() == [1, 3] for one in drawn)


def test_the_balance_test_can_fail():
    rng = np.random.default_rng(0)
    assert off_by(rng.integers(3, size=90), rng.integers(2, size=90)).max() >= 1


def test_sizes_add_up_and_none_is_empty():
    assert whole_sizes(np.array([0.98, 0.01, 0.01]), 4).tolist() == [2, 1, 1]
    assert whole_sizes(np.array([0.5, 0.3, 0.2]), 11).tolist() == [6, 3, 2]


@pytest.mark.parametrize(
    ("degrees", "law"), [(np.inf, chi2(3).cdf), (4.0, lambda r: f(3, 4).cdf(r / 3))], ids=["normal", "t"]
)
def test_rows_have_the_covariances_that_were_asked_for(degrees, law):
    """Squared Mahalanobis distances of 9,000 rows follow chi-square or F: 4 standard errors at three quantiles."""
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(2, 3, 3)) + 2 * np.eye(3)
    covariances, centers = factor @ np.swapaxes(factor, 1, 2), np.array([[0.0, 0, 0], [5, 5, 5]])
    data = make_fair_mixture(
        9_000, 2, 3, covariances=covariances, centers=centers, degrees_of_freedom=degrees, shares=[1, 2]
    )
    z = data.target.to_numpy()
    residual = data.features.to_numpy() - centers[z]
    radii = np.einsum("ni,nij,nj->n", residual, np.linalg.inv(covariances)[z], residual)
    for part in (z == 0, z == 1):
        for share in (0.25, 0.5, 0.9):
            error = abs((law(radii[part]) < share).mean() - share)
            assert error < 4 * np.sqrt(share * (1 - share) / part.sum())


def test_neighbours_overlap_as_asked_and_elongated_clusters_are_longer_than_wide():
    data = make_fair_mixture(40_000, 4, 3, overlap=0.1, seed=3)
    centers = data.features.groupby(data.target).mean().to_numpy()
    far = np.linalg.norm(centers[:, None] - centers, axis=2)
    assert np.sort(far, axis=1)[:, 1] == pytest.approx(2 * 1.2816, abs=0.1)
    data = make_fair_mixture(40_000, 2, 2, elongation=3.0, seed=3)
    for _, rows in data.features.groupby(data.target):
        small, large = np.linalg.eigvalsh(np.cov(rows.T))
        assert (large / small, large * small) == pytest.approx((9, 1), rel=0.05)


def test_the_seed_alone_decides_and_one_feature_or_cluster_will_do():
    assert make_fair_mixture(seed=2).features.equals(make_fair_mixture(seed=2).features)
    assert not make_fair_mixture(seed=2).features.equals(make_fair_mixture(seed=3).features)
    assert make_fair_mixture(20, 3, 1).features.shape == (20, 1)
    assert make_fair_mixture(20, 1, 2, n_groups=1).target.unique().tolist() == [0]
    assert make_fair_mixture(60, n_groups=30).sensitive.nunique() == 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n_samples": 2}, "`n_samples` must be an integer, at least 3"),
        ({"shares": [1, 2]}, "`shares` must have 3 numbers above zero"),
        ({"group_shares": [1, 0]}, "`group_shares` must have 2 numbers above zero"),
        ({"centers": [[0, 0]]}, "`centers` must have finite numbers and the shape"),
        ({"covariances": np.ones((3, 3))}, "`covariances` must have the shape"),
        ({"covariances": [[1, 2], [2, 1]]}, "`covariances` must be symmetric with eigenvalues above zero"),
        ({"overlap": 0.5}, "`overlap` must be above 0 and below 0.5"),
        ({"elongation": 0.5}, "`elongation` must be a finite number, at least 1"),
        ({"degrees_of_freedom": [1, 2]}, "`degrees_of_freedom` must be a number above zero, or one for each cluster"),
    ],
)
def test_what_cannot_be_is_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        make_fair_mixture(**arguments)
