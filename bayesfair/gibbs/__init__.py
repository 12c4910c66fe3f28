"""The Gibbs posterior over fairlet decompositions and clusterings: losses, targets, moves, and the run that draws."""

from bayesfair._draws import Draws, Statistic, concatenate
from bayesfair.gibbs.check import check_loss
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
from bayesfair.gibbs.moves.mode_jumps import Modes
from bayesfair.gibbs.problem import Problem, in_units_of_table, loss_in_units_of_table, make_problem
from bayesfair.gibbs.replicas import exchange, ladder
from bayesfair.gibbs.run import Run, draw, start_run, tuned, tuning, warm_up
from bayesfair.gibbs.search import FEW_ROWS, FoundModes, start_in_modes, with_jumps
from bayesfair.gibbs.sweep import Repeat, in_turn
from bayesfair.gibbs.target import STATIC, Settings, Table, Target, as_pytree
from bayesfair.gibbs.targets import TARGETS, resolve_target
from bayesfair.gibbs.targets.joint import Joint
from bayesfair.gibbs.temperature import Dispersion, resolve_temperature
from bayesfair.gibbs.tempering import with_replicas
from bayesfair.gibbs.thinning import suitable_thinning

__all__ = [
    "FEW_ROWS",
    "STATIC",
    "TARGETS",
    "BinaryLoss",
    "BregmanLoss",
    "Dispersion",
    "DissimilarityLoss",
    "Draws",
    "FoundModes",
    "ItakuraSaitoLoss",
    "Joint",
    "KMeansLoss",
    "Loss",
    "Modes",
    "PoissonLoss",
    "Problem",
    "Repeat",
    "Run",
    "Settings",
    "Statistic",
    "Table",
    "Target",
    "Units",
    "as_pytree",
    "check_loss",
    "concatenate",
    "draw",
    "exchange",
    "in_turn",
    "in_units_of_table",
    "ladder",
    "loss_in_units_of_table",
    "make_problem",
    "resolve_loss",
    "resolve_target",
    "resolve_temperature",
    "start_in_modes",
    "start_run",
    "suitable_thinning",
    "tuned",
    "tuning",
    "warm_up",
    "with_jumps",
    "with_replicas",
]
