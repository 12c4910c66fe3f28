"""Residuals within clusters: silence on round normal clusters, a sentence where they are elongated or have long tails."""

import warnings

import numpy as np
import pytest
from draws import draws_of

import bayesfair as bf
from bayesfair.posterior.diagnostics import brief
from bayesfair.posterior.residuals import residuals_of, residuals_sentence
from bayesfair.posterior.tree import build_tree

LONG, FAR = "BayesianFairMixture(covariance_type='full') fits them", "loss='manhattan' or the calibrated"
OURS = {"estimator": "GibbsFairClustering"}
KINDS = {
    "round": lambda rng, shape: rng.normal(size=shape),
    "elongated": lambda rng, shape: rng.normal(size=shape) * np.r_[3.2, np.ones(shape[1] - 1)],
    "t3": lambda rng, shape: rng.normal(size=shape) / np.sqrt(rng.chisquare(3, size=(shape[0], 1))),
}


def tree_of(kind, n_obs, dim, seed, facts=OURS, apart=2.0, **beside):
    """Three clusters; round ones overlap, and their labels are drawn as the model that made the rows has them."""
    rng = np.random.default_rng(seed)
    centre = np.zeros((3, dim))
    centre[:, 0] = apart * np.arange(3) * (1 if kind == "round" else 20)
    truth = np.arange(n_obs) % 3
    X = centre[truth] + KINDS[kind](rng, (n_obs, dim))
    logits = -((X[:, None] - centre) ** 2).sum(-1) / 2
    labels = (logits + rng.gumbel(size=(1, 20, n_obs, 3))).argmax(-1) if kind == "round" else truth[None, None]
    return build_tree(draws_of(labels), X, None, n_clusters=3, facts=facts, point=None, **beside)


@pytest.mark.parametrize(
    ("n_obs", "dim", "seeds"), [(60, 1, 20), (60, 2, 40), (150, 5, 20), (500, 20, 10), (5000, 3, 5)]
)
def test_round_normal_clusters_get_no_sentence_however_much_they_overlap(n_obs, dim, seeds):
    """And the distances in standard errors are those of a law with mean 0 and sd at most 1."""
    found = [residuals_of(tree_of("round", n_obs, dim, seed)) for seed in range(seeds)]
    assert not any(one.is_long or one.is_far for one in found)
    for z in ([one.stretch_z for one in found], [one.tails_z for one in found]):
        assert abs(np.mean(z)) < 4 / np.sqrt(seeds)
        assert np.std(z) < 1.4


@pytest.mark.parametrize("n_obs", [100, 1000])
@pytest.mark.parametrize("dim", [2, 5, 20])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_elongated_clusters_are_told_with_their_stretch(n_obs, dim, seed):
    n_obs = max(n_obs, 20 * dim)  # with fewer rows in 20 dimensions chance hides it
    told = residuals_sentence(tree_of("elongated", n_obs, dim, seed))
    assert told.startswith("Clusters are longer than wide (the widest direction has ")
    assert LONG in told
    assert FAR not in told
    if n_obs == 1000:
        assert residuals_of(tree_of("elongated", n_obs, dim, seed)).stretch == pytest.approx(3.2, rel=0.3)


@pytest.mark.parametrize("dim", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_far_rows_are_told_and_are_not_taken_for_elongation(dim, seed):
    told = residuals_sentence(tree_of("t3", 600, dim, seed))
    assert told.startswith("Far rows: ")
    assert FAR in told
    assert LONG not in told


def test_nothing_is_said_where_the_loss_is_another_or_features_are_not_known():
    labels = draws_of(np.tile(np.arange(60) % 3, (1, 20, 1)))
    for facts in ({}, {"estimator": "BayesianFairMixture"}, OURS | {"loss": "manhattan"}):
        assert residuals_sentence(tree_of("elongated", 300, 2, 0, facts)) == ""
    assert residuals_sentence(tree_of("elongated", 300, 2, 0, weight=np.full(300, 2.0))) == ""
    codes = np.random.default_rng(0).integers(3, size=(60, 2)) * [1.0, 5.0]
    assert residuals_sentence(build_tree(labels, codes, None, n_clusters=3, facts=OURS, point=None)) == ""
    tree = tree_of("elongated", 300, 2, 0)
    del tree["observed_data"]
    assert residuals_sentence(tree) == ""


def test_a_few_rows_a_constant_column_and_columns_that_repeat_each_other_are_no_obstacle():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X = np.column_stack([X, X[:, 0], np.ones(300)])
    labels = draws_of(np.tile(np.arange(300) % 3, (1, 20, 1)))
    assert LONG in residuals_sentence(build_tree(labels, X, None, n_clusters=3, facts=OURS, point=None))
    few = draws_of(np.tile([0, 0, 1, 1, 2], (1, 4, 1)))
    assert residuals_sentence(build_tree(few, X[:5, :2], None, n_clusters=3, facts=OURS, point=None)) == ""


@pytest.mark.parametrize(("kind", "said"), [("round", ""), ("elongated", LONG), ("t3", FAR)])
def test_a_run_tells_it_in_summary_and_in_short(kind, said):
    rng = np.random.default_rng(3)
    truth, groups = np.arange(240) % 3, np.arange(240) // 3 % 2
    X = KINDS[kind](rng, (240, 2)) + 7 * np.array([[0, 0], [0, 1], [0, 2]])[truth]
    est = bf.GibbsFairClustering(3, num_chains=2, num_warmup=200, num_draws=50, random_state=0, progress_bar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so short a run
        tree = est.set_params(modes=None).fit(X, sensitive_features=groups).posterior_
    told = bf.posterior.summary(tree).sentences.get("residuals", "")
    assert said in told
    assert bool(said) == bool(told)
    assert bool(said) == ("What may fit better:" in [note.headline for note in brief(tree)])
