"""The Gibbs posterior over fairlet decompositions and clusterings: losses, target, kernels, sampler."""

from bayesfair.gibbs.check import check_loss
from bayesfair.gibbs.draws import Draws, concatenate
from bayesfair.gibbs.losses import (
    BinaryLoss,
    BregmanLoss,
    DissimilarityLoss,
    ItakuraSaitoLoss,
    KMeansLoss,
    Loss,
    PoissonLoss,
    Units,
    resolve_loss,
)
from bayesfair.gibbs.problem import in_units_of_table, make_problem, start_run
from bayesfair.gibbs.replicas import exchange, ladder
from bayesfair.gibbs.run import Run, draw, warm_up
from bayesfair.gibbs.temperature import Dispersion, resolve_temperature

__all__ = [
    "BinaryLoss",
    "BregmanLoss",
    "Dispersion",
    "DissimilarityLoss",
    "Draws",
    "ItakuraSaitoLoss",
    "KMeansLoss",
    "Loss",
    "PoissonLoss",
    "Run",
    "Units",
    "check_loss",
    "concatenate",
    "draw",
    "exchange",
    "in_units_of_table",
    "ladder",
    "make_problem",
    "resolve_loss",
    "resolve_temperature",
    "start_run",
    "warm_up",
]
