"""What the five estimators share: their data, how a run's outcome is told, prediction."""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesfair._check import check_integer, check_same_index, message
from bayesfair._units import Scaling
from bayesfair.engines.optimize import Outcome, converged_or_warn
from bayesfair.engines.tables import read_table
from bayesfair.fairness import Groups, groups_for_fit

__all__ = ["Data", "Engine", "check_distinct", "kmeans_centers", "nearest_center", "relocate_empty", "warn_of_work"]

LONG = 60.0  # seconds of work that a user is warned of

FARTHEST = 1e150  # from the middle of the training rows, in units of their spread: squares are finite


class Data(NamedTuple):
    """A checked table, its groups and the names of its columns; `seed` drives everything random in a fit."""

    X: Float[np.ndarray, "obs dim"]
    groups: Groups
    seed: int
    names: list | None = None


class Engine(ClusterMixin, BaseEstimator):
    """A clustering estimator that takes `sensitive_features`; subclasses write `fit` and `_assign`."""

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    def _data(
        self, X, sensitive_features, n_clusters, name="n_clusters", *, fair=True, allow_nan=False, **merging
    ) -> Data:
        """X as float64, groups and a seed. `fair=False`: groups are not used, so that leaving them out is silent.

        `merging`: of small groups, as `groups_for_fit` takes it.
        """
        check_same_index("sensitive_features", sensitive_features, "X", X)
        X, names = read_table(self, X, reset=True, allow_nan=allow_nan)
        return self._data_of(X, sensitive_features, n_clusters, name, fair=fair, names=names, **merging)

    def _data_of(self, X, sensitive_features, n_clusters, name, *, fair=True, names=None, **merging) -> Data:
        """`_data`, of a table that has been checked."""
        if fair or sensitive_features is not None:
            groups = groups_for_fit(sensitive_features, len(X), **merging)
        else:
            groups = Groups(np.zeros(len(X), np.int32), ("everyone",))
        remedy = f"There are {len(X)} rows (n_samples = {len(X)}): ask for fewer."
        check_integer(name, n_clusters, maximum=len(X), remedy=remedy)
        return Data(X, groups, int(check_random_state(self.random_state).randint(2**31 - 1)), names)

    def _record(self, outcome: Outcome, remedy, sign=1):
        """n_iter_, converged_, objective_trace_ (of `sign` times the loss) from one run; warns if it did not converge."""
        self.n_iter_ = outcome.n_iter
        self.objective_trace_ = sign * np.asarray(outcome.trace, np.float64)
        self.converged_ = converged_or_warn(outcome, self, remedy)

    def predict(self, X):
        """The cluster of every row, int (N,); row by row, so that balance is not promised for new rows."""
        check_is_fitted(self)
        return self._assign(read_table(self, X, reset=False)[0])


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


def warn_of_work(estimator, why, seconds, remedy):
    """A RuntimeWarning before a fit that may take longer than anybody expects."""
    if seconds > LONG:
        much = f"{seconds:.0f} seconds" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
        what = f"{why} may take about {much} on one core"
        warnings.warn(f"{type(estimator).__name__}: {what}. Remedy: {remedy}.", RuntimeWarning, stacklevel=4)


def nearest_center(X, centers, units: Scaling):
    """The centre (clusters, dim) nearest to every row (obs, dim), both in the units of X.

    Raises
    ------
    ValueError: a row so far from the training rows, measured in their spread, that squared distances overflow.
    """
    from sklearn.metrics import pairwise_distances_argmin

    rows = units.rows(X)
    if np.abs(rows).max() > FARTHEST:
        row, column = np.unravel_index(np.abs(rows).argmax(), rows.shape)
        rule, got = "be near the rows of the fit", f"{X[row, column]:.3g} at row {row}, column {column}"
        raise ValueError(message("X", rule, got, "Correct that entry, or use the units of the fit."))
    return pairwise_distances_argmin(rows, units.rows(centers))


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
