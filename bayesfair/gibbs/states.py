"""The states of targets over fairlets, between sweeps and opened for the moves of a sweep. All are O(N).

Fairlets are rows of a table of members. Every group has as many columns (*slots*) as its largest count in a fairlet. If
a fairlet holds fewer, a *phantom* (index N, weight 0) fills the slot, so that "swap two members" and "hand over the
extra member" are one move. Every decomposition is written in equally many ways, so the law of the table is that of B.
"""

from typing import NamedTuple

from jaxtyping import Array, ArrayLike, Bool, Float, Int

from bayesfair.gibbs.loss import ClusterMeans


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
    """The state within a sweep. `fairlets`: () if no state has members.

    Inside `GivenCenters` it has cluster centres m, and the clusters' `means` for a first move that reads them.
    """

    fairlets: Fairlets | tuple[()]
    cluster: Int[Array, " fairlets"]
    lambdas: InverseTemperatures | None
    centers: Float[Array, "clusters dim"] | None = None
    means: ClusterMeans | None = None

    @property
    def lambda_c(self):
        return self.lambdas.clustering
