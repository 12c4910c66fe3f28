"""Inverse temperatures: which priors there are, and when the data say nothing of lambda."""

import numpy as np
import pytest

from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Dispersion, Settings, Table
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.temperature import resolve_temperature

CODE = np.arange(24) % 2
LIGHT = np.full(24, 2.0**-37)
BAD_PRIORS = {
    "shape": [(-1e3, 0.0), (np.nan, 0.0), (np.inf, 1.0)],
    "rate": [(0.0, -1e3), (0.0, np.nan), (1.0, np.inf), (1.0, "1")],
}


@pytest.mark.parametrize(("name", "prior"), [(name, prior) for name, bad in BAD_PRIORS.items() for prior in bad])
def test_a_prior_without_a_law_is_refused(name, prior):
    """Draws of lambda were NaN, and chains walked on."""
    with pytest.raises(
        (ValueError, TypeError), match=f"`inverse_temperature.{name}` must be a finite number, at least 0"
    ):
        resolve_temperature(Dispersion(*prior))


@pytest.mark.parametrize("prior", [(0.0, 0.0), (2, 1), (np.float32(0.5), np.int64(3))])
def test_a_prior_is_taken_as_it_is(prior):
    assert resolve_temperature(Dispersion(*prior)) == Dispersion(*prior)


def start_of_lambda(X, loss, weight=None, prior=None):
    settings = Settings(2, resolve_loss(loss), prior or Dispersion(), target="optimal", composition="singletons")
    problem = make_problem(Table(X, encode_groups(CODE), weight), settings)
    return float(problem.target.starts(problem.table, problem.settings, 1).lambdas.clustering[0])


@pytest.fixture(scope="module")
def incomes():
    return np.exp(0.5 * np.random.default_rng(0).normal(size=(24, 2)))


def test_a_loss_without_unit_is_known_whatever_the_unit(incomes):
    """Itakura-Saito's does not grow with the numbers as squared distances do."""
    here, there = (start_of_lambda(incomes * unit, "itakura-saito") for unit in (1.0, 2.0**30))
    np.testing.assert_allclose(there, here, rtol=1e-5)


def test_light_rows_have_a_loss_too(incomes):
    alone = start_of_lambda(incomes, "kmeans", prior=Dispersion(1, 0))
    light = start_of_lambda(incomes, "kmeans", LIGHT, prior=Dispersion(1, 0))
    np.testing.assert_allclose(light, alone / 25 / LIGHT[0], rtol=1e-5)  # whose degrees of freedom are 24


def test_rows_that_weigh_next_to_nothing_do_not_tell_lambda(incomes):
    """Draws of it are 0 in float32, and densities NaN."""
    with pytest.raises(ValueError, match="Divide sample_weight by its mean"):
        start_of_lambda(incomes, "kmeans", LIGHT)
    assert start_of_lambda(incomes, "kmeans", np.full(24, 1 / 24)) > 0


@pytest.mark.parametrize("loss", ["kmeans", "manhattan", "kl", "itakura-saito", "binary"])
def test_rows_that_fit_without_loss_say_nothing_of_lambda(loss, incomes):
    X = np.repeat(incomes[[0, 3]] / 4, 12, 0)
    with pytest.raises(ValueError, match="without any loss"):
        start_of_lambda(X, loss)
