"""What rounding must not do: cancel in the normalisers of large clusters, or draw a cluster that has no mass."""

from itertools import product

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax.scipy.special import gammaln, xlogy

from bayesfair.gibbs import BinaryLoss, ItakuraSaitoLoss, KMeansLoss, PoissonLoss
from bayesfair.gibbs.loss import ClusterMeans
from bayesfair.gibbs.moves.collapsed import draw_cluster

TEMPERATURE = np.float32(0.75)
RATES = np.geomspace(1e-2, 1e8, 61)  # lambda W
MEANS = {
    KMeansLoss: (-3.0, 0.0, 2.0),
    PoissonLoss: (0.0, 1e-3, 0.3, 1.0, 50.0),
    ItakuraSaitoLoss: (1e-6, 1.0, 1e6),
    BinaryLoss: (0.0, 1e-7, 1e-3, 0.5, 0.999, 1 - 1e-7, 1.0),
}
UNIT = {KMeansLoss: 1.0, PoissonLoss: 3.0, ItakuraSaitoLoss: 2.0, BinaryLoss: 1.0}  # a unit of weight one that joins
A_FEATURE = 2e-6


def exactly(loss, mass, total):
    """The log normaliser of one feature, from its integral in closed form; `mass` and `total` as float32 holds them."""
    rate, mean = mpmath.mpf(float(TEMPERATURE)) * mpmath.mpf(float(mass)), mpmath.mpf(float(total)) / float(mass)
    half, x_log_x = mpmath.mpf(1) / 2, lambda x: x * mpmath.log(x) if x else mpmath.mpf(0)
    if loss is KMeansLoss:
        return mpmath.log(mpmath.pi / rate) / 2
    if loss is PoissonLoss:
        shape = rate * mean + half
        return mpmath.loggamma(shape) - shape * mpmath.log(rate) - rate * (x_log_x(mean) - mean)
    if loss is ItakuraSaitoLoss:
        return rate + mpmath.loggamma(rate) - rate * mpmath.log(rate)
    a, b = rate * mean + half, rate * (1 - mean) + half
    beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
    return beta - rate * (x_log_x(mean) + x_log_x(1 - mean))


def clusters(loss):
    """(before, after a unit joined) in float32: clusters of every size, a feature for every mean."""
    mass = (RATES / TEMPERATURE).astype(np.float32)
    total = np.minimum(mass[:, None] * np.float32(MEANS[loss]), mass[:, None] * np.float32(max(MEANS[loss])))
    count = np.full(len(mass), 2)
    return [ClusterMeans(count, w, s) for w, s in [(mass, total), (mass + 1, total + np.float32(UNIT[loss]))]]


@pytest.fixture(scope="module")
def exact():
    """The exact values {loss: (before, after)}, summed over the features."""
    with mpmath.workdps(50):
        return {
            loss: [
                np.array([sum(exactly(loss, w, s) for s in row) for w, row in zip(*map(np.asarray, means[1:]))])
                for means in clusters(loss)
            ]
            for loss in MEANS
        }


def errors(loss, exact, log_normalizer):
    """Largest error a feature, of the log normaliser and of its change when a unit joins."""
    compiled = jax.jit(log_normalizer)
    values = [np.asarray(compiled(TEMPERATURE, means)) for means in clusters(loss)]
    assert all(value.dtype == np.float32 for value in values)
    value = values[0].astype(float) - exact[loss][0].astype(float)
    change = (values[1] - values[0]).astype(float) - (exact[loss][1] - exact[loss][0]).astype(float)
    return [np.abs(error).max() / len(MEANS[loss]) for error in (value, change)]


@pytest.mark.parametrize("loss", MEANS)
def test_normalisers_and_their_changes_are_exact_in_float32(loss, exact):
    assert max(errors(loss, exact, loss().log_normalizer)) < A_FEATURE


def difference_of_large_terms(temperature, means):
    """The Poisson normaliser as it reads in the closed form."""
    rate, mean = (temperature * means.mass)[:, None], means.mean
    shape = rate * mean + 0.5
    return (gammaln(shape) - shape * jnp.log(rate) - rate * (xlogy(mean, mean) - mean)).sum(1)


def with_rounded_shares(temperature, means):
    """The binary normaliser with r (1 - mean) for the zeros."""
    share = 1 - means.mean
    return BinaryLoss().log_normalizer(temperature, means._replace(sum=means.mass[:, None] * (1 - share)))


def test_the_check_catches_cancellation(exact):
    assert min(errors(PoissonLoss, exact, difference_of_large_terms)) > 1e-2
    assert errors(BinaryLoss, exact, with_rounded_shares)[0] > 1e-4


# Impossible clusters


ENDS = np.float32([0.0, np.finfo(np.float32).tiny, 2.0**-23, 0.5, 1 - 2.0**-23, 1 - 2.0**-24])


def some_logits(possible, n=400):
    """Random logits (n, clusters) of every spread, -inf where a cluster is not `possible`."""
    rng = np.random.default_rng(len(possible))
    logits = rng.normal(size=(n, len(possible))) * rng.uniform(0, 20, (n, 1))
    return np.where(possible, logits, -np.inf).astype(np.float32)


def without_ends(uniform, logits):
    """Inverse CDF with a total that is summed in another order, and without a least threshold."""
    mass = jnp.exp(logits - logits.max(-1, keepdims=True))
    threshold = uniform * mass[..., ::-1].cumsum(-1)[..., -1]
    return (jnp.cumsum(mass, -1)[..., :-1] < threshold[..., None]).sum(-1)


def impossible_draws(draw, n_clusters):
    """How many clusters without mass are drawn at either end, over all sets of possible clusters."""
    found = 0
    for possible in product([False, True], repeat=n_clusters):
        if any(possible):
            logits = np.repeat(some_logits(possible)[:, None], len(ENDS), 1)
            drawn = np.asarray(draw(np.broadcast_to(ENDS, logits.shape[:2]), logits))
            mass = np.exp(logits - logits.max(-1, keepdims=True))
            found += np.count_nonzero(np.take_along_axis(mass, drawn[..., None], -1) == 0)
    return found


@pytest.mark.parametrize("n_clusters", [1, 3, 9])
def test_no_cluster_without_mass_is_drawn(n_clusters):
    assert impossible_draws(jax.jit(draw_cluster), n_clusters) == 0
    assert impossible_draws(jax.jit(jax.vmap(jax.vmap(draw_cluster))), n_clusters) == 0


def test_the_check_catches_both_ends():
    planted = jax.jit(without_ends)
    assert impossible_draws(planted, 2) > 0  # a uniform of 0 takes the first cluster, possible or not
    logits = some_logits((True,) * 8 + (False,), 20_000)
    uniform = np.full(len(logits), 1 - 2.0**-24, np.float32)
    assert (np.asarray(planted(uniform, logits)) == 8).any()
    assert (np.asarray(jax.jit(draw_cluster)(uniform, logits)) < 8).all()
