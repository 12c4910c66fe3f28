"""The guarantee of the method that made a tree, by its settings, and how near the draws come to it."""

from typing import NamedTuple

import numpy as np

from bayesfair._check import listed
from bayesfair._names import DataTree
from bayesfair._partitions import tables_with
from bayesfair.fairness.balanced import BalanceConstraint, balance_constraint, constraint_of
from bayesfair.fairness.bounded_sizes import balance_of
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import cluster_balance, looked_at, rows_off
from bayesfair.posterior.saved import plain, promise_of, settings_of, target_of
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, other_than_run, variable
from bayesfair.posterior.view import once

# Also of labels that somebody put in the place of the run's, and of other rows in a tree that lacks the run's number of them.
_NO_PROMISE = "This holds for these draws; the method does not guarantee it."
ROUNDING = 1e-9  # of a ratio of two counts


@once
def guarantee(tree: "DataTree") -> str | None:
    """The guarantee in a sentence or two, with the draw and cluster that come nearest to breaking it; None without groups."""
    groups = groups_of(tree)
    if groups is None or len(groups.names) < 2:
        return _of_sizes(tree).strip() or None
    promise = promise_of(tree)
    if is_part(tree):
        return "These are not the run's rows in its order: nothing is guaranteed for a part, or for repeated rows."
    if promise == "labels":
        return _of_labels(tree, groups, target_of(tree)["min_balance"]) + _of_sizes(tree)
    bound = guaranteed_balance(tree)
    if bound is None:
        return _NO_PROMISE
    if least_balance(masses_of(tree), groups) < bound - ROUNDING:
        return _NO_PROMISE
    if bound == 0:
        return "The method does not guarantee it: a fairlet may lack a group."
    return f"By construction none can fall below {at_least(bound)}: every cluster is a union of whole fairlets."


def is_exact(tree: "DataTree") -> bool:
    """Does the method guarantee every group its share of every cluster to within one row?"""
    return promise_of(tree) == "labels" and target_of(tree)["min_balance"] == "exact" and not is_part(tree)


def doubt_of_fairlets(tree: "DataTree") -> str:
    """A sentence on fixed fairlets that are not proved optimal; "" if they are, or if draws change them."""
    gap = settings_of(tree).get("gap_of_fairlets") or 0.0
    if gap == 0:
        return ""
    from bayesfair.fairlets.decomposition import describe_gap

    return f"The fairlets, which are the same in all draws, are not proved optimal: {describe_gap(gap)}."


def is_part(tree) -> bool:
    """Are the tree's rows other than the run's, or in another order? Earlier files of one process have `reference_centers`."""
    return "obs" in other_than_run(tree) or variable(tree, "constant_data", "reference_centers") is not None


def at_least(balance) -> str:
    """A bound in three decimals, rounded down so that it stays a bound."""
    return f"{np.floor(balance * 1000 + 1e-9) / 1000:.3g}"


def _of_labels(tree, groups: Groups, min_balance) -> str:
    masses, own = masses_of(tree), " of each attribute on its own" if groups.attributes else _of_both(groups)
    if min_balance != "exact":
        if least_balance(masses, groups) < min_balance - ROUNDING:
            return _NO_PROMISE
        return f"By construction none can fall below {min_balance:g}: every cluster is at least so balanced{own}."
    room = _room_of(tree)
    apart = {name: _farthest(held, names) for name, (names, held) in balanced_of(masses, groups).items()}
    *_, together = apart
    rooms = {name: room if groups.crosses and name == together else 1 for name in apart}
    if any(apart[name][0] >= rooms[name] for name in apart):
        return _NO_PROMISE
    if room > 1:
        own, beside = _of_each(groups), _of_room(room, apart.pop(together))
    else:
        beside = beside_guarantee(masses, groups)
    off, count, name, size = max(apart.values())
    return (
        f"By construction every group{own} has its share of every cluster in every draw to within one row, the most that "
        f"whole rows allow; the farthest from it was {_less_than_one(off)} ({count:,} of {name} in a cluster of {size:,})."
        f"{beside}"
    )


def _of_each(groups):
    """Whose groups, in words, where several attributes are balanced each and together."""
    return f" of {listed(part.column for part in groups.crosses)}" if groups.crosses else ""


def _of_both(groups):
    return f"{_of_each(groups)}, and every combination of them," if groups.crosses else ""


def _of_room(room, farthest):
    return (
        f" No such counts were found for their combinations too: these are within {room} rows, the least found; "
        f"{_in_rows(*farthest)}."
    )


@once
def _room_of(tree):
    """Less than so many rows every combination is from its share, by the run's constraint; 1 where it is so in all draws."""
    groups = groups_of(tree)
    if not groups.crosses or _farthest(masses_of(tree), groups.names)[0] < 1:
        return 1
    return balance_of(balance_kept(tree)).room


def balanced_of(masses, groups: Groups):
    """`looked_at`, without combinations where attributes are balanced on their own."""
    every = looked_at(masses, groups)
    if groups.attributes:
        every.popitem()
    return every


def beside_guarantee(masses, groups: Groups) -> str:
    """How far combinations are that attributes on their own leave without a guarantee, after a space; else ""."""
    if not groups.attributes:
        return ""
    return f" Their combinations are not guaranteed that: {_in_rows(*_farthest(masses, groups.names))}."


