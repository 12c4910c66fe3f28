"""Optimal assignment of members to anchors with capacities: a transport problem, solved exactly and with a proof.

Small problems go to POT's network simplex whole. Large ones start from a sparse graph of candidate arcs, chosen by the
reduced costs that the potentials of a smaller sample predict (nearest neighbours are the wrong arcs where the two groups
lie apart), are solved, and priced: the reduced costs of *all* pairs are computed in blocks, arcs that could improve the
plan join the graph, and the solver goes on from its old potentials until the dual bound meets the cost.

Floor and ceiling sizes are part of the problem: an anchor is a source of `lower` units that need a member, and of
`upper - lower` units that may go to a dummy for nothing.
"""

from typing import NamedTuple

import numpy as np

from bayesfair.fairlets.near_pairs import (
    Pairs,
    Problem,
    cheap_pairs,
    codes,
    distinct,
    joined,
    leading,
    least,
    on_all_cores,
    priced,
    rounding_of,
)
from bayesfair.fairlets.rows import blocks

__all__ = ["Plan", "transport"]

WHOLE_PROBLEM = 2_000_000  # pairs: up to here every arc is a candidate
SAMPLE = 4_000  # anchors, at most a third, whose optimum tells prices to start with
ROW_ARCS = 12  # candidates per anchor or member and pricing round
MANY = 64  # pairs per anchor; where more are cheap, some are enough
SLACK = 0.01  # of the mean cost: dearer pairs are no candidates
TOLERANCE = 1e-9  # of the cost: the gap at which a plan counts as proved
MAX_ROUNDS = 60
COARSE_GAP = 1e-3  # good enough for a sample whose potentials only choose arcs


class Plan(NamedTuple):
    """`anchor` of every member, the cost of the plan, and a lower bound on the cost of any plan (weak duality), too high with
    a probability of at most `risk`."""

    anchor: np.ndarray
    cost: float
    lower_bound: float
    risk: float = 0.0


class Potentials(NamedTuple):
    """Dual variables: of an anchor's unit (the larger of its two kinds), of a member; the dummy's is 0."""

    anchor: np.ndarray
    member: np.ndarray


def transport(anchors, members, lower, upper, dissimilarity, random_state=None) -> Plan:
    """The cheapest assignment of members (n, d) to anchors (m, d), anchor i taking lower[i] to upper[i] of them.

    The bound is the dual objective of the solver's potentials after they were made feasible for every pair.
    """
    rng = np.random.default_rng(random_state)
    return _solve(_Network(anchors, members, lower, upper, dissimilarity), rng, TOLERANCE)[0]


