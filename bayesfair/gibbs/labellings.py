"""States of the target without fairlets: between sweeps, and inside the scopes of its moves."""

from typing import Any, NamedTuple

from jaxtyping import Array, ArrayLike, Float, Int


class Labelling(NamedTuple):
    """A balanced clustering z of the rows, and lambda; inside `GivenCenters` also cluster centres m."""

    label: Int[ArrayLike, " obs"]
    lambdas: Float[ArrayLike, ""]
    centers: Float[Array, "clusters dim"] | None = None

    @property
    def lambda_c(self):
        return self.lambdas


class CountedLabelling(NamedTuple):
    """The labelling inside `Counted`, with the loss's statistics and the counts of every group in every cluster."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    stats: Any
    counts: Int[Array, "clusters groups"]
