"""The descent of balanced labels: no change that gains is left out, and many rows take little memory."""

import tracemalloc
from copy import copy
from functools import partial

import numpy as np
import pytest

from bayesfair._arrays import MANY, cell_masses, row_blocks
from bayesfair.balanced import centroids, descent, transport
from bayesfair.balanced.annealing import Cooled
from bayesfair.balanced.centroids import CENTROIDS
from bayesfair.balanced.descent import Clusters, Exchanges, candidates, pairs_allowed, singles
from bayesfair.balanced.labels import settled_descent
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.balanced.recombination import search
from bayesfair.fairness import encode_groups
from bayesfair.fairness.balanced import balance_constraint


def clusters_of(n_obs, loss, seed, weight=None, n_clusters=3):
    rng = np.random.default_rng(seed)
    X, code = rng.gamma(2.0, size=(n_obs, 2)), np.arange(n_obs) % 2
    constraint = balance_constraint(encode_groups(code), 0.2, n_clusters)
    weight = np.ones(n_obs) if weight is None else weight
    labels = rng.permutation(n_obs) // 2 % n_clusters
    return Clusters(BalancedProblem(X, code, weight, constraint, CENTROIDS[loss], n_clusters), labels)


def singles_that_gain(clusters):
    """Every person, every other cluster, one at a time: the loss after less the loss before."""
    found = {}
    for person, (k, group) in enumerate(zip(clusters.labels, clusters.code)):
        for to in set(range(clusters.n_clusters)) - {int(k)}:
            if not clusters.allowed(k, to, np.eye(clusters.n_groups, dtype=int)[group]):
                continue
            labels = np.where(np.arange(len(clusters.labels)) == person, to, clusters.labels)
            centers = clusters.loss.centers(clusters.X, labels, clusters.n_clusters, clusters.weight)
            gain = clusters.value() - clusters.loss.value(clusters.X, labels, centers, clusters.weight)
            if gain > 1e-9:
                found[person, to] = gain
    return found


def singles_found(clusters, monkeypatch):
    seen = []

    def spy(clusters, members, margins):
        seen.extend(singles(clusters, members, margins))
        return seen

    monkeypatch.setattr(descent, "singles", spy)
    candidates(clusters, np.zeros((0, clusters.n_groups), int), 64)
    moves = [move for part in seen for move in zip(part.out[:, 0].tolist(), part.to.tolist(), part.gain)]
    return {(row, to): gain for row, to, gain in moves if gain > 1e-9}


@pytest.mark.parametrize("loss", ["kmeans", "kl"])
@pytest.mark.parametrize("n_obs", [8, 14])
def test_every_single_that_gains_is_found(loss, n_obs, monkeypatch):
    weights = [None, np.linspace(0.5, 1.5, n_obs)]
    found = 0
    for seed in range(6):
        for weight in weights:
            clusters = clusters_of(n_obs, loss, seed, weight)
            expected = singles_that_gain(clusters)
            assert singles_found(clusters, monkeypatch) == pytest.approx(expected, abs=1e-9)
            found += len(expected)
    assert found > 20


def test_singles_whose_margin_is_made_up_for_by_the_centres_are_seen(monkeypatch):
    """The planted mistake: only those who are nearer to another centre."""
    missed = 0
    for seed in range(6):
        clusters = clusters_of(14, "kmeans", seed)
        expected = singles_that_gain(clusters)
        clusters.reach = 0.0
        missed += len(expected.keys() - singles_found(clusters, monkeypatch).keys())
    assert missed > 0


