"""What is guaranteed of the draws of a tree, and how near they come to breaking it."""

import numpy as np

from bayesfair._names import DataTree
from bayesfair._partitions import tables_with
from bayesfair.fairness.balanced import BalanceConstraint, balance_constraint, constraint_of
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.guarantee import ROUNDING, Guarantee
from bayesfair.fairness.metrics import cluster_balance, looked_at, rows_off
from bayesfair.posterior import sentences
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of, guarantee_of, is_part
from bayesfair.posterior.view import once


@once
def guarantee_sentence(tree: "DataTree") -> str:
    """The guarantee, with the draw and cluster that come nearest to breaking it; "" if there is none and no groups."""
    given, groups = guarantee_of(tree), groups_of(tree)
    if not has_groups(tree):
        return sentences.of_sizes(given) if is_kept(tree) else ""
    if is_part(tree):
        return sentences.OF_A_PART
    if given.kind == "none" or not is_kept(tree):
        return sentences.NO_PROMISE
    told = sentences.guaranteed(given, groups)
    if given.kind == "exact":
        told = sentences.of_exact_balance(groups, given.room, farthest_counts(masses_of(tree), groups))
    return f"{told} {sentences.of_sizes(given)}".rstrip()


@once
def is_kept(tree: "DataTree") -> bool:
    """Do the draws keep the guarantee? Labels that somebody put in the place of the run's may not."""
    given, groups, masses = guarantee_of(tree), groups_of(tree), masses_of(tree)
    sizes = masses.sum(2)
    if sizes.min() < (given.size_min or 0) or sizes.max() > (given.size_max or np.inf):
        return False
    if not has_groups(tree) or given.kind == "none":
        return True
    if given.kind == "exact":
        *each, combined = (off for off, *_ in farthest_counts(masses, groups).values())
        room = np.inf if groups.attributes else given.room if groups.crosses else 1
        return max(each, default=0) < 1 and combined < room
    least = given.min_balance if given.kind == "min_balance" else given.balance_of_fairlets
    return bool(balances(masses, groups).min() >= least - ROUNDING)


def has_groups(tree) -> bool:
    """Does the tree know two groups or more?"""
    groups = groups_of(tree)
    return groups is not None and len(groups.names) > 1


def farthest_counts(masses, groups: Groups) -> dict[str, tuple[float, int, str, int]]:
    """{attribute: (rows off, members, group, the cluster's size)}, its count farthest from its share, as `looked_at`."""
    found = {}
    for name, (names, held) in looked_at(masses, groups).items():
        off = rows_off(held)
        at = np.unravel_index(off.argmax(), off.shape)
        found[name] = float(off[at]), int(held[at]), names[at[-1]], int(held[at[:-1]].sum())
    return found


@once
def masses_of(tree, groups: Groups | None = None):
    """Members of every group, by default the tree's own, in every cluster of every draw (draws, clusters, groups)."""
    labels, groups = flat_labels(tree), groups or groups_of(tree) or everyone(tree)
    return tables_with(labels, groups.code, len(groups.names), count_clusters(tree)).transpose(0, 2, 1)


def everyone(tree) -> Groups:
    """A single group of all rows, for a tree without groups."""
    return Groups(np.zeros(flat_labels(tree).shape[1], np.int32), ("everyone",))


def balances(masses, groups: Groups) -> np.ndarray:
    """The Balance of every draw (draws,), from `masses_of`: the least of its clusters, of which empty ones do not count."""
    return np.nanmin(cluster_balance(masses, groups), axis=-1)


@once
def balance_to_keep(tree: "DataTree") -> BalanceConstraint | Guarantee | None:
    """Labellings that keep the guarantee, or else are as balanced as the least balanced draw. None if nothing is kept."""
    given, groups = guarantee_of(tree), groups_of(tree) or everyone(tree)
    if given.kind in ("exact", "min_balance"):
        if has_groups(tree) or given.size_min is not None or given.size_max is not None:
            sizes = {"size_min": given.size_min, "size_max": given.size_max}
            return constraint_of(groups, given.asked, count_clusters(tree), room=given.room, **sizes)
        return None
    if not has_groups(tree):
        return None
    if given.kind == "fairlets":
        return given if np.isfinite(given.ratio[~np.eye(len(given.ratio), dtype=bool)]).any() else None
    least = float(balances(masses_of(tree), groups).min())
    return balance_constraint(groups, least) if least > 0 else None
