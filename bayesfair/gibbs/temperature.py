"""Inverse temperatures by residuals around given clusters, and lambda at the start of chains."""

import numpy as np
from scipy.special import gammaincinv

from bayesfair._arrays import row_blocks
from bayesfair._check import message
from bayesfair.balanced.centroids import medians
from bayesfair.gibbs.target import Table

NO_LOSS = 1e-10  # share of the loss of one cluster below which a loss is rounding
LEAST_SHAPE = 0.25  # least shape of the gamma law of lambda: smaller shapes give draws of 0


def start_dispersion(table: Table, labels, loss) -> float:
    """lambda by the residuals around clusters (N,), if asked for, or at the mean of its law given this `loss`."""
    if table.temperature == "holmes-walker":
        return holmes_walker(table, labels)
    shape, rate = table.gamma
    total = rate + loss
    if total <= NO_LOSS * loss_of_one_cluster(table):
        rule = "not be 'dispersion' if clusters fit the data without any loss"
        remedy = "Ask for fewer clusters than there are distinct rows, or fix inverse_temperature."
        bad = f"a loss of {total:.3g} at the start (n_samples = {len(table.X)})"
        raise ValueError(message("inverse_temperature", rule, bad, remedy))
    if shape < LEAST_SHAPE:
        rule = "not be 'dispersion' if rows have almost no weight"
        remedy = "Divide sample_weight by its mean, or fix inverse_temperature."
        raise ValueError(message("inverse_temperature", rule, f"weights of {table.weight.sum():.3g} in all", remedy))
    return shape / total


def loss_of_one_cluster(table: Table) -> float:
    """Weighted sum of the rows' costs for their mean."""
    X, weight, blocks = table.X, table.weight, row_blocks(len(table.X))
    mean = sum(weight[rows] @ X[rows] for rows in blocks) / weight.sum()
    return float(sum(weight[rows] @ table.loss.dissimilarity.to_center(X[rows], mean) for rows in blocks))


def holmes_walker(table: Table, labels) -> float:
    """The lambda of Holmes and Walker (2017, Biometrika 104, eq. 5) for residuals around given clusters.

    They choose the power w of a likelihood f by w^2 = E_f |grad log f|^2 / E_data |grad log f|^2. Here f(x) is
    proportional to exp(-lambda_0 D(x, theta)), theta the cluster's mean, and lambda = w lambda_0, with lambda_0 from the
    *median* of D: under f, lambda_0 D ~ Gamma(d / h, 1). So tails heavier than f's lower lambda. For norms the score is
    bounded, so w = 1. d is the number of dimensions that the rows span, h the loss's degree.
    """
    X, weight, loss = np.asarray(table.X, float), table.weight, table.loss
    own = [labels == k for k in range(labels.max() + 1)]
    means = np.stack([np.average(X[rows], 0, weight[rows]) for rows in own])[labels]
    distance = np.asarray(loss.dissimilarity.to_center(X, means), float)
    typical = medians(distance[:, None], weight)[0]
    if not typical > 0:
        rule = "not be 'holmes-walker' if more than half of the rows lie on their cluster's mean"
        remedy = "Use 'dispersion', or give numbers."
        raise ValueError(message("inverse_temperature", rule, "a median loss of 0", remedy))
    of_a_row = table.degrees / weight.sum()  # d / h
    scale = gammaincinv(of_a_row, 0.5) / typical
    if not loss.has_centers:
        return float(scale)
    curvature = np.asarray(loss.dissimilarity.curvature(means), dtype=float)
    expected = weight @ (curvature / scale).mean(1) * of_a_row * loss.degree
    observed = weight @ (np.square(curvature * (X - means))).sum(1)
    return float(scale * np.sqrt(expected / observed))
