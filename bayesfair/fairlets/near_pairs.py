"""Cheap pairs of anchors and members of a large table, found in the leaves of a random tree, without asking all pairs.

The tree cuts the rows at the medians of random directions, drawn like differences of rows, and all pairs within a leaf are
priced at once. A pair that is close stays together through most cuts. Leaves are priced on several threads; what is
found does not depend on how many.
"""

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bayesfair.fairlets.dissimilarity import Dissimilarity, SquaredEuclidean
from bayesfair.fairlets.rows import Rows, blocks, parts_of, project

__all__ = [
    "Pairs",
    "Problem",
    "cheap_pairs",
    "cut",
    "distinct",
    "joined",
    "leading",
    "least",
    "on_all_cores",
    "priced",
    "rounding_of",
]

ALL_PAIRS = 2_000_000_000  # up to so many all pairs are asked for cheap ones; trees beyond
LEAF = 4096  # rows
PER_ANCHOR, PER_MEMBER = 12, 6  # cheap pairs to keep; of an anchor at least three times as many as it holds
ROUNDED = 1e-4  # of a first threshold, which the pair that it comes from may exceed by rounding
SIDES = 2**14  # anchors or members whose pairs are ranked at a time
COSTED = 2**14  # pairs whose cost is worked out at a time
WIDTH = 4096  # rows of one side that are priced with a block of the other
SLAB = 2048  # anchors that learn their pairs at a time where one leaf holds all
AT_ONCE = 2  # directions along which all rows are placed together; their parts then along all others


class Problem(NamedTuple):
    """Members (n, d) to be given to anchors (m, d), of one float type; anchor i takes lower[i] to upper[i] of them."""

    anchors: np.ndarray | Rows
    members: np.ndarray | Rows
    lower: np.ndarray
    upper: np.ndarray
    dissimilarity: Dissimilarity

    @property
    def shape(self):
        return len(self.anchors), len(self.members)

    def costs(self, anchor, member):
        """D of pairs, in the type of the rows."""
        costs = np.empty(len(anchor), self.anchors.dtype)
        for part in parts_of(len(anchor), COSTED):
            costs[part] = self.dissimilarity.between(self.anchors[anchor[part]], self.members[member[part]])
        return costs


class Pairs(NamedTuple):
    """Pairs (anchor, member) with their reduced cost c_ij + p_j - u_i."""

    anchor: np.ndarray
    member: np.ndarray
    reduced: np.ndarray

    def those(self, mask):
        return Pairs(*(part[mask] for part in self))


def priced(dissimilarity, x, y, price, rounding=0.0):
    """D(x_i, y_j) + price_j (rows of x, rows of y) in the type of x, through BLAS where D is squared distance.

    `rounding`: the share of its terms that each entry is lessened by, so that rounding makes none too large.
    """
    if not isinstance(dissimilarity, SquaredEuclidean):
        values = dissimilarity.pairwise(x, y)
        return (values * (1 - rounding) + (price - rounding * np.abs(price))).astype(x.dtype)
    ones, kept = np.ones(len(x), x.dtype), x.dtype.type(1 - rounding)
    offset = kept * np.einsum("ij,ij->i", y, y) + (price - rounding * np.abs(price))
    left = np.column_stack([x * x.dtype.type(-2), kept * np.einsum("ij,ij->i", x, x), ones])
    return left @ np.column_stack([y, np.ones(len(y), x.dtype), offset]).astype(x.dtype).T


def rounding_of(rows):
    """The share of |x|^2 + |y|^2 + |p| by which rounding may raise an entry of `priced`, that of the rows included."""
    return (2 * rows.shape[1] + 12) * float(np.finfo(rows.dtype).eps)


def least(dissimilarity, x, y, price, rounding=0.0):
    """(min_j D(x_i, y_j) + price_j, the j where it is) of every row of x."""

    def ask(part):
        rows = x[part]
        best, place = np.full(len(rows), np.inf, x.dtype), np.zeros(len(rows), np.int32)
        for columns in parts_of(len(y), WIDTH):
            values = priced(dissimilarity, rows, y[columns], price[columns], rounding)
            nearest = values.argmin(1)
            value = values[np.arange(len(rows)), nearest]
            better = value < best
            best[better], place[better] = value[better], nearest[better] + columns.start
        return best, place

    return tuple(map(np.concatenate, zip(*on_all_cores(ask, parts_of(len(x))))))


