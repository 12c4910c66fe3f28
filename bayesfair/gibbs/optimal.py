"""B fixed at the optimal decomposition, C sampled: the paper's MC-EM; with singletons, vanilla Gibbs k-means."""

from collections.abc import Mapping

from numpy.typing import ArrayLike

from bayesfair.gibbs.over_fairlets import OverFairlets


class Optimal(OverFairlets):
    """Clusters of the optimal fairlets, which stay as they are.

    Parameters
    ----------
    composition : "auto", "singletons", mapping, array-like or int, default "auto"
        Members of each group in a fairlet, as `bayesfair.fairlets.decompose` reads it. With "singletons" every row is a
        fairlet: vanilla Gibbs k-means, without a guarantee.

    References
    ----------
    The Gibbs paper, section 3.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Optimal(composition="singletons")
    Optimal(composition='singletons')
    """

    name = "optimal"
    keeps_fairlets = True

    def __init__(self, composition: Mapping | ArrayLike = "auto"):
        self.composition = composition
