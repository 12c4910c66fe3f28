"""What holds jointly: sure rows against every subset of a few rows, credibility against double loops and its own law."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from draws import draws_of
from partitions import every_partition, naive_vi, same

from bayesfair.posterior import credibility, memberships, reference_partition, sure_rows
from bayesfair.posterior.draws import LabelDraws, as_labels
from bayesfair.posterior.joint_statements import NOWHERE, least_draws, surest_set
from bayesfair.posterior.tables import canonical
from bayesfair.posterior.tree import build_tree

N_OBS, N_CLUSTERS, N_DRAWS = 7, 3, 20


def some_draws(seed, noise):
    """(truth (obs,), draws (draws, obs)) in which some rows are surer than others, each draw with numbers of its own."""
    rng = np.random.default_rng(seed)
    truth, often = rng.integers(N_CLUSTERS, size=N_OBS), 2 * noise * rng.random(N_OBS)
    moved = rng.random((N_DRAWS, N_OBS)) < often
    drawn = np.where(moved, rng.integers(N_CLUSTERS, size=moved.shape), truth)
    return truth, np.stack([rng.permutation(N_CLUSTERS)[draw] for draw in drawn]).astype(np.int8)


def most_alike(drawn, rows):
    """The number of draws with the most frequent partition of these rows."""
    return np.unique([canonical(draw[rows]) for draw in drawn], axis=0, return_counts=True)[1].max()


def largest_set(drawn, least):
    """The number of rows of the largest set with one partition in at least so many draws, by all subsets."""
    subsets = [np.flatnonzero(np.array(one)) for one in np.ndindex(*(2,) * N_OBS) if any(one)]
    return max(len(rows) for rows in subsets if most_alike(drawn, rows) >= least)


def found(seed, noise, least):
    truth, drawn = some_draws(seed, noise)
    doubt = np.array([1 - most_alike(drawn, [0, row]) / N_DRAWS for row in range(N_OBS)])
    return drawn, *surest_set(as_labels(drawn), truth, doubt, N_CLUSTERS, least)


CASES = [(seed, noise) for seed, noise in enumerate((0.05, 0.1, 0.15, 0.25, 0.4) * 2)]


@pytest.mark.parametrize(("seed", "noise"), CASES)
def test_a_set_lies_so_in_all_draws_that_it_names_and_no_row_can_be_added(seed, noise):
    least = least_draws(0.8, N_DRAWS)
    drawn, place, kept = found(seed, noise, least)
    rows = np.flatnonzero(place != NOWHERE)
    lies_so = [np.array_equal(same(draw[rows]), same(place[rows])) for draw in drawn]
    np.testing.assert_array_equal(lies_so, kept)
    assert kept.sum() >= least
    for row in np.flatnonzero(place == NOWHERE):
        assert most_alike(drawn, [*rows, row]) < least
    assert place.max() < N_CLUSTERS


def test_sets_are_the_largest_of_all_subsets(monkeypatch):
    """In all of these cases, which a single search is not enough for."""
    least = least_draws(0.8, N_DRAWS)
    largest = [largest_set(some_draws(seed, noise)[1], least) for seed, noise in CASES]
    sizes = lambda: [int((found(seed, noise, least)[1] != NOWHERE).sum()) for seed, noise in CASES]  # noqa: E731
    assert sizes() == largest
    monkeypatch.setattr("bayesfair.posterior.joint_statements.STARTS", 1)
    assert sizes() != largest


def test_numbers_of_clusters_do_not_matter():
    """Two clusters change numbers in every other draw, which no row notices."""
    truth = np.array([0, 0, 1, 1, 2, 2, 2])
    drawn = np.tile(truth, (N_DRAWS, 1))
    drawn[::2] = np.array([1, 0, 2])[drawn[::2]]
    drawn[:3, 6] = 0
    place, kept = surest_set(as_labels(drawn), truth, np.zeros(N_OBS), N_CLUSTERS, 18)
    assert place.tolist() == [0, 0, 1, 1, 2, 2, NOWHERE]
    assert kept.all()
    place, kept = surest_set(as_labels(drawn), truth, np.zeros(N_OBS), N_CLUSTERS, 17)
    assert place.tolist() == truth.tolist()
    assert np.flatnonzero(~kept).tolist() == [0, 1, 2]


def test_draws_that_are_read_in_parts_give_the_same_set(monkeypatch):
    truth, drawn = some_draws(1, 0.15)
    whole = surest_set(as_labels(drawn), truth, np.zeros(N_OBS), N_CLUSTERS, 16)
    monkeypatch.setattr("bayesfair.posterior.joint_statements.AHEAD", 2)
    monkeypatch.setattr("bayesfair.posterior.draws.BLOCK", 3 * N_OBS)
    monkeypatch.setattr("bayesfair.posterior.draws.CHUNK", 2)
    in_strides = LabelDraws(np.asfortranarray(drawn.reshape(2, -1, N_OBS)))
    in_parts = surest_set(in_strides, truth, np.zeros(N_OBS), N_CLUSTERS, 16)
    assert 2 < (whole[0] != NOWHERE).sum() < N_OBS
    for one, other in zip(whole, in_parts):
        np.testing.assert_array_equal(one, other)


def test_rows_sure_one_by_one_need_not_be_sure_together():
    """Ten rows, each elsewhere in two of twenty draws, never two at once: at 90% one of them can be told, beside the rest."""
    truth = np.repeat([0, 1], 10)
    drawn = np.tile(truth, (20, 1))
    for row in range(10):
        drawn[2 * row : 2 * row + 2, row] = 1
    tree = build_tree(draws_of(drawn[None].astype(np.int8)), np.zeros((20, 1)), None, n_clusters=2)
    assert (memberships(tree, level=0.9)["label_set"].str.len() == 1).all()
    sure = sure_rows(tree)
    assert sure["position"].tolist() == [0, *range(10, 20)]
    assert sure.attrs["share"] == 0.9
    assert sure.attrs["sentence"] == "In 90% of the draws 11 of 20 rows keep their clusters all at once."
    assert len(sure_rows(tree, level=0.95)) == 10
    assert len(sure_rows(tree, level=0.15)) == 18


@pytest.fixture(scope="module")
def people():
    """A tree with names of rows, two chains."""
    drawn = np.stack([some_draws(2, 0.1)[1], some_draws(2, 0.15)[1]])
    return build_tree(
        draws_of(drawn), np.zeros((N_OBS, 1)), list("abababa"), n_clusters=N_CLUSTERS, obs_names=list("pqrstuv")
    )


def test_sure_rows_are_named_and_numbered_as_the_tables_are(people):
    sure, table = sure_rows(people, level=0.9), memberships(people)
    assert 1 < len(sure) < N_OBS
    assert sure.index.tolist() == table.index[sure["position"]].tolist()
    agree = sure["cluster"].to_numpy() == reference_partition(people)[sure["position"]]
    assert agree.all()
    for level in (0, 1, 1.5, "most"):
        with pytest.raises((ValueError, TypeError), match="`level` must"):
            sure_rows(people, level=level)


def test_no_two_rows_may_be_sure_together():
    drawn = every_partition(3, 3)  # any two of them are together in two of five
    tree = build_tree(draws_of(drawn[None]), np.zeros((3, 1)), None, n_clusters=3)
    sure = sure_rows(tree)
    assert len(sure) == 1
    assert sure.attrs["sentence"] == "No two rows keep their clusters, relative to each other, in 90% of the draws."


def test_one_draw_and_one_cluster_are_sure():
    one = build_tree(draws_of(np.array([[[0, 1, 2, 0]]], np.int8)), np.zeros((4, 1)), None, n_clusters=3)
    alone = build_tree(draws_of(np.zeros((2, 5, 4), np.int8)), np.zeros((4, 1)), None, n_clusters=1)
    for tree in (one, alone):
        sure = sure_rows(tree)
        assert sure["cluster"].tolist() == reference_partition(tree).tolist()
        assert sure.attrs["share"] == 1


# Credibility


def naive_distance(metric, one, other):
    return naive_vi(one, other) if metric == "vi" else (same(one) != same(other)).mean()


def naive_p_value(metric, drawn, partition):
    """Every partition's mean distance to all others of the draws and the partition, by double loops."""
    together = [*drawn, partition]
    scores = np.array([sum(naive_distance(metric, one, other) for other in together) for one in together])
    return (scores >= scores[-1] - 1e-9).mean(), scores / len(drawn)


