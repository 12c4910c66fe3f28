"""Decompositions of large tables by blocks, against the exact ones of tables that are small enough for both."""

import numpy as np
import pytest

from bayesfair.fairlets import by_blocks, decompose, fairlet_centers
from bayesfair.fairlets.compositions import capacities
from bayesfair.fairlets.dissimilarity import Weighted, resolve_dissimilarity

HALF = 800


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(by_blocks, "BLOCK", 100)


def differently_distributed(name, rng):
    first, second = rng.normal(size=(2, HALF, 8))
    if name == "heavy tails":
        second = rng.standard_t(3, (HALF, 8))
    if name == "clusters":
        centers = 3 * rng.normal(size=(6, 8))
        first += centers[rng.choice(6, HALF, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])]
        second += centers[rng.choice(6, HALF)]
    return np.vstack([first, second])


@pytest.mark.parametrize(("name", "left_out"), [("heavy tails", 0), ("clusters", 120)])
def test_groups_that_are_distributed_differently_cost_little_more_than_the_optimum(name, left_out, small):
    X = differently_distributed(name, np.random.default_rng(0))[left_out:]
    code = np.repeat([0, 1], [HALF - left_out, HALF])
    best, found = decompose(X, code), decompose(X, code, exact_up_to=0, random_state=0)
    assert best.cost <= found.cost <= 1.02 * best.cost
    assert best.optimal
    assert not found.optimal
    assert found.gap == np.inf
    assert "is not known" in repr(found)
    again = decompose(X, code, exact_up_to=0, random_state=0)
    np.testing.assert_array_equal(found.fairlet, again.fairlet)


@pytest.mark.filterwarnings("ignore:Group")
@pytest.mark.parametrize(
    ("name", "sizes", "weighted"),
    [
        ("manhattan", (170, 430), True),
        ("kl", (110, 183, 307), False),
        ("kmeans", (5, 595), True),
        ("kl", (1, 599), True),
    ],
)
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


FORMS = {  # sizes of groups, composition, the group of the anchors
    "1:1": ((200, 200), "auto", 0),
    "floor/ceil": ((170, 230), "auto", 0),
    "three groups": ((100, 100, 200), "auto", 0),
    "hubs": ((160, 240), "auto", None),
    "hubs of floor and ceiling sizes": ((170, 230), 60, None),
}


@pytest.mark.parametrize(("form", "name"), [*zip(FORMS, ["kmeans", "kl", "manhattan", "kl", "kmeans"])])
def test_a_pass_keeps_capacities_and_never_raises_the_cost(form, name, small):
    sizes, composition, anchor = FORMS[form]
    rng, dissimilarity = np.random.default_rng(2), resolve_dissimilarity(name)
    X, code = rng.uniform(0.1, 1, (400, 3)), np.repeat(np.arange(len(sizes)), sizes)
    held = capacities(sizes, composition)
    paid = Weighted(dissimilarity) if anchor is None else dissimilarity
    table = by_blocks.PricedTable(X, code, held, paid, anchor, None)
    fairlet, cost = by_blocks.dealt_at_first(table, rng), np.inf
    for round_ in range(16):
        count = np.bincount(fairlet)
        blocks = by_blocks._blocks(table, fairlet, count, rng)
        np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(len(count)))
        better, told = by_blocks._dealt_again(table, fairlet, 1 + round_ // 8 * (anchor is None), rng)
        for group in range(len(sizes)):
            own = np.bincount(better[code == group], minlength=len(count))
            assert ((held.lower[:, group] <= own) & (own <= held.upper[:, group])).all()
        to = fairlet_centers(X, better) if anchor is None else X[code == anchor]
        pays = dissimilarity.to_center if anchor is None else dissimilarity.between
        assert told == pytest.approx(pays(X, to[better]).sum())
        assert told <= cost * (1 + 1e-12)
        fairlet, cost = better, told


@pytest.mark.parametrize(
    ("lower", "upper", "apart", "near"),
    [(1, 2, 1, 0), (0, 3, 1, 0), (2, 2, 1, 0), (1, 2, 3, 0), (1, 2, 3, by_blocks.NEAR)],
)
def test_a_block_costs_little_more_than_the_optimum_and_no_more_where_nothing_is_near(
    lower, upper, apart, near, monkeypatch
):
    """Where the groups lie three apart, the same few anchors are the nearest ones of nearly all members."""
    rng, dissimilarity, m = np.random.default_rng(4), resolve_dissimilarity("kmeans"), 60
    limits = np.full(m, lower), np.full(m, upper)
    anchors, members = rng.normal(size=(m, 3)), apart + rng.normal(size=(m * (lower + upper) // 2, 3))
    best = by_blocks.transport(anchors, members, *limits, dissimilarity)
    monkeypatch.setattr(by_blocks, "NEAR", near)
    found = by_blocks._assigned(anchors, members, *limits, dissimilarity)
    paid = dissimilarity.between(anchors[found], members).sum()
    assert best.cost * (1 - 1e-9) <= paid <= best.cost * (1 + near + 1e-9)
    held = np.bincount(found, minlength=m)
    assert lower <= held.min() <= held.max() <= upper


@pytest.mark.parametrize(
    ("counts", "weighted", "name"), [((2, 3), True, "kl"), ((2, 2, 3), False, "manhattan"), ((4, 4), True, "kmeans")]
)
def test_hubs_find_the_fairlets_that_were_planted(counts, weighted, name, small):
    """Far apart, so that no other decomposition comes near; in several blocks."""
    rng, m = np.random.default_rng(0), 64
    planted = np.repeat(np.arange(m), sum(counts))
    code = np.tile(np.repeat(np.arange(len(counts)), counts), m)
    X = rng.permutation(1 + 10.0 * np.arange(m))[planted, None] + rng.uniform(0, 0.1, (len(planted), 2))
    weight = rng.uniform(0.5, 2, len(X)) if weighted else None
    found = decompose(X, code, np.tile(counts, (m, 1)), dissimilarity=name, sample_weight=weight, random_state=0)
    together = np.unique(np.column_stack([planted, found.fairlet]), axis=0)
    assert len(together) == m
    centers = fairlet_centers(X, planted, weight)[planted]
    pays = resolve_dissimilarity(name).to_center(X, centers) * (1 if weight is None else weight)
    assert found.cost == pytest.approx(pays.sum())


def test_fairlets_may_go_without_a_group(small):
    rng, composition = np.random.default_rng(0), np.tile([[2, 0, 3], [0, 2, 2], [1, 1, 0]], (20, 1))
    code = np.repeat(np.arange(3), composition.sum(0))
    found = decompose(rng.normal(size=(len(code), 3)), code, composition, random_state=0)
    np.testing.assert_array_equal(found.composition, composition)
