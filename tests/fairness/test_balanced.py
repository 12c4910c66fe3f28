"""The spaces of balanced labellings: membership against fractions, nearest counts against enumeration."""

import re
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from bayesfair.fairness import Groups, balanced, encode_groups
from bayesfair.fairness.balanced import balance_constraint, exactly, nearest_bounds, nearest_counts, tighter
from bayesfair.fairness.bounded_sizes import bounded, within
from bayesfair.fairness.groups import groups_for_fit
from bayesfair.fairness.metrics import cluster_balance


def of_sizes(*sizes):
    return Groups(np.repeat(np.arange(len(sizes)), sizes), tuple(f"g{j}" for j in range(len(sizes))))


TWO_ATTRIBUTES = groups_for_fit(
    [["F", "n"], ["F", "s"], ["F", "s"], ["M", "n"], ["M", "s"], ["M", "s"]], 6, crossed=False
)


def is_exact(groups, counts):
    """By the definition, in fractions, for every attribute's groups."""
    parts = groups.attributes or (Groups(np.arange(len(groups.names)), groups.names),)
    for part in parts:
        member = part.code == np.arange(len(part.names))[:, None]
        total = member @ groups.sizes
        for cluster in counts:
            held, size = member @ cluster, int(cluster.sum())
            if size == 0 or any(abs(n - Fraction(int(N), len(groups.code)) * size) >= 1 for n, N in zip(held, total)):
                return False
    return True


def tables(groups, n_clusters):
    """Every way to deal the groups' members to the clusters, as counts (clusters, groups)."""
    ways = [[way for way in product(range(n + 1), repeat=n_clusters) if sum(way) == n] for n in groups.sizes]
    return [np.array(columns).T for columns in product(*ways)]


@pytest.mark.parametrize(
    ("groups", "n_clusters"), [(of_sizes(2, 5), 3), (of_sizes(1, 2, 4), 2), (TWO_ATTRIBUTES, 2), (TWO_ATTRIBUTES, 3)]
)
def test_exact_balance_is_what_it_says(groups, n_clusters):
    constraint = balance_constraint(groups)
    every = np.array(tables(groups, n_clusters))
    wanted = [is_exact(groups, counts) for counts in every]
    assert (constraint.satisfied(every).all(-1) == wanted).all()
    assert 0 < sum(wanted) < len(wanted)
    assert (exactly(balance_constraint(groups, 0.1), groups.sizes).satisfied(every).all(-1) == wanted).all()


def together(*columns):
    """Attributes that are balanced each and together."""
    return groups_for_fit(np.stack(columns, 1), len(columns[0]))


THREE = [0, 0, 1, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0, 0, 0]
EACH_AND_TOGETHER = [
    (together(*THREE[:2]), 2),
    (together(*THREE[:2]), 3),
    (together([0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 0, 0, 1, 0, 1]), 2),
    (together(*THREE), 2),
    (together([0, 0, 1, 1, 1, 1, 0, 0, 0], [0, 1, 2, 0, 1, 2, 0, 1, 1]), 3),
]


def rooms_needed(groups, every):
    """Of every table (tables, clusters, cells): are attributes within one row, and the room that combinations need."""

    def off(member):
        total = member @ groups.sizes
        held, size = every @ member.T, every.sum(2, keepdims=True)
        return np.abs(len(groups.code) * held - total * size).max((1, 2))

    each = np.max([off(part.code == np.arange(len(part.names))[:, None]) for part in groups.crosses], axis=0)
    fair = (each < len(groups.code)) & every.any(2).all(1)
    return fair, off(np.eye(len(groups.names), dtype=int)) // len(groups.code) + 1


