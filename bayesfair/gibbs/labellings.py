"""The states of the target without fairlets: between sweeps, and as the scopes of its moves see them.

Every observation has a cluster, and nothing else is known of it. The state is O(N); what a scope adds (centres, an order
of the observations, statistics of the loss) lives inside that scope alone.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, ArrayLike, Float, Int


class Labelling(NamedTuple):
    """A balanced clustering z of the observations; `lambdas` is the one inverse temperature lambda."""

    label: Int[ArrayLike, " obs"]
    lambdas: Float[ArrayLike, ""]

    @property
    def lambda_c(self):
        return self.lambdas

    def given(self, centers):
        return CenteredLabelling(*self, centers)


class CenteredLabelling(NamedTuple):
    """The same with cluster centres m drawn given z, inside `GivenCenters` alone: moves there are to be given m."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    centers: Float[Array, "clusters dim"]

    def alone(self):
        return Labelling(self.label, self.lambdas)


class CountedLabelling(NamedTuple):
    """The labelling with the loss's statistics of it and the counts of every group in every cluster: inside `Counted`."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    stats: Any
    counts: Int[Array, "clusters groups"]
