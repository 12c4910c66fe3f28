"""Optimal assignment of members to anchors with capacities: a transport problem, solved exactly and with a proof.

Small problems go to POT's network simplex whole. Large ones start from a sparse graph of candidate arcs, chosen by the
reduced costs that the potentials of a smaller sample predict (nearest neighbours are the wrong arcs where the two groups
lie apart), are solved, and priced: the reduced costs of *all* pairs are computed in blocks, arcs that could improve the
plan join the graph, and the solver goes on from its old potentials until the dual bound meets the cost.

Floor and ceiling sizes are part of the problem: an anchor is a source of `lower` units that need a member, and of
`upper - lower` units that may go to a dummy for nothing.
"""

import os
from typing import NamedTuple

import numpy as np

__all__ = ["Plan", "transport"]

WHOLE_PROBLEM = 2_000_000  # pairs: up to here every arc is a candidate
ROW_ARCS = 12  # candidates per anchor and pricing round
BLOCK = 256  # anchors priced at a time: BLOCK x members doubles
TOLERANCE = 1e-9  # of the cost: the gap at which a plan counts as proved
MAX_ROUNDS = 60
COARSE_GAP = 1e-3  # good enough for a sample whose potentials only choose arcs


class Plan(NamedTuple):
    """`anchor` of every member, the cost of the plan, and a lower bound on the cost of any plan (weak duality)."""

    anchor: np.ndarray
    cost: float
    lower_bound: float


class Potentials(NamedTuple):
    """Dual variables: of an anchor's unit (the larger of its two kinds), of a member, of the dummy."""

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
        self.anchors, self.members, self.dissimilarity = anchors, members, dissimilarity
        self.lower, self.upper = np.asarray(lower, np.int64), np.asarray(upper, np.int64)
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

    def dummy_arcs(self):
        sources = np.flatnonzero(self.optional) if self.slack else np.zeros(0, int)
        return sources, np.full(len(sources), len(self.members))

    def feasible_pairs(self):
        """Pairs of one plan that always exists: both sides in the order of their first principal axis."""
        axis = np.linalg.svd(self.members[:1000] - self.members.mean(0), full_matrices=False)[2][0]
        by_anchor, by_member = np.argsort(self.anchors @ axis), np.argsort(self.members @ axis)
        held = self.lower[by_anchor].copy()
        free = np.cumsum(self.upper[by_anchor] - held)
        taken = np.minimum(free, len(self.members) - held.sum())
        held += np.diff(taken, prepend=0)
        return np.repeat(by_anchor, held), by_member

    def costs(self, sources, targets):
        costs = np.zeros(len(sources))
        real = np.flatnonzero(targets < len(self.members))
        for part in np.array_split(real, len(real) // 2**18 + 1):
            pair = self.anchors[self.source_anchor[sources[part]]], self.members[targets[part]]
            costs[part] = self.dissimilarity.between(*pair)
        return costs

    def best_anchor_potential(self, source_potential):
        """The larger potential of an anchor's units: the one that any feasible dual must respect."""
        best = np.full(len(self.anchors), -np.inf)
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
    m, n = len(network.anchors), len(network.members)
    if m * n <= WHOLE_PROBLEM:
        pairs = [side.ravel() for side in np.indices((m, n))]
        potentials = None
    else:
        pairs, potentials = _first_candidates(network, rng)
    arcs = _merge(network, network.dummy_arcs(), network.arcs(*network.feasible_pairs()), network.arcs(*pairs))
    for _ in range(MAX_ROUNDS):
        plan, cost, source_potential, target_potential = _network_simplex(network, *arcs, potentials)
        anchor_potential = network.best_anchor_potential(source_potential)
        pairs, cheapest = _price(network, anchor_potential, target_potential[:n], cost * tolerance / n)
        bound = min(network.dual_bound(cheapest, target_potential), cost)
        if cost - bound <= tolerance * cost or len(pairs[0]) == 0:
            break
        arcs = _merge(network, arcs, network.arcs(*pairs))
        potentials = source_potential, target_potential
    return Plan(plan, cost, max(bound, 0.0)), Potentials(anchor_potential, target_potential[:n])


def _first_candidates(network, rng):
    """Candidate pairs of a large problem from the potentials of a third of it."""
    m, n = len(network.anchors), len(network.members)
    some_anchors, some_members = rng.choice(m, m // 3, replace=False), rng.choice(n, n // 3, replace=False)
    lower = np.full(len(some_anchors), len(some_members) // len(some_anchors))
    upper = lower + (len(some_members) % len(some_anchors) > 0)
    sample = _Network(network.anchors[some_anchors], network.members[some_members], lower, upper, network.dissimilarity)
    known = _solve(sample, rng, COARSE_GAP)[1]
    far = network.dissimilarity.pairwise
    member = np.concatenate([(far(rows, sample.anchors) - known.anchor).min(1) for rows in _blocks(network.members)])
    anchor = np.concatenate([(far(rows, sample.members) - known.member).min(1) for rows in _blocks(network.anchors)])
    return _price(network, anchor, member, np.inf)[0], None


def _blocks(rows):
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def _price(network, anchor_potential, member_potential, threshold):
    """Pairs of reduced cost below -threshold (all of the cheapest for an infinite one), and min_j (cost - v_j) by anchor.

    Kept are the ROW_ARCS cheapest pairs of every anchor and the cheapest of every member.
    """
    n = len(network.members)
    few = min(ROW_ARCS, n - 1)
    found, cheapest, best, best_anchor = [], [], np.full(n, np.inf), np.zeros(n, np.int64)
    for block, rows in enumerate(_blocks(network.anchors)):
        start = block * BLOCK
        reduced = network.dissimilarity.pairwise(rows, network.members) - member_potential
        cheapest.append(reduced.min(1))
        reduced -= anchor_potential[start : start + len(rows), None]
        columns = np.argpartition(reduced, few, axis=1)[:, : few + 1]
        good = np.take_along_axis(reduced, columns, 1) < (-threshold if np.isfinite(threshold) else np.inf)
        row, place = np.nonzero(good)
        found.append((row + start, columns[row, place]))
        nearest = reduced.argmin(0)
        value = reduced[nearest, np.arange(n)]
        better = value < best
        best[better], best_anchor[better] = value[better], nearest[better] + start
    wanted = np.flatnonzero(best < (-threshold if np.isfinite(threshold) else np.inf))
    found.append((best_anchor[wanted], wanted))
    pairs = tuple(np.concatenate(side) for side in zip(*found))
    return pairs, np.concatenate(cheapest)


def _merge(network, *arcs):
    """Each (source, target) once, in order."""
    width = len(network.demand)
    codes = np.unique(np.concatenate([sources.astype(np.int64) * width + targets for sources, targets in arcs]))
    return codes // width, codes % width


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
    real = (flow > 0.5) & (flow_target < len(network.members))
    plan = np.empty(len(network.members), np.int64)
    plan[flow_target[real].astype(np.int64)] = network.source_anchor[flow_source[real].astype(np.int64)]
    return plan, float(cost), u, v


def _sparse_solver():
    """POT's sparse network simplex; its probes of other array libraries, which take seconds, are switched off."""
    for library in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{library}", "1")
    # `ot.emd` drops `potentials_init` on sparse problems in 0.9.7: the warm start is open only here.
    from ot.lp.emd_wrap import emd_c_sparse

    return emd_c_sparse
