"""The joint target, exactly eq. (9) of the paper: log p(B, C) = -lambda_f L_f(B) - lambda_c L_c(C | u(B)) + const."""

from collections.abc import Mapping
from typing import Literal

from numpy.typing import ArrayLike

from bayesfair._settings import Count
from bayesfair.gibbs.over_fairlets import OverFairlets


class Joint(OverFairlets):
    """Fairlets and their clusters, sampled jointly: exactly eq. (9) of the paper.

    Parameters
    ----------
    composition : "auto", "singletons", mapping, array-like or int, default "auto"
        Members of each group in a fairlet, as `bayesfair.fairlets.decompose` reads it.
    fairlet_move : {"swaps", "rectangular-loop"}, default "swaps"
        How fairlets change. "rectangular-loop" is Algorithm 1 of the paper, step by step, and slower.
    keep_fairlets : bool or int, default False
        Keep the fairlets of all draws (True), or of so many.

    References
    ----------
    The Gibbs paper, eq. (9).

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Joint(composition=(1, 2))
    Joint(composition=(1, 2))
    """

    name = "joint"

    def __init__(
        self,
        composition: Mapping | ArrayLike = "auto",
        fairlet_move: Literal["swaps", "rectangular-loop"] = "swaps",
        keep_fairlets: bool | Count = False,
    ):
        self.composition = composition
        self.fairlet_move = fairlet_move
        self.keep_fairlets = keep_fairlets
