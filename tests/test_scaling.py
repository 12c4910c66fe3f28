"""Rows in units of their own: equivariance without rounding, and columns whose differences are lost are refused."""

import numpy as np
import pytest

from bayesfair._scaling import center_and_spread, check_costs, check_resolution, standardise


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal([3.0, -40.0, 0.1], [1.0, 7.0, 0.02], (400, 3))


@pytest.mark.parametrize("scale", [2.0**-1000, 1.0, 2.0**1000])
def test_means_and_spreads_of_any_size_are_numpys_to_the_last_bit(X, scale):
    middle, spread, pooled = center_and_spread(scale * X)
    np.testing.assert_array_equal(middle, scale * X.mean(0))
    np.testing.assert_array_equal(spread, scale * X.std(0))
    np.testing.assert_array_equal(pooled, scale * np.sqrt(X.var(0).mean()))


def test_tables_of_many_blocks_and_of_float32_are_summed_in_float64():
    X = np.random.default_rng(0).normal(1e4, 1.0, (200_000, 2)).astype(np.float32)
    middle, spread, _ = center_and_spread(X)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(middle, wide.mean(0), rtol=1e-14)
    np.testing.assert_allclose(spread, wide.std(0), rtol=1e-12)
    Z, units = standardise(X, dtype=np.float32)
    assert Z.dtype == np.float32
    np.testing.assert_array_equal(Z, units.rows(wide).astype(np.float32))


def test_powers_of_two_change_no_bit_and_others_only_rounding(X):
    Z, units = standardise(X)
    np.testing.assert_array_equal(Z * 2.0**units.exponent, X - X.mean(0))
    assert 0.7 < np.sqrt((Z**2).mean()) < 1.5
    for power in (-900, -40, 40, 500):
        again, other = standardise(2.0**power * X, degree=1)
        np.testing.assert_array_equal(again, Z)
        assert other.exponent == units.exponent + power
    np.testing.assert_allclose(
        standardise(1e-200 * X, degree=1)[0] / Z, (standardise(1e-200 * X, degree=1)[0] / Z)[0, 0]
    )
    np.testing.assert_allclose(standardise(X + 1e8)[0], Z, atol=1e-6)


def test_units_tell_points_and_costs_in_the_units_of_the_rows(X):
    Z, units = standardise(X)
    np.testing.assert_allclose(units.points(Z), X, rtol=1e-14)
    np.testing.assert_array_equal(units.rows(X), Z)
    for degree in (1, 2, 4):
        np.testing.assert_allclose(
            units.cost((np.abs(Z) ** degree).sum(), degree), (np.abs(X - X.mean(0)) ** degree).sum()
        )
    assert units.cost(units.cost(3.0), -2) == 3.0


def test_constant_columns_are_exactly_their_constant():
    middle, spread, pooled = center_and_spread(np.full((7, 2), [0.1, 1e300]))
    assert (middle.tolist(), spread.tolist(), pooled) == ([0.1, 1e300], [0.0, 0.0], 0.0)
    assert (standardise(np.full((7, 1), 0.1))[0] == 0).all()


@pytest.mark.parametrize(("entry", "precision"), [(1e155, np.float64), (1e300, np.float64), (1e10, np.float32)])
def test_an_entry_that_drowns_its_column_is_refused_by_name(X, entry, precision):
    X = X.copy()
    X[5, 1] = entry
    with pytest.raises(ValueError, match=r"got 1e\+\d+ in column 'income', while others differ by"):
        standardise(X, names=["age", "income", "bmi"], precision=precision)


def heavy_tails(n_obs=2_000):
    rng = np.random.default_rng(1)
    gains = np.where(rng.random(n_obs) < 0.92, 0, rng.lognormal(8.5, 1.2, n_obs).round())
    gains[:3] = 99_999  # Adult's capital-gain
    balance = rng.lognormal(6, 1.5, n_obs).round() - 300
    balance[0] = 102_127  # Bank's
    noise = 0.3 + np.where(rng.random(n_obs) < 0.3, 1e-17 + np.spacing(0.3), 0)
    noise[0] = 1.3  # rounding is no difference
    columns = gains, balance, noise, rng.random(n_obs) < 0.01, rng.lognormal(0, 3, n_obs), 1e9 + rng.random(n_obs)
    return np.column_stack([*columns, rng.standard_cauchy(n_obs)])


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_heavy_tails_dummies_and_time_stamps_pass(precision):
    X = heavy_tails()
    check_resolution(X, X.mean(0), X.std(0), precision=precision)


def test_columns_that_vary_by_rounding_alone_are_refused_where_they_count(X):
    with pytest.raises(
        ValueError, match=r"float64 can resolve, got a spread of \d+(\.\d+)? around 1e\+17 in column 'time'"
    ):
        standardise(np.column_stack([X[:, 0], X[:, 1] + 1e17]), names=["age", "time"])
    nearly_constant = 0.1 + np.where(np.arange(len(X)) % 2, np.spacing(0.1), 0.0)
    standardise(np.column_stack([X, nearly_constant]))


def test_costs_that_no_float64_holds_are_refused_or_told():
    with pytest.raises(
        ValueError, match=r"`X` must have costs that fit float64, got a spread of 1e\+200 in column 'b'"
    ):
        check_costs(np.array([1.0, 1e200]), names=["a", "b"])
    with pytest.warns(RuntimeWarning, match="become 0. Labels are not affected"):
        check_costs(np.array([1e-300, 1e-200]))
    check_costs(np.array([1e-300, 1e-200]), degree=1)
    check_costs(np.array([0.0, 0.0]))
