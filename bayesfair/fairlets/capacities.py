"""Compositions: how many members of each group every fairlet may hold."""

from collections.abc import Sequence
from math import gcd
from numbers import Integral
from typing import NamedTuple

import numpy as np

from bayesfair._check import check_integer, message

__all__ = ["Capacities", "anchor_group", "capacities", "singleton_capacities"]

LARGEST_EXACT_FAIRLET = 12  # "auto" takes the exact ratio up to fairlets of this many members, floor/ceil beyond


class Capacities(NamedTuple):
    """Fewest and most members of each group in each fairlet, int (m, J); equal where the composition is exact."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def exact(self):
        """Whether every count is fixed, so that no fairlet can hand over an extra member."""
        return bool((self.lower == self.upper).all())


def capacities(sizes, composition="auto"):
    """`Capacities` of groups with these sizes, int (J,).

    Parameters
    ----------
    composition:
        "auto": the exact ratio p:q(:r...) where the sizes over their greatest common divisor sum to at most 12;
        otherwise one fairlet per member of the smallest group, the others' counts rounded down or up.
        Integers (p, q, ...), one per group: that ratio exactly where the sizes allow it; otherwise as many fairlets as
        come nearest to it, counts rounded down or up.
        An integer m: that many fairlets, counts rounded down or up.
        An integer array (m, J): exactly that.

    Raises
    ------
    TypeError, ValueError: a composition that is none of these, or that the sizes do not admit.

    >>> capacities([221, 442]).lower[0].tolist()
    [1, 2]
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    if isinstance(composition, str):
        return _automatic(sizes, composition)
    if isinstance(composition, Integral):
        return _even(sizes, _fairlet_count(sizes, composition))
    table = _integer_array(composition)
    return _ratio(sizes, table) if table.ndim == 1 else _exact(sizes, table)


def singleton_capacities(code, n_groups):
    """One observation per fairlet, in row order: clustering without fairness. `code`: (N,) in [n_groups]."""
    rows = np.eye(n_groups, dtype=np.int64)[np.asarray(code)]
    return Capacities(rows, rows)


def anchor_group(capacities):
    """The first group of which every fairlet holds exactly one member, or None: then there are no anchors, but hubs."""
    single = ((capacities.lower == 1) & (capacities.upper == 1)).all(0)
    return int(single.argmax()) if single.any() else None


def _automatic(sizes, composition):
    if composition != "auto":
        _refuse("be 'auto', integers per group, a number of fairlets or an (m, J) array", repr(composition))
    count = gcd(*sizes.tolist())
    if sizes.sum() // count > LARGEST_EXACT_FAIRLET:
        count = int(sizes.min())
    return _even(sizes, count)


def _even(sizes, count):
    """`count` fairlets, every group dealt out as evenly as whole members allow."""
    lower = np.tile(sizes // count, (count, 1))
    return Capacities(lower, lower + (sizes % count > 0))


def _fairlet_count(sizes, composition):
    remedy = f"The smallest group has {sizes.min()} members, and every fairlet needs one of them."
    return check_integer("composition", composition, maximum=int(sizes.min()), remedy=remedy)


def _ratio(sizes, ratio):
    if len(ratio) != len(sizes) or (ratio < 1).any():
        _refuse(f"have one count of at least 1 for each of the {len(sizes)} groups", tuple(ratio.tolist()))
    count = min(max(round(sizes.sum() / ratio.sum()), 1), int(sizes.min()))
    found = _even(sizes, count)
    if ((found.lower > ratio) | (found.upper < ratio)).any():
        _refuse(f"be near the ratio of the group sizes {tuple(sizes.tolist())}", tuple(ratio.tolist()))
    return found


def _exact(sizes, table):
    if table.ndim != 2 or table.shape[1] != len(sizes) or len(table) == 0:
        _refuse(f"have one row per fairlet and one column for each of the {len(sizes)} groups", f"shape {table.shape}")
    if (table < 0).any() or (table.sum(1) == 0).any():
        _refuse("hold counts of at least 0 and no empty fairlet", "such a row")
    if (table.sum(0) != sizes).any():
        sums = tuple(table.sum(0).tolist())
        _refuse(f"use every observation of the groups {tuple(sizes.tolist())}", f"columns that sum to {sums}")
    return Capacities(table, table)


def _integer_array(composition):
    if not isinstance(composition, (Sequence, np.ndarray)):
        _refuse("be 'auto', integers per group, a number of fairlets or an (m, J) array", repr(composition), TypeError)
    try:
        table = np.asarray(composition)
    except ValueError:
        _refuse("have rows of one length", "rows that differ")
    if table.dtype.kind not in "iu":
        _refuse("hold integers only", f"entries of type {table.dtype}", TypeError)
    return table.astype(np.int64)


def _refuse(rule, value, kind=ValueError):
    raise kind(message("composition", rule, value, "Pass composition='auto' to let sizes differ by one."))
