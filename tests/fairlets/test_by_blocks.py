"""Decompositions of large tables by blocks, against the exact ones of tables that are small enough for both."""

import numpy as np
import pytest

from bayesfair.fairlets import by_blocks, decompose, hub, resolve_dissimilarity

HALF = 1500


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(by_blocks, "BLOCK", 100)


def differently_distributed(name, rng):
    first, second = rng.normal(size=(2, HALF, 8))
    if name == "scaled and shifted":
        second = 1 + second * np.linspace(0.5, 2, 8)
    if name == "heavy tails":
        second = rng.standard_t(3, (HALF, 8))
    if name == "clusters":
        centers = 3 * rng.normal(size=(6, 8))
        first += centers[rng.choice(6, HALF, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])]
        second += centers[rng.choice(6, HALF)]
    return np.vstack([first, second])


@pytest.mark.parametrize("name", ["scaled and shifted", "heavy tails", "clusters"])
def test_groups_that_are_distributed_differently_cost_little_more_than_the_optimum(name, small):
    X, code = differently_distributed(name, np.random.default_rng(0)), np.repeat([0, 1], HALF)
    best, found = decompose(X, code), decompose(X, code, exact_up_to=0, random_state=0)
    assert best.cost <= found.cost <= 1.03 * best.cost
    assert best.optimal
    assert not found.optimal
    assert found.gap == np.inf
    assert "is not known" in repr(found)
    again = decompose(X, code, exact_up_to=0, random_state=0)
    np.testing.assert_array_equal(found.fairlet, again.fairlet)


@pytest.mark.filterwarnings("ignore:Group")
@pytest.mark.parametrize("name", ["kmeans", "manhattan", "kl"])
@pytest.mark.parametrize("sizes", [(300, 300), (200, 400), (170, 430), (110, 183, 307), (5, 595), (1, 599)])
@pytest.mark.parametrize("weighted", [False, True])
def test_capacities_are_kept_and_the_cost_is_near_the_least(name, sizes, weighted, small):
    rng = np.random.default_rng(1)
    X, code = rng.uniform(0.1, 1, (600, 3)), np.repeat(np.arange(len(sizes)), sizes)
    weight = rng.uniform(0.5, 2, 600) if weighted else None
    settings = {"dissimilarity": name, "sample_weight": weight}
    best, found = decompose(X, code, **settings), decompose(X, code, exact_up_to=0, random_state=0, **settings)
    assert best.cost * (1 - 1e-9) <= found.cost <= 1.15 * best.cost
    np.testing.assert_array_equal(found.composition.sum(0), sizes)
    assert (found.composition.min(0) >= best.composition.min(0)).all()
    assert (found.composition.max(0) <= best.composition.max(0)).all()


@pytest.mark.parametrize("X", [np.ones((300, 2)), np.repeat([[0.0, 1.0], [1e4, 0.0], [3.0, 3.0]], 100, 0)])
def test_rows_that_repeat_are_paired(X, small):
    found = decompose(X.astype(np.float32), np.tile([0, 1], 150), exact_up_to=0, random_state=0)
    assert found.cost == pytest.approx(0, abs=1e-6)


def test_a_pass_never_raises_the_cost(small):
    rng = np.random.default_rng(2)
    given = by_blocks.Problem(*rng.normal(size=(2, 400, 3)), *np.ones((2, 400), int), resolve_dissimilarity("kmeans"))
    plan = by_blocks.plan_by_halves(given, rng)
    for _ in range(5):
        blocks = by_blocks._fairlets_of_blocks(given, plan, rng)
        np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(400))
        better = by_blocks._solved_again(given, plan, blocks)
        assert by_blocks._cost(given, better) <= by_blocks._cost(given, plan)
        plan = better


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (1, 2), (0, 3), (2, 2)])
def test_a_block_is_solved_exactly_by_dense_assignment(lower, upper, monkeypatch):
    """POT's network simplex takes a hundred times as long on a block of floor and ceiling sizes."""
    rng, dissimilarity = np.random.default_rng(3), resolve_dissimilarity("kmeans")
    limits = np.full(30, lower), np.full(30, upper)
    anchors, members = rng.normal(size=(30, 3)), 1 + rng.normal(size=(30 * (lower + upper) // 2, 3))
    best = by_blocks.transport(anchors, members, *limits, dissimilarity)
    monkeypatch.delattr(by_blocks, "transport")
    found = by_blocks._exactly(anchors, members, *limits, dissimilarity)
    assert dissimilarity.between(anchors[found], members).sum() == pytest.approx(best.cost)
    held = np.bincount(found, minlength=30)
    assert lower <= held.min() <= held.max() <= upper


def test_hubs_are_filled_by_blocks(small):
    X, code = np.random.default_rng(0).normal(size=(200, 3)), np.repeat([0, 1], [80, 120])
    best, found = (decompose(X, code, random_state=0, exact_up_to=rows) for rows in (200, 0))
    assert not found.anchored
    assert found.cost < 1.1 * best.cost
    np.testing.assert_array_equal(found.composition, np.tile([2, 3], (40, 1)))


def test_the_bound_on_a_mean_holds_for_rare_large_values():
    rng = np.random.default_rng(0)
    sample = (rng.random((20, 10_000)) < 0.01).astype(float)
    assert all(hub.mean_at_most(part, 1.0) > 0.01 for part in sample)
