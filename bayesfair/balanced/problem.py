"""The input of every search for the cheapest balanced labels."""

from typing import NamedTuple

import numpy as np

from bayesfair.balanced.centroids import Centroids
from bayesfair.fairness.balanced import BalanceConstraint


class BalancedProblem(NamedTuple):
    """Rows to be labelled so that every cluster is balanced, at the least loss.

    Attributes
    ----------
    X : numpy.ndarray of shape (n_obs, n_features)
        Features, float64 or float32, near their spread if the loss has a degree.
    code : numpy.ndarray of shape (n_obs,)
        The groups of the rows, those of the constraint's counts.
    weight : numpy.ndarray of shape (n_obs,)
        Weights above zero in the loss. Balance counts rows.
    constraint : BalanceConstraint
        Which counts of a cluster are balanced.
    loss : Centroids
        What rows pay in a cluster.
    n_clusters : int
        Number of clusters, all of which are used.
    """

    X: np.ndarray
    code: np.ndarray
    weight: np.ndarray
    constraint: BalanceConstraint
    loss: Centroids
    n_clusters: int
