"""`target="labels"` as a run: draws against enumeration, starts, and what is refused or told."""

import numpy as np
import pytest
from exact import CHAINS, NOISE, distance_to, law_of, many_draws, normalise
from exact_labels import LAMBDA, Labelling, law, losses, of_sizes, tiny

from bayesfair._arrays import on_device
from bayesfair.balanced import BalancedProblem
from bayesfair.balanced.centroids import CENTROIDS
from bayesfair.balanced.labels import cooled_labels
from bayesfair.fairness import encode_groups
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.gibbs import Dispersion, KMeansLoss, Settings, Table
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.run import Run, chain_keys
from bayesfair.gibbs.targets.labels import bundle_composition


def start(t):
    label = on_device(t.labels[[0, -1] * (CHAINS // 2)])
    states = Labelling(label, on_device(np.full(CHAINS, LAMBDA), t.target.x.dtype))
    return Run(chain_keys(0, CHAINS), 0, states, t.target.moves(Settings(t.target.n_clusters, t.target.loss)))


def test_draws_agree_with_enumeration():
    """p(z) with lambda integrated out of lambda^(N d / 2 - 1) exp(-lambda L): L^(-N d / 2)."""
    t = tiny("three groups", prior=Dispersion(), dtype=np.float32)
    draws = many_draws(start(t), t.target, 20_000)
    pi = normalise(-t.target.degrees * np.log(losses(t, "kmeans")))
    assert distance_to(law_of(t.labels, pi), draws) < NOISE
    assert distance_to(law_of(t.labels, law(t, "kmeans")), draws) > 2 * NOISE


@pytest.mark.slow
def test_draws_of_a_loss_without_centres_agree_with_enumeration():
    t = tiny("attributes, at least 0.4, of 2 to 4", "manhattan", dtype=np.float32)
    draws = many_draws(start(t), t.target, 20_000)
    assert distance_to(law_of(t.labels, law(t, "manhattan")), draws) < NOISE


def test_starts_do_not_depend_on_the_unit():
    """Those of losses that are not told in units near the spread."""
    X, code = np.exp(np.random.default_rng(0).normal(size=(40, 2))), np.arange(40) % 2
    exact = balance_constraint(encode_groups(code), "exact", 3)
    for loss, power in {"kl": 1, "itakura-saito": 0}.items():
        (labels, losses), (small, small_losses) = (
            cooled_labels(BalancedProblem(X * unit, code, np.ones(40), exact, CENTROIDS[loss], 3), 2, 0)
            for unit in (1.0, 2.0**-40)
        )
        np.testing.assert_array_equal(small, labels)
        np.testing.assert_allclose(small_losses, losses * 2.0 ** (-40 * power), rtol=1e-12)


def test_bundles_are_few_people_near_the_ratio():
    assert bundle_composition([10, 10]) == (1, 1)
    assert bundle_composition([10_771, 21_790]) == (1, 2)
    assert bundle_composition([400, 600]) == (2, 3)
    assert sum(bundle_composition([6, 2_000])) <= 12


def test_more_clusters_than_rows_are_refused():
    X, groups = np.random.default_rng(0).normal(size=(6, 2)), of_sizes(3, 3)
    with pytest.raises(ValueError, match="There are 6 rows: ask for fewer"):
        make_problem(Table(X, groups), Settings(7, KMeansLoss(), target="labels"))


def test_groups_smaller_than_the_number_of_clusters_are_told():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match=r"fewer members than there are clusters \(3\): g0 \(2\)"):
        make_problem(Table(X, of_sizes(2, 18)), Settings(3, KMeansLoss(), target="labels"))
