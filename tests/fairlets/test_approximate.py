"""Nearly optimal decompositions of large tables: against the exact one, with bounds that hold and bounds that must not."""

import numpy as np
import pytest

import bayesfair.fairlets.approximate as module
import bayesfair.fairlets.hub as hub
import bayesfair.fairlets.near_pairs as near_pairs
from bayesfair.fairlets import auction as bids
from bayesfair.fairlets import capacities, decompose, resolve_dissimilarity
from bayesfair.fairlets.auction import Arcs, auction
from bayesfair.fairlets.transport import transport

KMEANS = resolve_dissimilarity("kmeans")


@pytest.fixture
def small(monkeypatch):
    """Tables of hundreds of rows are cut into leaves, and bounds are sampled where a test says so."""
    monkeypatch.setattr(near_pairs, "ALL_PAIRS", 0)
    monkeypatch.setattr(near_pairs, "LEAF", 128)
    return monkeypatch


def tables():
    rng = np.random.default_rng(0)
    clumps = np.repeat(5 * rng.normal(size=(4, 3)), 200, 0)
    jitter = 1e-5 * rng.normal(size=clumps.shape)
    return {
        "1:1": (rng.normal(size=(600, 3)), [300, 300]),
        "floor and ceiling": (rng.normal(size=(600, 3)), [170, 430]),
        "three groups": (rng.normal(size=(600, 3)), [110, 183, 307]),
        "tiny group": (rng.normal(size=(600, 3)), [5, 595]),
        "one anchor": (rng.normal(size=(60, 3)), [1, 59]),
        "apart": (np.vstack([rng.normal(size=(200, 3)), rng.normal((3, 0, 0), 1, (400, 3))]), [200, 400]),
        "duplicates": (rng.integers(0, 3, (600, 3)).astype(float), [230, 370]),
        "all equal": (np.ones((300, 2)), [120, 180]),
        "constant column": (np.column_stack([rng.normal(size=600), np.full(600, 7.0)]), [280, 320]),
        "tight clumps": (clumps + jitter, [390, 410]),
        "far row": (np.vstack([rng.normal(size=(599, 3)), [[1e4, 0, 0]]]), [270, 330]),
    }


@pytest.mark.filterwarnings("ignore:Group")
@pytest.mark.parametrize("name", tables())
@pytest.mark.parametrize("single", [False, True])
def test_the_gap_is_never_below_the_distance_from_the_exact_optimum(name, single, small):
    X, sizes = tables()[name]
    code = np.repeat(np.arange(len(sizes)), sizes)
    X = X.astype(np.float32) if single else X
    best, found = decompose(X, code), decompose(X, code, exact_up_to=0, random_state=0)
    assert best.optimal
    assert found.lower_bound <= best.cost * (1 + 1e-9) <= found.cost * (1 + 1e-6)
    assert found.gap >= (found.cost - best.cost) / max(found.cost, 1e-300) - 1e-6
    np.testing.assert_array_equal(found.composition.sum(0), sizes)
    assert (found.composition.min(0) >= best.composition.min(0)).all()
    assert (found.composition.max(0) <= best.composition.max(0)).all()


@pytest.mark.parametrize("name", ["manhattan", "kl"])
def test_other_dissimilarities_are_bounded_too(name, small):
    X, code = np.random.default_rng(0).uniform(0.1, 1, (400, 3)), np.repeat([0, 1], [170, 230])
    best = decompose(X, code, dissimilarity=name)
    found = decompose(X, code, dissimilarity=name, exact_up_to=0, random_state=0)
    assert found.lower_bound <= best.cost <= found.cost * (1 + 1e-6)
    assert found.gap < 0.6


