"""The baseline of Chierichetti et al. (2017) with optimal fairlets: k-means on the centres of fairlets."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import distinct_places
from bayesfair._check import check_integer, message, refuse_unread
from bayesfair._memory import give_back_freed
from bayesfair._progress import one_step
from bayesfair._scaling import scaling_of, warn_of_scales
from bayesfair._settings import Count, Length, NotNegative, Seed
from bayesfair.engines.base import Engine
from bayesfair.engines.data import Data
from bayesfair.engines.hard_clusters import cost_of, means_of
from bayesfair.engines.optimize import Outcome
from bayesfair.fairlets.decomposition import Decomposition, decompose
from bayesfair.fairlets.members import fairlet_centers


@dataclass(eq=False, repr=False)
class FairletKMeans(Engine):
    """k-means on the centres of an optimal fairlet decomposition: clusters are unions of whole fairlets.

    Parameters
    ----------
    n_clusters : int, at least 1, default 4
        Number of clusters.
    composition : "auto", "singletons", dict, int or array-like, default "auto"
        Members of each group in each fairlet, see `bayesfair.fairlets.decompose`. "singletons" is k-means without
        fairness.
    min_group_size : int, at least 1, optional
        Groups of fewer rows are merged first, see `bayesfair.fairness.merge_small_groups`. By default none are.
    merged_group_name : str, default "other"
        Name of the merged group.
    exact_up_to : int, at least 0, default 50_000
        Most rows for which the decomposition is optimal and proved to be. Larger tables get a cheap one without proof.
    n_init : int, at least 1, default 10
        Starts of scikit-learn's `KMeans` on the centres of the fairlets, weighted by their sizes.
    max_iter : int, at least 1, default 300
        Most iterations of a start.
    tol : float, at least 0, default 1e-4
        Tolerance of `KMeans`.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable.
    progress_bar : bool, default False
        Whether to show that fairlets are being searched, which takes most of the time.

    Attributes
    ----------
    labels_ : numpy.ndarray of shape (n_obs,)
        The cluster of every row.
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        Means of the rows of the clusters.
    inertia_ : float
        Sum of squared distances of the rows to their centres.
    decomposition_ : Decomposition
        The fairlets, with the proof that they are optimal or the gap.
    objective_trace_ : numpy.ndarray of shape (1,)
        The k-means objective of the fairlets at the end, the one value that scikit-learn reports.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether the best start ended before `max_iter`.

    Notes
    -----
    A row is in one fairlet, whatever it weighs. `sample_weight` weighs what fairlets and clusters cost; compositions count
    rows. Rows of weight 0 are in no fairlet.

    References
    ----------
    Chierichetti, Kumar, Lattanzi and Vassilvitskii (2017), Fair Clustering Through Fairlets. The Gibbs paper, eq. (2).

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.FairletKMeans(2, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> bf.fairness.balance(est.labels_, data.sensitive)
    1.0
    """

    weights = "loss"

    cluster_centers_: np.ndarray = field(init=False)
    decomposition_: Decomposition = field(init=False)
    inertia_: float = field(init=False)

    n_clusters: Count = 4
    _: KW_ONLY
    composition: Mapping | ArrayLike = "auto"
    min_group_size: Count | None = None
    merged_group_name: str = "other"
    exact_up_to: Length = 50_000
    n_init: Count = 10
    max_iter: Count = 300
    tol: NotNegative = 1e-4
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False

    def check_settings(self):
        if isinstance(self.composition, str) and self.composition == "singletons":
            refuse_unread(self, "exact_up_to", "min_group_size", where="if composition is 'singletons'")

    def problem(self, data):
        # `scaling` names the column in its errors.
        self._scaling = scaling_of(data.X, names=data.columns.names, weight=data.weight)
        warn_of_scales(data.X, data.columns.names)
        with one_step("fairlets", self.progress_bar):
            self.decomposition_ = fairlets_of(data, self.composition, self.exact_up_to)
        return self._fairlet_centers(data)

    def _fairlet_centers(self, data):
        """Centres of fairlets (fairlets, dim) in the rows' own units and dtype; the table is read column by column."""
        fairlet, scaling, weight = self.decomposition_.fairlet, self._scaling, data.weight
        centers = np.empty((len(self.decomposition_.composition), data.X.shape[1]), data.X.dtype)
        for j in range(data.X.shape[1]):
            here = slice(j, j + 1)
            column = scaling._replace(middle=scaling.middle[here]).rows(data.X[:, here])
            centers[:, here] = fairlet_centers(column, fairlet, weight)
        give_back_freed()
        return centers

    def solve(self, centers, data):
        """scikit-learn's KMeans; the outcome is that of its best run."""
        settings = {name: getattr(self, name) for name in ("n_init", "max_iter", "tol")}
        size = np.bincount(self.decomposition_.fairlet, data.given_weight)
        fit = _clustered(centers, size, self.n_clusters, random_state=data.seed, copy_x=False, **settings)
        status = Outcome.CONVERGED if fit.n_iter_ < self.max_iter else Outcome.RUNNING
        return Outcome(fit, fit.inertia_, np.array([fit.inertia_]), fit.n_iter_, status)

    def set_attributes(self, outcome, centers, data):
        fit = outcome.state
        self.labels_ = fit.labels_[self.decomposition_.fairlet]
        rows = data, self._scaling, self.labels_
        means = means_of(*rows, fit.cluster_centers_)
        self.cluster_centers_ = self._scaling.points(means)
        self.inertia_ = float(self._scaling.cost(cost_of(*rows, means, 2)))

    def objective_of(self, losses):
        return self._scaling.cost(losses)


def fairlets_of(data: Data, composition, exact_up_to=50_000) -> Decomposition:
    """The decomposition of a table, optimal up to `exact_up_to` rows; singletons for "singletons" or without groups."""
    n_groups = len(data.groups.names)
    if n_groups > 1 and not (isinstance(composition, str) and composition == "singletons"):
        given = data.given_weight
        weight = None if given is None or (given == 1).all() else given
        settings = {"exact_up_to": exact_up_to, "random_state": data.seed, "sample_weight": weight}
        return decompose(data.X, data.groups, composition, **settings)
    alone = np.eye(n_groups, dtype=np.int64)[data.groups.code]
    return Decomposition(np.arange(len(alone), dtype=np.int32), alone, 0.0, 0.0, n_groups == 1)


def cluster_fairlets(X, fairlet, n_clusters, sample_weight=None, **settings):
    """scikit-learn's KMeans fitted to the centres of fairlets (N,), each of the weight of its rows."""
    size = np.bincount(fairlet, sample_weight)
    return _clustered(fairlet_centers(X, fairlet, sample_weight), size, n_clusters, **settings)


def _clustered(centers, size, n_clusters, **settings):
    """KMeans fitted to centres (fairlets, dim) of fairlets of these sizes."""
    from sklearn.cluster import KMeans

    remedy = f"There are {len(size)} fairlets: ask for fewer clusters or smaller fairlets."
    check_integer("n_clusters", n_clusters, maximum=len(size), remedy=remedy)
    n_distinct = len(distinct_places(centers.__getitem__, n_clusters))
    if n_clusters > n_distinct:
        rule = f"be at most the number of distinct fairlet centres, {n_distinct}"
        raise ValueError(message("n_clusters", rule, n_clusters, "Ask for fewer, or check why rows repeat."))
    return KMeans(n_clusters, **settings).fit(centers, sample_weight=size)
