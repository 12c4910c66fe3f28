"""Compositions: automatic ones, by group name, and what groups of a few rows do to them."""

import warnings

import numpy as np
import pytest

import bayesfair as bf
from bayesfair.fairlets import decompose
from bayesfair.fairlets.compositions import capacities, rule_of_small_groups


def test_automatic_compositions():
    assert capacities([3, 6]).lower.tolist() == [[1, 2]] * 3
    assert capacities([8, 12]).lower.tolist() == [[2, 3]] * 4
    uneven = capacities([10_771, 21_790])
    assert uneven.lower[0].tolist() == [1, 2]
    assert uneven.upper[0].tolist() == [1, 3]
    assert len(uneven.lower) == 10_771
    assert capacities([207, 235], (8, 9)).lower.shape == (26, 2)


@pytest.mark.parametrize("composition", [{"M": 9, "F": 8}, {"F": 8, "M": np.int64(9)}])
def test_counts_by_group_name_need_no_order(composition):
    named, ordered = capacities([207, 235], composition, ("F", "M")), capacities([207, 235], (8, 9))
    np.testing.assert_array_equal(named.lower, ordered.lower)
    np.testing.assert_array_equal(named.upper, ordered.upper)


def test_groups_that_are_numbers_are_named_by_number_or_text():
    X, group = np.random.default_rng(0).normal(size=(20, 2)), np.repeat([1, 2], [8, 12])
    found = [decompose(X, group, part, random_state=0) for part in ({2: 3, 1: 2}, {"1": 2, "2": 3})]
    np.testing.assert_array_equal(found[0].fairlet, found[1].fairlet)


@pytest.mark.parametrize(
    ("composition", "text"),
    [
        ((9, 8), "near the ratio of the groups F: 207, M: 235, in that order, got F: 9, M: 8. Name the groups"),
        ({"F": 8}, "one count for each of the groups F: 207, M: 235"),
        ({"F": 0, "M": 0}, "at least 0 and not all 0"),
        ([[1, 1], [1, 2]], "use every row of the groups F: 207, M: 235, got columns that sum to F: 2, M: 3"),
        (300, "The smallest group, 'F', has 207 members"),
    ],
)
def test_messages_name_the_groups(composition, text):
    with pytest.raises(ValueError, match=text):
        capacities([207, 235], composition, ("F", "M"))


def bank_like(few=6):
    rng = np.random.default_rng(0)
    group = np.repeat(["unknown", "divorced", "single", "married"], [few, 200, 500, 1294])
    return rng.normal(size=(len(group), 3)), group


def test_a_group_of_six_says_what_it_does_to_fairlets():
    X, group = bank_like()
    with pytest.warns(UserWarning, match=r"'unknown' has 6 of 2,000 rows.* 6 fairlets of about 333 rows.*=80 merges"):
        assert len(decompose(X, group).composition) == 6


def test_the_composition_that_the_warning_offers_is_taken_and_frees_the_fairlets():
    X, group = bank_like()
    groups = bf.fairness.encode_groups(group)
    offered = {"divorced": 1, "married": 6, "single": 2, "unknown": 0}
    assert str(offered) in rule_of_small_groups(groups.sizes, groups.names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = decompose(X, group, offered)
    assert found.optimal
    assert len(found.composition) == 200
    assert found.composition[:, groups.names.index("unknown")].max() == 1
    assert found.composition.sum(0).tolist() == groups.sizes.tolist()


def test_merging_as_the_warning_offers_silences_it():
    X, group = bank_like()
    est = bf.FairletKMeans(4, min_group_size=80, random_state=0).fit(X, sensitive_features=group)
    assert est.decomposition_.composition.sum(0).tolist() == [1294, 500, 206]


def test_more_clusters_than_such_fairlets_name_the_group_and_what_helps():
    X, group = bank_like()
    with pytest.raises(ValueError, match=r"There are 6 fairlets.*Group 'unknown' has 6 of 2,000 rows"):
        bf.GibbsFairClustering(7, target="joint").fit(X, sensitive_features=group)


@pytest.mark.parametrize("sizes", [(207, 235), (10_771, 21_790), (1, 3), (40, 60, 900), [30] * 40, (5, 100)])
def test_groups_that_are_not_small_for_their_number_are_left_in_peace(sizes):
    assert rule_of_small_groups(sizes, [f"g{i}" for i in range(len(sizes))]) == ""


def test_with_two_groups_there_is_nothing_to_merge():
    text = rule_of_small_groups((3, 439), ("a", "b"))
    assert "min_group_size" not in text
    assert "composition={'a': 0, 'b': 1}" in text
