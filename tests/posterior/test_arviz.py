"""ArviZ's public functions over the trees of both samplers, as its users call them."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from tiers import tiers

import bayesfair as bf
from bayesfair.posterior.diagnostics import scalar_table

PLOTS = [
    "plot_autocorr",
    "plot_dist",
    "plot_ess_evolution",
    "plot_forest",
    "plot_parallel",
    "plot_rank",
    "plot_trace_dist",
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # few draws
    pytest.mark.filterwarnings("ignore::UserWarning"),  # ArviZ's own, of few draws
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


SETTINGS = {"stats.ci_prob": 0.5, "stats.ci_kind": "hdi", "data.index_origin": 1, "data.sample_dims": ["draw"]}


def test_what_users_set_for_arviz_changes_neither_summaries_nor_trees(run):
    labels, X = [[0, 0, 1, 1], [1, 1, 0, 0]], [[0], [1], [8], [9]]
    table, tree = scalar_table(run.posterior_.copy()), bf.posterior.tree_from_labels(labels, X)
    with az.rc_context(SETTINGS):
        pd.testing.assert_frame_equal(scalar_table(run.posterior_.copy()), table)
        assert bf.posterior.tree_from_labels(labels, X).equals(tree)


NAMES = {"run": ["lambda_c", "centers"], "mixture": ["weights", "means"]}


@pytest.mark.slow
def test_parameters_and_scalars_are_drawn(mixture, run):
    scalars = xr.DataTree.from_dict({"posterior": bf.posterior.diagnostic_vars(run.posterior_)})
    for function in PLOTS:
        getattr(az, function)(mixture.posterior_, var_names=NAMES["mixture"])
        getattr(az, function)(scalars)
        plt.close("all")


@pytest.mark.parametrize("sampler", tiers(NAMES, ["run"]))
def test_figures_are_of_parameters_and_of_scalars_that_are_not_0_or_1_alone(sampler, request):
    """Ties of 0/1 scalars are bad ranks to `az.plot_rank`."""
    tree = request.getfixturevalue(sampler).posterior_
    scalars = bf.posterior.diagnostic_vars(tree)
    for function in (az.summary, az.rhat, az.ess, az.mcse):
        function(tree, var_names=NAMES[sampler])
        function(scalars)
    assert any(name.startswith("together") for name in bf.posterior.diagnostic_vars(tree, constant=True))
    assert not any(np.isin(values, (0, 1)).all() for values in scalars.values())
