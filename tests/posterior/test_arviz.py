"""ArviZ's public functions over the trees of both samplers, as its users call them."""

import arviz as az
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt

import bayesfair as bf

SHORT = {"num_chains": 2, "num_warmup": 30, "num_draws": 40, "random_state": 0, "progress_bar": False}
PLOTS = [
    "plot_autocorr",
    "plot_convergence_dist",
    "plot_dist",
    "plot_ess",
    "plot_ess_evolution",
    "plot_forest",
    "plot_mcse",
    "plot_parallel",
    "plot_rank",
    "plot_rank_dist",
    "plot_ridge",
    "plot_trace",
    "plot_trace_dist",
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # few draws
    pytest.mark.filterwarnings("ignore::UserWarning"),  # ArviZ's own, of few draws
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(1)
    X, sex = np.vstack([rng.normal(0, 1, (20, 2)), rng.normal(2.5, 1, (20, 2))]), np.array(["f", "m"] * 20)
    mixture = bf.BayesianFairMixture(2, inference="gibbs", **SHORT).fit(X, sensitive_features=sex)
    gibbs = bf.GibbsFairClustering(2, target="labels", num_starts=0, **SHORT).fit(X, sensitive_features=sex)
    return {"mixture": mixture.posterior_, "gibbs": gibbs.posterior_}


NAMES = {"mixture": ["weights", "means"], "gibbs": ["lambda_c", "centers"]}


@pytest.mark.slow
@pytest.mark.parametrize("function", PLOTS)
@pytest.mark.parametrize("sampler", NAMES)
def test_parameters_and_scalars_are_drawn(trees, sampler, function):
    scalars = xr.DataTree.from_dict({"posterior": bf.posterior.diagnostic_vars(trees[sampler])})
    getattr(az, function)(trees[sampler], var_names=NAMES[sampler])
    getattr(az, function)(scalars)
    plt.close("all")


@pytest.mark.parametrize("function", ["summary", "rhat", "ess", "mcse"])
@pytest.mark.parametrize("sampler", NAMES)
def test_figures_are_of_parameters_and_scalars(trees, sampler, function):
    getattr(az, function)(trees[sampler], var_names=NAMES[sampler])
    getattr(az, function)(bf.posterior.diagnostic_vars(trees[sampler]))


@pytest.mark.parametrize("sampler", NAMES)
def test_scalars_of_0_and_1_are_left_out(trees, sampler):
    """Ties of 0/1 scalars are bad ranks to `az.plot_rank`."""
    scalars = bf.posterior.diagnostic_vars(trees[sampler])
    everything = bf.posterior.diagnostic_vars(trees[sampler], constant=True)
    assert any(name.startswith("together") for name in everything)
    assert not any(np.isin(values, (0, 1)).all() for values in scalars.values())
