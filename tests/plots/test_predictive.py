"""Predictive checks of categories, whose codes say nothing to readers."""

import numpy as np
import xarray as xr

import bayesfair as bf
from bayesfair.plots.checks import predictive_checks

TOWNS = [f"town {number}" for number in range(12)]


def table_of(values, **coords):
    return xr.Dataset({"X": (("chain", "draw", "obs", "feature")[4 - values.ndim :], values)}, coords=coords)


def test_categories_are_told_by_the_shares_and_names_of_their_levels():
    rng = np.random.default_rng(0)
    features, simulated = ["income", "town"], np.empty((1, 5, 100, 2))
    simulated[..., 0], simulated[..., 1] = rng.normal(size=(1, 5, 100)), rng.integers(12, size=(1, 5, 100))
    groups = {"posterior_predictive": table_of(simulated), "observed_data": table_of(simulated[0, 0], feature=features)}
    tree = xr.DataTree.from_dict(groups)
    tree["observed_data"]["X"].attrs["levels_1"] = TOWNS
    income, town = predictive_checks(tree)
    assert not income.is_discrete
    np.testing.assert_allclose(town.observed, np.bincount(simulated[0, 0, :, 1].astype(int), minlength=12) / 100)
    axes = bf.plots.predictive(tree)
    assert [text.get_text() for text in axes[1].get_xticklabels()] == TOWNS
