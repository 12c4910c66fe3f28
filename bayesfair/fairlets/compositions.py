"""Compositions: the allowed numbers of members of each group in every fairlet."""

from collections.abc import Mapping, Sequence
from math import ceil, gcd
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_integer, message

LARGEST_EXACT_FAIRLET = 12  # "auto" uses the exact ratio up to fairlets of this many members, floor/ceil beyond
LARGE_FAIRLET = 25  # members, or three per group: larger fairlets mean that a small group decides everything


class Capacities(NamedTuple):
    """Fewest and most members of each group in each fairlet, int (m, J); equal if the composition is exact."""

    lower: np.ndarray
    upper: np.ndarray


def capacities(
    sizes: ArrayLike, composition: Mapping | ArrayLike = "auto", names: Sequence[str] | None = None
) -> Capacities:
    """`Capacities` of groups with these sizes, int (J,), and `names`, by default "0", "1", ...; as `decompose` reads it.

    >>> capacities([207, 235], {"M": 9, "F": 8}, names=("F", "M")).upper[0].tolist()
    [8, 10]
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    names = tuple(map(str, range(len(sizes)) if names is None else names))
    if isinstance(composition, str):
        return _automatic(sizes, composition)
    if isinstance(composition, Integral):
        return _even(sizes, _fairlet_count(sizes, composition, names))
    if isinstance(composition, Mapping):
        composition = _in_order(composition, sizes, names)
    table = _integer_array(composition)
    return _ratio(sizes, table, names) if table.ndim == 1 else _exact(sizes, table, names)


def rule_of_small_groups(sizes, names):
    """What very small groups do to the fairlets of "auto", each of which needs a row of theirs, and the remedy; "" without."""
    sizes = np.asarray(sizes)
    n_obs, fewest = int(sizes.sum()), int(sizes.min())
    enough = ceil(n_obs / max(LARGE_FAIRLET, 3 * len(sizes)))
    small = sizes < enough
    if not small.any():
        return ""
    smallest = names[int(sizes.argmin())]
    without = {name: int(count) for name, count in zip(names, sizes // sizes[~small].min())}
    mergeable = f"min_group_size={enough} merges small groups into one; " if len(sizes) - small.sum() > 1 else ""
    return (
        f"Group {smallest!r} has {fewest:,} of {n_obs:,} rows and every fairlet needs one of them: {fewest:,} "
        f"fairlet{'s' * (fewest > 1)} of about {n_obs // fewest:,} rows. Clusters are unions of these. Remedy: {mergeable}"
        f"composition={without} makes fairlets without small groups, whose balance is then not guaranteed."
    )


def anchor_group(capacities):
    """The first group with exactly one member in every fairlet, or None: then fairlets have hubs instead of anchors."""
    single = ((capacities.lower == 1) & (capacities.upper == 1)).all(0)
    return int(single.argmax()) if single.any() else None


def _automatic(sizes, composition):
    if composition != "auto":
        _refuse("be 'auto', counts per group, a number of fairlets or an (m, J) array", repr(composition))
    count = gcd(*sizes.tolist())
    if sizes.sum() // count > LARGEST_EXACT_FAIRLET:
        count = int(sizes.min())
    return _even(sizes, count)


def _even(sizes, count):
    """Capacities of `count` fairlets with every group dealt out as evenly as possible; equal limits are kept once."""
    limits = sizes // count, sizes // count + (sizes % count > 0)
    return Capacities(*(np.broadcast_to(limit, (count, len(sizes))) for limit in limits))


def _fairlet_count(sizes, composition, names):
    smallest = names[int(sizes.argmin())]
    remedy = f"The smallest group, {smallest!r}, has {sizes.min()} members, and every fairlet needs one of them."
    return check_integer("composition", composition, maximum=int(sizes.min()), remedy=remedy)


def _in_order(counts, sizes, names):
    """The counts of {group: count} in the order of the groups; groups are matched by their names, as text."""
    named = {str(name): count for name, count in counts.items()}
    if set(named) != set(names):
        _refuse(f"have one count for each of the groups {_named(sizes, names)}", counts)
    return [named[name] for name in names]


def _ratio(sizes, ratio, names):
    if len(ratio) != len(sizes) or (ratio < 0).any() or not ratio.any():
        rule = f"have one count for each of the groups {_named(sizes, names)}, at least 0 and not all 0"
        _refuse(rule, tuple(ratio.tolist()))
    count = min(max(round(sizes.sum() / ratio.sum()), 1), int(sizes[ratio > 0].min()))
    found = _even(sizes, count)
    if ((found.lower > ratio) | (found.upper < ratio)).any():
        rule = f"be near the ratio of the groups {_named(sizes, names)}, in that order"
        remedy = "Name the groups, composition={group: count}, or pass 'auto' to let sizes differ by one."
        raise ValueError(message("composition", rule, _named(ratio, names), remedy))
    return found


def _named(counts, names):
    """ "F: 207, M: 235" """
    return ", ".join(f"{name}: {count}" for name, count in zip(names, counts))


def _exact(sizes, table, names):
    if table.ndim != 2 or table.shape[1] != len(sizes) or len(table) == 0:
        rule = f"have one row per fairlet and one column for each of the groups {_named(sizes, names)}"
        _refuse(rule, f"shape {table.shape}")
    if (table < 0).any() or (table.sum(1) == 0).any():
        _refuse("hold counts of at least 0 and no empty fairlet", "such a row")
    if (table.sum(0) != sizes).any():
        rule = f"use every row of the groups {_named(sizes, names)}"
        _refuse(rule, f"columns that sum to {_named(table.sum(0), names)}")
    return Capacities(table, table)


def _integer_array(composition):
    if not isinstance(composition, (Sequence, np.ndarray)):
        _refuse("be 'auto', counts per group, a number of fairlets or an (m, J) array", repr(composition), TypeError)
    try:
        table = np.asarray(composition)
    except ValueError:
        _refuse("have rows of one length", "rows that differ")
    if table.dtype.kind not in "iu":
        _refuse("hold integers only", f"entries of type {table.dtype}", TypeError)
    return table.astype(np.int64)


def _refuse(rule, value, kind=ValueError):
    raise kind(message("composition", rule, value, "Pass composition='auto' to let sizes differ by one."))
