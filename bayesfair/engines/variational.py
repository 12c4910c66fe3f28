"""`VariationalFairClustering` (VFC) behind scikit-learn's interface; the method is in `vfc`."""

from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, Literal, Self

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from bayesfair._affinities import (
    POWERS,
    Nodes,
    check_node_names,
    groups_of_nodes,
    is_graph,
    nearest_neighbors,
    nodes_of_graph,
    nodes_of_matrix,
    spectral_points,
)
from bayesfair._check import Refusal, check_same_rows, message, refuse_unread, tell
from bayesfair._jit import jit
from bayesfair._names import Graph, csr_array
from bayesfair._scaling import Scaling, scaling_of, warn_of_scales
from bayesfair._settings import Count, NotNegative, Seed
from bayesfair._tables import check_distinct
from bayesfair.distributed.messages import agreed, leads
from bayesfair.engines.base import Engine, kmeans_centers
from bayesfair.engines.data import FEWEST, free, stratified, weights_as_of_all
from bayesfair.engines.hard_clusters import cost_of, means_of, medians_of
from bayesfair.engines.optimize import NOTHING, Outcome, first_accepted
from bayesfair.engines.vfc import (
    FLOOR,
    NEIGHBOURS,
    OBJECTIVES,
    START,
    Descent,
    NormalizedCut,
    SoftRows,
    TargetedRows,
    cost_per_row,
    links_of,
    start_states,
)
from bayesfair.fairness.groups import Groups, refuse_groups_as_y
from bayesfair.fairness.metrics import check_target, cluster_kl

RESTARTS = 10  # of k-means; the best `n_init` are starts, further starts are random rows
FEW_ROWS, STARTS_OF_FEW, STARTS = 4096, 20, 2  # up to FEW_ROWS rows, more restarts are starts: they take little time
LARGEST_WEIGHT = 1e12  # of the fairness term, in costs per row: far below it float32 already loses the cost
PATH, FINE_PATH = 6, 4  # weights on the path; steps between the last unfair and the first fair one
BATCH_ELEMENTS = 2**25  # elements of all soft assignments that advance together
EXPLORE_ROWS = 2**15  # rows that are explored if the table is more than one block
BLOCK = 8192  # rows
ENOUGH = 1000  # least number of rows of a group among them, or the whole group if it is smaller
HEAVIER = 1.0, 1.1, 1.25, 1.5, 2.0, 3.0  # weights tried on all rows, relative to the one that was fair enough on a part

cut_of = jit(NormalizedCut.finished)


