"""The cut: B ~ exp(-lambda_f L_f), then C | B ~ exp(-lambda_c L_c); the aim of the paper's Algorithm 1 and (12).

lambda_f stays at its start: clusters must not influence the decomposition. The density of a draw is known only up to the sum
over all clusterings of B, so there is no `lp`.
"""

from collections.abc import Mapping
from typing import Literal

from numpy.typing import ArrayLike

from bayesfair._settings import Count
from bayesfair.gibbs.over_fairlets import OverFairlets


class Cut(OverFairlets):
    """Fairlets by themselves, then clusters given the fairlets.

    One step of C for every step of B is not exact for this target (Plummer 2015): `inner_steps` reallocations approach C | B.

    Parameters
    ----------
    composition : "auto", "singletons", mapping, array-like or int, default "auto"
        Members of each group in a fairlet, as `bayesfair.fairlets.decompose` reads it.
    fairlet_move : {"swaps", "rectangular-loop"}, default "swaps"
        How fairlets change. "rectangular-loop" is Algorithm 1 of the paper, step by step, and slower.
    keep_fairlets : bool or int, default False
        Keep the fairlets of all draws (True), or of so many.
    inner_steps : int, default 10
        Reallocations of all fairlets in a sweep.

    References
    ----------
    The Gibbs paper, Algorithm 1 and eq. (12). Plummer (2015), Cuts in Bayesian graphical models.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.gibbs.Cut(inner_steps=20)
    Cut(inner_steps=20)
    """

    name = "cut"
    is_joint = False

    def __init__(
        self,
        composition: Mapping | ArrayLike = "auto",
        fairlet_move: Literal["swaps", "rectangular-loop"] = "swaps",
        keep_fairlets: bool | Count = False,
        inner_steps: Count = 10,
    ):
        self.composition = composition
        self.fairlet_move = fairlet_move
        self.keep_fairlets = keep_fairlets
        self.inner_steps = inner_steps
