"""Who is where: against double loops over draws."""

import numpy as np
import pandas as pd
import pytest
from draws import draws_of

from bayesfair.posterior import memberships, misclassification_probability, reference_partition
from bayesfair.posterior.tree import build_tree

N_OBS, N_CLUSTERS, NAMES = 7, 3, [f"person {row}" for row in range(7)]


def tree_of(labels, groups=("a", "b", "a", "b", "a", "b", "a"), **settings):
    X = np.random.default_rng(0).normal(size=(labels.shape[2], 2))
    return build_tree(draws_of(labels), X, groups, settings={}, n_clusters=N_CLUSTERS, **settings)


@pytest.fixture(scope="module")
def labels():
    """Row 0 never moves; draws number their clusters each in its own way."""
    rng = np.random.default_rng(3)
    drawn = rng.integers(N_CLUSTERS, size=(2, 30, N_OBS))
    drawn[..., :N_CLUSTERS] = np.arange(N_CLUSTERS)
    return np.stack([[rng.permutation(N_CLUSTERS)[draw] for draw in chain] for chain in drawn]).astype(np.int8)


def test_every_figure_is_the_share_of_draws_that_it_says(labels):
    tree = tree_of(labels, obs_names=NAMES)
    table, drawn = memberships(tree), tree["posterior"]["labels"].values.reshape(-1, N_OBS)
    assert table.index.tolist() == NAMES
    assert table["cluster"].tolist() == reference_partition(tree).tolist()
    assert table["group"].tolist() == list("abababa")
    np.testing.assert_array_equal(table["misclassification_probability"], misclassification_probability(tree))
    for row, (_, told) in enumerate(table.iterrows()):
        shares = {k: np.mean([draw[row] == k for draw in drawn]) for k in range(N_CLUSTERS)}
        assert told["probability"] == shares.pop(told["cluster"])
        assert told["runner_up_probability"] == max(shares.values())
        if max(shares.values()) > 0:
            assert shares[told["runner_up"]] == max(shares.values())


def test_there_is_no_runner_up_to_a_sure_membership():
    labels = np.tile(np.array([0, 0, 1, 1, 2, 2, 2], np.int8), (2, 5, 1))
    table = memberships(tree_of(labels, groups=None))
    assert table["runner_up"].isna().all()
    assert table["runner_up"].dtype == "Int64"
    assert (table["probability"] == 1).all()
    assert (table["runner_up_probability"] == 0).all()
    assert "group" not in table
    assert table.index.tolist() == list(range(N_OBS))


def test_trees_from_elsewhere_are_relabelled_first(labels):
    tree = tree_of(labels)
    foreign = tree.copy()
    foreign["constant_data"] = type(tree)(tree["constant_data"].to_dataset().drop_vars("reference_labels"))
    foreign["posterior"] = type(tree)(tree["posterior"].to_dataset().assign(labels=(("chain", "draw", "obs"), labels)))
    pd.testing.assert_frame_equal(memberships(foreign), memberships(tree))
