"""Replica exchange: the law of a swap exactly, a posterior of two parameters against a grid, and planted bugs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro.handlers import condition
from numpyro.infer import HMC, NUTS
from numpyro.infer.util import log_density

import bayesfair as bf
from bayesfair.models import exchange as replicas
from bayesfair.models.exchange import BETA, ReplicaExchange, exchange, ladder, swap, tempered

BETAS = np.array([0.2, 0.5, 1.0])
ENERGY = np.array([0.0, 0.7, 2.5, 4.0])  # V of the four states a replica may be in
PAIRS = [(a, b) for a in range(4) for b in range(4)]


def product_law(low, high):
    """The joint law of two replicas on four states, prior flat."""
    law = np.exp([-low * ENERGY[a] - high * ENERGY[b] for a, b in PAIRS])
    return law / law.sum()


def swap_matrix(probability):
    matrix = np.zeros((16, 16))
    for at, (a, b) in enumerate(PAIRS):
        p = probability(a, b)
        matrix[at, PAIRS.index((b, a))] += p
        matrix[at, at] += 1 - p
    return matrix


def share_of_swaps(a, b, betas, rounds=4_000):
    keys = jax.random.split(jax.random.key(0), rounds)
    return float(np.mean(swaps(keys, np.float32([ENERGY[a], ENERGY[b]]), np.float32(betas))))


@jax.jit
def swaps(keys, energies, betas):
    return jax.vmap(lambda key: swap(key, energies, betas, 0)[1])(keys)


def test_swaps_leave_the_joint_law_invariant():
    low, high = BETAS[1:]

    def law(a, b):
        return min(1.0, np.exp((high - low) * (ENERGY[b] - ENERGY[a])))

    np.testing.assert_allclose(product_law(low, high) @ swap_matrix(law), product_law(low, high), atol=1e-12)
    for a, b in PAIRS[:6]:
        assert share_of_swaps(a, b, BETAS[1:]) == pytest.approx(law(a, b), abs=0.03)  # 4 standard errors

    def forgets_the_betas(a, b):
        return min(1.0, np.exp(ENERGY[b] - ENERGY[a]))

    off = product_law(low, high) @ swap_matrix(forgets_the_betas) - product_law(low, high)
    assert np.abs(off).max() > 1e-3


def test_rounds_only_permute():
    energy, betas = np.float32([5.0, 1.0, 3.0, 0.0]), np.float32(ladder(60))[-4:]
    keys = jax.random.split(jax.random.key(0), 5)
    order, accepted = map(np.asarray, jax.jit(jax.vmap(exchange, (0, None, None)))(keys, energy, betas))
    np.testing.assert_array_equal(np.sort(order, axis=1), np.broadcast_to(range(4), (5, 4)))
    assert ((accepted >= 0) & (accepted <= 1)).all()


@pytest.mark.parametrize("bad", [[1.0], [0.5, 0.2, 1.0], [0.1, 0.9], [-0.1, 1.0]])
def test_bad_ladders_are_refused(bad):
    with pytest.raises(ValueError, match="`inverse_temperatures` must be"):
        ReplicaExchange(NUTS(bf.models.fair_gaussian_mixture), bad)


# One feature, two components, everything known but the two means: a posterior to integrate on a grid.
RNG = np.random.default_rng(3)
X = np.r_[RNG.normal(-1.2, 0.6, 20), RNG.normal(1.4, 0.6, 20)][:, None]
GROUPS = (RNG.random(40) < np.where(np.arange(40) < 20, 0.25, 0.75)).astype(int)
KNOWN = {"weights": np.float32([0.35, 0.65]), "scales": np.float32(0.9)}
MODEL = condition(bf.models.fair_gaussian_mixture, KNOWN)
SETTINGS = {"n_components": 2, "fairness_weight": 0.4}
AXIS = np.linspace(-3.5, 3.5, 141)
MIDDLE, SPREAD = np.float32(X.mean()), np.float32(X.std())


@pytest.fixture(scope="module")
def grid():
    """Posterior probabilities (141, 141) of the two standardised means."""

    def density(pair):
        return log_density(MODEL, (X, GROUPS), SETTINGS, {"means": MIDDLE + SPREAD * pair[:, None]})[0]

    points = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1, dtype=np.float32).reshape(-1, 2)
    value = np.asarray(jax.jit(partial(jax.lax.map, density, batch_size=2_000))(points), np.float64).reshape(141, 141)
    mass = np.exp(value - value.max())
    return mass / mass.sum()


def moments(law_or_draws):
    """P(mean of component 0 < that of 1), and mean and standard deviation of the smaller one."""
    if law_or_draws.shape == (141, 141):
        first, second = np.meshgrid(AXIS, AXIS, indexing="ij")
        law = law_or_draws
    else:
        first, second = law_or_draws.T
        law = np.full(len(first), 1 / len(first))
    smaller = np.minimum(first, second)
    mean = (law * smaller).sum()
    return np.array([(law * (first < second)).sum(), mean, np.sqrt((law * (smaller - mean) ** 2).sum())])


def sample(kernel, num_samples=2_000, num_warmup=300):
    """Means (draws, 2) of two chains, in one program."""

    def step(state, _):
        state = kernel.sample(state, (X, GROUPS), SETTINGS)
        return state, state.z["means"][:, 0]

    def chain(key):
        state = kernel.init(key, num_warmup, None, (X, GROUPS), SETTINGS)
        return jax.lax.scan(step, state, length=num_warmup + num_samples)[1][num_warmup:]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1)))).reshape(-1, 2)


TOLERANCE = np.array([0.05, 0.06, 0.05])  # four standard errors at the effective sizes seen


@pytest.mark.slow
def test_replica_exchange_agrees_with_integration(grid):
    assert 0.05 < moments(grid)[0] < 0.95  # both orders of the components count
    kernel = ReplicaExchange(HMC(MODEL, num_steps=8, trajectory_length=None), [0.1, 0.3, 0.6, 1.0])
    assert (np.abs(moments(sample(kernel)) - moments(grid)) < TOLERANCE).all()


def test_the_integration_test_can_fail(grid, monkeypatch):
    """Swaps that are always accepted mix the replicas' laws."""

    def always(key, energy, betas, parity):
        accepted = jnp.arange(len(betas) - 1) % 2 == parity
        return jnp.arange(len(betas)) + jnp.append(accepted, False) - jnp.insert(accepted, 0, False), accepted

    monkeypatch.setattr(replicas, "swap", always)
    kernel = ReplicaExchange(HMC(MODEL, num_steps=8, trajectory_length=None), [0.1, 0.3, 0.6, 1.0])
    assert (np.abs(moments(sample(kernel, 600)) - moments(grid)) > TOLERANCE).any()


def test_tempering_multiplies_the_observed_sites_alone():
    values = {"means": np.float32([[0.3], [-0.5]])}
    settings = {**SETTINGS, "fairness_weight": 0.0}

    def density_of(model, groups, settings):
        return float(jax.jit(lambda values: log_density(model, (X, groups), settings, values)[0])(values))

    def density(beta, groups, settings):
        return density_of(tempered(MODEL), groups, {**settings, BETA: beta})

    prior, half, whole = (density(beta, GROUPS, SETTINGS) for beta in (0.0, 0.5, 1.0))
    assert half == pytest.approx((prior + whole) / 2, rel=1e-5)
    assert whole == pytest.approx(density_of(MODEL, GROUPS, SETTINGS), rel=1e-6)
    base = numpyro.distributions.Normal(MIDDLE, 1.5 * SPREAD).log_prob(values["means"]).sum()
    assert density(0.0, None, settings) == pytest.approx(float(base), rel=1e-5)
    assert prior == pytest.approx(float(base), rel=1e-5)
