"""Rates of selection with their intervals, and the tests of whole attributes, held against plain sums and SciPy."""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from bayesfair.fairness.chance import EXACT, PERMUTED, holm, independence
from bayesfair.fairness.groups import encode_groups
from bayesfair.fairness.rates import selection_rates, wilson


@pytest.mark.parametrize(("selected", "rows"), [(0, 7), (7, 7), (3, 11), (717, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_of_rates_are_wilsons(selected, rows, level):
    expected = stats.binomtest(selected, rows).proportion_ci(level, method="wilson")
    np.testing.assert_allclose(wilson(np.array(selected), np.array(rows), level), expected, atol=1e-12)


def test_ratios_are_to_the_highest_rate_of_a_group_that_is_not_small():
    groups = encode_groups(["a"] * 50 + ["b"] * 48 + ["rare"])
    selected = np.r_[np.arange(50) < 20, np.arange(48) < 40, True]
    table = selection_rates({"group": groups}, {"good": selected}, 0.95).set_index("group")
    ratio = (20 / 50) / (40 / 48)
    half = stats.norm.ppf(0.975) * np.sqrt(1 / 20 - 1 / 50 + 1 / 40 - 1 / 48)
    expected = [ratio, ratio * np.exp(-half), ratio * np.exp(half)]
    np.testing.assert_allclose(table.loc["a", ["ratio", "ratio_low", "ratio_high"]].astype(float), expected)
    assert table["is_small"].tolist() == [False, False, True]
    assert table["below_four_fifths"].tolist() == [True, False, False]
    assert table.loc["b", "ratio"] == 1
    assert np.isnan(table.loc["b", "ratio_low"])
    assert table.loc["rare", "ratio"] == pytest.approx(48 / 40)


def test_rates_of_nobody_and_of_small_groups_only():
    groups = encode_groups(range(60))
    nobody = selection_rates({"id": groups}, {"good": np.zeros(60, bool)}, 0.95)
    assert nobody["ratio"].isna().all()
    assert not nobody["below_four_fifths"].any()
    some = selection_rates({"id": groups}, {"good": np.arange(60) < 9}, 0.95)
    assert some["ratio"].tolist() == [1.0] * 9 + [0.0] * 51


def test_large_counts_have_a_chi_square_test_and_cramers_v():
    counts = np.array([[20, 30, 50], [40, 10, 30]])
    found = independence({("a", "clusters"): counts}, 0.95).iloc[0]
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert found["p_value"] == pytest.approx(stats.chi2.sf(statistic, 2))
    assert found["cramers_v"] == pytest.approx(stats.contingency.association(counts, method="cramer"))


def test_small_counts_have_exact_tests():
    two, three = np.array([[3, 1], [1, 4]]), np.array([[3, 0, 1], [0, 3, 2]])
    table = independence({("a", "clusters"): two, ("b", "clusters"): three}, 0.95)
    assert table["test"].tolist() == [EXACT, PERMUTED]
    assert table["p_value"][0] == pytest.approx(stats.fisher_exact(two).pvalue)
    exact = exact_p(three)
    assert table["p_value"][1] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))  # seeded


def exact_p(counts):
    """The chance of a chi-square at least as large, over all tables of two lines with the same margins."""
    sizes, groups = counts.sum(1), counts.sum(0)
    expected = sizes[:, None] * groups / sizes.sum()

    def statistic(first):
        return ((np.array([first, groups - first]) - expected) ** 2 / expected).sum()

    tables = [first for first in product(*(range(g + 1) for g in groups)) if sum(first) == sizes[0]]
    ways = [np.prod([comb(g, n) for g, n in zip(groups.tolist(), first)]) for first in tables]
    large = [statistic(np.array(first)) >= statistic(counts[0]) * (1 - 1e-9) for first in tables]
    return np.dot(ways, large) / sum(ways)


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03, 0.5])), [0.09, 0.04, 0.09, 0.5])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])


def test_an_empty_line_or_a_single_one_shows_no_relation():
    table = independence({("a", "favourable"): np.array([[0, 0], [3, 4]])}, 0.95).iloc[0]
    assert (table["p_value"], table["cramers_v"], table["beyond_chance"]) == (1, 0, False)
