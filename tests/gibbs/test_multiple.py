"""The likelihood raised to a power: lambda's law and the enumerated posterior at multiples other than 1."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from exact_modes import normalised, squares

from bayesfair.fairness.groups import Groups
from bayesfair.gibbs import Dispersion, Joint, Labels
from bayesfair.gibbs.loss import resolve_loss
from bayesfair.gibbs.run import Chains
from bayesfair.gibbs.target import Table
from bayesfair.gibbs.targets import resolve_temperature

PRIOR = Dispersion(shape=1.5, rate=0.8, multiple=0.3)
DEGREES = 8.0
X = np.random.default_rng(5).normal(size=(8, 2)) + np.repeat([[0.0], [1.6]], 4, axis=0)
GROUP = np.tile([0, 1], 4)


def draws_of(target, prior, n_draws):
    groups = Groups(GROUP.astype(np.int32), ("a", "b"))
    law = target.prepare(Table(X, groups, np.ones(8), 2, resolve_loss("kmeans"), prior, DEGREES, 0))
    chains = Chains(law, law.starts(1), 1)
    chains.learn(200)
    return chains.draws(n_draws, 3)


def enumerated(multiple):
    """{labels, the first row in cluster 0: probability}, lambda integrated out."""
    z = np.array([(0, *rest) for rest in product(range(2), repeat=7)])
    counts = np.stack([[(z[:, g == GROUP] == k).sum(1) for k in (0, 1)] for g in (0, 1)])
    size = counts.sum(0)
    z = z[(np.abs(counts - 0.5 * size) < 1 - 1e-9).all((0, 1)) & (size > 0).all(0)]
    p = normalised(-(PRIOR.shape + multiple * DEGREES) * np.log(PRIOR.rate + squares(X, np.ones(8), z)))
    return dict(zip(map(tuple, z.tolist()), p.tolist()))


def off(labels, law):
    """Total variation between draws and a law, and what it is on average for independent draws of that law."""
    found = Counter(map(tuple, (labels ^ labels[:, :1]).tolist()))
    assert set(found) <= set(law)
    return sum(abs(found[z] / len(labels) - p) for z, p in law.items()) / 2


def test_draws_of_labels_have_the_enumerated_law_of_the_multiple_and_of_no_other():
    labels = draws_of(Labels(), PRIOR, 30_000).labels[0]
    assert off(labels, enumerated(0.3)) < 0.03
    assert off(labels, enumerated(1.0)) > 0.15  # a multiple that is forgotten is seen


@pytest.mark.parametrize(("target", "mean_size"), [(Labels(), 1), (Joint(), 2)])
def test_lambda_and_the_density_have_the_power_of_the_likelihood(target, mean_size):
    """lambda (rate + L) has the law Gamma(shape, 1) whatever the clusters are: 5 standard errors of 4,000 draws, thinned."""
    draws, shape = draws_of(target, PRIOR, 4_000), PRIOR.shape + 0.3 * DEGREES
    scalars = {name: values[0] for name, values in draws.scalars.items()}
    lam = scalars["lambda_c"] / mean_size
    energy = scalars["lambda_c"] * scalars["clustering_loss"]
    if "fairlet_loss" in scalars:
        energy += scalars["lambda_f"] * scalars["fairlet_loss"]
    total = energy + PRIOR.rate * lam
    assert total.mean() == pytest.approx(shape, abs=5 * np.sqrt(shape / 4_000))
    assert total.var() == pytest.approx(shape, rel=0.15)
    np.testing.assert_allclose(scalars["lp"], (shape - 1) * np.log(lam) - total, rtol=1e-9)


def test_a_multiple_is_above_zero_and_no_multiple_is_the_law_as_it_was():
    with pytest.raises(ValueError, match=r"`inverse_temperature.multiple` must be a finite number above zero"):
        resolve_temperature(Dispersion(multiple=0.0))
    assert Dispersion(2.0, 1.0) == (2.0, 1.0, 1.0)
