"""Nearly optimal assignment of members to anchors of a large table, with a bound on what the optimum would save.

Potentials of a sample, solved exactly, say which pairs are cheap; anchors bid for members on the graph of those pairs
(`auction`), whose prices say it better: pairs are looked for again, and the auction goes on. The bound is the dual
objective of the best prices met, the lowest of which are first raised where many anchors off the graph would want them:
u_i = min_j (c_ij + p_j) over all members, for all anchors where these pairs are few enough, otherwise for anchors drawn at
random, whose mean is made a bound by an empirical Bernstein inequality.
"""

from math import log, sqrt
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._room import give_back_freed
from bayesfair.fairlets.auction import Arcs, auction
from bayesfair.fairlets.near_pairs import (
    SIDES,
    Problem,
    cheap_pairs,
    codes,
    distinct,
    least,
    nothing_near,
    room_for_pairs,
    rounding_of,
)
from bayesfair.fairlets.rows import parts_of, project
from bayesfair.fairlets.transport import Plan, sample_potentials

__all__ = ["FAILURE", "approximate_transport", "mean_at_most", "nearly_optimal"]

TREES = (4, 8)  # of every round
STEPS = (0.1, 0.03)  # of the mean cost of an anchor's cheapest: what the auction of a round may lose a member
SMALL_PART = 64  # anchors of a part whose rows are paired in their order
REPAIRS, REPAIR_PAIRS = 5, 500_000_000  # times that some pairs are asked for prices that are too low
BOUND_PAIRS = 10_000_000_000  # asked for the bound
RARE = 0.1  # of the anchors asked for a sampled bound: those that could lose most, taken and not drawn
LEAST_ASKED = 100  # anchors
CHEAPEST_MEMBERS = 1_000  # asked of all anchors for a sampled bound
FAILURE = 1e-9  # probability that a sampled bound is too high


class Rough(NamedTuple):
    """An assignment and dual variables that are nearly optimal: `anchor` and `price` of every member, `u` of every anchor
    on a graph of cheap pairs."""

    anchor: np.ndarray
    price: np.ndarray
    u: np.ndarray


def approximate_transport(problem: Problem, rng) -> Plan:
    """A nearly optimal plan; its bound is proved where the pairs are at most `BOUND_PAIRS`, and sampled beyond."""
    rough = _repaired(problem, nearly_optimal(problem, *sample_potentials(problem, rng), rng), rng)
    cost = _cost(problem, rough.anchor)
    m, n = problem.shape
    proved = m * n <= BOUND_PAIRS
    bound = all_pairs_bound(problem, rough.price) if proved else sampled_bound(problem, rough, rng)
    return Plan(rough.anchor, cost, min(max(bound, 0.0), cost), 0.0 if proved else FAILURE)


