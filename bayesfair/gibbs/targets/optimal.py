"""B fixed at the optimal decomposition, C sampled: the paper's MC-EM, and with singletons vanilla Gibbs k-means."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._parts import map_rows
from bayesfair.gibbs.losses import Units
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import as_pytree
from bayesfair.gibbs.targets.fairlets import FairletTarget

__all__ = ["Optimal"]


class Kept(NamedTuple):
    """Fairlets that stay as they are, opened: their units and what they pay, and not the features of who is in them."""

    members: Int[Array, "fairlets slots"]
    center: Float[Array, "fairlets dim"]
    weight: Float[Array, " fairlets"]
    loss: Float[Array, " fairlets"]


@as_pytree
class Optimal(FairletTarget):
    """C given the best decomposition."""

    clusters_are_independent = True
    keeps_fairlets = True

    @staticmethod
    def _matchings(X, code, held, rng):
        return np.zeros((1, 1), int)  # nobody swaps

    def moves(self, settings):
        return Swaps(0), Repeat((self.reallocation(settings), *self.temperature_moves()))

    def fairlets(self, members) -> Kept:
        """A part of them at a time: the features of all members are a table, and more where slots are empty."""
        return Kept(members, *map_rows(self._kept, members))

    def _kept(self, members):
        opened = super().fairlets(members)
        units = super().units(opened, None)
        return units.center, units.weight, self._fairlet_losses(opened)

    def units(self, fairlets: Kept, cluster) -> Units:
        return Units(fairlets.center, fairlets.weight, cluster)

    def fairlet_losses(self, fairlets: Kept) -> Float[Array, " fairlets"]:
        return fairlets.loss
