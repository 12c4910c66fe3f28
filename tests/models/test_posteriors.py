"""Posteriors as a whole: calibration by simulation, the two label treatments, the two modes."""

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.calibration import rank_p_values
from models.examples import two_ways_to_merge
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import unconstrain_fn
from scipy import stats

import bayesfair as bf


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", "sparse"])
def test_posteriors_are_calibrated(kind):
    """100 replications; five statistics, so that a right model fails in one of 1,000 runs. All kinds and 200
    replications are in benchmarks/models/calibration.py."""
    p_values = rank_p_values(kind, replications=100, seed=0)
    assert min(p_values.values()) > 1e-3 / len(p_values), p_values


@pytest.mark.parametrize(
    ("kind", "replications"), [("isotropic", 40), pytest.param("sparse", 100, marks=pytest.mark.slow)]
)
def test_the_calibration_test_can_fail(kind, replications):
    """A sampler that believes in twice the data."""
    p_values = rank_p_values(kind, replications, seed=0, likelihood_power=2.0)
    assert min(p_values.values()) < 1e-3 / len(p_values)


@pytest.mark.slow
def test_without_fairness_both_label_treatments_have_one_law():
    """The marginalised model and the label-sampling one at lambda = 0: ranks of thinned draws, p above 0.001."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-1, 0.7, (25, 1)), rng.normal(1.2, 0.7, (15, 1))]
    settings = {"n_components": 2}
    run = {"num_warmup": 500, "num_samples": 6_000, "progress_bar": False}
    marginal = MCMC(NUTS(bf.models.fair_gaussian_mixture), **run)
    marginal.run(jax.random.key(0), X, **settings)
    labelled = MCMC(bf.models.labelled_kernel(X, **settings), **run)
    labelled.run(jax.random.key(1), X, **settings)

    def statistics(mcmc):
        draws = {name: np.asarray(value)[::20] for name, value in mcmc.get_samples().items()}
        gap = np.abs(np.diff(draws["means"][:, :, 0], axis=1))[:, 0]
        return {"scale": draws["scales"], "distance": gap, "least weight": draws["weights"].min(1)}

    ours, theirs = statistics(marginal), statistics(labelled)
    for name in ours:
        assert stats.ks_2samp(ours[name], theirs[name]).pvalue > 1e-3, name


def r_hat(values):
    return float(arviz_stats.base.array_stats.rhat(np.asarray(values)))


@pytest.fixture(scope="module")
def tempered():
    X, groups = two_ways_to_merge()
    settings = {
        "fairness_weight": 0.05,
        "num_warmup": 500,
        "num_draws": 3_000,
        "random_state": 0,
        "progress_bar": False,
    }
    return bf.BayesianFairMixture(3, tempering=True, **settings).fit(X, sensitive_features=groups)


@pytest.mark.slow
def test_from_any_start_tempered_chains_agree_on_both_modes(tempered):
    stats_of = tempered.posterior_["sample_stats"]
    mass = (stats_of["gap"].values < 0.15).mean(1)  # of the fair mode, chain by chain
    assert ((mass > 0.1) & (mass < 0.9)).all()
    assert np.ptp(mass) < 0.25  # eight seeds gave 0.09 to 0.24, and half as many draws 0.09 to 0.27
    assert r_hat(stats_of["lp"].values) < 1.02
    assert r_hat(stats_of["gap"].values) < 1.04  # eight seeds gave 1.003 to 1.019


@pytest.mark.slow
def test_the_naive_start_would_have_hidden_the_fair_mode(tempered):
    """Four chains from k-means solutions agree with one another, and on half of the posterior only."""
    X, groups = two_ways_to_merge()
    model, settings = bf.models.fair_gaussian_mixture, {"n_components": 3, "fairness_weight": 0.05}
    centers = np.array([[0, -1.7], [0, 1.7], [9, 0.0]])  # where 20 of 20 k-means restarts end
    base = (centers - X.mean(0)) / X.std(0)
    sites = {"weights": jnp.array([0.4, 0.4, 0.2]), "means_base": jnp.asarray(base), "scales": jnp.float32(1.0)}
    init = unconstrain_fn(model, (X, groups), settings, sites)
    init = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), init)
    mcmc = MCMC(
        NUTS(model), num_warmup=300, num_samples=300, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(0), X, groups, init_params=init, extra_fields=("potential_energy", "diverging"), **settings)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    gap = np.asarray(mcmc.get_samples(group_by_chain=True)["gap"])
    assert r_hat(fields["potential_energy"]) < 1.03
    assert not np.asarray(fields["diverging"]).any()
    assert (gap > 0.15).all()
    assert (tempered.posterior_["sample_stats"]["gap"].values < 0.15).mean() > 0.1
