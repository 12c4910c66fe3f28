"""Clusterings with one relocated centre: a cluster is given up and another one split, which k-means cannot do itself."""

import numpy as np

from bayesfair._arrays import MANY, distinct_places

COOLER = 1.25  # ratio of successive inverse temperatures of the annealing
COLDEST = 200.0  # last inverse temperature, relative to the first one
STEPS = 4  # updates of the centres at each temperature


def few_rows(n_rows, rng):
    """All rows, or a random part of many rows, in their order."""
    return slice(None) if n_rows <= MANY else np.sort(rng.choice(n_rows, MANY, replace=False))


def has_distinct_rows(X, n_distinct):
    """Does X (N, d) have at least `n_distinct` distinct rows?"""
    return len(distinct_places(X.__getitem__, n_distinct)) >= n_distinct


def relocated_centers(X, weights, labels, n_clusters, most, rng):
    """Centres (at most `most`, n_clusters, dim) with one of those of `labels` relocated, the cheapest first.

    Units of a cluster that is given up go to their second nearest centre.
    """
    from sklearn.cluster import KMeans

    some = few_rows(len(X), rng)
    X, weights, labels = X[some], weights[some], labels[some]
    centers = np.stack([np.average(X[labels == k], axis=0, weights=weights[labels == k]) for k in range(n_clusters)])
    apart = _squared_distances(X, centers)
    nearest_two = np.partition(apart, 1, axis=1)[:, :2]
    moving = weights * (nearest_two[:, 1] - nearest_two[:, 0])
    dearer = np.array([moving[labels == k].sum() for k in range(n_clusters)])
    halves, saved = [], np.zeros(n_clusters)
    for k in range(n_clusters):
        rows = np.flatnonzero(labels == k)
        if (X[rows] == X[rows[:1]]).all():
            halves.append(np.stack([centers[k]] * 2))
            continue
        fit = KMeans(2, n_init=1, random_state=int(rng.integers(2**31 - 1)))
        fit.fit(X[rows], sample_weight=weights[rows])
        halves.append(fit.cluster_centers_)
        saved[k] = (weights[rows] * apart[rows, k]).sum() - fit.inertia_
    cost = np.where(np.eye(n_clusters, dtype=bool), np.inf, dearer[:, None] - saved)
    order = np.argsort(cost, axis=None, kind="stable")[: min(most, n_clusters * (n_clusters - 1))]
    pairs = np.stack(np.unravel_index(order, cost.shape), 1)
    found = np.tile(centers, (len(pairs), 1, 1))
    for own, (given_up, split) in zip(found, pairs):
        own[split], own[given_up] = halves[split]
    return found


def annealed_centers(X, weights, n_clusters, rng):
    """Centres (n_clusters, dim) of soft clusters, cooled by a fixed schedule from one cluster to many (Rose 1998)."""
    some = few_rows(len(X), rng)
    X, weights = X[some], weights[some]
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average(np.square(X - mean), axis=0, weights=weights)
    hot = 1 / (2 * max(variance.max(), np.finfo(float).tiny))
    centers = mean + 1e-2 * np.sqrt(variance) * rng.normal(size=(n_clusters, X.shape[1]))
    for exponent in range(int(np.log(COLDEST) / np.log(COOLER))):
        for _ in range(STEPS):
            energy = hot * COOLER**exponent * _squared_distances(X, centers)
            share = np.exp(energy.min(1, keepdims=True) - energy)
            share *= (weights / share.sum(1))[:, None]
            mass = share.sum(0)
            centers = np.where(mass[:, None] > 0, share.T @ X / np.maximum(mass, 1e-300)[:, None], centers)
        centers += 1e-4 * np.sqrt(variance) * rng.normal(size=centers.shape)  # lets equal centres part
    return centers


def _squared_distances(X, centers):
    return np.maximum(np.square(X).sum(1)[:, None] - 2 * X @ centers.T + np.square(centers).sum(1), 0.0)