def on_all_cores(function, tasks):
    """`function` of every task, in their order."""
    with threadpool_limits(1), ThreadPoolExecutor(cpu_count()) as pool:  # no sum depends on the number of threads
        return list(pool.map(function, tasks))


def cheap_pairs(problem, u, price, rng) -> "Near":
    """`near_pairs`, of all pairs where they are few enough."""
    m, n = problem.shape
    return near_pairs(problem, u, price, rng, leaf=m + n if m * n <= ALL_PAIRS else LEAF)


def near_pairs(problem: Problem, u, price, rng, *, leaf) -> "Near":
    """About the cheapest pairs of every anchor and of every member, PER_ANCHOR and PER_MEMBER, or more where anchors hold many.

    Reduced costs are told by potentials u (m,) of anchors and prices (n,) of members. `leaf`: rows of a leaf; all pairs are
    asked where the table has no more.
    """
    m, n = problem.shape
    near = Near(Nearest(m, max(PER_ANCHOR, 3 * int(problem.upper.max()))), Nearest(n, PER_MEMBER))
    anchors, members = problem.anchors, problem.members
    u = u.astype(anchors.dtype)
    per_anchor, per_member = (side.other.shape[1] for side in near)

    def reduced(x, y, own, others):
        return priced(problem.dissimilarity, x, y, price[others]) - u[own, None]

    def first_limit(values, axis):
        """The cheapest pair with every k-th row of the other side: about k pairs are as cheap."""
        limit = values.min(axis)
        return limit + ROUNDED * np.abs(limit)

    def set_limits(part):
        own, others = part
        x, y = anchors[own], members[others]
        for rows in parts_of(len(own)):
            some = slice(None, None, per_anchor)
            values = reduced(x[rows], y[some], own[rows], others[some])
            near.anchors.bound(own[rows], first_limit(values, 1))
        for rows in parts_of(len(others)):
            some = slice(None, None, per_member)
            values = reduced(x[some], y[rows], own[some], others[rows])
            near.members.bound(others[rows], first_limit(values, 0))

    def cheap(x, y, own, others):
        values = reduced(x, y, own, others)
        row, column = np.nonzero((values <= near.anchors.limit[own, None]) | (values <= near.members.limit[others]))
        return row, column, values[row, column].astype(np.float32)

    def ask(own, others):
        """The anchors `own` learn cheap pairs; what there is for the members to learn."""
        x, y = anchors[own], members[others]
        found = [(rows.start, *cheap(x[rows], y, own[rows], others)) for rows in parts_of(len(own))]
        row, column, value = map(np.concatenate, zip(*((start + row, *rest) for start, row, *rest in found)))
        near.anchors.learn(own, row, others[column], value)
        return column, own[row], value

    leaves = _leaves(anchors, members, leaf, rng)
    on_all_cores(set_limits, leaves)
    if len(leaves) == 1:
        own, others = leaves[0]
        for found in on_all_cores(lambda rows: ask(rows, others), blocks(own, SLAB)):
            near.members.learn(others, *found)
    else:  # which have no rows in common
        on_all_cores(lambda part: near.members.learn(part[1], *ask(*part)), leaves)
    return near


class Nearest:
    """The cheapest pairs of every row of one side, in order: the `other` rows (rows, most), -1 where there are fewer, and their
    `reduced` costs. `limit` (rows,): what dearer pairs need not be learnt."""

    def __init__(self, n_rows, most):
        self.other = np.full((n_rows, most), -1, np.int32)
        self.reduced = np.full((n_rows, most), np.inf, np.float32)
        self.limit = np.full(n_rows, np.inf, np.float32)

    def learn(self, own, row, other, reduced):
        """Pairs of the rows own[row] with `other` rows, each told once ever: of these and what is known the cheapest stay."""
        known, most = self.other[own], self.other.shape[1]
        rows = np.repeat(np.arange(len(own)), most)
        new = reduced < self.reduced[own, -1][row]
        row = np.concatenate([rows, row[new]])
        other = np.concatenate([known.ravel(), other[new]])
        reduced = np.concatenate([self.reduced[own].ravel(), reduced[new]])
        order, rank = ranked(row, reduced)
        order = order[rank < most]  # of every row so many: what is not there yet is dearest
        self.other[own], self.reduced[own] = other[order].reshape(known.shape), reduced[order].reshape(known.shape)
        self.bound(own, self.limit[own])

    def bound(self, own, limit):
        """Of the rows `own` no pair is learnt that is dearer than the last known, or the `limit` where there is room."""
        last = self.reduced[own, -1]
        self.limit[own] = np.where(np.isfinite(last), last, limit)


