"""B fixed at the optimal decomposition, C sampled: the paper's MC-EM, and with singletons vanilla Gibbs k-means."""

import numpy as np

from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import as_pytree
from bayesfair.gibbs.targets.fairlets import FairletTarget

__all__ = ["Optimal"]


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