@pytest.mark.parametrize("metric", ["vi", "binder"])
def test_credibility_is_what_double_loops_say(people, metric):
    drawn = people["posterior"]["labels"].values.reshape(-1, N_OBS)
    for partition in (drawn[3], reference_partition(people), np.arange(N_OBS), np.zeros(N_OBS, int)):
        told = credibility(people, partition, metric=metric)
        p_value, scores = naive_p_value(metric, drawn, np.asarray(partition))
        assert told.p_value == pytest.approx(p_value)
        np.testing.assert_allclose([*told.distances, told.distance], scores, atol=1e-9)
        assert f"its p-value is {p_value:.2g}" in told.sentence


def test_a_partition_far_from_all_draws_has_the_least_p_value():
    drawn = np.tile(np.repeat([0, 1], 6), (40, 1))
    drawn[np.arange(40), np.arange(40) % 12] ^= 1
    tree = build_tree(draws_of(drawn[None].astype(np.int8)), np.zeros((12, 1)), None, n_clusters=2)
    told = credibility(tree, np.arange(12) % 2)
    assert told.p_value == 1 / 41
    assert told.sentence == (
        "None of 40 draws is as far from the others as this partition: its p-value is 0.024, the least that so many draws can "
        "give."
    )
    assert credibility(tree, np.repeat([0, 1], 6)).p_value == 1
    assert credibility(tree, drawn[0]).sentence.startswith("40 of 40 draws are at least as far")
    fewer = credibility(tree, np.arange(12) % 2, max_draws=10)
    assert fewer.p_value == 1 / 11
    assert fewer.sentence.endswith("Of the 40 draws these are evenly spaced.")
    np.testing.assert_array_equal(fewer.draws, np.linspace(0, 39, 10).astype(int))


