"""Exact transport to clusters of given sizes, against scipy's assignment problem."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bayesfair.gibbs import transport_to_clusters
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


@pytest.mark.parametrize("empty", [False, True])
def test_prices_far_from_the_optimum_take_few_paths(monkeypatch, empty):
    """36,878 of a million rows once chose wrongly, and each took twenty milliseconds."""
    rng = np.random.default_rng(1)
    n_obs, n_clusters = 3000, 6
    cost = np.square(rng.normal(size=(n_obs, 1, 2)) - rng.normal(size=(n_clusters, 2))).sum(2)
    counts = rng.multinomial(n_obs, rng.dirichlet(np.ones(n_clusters)))
    if empty:
        counts[0], counts[1] = 0, counts[0] + counts[1]
    prices, paths = 3 * rng.normal(size=n_clusters), []
    push = transport_to_clusters.Margins.push
    monkeypatch.setattr(transport_to_clusters.Margins, "push", lambda *args: paths.append(1) or push(*args))
    labels, _ = assign(cost, counts, prices)
    assert (np.bincount(labels, minlength=n_clusters) == counts).all()
    rows, columns = linear_sum_assignment(np.repeat(cost, counts, axis=1))
    best = np.repeat(cost, counts, axis=1)[rows, columns].sum()
    assert cost[np.arange(n_obs), labels].sum() == pytest.approx(best, rel=1e-12)
    wrong = np.abs(np.bincount((cost - prices).argmin(1), minlength=n_clusters) - counts).sum() // 2
    assert len(paths) <= transport_to_clusters.MANY_PATHS < wrong
