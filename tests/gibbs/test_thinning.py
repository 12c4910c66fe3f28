"""Sweeps from draw to draw: the autocorrelation time against AR(1) truth, and the budget."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesfair._draws import Statistic
from bayesfair.gibbs import thinning
from bayesfair.gibbs.thinning import autocorrelation_time, cluster_sizes, suitable_thinning

SCALARS = {"lp": Statistic("quantity"), "rate": Statistic("figure")}
SMALL = SimpleNamespace(n_obs=10, looks_per_row=2, statistics=SCALARS)


def ar1(correlation, shape, seed=0):
    """Stationary Gaussian chains whose autocorrelation time is (1 + correlation) / (1 - correlation)."""
    noise = np.random.default_rng(seed).normal(size=shape)
    values = noise.copy()
    for t in range(1, shape[1]):
        values[:, t] = correlation * values[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return values


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.5, 0.9, 0.97])
def test_the_time_is_that_of_an_autoregression(correlation):
    """4 x 40,000 sweeps leave 7% at the slowest; the seed is fixed."""
    truth = (1 + correlation) / (1 - correlation)
    estimate = autocorrelation_time(ar1(correlation, (4, 40_000)))
    np.testing.assert_allclose(estimate, max(1.0, truth), rtol=0.15)


def test_the_time_from_short_chains_is_not_too_short():
    """Their own means hide a part of it: without them the mean estimate was 17."""
    truth, correlation = 22, 21 / 23
    estimates = [autocorrelation_time(ar1(correlation, (4, 250), seed)) for seed in range(100)]
    assert abs(np.mean(estimates) - truth) < 3


def test_the_time_does_not_see_what_sets_chains_apart():
    values = ar1(0.5, (4, 2000))
    apart = values + np.arange(4)[:, None] * 1000
    np.testing.assert_allclose(autocorrelation_time(apart), autocorrelation_time(values), rtol=1e-6)


def test_what_never_varies_asks_for_nothing():
    assert autocorrelation_time(np.full((2, 100), 3.0)) == 1


def test_the_slowest_scalar_that_chains_are_compared_on_decides():
    slow, fast = ar1(0.95, (4, 1000)), ar1(0.0, (4, 1000))
    of_slow = suitable_thinning({"lp": slow, "rate": fast}, (), SMALL)
    time = autocorrelation_time(slow[:, 500:])
    assert of_slow == np.ceil(thinning.WORTH * time)
    assert suitable_thinning({"lp": fast, "rate": slow}, (), SMALL) < of_slow
    assert suitable_thinning({"lp": fast, "cluster_size_1": slow}, (), SMALL) == of_slow


def test_large_tables_and_short_warm_ups_are_not_thinned():
    reports = {"lp": ar1(0.95, (4, 1000))}
    large = SimpleNamespace(**{**vars(SMALL), "n_obs": 2_000_000})
    assert suitable_thinning(reports, (), SMALL) > 1
    assert suitable_thinning(reports, (), large) == 1
    assert suitable_thinning({"lp": reports["lp"][:, :99]}, (), SMALL) == 1
    assert suitable_thinning({}, (), SMALL) == 1


def test_sizes_do_not_depend_on_numbers():
    labels = np.random.default_rng(0).integers(3, size=(2, 5, 20)).astype(np.int8)
    sizes, renumbered = cluster_sizes(labels, 3), cluster_sizes((labels + 1) % 3, 3)
    assert list(sizes) == ["cluster_size_1", "cluster_size_2", "cluster_size_3"]
    np.testing.assert_array_equal(sum(sizes.values()), 20)
    assert (sizes["cluster_size_1"] >= sizes["cluster_size_2"]).all()
    for name, values in sizes.items():
        np.testing.assert_array_equal(values, renumbered[name])
