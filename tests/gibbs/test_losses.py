"""What losses say of themselves: the degree that sets the law of the inverse temperature."""

import jax
import numpy as np
import pytest
from exact import LOSSES
from scipy.integrate import quad

from bayesfair.fairlets.dissimilarity import SquaredEuclidean
from bayesfair.gibbs import DissimilarityLoss, Loss, Units
from bayesfair.gibbs.losses import resolve_loss

pytestmark = pytest.mark.usefixtures("x64")
EXACT = ("kmeans", "manhattan", "minkowski")
DOMAIN = {"kl": (0, np.inf), "itakura-saito": (0, np.inf), "binary": (0, 1)}


def scaling(loss, scale=0.5):
    """h of L(s X) = s^h L(X), as one scale shows it."""
    rng = np.random.default_rng(0)
    center, weight = rng.uniform(0.1, 0.9, (7, 3)), rng.uniform(0.5, 2, 7)
    cluster = np.array([0, 1, 0, 1, 1, 0, 0])
    compiled = jax.jit(lambda center: loss.cluster_losses(Units(center, weight, cluster), 2).sum())
    whole, scaled = (float(compiled(size * center)) for size in (1.0, scale))
    return np.log(scaled / whole) / np.log(scale)


@pytest.mark.parametrize("name", LOSSES)
def test_homogeneity_is_claimed_where_it_holds_and_nowhere_else(name):
    loss = resolve_loss(name, 3.0)
    assert loss.homogeneous == (name in EXACT)
    assert np.isclose(scaling(loss), loss.degree, atol=1e-12) == loss.homogeneous


def test_a_loss_of_ones_own_claims_nothing_by_itself():
    assert not Loss().homogeneous
    assert not DissimilarityLoss(dissimilarity=SquaredEuclidean()).homogeneous  # degree 1, which it has not


def power(name, inverse_temperature, step=1e-3):
    """-d log Z / d log lambda for Z the integral of exp(-lambda D(x, m)) over one feature."""
    loss = resolve_loss(name, 3.0)
    distance = getattr(loss, "divergence", loss.dissimilarity.between)

    def log_normaliser(value):
        ends = DOMAIN.get(name, (-np.inf, np.inf))
        parts = [(ends[0], 0.4), (0.4, ends[1])]
        integrand = lambda x: np.exp(-value * float(distance(np.array([x]), np.array([0.4]))))  # noqa: E731
        return np.log(sum(quad(integrand, *part, epsabs=0, epsrel=1e-11, limit=200)[0] for part in parts))

    up, down = (log_normaliser(inverse_temperature * np.exp(sign * step)) for sign in (1, -1))
    return (down - up) / (2 * step)


@pytest.mark.parametrize("name", LOSSES)
def test_the_degree_is_the_power_of_lambda(name):
    """N d / h: at any lambda for homogeneous losses, in the limit of a large one for the others."""
    expected = 1 / resolve_loss(name, 3.0).degree
    assert abs(power(name, 1000.0) - expected) < 1e-2
    assert (abs(power(name, 1.0) - expected) < 1e-6) == (name in EXACT)
