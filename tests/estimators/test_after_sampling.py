"""After sampling the draws are the posterior: what is computed from them may fail, and then it alone is missing."""

import pickle
import re
from functools import cache

import numpy as np
import pytest
from toys.tables import MIXED, MIXTURE, PLAIN, SEX, THIRDS

import bayesfair as bf

SHORT = {"num_chains": 2, "num_draws": 8, "random_state": 0, "progress_bar": False}
TABLES = {"labels": (PLAIN, THIRDS), "mixture": (MIXED, SEX)}
MADE = {
    "labels": lambda: bf.GibbsFairClustering(2, modes=bf.gibbs.ModeSearch(num_starts=4), num_warmup=96, **SHORT),
    "mixture": lambda: bf.BayesianFairMixture(2, inference="gibbs", **{**MIXTURE, **SHORT}),
}
TREE, BASE = "bayesfair.posterior.tree", "bayesfair.estimators.base"
EITHER = {  # what fails, and what is missing in the tree, and of the estimator
    f"{TREE}.cluster_means": (["posterior/centers"], []),
    f"{TREE}.balances": (["sample_stats/balance"], []),
    f"{BASE}.misclassification_probability": ([], ["misclassification_probability_"]),
    f"{BASE}.warn_of_disagreement": (["The comparison of the chains"], []),
}
CASES = [  # steps that fail in the same fit
    ("labels", {f"{TREE}.company": (["constant_data/reference_labels"], ["labels_"])}),
    (
        "labels",
        {
            **EITHER,
            f"{TREE}.number_modes": (["The numbering of the modes' clusters"], []),
            "bayesfair.estimators.gibbs_fair_clustering.cluster_means": ([], ["cluster_centers_"]),
        },
    ),
    ("mixture", {f"{TREE}.most_frequent": (["constant_data/reference_labels"], ["labels_", "hard_gap_"])}),
    (
        "mixture",
        {
            **EITHER,
            "bayesfair.models.run.gap": (["sample_stats/gap"], []),
            "bayesfair.estimators.bayesian_fair_mixture.gap": ([], ["gap_", "hard_gap_"]),
        },
    ),
]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws


@pytest.fixture(scope="module")
def whole():
    """Fits in which nothing failed, which are made when they are asked for."""
    return cache(fit)


def fit(which, est=None):
    X, groups = TABLES[which]
    return (est or MADE[which]()).fit(X, sensitive_features=groups)


def fails(*_, **__):
    raise ValueError("on purpose")


def partitions(tree):
    """Who is with whom in every draw, whatever the numbers of clusters."""
    labels = tree["posterior"]["labels"].values
    return labels[..., :, None] == labels[..., None, :]


@pytest.mark.slow
@pytest.mark.parametrize(("which", "steps"), CASES)
def test_what_fails_after_sampling_loses_no_draws(whole, which, steps, monkeypatch, tmp_path):
    known = whole(which)
    est = MADE[which]()
    vars(est).update({name: value for name, value in vars(known).items() if name.endswith("_")})  # which must not stay
    for step in steps:
        monkeypatch.setattr(step, fails)
    with pytest.warns(RuntimeWarning, match="could not be computed") as told:
        fit(which, est)
    monkeypatch.undo()
    tree = est.posterior_
    np.testing.assert_array_equal(partitions(tree), partitions(known.posterior_))
    texts = " ".join(str(one.message) for one in told)
    assert "ValueError: on purpose. It is missing, but no draw is lost" in texts
    there = {f"{node.path}/{name}" for node in tree.subtree for name in node}
    for of_tree, of_estimator in steps.values():
        for name in [*(place.split("/")[-1] for place in of_tree), *of_estimator]:
            assert re.search(rf"`?{name}`? could not be computed", texts)
        assert not any(f"/{place}" in there for place in of_tree)
        assert not any(hasattr(est, name) for name in of_estimator)
    assert {one.filename for one in told if one.category is RuntimeWarning} == {__file__}
    est.save(tmp_path / "run.nc")
    again = type(est).load(tmp_path / "run.nc").resume(8)  # as many as before: their programs are compiled
    assert again.posterior_["posterior"].sizes["draw"] == SHORT["num_draws"] + 8


@pytest.mark.slow
@pytest.mark.parametrize("which", MADE)
def test_ctrl_c_after_sampling_loses_no_draws(whole, which, monkeypatch):
    """Numbering the clusters of a large run takes a while."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    est = MADE[which]()
    earlier = vars(whole(which))
    vars(est).update({name: value for name, value in earlier.items() if name.endswith("_")})
    monkeypatch.setattr(f"{TREE}.company", interrupted)
    with pytest.raises(KeyboardInterrupt) as told:
        fit(which, est)
    assert told.value.__notes__[0].startswith("`posterior_` is kept; what is computed from it")
    monkeypatch.undo()
    assert not {"labels_", "misclassification_probability_", "gap_", "cluster_centers_"} & set(vars(est))
    np.testing.assert_array_equal(partitions(est.posterior_), partitions(whole(which).posterior_))
    again, longer = (one.resume(8).posterior_ for one in (est, pickle.loads(pickle.dumps(whole(which)))))
    np.testing.assert_array_equal(again["posterior"]["labels"], longer["posterior"]["labels"])
