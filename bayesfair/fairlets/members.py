"""The members of each fairlet, and their mean."""

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cluster_sums
from bayesfair._check import check_same_rows


def fairlet_centers(X: ArrayLike, fairlet: ArrayLike, sample_weight: ArrayLike | None = None) -> np.ndarray:
    """The mean of the rows of every fairlet.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    fairlet : array-like of int of shape (n_obs,)
        The number of every row's fairlet, from 0, with no number left out.
    sample_weight : array-like of shape (n_obs,), optional
        Weights of the rows. By default 1.

    Returns
    -------
    numpy.ndarray of shape (n_fairlets, n_features)

    References
    ----------
    The Gibbs paper, section 2: the centres u.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> bf.fairlets.fairlet_centers(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])).tolist()
    [[1.0], [5.0]]
    """
    check_same_rows(X=X, fairlet=fairlet, sample_weight=sample_weight)
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
    mass = np.bincount(fairlet, weight)
    return cluster_sums(X, fairlet, len(mass), weight) / mass[:, None]
