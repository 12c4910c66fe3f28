"""Repairs of given labels, against every labelling of a tiny table."""

from itertools import product

import numpy as np
import pytest

from bayesfair._arrays import cell_masses
from bayesfair.balanced.centroids import CENTROIDS
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.repairs import SEARCHED, moves_needed, repair
from bayesfair.fairness.balanced import balance_constraint, each_and_together
from bayesfair.fairness.groups import encode_groups, groups_for_fit

LOSS = CENTROIDS["kmeans"]


def tiny(seed, groups, min_balance, n_clusters):
    rng = np.random.default_rng(seed)
    n_obs = len(groups.code)
    constraint = balance_constraint(groups, min_balance, n_clusters)
    problem = BalancedProblem(rng.normal(size=(n_obs, 2)), groups.code, np.ones(n_obs), constraint, LOSS, n_clusters)
    labels = rng.permutation(np.arange(n_obs) % n_clusters).astype(np.int32)
    labels[groups.code == 0] = np.minimum(labels[groups.code == 0], 1)  # far from balanced
    return problem, labels


def value(problem, labels):
    centers = LOSS.centers(problem.X, labels, problem.n_clusters, problem.weight)
    return LOSS.value(problem.X, labels, centers, problem.weight)


@pytest.mark.parametrize(
    ("groups", "min_balance", "n_clusters"),
    [
        (encode_groups(list("aaabbbbb")), "exact", 2),
        (encode_groups(list("aaaabbb")), "exact", 3),
        (encode_groups(list("aaabbbcc")), 0.5, 2),
        (groups_for_fit([["f", "n"], ["f", "s"], ["m", "n"], ["m", "s"]] * 2, 8, crossed=False), "exact", 2),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_no_balanced_labelling_is_nearer_and_none_with_these_counts_is_cheaper(seed, groups, min_balance, n_clusters):
    problem, labels = tiny(seed, groups, min_balance, n_clusters)
    shape = n_clusters, len(groups.names)
    every = np.array(list(product(range(n_clusters), repeat=len(labels))))
    counts = np.stack([cell_masses(one, problem.code, shape) for one in every])
    balanced = problem.constraint.satisfied(counts).all(1)
    moves = (every != labels).sum(1)
    found = repair(problem, labels)
    own = cell_masses(found.fewest, problem.code, shape)
    assert problem.constraint.satisfied(own).all()
    assert (found.fewest != labels).sum() == moves[balanced].min()
    assert moves_needed(problem.constraint, cell_masses(labels, problem.code, shape)).number == moves[balanced].min()
    rivals = every[(counts == own).all((1, 2)) & (moves == moves[balanced].min())]
    paid = LOSS.distances(problem.X, LOSS.centers(problem.X, labels, n_clusters, problem.weight))
    costs = paid[np.arange(len(labels)), rivals].sum(1)
    assert paid[np.arange(len(labels)), found.fewest].sum() == pytest.approx(costs.min())
    assert problem.constraint.satisfied(cell_masses(found.cheapest, problem.code, shape)).all()
    assert value(problem, found.cheapest) <= value(problem, found.fewest) + 1e-12


def test_balanced_labels_stay():
    problem, _ = tiny(0, encode_groups(list("aaabbb")), "exact", 3)
    labels = np.array([0, 1, 2, 2, 1, 0], np.int32)
    assert repair(problem, labels).fewest.tolist() == labels.tolist()


def test_small_tables_have_the_fewest_moves():
    """4 clusters of 4 groups, which a programme written apart from these solved: 318. Within 1% of it, 319 were found."""
    own, single = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]).T
    counts = np.array([[110, 81, 7, 38], [1010, 993, 155, 106], [1274, 706, 194, 71], [127, 67, 22, 39]])
    code = np.repeat(np.arange(4), counts.sum(0))
    groups = encode_groups(np.stack([own[code], single[code]], 1))
    assert moves_needed(each_and_together(groups), counts).number == 318


def test_combinations_that_are_not_balanced_have_no_room():
    rng = np.random.default_rng(0)
    groups = groups_for_fit(rng.integers(0, 3, (400, 3)), 400, crossed=False)
    labels = rng.integers(0, 3, 400)
    counts = cell_masses(labels, groups.code, (3, len(groups.names)))
    assert counts.size > SEARCHED
    assert moves_needed(balance_constraint(groups, "exact", 3), counts).room == 1