@pytest.mark.parametrize(("groups", "n_clusters"), EACH_AND_TOGETHER)
@pytest.mark.filterwarnings("ignore:Groups with fewer members")
def test_each_attribute_and_their_combinations_are_balanced_with_the_least_room(groups, n_clusters, monkeypatch):
    """Against all tables of counts, in whole numbers; by the program of all sizes and by that of given ones."""
    every = np.array(tables(groups, n_clusters))
    fair, needed = rooms_needed(groups, every)
    room = needed[fair].min()
    constraint = balance_constraint(groups, n_clusters=n_clusters)
    assert constraint.room == room
    np.testing.assert_array_equal(constraint.satisfied(every).all(-1), fair & (needed <= room))
    inside, alike = every[fair & (needed <= room)], np.tile(groups.sizes / n_clusters, (n_clusters, 1))
    for few in (balanced.FEW, 0):
        monkeypatch.setattr(balanced, "FEW", few)
        found = nearest_counts(constraint, groups.sizes, alike)
        assert (found == inside).all((1, 2)).any()


def test_combinations_get_the_least_room_at_which_there_are_counts(monkeypatch):
    groups, whole = EACH_AND_TOGETHER[0][0], balanced.nearest_counts

    def with_room(constraint, *rest):
        if constraint.room < 3:
            raise ValueError("no such counts")
        return whole(constraint, *rest)

    monkeypatch.setattr(balanced, "nearest_counts", with_room)
    constraint = balance_constraint(groups, n_clusters=2)
    every = np.array(tables(groups, 2))
    fair, needed = rooms_needed(groups, every)
    assert constraint.room == 3
    np.testing.assert_array_equal(constraint.satisfied(every).all(-1), fair & (needed <= 3))
    assert (needed[fair] > 1).any()
    assert "every combination's to within 3 rows" in constraint.said()
    monkeypatch.setattr(balanced, "WIDEST", 2)
    with pytest.raises(ValueError, match="no such counts"):
        balance_constraint(groups, n_clusters=2)


@pytest.mark.parametrize("least", [0.4, 0.5, 2 / 3])
def test_least_balance_is_that_of_the_metric(least):
    groups = of_sizes(4, 6)
    every = np.array(tables(groups, 2))
    balances = cluster_balance(every.astype(float))
    kept = balance_constraint(groups, least).satisfied(every)
    assert (kept == (np.nan_to_num(balances, nan=-1.0) >= least - 1e-9)).all()


def test_exact_balance_of_many_rows_is_that_of_whole_numbers():
    """Products of counts have more than 32 bits."""
    rng, groups = np.random.default_rng(0), of_sizes(1_077_100, 2_179_000)
    size = rng.integers(1, 3_256_100, 2_000)
    first = np.round(size * 1_077_100 / 3_256_100).astype(int) + rng.integers(-3, 4, 2_000)
    first[::7] = rng.integers(0, size[::7] + 1)  # anywhere
    told = balance_constraint(groups).satisfied(np.stack([first, size - first], 1).astype(np.int32))
    assert told.tolist() == [
        abs(n - Fraction(1_077_100 * s, 3_256_100)) < 1 for n, s in zip(first.tolist(), size.tolist())
    ]
    assert 0 < told.sum() < len(told)


@pytest.mark.parametrize(
    ("groups", "least", "n_clusters"),
    [
        (of_sizes(2, 5), "exact", 2),
        pytest.param(of_sizes(1, 2, 3), 0.3, 2, marks=pytest.mark.slow),
        (TWO_ATTRIBUTES, 0.3, 2),
        (of_sizes(9, 20), 0.42, 3),
    ],
)
def test_counts_are_the_nearest_of_those_that_there_are(groups, least, n_clusters):
    """Where rounding gives none, any within eight people were once as good, which cost 0.3% of the loss of Bank-additional."""
    constraint, rounded = balance_constraint(groups, least), []
    inside = np.array([counts for counts in tables(groups, n_clusters) if constraint.satisfied(counts).all()])
    for share in np.random.default_rng(0).dirichlet(np.ones(n_clusters), 20):
        goal = share[:, None] * groups.sizes
        if not len(inside):
            with pytest.raises(ValueError, match="min_balance"):
                nearest_counts(constraint, groups.sizes, goal)
            continue
        found, apart = nearest_counts(constraint, groups.sizes, goal), np.abs(inside - goal)
        assert (found == inside).all((1, 2)).any()
        near = (apart < 1).all((1, 2))
        best = apart[near] if near.any() else 1.02 * apart
        assert np.abs(found - goal).sum() <= best.sum((1, 2)).min() + 1e-6
        rounded.append(near.any())
    assert n_clusters == 2 or rounded.count(False) > 3


