"""Whole counts of groups in clusters of given sizes, every group within one row of its share.

The groups are those of one attribute, or the combinations of several. With the sizes n_k fixed, |n_gk - pi_g n_k| < 1 leaves
each count two values at most, for a combination and for a group of an attribute alike. So the program is short: HiGHS solves
hundreds of counts at once, through `scipy.optimize.milp`. For one attribute such counts always exist. Of several, combinations
and attributes together may ask too much; then the combinations get the least room that leaves a solution.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from bayesfair._interrupts import heard

NODES = 2_000  # limit of the branch and bound, independent of the clock
TRIES = 8  # other sizes that are tried
WIDEST = 8  # rows: the most room that combinations get
ROUNDING = 1e-9


class CountsOfSizes(NamedTuple):
    """Counts (clusters, groups), and `room`: each is less than so many rows from its share."""

    counts: Int[ndarray, "clusters groups"]
    room: float


def counts_of_sizes(
    wanted: Float[ndarray, "clusters groups"],
    group_sizes: Int[ndarray, " groups"],
    cluster_sizes: Int[ndarray, " clusters"],
    member: Int[ndarray, "groups_of_attributes groups"] | None = None,
    rooms: Sequence[float] = range(1, WIDEST + 1),
) -> CountsOfSizes | None:
    """The counts nearest to those `wanted`, in the sum of differences, of clusters that have these sizes.

    member: which combinations each group of an attribute holds; those groups stay within one row of their shares. rooms:
    those that combinations may have, tried in turn; infinite if they need not be near their shares. None without a solution.
    """
    member = np.zeros((0, len(group_sizes)), int) if member is None else member
    for room in rooms:
        counts = _solved(wanted, np.asarray(group_sizes), np.asarray(cluster_sizes), member, room)
        if counts is not None:
            return CountsOfSizes(counts, room)
    return None


def _solved(wanted, group_sizes, cluster_sizes, member, room):
    """The counts with this room, or None without a solution.

    The unknowns are which of the wanted counts, rounded down into their range, are rounded up, and how many more and fewer
    there are.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    n_clusters, n_groups = wanted.shape
    least, most = _range(group_sizes, cluster_sizes, room)
    low, high = _range(member @ group_sizes, cluster_sizes, 1)
    if (least > most).any() or (low > high).any():
        return None
    down = np.floor(wanted + ROUNDING)
    start = np.clip(down, least, most)
    up = np.where(start == down, 1 - 2 * np.maximum(wanted - down, 0), 1)
    one = np.ones(wanted.size)
    change = hstack([eye_array(one.size), eye_array(one.size), -eye_array(one.size)], format="csr")
    rows, lower, upper = zip(
        (kron(np.ones((1, n_clusters)), eye_array(n_groups)), group_sizes, group_sizes),
        (kron(eye_array(n_clusters), np.ones((1, n_groups))), cluster_sizes, cluster_sizes),
        (kron(eye_array(n_clusters), csr_array(member)), low.ravel(), high.ravel()),
    )
    rows = vstack(rows, format="csr")
    held = rows @ start.ravel()
    result = heard(
        milp,
        np.concatenate([up.ravel(), one, one]),
        integrality=np.ones(3 * one.size),
        bounds=Bounds(0, np.ravel([np.minimum(most - start, 1), np.maximum(most - start - 1, 0), start - least])),
        constraints=LinearConstraint(rows @ change, np.concatenate(lower) - held, np.concatenate(upper) - held),
        options={"node_limit": NODES, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return None
    return np.rint(start.ravel() + change @ result.x).astype(int).reshape(wanted.shape)


def _range(group_sizes, cluster_sizes, room):
    """(least, most) counts (clusters, groups) less than `room` rows from their shares, in whole numbers."""
    total, most = int(np.sum(cluster_sizes)), np.minimum(cluster_sizes[:, None], group_sizes)
    if room == np.inf:
        return np.zeros_like(most), most
    share = cluster_sizes[:, None].astype(np.int64) * group_sizes  # times `total`
    near = room * total - 1
    return np.maximum(-((near - share) // total), 0), np.minimum((near + share) // total, most)


def nearest_sizes(
    wanted: Float[ndarray, "clusters groups"],
    group_sizes: Int[ndarray, " groups"],
    member: Int[ndarray, "groups_of_attributes groups"] | None = None,
    *,
    together: bool = True,
) -> Int[ndarray, " clusters"]:
    """Sizes of clusters, none empty, at which counts as in `counts_of_sizes` are near those `wanted`.

    They are those of the relaxed program, rounded. There neither counts nor sizes are whole numbers.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, eye_array, kron, vstack

    (n_clusters, n_groups), total = wanted.shape, int(np.sum(group_sizes))
    held = vstack([eye_array(n_groups)] * together + ([] if member is None else [csr_array(member)]), format="csr")
    share = held @ np.asarray(group_sizes) / total
    each, n_cells = eye_array(n_clusters), wanted.size
    off = kron(each, held), kron(each, -share[:, None])
    apart = eye_array(n_cells)
    result = heard(
        linprog,
        np.repeat([0.0, 1.0], [n_cells + n_clusters, n_cells]),
        A_ub=block_array([[*off, None], [-off[0], -off[1], None], [apart, None, -apart], [-apart, None, -apart]]),
        b_ub=np.concatenate([np.ones(2 * n_clusters * len(share)), wanted.ravel(), -wanted.ravel()]),
        A_eq=block_array(
            [
                [kron(each, np.ones((1, n_groups))), -each, None],
                [kron(np.ones((1, n_clusters)), eye_array(n_groups)), None, csr_array((n_groups, n_cells))],
            ]
        ),
        b_eq=np.concatenate([np.zeros(n_clusters), group_sizes]),
        bounds=[(0, None)] * n_cells + [(1, None)] * n_clusters + [(0, None)] * n_cells,
    )
    sizes = wanted.sum(1) if result.x is None else result.x[n_cells : n_cells + n_clusters]
    whole = np.floor(sizes + ROUNDING).astype(int)
    whole[np.argsort(whole - sizes, kind="stable")[: total - whole.sum()]] += 1
    return whole


def sizes_near(
    wanted: Float[ndarray, "clusters groups"],
    group_sizes,
    member,
    least=1,
    most=np.inf,
    *,
    together=True,
) -> Iterator[Int[ndarray, " clusters"]]:
    """Sizes of clusters of `least` to `most` rows: those wanted, those of the relaxed program, then some about the first."""
    total, rng = int(np.sum(group_sizes)), np.random.default_rng(0)
    first = _rounded(wanted.sum(1), total, least, most)
    yield first
    yield _rounded(nearest_sizes(wanted, group_sizes, member, together=together), total, least, most)
    for reach in range(1, TRIES + 1):
        yield _rounded(first + rng.normal(0, reach, len(first)), total, least, most)


def _rounded(sizes, total, least, most):
    """Whole sizes near these, of so many rows in all, within bounds (numbers, or one for each cluster)."""
    least, most = np.broadcast_to(least, len(sizes)), np.minimum(np.broadcast_to(most, len(sizes)), total)
    whole = np.clip(np.floor(np.asarray(sizes, float) + ROUNDING), least, most).astype(int)
    while (short := total - whole.sum()) != 0:
        free = whole < most if short > 0 else whole > least
        if not free.any():
            break  # no sizes add up, which no counts will either
        at = np.argmax(np.where(free, np.sign(short) * (sizes - whole), -np.inf))
        whole[at] += np.sign(short)
    return whole
