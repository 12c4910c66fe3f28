"""The states of targets over fairlets: between sweeps, opened for the moves of a sweep, and with cluster centres.

The state is O(N). Fairlets are rows of a table of members with one column per *slot*; every group has as many columns
as its largest count in a fairlet. If a fairlet holds fewer, a *phantom* (index N, weight 0) fills the slot, so that
"swap two members" and "hand over the extra member" are the same move. The order of members within a row means nothing.
Every decomposition is written in equally many ways, so the law of the table is the law of B.
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
    """Some fairlets, opened: members by slot, their features (zeros in empty slots), and the bounds on their counts."""

    members: Int[Array, "fairlets slots"]
    x: Float[Array, "fairlets slots dim"]
    present: Bool[Array, "fairlets slots"]
    lower: Int[Array, "fairlets groups"]
    upper: Int[Array, "fairlets groups"]

    @property
    def size(self):
        return self.present.sum(1)


class FairletState(NamedTuple):
    """A fair clustering: each row has a fairlet, each fairlet a cluster, so balance holds by construction.

    members: () if no state has them. lambdas: None if nothing reads them.
    """

    members: Int[ArrayLike, "fairlets slots"] | tuple[()]
    cluster: Int[ArrayLike, " fairlets"]
    lambdas: InverseTemperatures | None


class OpenState(NamedTuple):
    """The state within a sweep. `fairlets`: () if no state has members."""

    fairlets: Fairlets | tuple[()]
    cluster: Int[Array, " fairlets"]
    lambdas: InverseTemperatures | None

    @property
    def lambda_c(self):
        return self.lambdas.clustering

    def given(self, centers, means=None):
        return CenteredState(*self, centers, means)


class CenteredState(NamedTuple):
    """The state with cluster centres m drawn given B and C, inside `GivenCenters` alone: moves there are given m.

    `means`: of the clusters, for a first move that reads them; None if they would have to be computed.
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
    """`values` unchanged; without this, XLA recomputes them in every fused loop that reads them."""
    return jax.lax.optimization_barrier(values)
