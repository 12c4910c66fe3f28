"""Names of earlier versions are refused by one sentence that says what to use; the estimator stays a scikit-learn one."""

import inspect
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import bayesfair as bf
from bayesfair.estimators.gibbs_fair_clustering import WITHDRAWN
from bayesfair.gibbs import _WITHDRAWN


@pytest.mark.parametrize("name", WITHDRAWN)
def test_withdrawn_arguments_say_what_to_use(name):
    with pytest.raises(TypeError, match=rf"GibbsFairClustering\({name}=\.\.\.\) is withdrawn\. [A-Z].*\.$"):
        bf.GibbsFairClustering(3, **{name: 1})
    assert name not in bf.GibbsFairClustering().get_params(deep=False)


def test_unknown_arguments_are_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_cluster'"):
        bf.GibbsFairClustering(n_cluster=3)


def test_the_estimator_stays_as_scikit_learn_wants_it():
    est = bf.GibbsFairClustering(4, target=bf.gibbs.Labels(min_balance=0.8), random_state=1)
    again = pickle.loads(pickle.dumps(clone(est)))
    assert repr(again) == repr(est)
    assert (
        "".join(repr(est).split()) == "GibbsFairClustering(n_clusters=4,random_state=1,target=Labels(min_balance=0.8))"
    )
    assert again.get_params()["target__min_balance"] == 0.8
    assert again.set_params(target__min_balance=0.5).target.min_balance == 0.5
    assert list(inspect.signature(bf.GibbsFairClustering).parameters)[:2] == ["n_clusters", "target"]


@pytest.mark.parametrize("name", _WITHDRAWN)
def test_withdrawn_names_of_the_room_say_what_to_use(name):
    with pytest.raises(AttributeError, match=rf"bf\.gibbs\.{name} is withdrawn\. [A-Z].*\.$"):
        getattr(bf.gibbs, name)


def test_other_names_are_pythons_own_error():
    with pytest.raises(AttributeError, match="has no attribute 'Losses'"):
        _ = bf.gibbs.Losses


def test_a_run_of_the_version_before_is_refused_with_the_remedy(tmp_path):
    tree = bf.posterior.tree_from_labels(np.array([[[0, 1, 1], [1, 0, 0]]]), np.eye(3))
    tree.attrs["settings"] = json.dumps({"estimator": "GibbsFairClustering", "format": 2})
    bf.posterior.write_tree(tree, tmp_path / "old.nc")
    with pytest.raises(ValueError, match=r"a run of another version.*read_tree, or fit and save again\."):
        bf.GibbsFairClustering.load(tmp_path / "old.nc")
