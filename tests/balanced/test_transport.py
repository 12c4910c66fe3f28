"""Exact transport to clusters of given sizes, against scipy's assignment problem."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import row_blocks
from bayesfair.balanced import transport
from bayesfair.balanced.cheaper_counts import lengths
from bayesfair.balanced.transport import assign, cheapest_to_move


@pytest.mark.parametrize("whole", [0, 2**16])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_transport_is_as_cheap_as_the_assignment_problem(seed, n_clusters, whole, monkeypatch):
    """Whether paths look at all rows, or at those that are cheapest to move."""
    monkeypatch.setattr(transport, "WHOLE", whole)
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


@pytest.mark.parametrize("seed", range(4))
def test_what_one_person_more_costs_is_what_transport_then_pays(seed):
    """By way of other clusters too."""
    rng = np.random.default_rng(seed)
    cost, counts = rng.random((20, 4)), np.array([6, 5, 5, 4])

    def least(counts):
        return cost[np.arange(20), assign(cost, counts, np.zeros(4))[0]].sum()

    found, one = lengths(cost, *assign(cost, counts, np.zeros(4))), np.eye(4, dtype=int)
    paid = [[least(counts - one[k] + one[to]) - least(counts) for to in range(4)] for k in range(4)]
    np.testing.assert_allclose(found, paid, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-8, 0.1, 1e8])
def test_ties_that_rounding_breaks_do_not_lead_in_circles(unit):
    """Sums of tied costs differ in their last digits, and a way round then seems to cost less than nothing."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_clusters = int(rng.integers(3, 8))
        centers = rng.integers(1, 4, (n_clusters, 2)) / 3
        cost = unit * np.square(rng.integers(1, 4, (40, 1, 2)) - centers).sum(2)
        counts = rng.multinomial(40, rng.dirichlet(np.ones(n_clusters)))
        labels, _ = assign(cost, counts, unit * rng.normal(size=n_clusters))
        best = np.repeat(cost, counts, axis=1)[linear_sum_assignment(np.repeat(cost, counts, axis=1))].sum()
        assert (np.bincount(labels, minlength=n_clusters) == counts).all()
        assert cost[np.arange(40), labels].sum() == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("empty", [False, True])
def test_prices_far_from_the_optimum_take_few_paths(monkeypatch, empty):
    """36,878 of a million rows once chose wrongly, and each took twenty milliseconds."""
    rng = np.random.default_rng(1)
    n_obs, n_clusters = 1500, 6
    cost = np.square(rng.normal(size=(n_obs, 1, 2)) - rng.normal(size=(n_clusters, 2))).sum(2)
    counts = rng.multinomial(n_obs, rng.dirichlet(np.ones(n_clusters)))
    if empty:
        counts[0], counts[1] = 0, counts[0] + counts[1]
    prices, paths = 3 * rng.normal(size=n_clusters), []
    walk = transport.along_paths
    monkeypatch.setattr(transport, "along_paths", lambda *args: paths.append(np.abs(args[2]).sum() // 2) or walk(*args))
    labels, _ = assign(cost, counts, prices)
    assert (np.bincount(labels, minlength=n_clusters) == counts).all()
    rows, columns = linear_sum_assignment(np.repeat(cost, counts, axis=1))
    best = np.repeat(cost, counts, axis=1)[rows, columns].sum()
    assert cost[np.arange(n_obs), labels].sum() == pytest.approx(best, rel=1e-12)
    wrong = np.abs(np.bincount((cost - prices).argmin(1), minlength=n_clusters) - counts).sum() // 2
    assert sum(paths) <= transport.MANY_PATHS < wrong


@pytest.mark.parametrize("ties", [False, True])
def test_the_rows_that_are_cheapest_to_move_are_found_block_by_block(monkeypatch, ties):
    """Those of every cell and other cluster; nobody is left out who is below the bound, and few are kept."""
    monkeypatch.setattr(transport, "row_blocks", partial(row_blocks, size=90))
    rng = np.random.default_rng(0)
    n_obs, n_clusters, most = 2000, 4, 3
    cost = rng.integers(0, 9, (n_obs, n_clusters)).astype(float) if ties else rng.random((n_obs, n_clusters))
    labels, group = rng.integers(n_clusters, size=n_obs), rng.integers(2, size=n_obs)
    labels[group == 1] = np.minimum(labels[group == 1], 2)
    group[-4:], labels[-4:] = 1, 3  # a cell of few rows
    margin = cost - cost[np.arange(n_obs), labels][:, None]
    cells, wanted = 2 * labels + group, np.quantile(margin, 0.01)
    also = lambda rows, moves: (moves < wanted).any(1)  # noqa: E731
    rows, bounds = cheapest_to_move(cost, labels, most, cells, 2 * n_clusters, also)
    assert (np.diff(rows) > 0).all()
    assert len(rows) < n_obs / 4
    assert np.isin(np.flatnonzero((margin < wanted).any(1)), rows).all()
    assert np.isinf(bounds[7]).all()
    assert np.isin(np.flatnonzero(cells == 7), rows).all()
    left = np.delete(np.arange(n_obs), rows)
    assert (margin[left] >= bounds[cells[left]]).all()
    for cell in range(7):
        own = np.flatnonzero(cells == cell)
        kept = np.intersect1d(own, rows)
        others = np.arange(n_clusters) != cell // 2
        best = np.sort(margin[own], 0)[:most]
        np.testing.assert_array_equal(np.sort(margin[kept], 0)[:most, others], best[:, others])
        assert (bounds[cell, others] >= best[-1, others]).all()
