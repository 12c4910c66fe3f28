"""Decompositions against enumeration and scipy; proofs that hold, and proofs that must not."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import bayesfair.fairlets.transport as module
from bayesfair.fairlets import Decomposition, decompose
from bayesfair.fairlets.compositions import anchor_group, capacities
from bayesfair.fairlets.decomposition import BY_BLOCKS, describe_gap
from bayesfair.fairlets.dissimilarity import resolve_dissimilarity


def table(sizes, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.05, 0.95, (sum(sizes), dim)), np.repeat(np.arange(len(sizes)), sizes)


def cost_of(X, code, held, fairlet, dissimilarity):
    """L_f from its definition: to the anchor, or to the fairlet's own mean."""
    anchor, total = anchor_group(held), 0.0
    for i in range(len(held.lower)):
        rows = np.flatnonzero(fairlet == i)
        if anchor is None:
            total += dissimilarity.to_center(X[rows], X[rows].mean(0)).sum()
        else:
            (a,) = rows[code[rows] == anchor]
            total += dissimilarity.between(X[rows[rows != a]], X[a]).sum()
    return total


def enumerated_optimum(X, code, held, dissimilarity):
    m, anchor, choices = len(held.lower), anchor_group(held), []
    for group in range(held.lower.shape[1]):
        size = int((code == group).sum())
        ways = [tuple(range(m))] if group == anchor else product(range(m), repeat=size)
        counts = ((way, np.bincount(way, minlength=m)) for way in ways)
        inside = [way for way, c in counts if (held.lower[:, group] <= c).all() and (c <= held.upper[:, group]).all()]
        choices.append(inside)
    plans = (np.array(sum(parts, ())) for parts in product(*choices))
    return min(cost_of(X, code, held, plan, dissimilarity) for plan in plans)


@pytest.mark.parametrize(
    ("sizes", "composition", "name"),
    [
        ((4, 4), "auto", "kmeans"),
        ((3, 6), "auto", "kl"),
        ((3, 5), 3, "manhattan"),
        ((3, 5), 3, "itakura-saito"),
        ((3, 3, 3), "auto", "minkowski"),
        ((3, 4, 4), 3, "binary"),
    ],
)
def test_anchored_optimum_is_the_enumerated_one(sizes, composition, name):
    X, code = table(sizes)
    found = decompose(X, code, composition, dissimilarity=name, power=3.0)
    held, dissimilarity = capacities(np.array(sizes), composition), resolve_dissimilarity(name, 3.0)
    best = enumerated_optimum(X, code, held, dissimilarity)
    np.testing.assert_allclose([found.cost, cost_of(X, code, held, found.fairlet, dissimilarity)], best)
    assert found.optimal
    assert found.lower_bound <= best * (1 + 1e-12)
    assert (found.composition >= held.lower).all()
    assert (found.composition <= held.upper).all()
    np.testing.assert_array_equal(found.fairlet[code == anchor_group(held)], np.arange(len(held.lower)))


@pytest.mark.parametrize(
    ("sizes", "composition", "name"),
    [((4, 6), "auto", "minkowski"), ((4, 5), 2, "kmeans"), ((4, 5), 2, "kl"), ((4, 4, 4), 2, "manhattan")],
)
def test_hub_form_finds_the_optimum_of_a_tiny_problem(sizes, composition, name):
    X, code = table(sizes)
    found = decompose(X, code, composition, dissimilarity=name, power=3.0, random_state=0)
    held, dissimilarity = capacities(np.array(sizes), composition), resolve_dissimilarity(name, 3.0)
    best = enumerated_optimum(X, code, held, dissimilarity)
    np.testing.assert_allclose(found.cost, best)
    np.testing.assert_allclose(cost_of(X, code, held, found.fairlet, dissimilarity), best)
    assert not found.anchored
    assert not found.optimal  # found, and not proved
    assert found.gap == np.inf
    again = decompose(X, code, composition, dissimilarity=name, power=3.0, random_state=0)
    np.testing.assert_array_equal(again.fairlet, found.fairlet)


