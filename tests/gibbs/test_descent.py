"""The descent of balanced labels: no change that gains is left out, and many rows take little memory."""

import tracemalloc

import numpy as np
import pytest
from gibbs.in_threads import in_threads

from bayesfair.fairness import balance_constraint, encode_groups
from bayesfair.gibbs import descent, resolve_centroids
from bayesfair.gibbs.descent import Clusters, candidates, descend, singles


def clusters_of(n_obs, loss, seed, weight=None, n_clusters=3):
    rng = np.random.default_rng(seed)
    X, code = rng.gamma(2.0, size=(n_obs, 2)), np.arange(n_obs) % 2
    constraint = balance_constraint(encode_groups(code), 0.2, n_clusters)
    weight = np.ones(n_obs) if weight is None else weight
    labels = rng.permutation(n_obs) // 2 % n_clusters
    return Clusters(X, code, weight, labels, constraint, resolve_centroids(loss), n_clusters)


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
        seen.append(singles(clusters, members, margins))
        return seen[0]

    monkeypatch.setattr(descent, "singles", spy)
    candidates(clusters, np.zeros((0, clusters.n_groups), int), 64)
    found = seen[0]
    return {(int(out[0]), int(to)): gain for out, to, gain in zip(found.out, found.to, found.gain) if gain > 1e-9}


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


def test_memory_grows_by_a_few_numbers_a_row():
    n_obs, n_clusters, dim = 40_000, 8, 20
    rng = np.random.default_rng(0)
    labels, code = np.arange(n_obs) // 2 % n_clusters, np.arange(n_obs) % 2
    X = rng.normal(size=(n_clusters, dim))[labels] + 0.5 * rng.normal(size=(n_obs, dim))
    constraint = balance_constraint(encode_groups(code), 0.5, n_clusters)
    tracemalloc.start()
    descend(X, code, np.ones(n_obs), labels, constraint, resolve_centroids("kmeans"), n_clusters, passes=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / n_obs < 10 * 8 * n_clusters  # float64 numbers of every row and cluster


@pytest.mark.parametrize("loss", ["kmeans", "kl"])
@pytest.mark.parametrize("min_balance", ["exact", 0.3])
@pytest.mark.parametrize("weights", ["none", "of shares", "of rows"])
def test_rows_in_several_processes_descend_as_in_one(loss, min_balance, weights, monkeypatch):
    """Transfers are found among the people whom each names: singles, swaps across processes and bundles."""
    for name, few in {"CHEAPEST": 16, "BUNDLES": 2, "REPEATS": 1}.items():
        monkeypatch.setattr(descent, name, few)
    made = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n_obs, n_clusters, cuts = 120, 3, [7, 70]
        X, code = rng.gamma(2.0, size=(n_obs, 2)), np.arange(n_obs) % 3
        code[-20:] = 2
        constraint = balance_constraint(encode_groups(code), min_balance, n_clusters)
        weight = {"none": np.ones(n_obs), "of rows": rng.uniform(0.5, 1.5, n_obs)}.get(weights)
        if weight is None:
            weight = np.repeat([0.5, 1.0, 1.5], np.diff([0, *cuts, n_obs]))
        start = np.empty(n_obs, int)
        for group in range(3):
            start[code == group] = np.arange((code == group).sum()) % n_clusters
        about = constraint, resolve_centroids(loss), n_clusters
        labels, trace, optimal = descend(X, code, weight, start, *about)
        shares = list(zip(*(np.split(part, cuts) for part in (X, code, weight, start))))
        found = in_threads(lambda over, *own, about=about: descend(*own, *about, over=over), shares)
        np.testing.assert_array_equal(np.concatenate([own for own, *_ in found]), labels)
        for _, losses, settled in found:
            np.testing.assert_allclose(losses, trace, rtol=1e-12)
            assert settled == optimal
        made += (labels != start).sum()
    assert made > 50