def test_tighter_bounds_are_rungs_of_the_own_balance():
    groups = of_sizes(4, 8)
    rungs = tighter(balance_constraint(groups, 0.25), groups.sizes)
    np.testing.assert_allclose([one.min_balance for one in rungs], [0.45, 0.4, 0.3])
    assert all((one.needed == balance_constraint(groups, one.min_balance).needed).all() for one in rungs)
    assert not tighter(balance_constraint(groups), groups.sizes)
    rungs = tighter(balance_constraint(TWO_ATTRIBUTES, 0.1), TWO_ATTRIBUTES.sizes)
    assert rungs[-1].min_balance == pytest.approx(0.2)


def test_an_empty_space_is_refused_with_the_nearest_balance_that_is_not():
    groups = of_sizes(4, 6)
    with pytest.raises(ValueError, match=r"into 3 clusters, got 0\.6667\. The largest that does is about 0\.5"):
        nearest_counts(balance_constraint(groups, 2 / 3), groups.sizes, np.tile(groups.sizes / 3, (3, 1)))
    few = of_sizes(2, 6)
    with pytest.raises(ValueError, match="without members of a group has Balance 0"):
        nearest_counts(balance_constraint(few, 0.1), few.sizes, np.tile(few.sizes / 3, (3, 1)))
    exact = nearest_counts(balance_constraint(few), few.sizes, np.tile(few.sizes / 3, (3, 1)))
    assert exact.sum() == 8  # a floor of 0 is exact


@pytest.mark.parametrize(
    ("bad", "error"),
    [("fair", ValueError), (0, ValueError), (0.7, ValueError), (float("nan"), ValueError), (None, TypeError)],
)
def test_a_bad_min_balance_is_refused(bad, error):
    with pytest.raises(error, match="min_balance"):
        balance_constraint(of_sizes(4, 6), bad)


def test_small_groups_are_told_of_where_whole_people_balance_them():
    columns = [["F", "n"], ["M", "s"], ["M", "s"], ["F", "s"], ["F", "n"], ["M", "n"]]
    with pytest.warns(UserWarning, match=r"clusters \(2\): F, s \(1\), M, n \(1\)\. "):
        balance_constraint(groups_for_fit(columns, 6), n_clusters=2)
    with warnings.catch_warnings(action="error"):
        balance_constraint(groups_for_fit(columns, 6, crossed=False), n_clusters=2)


def test_attributes_are_crossed_and_remembered():
    columns = [["F", "n"], ["F", "s"], ["M", "s"], ["M", "s"]]
    groups = groups_for_fit(columns, 4, crossed=False)
    assert groups.names == encode_groups(columns).names == ("F, n", "F, s", "M, s")
    assert [part.names for part in groups.attributes] == [("F", "M"), ("n", "s")]
    assert [part.code.tolist() for part in groups.attributes] == [[0, 0, 1], [0, 1, 1]]
    merged = groups_for_fit([["F", "n"], ["F", "s"], ["M", "s"], ["M", "e"]] * 2, 8, crossed=False, min_group_size=3)
    assert [part.names for part in merged.attributes] == [("F", "M"), ("s", "other")]


def inside(groups, n_clusters, least):
    """The sizes (tables, clusters) of all balanced tables of counts."""
    constraint = balance_constraint(groups, least)
    return np.unique(
        [counts.sum(1) for counts in tables(groups, n_clusters) if constraint.satisfied(counts).all()], axis=0
    )


