"""The factor of fairness in models of one's own: its density, who sees it, and what leaves it alone."""

from functools import partial

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import mask, seed, trace
from numpyro.infer import HMC, MCMC, SVI, Trace_ELBO, autoguide, log_likelihood
from numpyro.infer.util import log_density, potential_energy

import bayesfair as bf

RNG = np.random.default_rng(0)
X = np.float32(RNG.normal(size=20))
GROUPS = np.resize(["a", "b", "c"], 20)
CODES = np.resize([0, 1, 2], 20)
WEIGHT = 1.5


def psi_of(cut):
    return jax.nn.softmax(jnp.stack([2 * (X - cut), jnp.zeros(20), cut - X], 1), 1)


def model(groups=GROUPS, weight=WEIGHT, kept=True, **more):
    """Two clusters' border, and rows around it; the factor stands beside the rows, under the same mask."""
    cut = numpyro.sample("cut", dist.Normal(0.0, 1.0))
    with mask(mask=jnp.broadcast_to(kept, 20)):
        with numpyro.plate("obs", 20):
            numpyro.sample("x", dist.Normal(cut, 1.0), obs=X)
        bf.models.fairness(psi_of(cut), groups, weight, **more)


def expected(cut, kept=1.0):
    """The log density, by sums, with the gap that `smooth_gap` has."""
    member = np.eye(3, dtype=np.float32)[CODES] / np.bincount(CODES)
    rows = kept * dist.Normal(cut, 1.0).log_prob(X)
    return dist.Normal(0.0, 1.0).log_prob(cut) + rows.sum() - WEIGHT * 20 * bf.models.smooth_gap(psi_of(cut), member)


def test_the_factor_counts_in_the_density_and_a_mask_of_rows_leaves_it_alone():
    @jax.jit
    def told(cut):
        unconstrained = {"cut": cut, "fairness": jnp.zeros(0)}
        return {
            "density": (log_density(model, (), {}, {"cut": cut})[0], expected(cut)),
            "potential": (-potential_energy(model, (), {}, unconstrained), expected(cut)),
            "some rows": (log_density(model, (), {"kept": X > 0}, {"cut": cut})[0], expected(cut, X > 0)),
        }

    for name, (ours, theirs) in told(np.float32(0.3)).items():
        assert float(ours) == pytest.approx(float(theirs), rel=1e-5), name


def test_traced_groups_have_the_density_of_known_ones():
    @jax.jit
    def densities(codes):
        at = {"cut": 0.3}
        return log_density(model, (), {}, at)[0], log_density(model, (codes,), {"n_groups": 3}, at)[0]

    known, traced = densities(CODES)
    assert float(known) == pytest.approx(float(traced), rel=1e-6)


def test_the_factor_is_no_likelihood():
    draws = {"cut": np.zeros(4, np.float32), "fairness": np.zeros(4, np.float32)}
    assert jax.eval_shape(lambda draws: log_likelihood(model, draws), draws).keys() == {"x"}
    gaussian = partial(bf.models.fair_gaussian_mixture, n_components=2, fairness_weight=1.0)
    drawn = {"weights": np.full((4, 2), 0.5), "means": np.ones((4, 2, 1)), "scales": np.ones(4)}
    told = jax.eval_shape(lambda draws: log_likelihood(gaussian, draws, X[:, None], GROUPS), drawn)
    assert told.keys() == {"x"}


@pytest.mark.slow
def test_numpyro_and_arviz_take_the_draws_as_they_are(capsys):
    mcmc = MCMC(HMC(model, num_steps=4, trajectory_length=None), num_warmup=100, num_samples=100, progress_bar=False)
    mcmc.run(jax.random.key(0))
    mcmc.print_summary()
    assert "fairness" in capsys.readouterr().out
    draws = mcmc.get_samples()
    gaps = jax.vmap(lambda cut: expected(cut) - expected_without(cut))(draws["cut"])
    np.testing.assert_allclose(draws["fairness"], gaps, atol=1e-4)
    tree = az.from_numpyro(mcmc, log_likelihood=True)
    assert np.isfinite(az.loo(tree).elpd)
    assert set(az.summary(tree).index) == {"cut", "gap", "fairness"}
    guide = autoguide.AutoMultivariateNormal(model)
    fitted = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO()).run(jax.random.key(0), 300, progress_bar=False)
    mean = guide.median(fitted.params)["cut"]
    assert float(mean) == pytest.approx(float(draws["cut"].mean()), abs=0.15)


def expected_without(cut):
    return dist.Normal(0.0, 1.0).log_prob(cut) + dist.Normal(cut, 1.0).log_prob(X).sum()


def run(model):
    """Trace the model and the gradient of its density at some point."""

    def gradient(key):
        named = trace(seed(model, key)).get_trace().items()
        sites = {name: site["value"] for name, site in named if site["type"] == "sample" and not site["is_observed"]}
        return jax.grad(lambda sites: log_density(seed(model, key), (), {}, sites)[0])(sites)

    jax.eval_shape(gradient, jax.random.key(0))


def sampled_weight(of):
    weight = of(numpyro.sample("weight", dist.LogNormal(0.0, 1.0)))
    model(weight=weight)


def sampled_weight_of_a_mixture():
    weight = numpyro.sample("weight", dist.LogNormal(0.0, 1.0))
    bf.models.fair_gaussian_mixture(X[:, None], GROUPS, n_components=2, fairness_weight=2 * weight)


def in_a_plate():
    with numpyro.plate("rows", 20):
        bf.models.fairness(psi_of(0.0), GROUPS, 1.0)


BAD = {
    "a sampled weight": (
        partial(sampled_weight, lambda weight: weight),
        "`fairness_weight` must be given, not sampled",
    ),
    "a function of one": (partial(sampled_weight, jnp.exp), "has no normaliser"),
    "one of a mixture": (sampled_weight_of_a_mixture, "has no normaliser"),
    "a plate": (in_a_plate, "outside of plates"),
    "one group": (partial(model, np.zeros(20)), "at least two groups.*n_groups"),
    "no groups": (partial(model, None), "`groups` must be given if weight is above 0"),
    "too few groups": (partial(model, n_groups=2), "`n_groups` must be at least the 3 groups"),
    "a negative weight": (partial(model, weight=-1.0), "`weight` must be"),
    "labels": (lambda: bf.models.fairness(np.zeros(20), GROUPS, 1.0), "`psi` must have two dimensions"),
    "traced groups": (
        lambda: jax.eval_shape(lambda codes: model(codes), CODES),
        "`n_groups` must be given if groups are traced",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_means_nothing_is_refused(case):
    wrong, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        run(wrong)


def test_rows_of_one_of_several_groups_have_the_gap_0():
    def told():
        return log_density(model, (np.zeros(20),), {"n_groups": 3}, {"cut": 0.3})[0], expected_without(0.3)

    one, other = jax.jit(told)()
    assert float(one) == pytest.approx(float(other), rel=1e-5)
