"""The Gibbs posterior: targets with their settings, losses, kernels in Numba, modes, and the run that draws.

Every kernel is a plain loop, and tests hold its own transition matrix against the enumerated posterior.
"""

from bayesfair.fairlets.dissimilarity import Minkowski
from bayesfair.gibbs.check import check_loss
from bayesfair.gibbs.cut import Cut
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.loss import Loss
from bayesfair.gibbs.modes.search import ModeSearch
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.target import Dispersion

__all__ = [
    "Cut",
    "Dispersion",
    "Joint",
    "Labels",
    "Loss",
    "Minkowski",
    "ModeSearch",
    "Optimal",
    "check_loss",
]

_LOSS = "A loss of your own is a function: use bf.gibbs.Loss(divergence=...) or bf.gibbs.Loss(pair=...)."
_TARGET = "Targets of your own are withdrawn: use bf.gibbs.Labels, Joint, Cut or Optimal, with their settings."
_WITHDRAWN = {
    "BinaryLoss": "Use loss='binary'.",
    "BregmanLoss": _LOSS,
    "DissimilarityLoss": _LOSS,
    "ItakuraSaitoLoss": "Use loss='itakura-saito'.",
    "KMeansLoss": "Use loss='kmeans'.",
    "PoissonLoss": "Use loss='kl'.",
    "STATIC": _TARGET,
    "Settings": _TARGET,
    "Table": _TARGET,
    "Target": _TARGET,
    "Units": _LOSS,
    "as_pytree": _TARGET,
}


def __getattr__(name):
    raise AttributeError(
        f"bf.gibbs.{name} is withdrawn. {_WITHDRAWN[name]}"
        if name in _WITHDRAWN
        else f"module 'bayesfair.gibbs' has no attribute {name!r}"
    )
