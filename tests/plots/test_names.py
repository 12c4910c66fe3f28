"""Names as users have them: what is a formula to matplotlib is a name to readers."""

import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot as plt

import bayesfair as bf

FORMULA = r"$\frac$ of $0-$50k"  # which matplotlib cannot parse


def uncertainty(make_tree):
    tree = make_tree(dim=2)
    tree["constant_data"]["group"].attrs["group_names"] = f'["{FORMULA}", "b"]'.replace("\\", "\\\\")
    tree["observed_data"] = tree["observed_data"].to_dataset().assign_coords(feature=[FORMULA, FORMULA + "2"])
    bf.plots.uncertainty(tree)


def predictive(make_tree):
    tree = make_tree(dim=1)
    X = tree["observed_data"].to_dataset().assign_coords(feature=[FORMULA])
    simulated = xr.Dataset({"X": X["X"].expand_dims(chain=1, draw=3)})
    bf.plots.predictive(xr.DataTree.from_dict({"observed_data": X, "posterior_predictive": simulated}))


def pareto(make_tree):
    bf.plots.pareto(pd.DataFrame({"method": [FORMULA], "cost": [1.0], "gap": [0.1]}))


def profile(make_tree):
    bf.plots.profile([0, 1], pd.DataFrame({FORMULA: [0.0, 1.5]}))


def comparison(make_tree):
    table = pd.DataFrame({"cost": [2.0, 1.0]}, index=[2, 3])
    table.attrs["method"] = FORMULA
    bf.plots.cluster_comparison(table)


def trace(make_tree):
    tree = make_tree()
    tree["sample_stats"][FORMULA] = tree["sample_stats"]["lp"]
    bf.plots.trace(tree, var_names=[FORMULA])


@pytest.mark.parametrize("draw", [uncertainty, predictive, pareto, profile, comparison, trace])
def test_a_dollar_in_a_name_is_a_dollar(make_tree, draw):
    draw(make_tree)
    figure = plt.gcf()
    named = [text for text in figure.findobj(plt.Text) if FORMULA in text.get_text()]
    assert named
    assert not any(text.get_parse_math() for text in named)
    figure.canvas.draw()