class Near(NamedTuple):
    """What is cheap for anchors, and what for members."""

    anchors: Nearest
    members: Nearest


def codes(anchors: slice, of_anchors, of_members):
    """(anchor less the first) times all members plus member, of pairs of these anchors: theirs, and their members'; of the
    `other` rows of both sides."""
    n, mine = len(of_members), of_anchors[anchors]
    row, place = np.nonzero(mine >= 0)
    at = np.nonzero((of_members >= anchors.start) & (of_members < anchors.stop))
    return row * n + mine[row, place], (of_members[at] - anchors.start) * np.int64(n) + at[0]


def joined(parts):
    """All pairs of several `Pairs`."""
    return Pairs(*map(np.concatenate, zip(*parts)))


def _leaves(anchors, members, leaf, rng):
    """(anchors, members) of every leaf of a tree that has some of both; int32, in order."""
    m, n = len(anchors), len(members)
    depth = int(np.ceil(np.log2(max((m + n) / leaf, 1))))
    ends = np.concatenate([anchors[rng.integers(m, size=depth)], members[rng.integers(n, size=depth)]])
    directions, parts = ends[:depth] - ends[depth:], [np.arange(m + n, dtype=np.int32)]
    for along in (directions[:AT_ONCE], directions[AT_ONCE:]):
        parts = [some for part in parts for some in cut(part, _places(anchors, members, part, along))]
    sides = [(part[part < m], part[part >= m] - m) for part in parts]
    return [(own, others) for own, others in sides if len(own) and len(others)]


def _places(anchors, members, part, directions):
    """Where the rows of a part, anchors before members, lie along directions (k, d): (k, rows)."""
    m, own = len(anchors), np.searchsorted(part, len(anchors))
    places = np.empty((len(directions), len(part)), directions.dtype)
    project(places[:, :own], anchors, directions, part[:own])
    project(places[:, own:], members, directions, part[own:] - m)
    return places


def cut(part, places):
    """A part halved at the medians of its first `places`, the halves at those of the next ones, and so on."""
    if len(places) == 0:
        return [part]
    low = _lower_half(places[0])
    halves = [cut(part.compress(own), places[1:].compress(own, 1)) for own in (low, ~low)]
    return halves[0] + halves[1]


def _lower_half(place):
    """A mask of half of the places, the lower ones; of equal ones the first."""
    half = len(place) // 2
    median = np.partition(place, half)[half]
    low = place < median
    low[np.flatnonzero(place == median)[: half - np.count_nonzero(low)]] = True
    return low


def leading(pairs, side, count):
    """Is a pair, told once, among the `count` cheapest of its `side`?"""
    leads = np.zeros(len(side), bool)
    for start in range(0, int(side.max(initial=-1)) + 1, SIDES):
        here = np.flatnonzero((side >= start) & (side < start + SIDES))
        order, rank = ranked(side[here], pairs.reduced[here])
        leads[here[order[rank < count]]] = True
    return leads


def ranked(side, value):
    """(the order of all by side, then by their float32 value; the rank of each, in this order, among those of its side)"""
    bits = value.view(np.int32)
    # As these integers sort, so do the floats.
    ordered = np.where(bits < 0, ~bits & 0x7FFFFFFF, bits.astype(np.int64) + 2**31)
    order = np.argsort(side.astype(np.int64) << 32 | ordered)
    own = side[order]
    first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))[: len(own)]
    return order, np.arange(len(own)) - np.repeat(first, np.diff(first, append=len(own)))


def distinct(codes):
    """Codes in order, each once; they are sorted in place, which is faster than NumPy's `unique`, which hashes."""
    codes.sort()
    return codes[np.append(True, codes[1:] != codes[:-1])]