def nearly_optimal(problem: Problem, u, price, rng) -> Rough:
    """Pairs, then an auction, as many rounds as there are `TREES`.

    u (m,), price (n,): potentials to start with; those of the dummy are 0.
    """
    m, n = problem.shape
    plan = plan_by_halves(problem, rng)
    best, duals, arcs = (_cost(problem, plan), plan), [(u, price)], None
    for trees, step in zip(TREES, STEPS):
        arcs = _priced(problem, *_graph(*_others_near(problem, arcs, u, price, rng, trees), best[1]))
        scale = float(arcs.cheapest(np.zeros(n)).mean()) or 1.0
        owner, price = auction(arcs, problem.lower, problem.upper, price - scale, step * scale)
        price = price.astype(np.float32)
        u = arcs.cheapest(price)
        duals.append((u, price))
        if (np.bincount(owner[owner >= 0], minlength=m) >= problem.lower).all():
            plan = _placed(owner, problem.upper)
            best = min(best, (_cost(problem, plan), plan), key=itemgetter(0))
    del arcs
    give_back_freed()
    asked = np.sort(rng.choice(m, min(REPAIR_PAIRS // n + 1, m), replace=False))
    u, price = max(duals, key=lambda dual: _estimate(problem, dual[1], asked))
    return Rough(best[1], price, u)


def _cost(problem, plan):
    """Of a plan, the anchor of every member (n,)."""
    return float(problem.costs(plan, np.arange(len(plan), dtype=np.int32)).sum(dtype=np.float64))


def _others_near(problem, arcs, u, price, rng, trees):
    """(the members of cheap pairs of every anchor, the anchors of those of every member), those of `arcs` among them."""
    give_back_freed()
    near = nothing_near(problem) if arcs is None else _cheapest(problem, arcs, u, price)
    return tuple(side.other for side in cheap_pairs(problem, u, price, rng, near, trees))


def _graph(of_anchors, of_members, plan):
    """(where the arcs of each anchor start, their members): cheap pairs, and a plan that keeps the graph feasible."""
    m, n, end = len(of_anchors), len(plan), 0
    give_back_freed()
    start, member = np.zeros(m + 1, np.int64), np.empty(of_anchors.size + of_members.size + n, np.int32)
    for own in parts_of(m, SIDES):
        planned = np.flatnonzero((plan >= own.start) & (plan < own.stop))
        needed = (plan[planned] - own.start) * np.int64(n) + planned
        row, others = np.divmod(distinct(np.concatenate([needed, *codes(own, of_anchors, of_members)])), n)
        start[own.start + 1 : own.stop + 1] = end + np.cumsum(np.bincount(row, minlength=own.stop - own.start))
        member[end : end + len(row)] = others
        end += len(row)
    member.resize(end, refcheck=False)
    return start, member


def _priced(problem, start, member):
    """The arcs of a graph, with what they cost."""
    give_back_freed()
    cost = np.empty(len(member), problem.anchors.dtype)
    for own in parts_of(len(start) - 1, SIDES):
        places = slice(start[own.start], start[own.stop])
        anchor = np.repeat(np.arange(own.start, own.stop), np.diff(start[own.start : own.stop + 1]))
        cost[places] = problem.costs(anchor, member[places])
    return Arcs(start, member, cost)


def _cheapest(problem, arcs, u, price):
    """The cheapest pairs of a graph, by potentials of anchors and members; its arcs are no more, whose memory pairs need."""
    near = room_for_pairs(problem)
    for own in parts_of(len(price), SIDES):
        near.members.forget(own)
        near.members.learn(np.arange(own.start, own.stop), *_of_members(arcs, own, u, price))
    for own in reversed(parts_of(len(u), SIDES)):
        near.anchors.forget(own)
        near.anchors.learn(np.arange(own.start, own.stop), *_of_anchors(arcs, own, u, price))
        for part in (arcs.member, arcs.cost):
            part.resize(arcs.start[own.start], refcheck=False)  # nobody has a view of it
    give_back_freed()
    return near


def _of_members(arcs, own, u, price):
    """(member less the first, anchor, reduced cost) of the arcs to some members."""

    def places_in(block):
        return block.start + np.flatnonzero((arcs.member[block] >= own.start) & (arcs.member[block] < own.stop))

    places = np.concatenate(list(map(places_in, row_blocks(len(arcs.member)))))
    member, anchor = arcs.member[places], np.searchsorted(arcs.start, places, side="right") - 1
    return member - own.start, anchor, (arcs.cost[places] + price[member] - u[anchor]).astype(np.float32)


def _of_anchors(arcs, own, u, price):
    """(anchor less the first, member, reduced cost) of the arcs of some anchors."""
    places = slice(*arcs.start[[own.start, own.stop]])
    anchor = np.repeat(np.arange(own.start, own.stop), np.diff(arcs.start[own.start : own.stop + 1]))
    member = arcs.member[places]
    return anchor - own.start, member, (arcs.cost[places] + price[member] - u[anchor]).astype(np.float32)


def _estimate(problem, price, asked):
    """The dual objective of prices, as some anchors tell it."""
    share = len(problem.anchors) / len(asked)
    return share * _value(problem, _potentials(problem, price, asked), asked).sum() - price.sum(dtype=np.float64)


def _placed(owner, upper):
    """Members whom nobody bought, wherever there is room."""
    unsold = np.flatnonzero(owner < 0)
    room = upper - np.bincount(owner[owner >= 0], minlength=len(upper))
    placed = owner.copy()
    placed[unsold] = np.repeat(np.arange(len(upper)), room)[: len(unsold)]
    return placed


def plan_by_halves(problem, rng):
    """The anchor of every member, int32 (n,), in a plan that keeps all capacities: both sides are halved along random
    directions, members as the anchors' capacities allow; in small parts both are taken in the order of a direction."""
    anchors, members, lower, upper, _ = problem
    plan = np.empty(len(members), np.int32)
    parts = [(np.arange(len(anchors), dtype=np.int32), np.arange(len(members), dtype=np.int32))]
    while parts:
        own, others = parts.pop()
        direction = anchors[[rng.choice(own)]] - members[[rng.choice(others)]] if len(others) else anchors[[0]]
        own, others = _in_order(anchors, own, direction), _in_order(members, others, direction)
        if len(own) <= SMALL_PART:
            plan[others] = np.repeat(own, _dealt(len(others), lower[own], upper[own]))
            continue
        half = len(own) // 2
        count = int(_dealt(len(others), *(np.add.reduceat(limit[own], [0, half]) for limit in (lower, upper)))[0])
        parts += [(own[:half], others[:count]), (own[half:], others[count:])]
    return plan


def _in_order(rows, which, direction):
    """The numbers `which` of rows, in the order of these along a direction (1, d)."""
    place = np.empty((1, len(which)), rows.dtype)
    project(place, rows, direction, which)
    return which[np.argsort(place[0])]


def _dealt(count, lower, upper):
    """`count` members dealt out between limits, extra ones evenly over the order."""
    free = np.cumsum(upper - lower)
    taken = (count - lower.sum()) * free // max(free[-1], 1)
    return lower + np.diff(taken, prepend=0)


def _repaired(problem, rough, rng):
    """Higher prices of members so cheap that many anchors off the graph would want them; some anchors are asked for these."""
    (m, n), price = problem.shape, rough.price.copy()
    for _ in range(REPAIRS):
        asked = np.sort(rng.choice(m, min(REPAIR_PAIRS // n + 1, m), replace=False))
        value, place = least(problem.dissimilarity, problem.anchors[asked], problem.members, price)
        wanted, times = np.unique(place[value < rough.u[asked]], return_counts=True)
        wanted = wanted[times * m > len(asked)]
        if len(wanted) == 0:
            break
        offers = least(problem.dissimilarity, problem.members[wanted], problem.anchors, -rough.u.astype(np.float32))[0]
        price[wanted] = np.maximum(price[wanted], -offers)
    return rough._replace(price=price)


def all_pairs_bound(problem: Problem, price):
    """The dual objective of prices (n,), which no plan costs less than: over all pairs."""
    return _dual(problem, _potentials(problem, price), price)


def _potentials(problem, price, anchors=None, members=None):
    """min_j (c_ij + p_j) of some anchors over some members, all if None, or a little less: rounding makes none too large."""
    rows = problem.anchors if anchors is None else problem.anchors[anchors]
    others, price = (problem.members, price) if members is None else (problem.members[members], price[members])
    return least(problem.dissimilarity, rows, others, price, rounding_of(rows))[0].astype(np.float64)


def _dual(problem, u, price):
    return float(_value(problem, u).sum() - price.sum(dtype=np.float64))


def _value(problem, u, anchors=slice(None)):
    """What potentials of anchors add to the dual objective: optional places are filled where they pay."""
    lower, upper = problem.lower[anchors], problem.upper[anchors]
    return lower * u + (upper - lower) * np.minimum(u, 0)


def sampled_bound(problem: Problem, rough: Rough, rng):
    """What the dual objective of the prices exceeds but for a probability of `FAILURE`, from `BOUND_PAIRS` pairs.

    With a_i >= u_i from some pairs, the objective is that of a less the losses w(a_i) - w(u_i). They lie between 0 and what
    the lowest price of a member not yet asked allows. Anchors that could lose most are asked one by one; of the others,
    drawn with replacement, the mean loss is bounded by Theorem 4 of Maurer and Pontil (2009, "Empirical Bernstein bounds
    and sample variance penalization").
    """
    (m, n), price = problem.shape, rough.price
    order = np.argpartition(price, min(CHEAPEST_MEMBERS, n - 1))
    floor = float(price[order[CHEAPEST_MEMBERS:]].min(initial=np.inf))
    above = np.minimum(rough.u, _potentials(problem, price, members=order[:CHEAPEST_MEMBERS]))
    most = _value(problem, above) - _value(problem, np.minimum(above, floor))
    asked = min(max(BOUND_PAIRS // n, LEAST_ASKED), m)
    taken, rest = np.split(np.argsort(-most, kind="stable"), [int(RARE * asked)])
    drawn, times = np.unique(rng.choice(rest, asked - len(taken)), return_counts=True)

    def lost(own):
        u = np.minimum(above[own], _potentials(problem, price, own))
        return _value(problem, above[own], own) - _value(problem, u, own)

    mean = mean_at_most(np.repeat(lost(drawn), times), most[rest].max())
    return _dual(problem, above, price) - float(lost(taken).sum() + len(rest) * mean)


def mean_at_most(sample, most):
    """What the mean of a law on [0, most] exceeds with a probability of `FAILURE` at most, from independent draws."""
    count, doubt = len(sample), log(2 / FAILURE)
    return sample.mean() + sqrt(2 * sample.var(ddof=1) * doubt / count) + 7 * most * doubt / (3 * (count - 1))
