"""The Gibbs posterior over fairlet decompositions and clusterings: losses, targets, moves, and the run that draws."""

import bayesfair._jax  # noqa: F401
from bayesfair._draws import Statistic
from bayesfair.gibbs.check import check_loss
from bayesfair.gibbs.loss import BregmanLoss, Loss, Units
from bayesfair.gibbs.losses import BinaryLoss, DissimilarityLoss, ItakuraSaitoLoss, KMeansLoss, PoissonLoss
from bayesfair.gibbs.target import STATIC, Settings, Table, Target, as_pytree
from bayesfair.gibbs.temperature import Dispersion

__all__ = [
    "STATIC",
    "BinaryLoss",
    "BregmanLoss",
    "Dispersion",
    "DissimilarityLoss",
    "ItakuraSaitoLoss",
    "KMeansLoss",
    "Loss",
    "PoissonLoss",
    "Settings",
    "Statistic",
    "Table",
    "Target",
    "Units",
    "as_pytree",
    "check_loss",
]
