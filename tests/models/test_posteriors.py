"""Posteriors as a whole: calibration by simulation, the two label treatments, the two modes."""

import arviz_stats
import jax
import numpy as np
import pytest
from models.calibration import rank_p_values
from numpyro.infer import HMC, MCMC
from scipy import stats

import bayesfair as bf


def is_calibrated(likelihood_power):
    """A right model fails in one of 1,000 runs. All kinds and 200 replications are in benchmarks/models/calibration.py."""
    p_values = rank_p_values("isotropic", 60, 0, likelihood_power)
    return min(p_values.values()) > 1e-3 / len(p_values)


def test_posteriors_are_calibrated_and_a_sampler_that_believes_in_twice_the_data_is_caught():
    assert is_calibrated(1.0)
    assert not is_calibrated(2.0)


@pytest.mark.slow
def test_without_fairness_both_label_treatments_have_one_law():
    """The marginalised model and the label-sampling one at lambda = 0, p above 0.001; groups as a user hands them."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-1, 0.7, (25, 1)), rng.normal(1.2, 0.7, (15, 1))]
    settings, groups = {"n_components": 2}, np.resize(["a", "b"], len(X))

    def draws_of(seed, kernel, *arguments):
        def sample(key):
            mcmc = MCMC(kernel, num_warmup=500, num_samples=6_000, progress_bar=False)
            mcmc.run(key, *arguments, **settings)
            return mcmc.get_samples()

        # Without `jit` NumPyro's set-up is compiled operation by operation.
        return jax.jit(sample)(jax.random.key(seed))

    marginal = draws_of(0, HMC(bf.models.fair_gaussian_mixture, num_steps=8, trajectory_length=None), X)
    labelled = draws_of(1, bf.models.labelled_kernel(), X, None, groups)
    assert labelled["labels"].shape == (6_000, len(X))

    def statistics(draws):
        draws = {name: np.asarray(value)[::20] for name, value in draws.items()}
        gap = np.abs(np.diff(draws["means"][:, :, 0], axis=1))[:, 0]
        return {"scale": draws["scales"], "distance": gap, "least weight": draws["weights"].min(1)}

    ours, theirs = statistics(marginal), statistics(labelled)
    for name in ours:
        assert stats.ks_2samp(ours[name], theirs[name]).pvalue > 1e-3, name


def two_ways_to_merge(n_obs=500, seed=0):
    """Five blobs for three clusters: four on a near square, whose two groups are split by its rows, and one far away.

    Merging along the rows is a little likelier and unfair (gap 0.25), along the columns fair (0.06): two modes.
    """
    rng = np.random.default_rng(seed)
    blob = rng.integers(5, size=n_obs)
    centers = np.array([[-1.6, -1.7], [1.6, -1.7], [-1.6, 1.7], [1.6, 1.7], [9, 0.0]])
    X = centers[blob] + 0.6 * rng.normal(size=(n_obs, 2))
    share = np.array([0.3, 0.3, 0.7, 0.7, 0.5])[blob]
    return X, (rng.random(n_obs) < share).astype(int)


def r_hat(values):
    return float(arviz_stats.base.array_stats.rhat(np.asarray(values)))


@pytest.mark.slow
def test_tempered_chains_that_start_in_different_modes_agree_on_both():
    X, groups = two_ways_to_merge()
    settings = {"num_chains": 2, "num_warmup": 500, "num_draws": 3_000, "random_state": 0, "progress_bar": False}
    settings |= {"fairness_weight": 0.05, "tempering": True, "starts": ("fair", "unfair")}
    est = bf.BayesianFairMixture(3, **settings).fit(X, sensitive_features=groups)
    stats_of = est.posterior_["sample_stats"]
    mass = (stats_of["gap"].values < 0.15).mean(1)  # of the fair mode, chain by chain
    assert ((mass > 0.1) & (mass < 0.9)).all()
    assert np.ptp(mass) < 0.25  # eight seeds gave 0.00 to 0.17
    assert r_hat(stats_of["lp"].values) < 1.02
    assert r_hat(stats_of["gap"].values) < 1.04  # eight seeds gave 1.007 to 1.028
