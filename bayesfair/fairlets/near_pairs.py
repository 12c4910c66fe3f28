"""Cheap pairs of anchors and members of a large table, found in the leaves of random trees, without asking all pairs.

Each tree cuts the rows at the medians of random directions, drawn like differences of rows, and all pairs within a leaf are
priced at once. A pair that is close stays together through most cuts, so that a dozen trees find most of what all pairs
would give. Leaves are priced on several threads; what is found does not depend on how many.
"""

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bayesfair.fairlets.dissimilarity import Dissimilarity, SquaredEuclidean

__all__ = [
    "Pairs",
    "Problem",
    "blocks",
    "cheap_pairs",
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
PER_ANCHOR, PER_MEMBER = 10, 5  # cheap pairs to keep; of an anchor at least three times as many as it holds
ROUNDED = 1e-4  # of a first threshold, which the pair that it comes from may exceed by rounding
SIDES = 50_000  # anchors or members whose pairs are ranked at a time
BLOCK, WIDTH = 256, 4096  # rows of both sides that are priced at a time
SLAB = 2048  # anchors of a leaf, most often all, whose pairs are ranked before those of other leaves join them


class Problem(NamedTuple):
    """Members (n, d) to be given to anchors (m, d), of one float type; anchor i takes lower[i] to upper[i] of them."""

    anchors: np.ndarray
    members: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    dissimilarity: Dissimilarity

    @property
    def shape(self):
        return len(self.anchors), len(self.members)

    def costs(self, anchor, member):
        """D of pairs, in the type of the rows."""
        costs = np.empty(len(anchor), self.anchors.dtype)
        for start in range(0, len(anchor), 2**16):
            part = slice(start, start + 2**16)
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
    others = list(zip(blocks(y, WIDTH), blocks(price, WIDTH)))

    def ask(rows):
        best, place = np.full(len(rows), np.inf, x.dtype), np.zeros(len(rows), np.int64)
        for part, (columns, prices) in enumerate(others):
            values = priced(dissimilarity, rows, columns, prices, rounding)
            nearest = values.argmin(1)
            value = values[np.arange(len(rows)), nearest]
            better = value < best
            best[better], place[better] = value[better], nearest[better] + part * WIDTH
        return best, place

    return tuple(map(np.concatenate, zip(*on_all_cores(ask, blocks(x)))))


def blocks(rows, size=None):
    """Parts of `BLOCK` rows."""
    size = size or BLOCK
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def on_all_cores(function, tasks):
    """`function` of every task, in their order."""
    with threadpool_limits(1), ThreadPoolExecutor(cpu_count()) as pool:  # no sum depends on the number of threads
        return list(pool.map(function, tasks))


def cheap_pairs(problem, u, price, rng, trees=1):
    """`near_pairs`, of all pairs where they are few enough."""
    m, n = problem.shape
    trees, leaf = (1, m + n) if m * n <= ALL_PAIRS else (trees, LEAF)
    few = {"per_anchor": max(PER_ANCHOR, 3 * int(problem.upper.max())), "per_member": PER_MEMBER}
    return near_pairs(problem, u, price, rng, trees=trees, leaf=leaf, **few)


def near_pairs(problem: Problem, u, price, rng, *, trees, leaf, per_anchor, per_member) -> Pairs:
    """About the `per_anchor` cheapest pairs of every anchor and the `per_member` cheapest of every member.

    Reduced costs are told by potentials u (m,) of anchors and prices (n,) of members. `leaf`: rows of a leaf; all pairs are
    asked where the table has no more.
    """
    anchors, members = problem.anchors, problem.members
    u = u.astype(anchors.dtype)
    tau, tau_member = (np.full(len(side), np.inf, np.float32) for side in (anchors, members))
    found = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))

    def reduced(own, others):
        return priced(problem.dissimilarity, anchors[own], members[others], price[others]) - u[own, None]

    def set_thresholds(part):
        """The cheapest pair with every k-th row of the other side: about k pairs are as cheap."""
        own, others = part
        for rows in blocks(own):
            tau[rows] = reduced(rows, others[::per_anchor]).min(1)
        for rows in blocks(others):
            tau_member[rows] = reduced(own[::per_member], rows).min(0)

    def cheap(own, others):
        values = reduced(own, others)
        row, column = np.nonzero((values <= tau[own, None]) | (values <= tau_member[others]))
        return Pairs(own[row], others[column], values[row, column].astype(np.float32))

    def ask(part):
        own, others = part
        pairs = joined(cheap(rows, others) for rows in blocks(own))
        return pairs.those(leading(pairs, pairs.anchor, per_anchor) | leading(pairs, pairs.member, per_member))

    for tree in range(trees):
        leaves = _leaves(anchors, members, leaf, rng)
        if tree == 0:
            on_all_cores(set_thresholds, leaves)
            tau += ROUNDED * np.abs(tau)
            tau_member += ROUNDED * np.abs(tau_member)
        slabs = [(rows, others) for own, others in leaves for rows in blocks(own, SLAB)]
        found = joined([found, *on_all_cores(ask, slabs)])
        keep = leading(found, found.anchor, per_anchor, tau) | leading(found, found.member, per_member, tau_member)
        found = found.those(keep)
    return found


def joined(parts):
    """All pairs of several `Pairs`."""
    return Pairs(*map(np.concatenate, zip(*parts)))


def _leaves(anchors, members, leaf, rng):
    """(anchors, members) of every leaf of a tree that has some of both; int32."""
    m, n = len(anchors), len(members)
    depth = int(np.ceil(np.log2(max((m + n) / leaf, 1))))
    some = np.concatenate([anchors[rng.integers(m, size=depth)], members[rng.integers(n, size=depth)]])
    parts = [np.arange(m + n, dtype=np.int32)]
    for direction in some[:depth] - some[depth:]:
        place = np.concatenate([anchors @ direction, members @ direction])
        parts = [half for part in parts for half in _halves(part, place[part])]
    sides = [(part[part < m], part[part >= m] - m) for part in parts]
    return [(own, others) for own, others in sides if len(own) and len(others)]


def _halves(part, place):
    order = np.argpartition(place, len(part) // 2)
    return part[order[: len(part) // 2]], part[order[len(part) // 2 :]]


def leading(pairs, side, count, tau=None):
    """Is a pair among the `count` cheapest of its `side`, and told for the first time? Where there are so many, the last
    one's reduced cost is written into `tau`."""
    leads = np.zeros(len(side), bool)
    for start in range(0, int(side.max(initial=-1)) + 1, SIDES):
        here = np.flatnonzero((side >= start) & (side < start + SIDES))
        bits = pairs.reduced[here].view(np.int32)
        # As these integers sort, so do the floats.
        ordered = np.where(bits < 0, ~bits & 0x7FFFFFFF, bits.astype(np.int64) + 2**31)
        here = here[np.argsort(side[here].astype(np.int64) << 32 | ordered)]
        anchor, member, once = pairs.anchor[here], pairs.member[here], np.ones(len(here), bool)
        once[1:] = (anchor[1:] != anchor[:-1]) | (member[1:] != member[:-1])
        here = here[once]
        own = side[here]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        leads[here[rank < count]] = True
        if tau is not None:
            last = here[rank == count - 1]
            tau[side[last]] = pairs.reduced[last]
    return leads


def distinct(codes):
    """Codes in order, each once; they are sorted in place, which is faster than NumPy's `unique`, which hashes."""
    codes.sort()
    return codes[np.append(True, codes[1:] != codes[:-1])]
