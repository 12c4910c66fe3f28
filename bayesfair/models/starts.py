"""Starts of chains, different on purpose, so that a second mode shows as a large R-hat."""

import warnings

import numpy as np

from bayesfair._arrays import on_device
from bayesfair._tables import indicators
from bayesfair.engines.fair_mixture import FairMixture
from bayesfair.engines.families import Family
from bayesfair.models.units import ColumnUnits

GAPS = 0.01, 0.05  # largest gaps of the fair starts
# Fair and unfair solutions alternate; there are as many starts as chains.
STARTS = "fair", "k-means", "random", "unfair", "fairer"


def start_partitions(x, codes, n_levels, groups, n_components, kinds, seed):
    """Labels (chains, N), one partition for each of `kinds` out of STARTS.

    "fair", "fairer" (within GAPS) and "unfair": by `FairMixture`. "random": nearest of K random rows.
    """
    spread = np.where(x.std(0) > 0, x.std(0), 1.0)
    points = np.hstack([(x - x.mean(0)) / spread, indicators(codes, n_levels)])  # on one scale, for distances
    rng = np.random.default_rng(seed)
    return np.stack([_partition(kind, x, codes, points, groups, n_components, rng) for kind in kinds])


def _partition(kind, x, codes, points, groups, n_components, rng):
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances_argmin

    seed = int(rng.integers(2**31))
    if kind == "random":
        centers = points[rng.choice(len(points), n_components, replace=False)]
        return pairwise_distances_argmin(points, centers)
    if kind == "k-means":
        return KMeans(n_components, n_init=1, random_state=seed).fit_predict(points)
    fairness = {"fair": {"max_gap": GAPS[0]}, "fairer": {"max_gap": GAPS[1]}, "unfair": {"fairness_weight": 0.0}}[kind]
    if len(groups.names) == 1:
        fairness, groups = {"fairness_weight": 0.0}, None
    categorical = np.arange(x.shape[1] + codes.shape[1]) >= x.shape[1]
    settings = {"categorical_features": categorical, "covariance_type": "diag", **fairness}
    engine = FairMixture(n_components, n_init=1, random_state=seed, **settings)  # starts need no accuracy
    with warnings.catch_warnings():  # a start may be unconverged or less fair than asked
        warnings.simplefilter("ignore")
        return engine.fit(np.hstack([x, codes]), sensitive_features=groups).labels_


def sites_of_partition(labels, x, codes, family: Family, units: ColumnUnits, n_components):
    """The sites' values at the moments of a partition (N,), shrunk towards the whole table's to avoid extremes."""
    one = np.eye(n_components)[labels]
    size = one.sum(0)
    share = (one + 1.0 / len(labels)) / (size + 1.0)
    sites = {"weights": (size + 1) / (size + 1).sum()}
    if x.shape[1]:
        mean = share.T @ x
        sites["means"] = mean
        within = np.stack([(share[:, k, None] * (x - mean[k])).T @ (x - mean[k]) for k in range(n_components)])
        within += 1e-2 * np.diag(np.asarray(units.spread) ** 2)
        sites |= _spread(family.covariance_type, within, sites["weights"])
    for j, n in enumerate(family.n_levels):
        counts = one.T @ np.eye(n)[codes[:, j]] + 1
        sites[f"levels_{j}"] = counts / counts.sum(1, keepdims=True)
    return {name: on_device(value, float) for name, value in sites.items()}


def _spread(covariance_type, within, weights):
    variance = np.diagonal(within, axis1=1, axis2=2)
    if covariance_type == "isotropic":
        return {"scales": np.sqrt(weights @ variance.mean(1))}
    scales = np.sqrt(variance)
    if covariance_type == "diag" or within.shape[1] == 1:
        return {"scales": scales}
    correlation = within / (scales[:, :, None] * scales[:, None, :])
    correlation = 0.9 * correlation + 0.1 * np.eye(within.shape[1])
    return {"scales": scales, "correlation_cholesky": np.linalg.cholesky(correlation)}