@pytest.mark.parametrize("sizes", [(20, 20), (15, 45), (17, 40)])
def test_transport_agrees_with_the_assignment_problem(sizes):
    """Every extra place costs so much more that the required ones are taken first."""
    rng, far = np.random.default_rng(5), 10**6
    anchors, members = rng.integers(0, 100, (sizes[0], 3)), rng.integers(0, 100, (sizes[1], 3))
    lower = np.full(sizes[0], sizes[1] // sizes[0])
    upper = lower + (sizes[1] % sizes[0] > 0)
    dissimilarity = resolve_dissimilarity("manhattan")
    plan = module.transport(anchors.astype(float), members.astype(float), lower, upper, dissimilarity)
    costs = np.abs(members[:, None] - anchors).sum(-1)
    places = np.hstack([costs.repeat(lower, 1), far + costs.repeat(upper - lower, 1)])
    assert plan.cost == places[linear_sum_assignment(places)].sum() - far * (sizes[1] - lower.sum())


def _awkward():
    rng = np.random.default_rng(0)
    clumps = np.repeat(5 * rng.normal(size=(4, 3)), 100, 0)
    return {
        "spread": (rng.normal(size=(150, 3)), rng.normal(size=(320, 3))),
        "clumped": (clumps[:150] + 0.01 * rng.normal(size=(150, 3)), clumps[50:] + 0.01 * rng.normal(size=(350, 3))),
        "duplicates": (rng.integers(0, 3, (150, 3)).astype(float), rng.integers(0, 3, (350, 3)).astype(float)),
        "all equal": (np.ones((120, 2)), np.ones((300, 2))),
    }


@pytest.mark.parametrize("name", _awkward())
def test_sparse_candidates_reach_the_optimum_of_the_whole_problem(name, monkeypatch):
    anchors, members = _awkward()[name]
    lower = np.full(len(anchors), len(members) // len(anchors))
    upper = lower + 1
    kmeans = resolve_dissimilarity("kmeans")
    whole = module.transport(anchors, members, lower, upper, kmeans)
    monkeypatch.setattr(module, "WHOLE_PROBLEM", 500)
    monkeypatch.setattr(module, "ROW_ARCS", 1)
    monkeypatch.setattr(module, "PRICED", 16)
    rounds = []
    real = module._price
    monkeypatch.setattr(module, "_price", lambda *a: rounds.append(1) or real(*a))
    sparse = module.transport(anchors, members, lower, upper, kmeans)
    np.testing.assert_allclose(sparse.cost, whole.cost, rtol=1e-8, atol=1e-12)
    assert whole.cost - sparse.lower_bound <= 1e-8 * whole.cost + 1e-12
    assert len(rounds) > 1


def test_no_potentials_prove_more_than_the_optimum():
    """Weak duality: whatever the potentials, the repaired dual objective stays below the cost of the best plan."""
    anchors, members = _awkward()["spread"]
    lower, upper = np.full(150, 2), np.full(150, 3)
    kmeans = resolve_dissimilarity("kmeans")
    network = module._Network(anchors, members, lower, upper, kmeans)
    optimum = module.transport(anchors, members, lower, upper, kmeans).cost
    rng = np.random.default_rng(1)
    for _ in range(20):
        v = np.append(rng.normal(size=len(members)), rng.normal())
        cheapest = (kmeans.pairwise(anchors, members) - v[:-1]).min(1)
        assert network.dual_bound(cheapest, v) <= optimum
        assert network.dual_bound(cheapest + 10, v) > network.dual_bound(cheapest, v)  # the check can fail


@pytest.mark.parametrize(
    ("cost", "bound", "less"), [(8.0, 2.0, "75%"), (1e4, 9_876.5, "1.3%"), (1e6, 1e6 - 1, "0.1%"), (1.0, 0.999, "0.1%")]
)
def test_what_is_told_of_a_gap_is_a_bound(cost, bound, less):
    """Relative to the cost at hand, and never rounded down: not 0.0% of what is not proved."""
    rows = np.arange(4) // 2, np.ones((2, 2), np.int64)
    found = Decomposition(*rows, cost, bound, anchored=True)
    assert repr(found).endswith(f"; the best ones cost at most {less} less)")
    assert describe_gap(found.gap, 1e-9).endswith(f" cost at most {less} less, with a risk of 1e-09 of being wrong")
    assert (1 - float(less[:-1]) / 100) * cost <= bound * (1 + 1e-12)
    assert "not known" in repr(found._replace(lower_bound=0.0))


def test_decompositions_say_what_they_are():
    X, code = table((6, 6))
    assert repr(decompose(X, code)).startswith("Decomposition(6 fairlets, anchored form, cost ")
    assert repr(decompose(X, code)).endswith("optimal; POT's network simplex, 1 round)")
    hub = decompose(X, code, 3, random_state=0)
    assert f"; {describe_gap(hub.gap)}; {BY_BLOCKS})" in repr(hub)
    assert hub.method == "blocks solved exactly, and made again"
    assert hub.gap == np.inf
    assert decompose(np.ones((4, 1)), ["a", "b", "a", "b"]).gap == 0


@pytest.mark.parametrize(
    ("X", "groups", "composition", "text"),
    [
        (np.ones((4, 1)), ["a"] * 4, "auto", "`sensitive` must have at least two groups"),
        ([[0.0], [np.nan]], ["a", "b"], "auto", "`X` must be finite"),
        (np.ones((4, 1)), ["a", "b", "b", "b"], 2, "`composition` must be an integer, between 1 and 1"),
        (np.ones((4, 1)), ["a", "b", "a", "b"], "equal", "`composition` must be 'auto'"),
    ],
)
def test_bad_input_is_told(X, groups, composition, text):
    with pytest.raises(ValueError, match=text):
        decompose(X, groups, composition)


@pytest.mark.parametrize(("lower", "upper"), [(5, 5), (4, 7), (0, 9)])
def test_a_flow_is_the_cheapest_plan_of_rows_that_repeat(lower, upper):
    rng, dissimilarity = np.random.default_rng(0), resolve_dissimilarity("kmeans")
    anchors, members = rng.normal(size=(12, 3)), 1 + rng.normal(size=(20, 3))
    limits, mass = (np.full(12, lower), np.full(12, upper)), np.arange(20) % 7
    mass[0] += 60 - mass.sum()
    flows = module.flow(anchors, members, mass, *limits, dissimilarity)
    np.testing.assert_array_equal(flows.sum(0), mass)
    assert ((limits[0] <= flows.sum(1)) & (flows.sum(1) <= limits[1])).all()
    best = module.transport(anchors, members.repeat(mass, 0), *limits, dissimilarity)
    assert (flows * dissimilarity.pairwise(anchors, members)).sum() == pytest.approx(best.cost)
