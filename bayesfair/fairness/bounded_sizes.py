"""Bounds on the sizes of clusters beside balance: numbers of rows, whatever their weights (DESIGN.md, section 2.6)."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from bayesfair._check import check_integer, message


class BoundedSizes(NamedTuple):
    """Balanced clusters of `least` to `most` members, whatever their groups: one number for all clusters, or one for each."""

    balance: Any
    least: Int[Any, "*clusters"]
    most: Int[Any, "*clusters"]

    def satisfied(self, counts) -> Bool[Any, "... clusters"]:
        """Which clusters are balanced, and neither too small nor too large."""
        size = counts.sum(-1)
        return self.balance.satisfied(counts) & (size >= self.least) & (size <= self.most)

    def rows(self) -> tuple[Float[ndarray, "rows cells"], Float[ndarray, " rows"]]:
        """(A, b) of the balance alone; the sizes are `size_bounds`."""
        return self.balance.rows()


def balance_of(constraint):
    """The balance in a constraint, without bounds on sizes."""
    return constraint.balance if isinstance(constraint, BoundedSizes) else constraint


def size_bounds(constraint):
    """(least, most) members of a cluster: one number for all clusters, or one for each."""
    return (constraint.least, constraint.most) if isinstance(constraint, BoundedSizes) else (1, np.inf)


def within(constraint, clusters):
    """The constraint for the counts of these `clusters` (...) alone, (..., J)."""
    if not isinstance(constraint, BoundedSizes) or np.ndim(constraint.least) == 0:
        return constraint
    return constraint._replace(least=constraint.least[clusters], most=constraint.most[clusters])


def bounded(constraint, n_clusters, n_obs, size_min=None, size_max=None):
    """A constraint with bounds on the sizes of clusters; unchanged without bounds."""
    if size_min is None and size_max is None:
        return constraint
    least = _checked_bound("size_min", 1 if size_min is None else size_min, n_clusters)
    most = _checked_bound("size_max", n_obs if size_max is None else size_max, n_clusters)
    least, most = np.broadcast_arrays(*(np.minimum(bound, np.iinfo(np.int32).max) for bound in (least, most)))
    if size_min is not None and size_max is not None and (least > most).any():
        rule = f"be at least size_min, {_plain(least)}"
        raise ValueError(message("size_max", rule, _plain(most), "Exchange them, or leave one of them out."))
    return BoundedSizes(constraint, least.astype(np.int32), most.astype(np.int32))


def _checked_bound(name, bound, n_clusters):
    remedy = f"Pass a whole number, or one for each of the {n_clusters} clusters."
    if np.ndim(bound) == 0:
        return np.asarray(check_integer(name, bound, remedy=remedy))
    if np.shape(bound) != (n_clusters,):
        raise ValueError(message(name, f"hold a number for each of the {n_clusters} clusters", bound, remedy))
    return np.array([check_integer(name, each, remedy=remedy) for each in bound])


def _plain(bound):
    return np.asarray(bound).tolist()


def in_words(constraint, sizes):
    """The bounds that matter, as one would pass them."""
    if constraint is None:
        return ""
    told = {"size_min": (constraint.least, 1), "size_max": (constraint.most, np.sum(sizes))}
    shown = (f"{name}={_plain(bound)}" for name, (bound, usual) in told.items() if np.any(bound != usual))
    return ", ".join(shown) or "none"
