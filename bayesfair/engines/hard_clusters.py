"""Costs of hard clusters in float64, from differences to centres: ||x||^2 - 2 <x, c> + ||c||^2 would leave rounding."""

import numpy as np

from bayesfair._arrays import cluster_sums, row_blocks

NEAR = 1e-6  # distance below which a row's pull on a median stops growing
STEPS, SHORT = 100, 1e-5  # most steps to a median; the step, in the spread of the data, at which they end


def means_of(data, scaling, labels, centers):
    """Weighted means (clusters, dim) of the scaled rows of all processes; an empty cluster keeps its old centre."""
    return _pulled(data, scaling, labels, centers, lambda block, rows: data.weight_of(block))


def medians_of(data, scaling, labels, centers):
    """Weighted geometric medians (clusters, dim) of the scaled rows, by Weiszfeld steps from `centers` until none is long."""

    def pull(block, rows):
        return data.weight_of(block) / np.maximum(np.linalg.norm(rows - centers[labels[block]], axis=1), NEAR)

    for _ in range(STEPS):
        before, centers = centers, _pulled(data, scaling, labels, centers, pull)
        if np.abs(centers - before).max() <= SHORT:
            break
    return centers


def cost_of(data, scaling, labels, centers, power):
    """The weighted sum of ||x - c||^power over all processes' scaled rows, c being the centre of the row's cluster."""
    square = squares(data, scaling, labels, centers)
    return float(data.split.total(data.weight @ (square if power == 2 else np.sqrt(square))))


def squares(data, scaling, labels, centers):
    """||x - c||^2 (obs,) of every scaled row of this process and its cluster's centre."""
    found = np.empty(len(labels))
    for block in row_blocks(len(labels)):
        found[block] = np.square(scaling.rows(data.X[block]) - centers[labels[block]]).sum(1)
    return found


def _pulled(data, scaling, labels, centers, pull):
    """Means with the weights `pull(block, rows)`."""
    n_clusters = len(centers)
    mass, sums = np.zeros(n_clusters), np.zeros(centers.shape)
    for block in row_blocks(len(labels)):
        rows, own = scaling.rows(data.X[block]), labels[block]
        weight = pull(block, rows)
        mass += np.bincount(own, weight, n_clusters)
        sums += cluster_sums(rows, own, n_clusters, weight)
    mass, sums = map(data.split.total, (mass, sums))
    return np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1)[:, None], centers)
