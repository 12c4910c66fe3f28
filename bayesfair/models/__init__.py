"""Fair mixtures for NumPyro: model functions, the label sweep, replica exchange over the fairness weight, checks."""

import bayesfair._jax  # noqa: F401
from bayesfair.models.exchange import ReplicaExchange, ladder
from bayesfair.models.factor import fairness, smooth_gap
from bayesfair.models.labels import labelled_kernel
from bayesfair.models.mixtures import (
    fair_categorical_mixture,
    fair_gaussian_mixture,
    fair_mixed_mixture,
    labelled_mixture,
)
from bayesfair.models.predictive import memberships
from bayesfair.models.priors import Prior
from bayesfair.models.units import ColumnScaling, column_scaling

__all__ = [
    "ColumnScaling",
    "Prior",
    "ReplicaExchange",
    "column_scaling",
    "fair_categorical_mixture",
    "fair_gaussian_mixture",
    "fair_mixed_mixture",
    "fairness",
    "labelled_kernel",
    "labelled_mixture",
    "ladder",
    "memberships",
    "smooth_gap",
]
