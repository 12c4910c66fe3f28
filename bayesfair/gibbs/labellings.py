"""States of the target without fairlets: between sweeps, and inside the scopes of its moves.

Every row has a cluster; the state holds nothing else. It is O(N). What a scope adds (centres, an order of the rows,
statistics of the loss) lives inside that scope alone.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, ArrayLike, Float, Int


class Labelling(NamedTuple):
    """A balanced clustering z of the rows; `lambdas` is the one inverse temperature lambda."""

    label: Int[ArrayLike, " obs"]
    lambdas: Float[ArrayLike, ""]

    @property
    def lambda_c(self):
        return self.lambdas

    def given(self, centers):
        return CenteredLabelling(*self, centers)


class CenteredLabelling(NamedTuple):
    """The same with cluster centres m drawn given z, inside `GivenCenters` alone: moves there are given m."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    centers: Float[Array, "clusters dim"]

    def alone(self):
        return Labelling(self.label, self.lambdas)


class CountedLabelling(NamedTuple):
    """The labelling with the loss's statistics and the counts of every group in every cluster, inside `Counted` alone."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    stats: Any
    counts: Int[Array, "clusters groups"]
