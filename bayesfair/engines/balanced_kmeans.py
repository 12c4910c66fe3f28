"""The cheapest k-means whose clusters are balanced, exactly or to a Balance asked for, without fairlets.

Deterministic annealing with the groups' duals, from one point and from k-means++, recombination of its starts, exact
transport at whole counts, and a descent that ends where no person, no two people of one group who change places and no bundle
in the groups' ratio is better placed elsewhere; see `bayesfair.balanced.cheapest_labels`.
"""

from typing import Literal

import jax
import numpy as np

from bayesfair._arrays import MANY, cell_masses
from bayesfair._check import refuse_unread
from bayesfair._scaling import Scaling, check_float32, warn_of_scales
from bayesfair._settings import Count, Positive, Seed
from bayesfair.balanced.centroids import CENTROIDS, Centroids
from bayesfair.balanced.labels import cheapest_labels
from bayesfair.balanced.problem import BalancedProblem
from bayesfair.distributed.processes import WHY_NO_ROWS
from bayesfair.engines.base import Engine, check_distinct, nearest_center
from bayesfair.engines.optimize import Outcome
from bayesfair.fairlets.dissimilarity import resolve_dissimilarity
from bayesfair.fairness.balanced import balance_constraint


class BalancedKMeans(Engine):
    """k-means over the labellings whose every cluster is balanced (DESIGN.md, section 2.6).

    Parameters
    ----------
    n_clusters: K, all of which are used.
    min_balance: "exact", |n_gk - pi_g n_k| < 1 for every group g and cluster k, pi_g its share of the data; or a number
        in (0, the data's own Balance]: the least n_gk / n_hk over clusters and pairs of groups.
    crossed: whether several sensitive columns are crossed into one group code; False balances every column on its own,
        a weaker wish.
    loss: "kmeans"; "manhattan", the sum of absolute differences to the clusters' medians; "kl", "itakura-saito" or
        "binary", the Bregman divergences of `bayesfair.fairlets.resolve_dissimilarity` to the clusters' means.
    min_group_size, merged_group_name: groups of fewer rows become one group of that name first, see
        `bayesfair.fairness.merge_small_groups`; None merges nothing.
    n_init: starts from one point, and as many from k-means++, which cool together and are then recombined.
    max_iter: of transports and passes of the descent.
    random_state: an int makes runs repeatable. progress_bar: show one.
    mesh: None. One process fits all rows: 24 GiB hold some 80 million of them.

    A number for `min_balance` begins its search under exact balance. For tables of up to 1,000 rows the labels found at 0.9,
    0.8, 0.6, 0.4 and 0.2 of the data's own Balance, as far as these are tighter, are starts as well: with the same
    `random_state` none of those costs less. A fit of such a table takes as many times longer.

    Whole people have a place here, and a row of weight 2 has one place, not two: `sample_weight` weighs the loss alone, and
    balance, `counts_` and `min_balance` count rows.

    Attributes
    ----------
    labels_ (N,). cluster_centers_ (K, d): means (medians) of the clusters. inertia_: the loss of labels_. counts_: int
    (K, J), the members of every group, crossed ones where there are several attributes, in the order of group_names_.
    objective_trace_: the loss of whole people's labels, which never rises. n_iter_. converged_: whether the labels are a
    local optimum: for "kmeans" every single and every swap that could gain were tried, but of a group and pair of clusters no
    more than the 4,096 people on either side who are cheapest to move; of other losses and of rows of several weights no swaps
    but the cheapest pairs; bundles of the people who are cheapest to move; "manhattan" at the medians as they are.

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

    cluster_centers_: np.ndarray
    inertia_: float

    def __init__(
        self,
        n_clusters: Count = 10,
        *,
        min_balance: Literal["exact"] | Positive = "exact",
        crossed: bool = True,
        loss: Literal["kmeans", "manhattan", "kl", "itakura-saito", "binary"] = "kmeans",
        min_group_size: Count | None = None,
        merged_group_name: str = "other",
        n_init: Count = 8,
        max_iter: Count = 300,
        random_state: Seed | np.random.RandomState | None = None,
        progress_bar: bool = False,
        mesh: jax.sharding.Mesh | None = None,
    ):
        self.n_clusters = n_clusters
        self.min_balance = min_balance
        self.crossed = crossed
        self.loss = loss
        self.min_group_size = min_group_size
        self.merged_group_name = merged_group_name
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress_bar = progress_bar
        self.mesh = mesh

    def check_settings(self):
        refuse_unread(self, "mesh", where="of BalancedKMeans", why=WHY_NO_ROWS)

    def problem(self, data) -> BalancedProblem:
        centroids = CENTROIDS[self.loss]
        self._loss = self.loss  # by which new rows are placed, whatever set_params changes
        Z = self._scaled(data, centroids)
        check_distinct(Z, self.n_clusters)
        constraint = balance_constraint(data.groups, self.min_balance, self.n_clusters)
        return BalancedProblem(Z, data.groups.code, data.relative_weight, constraint, centroids, self.n_clusters)

    def _scaled(self, data, centroids: Centroids):
        """Rows near their spread where that changes nothing but the units; as they are, in float64, for the other divergences:
        what rows pay is a small difference of their potentials."""
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
        status = Outcome.CONVERGED if found.optimal else Outcome.RUNNING
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