@pytest.mark.parametrize("min_balance", ["exact", 0.2])
def test_a_bundle_may_go_where_it_may_leave_and_come(min_balance):
    """Asked once for every cluster, as of every pair of them; bundles of more rows than there are too."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        code, labels = np.arange(24) % 3 // 2, rng.integers(4, size=24)
        about = np.ones(24), balance_constraint(encode_groups(code), min_balance, 4), CENTROIDS["kmeans"], 4
        clusters = Clusters(BalancedProblem(rng.normal(size=(24, 2)), code, *about), labels)
        kinds = rng.integers(0, 9, (30, 2))
        k, to = np.indices((4, 4))[..., None]
        found = pairs_allowed(clusters, kinds)
        np.testing.assert_array_equal(found, clusters.allowed(k, to, kinds))
    assert found.any()


def overlapping(n_obs, n_clusters=8, dim=20):
    """(X float32, groups, labels from which to descend, constraint, centres)."""
    rng = np.random.default_rng(0)
    code, centers = (rng.random(n_obs) < 0.4).astype(np.int32), rng.normal(size=(n_clusters, dim))
    labels = np.empty(n_obs, np.int32)
    for group in range(2):
        labels[code == group] = np.arange((code == group).sum()) % n_clusters
    X = (centers[labels] + rng.normal(size=(n_obs, dim))).astype(np.float32)
    return X, code, labels, balance_constraint(encode_groups(code), 0.5, n_clusters), centers


@pytest.mark.slow
def test_memory_grows_by_a_few_numbers_a_row():
    """Neither another table (80 bytes a row here) nor numbers of every row and cluster (64): those stay in blocks."""
    peaks, sizes = [], (MANY + 1, 2 * MANY)
    for n_obs in sizes:
        X, code, labels, constraint, centers = overlapping(n_obs)
        start = Cooled(centers, np.zeros((2, len(centers))), np.zeros((len(centers), 2)), np.inf)
        np.add.at(start.counts, (labels, code), 1.0)
        weight = np.ones(n_obs)
        tracemalloc.start()
        settled_descent(BalancedProblem(X, code, weight, constraint, CENTROIDS["kmeans"], len(centers)), start, 3)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert np.diff(peaks)[0] / np.diff(sizes)[0] < 40


FEW = {"CHEAPEST": 4, "WIDEST": 40, "BUNDLES": 2, "REPEATS": 1, "SPARE": 20}


def of_many_rows(monkeypatch, few=FEW):
    """Thirty rows are many."""
    monkeypatch.setattr(descent, "MANY", 30)
    for name, value in few.items():
        monkeypatch.setattr(descent, name, value)
    for module in (centroids, transport):
        monkeypatch.setattr(module, "row_blocks", partial(row_blocks, size=200))


def as_set(found, ties):
    """Transfers with their gains; where many people have the same margins, the gains alone."""
    who = [(k, to, *sorted(out[out >= 0]), back) for k, to, out, back, _ in zip(*found)]
    return sorted(zip(np.round(found.gain, 9), [()] * len(who) if ties else who))


@pytest.mark.parametrize(
    ("loss", "min_balance", "weights"),
    [("kmeans", "exact", "none"), ("kl", 0.3, "of rows"), ("manhattan", 0.3, "none")],
)
def test_what_is_kept_of_many_rows_is_all_that_a_pass_looks_at(loss, min_balance, weights, monkeypatch):
    """Every pass, from those kept or from all anew, finds the transfers that it would find among all rows."""
    of_many_rows(monkeypatch)
    everything, passes, looks = candidates, [], []

    def compared(clusters, kinds, most):
        found = everything(clusters, kinds, most)
        whole, ties = copy(clusters), loss == "manhattan"
        whole.near = None
        with monkeypatch.context() as all_rows:
            all_rows.setattr(descent, "MANY", np.inf)
            assert as_set(found, ties) == as_set(everything(whole, kinds, most), ties)
        assert len(whole.near) == len(clusters.X)
        passes.append(len(clusters.near) / len(clusters.X))
        return found

    monkeypatch.setattr(descent, "candidates", compared)
    look = descent.cheapest_to_move
    monkeypatch.setattr(descent, "cheapest_to_move", lambda *args: looks.append(1) or look(*args))
    rng = np.random.default_rng(0)
    n_obs, n_clusters = 3000, 3
    X, code = rng.gamma(2.0, size=(n_obs, 2)), (rng.random(n_obs) < 0.4).astype(int)
    weight = rng.uniform(0.5, 1.5, n_obs) if weights == "of rows" else np.ones(n_obs)
    constraint = balance_constraint(encode_groups(code), min_balance, n_clusters)
    counts = np.outer(np.full(n_clusters, 1 / n_clusters), np.bincount(code))
    start = Cooled(X[:n_clusters], np.zeros((2, n_clusters)), counts, np.inf)
    settled_descent(BalancedProblem(X, code, weight, constraint, CENTROIDS[loss], n_clusters), start, 40)
    assert np.mean(passes) < 0.7
    if loss != "kl" and weights == "none":  # there is a bound on what centres give way
        assert len(looks) < 0.8 * len(passes)


def test_rows_kept_while_centres_move_too_far_are_too_few(monkeypatch):
    """The planted mistake: margins of the others are taken for what they were."""
    monkeypatch.setattr(type(CENTROIDS["kmeans"]), "drift", lambda self, moved, reach: np.zeros(len(moved)))
    with pytest.raises(AssertionError):
        test_what_is_kept_of_many_rows_is_all_that_a_pass_looks_at("kmeans", "exact", "none", monkeypatch)


@pytest.mark.parametrize("weighted", [False, True])
def test_wide_tables_gain_by_inner_products_what_they_gain_by_columns(weighted, monkeypatch):
    """The same gains before and after moves; the planted table, one without the moves, is caught."""
    rng = np.random.default_rng(0)
    X, code, labels = rng.normal(size=(40, 100)), np.arange(40) % 2, np.arange(40) // 2 % 3
    weight = rng.uniform(0.5, 1.5, size=40) if weighted else np.ones(40)
    problem = BalancedProblem(X, code, weight, balance_constraint(encode_groups(code), 0.2, 3), CENTROIDS["kmeans"], 3)
    wide = Clusters(problem, labels)
    monkeypatch.setattr(descent, "are_worth_it", lambda problem: False)
    plain = Clusters(problem, labels)
    assert wide.products is not None
    assert plain.products is None
    late = copy(wide.products)
    late.with_sums, late.squares = late.with_sums.copy(), late.squares.copy()
    changes = np.array([0, 1]), np.array([1, 2]), np.array([[0, 7], [2, -1]]), np.array([3, -1])

    def gains(clusters):
        return clusters.gains(*changes)

    np.testing.assert_allclose(gains(wide), gains(plain), rtol=1e-9)
    for clusters in (wide, plain):
        clusters.apply(0, 2, np.array([12, -1]), np.array([5]))
        clusters.apply(1, 0, np.array([8]), np.array([-1]))
    np.testing.assert_allclose(gains(wide), gains(plain), rtol=1e-9)
    wide.products = late
    assert abs(gains(wide) - gains(plain)).max() > 1e-3
    plain.refresh()


def test_a_search_in_a_wide_table_counts_its_steps():
    """So that a bar moves from the first stage on."""
    rng = np.random.default_rng(0)
    X, code, steps = rng.normal(size=(60, 5)), np.arange(60) % 2, []
    problem = BalancedProblem(
        X, code, np.ones(60), balance_constraint(encode_groups(code), "exact", 3), CENTROIDS["kmeans"], 3
    )
    search(problem, 2, 2, rng, done=steps.append)
    assert steps == [1, 1, 1]


def test_the_kernel_makes_the_swaps_that_the_checks_would_make_one_by_one():
    kernel, plain = (clusters_of(90, "kmeans", 3, weight=np.random.default_rng(4).uniform(1, 3, 90)) for _ in "ab")
    found = candidates(kernel, np.zeros((0, 2), int), 64)
    swaps = Exchanges(*(part[np.argsort(-found.gain)] for part in found))
    swaps = Exchanges(*(part[swaps.back >= 0] for part in swaps))
    before, made = kernel.value(), 0
    for at in range(len(swaps.k)):
        one = Exchanges(*(part[at : at + 1] for part in swaps))
        if len(descent.still_good(plain, one, 1e-9)):
            plain.apply(one.k[0], one.to[0], one.out[0], one.back)
            made += 1
    assert kernel.swap(swaps, 1e-9) == made > 10
    assert (kernel.labels == plain.labels).all()
    np.testing.assert_allclose(kernel.sums, plain.sums)
    np.testing.assert_allclose(kernel.masses, plain.masses)
    np.testing.assert_array_equal(kernel.counts, cell_masses(kernel.labels, kernel.code, kernel.counts.shape))
    kernel.refresh()
    assert kernel.value() < before
