"""What every search for the cheapest balanced labels is given."""

from typing import NamedTuple

import numpy as np

from bayesfair.balanced.centroids import Centroids
from bayesfair.fairness.balanced import BalanceConstraint


class BalancedProblem(NamedTuple):
    """Rows to be labelled so that every cluster is balanced, at the least loss.

    Parameters
    ----------
    X : array (N, d), float64 or float32
        Near their spread where the loss has a degree.
    code : int array (N,)
        Groups, those of the constraint's counts.
    weight : array (N,)
        Above zero, of the loss; counts are of rows.
    constraint : BalanceConstraint
        What the counts of every cluster have to fulfil.
    loss : Centroids
        What rows pay in a cluster.
    n_clusters : int
        How many there are, all of which are used.
    """

    X: np.ndarray
    code: np.ndarray
    weight: np.ndarray
    constraint: BalanceConstraint
    loss: Centroids
    n_clusters: int

    def of(self, rows):
        """Of some of the rows."""
        return self._replace(X=self.X[rows], code=self.code[rows], weight=self.weight[rows])
