"""Cheap assignment of members to anchors of a large table: blocks solved exactly, and made again.

A first plan halves both sides along random directions. Then anchors, each with its members, are cut into blocks at the
medians of random directions, by the centres of the current fairlets, and every block is solved exactly. A fairlet stays
whole within its block, so that no pass can raise the cost; passes end where one gains next to nothing. How far the result
is from the optimum is not proved.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair.fairlets.near_pairs import Problem, cut, on_all_cores, priced
from bayesfair.fairlets.rows import project
from bayesfair.fairlets.transport import Plan, transport

__all__ = ["transport_by_blocks"]

BLOCK = 1000  # members of a block, and at most so many anchors
FEWEST = 16  # anchors of a block, however many members they hold: of two or three, passes soon gain nothing
ENOUGH = 1e-3  # of the cost: a pass that gains less is the last
MAX_PASSES = 50
SOFTNESS, ROUNDS = 0.03, 10  # of the mean cost, to guess prices
FLOOR = np.float32(1e-30)  # of shares, so that none vanishes
SMALL_PART = 64  # anchors of a part whose rows are paired in their order


def transport_by_blocks(problem: Problem, rng) -> Plan:
    """A cheap plan; its bound is 0, which proves nothing unless the cost is 0 too."""
    plan = plan_by_halves(problem, rng)
    cost = _cost(problem, plan)
    for _ in range(MAX_PASSES):
        before = cost
        plan = _solved_again(problem, plan, _fairlets_of_blocks(problem, plan, rng))
        cost = _cost(problem, plan)
        if cost >= before * (1 - ENOUGH):
            break
    return Plan(plan, cost, 0.0)


def _cost(problem, plan):
    """Of a plan, the anchor of every member (n,)."""
    return float(problem.costs(plan, np.arange(len(plan), dtype=np.int32)).sum(dtype=np.float64))


def _fairlets_of_blocks(problem, plan, rng):
    """The anchors of every block, cut by where the centres of the fairlets lie along differences of random rows."""
    (m, n), anchors, members = problem.shape, problem.anchors, problem.members
    most = max(min(BLOCK * m // max(n, 1), BLOCK), FEWEST)
    depth = int(np.ceil(np.log2(max(m / most, 1))))
    if depth == 0:
        return [np.arange(m, dtype=np.int32)]
    directions = anchors[rng.integers(m, size=depth)] - members[rng.integers(n, size=depth)]
    of_anchors, of_members = np.empty((depth, m), anchors.dtype), np.empty((depth, n), anchors.dtype)
    project(of_anchors, anchors, directions)
    project(of_members, members, directions)
    held = 1 + np.bincount(plan, minlength=m)
    for own, others in zip(of_anchors, of_members):
        own += np.bincount(plan, others, minlength=m)
        own /= held
    return cut(np.arange(m, dtype=np.int32), of_anchors)


def _solved_again(problem, plan, blocks):
    """A plan in which the members of every block's anchors are dealt out among these anew, at the least cost."""
    order = np.argsort(plan, kind="stable").astype(np.int32)
    held, better = np.bincount(plan, minlength=problem.shape[0]).astype(np.int32), plan.copy()
    start = np.cumsum(held, dtype=np.int32) - held

    def solve(own):
        count = held[own]
        before = np.cumsum(count) - count
        others = order[np.repeat(start[own] - before, count) + np.arange(count.sum())]
        if len(own) == 1 or len(others) == 0:
            return
        x, y = problem.anchors[own], problem.members[others]
        found = own[_exactly(x, y, problem.lower[own], problem.upper[own], problem.dissimilarity)]
        paid = [problem.costs(which, others).sum(dtype=np.float64) for which in (found, plan[others])]
        if paid[0] < paid[1]:  # rounding aside, it never costs more
            better[others] = found

    on_all_cores(solve, blocks)  # which have no rows in common
    return better


def _exactly(anchors, members, lower, upper, dissimilarity):
    """The anchor of every member in the cheapest plan."""
    if upper.sum() > 2 * max(BLOCK, len(anchors)):
        rows = anchors.astype(float), members.astype(float)
        return transport(*rows, lower, upper, dissimilarity, random_state=0).anchor
    own, required = np.arange(len(anchors)), int(lower.sum())
    place = np.concatenate([np.repeat(own, lower), np.repeat(own, upper - lower)])
    costs = priced(dissimilarity, members, anchors, np.zeros(len(anchors), anchors.dtype))[:, place]
    if len(place) == len(members):
        costs -= _prices(costs)
    else:  # a place that must be taken is worth more than what any two places differ by
        costs[:, :required] -= 2 * np.ptp(costs) + 1
    return place[linear_sum_assignment(costs)[1]]


def _prices(costs):
    """About what each place (k,) is worth, all of which are taken, by some rounds of Sinkhorn's algorithm. What all members
    pay more for a place changes no cheapest plan, and the exact solver, which starts from no prices, ends several times
    sooner."""
    reduced = (costs - costs.min(1, keepdims=True)).astype(np.float32)
    least = reduced.min(0)
    reduced -= least
    softness = np.float32(SOFTNESS) * reduced.mean()
    if not 0 < softness < np.inf:
        return least
    likely, worth = np.exp(reduced / -softness) + FLOOR, np.ones(len(costs), np.float32)
    for _ in range(ROUNDS):
        worth = 1 / (1 / (likely @ worth) @ likely)
        worth = np.maximum(worth / worth.max(), FLOOR)
    return least + softness * np.log(worth)


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
