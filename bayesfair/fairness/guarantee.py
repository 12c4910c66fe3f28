"""What a method guarantees of every cluster of every draw, as data: a run stores it, and all sentences follow from it."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

ROUNDING = 1e-9  # of a ratio of two counts


class Guarantee(NamedTuple):
    """A guarantee by its kind.

    "exact": every group is less than a row from its share of a cluster, combinations of attributes less than `room`.
    "min_balance": every cluster's Balance is at least so much. "fairlets": clusters are unions of `n_fairlets` fairlets, which
    hold `fewest` to `most` rows of every group, and at most `ratio[g, h]` rows of group g for each of h (inf: no bound).
    "none": nothing. `size_min`, `size_max`: the least and most rows of a cluster, None without a bound.
    """

    kind: str = "none"
    min_balance: float | None = None
    room: int = 1
    size_min: int | None = None
    size_max: int | None = None
    n_fairlets: int = 0
    fewest: Int[ndarray, " groups"] | None = None
    most: Int[ndarray, " groups"] | None = None
    ratio: Float[ndarray, "groups groups"] | None = None

    @property
    def asked(self) -> Literal["exact"] | float:
        """The `min_balance` of "exact" and "min_balance"."""
        return "exact" if self.kind == "exact" else self.min_balance

    @property
    def balance_of_fairlets(self) -> float:
        """The least Balance of a union of whole fairlets."""
        apart = self.ratio[~np.eye(len(self.ratio), dtype=bool)]
        return float(1 / apart.max())

    def satisfied(self, counts) -> Bool[ndarray, "... clusters"]:
        """Which clusters with these counts (..., clusters, groups) whole fairlets can form, and are not empty."""
        bound = np.where(np.isfinite(self.ratio), self.ratio, 0) * counts[..., None, :]
        within = (counts[..., :, None] <= bound + ROUNDING) | np.isinf(self.ratio)
        return within.all((-2, -1)) & (counts.sum(-1) > 0)

    def rows(self) -> tuple[Float[ndarray, "pairs groups"], Float[ndarray, " pairs"]]:
        """(A, b): whole fairlets can form a cluster with counts n if A n <= b."""
        pairs, each = np.argwhere(np.isfinite(self.ratio)), np.eye(len(self.ratio))
        return each[pairs[:, 0]] - self.ratio[tuple(pairs.T)][:, None] * each[pairs[:, 1]], np.zeros(len(pairs))


def guarantee_of_fairlets(lower, upper) -> Guarantee:
    """The guarantee of fairlets that hold `lower` to `upper` (fairlets, groups) rows of every group."""
    shape = lower.shape[1], lower.shape[1]
    ratio = np.zeros(shape)
    for low, high in zip(*np.unique(np.stack([lower, upper], 1), axis=0).transpose(1, 0, 2)):
        ratio = np.maximum(ratio, np.divide(high[:, None], low, out=np.full(shape, np.inf), where=low > 0))
    return Guarantee("fairlets", None, 1, None, None, len(lower), lower.min(0), upper.max(0), ratio)