@pytest.mark.parametrize("metric", ["vi", "binder"])
def test_p_values_of_draws_are_uniform_or_conservative(metric):
    """Exactly: whichever of 1 + T exchangeable partitions is held out, at most a share u of them have p <= u."""
    rng = np.random.default_rng(0)
    partitions = every_partition(5, 3)
    law = rng.dirichlet(np.full(len(partitions), 0.3))
    drawn = partitions[rng.choice(len(partitions), 20, p=law)]
    p_values = []
    for out in range(20):
        tree = build_tree(draws_of(np.delete(drawn, out, 0)[None]), np.zeros((5, 1)), None, n_clusters=3)
        p_values.append(credibility(tree, drawn[out].astype(int), metric=metric).p_value)
    for u in np.unique(p_values):
        assert np.mean(np.array(p_values) <= u) <= u + 1e-12
    assert min(p_values) < 0.3  # some are extreme
    assert max(p_values) == 1


def test_a_partition_is_aligned_by_its_names_or_refused(people):
    own = pd.Series(reference_partition(people), index=list("pqrstuv"))
    assert credibility(people, own).p_value == credibility(people, own.to_numpy()).p_value
    with pytest.raises(ValueError, match="`partition`"):
        credibility(people, own[::-1])
    with pytest.raises(ValueError, match="`partition` must be 7 integer labels from 0 on"):
        credibility(people, [0, 1])
    with pytest.raises(ValueError, match="`metric` must be 'vi' or 'binder'"):
        credibility(people, own, metric="rand")


def test_numbers_of_a_partition_do_not_matter(people):
    drawn = people["posterior"]["labels"].values[0, 0].astype(int)
    told = {credibility(people, np.array(numbers)[drawn]).p_value for numbers in permutations(range(N_CLUSTERS))}
    assert len(told) == 1
