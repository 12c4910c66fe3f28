"""Optimal assignment of members to anchors with capacities: a transport problem, solved exactly and with a proof.

Small problems go to POT's network simplex whole. Large ones start from a sparse graph of candidate arcs, chosen by
reduced costs from the potentials of a smaller sample (nearest neighbours are the wrong arcs if the two groups lie
apart). They are solved and priced: the reduced costs of *all* pairs are computed in blocks, arcs that could improve the
plan join the graph, and the solver continues from its old potentials until the dual bound meets the cost.

Floor and ceiling sizes are part of the problem: an anchor is a source of `lower` units that need a member, and of
`upper - lower` units that may go to a dummy at no cost.
"""

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bayesfair._arrays import cell_masses, row_blocks
from bayesfair.fairlets.dissimilarity import SquaredEuclidean

WHOLE_PROBLEM = 200_000  # pairs up to which every arc is a candidate
SAMPLE = 4_000  # anchors, at most a third, whose optimum gives the first prices
ROW_ARCS = 12  # candidates per anchor or member and pricing round
MANY = 5  # largest number of pairs per anchor, relative to ROW_ARCS
PRICED = 256  # anchors or members that are priced at a time
COSTED = 2**14  # pairs whose cost is computed at a time
SLACK = 0.01  # relative to the mean cost: pairs with a larger reduced cost are no candidates
TOLERANCE = 1e-9  # relative gap at which a plan counts as proved
MAX_ROUNDS = 60
COARSE_GAP = 1e-3  # good enough for a sample whose potentials only choose arcs
MOST_STEPS = 10**9  # limit for the simplex
STOPPED = "The network simplex of POT stopped before it found the optimal plan: {}."


class Pairs(NamedTuple):
    """Pairs (anchor, member) with their reduced cost c_ij - u_i - v_j."""

    anchor: np.ndarray
    member: np.ndarray
    reduced: np.ndarray


class Plan(NamedTuple):
    """The `anchor` of every member, the cost, a lower bound on any plan's cost (weak duality), the number of calls of POT."""

    anchor: np.ndarray
    cost: float
    lower_bound: float
    rounds: int


class Potentials(NamedTuple):
    """Dual variables: of an anchor's unit (the larger of its two kinds), of a member; the dummy's is 0."""

    anchor: np.ndarray
    member: np.ndarray


def transport(anchors, members, lower, upper, dissimilarity) -> Plan:
    """The cheapest assignment of members (n, d) to anchors (m, d), anchor i taking lower[i] to upper[i] of them.

    The bound is the dual objective of the solver's potentials after they were made feasible for every pair.
    """
    network = _Network(anchors, members, lower, upper, dissimilarity)
    return _solve(network, np.random.default_rng(0), TOLERANCE)[0]


def flow(anchors, members, mass, lower, upper, dissimilarity):
    """How many of the mass[j] rows of member j go to each anchor in the cheapest plan, int (m, n); limits are of rows."""
    network = _Network(anchors, members, lower, upper, dissimilarity, mass)
    every = network.arcs(*(side.ravel() for side in np.indices(network.shape)))
    source, target, units, *_ = _flow(network, *_merge(network, network.dummy_arcs(), every), (None, None))
    shape = len(anchors), len(network.demand)
    found = cell_masses(network.source_anchor[source], target, shape, np.rint(units))
    return found[:, : len(members)].astype(np.int64)