@dataclass(eq=False, repr=False)
class VariationalFairClustering(Engine):
    """k-means, k-medians or normalised cut with a Kullback-Leibler penalty on unfair clusters.

    Parameters
    ----------
    n_clusters : int, at least 1, default 10
        Number of clusters.
    objective : {"kmeans", "kmedians", "ncut"}, default "kmeans"
        "kmedians" is the Euclidean distance to geometric medians. "ncut" is the normalised cut of a sparse affinity.
    affinity : {"nearest_neighbors", "precomputed"}, default "nearest_neighbors"
        For objective="ncut". "nearest_neighbors" makes the affinity of a table: (w + w') / 2, where w = 1 if one row is
        among the nearest of the other. With "precomputed", X is an affinity, see `fit`. A graph is its own affinity.
    n_neighbors : int, at least 1, default 20
        How many nearest rows the affinity of a table has; all others if the table has fewer.
    fairness_weight : float, at least 0, optional
        Weight of the penalty against the cost per row (against the cut as it is); the paper's lambda divided by N. By
        default the cost per row with the centres of k-means, without fairness, or 1 for "ncut". If k-means costs less than a
        thousandth of one cluster, as it does on a few points with many copies, the default is about the cost of one cluster.
    max_fairness_error : float, at least 0, optional
        Instead of a weight: take the smallest weight of a path whose hard clusters have at most this penalty, in nats.
    target_proportions : dict or array-like of shape (n_groups,), optional
        The wanted proportions: {group: proportion}, or in the order of the groups. By default those of the data.
    n_init : int, at least 1, optional
        Starts, run together at every weight: the best of ten restarts of k-means, and random rows from the eleventh on.
        By default 20 for up to 4,096 rows, else 2.
    max_iter : int, at least 1, default 300
        Most iterations of a run.
    tol : float, at least 0, default 1e-5
        A run ends when the objective changes by less than this share of its size and no assignment is worth changing. An
        objective below a thousandth of the cost of one cluster counts as that thousandth.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable.
    progress_bar : bool, default False
        Whether to show a progress bar.
    mesh : jax.sharding.Mesh, optional
        A `bayesfair.distributed.mesh` of rows: processes that each fit rows of their own, see `distributed.deal`; not for
        objective="ncut". The clusters are those of all rows, labels and soft assignments those of the own rows.

    Attributes
    ----------
    labels_ : numpy.ndarray of shape (n_obs,)
        The cluster with the largest soft assignment.
    soft_assignment_ : numpy.ndarray of shape (n_obs, n_clusters)
        Soft assignments. Rows of weight 0 are in the cluster of the nearest centre.
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        The centres. Absent for a graph and for a precomputed affinity: `predict` then raises a ValueError.
    cost_ : float
        The clustering cost of the hard clusters, summed over rows (the cut as it is).
    fairness_error_ : float
        The penalty of the hard clusters, in nats.
    fairness_weight_ : float
        The weight that was used.
    objective_trace_ : numpy.ndarray
        Cost per row plus weighted penalty, which never increases.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the run ended before `max_iter`.

    Notes
    -----
    The result is the run of least objective among those whose hard clusters all hold every group; without any such run,
    that of least objective. With a small `fairness_weight` the clusters can therefore cost more than those of k-means, and
    be fair. "ncut" starts from k-means on the eigenvectors of the affinity, ten times on many of them and ten times on
    few. With more than 131,072 rows the starts run on 32,768 of them and the best goes on with all; this does not hold for
    "ncut".

    References
    ----------
    VFC, eq. (2) to (13) and Table 1.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> est = bf.VariationalFairClustering(2, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> est.labels_.shape
    (400,)

    A graph whose nodes have the attribute "club":

    >>> import networkx as nx
    >>> est = bf.VariationalFairClustering(2, objective="ncut", random_state=0)
    >>> est.fit(nx.karate_club_graph(), sensitive_features="club").labels_.shape
    (34,)
    """

    of_rows = ("labels_", "soft_assignment_")
    patience = 8  # some of these may be refused steps, which change E little
    remedy = "raise max_iter or tol; large fairness weights take longest."

    cluster_centers_: np.ndarray = field(init=False)
    cost_: float = field(init=False)
    fairness_error_: float = field(init=False)
    fairness_weight_: float = field(init=False)

    n_clusters: Count = 10
    _: KW_ONLY
    objective: Literal["kmeans", "kmedians", "ncut"] = "kmeans"
    affinity: Literal["nearest_neighbors", "precomputed"] = "nearest_neighbors"
    n_neighbors: Count = NEIGHBOURS
    fairness_weight: NotNegative | None = None
    max_fairness_error: NotNegative | None = None
    target_proportions: Any = None
    n_init: Count | None = None
    max_iter: Count = 300
    tol: NotNegative = 1e-5
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False
    mesh: jax.sharding.Mesh | None = None

    def fit(
        self,
        X: ArrayLike | csr_array | Graph,
        y=None,
        *,
        sensitive_features: ArrayLike | Groups | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Cluster a table, an affinity or a graph.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features), affinity of shape (n_obs, n_obs) or networkx.Graph
            With objective="ncut" and affinity="precomputed", a symmetric affinity that is not negative; a sparse one stays
            sparse. With objective="ncut", also a graph: its affinity is the attribute `weight` of the edges, 1 where there is
            none. Ties of a row to itself do not count.
        y : None
            Not used.
        sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), Groups or str, optional
            The groups. For a graph, the name of an attribute that all its nodes have, or an array in the order of `list(X)`,
            which is also that of `labels_`. Without groups a warning is issued and clusters are not made fair.
        sample_weight : array-like of shape (n_obs,), optional
            Weights of the rows, as for every engine. They must be above zero for a graph or an affinity.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the table does not hold numbers, or a setting has the wrong type.
        ValueError
            If the table, affinity, graph, groups, weights or a setting are not valid. The message names the argument, the
            rule and the remedy.
        """
        refuse_groups_as_y(y, sensitive_features)
        return self._fit(X, sensitive_features, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        given = self.affinity == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = given
        return tags

    def check_settings(self):
        if self.objective == "ncut":
            one_process = "A cut needs all rows at once, in one process."
            refuse_unread(self, "mesh", where="if objective='ncut'", why=one_process)
        else:
            refuse_unread(self, "affinity", "n_neighbors", where=f"if objective={self.objective!r}")
        if self.affinity == "precomputed":
            refuse_unread(self, "n_neighbors", where="if affinity='precomputed'")
        if self.max_fairness_error is not None:
            refuse_unread(self, "fairness_weight", where="if max_fairness_error is given", why="Give one of the two.")

    def _data(self, X, sensitive_features, sample_weight):
        if is_graph(X):
            if self.objective != "ncut":
                rule = f"be a table if objective={self.objective!r}"
                raise ValueError(message("X", rule, "a graph", "Pass objective='ncut'."))
            refuse_unread(self, "n_neighbors", where="if X is a graph", why="Its edges say which rows are near.")
            check_node_names("sample_weight", sample_weight, X)
            sensitive_features = groups_of_nodes(X, sensitive_features)
            X = nodes_of_graph(X)
        elif self.affinity == "precomputed":
            check_same_rows(X=X, sensitive_features=sensitive_features, sample_weight=sample_weight)
            X = nodes_of_matrix(X)
        return super()._data(X, sensitive_features, sample_weight)

    def read(self, X, *, reset):
        if isinstance(X, Nodes):
            validate_data(self, X.affinity, reset=reset, skip_check_array=True)
            return X
        if not reset and not hasattr(self, "cluster_centers_"):
            what = "Clusters of a graph or of a precomputed affinity have no centres, so new rows cannot be assigned."
            remedy = "read `labels_` for the rows of the fit, or fit old and new rows together."
            raise ValueError(Refusal(f"{what} Remedy: {remedy}"))
        return super().read(X, reset=reset)

    def _weights(self, sample_weight, X, n_obs):
        weight = super()._weights(sample_weight, X, n_obs)
        if isinstance(X, Nodes) and weight is not None and not weight.all():
            rule, got = "be above zero for a graph or an affinity", f"0 at row {weight.argmin()}"
            raise ValueError(message("sample_weight", rule, got, "Drop its row and column, or its node."))
        return weight

    def problem(self, data) -> TargetedRows:
        self._scaling = Scaling(np.zeros(0), 0)
        if not isinstance(data.columns, Nodes):
            whole = {"everybody": data.split.everybody, "weight": data.given_weight}
            settings = {"degree": OBJECTIVES[self.objective].degree, "precision": np.float32, **whole}
            self._scaling = scaling_of(data.X, names=data.columns.names, **settings)
            warn_of_scales(data.X, data.columns.names)
        return self._problem_of(data)

    def _problem_of(self, data) -> TargetedRows:
        split, X, points, links = data.split, data.X, None, ()
        relative = split.n_obs / data.total_weight
        if self.objective == "ncut":
            affinity, weight = self._affinity(data), data.relative_weight
            code, rng = None if self.fairness_weight == 0 else data.groups.code, np.random.default_rng(data.seed)
            points = np.hstack(spectral_points(affinity, weight, self.n_clusters, rng, code))
            links = links_of(affinity, weight)

        def block(some):
            code = data.groups.code[some].astype(np.min_scalar_type(len(data.groups.names)))
            weight = (relative * data.weight_of(some)).astype(np.float32)
            x = self._scaling.rows(X[some]) if points is None else points[some]
            return SoftRows(x.astype(np.float32), code, weight)

        whole = split.placed(np.float32(split.n_obs)), split.placed(self._target(data).astype(np.float32))
        return TargetedRows(data.blocks(block, split.n_obs if self.objective == "ncut" else BLOCK), *whole, links)

    def _affinity(self, data):
        """The affinity (N, N), as given or of nearest neighbours."""
        if isinstance(data.columns, Nodes):
            return data.columns.affinity
        Z = self._scaling.rows(data.X)
        check_distinct(Z, self.n_clusters)
        return nearest_neighbors(Z, self.n_neighbors)

    @property
    def step(self):
        return Descent(self.objective)

    @property
    def unit(self):
        return self.step.unit(self.n_features_in_)

    def _target(self, data):
        return check_target(self.target_proportions, data.groups, data.group_masses, argument="target_proportions")

    def starts(self, problem, data):
        """Centres (n_init, K, dim): the best k-means++ restarts and random rows, as k-means makes starts alike."""
        n_init = self.n_init
        if self.objective == "ncut":
            Z = data.split.in_order(problem.rows.parts.x)
            best = self._centers_by_view(Z, data)
        else:
            Z = self._scaling.rows(data.X)
            best = kmeans_centers(Z, self.n_clusters, data, RESTARTS)
        if n_init is None:
            n_init = STARTS_OF_FEW if len(Z) <= FEW_ROWS else STARTS
        if n_init <= len(best):
            return best[:n_init]
        rng, points = np.random.default_rng(data.seed), np.unique(Z, axis=0)
        further = (rng.choice(points, self.n_clusters, replace=False) for _ in range(n_init - len(best)))
        return np.stack([*best, *further])

    def _centers_by_view(self, Z, data):
        """Centres of restarts in each view of spectral points (obs, views * dim), in turn; zero in the other view."""
        n_views, dim = len(POWERS), Z.shape[1] // len(POWERS)
        centers = np.zeros((RESTARTS, n_views, self.n_clusters, n_views, dim))
        for view in range(n_views):
            own = Z[:, view * dim : (view + 1) * dim]
            centers[:, view, :, view] = kmeans_centers(own, self.n_clusters, data, RESTARTS)
        return centers.reshape(-1, self.n_clusters, n_views * dim)

    def solve(self, problem, data) -> Outcome:
        """The best run at the given weight, or at the smallest one that is fair enough; many rows go on from some of them."""
        if len(problem.rows) == 1:
            return self._solve_on(problem, data)
        some = self._some_of(data)
        found = self._solve_on(self._problem_of(some), some).state
        centers, fairness_weight = agreed((found.centers, found.fairness_weight))
        runs = (self._descend(problem, centers[None], factor * fairness_weight).best for factor in HEAVIER)
        return next(runs) if self.max_fairness_error is None else self._within(runs, data)

    def _within(self, runs, data):
        """The first run whose error is at most `max_fairness_error`."""
        run, beyond = first_accepted(runs, lambda one: max(0.0, self._error(one, data) - self.max_fairness_error))
        if beyond:
            bad = f"{self.max_fairness_error}, but the smallest error found is {self.max_fairness_error + beyond:.3g}"
            remedy = "Raise max_fairness_error, or ask for fewer clusters."
            raise ValueError(message("max_fairness_error", "be reached on the path of weights", bad, remedy))
        return run

    def _some_of(self, data):
        """About EXPLORE_ROWS rows, more if groups are small, with the groups' masses of all rows."""
        code = data.split.groups.code
        enough = max(FEWEST, min(ENOUGH, EXPLORE_ROWS // len(data.groups.names)))
        rows = np.sort(stratified(data.shuffled, code, EXPLORE_ROWS, enough))
        points = lambda columns: self._scaling.rows(columns.continuous)  # noqa: E731
        some = data.sample(rows, self.n_clusters, self.parts, points)
        return some._replace(given_weight=weights_as_of_all(some.groups.code, some.weight, data.group_masses))

    def _error(self, run, data):
        """The Kullback-Leibler error of a run's hard clusters."""
        masses = data.masses_in(self._labels(run, data), self.n_clusters)
        return float(cluster_kl(masses, self._target(data)).sum())

    def _labels(self, run, data):
        """The cluster of largest assignment (obs,). An empty cluster gets one row: the first process moves one of its own."""
        log_s = data.split.in_order(run.state.log_s)
        labels = log_s.argmax(1)
        empty = np.setdiff1d(np.arange(self.n_clusters), data.split.of_all(np.unique(labels)))
        return relocate_empty(labels, -log_s, empty) if len(empty) and leads() else labels

    def _best_of(self, runs, data):
        """The run of least E whose hard clusters have a finite error, or else of least E."""
        ordered = (runs.run(int(at)) for at in runs.order)
        return first_accepted(ordered, lambda one: not np.isfinite(self._error(one, data)))[0]

    def _solve_on(self, problem, data) -> Outcome:
        starts = self.starts(problem, data)
        scale = self._scale(problem, starts[0])
        if self.max_fairness_error is not None:
            return self._fair_enough(problem, starts, data, scale)
        fairness_weight = scale if self.fairness_weight is None else self._scaled_weight(scale)
        others = [START] * len(starts)
        if fairness_weight == 0 and self.objective == "kmeans":
            # k-means' own answer as well: softened, a start may end worse.
            starts, others = np.concatenate([starts, starts]), others + [FLOOR] * len(starts)
        runs = self._descend(problem, starts, fairness_weight, others)
        return self._best_of(runs, data) if fairness_weight > 0 else runs.best

    def _scale(self, problem, centers):
        """The cost per row of the clusters of k-means; about that of one cluster if they cost next to nothing."""
        if self.objective == "ncut":
            return self.unit
        cost = float(cost_per_row(self.step, problem, centers))
        return cost if cost > NOTHING * self.unit else self.unit

    def _scaled_weight(self, scale):
        """`fairness_weight` in units of the solver's rows, whose cost per row is `scale`."""
        with np.errstate(over="ignore"):
            fairness_weight = self._cost(self.fairness_weight, -1)
        if fairness_weight > LARGEST_WEIGHT * scale:
            rule = f"be at most {LARGEST_WEIGHT:.0e} times the cost per row, {self._cost(scale):.3g}"
            remedy = "Rescale the columns of X, or leave fairness_weight out."
            raise ValueError(message("fairness_weight", rule, self.fairness_weight, remedy))
        return float(fairness_weight)

    def _cost(self, cost, direction=1):
        """A cost of the solver's rows in the units of X; with direction -1 the reverse."""
        return self._scaling.cost(cost, direction * OBJECTIVES[self.objective].degree)

    def _fair_enough(self, problem, starts, data, scale) -> Outcome:
        """Raise weights until one suffices, as heavy ones take long; then search between it and the one before."""

        def run_at(weight):
            return self._best_of(self._descend(problem, starts, weight), data)

        weights = scale * np.geomspace(0.05, 20, PATH)
        fair = self._within(map(run_at, weights), data)
        weight = float(fair.state.fairness_weight)
        unfair = weights[weights < 0.99 * weight].max(initial=0.0)
        return self._within(chain(map(run_at, np.linspace(unfair, weight, FINE_PATH + 1)[1:-1]), [fair]), data)

    def _descend(self, problem, starts, weight, others=None) -> Outcome:
        """One run per start, in batches that fit the memory; for `others` see `start_state`."""
        weights, others = [weight] * len(starts), [START] * len(starts) if others is None else others
        size = max(1, BATCH_ELEMENTS // (int(problem.n_obs) * len(starts[0])))
        parts = []
        for first in range(0, len(starts), size):
            batch = [np.asarray(part[first : first + size], np.float32) for part in (starts, weights, others)]
            parts.append(self.run(problem, start_states(self.step, problem, *batch)))
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def set_attributes(self, run, problem, data):
        self.labels_ = self._labels(run, data)
        soft = data.split.in_order(run.state.log_s)
        self.soft_assignment_ = np.exp(soft, out=soft)
        if self.objective != "ncut":
            free(problem)
        cost, centers = self._hard_cost(problem, data, np.asarray(run.state.centers, np.float64))
        self.cost_ = float(self._cost(cost))
        if isinstance(data.columns, Nodes):
            vars(self).pop("cluster_centers_", None)  # left from an earlier fit
        else:
            self.cluster_centers_ = self._scaling.points(centers)
        self.fairness_weight_ = float(self._cost(run.state.fairness_weight))
        masses, target = data.masses_in(self.labels_, self.n_clusters), self._target(data)
        self.fairness_error_ = float(cluster_kl(masses, target).sum())
        if warn_of_absent_groups(masses, data.groups.names, target) and self.fairness_weight_ > 0:
            self.converged_ = False  # E of the hard clusters is infinite, so nothing was minimised

    def _place(self, left_out):
        super()._place(left_out)
        if left_out is not None:
            soft = np.eye(self.n_clusters, dtype=self.soft_assignment_.dtype)[self.labels_]
            soft[left_out[1]] = self.soft_assignment_
            self.soft_assignment_ = soft

    def _hard_cost(self, problem, data, centers):
        """(cost of the labels; centres)."""
        rows = data, self._scaling, self.labels_
        if self.objective == "ncut":
            hard = np.equal.outer(np.arange(self.n_clusters), self.labels_)
            log_hard = np.where(hard, np.float32(0), np.float32(-np.inf))
            cost = float(cut_of(problem, log_hard[None], None, (), ())[0])
            return cost, means_of(*rows, np.zeros((self.n_clusters, data.X.shape[1])))
        centers = (medians_of if self.objective == "kmedians" else means_of)(*rows, centers)
        return cost_of(*rows, centers, OBJECTIVES[self.objective].degree), centers

    def objective_of(self, losses):
        return self._cost(losses)


def relocate_empty(labels, cost, empty):
    """Each of the `empty` clusters takes the row that costs most where it is and is not alone; `cost`: (obs, clusters)."""
    labels = np.array(labels)
    for cluster in empty:
        own = cost[np.arange(len(labels)), labels]
        alone = np.bincount(labels, minlength=cost.shape[1])[labels] == 1
        labels[np.argmax(np.where(alone, -np.inf, own))] = cluster
    return labels


def warn_of_absent_groups(masses, names, target):
    """Warn of clusters without a group that the target wants there (an infinite error); are there any?"""
    absent = [f"cluster {k} has no row of {names[g]!r}" for k, g in np.argwhere((masses == 0) & (target > 0))]
    if absent:
        more = f" ({len(absent)} such cases)" if len(absent) > 1 else ""
        remedy = "raise fairness_weight or n_init"
        if not np.allclose(masses.sum(0) / masses.sum(), target, atol=0.01):
            remedy = "lower fairness_weight, or take target_proportions nearer to those of the data"
        remedy += ", or ask for fewer clusters"
        what = f"fairness_error_ is infinite and the balance 0, because {absent[0]}{more}"
        tell(f"VariationalFairClustering: {what}. Remedy: {remedy}.")
    return bool(absent)


def concatenate(parts) -> Outcome:
    """Join batches of runs; traces are padded to the longest."""
    longest = max(part.trace.shape[1] for part in parts)
    more = [((0, 0), (0, longest - part.trace.shape[1])) for part in parts]
    padded = [np.pad(part.trace, wide, constant_values=np.nan) for part, wide in zip(parts, more)]
    state = jax.tree.map(lambda *leaves: np.concatenate(leaves), *jax.device_get([part.state for part in parts]))
    rest = [np.concatenate([getattr(part, name) for part in parts]) for name in ("loss", "n_iter", "status")]
    return Outcome(state, rest[0], np.concatenate(padded), *rest[1:])
