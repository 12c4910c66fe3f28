"""Rows placed together: every placement is balanced, and none is much cheaper than that found."""

from itertools import product

import numpy as np
import pytest

from bayesfair._arrays import cell_masses
from bayesfair.balanced.placement import _by_duals, balanced_placement
from bayesfair.fairness import encode_groups
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.fairness.groups import groups_for_fit, known_groups

pytestmark = pytest.mark.filterwarnings("ignore:Groups with fewer members")


def held(labels, code, n_clusters):
    counts = cell_masses(labels, code, (n_clusters, code.max() + 1))
    return counts[counts.any(1)]


def paid(cost, labels):
    return cost[np.arange(len(labels)), labels].sum()


@pytest.mark.parametrize("min_balance", ["exact", 0.4])
@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_cheapest_of_all_balanced_placements(seed, min_balance):
    rng = np.random.default_rng(seed)
    cost, groups = rng.exponential(size=(8, 3)), encode_groups([*"aab", *rng.choice(["a", "b"], 5)])
    constraint = balance_constraint(groups, min_balance)
    every = (np.array(labels) for labels in product(range(3), repeat=8))
    balanced = [labels for labels in every if constraint.satisfied(held(labels, groups.code, 3)).all()]
    found = balanced_placement(cost, groups.code, constraint)
    assert constraint.satisfied(held(found, groups.code, 3)).all()
    np.testing.assert_allclose(paid(cost, found), min(paid(cost, labels) for labels in balanced), rtol=2e-3)


@pytest.mark.parametrize("min_balance", ["exact", 0.35])
def test_many_rows_are_placed_by_duals_as_the_programme_places_them(min_balance):
    rng = np.random.default_rng(4)
    rows, centers = rng.normal(size=(600, 4)), rng.normal(size=(6, 4))
    cost = np.square(rows[:, None] - centers).sum(2)
    groups = encode_groups(rng.choice(3, 600, p=[0.5, 0.3, 0.2]))
    constraint = balance_constraint(groups, min_balance)
    by_duals, found = _by_duals(cost, groups.code, constraint), balanced_placement(cost, groups.code, constraint)
    assert constraint.satisfied(held(by_duals, groups.code, 6)).all()
    assert abs(paid(cost, by_duals) / paid(cost, found) - 1) < 0.02


def two_columns(n_obs, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(["f", "m"], n_obs), rng.choice(["e", "n", "s"], n_obs, p=[0.2, 0.3, 0.5])], 1)


@pytest.mark.parametrize("seed", range(2))
def test_several_attributes_are_placed_each_and_together_at_the_least_cost(seed):
    """Against all placements in which every cluster that is used holds each group, and each combination, within one row."""
    columns, cost = two_columns(8, seed), np.random.default_rng(seed).exponential(size=(8, 3))
    groups = groups_for_fit(columns, 8)
    constraint = balance_constraint(groups)
    members = [values == each for values in (*columns.T, groups.code) for each in np.unique(values)]

    def fair(labels):
        used = [labels == k for k in np.unique(labels)]
        return all(abs(8 * (m & own).sum() - m.sum() * own.sum()) < 8 for m in members for own in used)

    best = min(paid(cost, labels) for labels in map(np.array, product(range(3), repeat=8)) if fair(labels))
    found = balanced_placement(cost, groups.code, constraint)
    assert fair(found)
    np.testing.assert_allclose(paid(cost, found), best, rtol=2e-3)
    assert fair(_by_duals(cost, groups.code, constraint))


def test_new_rows_of_several_columns_are_of_the_fits_attributes():
    fit = groups_for_fit(two_columns(60, 0), 60)
    columns = np.array([["m", "s"], ["m", "n"], ["f", "s"], ["m", "s"]])
    new = known_groups(columns, 4, fit)
    assert new.names == ("f, s", "m, n", "m, s")
    for part, column in zip(new.crosses, columns.T):
        assert [part.names[at] for at in part.code[new.code]] == column.tolist()
    held = balance_constraint(new).incidence @ np.bincount(new.code)
    assert held.tolist() == [1, 1, 2, 1, 3, 1, 3]
    merged = groups_for_fit(two_columns(60, 0), 60, min_group_size=8)
    assert known_groups(two_columns(30, 1), 30, merged).crosses == merged.crosses == ()


@pytest.mark.parametrize("n_obs", [1, 2])
def test_fewer_rows_than_clusters_leave_some_empty(n_obs):
    cost = np.random.default_rng(0).exponential(size=(n_obs, 5))
    groups = encode_groups(["a", "b"][:n_obs])
    found = balanced_placement(cost, groups.code, balance_constraint(groups))
    assert paid(cost, found) <= cost.min(1).sum() * 1.001
