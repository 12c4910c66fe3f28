"""What is done otherwise with a hundred thousand rows and more, on few of them: the answers are of the same kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesfair as bf
from bayesfair.balanced import labels as balanced_labels
from bayesfair.gibbs import KMeansLoss, Settings, Table, masses, problem, relocations
from bayesfair.gibbs.bennett import ITSELF, UNKNOWN, LogRatio
from bayesfair.gibbs.labellings import Labelling
from bayesfair.gibbs.parts_of_rows import PART
from bayesfair.gibbs.problem import make_problem
from bayesfair.gibbs.states import FairletState, InverseTemperatures
from bayesfair.gibbs.sweep import run_chunk
from bayesfair.gibbs.targets import labels, starts

K = 3


@pytest.fixture
def many(monkeypatch):
    """400 rows are many."""
    for module in (labels, masses, problem, relocations, balanced_labels):
        monkeypatch.setattr(module, "MANY", 200)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + 6 * np.eye(K, 2)[rng.integers(K, size=400)]
    return X, rng.integers(2, size=400)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains do not agree")  # twenty draws each need not
def test_labels_of_many_rows_are_balanced_and_found_again(many):
    X, group = many
    settings = {"target": "labels", "num_chains": 2, "num_warmup": 100, "num_draws": 20, "random_state": 0}
    est = bf.GibbsFairClustering(K, progress_bar=False, **settings).fit(X, sensitive_features=group)
    share = np.bincount(group) / len(group)
    for draw in est.posterior_["posterior"]["labels"].values.reshape(-1, len(X)):
        counts = np.array([np.bincount(group[draw == k], minlength=2) for k in range(K)])
        assert (np.abs(counts - share * counts.sum(1, keepdims=True)) < 1).all()
    plain = bf.BalancedKMeans(K, random_state=0).fit(X, sensitive_features=group)
    assert est.posterior_["sample_stats"]["clustering_loss"].values.min() < 1.1 * plain.inertia_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "most"), [({"target": "labels"}, 45), ({"target": "optimal", "composition": "singletons"}, 60)]
)
def test_a_sweep_keeps_few_numbers_for_every_row(asked, most):
    """No copy of the features, nor of the fairlets' centres, which would be 100 bytes a row."""
    rng, n_obs = np.random.default_rng(0), 32 * PART
    X, groups = rng.normal(size=(n_obs, 25)).astype(np.float32), bf.fairness.encode_groups(np.arange(n_obs) % 25 < 12)
    made = make_problem(Table(X, groups), Settings(K, KMeansLoss(), **asked))
    law, label = made.target, jax.ShapeDtypeStruct((1, n_obs), jnp.int32)
    if asked["target"] == "labels":
        states = Labelling(label, jnp.ones(1))
    else:
        states = FairletState((), label, InverseTemperatures(*jnp.ones((2, 1))))
    chains = jnp.zeros((1, 2), jnp.uint32), states
    program = run_chunk.lower(law, chains, (0, 1, 1), moves=law.moves(made.settings), length=1).compile()
    assert program.memory_analysis().temp_size_in_bytes / n_obs < most


@pytest.mark.parametrize("target", ["labels", "joint"])
def test_many_rows_are_held_once_in_the_precision_that_samples_them(target, many):
    X, group = many
    made = make_problem(Table(X, bf.fairness.encode_groups(group)), Settings(K, KMeansLoss(), target=target))
    assert made.table.X.dtype == np.float32
    assert made.target.x.unsafe_buffer_pointer() == made.table.X.ctypes.data  # not a copy
    np.testing.assert_allclose(made.table.scaling.points(made.table.X), X, atol=1e-5)


def test_of_many_rows_whose_fairlets_stay_centres_are_left(many):
    X, group = many
    groups = bf.fairness.encode_groups(group)
    made = make_problem(Table(X, groups), Settings(K, KMeansLoss(), target="optimal"))
    fairlet = made.table.fairlets.fairlet
    means = np.stack([X[fairlet == one].mean(0) for one in range(fairlet.max() + 1)])
    np.testing.assert_allclose(made.table.scaling.points(made.target.x), means, atol=1e-5)
    np.testing.assert_array_equal(made.target.fairlet, fairlet)
    assert made.table.X.X is X
    np.testing.assert_allclose(made.table.scaling.points(made.table.X), X, atol=1e-5)


def test_k_means_of_many_rows_labels_all_of_them(many):
    X, _ = many
    found = starts.k_means(X, np.ones(len(X)), ["k-means++"] * 2, K, K, np.random.default_rng(0))
    assert found.shape == (2, len(X))
    assert all(len(np.unique(each)) == K for each in found)
    assert relocations.relocated_centers(X, np.ones(len(X)), found[0], K, 2, np.random.default_rng(0)).shape == (
        2,
        K,
        2,
    )


def test_distinct_rows_are_looked_for_behind_the_first_ones():
    X = np.zeros((3000, 2))
    assert not relocations.has_distinct_rows(X, 2)
    X[-1] = 1
    assert relocations.has_distinct_rows(X, 2)
    assert not relocations.has_distinct_rows(X, 3)


def test_chains_do_not_try_to_cross_between_modes_of_many_people_whose_works_do_not_overlap():
    class People:
        n_obs = masses.MANY

    bounded, known = LogRatio(np.nan, np.nan, -3e3, 3e3), LogRatio(-1.0, 0.1, -1.2, -0.8)
    assert masses.cannot_cross([ITSELF, bounded, UNKNOWN], People)
    assert not masses.cannot_cross([ITSELF, known], People)
    People.n_obs -= 1
    assert not masses.cannot_cross([ITSELF, bounded], People)
