"""k-means without fairness, beside whose cost that of fair clusters is told."""

import warnings

import numpy as np

ROUNDING = 1e-20  # of the sum of squares around the mean: below it lies rounding alone


def plain_kmeans(X, n_clusters, *, n_init, seed):
    """(labels, sum of squared distances) of the best of `n_init` starts; 0 where every row is at the centre of its cluster."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # fewer distinct rows than clusters are no fault here
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = KMeans(n_clusters, n_init=n_init, random_state=seed).fit(X)
    is_rounding = fit.inertia_ <= ROUNDING * np.square(X - X.mean(axis=0)).sum()
    return fit.labels_, 0.0 if is_rounding else float(fit.inertia_)


def share_above(cost, plain):
    """By which share of the cost `plain` a cost is higher; NaN where only the other is 0, as no share is."""
    if plain == 0:
        return 0.0 if cost == 0 else np.nan
    return cost / plain - 1