class _Network:
    """Members (n, d) to be given to anchors (m, d), of one float type; anchor i takes lower[i] to upper[i] of them.

    Sources: units of the anchors, those that need a member and those that do not. Targets: members, each standing for
    one row or for `mass` rows, then the dummy.
    """

    def __init__(self, anchors, members, lower, upper, dissimilarity, mass=1):
        self.anchors, self.members, self.dissimilarity = anchors, members, dissimilarity
        self.lower, self.upper = np.asarray(lower, np.int64), np.asarray(upper, np.int64)
        self.shape = m, n = len(anchors), len(members)
        extra = self.upper - self.lower
        self.source_anchor = np.concatenate([np.flatnonzero(self.lower), np.flatnonzero(extra)])
        self.optional = np.arange(len(self.source_anchor)) >= np.count_nonzero(self.lower)
        self.supply = np.concatenate([self.lower[self.lower > 0], extra[extra > 0]]).astype(float)
        demand = np.broadcast_to(np.asarray(mass, float), n)
        self.slack = int(self.upper.sum() - demand.sum())
        self.demand = np.append(demand, [float(self.slack)] if self.slack else [])
        self.required_source, self.optional_source = np.full(m, -1), np.full(m, -1)
        self.required_source[self.source_anchor[~self.optional]] = np.flatnonzero(~self.optional)
        self.optional_source[self.source_anchor[self.optional]] = np.flatnonzero(self.optional)

    def arcs(self, anchor, member):
        """(source, target) of candidate pairs, for both kinds of units."""
        sources = np.concatenate([self.required_source[anchor], self.optional_source[anchor]])
        targets = np.concatenate([member, member])
        return sources[sources >= 0], targets[sources >= 0]

    def cheap_arcs(self, pairs, source_potential, target_potential, threshold):
        """`arcs` with a reduced cost below a threshold: most optional units prefer the dummy."""
        sources, targets = self.arcs(pairs.anchor, pairs.member)
        cheap = self.costs(sources, targets) - source_potential[sources] - target_potential[targets] < threshold
        return sources[cheap], targets[cheap]

    def dummy_arcs(self):
        sources = np.flatnonzero(self.optional) if self.slack else np.zeros(0, int)
        return sources, np.full(len(sources), self.shape[1])

    def feasible_pairs(self):
        """Pairs of one plan that always exists: both sides in the order of their first principal axis."""
        anchors, members = self.anchors, self.members
        axis = np.linalg.svd(members[:1000] - members.mean(0), full_matrices=False)[2][0]
        by_anchor, by_member = np.argsort(anchors @ axis), np.argsort(members @ axis)
        held = self.lower[by_anchor].copy()
        free = np.cumsum(self.upper[by_anchor] - held)
        taken = np.minimum(free, self.shape[1] - held.sum())
        held += np.diff(taken, prepend=0)
        return np.repeat(by_anchor, held), by_member

    def pair_costs(self, anchor, member):
        """D of pairs, in the type of the rows."""
        costs = np.empty(len(anchor), self.anchors.dtype)
        for part in row_blocks(len(anchor), COSTED):
            costs[part] = self.dissimilarity.between(self.anchors[anchor[part]], self.members[member[part]])
        return costs

    def costs(self, sources, targets):
        costs = np.zeros(len(sources))
        real = np.flatnonzero(targets < self.shape[1])
        costs[real] = self.pair_costs(self.source_anchor[sources[real]], targets[real])
        return costs

    def best_anchor_potential(self, source_potential):
        """The larger potential of an anchor's units, which bounds any feasible dual."""
        best = np.full(self.shape[0], -np.inf)
        np.maximum.at(best, self.source_anchor, source_potential)
        return best

    def dual_bound(self, cheapest, target_potential):
        """The dual objective after every source takes the largest potential that all of its pairs allow."""
        source = cheapest[self.source_anchor]
        if self.slack:
            source = np.where(self.optional, np.minimum(source, -target_potential[-1]), source)
        shift = np.median(target_potential)  # large sums that cancel are removed first
        return float(self.supply @ (source + shift) + self.demand @ (target_potential - shift))


def _solve(network, rng, tolerance):
    m, n = network.shape
    if m * n <= WHOLE_PROBLEM:
        arcs = network.arcs(*(side.ravel() for side in np.indices((m, n))))
    else:
        arcs = _first_candidates(network, rng)
    potentials = None
    arcs = _merge(network, network.dummy_arcs(), network.arcs(*network.feasible_pairs()), arcs)
    for asked in range(1, MAX_ROUNDS + 1):
        plan, cost, source_potential, target_potential = _network_simplex(network, *arcs, potentials)
        anchor_potential = network.best_anchor_potential(source_potential)
        pairs, cheapest = _price(network, anchor_potential, target_potential[:n], SLACK * cost / n)
        bound = min(network.dual_bound(cheapest, target_potential), cost)
        known, rounds = len(arcs[0]), asked
        if cost - bound <= tolerance * cost:
            break
        potentials = source_potential, target_potential
        arcs = _merge(network, arcs, network.cheap_arcs(pairs, *potentials, SLACK * cost / n))
        if len(arcs[0]) == known:
            break
    dummy = target_potential[-1] if network.slack else 0.0
    return Plan(plan, cost, max(bound, 0.0), rounds), Potentials(anchor_potential + dummy, target_potential[:n] - dummy)


