"""The sparse mixture: its scores against the Dirichlet law, and the number of occupied clusters against enumeration."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import condition
from numpyro.infer import HMC
from partitions import every_partition
from scipy import stats
from scipy.special import gammaln

import bayesfair as bf
from bayesfair.models import transfers
from bayesfair.models.mixtures import Mixture, marginal
from bayesfair.models.observed import Observed, observe
from bayesfair.models.sparse import SparseScores, log_slope, log_weights, scores_of, stretched, unstretched
from bayesfair.models.transfers import Transfers
from bayesfair.models.units import ColumnScaling

# Seven rows of one column, whose standard deviation is known: conjugate, and few enough to enumerate 877 partitions.
X = np.array([[-1.0], [-0.8], [-0.6], [0.1], [0.6], [0.8], [1.1]])
GROUP = np.array([0, 0, 0, 0, 1, 1, 1])
N, K, SD, E0, PRIOR_SD = 7, 4, 0.5, 0.1, 1.5
UNITS = ColumnScaling(np.zeros(1), np.ones(1))
WEIGHT = 0.6  # lambda
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 16, 300, 2_500


def test_scores_are_a_dirichlet_law():
    """Kolmogorov-Smirnov of 4,000 weights against a beta law, p above 0.001, and their share within it at 4 errors."""

    concentration = 0.01

    @jax.jit
    def drawn(key):
        scores = SparseScores(concentration, 5, concentration).sample(key, (4_000,))
        return jax.vmap(partial(log_weights, typical=concentration))(scores)

    logs = np.asarray(drawn(jax.random.key(0)), np.float64)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, atol=1e-5)
    ends = np.array([-80.0, -1e-3])  # between which float32 tells weights apart, and from 0 and 1
    shown = logs[(logs[:, 0] > ends[0]) & (logs[:, 0] < ends[1]), 0]
    low, high = stats.beta(concentration, 4 * concentration).cdf(np.exp(ends))
    uniform = (stats.beta(concentration, 4 * concentration).cdf(np.exp(shown)) - low) / (high - low)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    expected = high - low
    assert len(shown) / 4_000 == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4_000))


@pytest.mark.parametrize("typical", [0.1, 0.3])
def test_the_density_of_scores_has_mass_one(typical):
    """Two components, e0 = 0.3, by a grid."""
    axis = np.linspace(-60, 25, 1_701)
    law = SparseScores(0.3, 2, typical)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1, dtype=np.float32).reshape(-1, 2)
    density = np.exp(np.asarray(jax.jit(jax.vmap(law.log_prob))(grid), np.float64))
    assert density.sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=0.01)


def test_stretching_is_undone():
    @jax.jit
    def told(y, typical, weights):
        there = unstretched(stretched(y, typical), typical), jnp.exp(log_slope(y, typical))
        return (
            *there,
            jax.vmap(jax.grad(stretched), (0, None))(y, typical),
            log_weights(scores_of(weights, typical), typical),
        )

    y, weights = np.linspace(-200, 5, 301, dtype=np.float32), np.float32([0.7, 0.3 - 1e-6, 1e-6])
    for typical in (0.01, 0.5, 2.0, 5.0):
        back, slope, expected, logs = map(np.asarray, told(y, typical, weights))
        np.testing.assert_allclose(back, y, atol=2e-3)
        np.testing.assert_allclose(slope, expected, rtol=1e-4)
        if typical == 0.01:
            np.testing.assert_allclose(np.exp(logs), weights, rtol=1e-3)


@cache
def enumerated():
    """Partitions into at most K clusters, and their posterior probabilities without the fairness factor."""
    every = every_partition(N, K)
    law = np.array([log_mass(p) for p in every])
    return every, np.exp(law - law.max()) / np.exp(law - law.max()).sum()


def log_mass(partition):
    """log p(partition) p(X | partition), up to a constant: labels of exchangeable components, means integrated out."""
    occupied = partition.max() + 1
    total = gammaln(K + 1) - gammaln(K - occupied + 1)
    for k in range(occupied):
        x = X[partition == k, 0]
        covariance = SD**2 * np.eye(len(x)) + PRIOR_SD**2
        total += gammaln(len(x) + E0) - gammaln(E0) + stats.multivariate_normal(np.zeros(len(x)), covariance).logpdf(x)
    return total


def pmf(occupied, weight):
    return np.bincount(occupied, weights=weight, minlength=K + 1)[1:] / weight.sum()


def fair_pmf(num_draws=200_000):
    """Importance sampling: parameters given the partitions' exact law, weighted by the fairness factor."""
    every, law = enumerated()
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(every), num_draws, p=law)
    labels = every[chosen]
    one = labels[:, :, None] == np.arange(K)
    size = one.sum(1)
    precision = size / SD**2 + 1 / PRIOR_SD**2
    means = (one * X[None]).sum(1) / SD**2 / precision + rng.normal(size=size.shape) / np.sqrt(precision)
    weights = rng.gamma(E0 + size) + 1e-300
    joint = np.log(weights)[:, None] - (X[None] - means[:, None]) ** 2 / (2 * SD**2)
    psi = jax.nn.softmax(jnp.asarray(joint, jnp.float32), -1)
    member = jnp.asarray(np.stack([GROUP == 0, GROUP == 1], 1) / np.bincount(GROUP), jnp.float32)
    gaps = np.asarray(jax.jit(jax.vmap(lambda one: bf.models.smooth_gap(one, member)))(psi), np.float64)
    return pmf((every.max(1) + 1)[chosen], np.exp(-WEIGHT * N * gaps))


