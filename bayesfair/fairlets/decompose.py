"""Fairlet decompositions: the optimum where it is a transport problem, the best found where it is not."""

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_same_index, check_same_length, column_names, message
from bayesfair._units import standardise
from bayesfair.fairlets.capacities import anchor_group, capacities, rule_of_small_groups
from bayesfair.fairlets.dissimilarity import (
    Dissimilarity,
    KullbackLeibler,
    Minkowski,
    SquaredEuclidean,
    resolve_dissimilarity,
)
from bayesfair.fairlets.hub import decompose_hubs, lower_bound
from bayesfair.fairlets.transport import transport
from bayesfair.fairness import Groups, encode_groups

__all__ = ["Decomposition", "decompose"]

DEGREES = {SquaredEuclidean: 2, Minkowski: 1, KullbackLeibler: 1}  # D(s x, s y) = s**degree D(x, y)
PROVED = 1e-8  # relative gap up to which rounding, not doubt, parts the cost from its bound


class Decomposition(NamedTuple):
    """A fairlet decomposition. `fairlet` (N,) in [m]; `composition` (m, J): members of each group in each fairlet.

    `cost` is L_f, no decomposition costs less than `lower_bound`, and `gap` is their distance relative to the cost. In the
    anchored form fairlet i holds the i-th observation of the anchors' group.
    """

    fairlet: np.ndarray
    composition: np.ndarray
    cost: float
    lower_bound: float
    anchored: bool

    @property
    def gap(self):
        if self.cost <= 0:
            return 0.0
        return np.inf if self.lower_bound <= 0 else (self.cost - self.lower_bound) / self.cost

    @property
    def optimal(self):
        return self.gap <= PROVED

    @property
    def method(self):
        return "optimal transport" if self.anchored else "alternating transport and annealed swaps"

    def __repr__(self):
        proof = "optimal" if self.optimal else f"at most {self.gap:.1%} above the optimum"
        form = "anchored" if self.anchored else "hub"
        return f"Decomposition({len(self.composition)} fairlets, {form} form, cost {self.cost:.6g}, {proof})"


def decompose(
    X: ArrayLike,
    sensitive: ArrayLike | Groups,
    composition: Mapping | ArrayLike = "auto",
    *,
    dissimilarity: str | Dissimilarity = "kmeans",
    power: float = 1.0,
    random_state: int | np.random.RandomState | None = None,
) -> Decomposition:
    """The fairlet decomposition of least cost (paper, eq. 2; Chierichetti et al. 2017), or the best one found.

    Where some group has exactly one member in every fairlet, these are anchors, the cost is the sum of D from the
    others to their anchor, and the optimum is found with its proof. Otherwise D is measured to the fairlet's own centre
    and the result is a local optimum: `.optimal` and `.gap` say which. Warns where "auto" lets a group of a few rows make
    fairlets of hundreds, and says what helps.

    Parameters
    ----------
    X: features (N, d). sensitive: groups, see `bayesfair.fairness.encode_groups`. composition: see `capacities`.
    dissimilarity, power: D by name, see `resolve_dissimilarity`. random_state: seed of the hub form's search.

    Raises
    ------
    TypeError, ValueError: as `check_features`, `encode_groups` and `capacities`; a single group; data outside D's domain.

    >>> decompose([[0.0], [1.0], [5.0], [6.0]], ["a", "b", "a", "b"]).fairlet.tolist()
    [0, 0, 1, 1]
    """
    check_same_index("sensitive", sensitive, "X", X)
    names = column_names(X)
    X, groups = check_features(X), encode_groups(sensitive, argument="sensitive")
    check_same_length("sensitive", len(groups.code), "X", len(X))
    if len(groups.names) == 1:
        remedy = "Check the column; clustering without fairness needs no fairlets."
        raise ValueError(message("sensitive", "have at least two groups", f"only {groups.names[0]!r}", remedy))
    dissimilarity = resolve_dissimilarity(dissimilarity, power)
    dissimilarity.check(X)
    held, code = capacities(groups.sizes, composition, groups.names), groups.code
    _warn_of_small_groups(groups, composition)
    anchor, scale = anchor_group(held), 1.0
    degree = DEGREES.get(type(dissimilarity))
    if degree is not None:  # scaling does not change the answer, and the network simplex has absolute tolerances
        X, units = standardise(X, names=names, degree=degree, center=degree == 2)
        scale = units.cost(1.0, degree)
    if anchor is None:
        fairlet = decompose_hubs(X, code, held, dissimilarity, np.random.default_rng(random_state))
        cost = _hub_cost(X, fairlet, dissimilarity)
        bound = min(lower_bound(X, code, held, dissimilarity), cost)
    else:
        fairlet, cost, bound = _anchored(X, code, held, anchor, dissimilarity)
    cost, bound = scale * cost, scale * bound
    return Decomposition(fairlet.astype(np.int32), _composition(fairlet, code, held), cost, bound, anchor is not None)


def _warn_of_small_groups(groups, composition):
    ruled = rule_of_small_groups(groups.sizes, groups.names) if isinstance(composition, str) else ""
    if ruled:
        warnings.warn(ruled, UserWarning, stacklevel=3)


def _anchored(X, code, held, anchor, dissimilarity):
    """Given the anchors, every other group is a transport problem of its own."""
    anchors = np.flatnonzero(code == anchor)
    fairlet, cost, bound = np.empty(len(X), np.int64), 0.0, 0.0
    fairlet[anchors] = np.arange(len(anchors))
    for group in set(range(held.lower.shape[1])) - {anchor}:
        rows = np.flatnonzero(code == group)
        limits = held.lower[:, group], held.upper[:, group]
        plan = transport(X[anchors], X[rows], *limits, dissimilarity, random_state=0)
        fairlet[rows], cost, bound = plan.anchor, cost + plan.cost, bound + plan.lower_bound
    return fairlet, cost, bound


def _hub_cost(X, fairlet, dissimilarity):
    size = np.bincount(fairlet)
    centers = np.stack([np.bincount(fairlet, column) for column in X.T], 1) / size[:, None]
    return float(dissimilarity.to_center(X, centers[fairlet]).sum())


def _composition(fairlet, code, held):
    table = np.zeros(held.lower.shape, np.int64)
    np.add.at(table, (fairlet, code), 1)
    return table
