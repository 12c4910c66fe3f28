"""The Gibbs posterior: targets with their settings, losses, kernels in Numba, modes, and the run that draws.

Every kernel is a plain loop, and tests hold its own transition matrix against the enumerated posterior.
"""

from bayesfair._draws import Statistic
from bayesfair.fairlets.dissimilarity import Minkowski
from bayesfair.gibbs.cut import Cut
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.loss import Loss
from bayesfair.gibbs.modes.search import ModeSearch
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.target import Dispersion

__all__ = ["Cut", "Dispersion", "Joint", "Labels", "Loss", "Minkowski", "ModeSearch", "Optimal", "Statistic"]
