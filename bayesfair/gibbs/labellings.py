"""The states of the target without fairlets: between sweeps, and as the scopes of its moves see them.

Every observation has a cluster, and nothing else is known of it. The state is O(N); what a scope adds (centres, an order
of the observations, statistics of the loss) lives inside that scope alone.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, ArrayLike, Bool, Float, Int

__all__ = ["CenteredLabelling", "CountedLabelling", "Labelling", "PairedLabelling"]


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


class PairedLabelling(NamedTuple):
    """The clusters in pairs (a, b), and everybody of a pair in a row: inside `InPairs`, given m.

    Places are sorted by pair, group and margin. What stands in this order, and who, is the same for every labelling that
    differs by moves between the two clusters of a pair: moves may look at it, and at `margin`, but not at `side`.
    """

    side: Bool[Array, " obs"]  # of the observation at each place: false in a, true in b
    order: Int[Array, " obs"]  # the observation at each place
    margin: Float[Array, " obs"]  # lambda (d(x, m_b) - d(x, m_a))
    segment: Int[Array, " obs"]  # pair * groups + group; of few bits
    first: Int[Array, " segments_and_one"]  # the first place of every segment
    pairs: Int[Array, "pairs 2"]
    bundles_of_pair: Int[Array, " pairs"]  # how many there are
    skipped: Int[Array, "pairs groups"]  # who stand before the first bundle, of every segment
    counts: Int[Array, "clusters groups"]
    lambdas: Float[Array, ""]


class CountedLabelling(NamedTuple):
    """The labelling with the loss's statistics of it and the counts of every group in every cluster: inside `Counted`."""

    label: Int[Array, " obs"]
    lambdas: Float[Array, ""]
    stats: Any
    counts: Int[Array, "clusters groups"]
