"""What drawing clusters by lot would give: scipy's hypergeometric law, and every allocation of a tiny table."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from bayesfair.fairness.chance import BLOCK, DRAWN, by_lot, farthest, independence, representation, shortfalls
from bayesfair.fairness.groups import encode_groups

CASES = [(442, 207, 150), (442, 235, 150), (30, 3, 28), (30, 28, 10), (12, 6, 6), (5, 5, 3)]


@pytest.mark.parametrize(("total", "group", "size"), CASES)
@pytest.mark.parametrize("tail", [0.025, 0.0001])
def test_ranges_and_p_values_are_those_of_the_hypergeometric_law(total, group, size, tail):
    law = hypergeom(total, group, size)
    counts = np.arange(law.support()[0], law.support()[1] + 1)
    expected = np.minimum(1, 2 * np.minimum(law.cdf(counts), law.sf(counts - 1)))
    found = [by_lot(count, total, group, size, tail) for count in counts]
    np.testing.assert_allclose([p_value for _, _, p_value in found], expected, rtol=1e-7)
    assert {(low, high) for low, high, _ in found} == {(law.ppf(tail), law.isf(tail))}
    inside = [low <= count <= high for count, (low, high, _) in zip(counts, found)]
    assert inside == [p_value > 2 * tail for _, _, p_value in found]


def allocations(sizes, n_first):
    """How many of the first group each cluster of `sizes` holds, whichever people these are: as many rows as allocations."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = [labels[list(people)] for people in combinations(range(len(labels)), n_first)]
    return np.stack([np.bincount(own, minlength=len(sizes)) for own in drawn])


TABLES = [((3, 4, 5), 5), ((3, 3, 3, 3), 6)]  # sizes of clusters, and how many people are of the first group


def are_in_their_ranges(counts, low, high):
    """The share of allocations (allocations, clusters) all of whose counts are."""
    return ((counts >= np.array(low)) & (counts <= np.array(high))).all(1).mean()


@pytest.mark.parametrize(("sizes", "n_first"), TABLES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_all_counts_together_are_in_their_ranges_as_often_as_is_said(sizes, n_first, level):
    """Every allocation is as probable as every other one: no luck is in this."""
    counts, total, clusters = allocations(sizes, n_first), sum(sizes), list(range(len(sizes)))
    groups = encode_groups(["a"] * n_first + ["b"] * (total - n_first))
    table = representation(np.repeat(clusters, sizes), clusters, {"sex": groups}, level)
    ranges = table[table["group"] == "a"]
    assert are_in_their_ranges(counts, ranges["low"], ranges["high"]) >= level
    for k, size in enumerate(sizes):  # the p-values themselves
        for count in np.unique(counts[:, k]):
            below, above = (counts[:, k] <= count).mean(), (counts[:, k] >= count).mean()
            p_value = by_lot(count, total, n_first, size, 0.1)[2]
            assert p_value == pytest.approx(min(1, 2 * min(below, above)))


@pytest.mark.parametrize(("sizes", "n_first", "level"), [(*TABLES[0], 0.9), (*TABLES[1], 0.8)])
def test_that_test_can_fail(sizes, n_first, level):
    """Ranges that do not account for the number of counts hold too seldom."""
    ranges = [by_lot(1, sum(sizes), n_first, size, (1 - level) / 2)[:2] for size in sizes]
    assert are_in_their_ranges(allocations(sizes, n_first), *zip(*ranges)) < level


def test_figures_by_hand_and_how_many_counts_are_looked_at():
    code, groups = np.repeat([0, 1, 2], [4, 2, 2]), encode_groups(list("ffmmmmmm"))
    table = representation(code, ["x", "y", "z"], {"sex": groups, "again": groups}, 0.95)
    first = table.iloc[0]
    assert first[["attribute", "cluster", "group", "count"]].tolist() == ["sex", "x", "f", 2]
    assert first[["expected", "excess", "share_of_cluster", "share_of_all"]].tolist() == [1, 1, 0.5, 0.25]
    assert table.attrs["counts_looked_at"] == {"sex": 3, "again": 3}  # of two groups one tells the other
    assert first["p_value"] == 1  # 3 times 2 times 3 / 14
    three = encode_groups(list("ffmmmmdd"))
    looked_at = [
        representation(of, clusters, {"sex": three}, 0.95).attrs["counts_looked_at"]
        for of, clusters in ((code, [0, 1, 2]), (np.repeat([0, 1], 4), [0, 1]))
    ]
    assert looked_at == [{"sex": 9}, {"sex": 3}]


def test_work_is_told_as_it_advances():
    """A permutation test tells its tables in blocks: between two of them Ctrl-C is heard."""
    done, rng = [], np.random.default_rng(0)
    tables = {("a", "x"): np.full((2, 2), 50), ("b", "x"): rng.integers(0, 9, (12, 30))}
    assert independence(tables, 0.95, done.append)["test"].tolist() == ["chi-square test", "permutation test"]
    assert sum(done) == 2 * DRAWN
    assert max(done[1:]) * 12 * 30 <= BLOCK


def counted(*rows, favourable=None, pairs=None):
    """A `representation` of rows (attribute, cluster, group, excess, share of all): a share of 1,000 rows is expected."""
    table = pd.DataFrame(rows, columns=["attribute", "cluster", "group", "excess", "share_of_all"])
    table["expected"], table["beyond_chance"] = 1000 * table["share_of_all"], table["excess"].abs() > 2
    table.attrs.update(favourable=favourable, pairs=pairs or {})
    return table


def test_of_counts_as_far_from_their_shares_the_harmed_and_the_smaller_group_is_told():
    """Two groups in two clusters are off by the same, up to rounding."""
    rows = [
        ("own", "bad", "no", -5, 0.8),
        ("own", "bad", "yes", 5 + 1e-12, 0.2),
        ("own", "good", "no", 5 + 2e-12, 0.8),
        ("own", "good", "yes", -5, 0.2),
    ]
    for order in (rows, rows[::-1]):
        assert farthest(counted(*order))[["cluster", "group"]].tolist() == ["good", "yes"]
        assert farthest(counted(*order, favourable=["good"]))["group"] == "yes"
        assert farthest(counted(*order[:2], favourable=["good"]))["group"] == "yes"
        assert farthest(counted(*order[:2], ("own", "good", "yes", 5.1, 0.2)))["excess"] == 5.1


def test_who_is_short_beyond_chance_by_the_missing_part_of_a_share():
    rows = [
        ("own", "good", "yes", -40, 0.1),
        ("own", "good", "no", -50, 0.9),
        ("own", "bad", "yes", -60, 0.1),
        ("own", "bad", "no", -1, 0.9),  # chance could do that
        ("own x sex", "good", "yes, f", -45, 0.05),  # 90% are missing, after 40% of the self-employed
        ("own x sex", "good", "no, f", -40, 0.4),  # 10%, after 6% of all women
        ("sex", "good", "f", -28, 0.45),
    ]
    pairs = {"own x sex": {"own": {"yes, f": "yes", "no, f": "no"}, "sex": {"yes, f": "f", "no, f": "f"}}}
    every = shortfalls(counted(*rows, pairs=pairs))
    assert every[["cluster", "group"]].agg(", ".join, axis=1).tolist() == [
        *("good, yes, f", "bad, yes", "good, yes", "good, f", "good, no")
    ]
    good = shortfalls(counted(*rows, pairs=pairs, favourable=["good"]))
    assert good["group"].tolist() == ["yes, f", "yes", "f", "no"]
