"""Fairlets first, k-means second: the baseline of Chierichetti et al. (2017) with optimal fairlets."""

import numpy as np

from bayesfair._check import check_integer
from bayesfair.engines.base import Engine
from bayesfair.fairlets import decompose

__all__ = ["FairletKMeans", "cluster_fairlets"]


class FairletKMeans(Engine):
    """k-means on the centres of an optimal fairlet decomposition: clusters are unions of whole fairlets.

    Parameters
    ----------
    n_clusters: K. composition: members of each group per fairlet, see `bayesfair.fairlets.capacities`.
    n_init, max_iter, tol: of scikit-learn's `KMeans` on the fairlets' centres, weighted by their sizes.

    Attributes
    ----------
    labels_ (N,), cluster_centers_ (K, d): means of the observations. inertia_: their sum of squared distances.
    decomposition_: the `bayesfair.fairlets.Decomposition`, with its optimality proof or gap. objective_trace_: the
    k-means objective of the fairlets at the end, the one value that scikit-learn tells. n_iter_, converged_.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.FairletKMeans(2, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> bf.fairness.balance(est.labels_, data.sensitive)
    1.0
    """

    def __init__(self, n_clusters=4, *, composition="auto", n_init=10, max_iter=300, tol=1e-4, random_state=None):
        self.n_clusters = n_clusters
        self.composition = composition
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y=None, *, sensitive_features=None):
        """Cluster a table X (N, d) whose groups are `sensitive_features` (N,) or (N, q); None warns and is plain k-means.

        Raises
        ------
        TypeError, ValueError: bad tables or settings; the message names the argument, the rule and the remedy.
        """
        data = self._data(X, sensitive_features, self.n_clusters)
        self.decomposition_ = None
        fairlet = np.arange(len(data.X))
        if len(data.groups.names) > 1:
            self.decomposition_ = decompose(data.X, data.groups.code, self.composition, random_state=data.seed)
            fairlet = self.decomposition_.fairlet
        settings = {"n_init": self.n_init, "max_iter": self.max_iter, "tol": self.tol}
        fit = cluster_fairlets(data.X, fairlet, self.n_clusters, random_state=data.seed, **settings)
        self.labels_ = fit.labels_[fairlet]
        centers = [data.X[self.labels_ == k].mean(0) for k in range(self.n_clusters)]
        self.cluster_centers_ = np.stack(centers)
        self.inertia_ = float(((data.X - self.cluster_centers_[self.labels_]) ** 2).sum())
        self.n_iter_, self.objective_trace_ = fit.n_iter_, np.array([fit.inertia_])
        self.converged_ = fit.n_iter_ < self.max_iter
        return self

    def _assign(self, X):
        from sklearn.metrics import pairwise_distances_argmin

        return pairwise_distances_argmin(X, self.cluster_centers_)


def cluster_fairlets(X, fairlet, n_clusters, **settings):
    """scikit-learn's KMeans fitted to the fairlets' centres, weighted by their sizes; `fairlet` (N,) numbers them."""
    from sklearn.cluster import KMeans

    size = np.bincount(fairlet)
    remedy = f"There are {len(size)} fairlets: ask for fewer clusters or smaller fairlets."
    check_integer("n_clusters", n_clusters, maximum=len(size), remedy=remedy)
    centers = np.stack([np.bincount(fairlet, column) for column in X.T], 1) / size[:, None]
    return KMeans(n_clusters, **settings).fit(centers, sample_weight=size)
