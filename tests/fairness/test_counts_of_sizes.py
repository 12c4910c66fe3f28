"""Counts of crossed groups in clusters of given sizes, against every table of counts."""

from itertools import product

import numpy as np
import pytest

from bayesfair._arrays import cell_masses
from bayesfair.balanced.repairs import moves_needed
from bayesfair.fairness.balanced import each_and_together, members_of
from bayesfair.fairness.counts_of_sizes import counts_of_sizes, nearest_sizes
from bayesfair.fairness.groups import cross_attributes, encode_groups
from bayesfair.fairness.metrics import rows_off


def every_table(group_sizes, cluster_sizes):
    """All counts (tables, 2, groups) of two clusters of these sizes."""
    first = np.array(
        [one for one in product(*(range(size + 1) for size in group_sizes)) if sum(one) == cluster_sizes[0]]
    )
    return np.stack([first, group_sizes - first], axis=1)


def crossed(seed, levels, n_obs=14):
    rng = np.random.default_rng(seed)
    return cross_attributes([encode_groups(rng.integers(0, size, n_obs)) for size in levels]), rng


@pytest.mark.parametrize("levels", [(2, 3), (2, 2, 2), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_no_counts_are_nearer_and_combinations_have_the_least_room(levels, seed):
    groups, rng = crossed(seed, levels)
    member, sizes = members_of(groups.parts), np.array([6, 8])
    tables = every_table(groups.sizes, sizes)
    off, of_each = rows_off(tables).max((1, 2)), rows_off(tables @ member.T).max((1, 2))
    wanted = rng.integers(0, groups.sizes + 1, (2, len(groups.names)))
    found = counts_of_sizes(wanted, groups.sizes, sizes, member)
    allowed = of_each < 1 - 1e-9
    least = np.floor(off[allowed] + 1e-9).min() + 1
    assert found.room == least
    away = np.abs(tables - wanted).sum((1, 2))
    assert np.abs(found.counts - wanted).sum() == away[allowed & (off < least - 1e-9)].min()
    assert (tables == found.counts).all((1, 2)).any()
    assert rows_off(found.counts @ member.T).max() < 1
    free = counts_of_sizes(wanted, groups.sizes, sizes, member, (np.inf,))
    assert np.abs(free.counts - wanted).sum() == away[allowed].min()


@pytest.mark.parametrize("seed", range(3))
def test_the_repair_of_larger_tables_balances_each_attribute_and_the_combinations(seed):
    rng = np.random.default_rng(seed)
    race, region = rng.random(600) < 0.14, rng.integers(0, 25, 600)
    groups, labels = cross_attributes([encode_groups(race), encode_groups(region)]), rng.integers(0, 4, 600)
    counts = cell_masses(np.where(race, 0, labels), groups.code, (4, len(groups.names)))
    moves = moves_needed(each_and_together(groups), counts)
    assert moves.room == 1
    assert rows_off(moves.counts).max() < 1
    assert all(rows_off(moves.counts @ members_of([part]).T).max() < 1 for part in groups.parts)
    assert (moves.counts.sum(0) == groups.sizes).all()
    assert nearest_sizes(counts, groups.sizes, members_of(groups.parts)).sum() == 600
