"""Rows outside the fit: their memberships one by one, and their places all together."""

from collections.abc import Mapping

import numpy as np
from scipy.special import softmax

from bayesfair._arrays import cluster_sums, row_blocks
from bayesfair.fairlets.decomposition import decompose


def distances(dissimilarity, X, centers):
    """Cost of every row of X (N, d) for every centre (K, d): (N, K), infinite for an empty cluster, whose centre is NaN.

    It is large if the loss has the centre at the edge of its domain and the row elsewhere.
    """
    inside = dissimilarity.interior(np.asarray(centers, np.float64))
    far = np.stack([dissimilarity.to_center(X, center) for center in inside], 1)
    return np.where(np.isnan(centers).any(1), np.inf, far)


def soft_memberships(dissimilarity, X, centers, inverse_temperatures):
    """softmax_k(-lambda d(x, m_k)) (N, K), the mean over draws of centres (draws, K, d) and lambda (draws,)."""
    soft = np.zeros((len(X), centers.shape[1]))
    for rows in row_blocks(len(X)):
        for of_draw, temperature in zip(centers, inverse_temperatures):
            soft[rows] += softmax(-temperature * distances(dissimilarity, X[rows], of_draw), axis=1)
    return soft / len(centers)


def place_fairlets(X, cost, groups, composition, settings):
    """Labels (N,) of whole fairlets, each in the cluster that is cheapest for its members; `settings`: of `decompose`.

    A composition that counts the fairlets of another table is replaced by "auto".
    """
    if not isinstance(composition, (str, Mapping)) and np.ndim(composition) != 1:
        composition = "auto"
    fairlet = decompose(X, groups, composition, **settings).fairlet
    return cluster_sums(cost, fairlet, fairlet.max() + 1).argmin(1)[fairlet]
