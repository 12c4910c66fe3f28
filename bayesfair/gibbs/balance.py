"""The balanced set S as kernels read it: bounds on the counts of a cluster, and the penalty of a count beyond them."""

from math import inf
from typing import NamedTuple

import numpy as np

from bayesfair._compiled import inner

WITHIN = 1.0 - 1e-9  # rows: |n_gk - pi_g n_k| < 1, so that exactly one row off is outside
ROUNDING = 1e-9
REACH = 1.0 + 1e-6  # rows beyond a bound up to which the penalty is a slope
WALL = 1e6  # penalty for every row, more than one row beyond a bound


class Balance(NamedTuple):
    """Bounds low * r - slack <= n_gk <= high * r + slack, r the size of the cluster or the largest count of the family.

    A family is an attribute, or the combinations of all attributes; groups are numbered through all families. `group` (N, F)
    are the groups of a row, one in each family; `first` (F + 1,) is the first group of every family. `of_cell` (C, F) are the
    groups of every combination. `bounds` (H, 3): low, high and slack of every group. `extra`: 1 if r is the largest count, and
    the least and largest size of a cluster.
    """

    group: np.ndarray
    first: np.ndarray
    of_cell: np.ndarray
    bounds: np.ndarray
    extra: np.ndarray

    @property
    def n_groups(self) -> int:
        return int(self.first[-1])


def families(codes: list[np.ndarray], together: np.ndarray | None):
    """(group (N, F), first, combination) of attributes' codes, with their combinations as family 0 where they are bounded.

    One attribute is its own combination. Attributes that are balanced on their own alone have no family of combinations.
    """
    kept = codes if together is None or len(codes) == 1 else [together, *codes]
    first = np.concatenate([[0], np.cumsum([code.max() + 1 for code in kept])]).astype(np.int64)
    group = np.stack([code + start for code, start in zip(kept, first)], axis=1).astype(np.int32)
    return np.ascontiguousarray(group), first, np.unique(group, axis=0)


def within_one_row(group, first, of_cell, size_min=None, size_max=None, slack=WITHIN) -> Balance:
    """Every group of every family within one row of its share, or within `slack` (H,) rows."""
    share = np.bincount(group.ravel(), minlength=first[-1]) / len(group)
    return _balance(group, first, of_cell, share, share, slack, False, size_min, size_max)


def at_least(min_balance, group, first, of_cell, size_min=None, size_max=None) -> Balance:
    """Every count at least `min_balance` times the largest of its family: FMC's Balance, eq. (3), of every cluster."""
    return _balance(group, first, of_cell, min_balance, inf, ROUNDING, True, size_min, size_max)


def _balance(group, first, of_cell, low, high, slack, of_largest, size_min, size_max):
    bounds = np.empty((first[-1], 3))
    bounds[:, 0], bounds[:, 1], bounds[:, 2] = low, high, slack
    sizes = 0.0 if size_min is None else float(size_min), inf if size_max is None else float(size_max)
    return Balance(group, first, of_cell, bounds, np.array([float(of_largest), *sizes]))


@inner
def reference_of(first, extra, count, k, size, f):
    """r of family f in cluster k, see `Balance`."""
    if extra[0] == 0.0:
        return float(size)
    largest = 0.0
    for h in range(first[f], first[f + 1]):
        largest = max(largest, float(count[k, h]))
    return largest


@inner
def rows_beyond(bounds, reference, n, h):
    """How many rows a count n of group h is beyond its bounds; 0 or less within them."""
    return max(bounds[h, 0] * reference - n, n - bounds[h, 1] * reference) - bounds[h, 2]


@inner
def penalty(first, bounds, extra, strength, count, k, size):
    """V of cluster k: 0 exactly if it is in S. strength (K, H + 1): of every group, and of the size."""
    total, last = 0.0, strength.shape[1] - 1
    for f in range(len(first) - 1):
        reference = reference_of(first, extra, count, k, size, f)
        for h in range(first[f], first[f + 1]):
            beyond = rows_beyond(bounds, reference, count[k, h], h)
            if beyond > 0.0:
                total += priced(beyond, strength[k, h])
    off = max(extra[1] - size, size - extra[2])
    return total + (priced(off, strength[k, last]) if off > 0.0 else 0.0)


@inner
def priced(rows, strength):
    """The penalty of so many rows beyond a bound: a slope, and a wall more than one row beyond."""
    return strength * rows if rows <= REACH else WALL * rows


@inner
def penalty_with(first, bounds, extra, strength, count, k, size, of_cell, c, change):
    """V of cluster k with `change` (+-1) rows of combination c."""
    for f in range(of_cell.shape[1]):
        count[k, of_cell[c, f]] += change
    total = penalty(first, bounds, extra, strength, count, k, size + change)
    for f in range(of_cell.shape[1]):
        count[k, of_cell[c, f]] -= change
    return total
