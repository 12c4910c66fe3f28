"""What losses say of themselves: the degree that sets the law of the inverse temperature."""

import numpy as np
import pytest
from exact import LOSSES
from scipy.integrate import quad

from bayesfair.fairlets.dissimilarity import SquaredEuclidean
from bayesfair.gibbs import DissimilarityLoss, Loss
from bayesfair.gibbs.losses import resolve_loss

pytestmark = pytest.mark.usefixtures("x64")
EXACT = ("kmeans", "manhattan", "minkowski")
DOMAIN = {"kl": (0, np.inf), "itakura-saito": (0, np.inf), "binary": (0, 1)}


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
    loss = resolve_loss(name, 3.0)
    assert loss.homogeneous == (name in EXACT)
    expected = 1 / loss.degree
    assert abs(power(name, 1000.0) - expected) < 1e-2
    assert (abs(power(name, 1.0) - expected) < 1e-6) == (name in EXACT)
