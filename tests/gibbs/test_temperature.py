"""Inverse temperatures: which priors there are, and when the data say nothing of lambda."""

import numpy as np
import pytest

from bayesfair.fairness import encode_groups
from bayesfair.gibbs import Dispersion, Settings, Table
from bayesfair.gibbs.losses import ItakuraSaitoLoss, KMeansLoss, PoissonLoss, resolve_loss
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.temperature import loss_likelihood_bootstrap, resolve_temperature

CODE = np.arange(24) % 2
LIGHT = np.full(24, 2.0**-37)


@pytest.mark.parametrize("prior", [(-1e3, 0.0), (np.nan, 0.0), (np.inf, 1.0), (0.0, -1e3), (0.0, np.nan), (1.0, "1")])
def test_a_prior_without_a_law_is_refused(prior):
    """Draws of lambda were NaN, and chains walked on."""
    name = "rate" if prior[0] in (0, 1) else "shape"
    with pytest.raises(
        (ValueError, TypeError), match=f"`inverse_temperature.{name}` must be a finite number, at least 0"
    ):
        resolve_temperature(Dispersion(*prior))
    assert resolve_temperature(Dispersion(np.float32(0.5), np.int64(3))) == Dispersion(0.5, 3)


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


@pytest.mark.parametrize("loss", ["kmeans", "kl"])
def test_rows_that_fit_without_loss_say_nothing_of_lambda(loss, incomes):
    X = np.repeat(incomes[[0, 3]] / 4, 12, 0)
    with pytest.raises(ValueError, match="without any loss"):
        start_of_lambda(X, loss)


def three_blobs(per_cluster, sd=(1.0, 1.0)):
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(3), per_cluster)
    return 10 * labels[:, None] + rng.normal(size=(len(labels), 2)) * sd, labels


def test_the_loss_likelihood_bootstrap_gives_the_scale_of_a_normal_whose_log_likelihood_the_loss_is():
    X, labels = three_blobs(4_000, sd=(3.0, 3.0))
    np.testing.assert_allclose(loss_likelihood_bootstrap(KMeansLoss(), X, labels), 1 / (2 * 9), rtol=0.02)
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    again = loss_likelihood_bootstrap(KMeansLoss(), np.repeat(X, weight, 0), np.repeat(labels, weight))
    np.testing.assert_allclose(loss_likelihood_bootstrap(KMeansLoss(), X, labels, weight=weight), again, rtol=1e-9)


def test_it_makes_the_posterior_of_the_centres_as_precise_as_their_bootstrap():
    """Whose minima are means under Dirichlet weights; rows that are no normal law, in which the other rules differ."""
    X, labels = three_blobs(300, sd=(2.0, 0.5))
    X += np.random.default_rng(1).exponential(size=X.shape) * (labels == 2)[:, None]
    weights = np.random.default_rng(2).dirichlet(np.ones(len(X)), 2_000)
    precision = posterior = 0.0
    lambda_ = loss_likelihood_bootstrap(KMeansLoss(), X, labels)
    for k in range(3):
        own = weights[:, labels == k]
        means = (own / own.sum(1, keepdims=True)) @ X[labels == k]
        precision += np.trace(np.linalg.inv(np.cov(means.T)))
        posterior += 2 * lambda_ * (labels == k).sum() * X.shape[1]  # of N(mean, I / (2 lambda n_k)), DESIGN 2.3
    np.testing.assert_allclose(precision, posterior, rtol=0.05)
    residuals = X - np.stack([X[labels == k].mean(0) for k in range(3)])[labels]
    assert lambda_ > 2 * X.size / (2 * np.square(residuals).sum())  # the mean of the dispersion's law is far below


def test_features_that_nearly_follow_from_each_other_are_told():
    X, labels = three_blobs(20)
    with pytest.warns(UserWarning, match=r"times that of 'dispersion', as rows hardly vary"):
        loss_likelihood_bootstrap(KMeansLoss(), np.column_stack([X, X @ [1, 1] + 0.01 * X[:, 0] ** 2]), labels)


def test_divergences_are_measured_in_the_metric_of_their_curvature(incomes):
    """Itakura-Saito's does not know the unit, so neither does its lambda; that of Kullback-Leibler falls with it."""
    labels = np.arange(24) % 2
    of = {unit: loss_likelihood_bootstrap(ItakuraSaitoLoss(), incomes * unit, labels) for unit in (1.0, 8.0)}
    np.testing.assert_allclose(of[8.0], of[1.0])
    of = {unit: loss_likelihood_bootstrap(PoissonLoss(), incomes * unit, labels) for unit in (1.0, 8.0)}
    np.testing.assert_allclose(of[8.0], of[1.0] / 8)


@pytest.mark.parametrize(
    ("loss", "X", "match"),
    [
        (resolve_loss("manhattan"), np.eye(6), "without second derivatives"),
        (KMeansLoss(), np.eye(6), "do not vary in all directions, got a cluster of 3 rows and 6 columns"),
        (KMeansLoss(), np.arange(6.0)[:, None] * [1, 2], "do not vary in all directions"),
    ],
)
def test_what_the_bootstrap_cannot_tell_is_refused(loss, X, match):
    with pytest.raises(ValueError, match=match):
        loss_likelihood_bootstrap(loss, X, np.arange(6) % 2)


def test_chains_start_at_its_lambda_in_the_units_of_the_observations():
    X, labels = three_blobs(8)
    own = resolve_temperature("loss-likelihood-bootstrap")
    settings = Settings(3, KMeansLoss(), own, target="optimal", composition="singletons")
    problem = make_problem(Table(X, encode_groups(CODE)), settings)
    own = float(problem.target.starts(problem.table, problem.settings, 1).lambdas.clustering[0])
    own *= float(problem.table.scaling.cost(1.0, -2))
    np.testing.assert_allclose(own, loss_likelihood_bootstrap(KMeansLoss(), X, labels), rtol=1e-5)