class _Network:
    """Sources: units of the anchors, those that need a member and those that do not. Targets: members, then the dummy."""

    def __init__(self, anchors, members, lower, upper, dissimilarity):
        self.lower, self.upper = np.asarray(lower, np.int64), np.asarray(upper, np.int64)
        self.problem = Problem(anchors, members, self.lower, self.upper, dissimilarity)
        self.shape = self.problem.shape
        m, n = len(anchors), len(members)
        extra = self.upper - self.lower
        self.source_anchor = np.concatenate([np.flatnonzero(self.lower), np.flatnonzero(extra)])
        self.optional = np.arange(len(self.source_anchor)) >= np.count_nonzero(self.lower)
        self.supply = np.concatenate([self.lower[self.lower > 0], extra[extra > 0]]).astype(float)
        self.slack = int(self.upper.sum() - n)
        self.demand = np.append(np.ones(n), [float(self.slack)] if self.slack else [])
        self.required_source, self.optional_source = np.full(m, -1), np.full(m, -1)
        self.required_source[self.source_anchor[~self.optional]] = np.flatnonzero(~self.optional)
        self.optional_source[self.source_anchor[self.optional]] = np.flatnonzero(self.optional)

    def arcs(self, anchor, member):
        """(source, target) of candidate pairs, for both kinds of units."""
        sources = np.concatenate([self.required_source[anchor], self.optional_source[anchor]])
        targets = np.concatenate([member, member])
        return sources[sources >= 0], targets[sources >= 0]

    def cheap_arcs(self, pairs, source_potential, target_potential, threshold):
        """`arcs` of reduced cost below a threshold: most optional units would rather go to the dummy."""
        sources, targets = self.arcs(pairs.anchor, pairs.member)
        cheap = self.costs(sources, targets) - source_potential[sources] - target_potential[targets] < threshold
        return sources[cheap], targets[cheap]

    def dummy_arcs(self):
        sources = np.flatnonzero(self.optional) if self.slack else np.zeros(0, int)
        return sources, np.full(len(sources), self.shape[1])

    def feasible_pairs(self):
        """Pairs of one plan that always exists: both sides in the order of their first principal axis."""
        anchors, members = self.problem.anchors, self.problem.members
        axis = np.linalg.svd(members[:1000] - members.mean(0), full_matrices=False)[2][0]
        by_anchor, by_member = np.argsort(anchors @ axis), np.argsort(members @ axis)
        held = self.lower[by_anchor].copy()
        free = np.cumsum(self.upper[by_anchor] - held)
        taken = np.minimum(free, self.shape[1] - held.sum())
        held += np.diff(taken, prepend=0)
        return np.repeat(by_anchor, held), by_member

    def costs(self, sources, targets):
        costs = np.zeros(len(sources))
        real = np.flatnonzero(targets < self.shape[1])
        costs[real] = self.problem.costs(self.source_anchor[sources[real]], targets[real])
        return costs

    def best_anchor_potential(self, source_potential):
        """The larger potential of an anchor's units: the one that any feasible dual must respect."""
        best = np.full(self.shape[0], -np.inf)
        np.maximum.at(best, self.source_anchor, source_potential)
        return best

    def dual_bound(self, cheapest, target_potential):
        """The dual objective after every source took the largest potential that all of its pairs allow."""
        source = cheapest[self.source_anchor]
        if self.slack:
            source = np.where(self.optional, np.minimum(source, -target_potential[-1]), source)
        shift = np.median(target_potential)  # the sums of large numbers that cancel are taken out first
        return float(self.supply @ (source + shift) + self.demand @ (target_potential - shift))


def _solve(network, rng, tolerance):
    m, n = network.shape
    if m * n <= WHOLE_PROBLEM:
        arcs = network.arcs(*(side.ravel() for side in np.indices((m, n))))
    else:
        arcs = _first_candidates(network, rng)
    potentials = None
    arcs = _merge(network, network.dummy_arcs(), network.arcs(*network.feasible_pairs()), arcs)
    for _ in range(MAX_ROUNDS):
        plan, cost, source_potential, target_potential = _network_simplex(network, *arcs, potentials)
        anchor_potential = network.best_anchor_potential(source_potential)
        pairs, cheapest = _price(network, anchor_potential, target_potential[:n], SLACK * cost / n)
        bound = min(network.dual_bound(cheapest, target_potential), cost)
        known = len(arcs[0])
        if cost - bound <= tolerance * cost:
            break
        potentials = source_potential, target_potential
        arcs = _merge(network, arcs, network.cheap_arcs(pairs, *potentials, SLACK * cost / n))
        if len(arcs[0]) == known:
            break
    dummy = target_potential[-1] if network.slack else 0.0
    return Plan(plan, cost, max(bound, 0.0)), Potentials(anchor_potential + dummy, target_potential[:n] - dummy)


def _first_candidates(network, rng):
    """Arcs of a graph that is cheap at the prices of a sample, to most anchors and members."""
    problem = network.problem
    problem = problem._replace(anchors=problem.anchors.astype(np.float32), members=problem.members.astype(np.float32))
    u, price = _sample_potentials(problem, rng)
    near = cheap_pairs(problem, u, price, rng)
    others = (side.other for side in near)
    anchor, member = np.divmod(distinct(np.concatenate(codes(slice(0, len(u)), *others))), len(price))
    pairs = Pairs(anchor, member, problem.costs(anchor, member) + price[member] - u[anchor])
    source = np.where(network.optional, np.minimum(u, 0)[network.source_anchor], np.inf)
    return network.cheap_arcs(pairs, source, -price, pairs.reduced.mean())


