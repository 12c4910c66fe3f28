"""After sampling the draws are the posterior: what is computed from them may fail, and then it alone is missing."""

import pickle
import re
from functools import cache

import numpy as np
import pytest

import bayesfair as bf

RNG = np.random.default_rng(2)
X = np.vstack([RNG.normal(0, 1, (12, 2)), RNG.normal(3, 1, (12, 2))])
GROUPS = np.array(["f", "m"] * 12)
SHORT = {"num_chains": 2, "num_draws": 8, "random_state": 0, "progress_bar": False}
MADE = {
    "joint": lambda: bf.GibbsFairClustering(2, num_starts=4, num_warmup=96, **SHORT),
    "labels": lambda: bf.GibbsFairClustering(2, target="labels", num_starts=4, num_warmup=96, **SHORT),
    "mixture": lambda: bf.BayesianFairMixture(2, inference="gibbs", num_warmup=6, **SHORT),
}
BOTH, GIBBS, MIXTURES = ("labels", "mixture"), ("joint", "labels"), ("mixture",)
TREE, BASE = "bayesfair.posterior.tree", "bayesfair.estimators.base"
STEPS = {  # what fails: (of which samplers, what is missing in the tree, and of the estimator)
    f"{TREE}.company": (BOTH, ["constant_data/reference_labels"], ["labels_"]),
    f"{TREE}.align": (("joint", "mixture"), ["constant_data/reference_labels"], ["labels_"]),
    f"{TREE}.most_frequent": (MIXTURES, ["constant_data/reference_labels"], ["labels_", "hard_gap_"]),
    f"{TREE}.number_modes": (GIBBS, ["The numbering of the modes' clusters"], []),
    f"{TREE}._centers": (BOTH, ["posterior/centers"], []),
    f"{TREE}.balance_of": (BOTH, ["sample_stats/balance"], []),
    "bayesfair.models.run.gap": (MIXTURES, ["sample_stats/gap"], []),
    f"{BASE}.misclassification_probability": (BOTH, [], ["misclassification_probability_"]),
    "bayesfair.estimators.gibbs_fair_clustering.cluster_sums": (GIBBS, [], ["cluster_centers_"]),
    "bayesfair.estimators.bayesian_fair_mixture.gap": (MIXTURES, [], ["gap_", "hard_gap_"]),
    f"{BASE}.warn_of_disagreement": (BOTH, ["The comparison of the chains"], []),
    "bayesfair.posterior.verdict.scalar_table": (BOTH, ["The comparison of the chains"], []),
    "bayesfair.posterior.diagnostics.diagnostic_vars": (BOTH, ["The comparison of the chains"], []),
}
CASES = [(step, which, *missing) for step, (samplers, *missing) in STEPS.items() for which in samplers]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


@pytest.fixture(scope="module")
def whole():
    """Fits in which nothing failed, which are made when they are asked for."""
    return cache(fit)


def fit(which):
    return MADE[which]().fit(X, sensitive_features=GROUPS)


def fails(*_, **__):
    raise ValueError("on purpose")


def partitions(tree):
    """Who is with whom in every draw, whatever the numbers of clusters."""
    labels = tree["posterior"]["labels"].values
    return labels[..., :, None] == labels[..., None, :]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "which", "of_tree", "of_estimator"), CASES)
def test_what_fails_after_sampling_loses_no_draws(whole, step, which, of_tree, of_estimator, monkeypatch, tmp_path):
    known = whole(which)
    est = MADE[which]()
    vars(est).update({name: value for name, value in vars(known).items() if name.endswith("_")})  # which must not stay
    monkeypatch.setattr(step, fails)
    with pytest.warns(RuntimeWarning, match="could not be computed") as told:
        est.fit(X, sensitive_features=GROUPS)
    monkeypatch.undo()
    tree = est.posterior_
    np.testing.assert_array_equal(partitions(tree), partitions(known.posterior_))
    texts = " ".join(str(one.message) for one in told)
    assert "ValueError: on purpose. It is missing, but no draw is lost" in texts
    for name in [*(place.split("/")[-1] for place in of_tree), *of_estimator]:
        assert re.search(rf"`?{name}`? could not be computed", texts)
    assert not any(
        f"/{place}" in [f"{node.path}/{name}" for node in tree.subtree for name in node] for place in of_tree
    )
    assert not any(hasattr(est, name) for name in of_estimator)
    assert {one.filename for one in told if one.category is RuntimeWarning} == {__file__}
    if step.startswith(TREE):
        est.save(tmp_path / "run.nc")
        assert (
            type(est).load(tmp_path / "run.nc").resume(2).posterior_["posterior"].sizes["draw"]
            == SHORT["num_draws"] + 2
        )


@pytest.mark.parametrize("which", MADE)
def test_ctrl_c_after_sampling_loses_no_draws(whole, which, monkeypatch):
    """Numbering the clusters of a large run takes a while."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    est = MADE[which]()
    monkeypatch.setattr(f"{TREE}.company", interrupted)
    with pytest.raises(KeyboardInterrupt):
        est.fit(X, sensitive_features=GROUPS)
    monkeypatch.undo()
    np.testing.assert_array_equal(partitions(est.posterior_), partitions(whole(which).posterior_))
    again, longer = (one.resume(2).posterior_ for one in (est, pickle.loads(pickle.dumps(whole(which)))))
    np.testing.assert_array_equal(again["posterior"]["labels"], longer["posterior"]["labels"])
