"""The states of targets over fairlets: between sweeps, opened for the moves of a sweep, and with cluster centres.

The state is O(N). Fairlets are rows of a table of members with one column per *slot*; every group owns as many columns
as its largest count in a fairlet. Where a fairlet holds fewer, a *phantom* (index N, weight nothing) fills the slot, so
that "swap two members" and "hand over the extra member" are one and the same move. The order of members within a row
means nothing, and every decomposition is written in equally many ways, so the law of the table is the law of B.
"""

from typing import NamedTuple

import jax
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from bayesfair.gibbs.losses import ClusterMeans


class InverseTemperatures(NamedTuple):
    """lambda_f of the fairlet loss and lambda_c of the clustering loss, both above zero."""

    fairlet: Float[ArrayLike, ""]
    clustering: Float[ArrayLike, ""]


class Fairlets(NamedTuple):
    """Some fairlets, opened: who is in which slot, their features (zeros where a slot is empty), what may be held."""

    members: Int[Array, "fairlets slots"]
    x: Float[Array, "fairlets slots dim"]
    present: Bool[Array, "fairlets slots"]
    lower: Int[Array, "fairlets groups"]
    upper: Int[Array, "fairlets groups"]

    @property
    def size(self):
        return self.present.sum(1)


class FairletState(NamedTuple):
    """A fair clustering: each observation has a fairlet, each fairlet a cluster, so balance holds by construction.

    members: () where no state has them. lambdas: None where nobody reads them.
    """

    members: Int[ArrayLike, "fairlets slots"] | tuple[()]
    cluster: Int[ArrayLike, " fairlets"]
    lambdas: InverseTemperatures | None


class OpenState(NamedTuple):
    """The same within a sweep. `fairlets`: () where no state has members."""

    fairlets: Fairlets | tuple[()]
    cluster: Int[Array, " fairlets"]
    lambdas: InverseTemperatures | None

    @property
    def lambda_c(self):
        return self.lambdas.clustering

    def given(self, centers, means=None):
        return CenteredState(*self, centers, means)


class CenteredState(NamedTuple):
    """The same with cluster centres m drawn given B and C, inside `GivenCenters` alone: moves there are to be given m.

    `means`: of the clusters, for a move that reads them and comes first; None where they would have to be worked out.
    """

    fairlets: Fairlets | tuple[()]
    cluster: Int[Array, " fairlets"]
    lambdas: InverseTemperatures
    centers: Float[Array, "clusters dim"]
    means: ClusterMeans | None = None

    @property
    def lambda_c(self):
        return self.lambdas.clustering

    def alone(self):
        return OpenState(self.fairlets, self.cluster, self.lambdas)


def computed_once(values):
    """`values` as they are: left to itself, XLA computes them again inside every fused loop that reads them."""
    return jax.lax.optimization_barrier(values)