@pytest.mark.parametrize(
    ("groups", "least", "n_clusters"),
    [(of_sizes(2, 5), "exact", 3), (of_sizes(3, 5), 0.4, 2), (TWO_ATTRIBUTES, "exact", 2), (of_sizes(7), "exact", 3)],
)
@pytest.mark.filterwarnings("ignore:Groups with fewer members")
def test_sizes_are_refused_where_no_table_has_them_and_the_nearest_are_told(groups, least, n_clusters):
    """Against all tables of counts."""
    n_obs, sizes = len(groups.code), inside(groups, n_clusters, least)
    smallest, largest = sizes.min(1), sizes.max(1)
    few = [(1, 2), (1, 3), (2, 3), (2, 4), (3, 3), (4, 4)]
    refused = 0
    for low, high in [*few, *((low, n_obs) for low in (2, 3, 4, n_obs))]:
        asked = {"size_min": low, "size_max": high}
        apart = np.maximum(low - smallest, 0) + np.maximum(largest - high, 0)
        if apart.min() == 0:
            kept = balance_constraint(groups, least, n_clusters, **asked)
            counts = nearest_counts(kept, groups.sizes, np.tile(groups.sizes / n_clusters, (n_clusters, 1)))
            assert kept.satisfied(counts).all()
            assert low <= counts.sum(1).min() <= counts.sum(1).max() <= high
            continue
        with pytest.raises(ValueError, match=r"`size_m\w\w` must leave a labelling .* The nearest that do: ") as told:
            balance_constraint(groups, least, n_clusters, **asked)
        nearest = asked | {name: int(bound) for name, bound in re.findall(r"(size_m..)=(\d+)", str(told.value))[-2:]}
        assert low - nearest["size_min"] + nearest["size_max"] - high == apart.min()
        assert ((smallest >= nearest["size_min"]) & (largest <= nearest["size_max"])).any()
        refused += 1
    assert 3 < refused < 10


def test_a_bound_for_each_cluster_is_that_of_the_cluster():
    groups, rng, refused = of_sizes(3, 5), np.random.default_rng(0), 0
    sizes = inside(groups, 3, "exact")
    sizes = np.unique([row[list(order)] for row in sizes for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0))], axis=0)
    for _ in range(20):
        low, high = np.sort(rng.integers(1, 8, (2, 3)), axis=0)
        apart = (np.maximum(low - sizes, 0) + np.maximum(sizes - high, 0)).sum(1).min()
        if apart == 0:
            kept = balance_constraint(groups, "exact", 3, size_min=low.tolist(), size_max=high)
            counts = nearest_counts(kept, groups.sizes, rng.dirichlet([1, 1, 1])[:, None] * groups.sizes)
            assert ((low <= counts.sum(1)) & (counts.sum(1) <= high)).all()
            assert all(within(kept, [k]).satisfied(counts[[k]]).all() for k in range(3))
            continue
        found = nearest_bounds(bounded(balance_constraint(groups), 3, 8, low, high), groups.sizes, 3)
        assert (low - found.least + found.most - high).sum() == apart
        refused += 1
    assert 3 < refused < 17


@pytest.mark.parametrize("groups", [of_sizes(2, 5), TWO_ATTRIBUTES])
def test_bounded_sizes_are_balance_and_bounds(groups):
    every = np.array(tables(groups, 2))
    kept, plain = balance_constraint(groups, n_clusters=2, size_min=2, size_max=4), balance_constraint(groups)
    wanted = plain.satisfied(every) & (every.sum(-1) >= 2) & (every.sum(-1) <= 4)
    np.testing.assert_array_equal(kept.satisfied(every), wanted)
    assert type(balance_constraint(groups, size_min=None, size_max=None)) is type(plain)
    loose = balance_constraint(of_sizes(4, 8), 0.25, 3, size_max=5)
    assert exactly(loose, np.array([4, 8])).most == 5
    assert [one.most for one in tighter(loose, np.array([4, 8]))] == [5, 5, 5]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"size_min": 0}, "`size_min` must be an integer, at least 1"),
        ({"size_max": 2.5}, "`size_max` must be an integer"),
        ({"size_max": [3, 4]}, "`size_max` must hold a number for each of the 3 clusters"),
        ({"size_min": [3, 4, "a"]}, "`size_min` must be an integer"),
        ({"size_min": 4, "size_max": [3, 4, 5]}, r"`size_max` must be at least size_min, \[4, 4, 4\], got \[3, 4, 5\]"),
        ({"size_min": 5}, r"got size_min=5. The nearest that do: size_min=3\."),
    ],
)
def test_bad_sizes_are_refused_by_name(bad, match):
    with pytest.raises((TypeError, ValueError), match=match):
        balance_constraint(of_sizes(4, 6), "exact", 3, **bad)
