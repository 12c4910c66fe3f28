"""Fair mixtures for NumPyro: model functions, the label sweep, replica exchange over the fairness weight, checks."""

from bayesfair.gibbs import ladder
from bayesfair.models.exchange import ReplicaExchange
from bayesfair.models.labels import labelled_kernel
from bayesfair.models.mixtures import (
    SMOOTHING,
    Prior,
    check_prior,
    fair_categorical_mixture,
    fair_gaussian_mixture,
    fair_mixed_mixture,
    labelled_mixture,
    smooth_gap,
)
from bayesfair.models.rows import ColumnUnits
from bayesfair.models.run import INFERENCES, MixtureRun, make_run
from bayesfair.models.sampling import check_chain_method
from bayesfair.models.starts import STARTS, start_partitions

__all__ = [
    "INFERENCES",
    "SMOOTHING",
    "STARTS",
    "ColumnUnits",
    "MixtureRun",
    "Prior",
    "ReplicaExchange",
    "check_chain_method",
    "check_prior",
    "fair_categorical_mixture",
    "fair_gaussian_mixture",
    "fair_mixed_mixture",
    "labelled_kernel",
    "labelled_mixture",
    "ladder",
    "make_run",
    "smooth_gap",
    "start_partitions",
]
