"""Priors of one's own: what is refused where it is made, the densities against SciPy, and simulated tables."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import condition, seed, substitute, trace
from numpyro.infer import HMC, MCMC, Predictive
from numpyro.infer.util import log_density
from scipy import stats

import bayesfair as bf
from bayesfair.models import Prior
from bayesfair.models.units import ColumnScaling
from bayesfair.posterior.settings import NOT_KEPT, as_attribute, of_attribute

RNG = np.random.default_rng(0)
X, CODES = np.array([5.0, 50.0]) + np.array([1.0, 10.0]) * RNG.normal(size=(30, 2)), RNG.integers(3, size=(30, 1))
SD = X.std(0)
SITES = {"weights": [0.2, 0.3, 0.5], "means": X.mean(0) + SD * RNG.normal(size=(3, 2))}
SITES |= {"scales": np.exp(RNG.normal(size=(3, 2))) * SD, "levels_0": RNG.dirichlet(np.ones(3), 3)}
SITES["correlation_cholesky"] = np.stack([[[1, 0], [r, np.sqrt(1 - r**2)]] for r in (0.3, -0.8, 0.0)])
SITES = {name: np.asarray(value, np.float32) for name, value in SITES.items()}
STANDARD = (SITES["means"] - X.mean(0)) / SD


def columns_of_one_scale(scaling):
    return dist.Cauchy(jnp.asarray(scaling.middle), 2 * jnp.asarray(scaling.spread)).to_event(1)


OWN = {  # a prior, the site that it is of, and its log density by SciPy
    "Laplace": (
        Prior(mean=dist.Laplace(0.0, 0.5)),
        "means",
        (stats.laplace(0, 0.5).logpdf(STANDARD) - np.log(SD)).sum(),
    ),
    "function": (Prior(mean=columns_of_one_scale), "means", (stats.cauchy(0, 2).logpdf(STANDARD) - np.log(SD)).sum()),
    "half-normal": (
        Prior(sd=dist.HalfNormal(2.0)),
        "scales",
        (stats.halfnorm(scale=2).logpdf(SITES["scales"] / SD) - np.log(SD)).sum(),
    ),
    "function of sd": (
        Prior(sd=lambda scaling: dist.Gamma(2.0, 1.0)),
        "scales",
        stats.gamma(2).logpdf(SITES["scales"]).sum(),
    ),
    "vector": (Prior(weight=[1.0, 2.0, 0.5]), "weights", stats.dirichlet([1, 2, 0.5]).logpdf(SITES["weights"])),
    "law of weights": (Prior(weight=dist.Dirichlet(np.ones(3))), "weights", np.log(2.0)),
    "levels": (
        Prior(level=lambda n: dist.Dirichlet(3 * jnp.ones(n))),
        "levels_0",
        stats.dirichlet([3] * 3)
        .logpdf(SITES["levels_0"].astype(float).T / SITES["levels_0"].astype(float).sum(1))
        .sum(),
    ),
    "correlation": (
        Prior(correlation=lambda dim: dist.LKJCholesky(dim, 4.0)),
        "correlation_cholesky",
        stats.beta(4, 4, loc=-1, scale=2).logpdf(SITES["correlation_cholesky"][:, 1, 0]).sum(),
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_prior_of_ones_own_has_its_density_in_units_of_the_columns(name):
    prior, site, expected = OWN[name]

    def density():
        model = partial(bf.models.fair_mixed_mixture, covariance_type="full", prior=prior)
        law = trace(substitute(seed(model, 0), SITES)).get_trace(X, CODES)[site]["fn"]
        return law.log_prob(SITES[site]).sum()

    assert float(jax.jit(density)()) == pytest.approx(expected, rel=1e-4)


BAD = {
    "mean": (-1.0, 0.0, np.nan, "wide", dist.HalfNormal(1.0), dist.Normal(np.zeros(2), 1.0)),
    "weight": (0.0, [1.0, -2.0], [], dist.Normal(0.0, 1.0)),
    "sd": (0.5, (0.5,), (-0.5, 0.7), dist.Normal(0.0, 1.0), dist.Uniform(0.0, 1.0)),
    "correlation": (-1.0, dist.Beta(2.0, 2.0)),
    "level": (0.0, dist.Gamma(1.0, 1.0)),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_bad_prior_is_refused_where_it_is_made(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"`prior\.{name}` must be"):
        Prior(**{name: value})


def test_equal_priors_are_one_setting_and_others_are_not():
    one, same, other = (Prior(mean=dist.Laplace(0.0, scale), weight=[1, 2]) for scale in (1.0, 1.0, 2.0))
    assert {one: 1}[same] == 1
    assert one != other
    assert of_attribute(as_attribute(one)) == one
    assert as_attribute(Prior(mean=columns_of_one_scale)) == NOT_KEPT
    assert Prior(weight=dist.Gamma(1.0, 200.0)).is_sparse
    assert not one.is_sparse


def test_e0_may_have_any_law_of_positive_numbers():
    prior = Prior(weight=dist.LogNormal(-3.0, 0.5))
    model = partial(bf.models.fair_gaussian_mixture, prior=prior, n_components=5)
    draws = Predictive(model, num_samples=200)(jax.random.key(0), X)
    np.testing.assert_allclose(np.log(draws["concentration"]).mean(), -3, atol=0.15)  # four standard errors
    np.testing.assert_allclose(draws["weights"].sum(1), 1, atol=1e-5)
    assert prior.typical_weight == pytest.approx(np.exp(-3 + 0.125), rel=1e-5)


def test_a_function_may_sample_what_components_share():
    def means(scaling: ColumnScaling):
        width = numpyro.sample("width", dist.HalfNormal(1.0))
        return dist.Normal(jnp.asarray(scaling.middle), width * jnp.asarray(scaling.spread)).to_event(1)

    model = partial(bf.models.fair_gaussian_mixture, prior=Prior(mean=means))
    draws = Predictive(model, num_samples=50)(jax.random.key(0), X)
    spread = np.asarray(draws["means"] - X.mean(0)).std((1, 2)) / np.asarray(draws["width"])
    assert draws["width"].shape == (50,)
    assert np.ptp(spread / SD.mean()) < 3  # widths themselves differ by orders of magnitude


def test_tables_are_simulated_from_the_prior_and_have_the_gap_of_their_groups():
    groups, scaling = np.resize(["a", "b"], 40), bf.models.column_scaling(X)
    model = partial(bf.models.fair_mixed_mixture, n_levels=(3,), scaling=scaling, fairness_weight=1.0)
    told = Predictive(model, num_samples=200)(jax.random.key(0), None, None, groups)
    assert told["x"].shape == (200, 40, 3)
    assert set(np.unique(told["x"][..., 2])) == {0, 1, 2}
    middle = (told["x"][..., :2].mean((0, 1)) - X.mean(0)) / SD
    np.testing.assert_allclose(middle, 0, atol=6 * 1.5 / np.sqrt(200))
    np.testing.assert_allclose(told["gap"][7], bf.fairness.gap(np.float64(told["psi"][7]), groups), atol=1e-3)
    categorical = Predictive(bf.models.fair_categorical_mixture, num_samples=3)
    assert categorical(jax.random.key(0), None, n_levels=(3, 2), n_obs=5)["x"].shape == (3, 5, 2)
    labelled = Predictive(bf.models.labelled_mixture, num_samples=3)
    assert labelled(jax.random.key(0), None, n_obs=5, scaling=scaling)["x"].shape == (3, 5, 2)


def test_components_are_a_plate():
    named = trace(seed(bf.models.fair_mixed_mixture, 0)).get_trace(X, CODES)
    for name in ("means", "scales", "levels_0"):
        assert [frame.name for frame in named[name]["cond_indep_stack"]] == ["components"], name


def test_means_that_are_substituted_or_conditioned_act_on_the_density():
    far = {"means": SITES["means"] + 100 * np.float32(SD)}

    def densities():
        values = {name: SITES[name] for name in ("weights", "scales")}
        told = []
        for given in (SITES, far):
            means = {"means": given["means"]}
            told += [
                log_density(handler(bf.models.fair_mixed_mixture, means), (X, None), {}, values)[0]
                for handler in (condition, lambda model, data: substitute(model, data=data))
            ]
        return jnp.stack(told)

    conditioned, substituted, far_conditioned, far_substituted = map(float, jax.jit(densities)())
    assert conditioned == pytest.approx(substituted, rel=1e-6)
    assert far_conditioned == pytest.approx(far_substituted, rel=1e-6)
    assert far_conditioned < conditioned - 1e4


@pytest.mark.slow
def test_traced_groups_and_tables_serve_mcmc_that_compiles_its_arguments():
    """A second table of the same shape gets the draws of its own, without a new program for the model."""
    model = partial(bf.models.fair_gaussian_mixture, n_components=2, n_groups=2, fairness_weight=1.0)
    kernel = HMC(model, num_steps=3, trajectory_length=None)
    mcmc = MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False, jit_model_args=True)
    groups, tables = jnp.asarray(np.resize([0, 1], 30)), (X, X + 1000)
    for table in tables:
        mcmc.run(jax.random.key(0), jnp.asarray(table, jnp.float32), groups)
        means = np.asarray(mcmc.get_samples()["means"])
        np.testing.assert_allclose(means.mean((0, 1)), table.mean(0), atol=20)


@pytest.mark.slow
def test_the_kernel_of_labels_samples_the_table_of_the_run():
    """One kernel, two tables: each run has the clusters of its own."""
    mcmc = MCMC(bf.models.labelled_kernel(max_tree_depth=3), num_warmup=100, num_samples=50, progress_bar=False)
    for half in (np.arange(30) < 15, np.arange(30) % 2 == 0):
        table = np.where(half, 0.0, 10.0)[:, None] + RNG.normal(size=(30, 1))
        mcmc.run(jax.random.key(0), table, None, np.resize(["a", "b", "c"], 30), n_components=2, fairness_weight=0.1)
        labels = np.asarray(mcmc.get_samples()["labels"])[-1]
        assert set(labels[half]).isdisjoint(labels[~half])
