"""Losses for kernels against the package's dissimilarities, SciPy's integrals, and plain Python."""

import numpy as np
import pytest
from scipy import integrate, special

from bayesfair.gibbs import losses
from bayesfair.gibbs.chance import seeded
from bayesfair.gibbs.loss import NAMES, Loss, Minkowski, resolve_loss

MEASURES = {  # mu and d(x, m) of a number
    "kmeans": (lambda m: 1.0, lambda x, m: (x - m) ** 2, (-np.inf, np.inf)),
    "kl": (lambda m: m**-0.5, lambda x, m: special.rel_entr(x, m) - x + m, (0, np.inf)),
    "itakura-saito": (lambda m: 1 / m, lambda x, m: x / m - np.log(x / m) - 1, (0, np.inf)),
    "binary": (
        lambda m: (m * (1 - m)) ** -0.5,
        lambda x, m: special.rel_entr(x, m) + special.rel_entr(1 - x, 1 - m),
        (0, 1),
    ),
}
ROWS = np.random.default_rng(0).uniform(0.1, 0.9, (2, 30, 3))


@pytest.mark.parametrize("loss", [*NAMES, Minkowski(3.0)], ids=str)
def test_losses_are_the_dissimilarities_of_the_package(loss):
    named = resolve_loss(loss)
    code, middle = named.code(), np.empty(3)
    for x, y in zip(*ROWS):
        assert losses.paid_at(code.paid, x, y) == pytest.approx(float(named.dissimilarity.to_center(x, y)), rel=1e-9)
        far = losses.between.py_func(code, x, y, middle)
        assert far == pytest.approx(float(named.dissimilarity.between(x, y)), rel=1e-9)


@pytest.mark.parametrize("loss", MEASURES)
@pytest.mark.parametrize(("rate", "mean"), [(0.5, 0.3), (3.0, 0.7), (50.0, 0.2)])
def test_normalisers_are_integrals(loss, rate, mean):
    mu, d, ends = MEASURES[loss]
    exact = integrate.quad(lambda m: np.exp(-rate * d(mean, m)) * mu(m), *ends, limit=500)[0]
    found = losses.log_g_at(resolve_loss(loss).code().log_g, rate, 2.5, np.array([2.5 * mean]))
    assert found == pytest.approx(np.log(exact), abs=1e-6)


@pytest.mark.parametrize("loss", MEASURES)
def test_centers_follow_their_law(loss):
    """20,000 draws: the mean of a bounded function within four standard errors but for one run in 10,000."""
    mu, d, ends = MEASURES[loss]
    code, s, center, rate, mean = resolve_loss(loss).code(), seeded(1), np.empty(1), 4.0, 0.4
    drawn = np.empty(20_000)
    for at in range(len(drawn)):
        losses.center_at(code.draw_center, s, rate, 2.0, np.array([2.0 * mean]), center)
        drawn[at] = np.tanh(center[0])
    total = integrate.quad(lambda m: np.exp(-rate * d(mean, m)) * mu(m), *ends)[0]
    exact = integrate.quad(lambda m: np.tanh(m) * np.exp(-rate * d(mean, m)) * mu(m), *ends)[0] / total
    assert drawn.mean() == pytest.approx(exact, abs=4 * drawn.std() / np.sqrt(len(drawn)))


def test_a_unit_that_leaves_saves_what_it_paid_to_join():
    rng = np.random.default_rng(2)
    for name in MEASURES:
        code, old, new = resolve_loss(name).code(), np.empty(3), np.empty(3)
        rest, x, w = rng.uniform(0.1, 0.9, 3) * 4, rng.uniform(0.1, 0.9, 3), 1.7
        joined = losses.joining.py_func(code, x, w, rest, 4.0, old, new)
        assert losses.leaving.py_func(code, x, w, rest + w * x, 4.0 + w, old, new) == pytest.approx(joined, rel=1e-9)


def test_edges_of_domains():
    kl, itakura_saito = (resolve_loss(name).code().paid for name in ("kl", "itakura-saito"))
    assert losses.paid_at(kl, np.array([1.0]), np.array([0.0])) == np.inf
    assert losses.paid_at(kl, np.zeros(1), np.zeros(1)) == 0
    assert losses.paid_at(itakura_saito, np.ones(1), np.zeros(1)) == np.inf


def test_a_loss_of_ones_own_is_compiled_and_works_on_arrays():
    own = Loss(divergence=lambda x, m: ((x - m) ** 2).sum(), degree=2)
    pairs = Loss(pair=lambda x, y: np.abs(x - y).max())
    np.testing.assert_allclose(own.dissimilarity.to_center(*ROWS), ((ROWS[0] - ROWS[1]) ** 2).sum(-1))
    np.testing.assert_allclose(own.dissimilarity.between(*ROWS), ((ROWS[0] - ROWS[1]) ** 2).sum(-1))
    np.testing.assert_allclose(pairs.dissimilarity.between(*ROWS), np.abs(ROWS[0] - ROWS[1]).max(-1))
    paid = losses.paid_at(own.code().paid, ROWS[0, 0], ROWS[1, 0])
    assert paid == pytest.approx(((ROWS[0, 0] - ROWS[1, 0]) ** 2).sum())
    with pytest.raises(ValueError, match="either divergence= or pair="):
        Loss()
