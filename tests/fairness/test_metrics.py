"""Fairness measures against numbers worked out by hand and against the definitions written as loops."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesfair.fairness.metrics import (
    additive_gap,
    balance,
    cluster_balance,
    cluster_gap,
    cluster_kl,
    encode_assignment,
    gap,
    group_masses,
    kl_error,
)

# Two groups, 4 F and 6 M, in three clusters: 2+1, 1+4, 1+1.
SEX = list("FFMFMMMMFM")
LABELS = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]


def test_two_groups_by_hand():
    assert balance(LABELS, SEX) == 1 / 4
    # shares: F 1/2, 1/4, 1/4; M 1/6, 4/6, 1/6
    assert gap(LABELS, SEX) == pytest.approx(4 / 6 - 1 / 4, rel=1e-14)
    assert additive_gap(LABELS, SEX) == pytest.approx(1 / 3 + 5 / 12 + 1 / 12, rel=1e-14)
    kl = sum(
        0.4 * math.log(0.4 / p) + 0.6 * math.log(0.6 / (1 - p)) for p in (2 / 3, 1 / 5, 1 / 2)
    )  # proportions of F in each cluster
    assert kl_error(LABELS, SEX) == pytest.approx(kl, rel=1e-13)


def loop_balance(labels, group):
    ratios = [
        sum(z == k and s == a for z, s in zip(labels, group)) / sum(z == k and s == b for z, s in zip(labels, group))
        for k in set(labels)
        for a, b in itertools.permutations(sorted(set(group)), 2)
    ]
    return min(ratios)


def loop_gaps(soft, group):
    """Equations (6), (14) and (15) of FMC, one term after the other; the list over clusters."""
    names = sorted(set(group))
    terms = []
    for k in range(soft.shape[1]):
        share = [np.mean([soft[i, k] for i, s in enumerate(group) if s == name]) for name in names]
        pairs = list(itertools.combinations(share, 2))
        terms.append(sum(abs(a - b) for a, b in pairs) / len(pairs))
    return terms


def loop_kl(soft, group, target):
    error = 0.0
    for k in range(soft.shape[1]):
        for mu, name in zip(target, sorted(set(group))):
            p = sum(soft[i, k] for i, s in enumerate(group) if s == name) / soft[:, k].sum()
            error += mu * math.log(mu / p)
    return error


def random_problem(seed, groups):
    rng = np.random.default_rng(seed)
    group = [*range(groups)] * 12
    labels = np.repeat(np.arange(12) % 3, groups) if seed % 2 else rng.permuted(np.arange(12 * groups) % 3)
    return rng.dirichlet(np.ones(4), size=len(group)), labels, rng.permuted(group).tolist()


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_measures_equal_their_definitions(seed, groups):
    soft, labels, group = random_problem(seed, groups)
    hard = np.eye(3)[labels]
    target = np.arange(1, groups + 1) / sum(range(1, groups + 1))
    for assignment, dense in ((soft, soft), (labels, hard)):
        terms = loop_gaps(dense, group)
        assert gap(assignment, group) == pytest.approx(max(terms), rel=1e-12)
        assert additive_gap(assignment, group) == pytest.approx(sum(terms), rel=1e-12)
    assert kl_error(soft, group, target) == pytest.approx(loop_kl(soft, group, target), rel=1e-12)
    crowded = np.zeros(len(group), dtype=int)
    assert balance(crowded, group) == pytest.approx(loop_balance(crowded.tolist(), group))


@pytest.mark.parametrize(
    ("planted", "honest"),
    [
        (lambda m: m.min(-1) / m.sum(-1), cluster_balance),  # a proportion instead of a ratio
        (lambda m: np.abs(np.diff(m / m.sum(-1, keepdims=True)))[..., 0], cluster_gap),  # cluster shares, not group's
        (lambda m: np.abs(np.diff(m / m.sum()))[..., 0], cluster_gap),  # N instead of N_j
        (lambda m: 2 * cluster_gap(m), cluster_gap),  # (14) over ordered pairs
    ],
)
def test_a_planted_mistake_is_visible_in_the_example(planted, honest):
    masses = group_masses(LABELS, SEX)
    assert np.abs(planted(masses) - honest(masses)).max() > 0.05


def test_a_group_missing_from_a_cluster():
    labels, group = [0, 0, 1], ["a", "b", "b"]
    assert balance(labels, group) == 0
    assert kl_error(labels, group) == math.inf
    assert gap(labels, group) == 0.5 + 0.5 - 0.5
    assert kl_error(labels, group, target=[0, 1]) == pytest.approx(math.log(2))  # a is not asked for: 0 log 0 = 0


def test_empty_clusters_change_nothing():
    soft = np.insert(np.eye(3)[LABELS], 1, 0.0, axis=1)
    for measure in (balance, gap, additive_gap, kl_error):
        assert measure(soft, SEX) == pytest.approx(measure(LABELS, SEX), rel=1e-13)
    assert np.isnan(cluster_balance(group_masses(soft, SEX))[1])
    assert cluster_kl(group_masses(soft, SEX), np.array([0.4, 0.6]))[1] == 0


def test_one_group_is_always_fair():
    labels, group = [0, 1, 1], ["a", "a", "a"]
    assert (balance(labels, group), gap(labels, group), kl_error(labels, group)) == (1.0, 0.0, 0.0)


def test_measures_of_many_draws_at_once_are_those_of_each():
    rng = np.random.default_rng(5)
    masses = rng.integers(1, 9, size=(2, 7, 3, 4)).astype(float)
    target = np.full(4, 0.25)
    for chain, draw in np.ndindex(2, 7):
        one = masses[chain, draw]
        np.testing.assert_array_equal(cluster_balance(masses)[chain, draw], cluster_balance(one))
        np.testing.assert_allclose(cluster_gap(masses)[chain, draw], cluster_gap(one), rtol=1e-14)
        np.testing.assert_array_equal(cluster_kl(masses, target)[chain, draw], cluster_kl(one, target))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(LABELS, dtype=np.int8) - 1,
        pd.Series(LABELS, index=range(100, 110)),
        pl.Series(LABELS),
        [f"c{label}" for label in LABELS],
        [7.0 * label for label in LABELS],
        pd.Series(LABELS).astype("category"),
    ],
    ids=["negative int8", "pandas", "polars", "text", "floats", "categorical"],
)
def test_labels_of_any_kind(labels):
    np.testing.assert_array_equal(group_masses(labels, SEX), [[2, 1], [1, 4], [1, 1]])


@pytest.mark.parametrize(
    "labels", [np.tile(np.array([-128, 127, 3], np.int8), 100), np.array([-(2**63), 2**63 - 1, 0, 0])]
)
def test_integer_labels_need_not_begin_at_zero_nor_be_close_together(labels):
    code, levels = encode_assignment(labels)
    assert levels == sorted(set(labels.tolist()))
    assert [levels[at] for at in code] == labels.tolist()


def test_soft_assignments_of_any_kind():
    soft = np.eye(3, dtype=np.float32)[LABELS] * 0.7 + np.float32(0.1)
    for table in (pd.DataFrame(soft, index=range(5, 15)), pl.DataFrame(soft), soft.tolist()):
        assert gap(table, SEX) == pytest.approx(0.7 * gap(LABELS, SEX), rel=1e-6)


def test_target_by_name_does_not_depend_on_order():
    expected = kl_error(LABELS, SEX, target=[0.3, 0.7])
    assert kl_error(LABELS, SEX, target={"M": 0.7, "F": 0.3}) == expected
    assert kl_error(LABELS, SEX, target={"M": 0.3, "F": 0.7}) != pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("labels", "sensitive", "error", "text"),
    [
        ([0, 1], ["a"], ValueError, r"`labels` must have one entry per row of `sensitive` \(1\), got 2 entries"),
        ([0], [], ValueError, "`sensitive` must hold at least one row"),
        ([0.0, np.nan], ["a", "b"], ValueError, "`labels` must have a value in every row, got nan at row 1"),
        (np.ones((1, 1, 1)), ["a"], ValueError, "soft assignments .* got 3 dimensions"),
        ([[0.5, 0.5], [0.5, 0.4]], ["a", "b"], ValueError, "row 1 that sums to 0.9 .*Normalise each row"),
        ([[0.5, 0.5], [1.5, -0.5]], ["a", "b"], ValueError, "smallest entry -0.5"),
        ([["x", "y"]], ["a"], TypeError, "entries that are not numbers"),
        (np.array([{0}, {1}]), ["a", "b"], TypeError, "`labels` must hold hashable values"),
    ],
)
def test_bad_input_is_refused(labels, sensitive, error, text):
    with pytest.raises(error, match=text):
        gap(labels, sensitive)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ([1.0], r"groups \('F', 'M'\).*shape \(1,\)"),
        ([0.5, 0.6], r"summing to 1, got \[0.5, 0.6\]"),
        ([1.5, -0.5], "at least 0"),
        ({"F": 0.5, "X": 0.5}, r"name exactly the groups \('F', 'M'\), got \('F', 'X'\)"),
    ],
)
def test_a_target_that_is_no_distribution_over_the_groups_is_refused(target, text):
    with pytest.raises(ValueError, match=text):
        kl_error(LABELS, SEX, target=target)


@pytest.mark.parametrize("measure", [gap, additive_gap])
def test_a_group_without_weight_has_no_shares(measure):
    weight = (np.asarray(SEX) == "F").astype(float)
    with pytest.raises(ValueError, match="`sample_weight` must give every group some weight, got none of 'M'"):
        measure(LABELS, SEX, sample_weight=weight)
