"""The searched partition against all partitions of a few points, and against the draws."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from draws import draws_of
from partitions import every_partition
from tiers import tiers

import bayesfair as bf
from bayesfair.fairness.guarantee import Guarantee
from bayesfair.posterior import binder_partition, partition_distance, reference_partition, salso_partition, vi_partition
from bayesfair.posterior.salso import _Search
from bayesfair.posterior.schema import flat_labels
from bayesfair.posterior.tree import build_tree

GROUPS = np.array(list("aabaababb"))
EXACT = Guarantee("exact")


def tree_of(seed, n_clusters=3, fair=False, num_draws=40):
    """Draws around no common truth, so that the best partition is none of them; each with its own numbering."""
    rng, n_obs = np.random.default_rng(seed), len(GROUPS)
    labels = rng.integers(n_clusters, size=(2 * num_draws, n_obs))
    labels[:, :n_clusters] = np.arange(n_clusters)
    if fair:
        candidates = every_fair_partition()
        labels = candidates[rng.integers(len(candidates), size=2 * num_draws)]
    labels = labels.reshape(2, num_draws, n_obs).astype(np.int8)
    return build_tree(draws_of(labels), rng.normal(size=(n_obs, 2)), GROUPS, guarantee=EXACT, n_clusters=n_clusters)


def expected(tree, partition, loss):
    return partition_distance(flat_labels(tree), partition, metric=loss).mean()


@cache
def every_fair_partition():
    """Of nine people in three clusters."""
    return np.array(
        [labels for labels in every_partition(9, 3) if labels.max() == 2 and within_one_person(labels, GROUPS)]
    )


def within_one_person(labels, groups):
    for k, group in product(np.unique(labels), np.unique(groups)):
        members = labels == k
        if abs((groups[members] == group).sum() - (groups == group).mean() * members.sum()) >= 1:
            return False
    return True


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_a_cluster_is_closed_if_draws_have_empty_ones_or_nothing_is_to_be_kept(loss):
    """One row apart, another one in each draw: one cluster has the least loss."""
    alone = 1 - np.eye(7, dtype=int)[2:]
    tree, with_an_empty_one = (
        bf.posterior.tree_from_labels(labels[None], np.arange(7.0)[:, None])
        for labels in (alone, np.vstack([alone, np.zeros((1, 7), int)]))
    )
    assert len(np.unique(salso_partition(tree, loss=loss, fair=False))) == 1
    assert len(np.unique(salso_partition(with_an_empty_one, loss=loss))) == 1
    assert len(np.unique(salso_partition(tree, loss=loss))) == 2


@pytest.mark.parametrize("loss", tiers(["vi", "binder"], ["vi"]))
@pytest.mark.parametrize("fair", tiers([True, False], [True]))
def test_it_is_the_best_of_all_partitions_of_nine_points(loss, fair):
    tree = tree_of(0, fair=fair, num_draws=20)
    found = salso_partition(tree, loss=loss, fair=fair, num_starts=16)
    candidates = every_fair_partition() if fair else every_partition(9, 3)
    best = min(expected(tree, labels, loss) for labels in candidates)
    assert expected(tree, found, loss) == pytest.approx(best, abs=1e-9)
    if fair:
        assert within_one_person(found, GROUPS)
    else:
        drawn = draws_of(tree["posterior"]["labels"].values)
        alone = build_tree(drawn, np.zeros((9, 1)), None, n_clusters=3)
        kept = salso_partition(alone, loss=loss, num_starts=16)  # all clusters, as in every draw
        best = min(expected(tree, labels, loss) for labels in candidates if labels.max() == 2)
        assert expected(tree, kept, loss) == pytest.approx(best, abs=1e-9)
        assert len(np.unique(kept)) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_it_is_never_worse_than_the_best_draw_and_keeps_the_guarantee():
    """On these patients the search once left a cluster of one person, who is within one person of every share."""
    data = bf.datasets.load_diabetes()
    table = (data.features - data.features.mean()) / data.features.std()
    # Programs of test_likeliest.py.
    settings = {"modes": None, "num_warmup": 50, "num_draws": 30, "progress_bar": False}
    est = bf.GibbsFairClustering(3, target="labels", random_state=0, **settings)
    tree = est.fit(table, sensitive_features=data.sensitive).posterior_
    draws = tree["posterior"]["labels"].values.reshape(-1, len(table))
    for loss, of_draws in (("vi", vi_partition), ("binder", binder_partition)):
        found = salso_partition(tree, loss=loss)
        assert expected(tree, found, loss) <= expected(tree, of_draws(tree), loss) + 1e-12
        assert within_one_person(found, data.sensitive.to_numpy())
        assert (found == reference_partition(tree)).mean() > 0.5
        assert np.bincount(found).min() >= min(np.bincount(draw).min() for draw in draws)
        assert bf.fairness.balance(found, data.sensitive) >= float(tree["sample_stats"]["balance"].min())


def test_the_loss_of_every_move_is_that_of_the_definition():
    tree = tree_of(3)
    draws, groups = np.asarray(flat_labels(tree)), bf.fairness.encode_groups(GROUPS)
    for loss, unit in (("vi", 9), ("binder", 81)):
        search = _Search(draws, draws[0], 3, loss, groups, None, closes=True)
        before = expected(tree, draws[0], loss)
        value = search.value()
        margins = search._margins()
        for person, to in product(range(9), range(3)):
            if to == draws[0][person]:
                continue
            moved = draws[0].copy()
            moved[person] = to
            change = unit * (expected(tree, moved, loss) - before)
            assert margins[person, to] == pytest.approx(change, abs=1e-9)
        search.down()
        assert search.value() - value == pytest.approx(unit * (expected(tree, search.labels, loss) - before), abs=1e-9)


def test_bad_arguments_are_refused():
    tree = tree_of(1)
    with pytest.raises(ValueError, match="be 'vi' or 'binder'"):
        salso_partition(tree, loss="dahl")
    with pytest.raises(ValueError, match="num_starts"):
        salso_partition(tree, num_starts=0)
    unfair = build_tree(
        draws_of(np.tile((GROUPS == "a").astype(np.int8), (2, 5, 1))),
        np.zeros((9, 1)),
        GROUPS,
        guarantee=EXACT,
        n_clusters=2,
    )
    with pytest.raises(ValueError, match="draws that keep what the method guarantees"):
        salso_partition(unfair)