@cache
def program(num_draws):
    """One compiled program for all weights: labels' occupied clusters (chains, draws)."""
    fitted, family = observe(X, None, GROUP, covariance_type="isotropic", fairness_weight=1.0, scaling=UNITS)
    mixture = Mixture(family, K, bf.models.Prior(weight=E0, mean=PRIOR_SD))
    model = condition(partial(marginal, mixture), {"scales": jnp.float32(SD), "fairness": 0.0})

    def chain(lambda_n, key):
        observed = Observed(*fitted[:-1], lambda_n)
        transferring = Transfers(HMC(model, num_steps=8, trajectory_length=None), mixture, observed)
        state = transferring.init(key, NUM_WARMUP, None, (observed,), {})

        def step(state, key):
            state = transferring.sample(state, (observed,), {})
            sites = {**state.z, "scales": jnp.float32(SD)}
            label = jax.random.categorical(key, mixture.row(observed.units, sites).log_joint_of(observed.table), axis=0)
            return state, jnp.unique(label, size=N, fill_value=-1)

        keys = jax.random.split(jax.random.fold_in(key, 1), NUM_WARMUP + num_draws)
        return (jax.lax.scan(step, state, keys)[1][NUM_WARMUP:] >= 0).sum(1)

    return jax.jit(jax.vmap(chain, in_axes=(None, 0)))


def sampled_pmf(lambda_n, num_draws=NUM_DRAWS):
    """pmf of the occupied clusters, its standard error by the spread of chains."""
    keys = jax.random.split(jax.random.key(0), NUM_CHAINS)
    occupied = np.asarray(program(num_draws)(np.float32(lambda_n), keys))
    chains = np.stack([pmf(one, np.ones(num_draws)) for one in occupied])
    return chains.mean(0), chains.std(0, ddof=1) / np.sqrt(NUM_CHAINS)


def off(found, exact):
    """The largest distance in standard errors, of at least 0.002."""
    return (np.abs(found[0] - exact) / np.maximum(found[1], 0.002)).max()


def exact_pmf():
    every, law = enumerated()
    return pmf(every.max(1) + 1, law)


@pytest.mark.slow
def test_occupied_clusters_agree_with_enumeration():
    """t with 15 degrees of freedom at 5 standard errors, four numbers each: fails in one of 750 runs."""
    assert off(sampled_pmf(0.0), exact_pmf()) < 5
    exact = fair_pmf()
    assert exact[0] > 0.5 > 0.2 > exact_pmf()[0]  # one cluster is fair
    assert off(sampled_pmf(WEIGHT * N), exact) < 5


def test_the_test_can_fail(monkeypatch):
    """A transfer that forgets the density of its proposals: many standard errors of few draws, 2 without the bug."""
    monkeypatch.setattr(transfers, "_log_share", lambda odds, concentration: 0.0)
    assert off(sampled_pmf(0.0, 400), exact_pmf()) > 5