def _first_candidates(network, rng):
    """Arcs of a graph that is cheap at the prices of a sample, to most anchors and members."""
    rows = (side.astype(np.float32) for side in (network.anchors, network.members))
    single = _Network(*rows, network.lower, network.upper, network.dissimilarity)
    u, v = _sample_potentials(single, rng)
    pairs, _ = _price(single, u, v, np.inf, max(ROW_ARCS, 3 * int(single.upper.max())))
    source = np.where(network.optional, np.minimum(u, 0)[network.source_anchor], np.inf)
    return network.cheap_arcs(pairs, source, v, pairs.reduced.mean())


def _sample_potentials(network, rng):
    """`Potentials` that the optimum of a small sample gives to all anchors and members; the dummy's is 0."""
    m, n = network.shape
    own = np.sort(rng.choice(m, min(SAMPLE, max(m // 3, 1)), replace=False))
    lower, upper = network.lower[own], network.upper[own]
    count = min(max(len(own) * n // m, lower.sum()), upper.sum())
    others = np.sort(rng.choice(n, count, replace=False))
    anchors, members = network.anchors[own], network.members[others]
    sample = _Network(anchors.astype(np.float64), members.astype(np.float64), lower, upper, network.dissimilarity)
    known = _solve(sample, rng, COARSE_GAP)[1]
    u = _least(network.dissimilarity, network.anchors, members, known.member)
    return Potentials(u, _least(network.dissimilarity, network.members, anchors, known.anchor))


def _least(dissimilarity, x, y, potential):
    """min_j D(x_i, y_j) - potential_j of every row of x."""
    price = -potential.astype(x.dtype)
    least = on_all_cores(lambda rows: priced(dissimilarity, x[rows], y, price).min(1), row_blocks(len(x), PRICED))
    return np.concatenate(least)


def _price(network, anchor_potential, member_potential, threshold, most=ROW_ARCS):
    """(`Pairs` of reduced cost below a threshold, lower bounds (m,) of min_j (cost - v_j)).

    The `most` cheapest of every anchor and the ROW_ARCS of every member are kept. All pairs are computed through BLAS;
    those that may be cheap after rounding are computed again.
    """
    (m, n), rounding = network.shape, rounding_of(network.anchors)

    def ask(rows):
        values = priced(network.dissimilarity, network.anchors[rows], network.members, -member_potential, rounding)
        values -= anchor_potential[rows, None]
        cheap = values < threshold
        floor = np.full(len(values), threshold)
        if np.count_nonzero(cheap) > MANY * most * len(values):
            floor = values.min(1)
            cheap &= values <= np.partition(values[:, ::most], 1, 1)[:, 1:2]  # about twice as many in every row
        row, member = np.divmod(np.flatnonzero(cheap), n)
        anchor = row + rows.start
        reduced = network.pair_costs(anchor, member) - member_potential[member] - anchor_potential[anchor]
        np.minimum.at(floor, row, reduced)
        good = reduced < threshold
        return anchor[good], member[good], reduced[good].astype(np.float32), floor

    *pairs, floors = map(np.concatenate, zip(*on_all_cores(ask, row_blocks(m, PRICED))))
    anchor, member, reduced = pairs
    keep = _leading(anchor, reduced, most) | _leading(member, reduced, ROW_ARCS)
    return Pairs(*(part[keep] for part in pairs)), anchor_potential + floors


def _leading(side, reduced, count):
    """Is a pair among the `count` cheapest of its `side`?"""
    order = np.lexsort((reduced, side))
    own, leads = side[order], np.zeros(len(side), bool)
    rank = np.arange(len(own)) - np.searchsorted(own, own)
    leads[order[rank < count]] = True
    return leads


def priced(dissimilarity, x, y, price, rounding=0.0):
    """D(x_i, y_j) + price_j (rows of x, rows of y) in the type of x, through BLAS where D is squared distance.

    `rounding`: the share of its terms by which each entry is lowered, so that rounding makes none too large.
    """
    if not isinstance(dissimilarity, SquaredEuclidean):
        values = dissimilarity.pairwise(x, y)
        return (values * (1 - rounding) + (price - rounding * np.abs(price))).astype(x.dtype)
    ones, kept = np.ones(len(x), x.dtype), x.dtype.type(1 - rounding)
    offset = kept * np.einsum("ij,ij->i", y, y) + (price - rounding * np.abs(price))
    left = np.column_stack([x * x.dtype.type(-2), kept * np.einsum("ij,ij->i", x, x), ones])
    return left @ np.column_stack([y, np.ones(len(y), x.dtype), offset]).astype(x.dtype).T


def rounding_of(rows):
    """The share of |x|^2 + |y|^2 + |p| by which rounding, including that of the rows, may raise an entry of `priced`."""
    return (2 * rows.shape[1] + 12) * float(np.finfo(rows.dtype).eps)


def on_all_cores(function, tasks):
    """`function(task)` for all tasks, in order."""
    with threadpool_limits(1), ThreadPoolExecutor(cpu_count()) as pool:  # no sum depends on the number of threads
        return list(pool.map(function, tasks))


def _merge(network, *arcs):
    """Each (source, target) once, in order."""
    width = len(network.demand)
    codes = np.concatenate([sources.astype(np.int64) * width + targets for sources, targets in arcs])
    codes.sort()  # faster than NumPy's `unique`, which hashes
    return np.divmod(codes[np.append(True, codes[1:] != codes[:-1])], width)


def _network_simplex(network, sources, targets, potentials):
    """(anchor of each member, cost, source potentials, target potentials) of the optimum on these arcs."""
    start = (None, None) if potentials is None else potentials
    source, target, units, cost, u, v = _flow(network, sources, targets, start)
    real = (units > 0.5) & (target < network.shape[1])
    plan = np.empty(network.shape[1], np.int64)
    plan[target[real]] = network.source_anchor[source[real]]
    return plan, float(cost), u, v


def _flow(network, sources, targets, potentials):
    """(source, target, units, cost, source potentials, target potentials) of the cheapest flow on these arcs.

    POT checks once which array libraries exist: a library hidden during its import stays hidden in the user's code too.
    """
    try:
        # In 0.9.7 `ot.emd` drops `potentials_init` on sparse problems: only this function has the warm start.
        from ot.lp.emd_wrap import emd_c_sparse
    except ImportError:  # another version of POT: use its public function, on all pairs
        return _flow_on_all_pairs(network)
    arcs, costs = (side.astype(np.uint64) for side in (sources, targets)), network.costs(sources, targets)
    found = emd_c_sparse(network.supply, network.demand, *arcs, costs, MOST_STEPS, *potentials)
    source, target, units, cost, u, v, code = found
    if code != 1:
        raise RuntimeError(STOPPED.format(code))
    return source.astype(np.int64), target.astype(np.int64), units, cost, u, v


def _flow_on_all_pairs(network):
    """`_flow` by `ot.emd`."""
    import ot

    pairs = np.indices((len(network.supply), len(network.demand)))
    costs = network.costs(*(side.ravel() for side in pairs)).reshape(pairs.shape[1:])
    if network.slack:  # the dummy serves units that need no member
        costs[~network.optional, -1] = costs.max() * costs.size
    plan, log = ot.emd(network.supply, network.demand, costs, MOST_STEPS, log=True)
    if log["warning"]:
        raise RuntimeError(STOPPED.format(log["warning"]))
    source, target = np.nonzero(plan)
    return source, target, plan[source, target], log["cost"], log["u"], log["v"]