def farthest_of_each(masses, groups: Groups) -> str:
    """The farthest count of every attribute that the groups cross, in words; "" for one attribute."""
    each = list(looked_at(masses, groups).items())[:-1]
    return "; ".join(f"{name}: {_in_rows(*_farthest(held, names))}" for name, (names, held) in each)


def _in_rows(off, count, name, size):
    """A farthest count in words; less than one row is rounded down, so that it is not shown as one."""
    off = _less_than_one(off) if off < 1 else f"{off:,.1f} rows"
    return f"the farthest count was {off} off ({count:,} of {name} in a cluster of {size:,})"


def _less_than_one(off):
    return f"{np.floor(off * 100) / 100:.2f} of a row"


def _of_sizes(tree) -> str:
    """The guarantee for the clusters' sizes, as a sentence after a space; "" without one."""
    least, most = bounds_of_sizes(tree).values()
    sizes = masses_of(tree).sum(2)
    if (least, most) == (None, None) or sizes.min() < (least or 0) or sizes.max() > (most or np.inf):
        return ""
    told = " and ".join(
        f"{word} {bound:,}" for word, bound in (("at least", least), ("at most", most)) if bound is not None
    )
    return f" Every cluster of every draw has {told} rows."


def bounds_of_sizes(tree):
    """`size_min` and `size_max` of the tree's run; None if its rows have no guarantee."""
    known = {} if promise_of(tree) != "labels" or is_part(tree) else target_of(tree)
    return {name: known.get(name) for name in ("size_min", "size_max")}


def farthest_from_share(masses, groups: Groups):
    """(rows off, members, the group's name, the cluster's size) at the largest distance of a group from its share."""
    return max(_farthest(held, names) for names, held in balanced_of(masses, groups).values())


def _farthest(masses, names):
    off = rows_off(masses)
    at = np.unravel_index(off.argmax(), off.shape)
    return float(off[at]), int(masses[at]), names[at[-1]], int(masses[at[:-1]].sum())


@once
def masses_of(tree, groups: Groups | None = None):
    """Members of every group, by default the tree's own, in every cluster of every draw (draws, clusters, groups)."""
    labels = flat_labels(tree)
    groups = groups or groups_of(tree) or everyone(tree)
    return tables_with(labels, groups.code, len(groups.names), count_clusters(tree)).transpose(0, 2, 1)


def everyone(tree) -> Groups:
    """A single group of all rows, for a tree without groups."""
    return Groups(np.zeros(flat_labels(tree).shape[1], np.int32), ("everyone",))


def least_balance(masses, groups: Groups) -> float:
    """The least balance of all clusters in all draws, from `masses_of`; empty clusters do not count."""
    return float(np.nanmin(cluster_balance(masses, groups)))


def guaranteed_balance(tree: "DataTree") -> float | None:
    """The balance that unions of whole fairlets keep: the smallest of the fairlets' ratios; None if the method has no bound."""
    held = fairlet_capacities(tree)
    if held is None:
        return None
    smallest = held.lower[:, :, None] / np.maximum(held.upper[:, None, :], 1)
    return float(smallest[:, ~np.eye(smallest.shape[1], dtype=bool)].min())


class OfFairlets(NamedTuple):
    """Clusters that whole fairlets can form: at most `most[g, h]` members of group g per member of group h (J, J)."""

    most: np.ndarray

    def satisfied(self, counts):
        """Which clusters with these counts (..., clusters, groups) can be formed and are not empty."""
        bound = np.where(np.isfinite(self.most), self.most, 0) * counts[..., None, :]
        within = (counts[..., :, None] <= bound + 1e-9) | np.isinf(self.most)
        return within.all((-2, -1)) & (counts.sum(-1) > 0)

    def rows(self):
        """(A, b): a cluster with counts n can be formed if A n <= b."""
        pairs, each = np.argwhere(np.isfinite(self.most)), np.eye(len(self.most))
        return each[pairs[:, 0]] - self.most[tuple(pairs.T)][:, None] * each[pairs[:, 1]], np.zeros(len(pairs))


def balance_kept(tree: "DataTree") -> BalanceConstraint | OfFairlets | None:
    """Labellings that keep the guarantee, or else are as balanced as the least balanced draw. None if nothing is kept."""
    groups, bounds = groups_of(tree), bounds_of_sizes(tree)
    is_bounded = any(bound is not None for bound in bounds.values())
    if not is_bounded and (groups is None or len(groups.names) < 2):
        return None
    groups = groups or everyone(tree)
    if promise_of(tree) == "labels" and not is_part(tree):
        return constraint_of(groups, target_of(tree)["min_balance"], count_clusters(tree), **bounds)
    held = fairlet_capacities(tree)
    if held is None:
        least = least_balance(masses_of(tree), groups)
        return balance_constraint(groups, least) if least > 0 else None
    lower, upper = held.lower[:, None, :], held.upper[:, :, None]
    most = np.divide(upper, lower, out=np.full((len(lower), *[len(groups.names)] * 2), np.inf), where=lower > 0).max(0)
    return OfFairlets(most) if np.isfinite(most).any() else None


@once
def fairlet_capacities(tree):
    """The capacities of the fairlets by the run's settings; None without balanced fairlets, or for a part of a run's rows."""
    from bayesfair.fairlets.compositions import capacities

    groups, composition = groups_of(tree), target_of(tree).get("composition", "singletons")
    if groups is None or plain(composition) == "singletons" or is_part(tree):
        return None
    return capacities(groups.sizes, composition, groups.names)
