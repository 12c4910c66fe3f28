"""The cheapest k-means whose clusters are balanced, without fairlets; `bayesfair.balanced.labels` searches."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np

from bayesfair._arrays import MANY, cell_masses
from bayesfair._scaling import Scaling, check_float32, warn_of_scales
from bayesfair._settings import Count, Positive, Seed
from bayesfair._tables import check_distinct
from bayesfair.balanced.centroids import CENTROIDS, Centroids
from bayesfair.balanced.labels import cheapest_labels
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.engines.base import Engine, nearest_center
from bayesfair.engines.optimize import Outcome
from bayesfair.fairlets.dissimilarity import resolve_dissimilarity
from bayesfair.fairness.balanced import balance_constraint


@dataclass(eq=False, repr=False)
class BalancedKMeans(Engine):
    """k-means over the labellings whose every cluster is balanced.

    Rows are labelled directly, without fairlets: every labelling on the way is balanced.

    Parameters
    ----------
    n_clusters : int, at least 1, default 10
        Number of clusters, all of which are used.
    min_balance : "exact" or float above zero, default "exact"
        "exact": in every cluster each group's count differs by less than one row from its share of the data. A number:
        the least balance of every cluster, at most the balance of the data.
    crossed : bool, default True
        Whether combinations of several sensitive columns are balanced beside every column on its own. If no counts are
        found that have every combination within one row of its share too, combinations are as near to it as they can be.
        False balances every column on its own, which is weaker.
    size_min : int, at least 1, or sequence of int, optional
        The least rows of a cluster, beside its balance: one number for all clusters, or one for each. Which rows make the
        cluster of which bound is sought like everything else. Sizes that no balanced labelling has are refused, and the
        message gives the nearest ones that it has.
    size_max : int, at least 1, or sequence of int, optional
        The most rows of a cluster, like `size_min`.
    loss : {"kmeans", "manhattan", "kl", "itakura-saito", "binary"}, default "kmeans"
        "manhattan" is the sum of absolute differences to the medians of the clusters. "kl", "itakura-saito" and "binary"
        are Bregman divergences to the means of the clusters.
    min_group_size : int, at least 1, optional
        Groups of fewer rows are merged first, see `bayesfair.fairness.merge_small_groups`. By default none are.
    merged_group_name : str, default "other"
        Name of the merged group.
    n_init : int, at least 1, default 8
        Starts from one point, and as many from k-means++. They are cooled together and then recombined.
    max_iter : int, at least 1, default 300
        Most rounds of transport, and most passes of the descent.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable.
    progress_bar : bool, default False
        Whether to show a progress bar.

    Attributes
    ----------
    labels_ : numpy.ndarray of shape (n_obs,)
        The cluster of every row.
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        Means of the clusters, or medians for "manhattan".
    inertia_ : float
        The loss of `labels_`.
    counts_ : numpy.ndarray of shape (n_clusters, n_groups)
        Rows of every group in every cluster. Groups are crossed if there are several attributes.
    group_names_ : tuple of str
        The groups, in the order of the columns of `counts_`.
    objective_trace_ : numpy.ndarray
        The loss on the way, which never rises.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the labels are a local optimum.

    Notes
    -----
    A number for `min_balance` starts from labels that are exactly balanced. In tables of up to 1,000 rows the labels
    found at 0.9, 0.8, 0.6, 0.4 and 0.2 of the balance of the data, where these are tighter, are starts as well. With the
    same `random_state` none of them costs less than the result. Such a fit takes several times longer.

    Balance and sizes count rows: `sample_weight` weighs the loss only, and a row of weight 2 has one place. `predict` looks
    at one row after the other, and keeps neither balance nor sizes.

    For "kmeans" a local optimum is one that no single move and no swap improves, among the 4,096 rows on either side that
    are cheapest to move. For other losses, and for rows with weights, only the cheapest pairs are tried as swaps.
    "manhattan" takes the medians as they are.

    References
    ----------
    FMC, eq. (3), for balance.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic(unequal=True)
    >>> est = bf.BalancedKMeans(2, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> est.counts_.tolist()
    [[150, 50], [150, 50]]
    """

    weights = "loss"
    remedy = "raise max_iter."

    cluster_centers_: np.ndarray = field(init=False)
    inertia_: float = field(init=False)

    n_clusters: Count = 10
    _: KW_ONLY
    min_balance: Literal["exact"] | Positive = "exact"
    crossed: bool = True
    size_min: Count | Sequence[int] | np.ndarray | None = None
    size_max: Count | Sequence[int] | np.ndarray | None = None
    loss: Literal["kmeans", "manhattan", "kl", "itakura-saito", "binary"] = "kmeans"
    min_group_size: Count | None = None
    merged_group_name: str = "other"
    n_init: Count = 8
    max_iter: Count = 300
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False

    def problem(self, data) -> BalancedProblem:
        centroids = CENTROIDS[self.loss]
        self._loss = self.loss  # places new rows, even if set_params changes `loss` later
        Z = self._scaled(data, centroids)
        check_distinct(Z, self.n_clusters)
        bounds = {"size_min": self.size_min, "size_max": self.size_max}
        constraint = balance_constraint(data.groups, self.min_balance, self.n_clusters, **bounds)
        return BalancedProblem(Z, data.groups.code, data.relative_weight, constraint, centroids, self.n_clusters)

    def _scaled(self, data, centroids: Centroids):
        """Rows in units near their spread if that changes units alone, else float64: potentials nearly cancel."""
        if centroids.degree:
            dtype = np.float64 if len(data.X) < MANY else np.float32
            Z = self.standardised(data, precision=np.float32, dtype=dtype, degree=centroids.degree)
            warn_of_scales(data.X, data.columns.names)
            return Z
        resolve_dissimilarity(self.loss).check(data.X)
        check_float32(data.X, names=data.columns.names)
        self._scaling = Scaling(np.zeros(data.X.shape[1]), 0)
        return np.asarray(data.X, np.float64)

    def solve(self, problem: BalancedProblem, data) -> Outcome:
        settings = {"max_iter": self.max_iter, "progress_bar": self.progress_bar}
        found = cheapest_labels(problem, self.n_init, data.seed, **settings)
        ended = Outcome.INTERRUPTED if found.interrupted else Outcome.RUNNING
        status = Outcome.CONVERGED if found.optimal else ended
        trace = found.trace * (data.total_weight / len(data.X))
        return Outcome(found.labels.astype(int), trace[-1], trace, len(trace), status)

    def set_attributes(self, outcome, problem: BalancedProblem, data):
        self.labels_ = outcome.state
        centers = problem.loss.centers(problem.X, self.labels_, self.n_clusters, problem.weight)
        self.cluster_centers_ = self._scaling.points(centers)
        self.inertia_ = float(self.objective_of(outcome.loss))
        self.group_names_ = data.groups.names
        self.counts_ = cell_masses(self.labels_, data.groups.code, (self.n_clusters, len(self.group_names_)))

    def objective_of(self, losses):
        return self._scaling.cost(losses, CENTROIDS[self._loss].degree)

    def assign(self, columns):
        rows, centroids = self._scaling.rows(columns.continuous), CENTROIDS[self._loss]
        if self._loss == "kmeans":
            return nearest_center(columns.continuous, self.cluster_centers_, self._scaling)
        if self._loss == "manhattan":
            return centroids.distances(rows, self._scaling.rows(self.cluster_centers_)).argmin(1)
        resolve_dissimilarity(self._loss).check(columns.continuous)
        unit, _ = centroids.scale(self.cluster_centers_)
        return centroids.distances(rows / unit, self.cluster_centers_ / unit).argmin(1)