def problem(n_anchors=300, n_members=500, seed=0):
    rng = np.random.default_rng(seed)
    anchors, members = rng.normal(size=(n_anchors, 4)), rng.normal(size=(n_members, 4))
    lower = np.full(n_anchors, n_members // n_anchors)
    return near_pairs.Problem(anchors, members, lower, lower + (n_members % n_anchors > 0), KMEANS)


def test_whatever_the_prices_their_bound_stays_below_the_optimum():
    given = problem()
    optimum, rng = transport(*given).cost, np.random.default_rng(1)
    for scale in (0, 0.1, 1, 10):
        price = scale * rng.normal(size=500).astype(np.float32)
        assert module.all_pairs_bound(given, price) <= optimum
    assert module._dual(given, np.full(300, 10.0), np.zeros(500)) > optimum  # infeasible potentials are no bound


def test_sampled_bounds_stay_below_the_bound_of_all_pairs(monkeypatch):
    """200 seeds at a probability of 1e-9 each to fail; with the doubt left out a third of them do."""
    given = problem(3000, 3300)
    rough = module.nearly_optimal(
        given, np.zeros(3000, np.float32), np.zeros(3300, np.float32), np.random.default_rng(0)
    )
    rough = rough._replace(u=rough.u + 0.5)  # potentials that most pairs off the graph would lessen
    whole = module.all_pairs_bound(given, rough.price)
    monkeypatch.setattr(module, "BOUND_PAIRS", 600 * 3300)
    monkeypatch.setattr(module, "CHEAPEST_MEMBERS", 10)
    bounds = [module.sampled_bound(given, rough, np.random.default_rng(seed)) for seed in range(200)]
    assert max(bounds) <= whole
    monkeypatch.setattr(module, "mean_at_most", lambda sample, most: sample.mean())
    careless = [module.sampled_bound(given, rough, np.random.default_rng(seed)) for seed in range(200)]
    assert max(careless) > whole
    assert np.mean(careless) == pytest.approx(whole, rel=0.01)


def test_a_sampled_bound_tells_its_risk(small):
    small.setattr(module, "BOUND_PAIRS", 100 * 330)
    X, code = np.random.default_rng(0).normal(size=(600, 3)), np.repeat([0, 1], [270, 330])
    found = decompose(X, code, exact_up_to=0, random_state=0)
    assert found.risk == module.FAILURE
    assert "but for a risk of 1e-09" in repr(found)
    assert found.lower_bound <= decompose(X, code).cost
    assert decompose(X, code).risk == 0


def test_the_answer_depends_on_the_seed_and_not_on_the_number_of_threads(small):
    X, code = np.random.default_rng(0).normal(size=(600, 3)), np.repeat([0, 1], [270, 330])
    found = decompose(X, code, exact_up_to=0, random_state=1)
    small.setattr(near_pairs, "cpu_count", lambda: 1)
    alone = decompose(X, code, exact_up_to=0, random_state=1)
    np.testing.assert_array_equal(found.fairlet, alone.fairlet)
    assert (found.cost, found.lower_bound) == (alone.cost, alone.lower_bound)
    other = decompose(X, code, exact_up_to=0, random_state=2)
    assert (found.fairlet != other.fairlet).any()


def test_an_auction_on_all_pairs_is_near_the_optimum_by_its_step():
    given, step = problem(), 0.01
    anchor, member = (side.ravel() for side in np.indices(given.shape))
    arcs = Arcs(np.arange(301) * 500, member, given.costs(anchor, member))
    owner, _ = auction(arcs, given.lower, given.upper, np.full(500, -20.0), step)
    held = np.bincount(owner, minlength=300)
    assert (held >= given.lower).all()
    assert (held <= given.upper).all()
    optimum = transport(*given).cost
    assert optimum <= given.costs(owner, np.arange(500)).sum() <= optimum + step * 500


def graph(anchor, member, cost, n_anchors):
    code = np.unique(np.column_stack([anchor, member]), axis=0)
    return Arcs(np.searchsorted(code[:, 0], np.arange(n_anchors + 1)), code[:, 1], np.full(len(code), cost))


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (2, 2), (1, 3)])
def test_whoever_is_short_at_the_end_of_the_bids_is_served_along_alternating_paths(lower, upper, monkeypatch):
    """Sparse graphs that hold one assignment by design: a bid that is never outbid would leave anchors out."""
    monkeypatch.setattr(bids, "PATIENCE", 1)
    monkeypatch.setattr(bids, "DOUBLINGS", 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_members = lower * 200 + (upper - lower) * 30
        hidden = np.concatenate([np.repeat(np.arange(200), lower), np.arange(n_members - lower * 200)])
        anchor = np.concatenate([hidden, rng.integers(200, size=150)])
        member = np.concatenate([rng.permutation(n_members), rng.integers(n_members, size=150)])
        limits = np.full(200, lower), np.full(200, upper)
        owner, _ = auction(graph(anchor, member, 1.0, 200), *limits, np.zeros(n_members), 0.1)
        held = np.bincount(owner[owner >= 0], minlength=200)
        assert (held >= lower).all()
        assert (held <= upper).all()
        assert {(i, j) for j, i in enumerate(owner.tolist()) if i >= 0} <= set(zip(anchor.tolist(), member.tolist()))


def test_no_path_leads_on_where_the_graph_has_no_assignment():
    owner, _ = auction(graph([0, 1, 2, 2], [0, 0, 1, 2], 1.0, 3), np.ones(3, int), np.ones(3, int), np.zeros(3), 0.1)
    assert sorted(owner.tolist()) in ([-1, 0, 2], [-1, 1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_far_surpluses_in_the_plane_end_no_auction_in_a_war_of_bids(seed):
    """Two anchors and two members far apart, everybody between content: prices once doubled until they overflowed."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(1500, 2)).astype(np.float32)
    anchors, two = rows[rng.choice(1500, 750, replace=False)], np.full(750, 2)
    given = near_pairs.Problem(anchors, rows, two, two, KMEANS)
    zeros = np.zeros(750, np.float32), np.zeros(1500, np.float32)
    for start in (zeros, module.sample_potentials(given, rng)):
        found = module.nearly_optimal(given, *start, rng)
        np.testing.assert_array_equal(np.bincount(found.anchor), two)
        assert np.isfinite(found.price).all()
        assert np.abs(found.price).max() < 1e3


@pytest.mark.parametrize(
    ("sizes", "composition", "name"),
    [((120, 180), (2, 3), "kmeans"), ((125, 175), 55, "manhattan"), ((100, 100, 100), 50, "kl")],
)
def test_hubs_of_large_tables_keep_their_compositions_and_are_bounded(sizes, composition, name):
    X, code = np.random.default_rng(0).uniform(0.1, 1, (300, 3)), np.repeat(np.arange(len(sizes)), sizes)
    held = capacities(np.array(sizes), composition)
    best = decompose(X, code, composition, dissimilarity=name, random_state=0)
    found = decompose(X, code, composition, dissimilarity=name, exact_up_to=0, random_state=0)
    assert (found.composition >= held.lower).all()
    assert (found.composition <= held.upper).all()
    assert found.lower_bound <= best.cost
    assert found.cost < 1.5 * best.cost
    again = decompose(X, code, composition, dissimilarity=name, exact_up_to=0, random_state=0)
    np.testing.assert_array_equal(again.fairlet, found.fairlet)


@pytest.mark.parametrize(("power", "share"), [(1, 0.25), (3, 0)])
def test_the_bound_of_hubs_from_a_sample_stays_below_that_of_all_rows(power, share, monkeypatch):
    """Sampled distances have heavy tails where rows do."""
    X, code = np.random.default_rng(0).normal(size=(3000, 3)) ** power, np.repeat([0, 1], [1200, 1800])
    held = capacities(np.array([1200, 1800]), (2, 3))
    whole, risk = hub.lower_bound(X, code, held, KMEANS, None)
    assert risk == 0
    monkeypatch.setattr(hub, "ASKED_PAIRS", 600 * 1200)
    found = [hub.lower_bound(X, code, held, KMEANS, np.random.default_rng(seed)) for seed in range(50)]
    assert all(bound <= whole for bound, _ in found)
    assert min(bound for bound, _ in found) > share * whole
    assert found[0][1] == pytest.approx(4 * module.FAILURE)


def test_all_pairs_are_found_where_one_leaf_holds_them():
    given = problem()
    u, price = np.zeros(300, np.float32), np.random.default_rng(0).normal(size=500).astype(np.float32)
    room = near_pairs.Near(near_pairs.Nearest(300, 3), near_pairs.Nearest(500, 2))
    for side in room:
        side.forget()
    found = near_pairs.near_pairs(given, u, price, np.random.default_rng(0), room, trees=1, leaf=800)
    reduced = KMEANS.pairwise(given.anchors, given.members) + price
    for side, of in ((found.anchors, reduced), (found.members, reduced.T)):
        np.testing.assert_array_equal(side.other[:, 0], of.argmin(1))
        row, place = np.nonzero(side.other >= 0)
        np.testing.assert_allclose(side.reduced[row, place], of[row, side.other[row, place]], rtol=1e-5, atol=1e-5)
        assert (np.diff(side.reduced[side.other[:, -1] >= 0]) >= 0).all()
    codes = np.concatenate(near_pairs.codes(slice(100, 200), found.anchors.other, found.members.other))
    asked = {(100 + code // 500, code % 500) for code in codes.tolist()}
    theirs = {(i, j) for i in range(100, 200) for j in found.anchors.other[i].tolist() if j >= 0}
    assert asked == theirs | {
        (i, j) for j, two in enumerate(found.members.other.tolist()) for i in two if 100 <= i < 200
    }


@pytest.mark.parametrize("name", ["1:1", "duplicates", "all equal"])
def test_leaves_share_all_rows_out_evenly_however_many_are_alike(name):
    X = tables()[name][0]
    anchors, members = X[: len(X) // 3], X[len(X) // 3 :]
    leaves = near_pairs._leaves(anchors, members, 20, np.random.default_rng(0))
    for own in map(np.concatenate, zip(*leaves)):
        assert len(np.unique(own)) == len(own)
    held = [len(own) + len(others) for own, others in leaves]
    assert max(held) <= 20
    assert min(held) >= max(held) - 1


@pytest.mark.parametrize("value", [-1, 1.5])
def test_exact_up_to_is_a_number_of_rows(value):
    with pytest.raises((TypeError, ValueError), match="`exact_up_to` must be an integer, at least 0"):
        decompose([[0.0], [1.0]], ["a", "b"], exact_up_to=value)
