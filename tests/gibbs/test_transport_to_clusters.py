"""Exact transport to clusters of given sizes, against scipy's assignment problem."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bayesfair.gibbs.transport_to_clusters import assign


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_transport_is_as_cheap_as_the_assignment_problem(seed, n_clusters):
    rng = np.random.default_rng(seed)
    n_obs = int(rng.integers(n_clusters, 40))
    cost = rng.integers(0, 4, (n_obs, n_clusters)).astype(float) if seed % 3 == 0 else rng.random((n_obs, n_clusters))
    counts = np.bincount(rng.choice(n_clusters, n_obs, p=rng.dirichlet(np.ones(n_clusters))), minlength=n_clusters)
    labels, duals = assign(cost, counts, rng.normal(size=n_clusters))
    rows, columns = linear_sum_assignment(np.repeat(cost, counts, axis=1))
    best = np.repeat(cost, counts, axis=1)[rows, columns].sum()
    assert (np.bincount(labels, minlength=n_clusters) == counts).all()
    assert cost[np.arange(n_obs), labels].sum() == pytest.approx(best, abs=1e-9)
    used = counts > 0
    reduced = (cost - duals)[:, used]
    own = (cost - duals)[np.arange(n_obs), labels]
    assert (own <= reduced.min(1) + 1e-9).all()  # the duals prove it


def test_duals_of_an_optimal_assignment_give_it_back():
    rng = np.random.default_rng(0)
    cost, counts = rng.random((60, 4)), np.array([10, 20, 25, 5])
    labels, duals = assign(cost, counts, np.zeros(4))
    np.testing.assert_array_equal((cost - duals).argmin(1), labels)