def _sample_potentials(problem: Problem, rng):
    """(u (m,), prices (n,)) that the optimum of a small sample gives to all anchors and members; the dummy's is 0."""
    m, n = problem.shape
    own = np.sort(rng.choice(m, min(SAMPLE, max(m // 3, 1)), replace=False))
    lower, upper = problem.lower[own], problem.upper[own]
    count = min(max(len(own) * n // m, lower.sum()), upper.sum())
    others = np.sort(rng.choice(n, count, replace=False))
    anchors, members = problem.anchors[own], problem.members[others]
    sample = _Network(anchors.astype(np.float64), members.astype(np.float64), lower, upper, problem.dissimilarity)
    known = _solve(sample, rng, COARSE_GAP)[1]
    single = [-side.astype(problem.anchors.dtype) for side in (known.anchor, known.member)]
    u = least(problem.dissimilarity, problem.anchors, members, single[1])[0]
    return u, -least(problem.dissimilarity, problem.members, anchors, single[0])[0]


def _price(network, anchor_potential, member_potential, threshold):
    """(`Pairs` of reduced cost below a threshold, numbers (m,) that min_j (cost - v_j) does not fall below).

    Kept are the ROW_ARCS cheapest of every anchor and of every member. All pairs are asked through BLAS; those that may be
    cheap after rounding are computed again.
    """
    problem, rounding = network.problem, rounding_of(network.problem.anchors)

    def ask(rows):
        values = priced(problem.dissimilarity, problem.anchors[rows], problem.members, -member_potential, rounding)
        values -= anchor_potential[rows, None]
        cheap = values < threshold
        floor = np.full(len(rows), threshold)
        if np.count_nonzero(cheap) > MANY * len(rows):
            floor = values.min(1)
            cheap &= values <= np.partition(values[:, ::ROW_ARCS], 1, 1)[:, 1:2]  # about 2 ROW_ARCS in every row
        row, member = np.divmod(np.flatnonzero(cheap), values.shape[1])
        reduced = problem.costs(rows[row], member) - member_potential[member] - anchor_potential[rows[row]]
        np.minimum.at(floor, row, reduced)
        good = reduced < threshold
        return Pairs(rows[row[good]], member[good], reduced[good].astype(np.float32)), floor

    parts, floors = zip(*on_all_cores(ask, blocks(np.arange(len(problem.anchors)))))
    pairs = joined(parts)
    keep = leading(pairs, pairs.anchor, ROW_ARCS) | leading(pairs, pairs.member, ROW_ARCS)
    return pairs.those(keep), anchor_potential + np.concatenate(floors)


def _merge(network, *arcs):
    """Each (source, target) once, in order."""
    width = len(network.demand)
    return np.divmod(
        distinct(np.concatenate([sources.astype(np.int64) * width + targets for sources, targets in arcs])), width
    )


def _network_simplex(network, sources, targets, potentials):
    """(anchor of each member, cost, source potentials, target potentials) of the optimum on these arcs."""
    solver = _sparse_solver()
    start = (None, None) if potentials is None else potentials
    flow_source, flow_target, flow, cost, u, v, code = solver(
        network.supply,
        network.demand,
        sources.astype(np.uint64),
        targets.astype(np.uint64),
        network.costs(sources, targets),
        10**9,
        *start,
    )
    if code != 1:
        raise RuntimeError(f"The network simplex of POT stopped with code {code} before it found the optimal plan.")
    real = (flow > 0.5) & (flow_target < network.shape[1])
    plan = np.empty(network.shape[1], np.int64)
    plan[flow_target[real].astype(np.int64)] = network.source_anchor[flow_source[real].astype(np.int64)]
    return plan, float(cost), u, v


def _sparse_solver():
    """POT's sparse network simplex. POT reads once which array libraries there are: what is switched off for its import here
    is off in the user's code too."""
    # `ot.emd` drops `potentials_init` on sparse problems in 0.9.7: the warm start is open only here.
    from ot.lp.emd_wrap import emd_c_sparse

    return emd_c_sparse
