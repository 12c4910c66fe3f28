"""What the five estimators share: their data, how a run's outcome is told, prediction."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesfair._check import check_integer, message
from bayesfair.engines.optimize import Outcome, converged_or_warn
from bayesfair.fairness import Groups, groups_for_fit

__all__ = ["Data", "Engine", "check_distinct", "kmeans_centers", "relocate_empty"]


class Data(NamedTuple):
    """A checked table and its groups; `seed` drives everything random in a fit."""

    X: Float[np.ndarray, "obs dim"]
    groups: Groups
    seed: int


class Engine(ClusterMixin, BaseEstimator):
    """A clustering estimator that takes `sensitive_features`; subclasses write `fit` and `_assign`."""

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    def _data(self, X, sensitive_features, n_clusters, name="n_clusters", *, fair=True, **options) -> Data:
        """X as float64, groups and a seed. `fair=False`: groups are not used, so that leaving them out is silent."""
        X = validate_data(self, X, dtype=np.float64, order="C", **options)
        return self._data_of(X, sensitive_features, n_clusters, name, fair=fair)

    def _data_of(self, X, sensitive_features, n_clusters, name, *, fair=True) -> Data:
        """`_data`, of a table that has been checked."""
        if fair or sensitive_features is not None:
            groups = groups_for_fit(sensitive_features, len(X))
        else:
            groups = Groups(np.zeros(len(X), np.int32), ("everyone",))
        remedy = f"There are {len(X)} rows (n_samples = {len(X)}): ask for fewer."
        check_integer(name, n_clusters, maximum=len(X), remedy=remedy)
        return Data(X, groups, int(check_random_state(self.random_state).randint(2**31 - 1)))

    def _record(self, outcome: Outcome, remedy, sign=1):
        """n_iter_, converged_, objective_trace_ (of `sign` times the loss) from one run; warns if it did not converge."""
        self.n_iter_ = outcome.n_iter
        self.objective_trace_ = sign * np.asarray(outcome.trace, np.float64)
        self.converged_ = converged_or_warn(outcome, self, remedy)

    def predict(self, X):
        """The cluster of every row, int (N,); row by row, so that balance is not promised for new rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._assign(X)


def check_distinct(X, n_clusters):
    """ValueError where X has fewer distinct rows than clusters."""
    n_distinct = len(np.unique(X[: max(1000, 10 * n_clusters)], axis=0))
    if n_distinct >= n_clusters:
        return
    n_distinct = len(np.unique(X, axis=0))
    if n_distinct < n_clusters:
        rule, remedy = (
            f"be at most the number of distinct rows, {n_distinct}",
            "Ask for fewer, or look why rows repeat.",
        )
        raise ValueError(message("n_clusters", rule, n_clusters, remedy))


def kmeans_centers(X, n_clusters, seed, n_init=1):
    """Centres (n_init, n_clusters, dim) of k-means++ restarts, best first: where the engines start."""
    from sklearn.cluster import KMeans

    check_distinct(X, n_clusters)
    rng = np.random.RandomState(seed)
    fits = [KMeans(n_clusters, n_init=1, random_state=rng.randint(2**31 - 1)).fit(X) for _ in range(n_init)]
    return np.stack([fit.cluster_centers_ for fit in sorted(fits, key=lambda fit: fit.inertia_)])


def relocate_empty(labels, cost):
    """Labels with every cluster of `cost` (obs, clusters) used: an empty one takes the row that suits its own least.

    Rows alone in their cluster stay, so that no cluster is emptied to fill another.
    """
    labels = np.array(labels)
    for empty in np.setdiff1d(np.arange(cost.shape[1]), labels):
        own = cost[np.arange(len(labels)), labels]
        alone = np.bincount(labels, minlength=cost.shape[1])[labels] == 1
        labels[np.argmax(np.where(alone, -np.inf, own))] = empty
    return labels
