"""Anybody's draws become a tree: what is kept, what every summary and the report say, and bad input."""

import numpy as np
import pandas as pd
import pytest

import bayesfair as bf
from bayesfair.posterior import tree_from_labels

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {"age": np.repeat([20.0, 40.0], 6) + RNG.normal(0, 1, 12), "pay": RNG.normal(0, 1, 12)}, index=list("abcdefghijkl")
)
GROUPS = pd.Series(["f", "m"] * 6, index=X.index)


def switching(n_chains=2, n_draws=40):
    """The two halves, some rows elsewhere, called 3 and 7 or the other way round."""
    labels = np.repeat([0, 1], 6) ^ (RNG.random((n_chains, n_draws, 12)) < 0.05)
    return np.where(labels ^ (RNG.random((n_chains, n_draws, 1)) < 0.5), 3, 7)


def test_rows_columns_and_groups_keep_their_names_and_clusters_one_number():
    tree = tree_from_labels(switching(), X, GROUPS, lp=RNG.normal(size=(2, 40)))
    assert tree["posterior"]["obs"].values.tolist() == X.index.tolist()
    assert tree["observed_data"]["feature"].values.tolist() == ["age", "pay"]
    table = bf.posterior.memberships(tree)
    assert (table["cluster"].to_numpy() == np.repeat(table["cluster"].iloc[[0, 6]], 6)).all()
    assert table["probability"].min() > 0.8
    assert table["group"].tolist() == GROUPS.tolist()
    summary = bf.posterior.summary(tree)
    assert {"lp", "balance", "cluster size 1"} <= set(summary.index.str.replace("_", " "))


def test_a_single_chain_and_no_groups_will_do():
    tree = tree_from_labels(switching(1)[0], X.to_numpy())
    assert tree["posterior"]["labels"].shape == (1, 40, 12)
    assert "group" not in bf.posterior.memberships(tree)
    assert bf.posterior.misclassification_probability(tree).max() < 0.3
    both = bf.posterior.concatenate([tree, tree_from_labels(switching(1)[0], X.to_numpy())])
    assert both["posterior"].sizes["chain"] == 2


@pytest.mark.filterwarnings("ignore:.*single chain")
def test_page_and_file_take_it_and_promise_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfair.reports.pictures.render", lambda *_: (b"", ""))
    tree = tree_from_labels(switching(), X, GROUPS)
    assert "the method does not guarantee it" in bf.posterior.guarantees.guarantee_sentence(tree)
    page = bf.report(tree, tmp_path / "page.html").read_text()
    assert "age" in page
    bf.posterior.write_tree(tree, tmp_path / "run.nc")
    again = bf.posterior.read_tree(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(bf.posterior.memberships(again), bf.posterior.memberships(tree))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"labels": np.zeros((2, 40, 12))}, "`labels` must be whole numbers"),
        ({"labels": np.zeros(12, int)}, "`labels` must be whole numbers"),
        ({"labels": np.zeros((2, 40, 11), int)}, "labels"),
        ({"groups": GROUPS[::-1]}, "row index"),
        ({"lp": np.zeros(40)}, "`lp` must be finite"),
        ({"lp": np.full((2, 40), np.nan)}, "`lp` must be finite"),
        ({"X": X.assign(pay=np.nan)}, "finite"),
    ],
)
def test_bad_input_is_told(change, match):
    with pytest.raises(ValueError, match=match):
        tree_from_labels(**{"labels": switching(), "X": X, "groups": GROUPS, **change})
