"""Variational fair clustering, VFC: Ziko, Yuan, Granger and Ben Ayed (2021).

Minimises E(S) = F(S) + fairness_weight * sum_k KL(U || P_k) over soft assignments S (clusters, obs), eq. (2)-(4). F is
the k-means or k-medians cost *per row*, or the normalised cut. The update is (13),
s <- s exp(-(a + fairness_weight b) / L), a mirror-descent step; one that would raise E is refused and L doubled.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesfair._arrays import on_device, row_numbers
from bayesfair._check import message, refuse_unread, tell
from bayesfair._names import Graph, csr_array
from bayesfair._rows import Rows, each, total
from bayesfair._scaling import Scaling, scaling_of, warn_of_scales
from bayesfair._settings import Count, NotNegative, Seed
from bayesfair.distributed.messages import agreed, leads
from bayesfair.engines.affinities import (
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
from bayesfair.engines.base import Engine, check_distinct, kmeans_centers, relocate_empty
from bayesfair.engines.families import squared_distances
from bayesfair.engines.hard_clusters import NEAR, cost_of, means_of, medians_near
from bayesfair.engines.optimize import Outcome
from bayesfair.engines.row_split import free
from bayesfair.engines.samples import FEWEST, stratified, weights_as_of_all
from bayesfair.engines.soft_clusters import (
    AT_REST,
    FLOOR,
    START,
    fairness_penalty,
    fairness_potential,
    log_simplex,
)
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import check_target, cluster_kl

NEIGHBOURS = 20
FILL = 4  # an affinity's list of entries is padded to a multiple of so many times its rows
FEW_ENTRIES = 100_000
RESTARTS = 10  # of k-means; the best `n_init` are starts, further starts are random rows
FEW_ROWS, STARTS_OF_FEW, STARTS = 4096, 20, 2  # up to FEW_ROWS rows, more restarts are starts: they take little time
LARGEST_WEIGHT = 1e12  # of the fairness term, in costs per row: far below it float32 already loses the cost
PAIRS, FINE_PATH = 3, 4  # pairs of weights on the path; weights between the last unfair and the first fair one
BATCH_ELEMENTS = 2**25  # elements of all soft assignments that advance together
EXPLORE_ROWS = 2**15  # rows that are explored if the table is more than one block
BLOCK = 8192  # rows
ENOUGH = 1000  # least number of rows of a group among them, or the whole group if it is smaller
HEAVIER = 1.0, 1.1, 1.25, 1.5, 2.0, 3.0  # weights tried on all rows, relative to the one that was fair enough on a part


class SoftRows(NamedTuple):
    """A block of rows, the codes of their groups, and weights of mean 1 over the table, 0 for padding."""

    x: Float[Array, "dim rows"]
    code: UInt[Array, " rows"]
    weight: Float[Array, " rows"]


class TargetedRows(NamedTuple):
    """Rows, their number, and the target proportions. `links`: for the normalised cut alone."""

    rows: Rows
    n_obs: Float[Array, ""]
    target: Float[Array, " groups"]
    links: Any = ()

    def member(self, code):
        """Indicators of the row's group (groups, rows)."""
        return (code == jnp.arange(len(self.target))[:, None]).astype(jnp.float32)

    def mean(self, values):
        """Mean over the rows of values (blocks, rows)."""
        return total(lambda block: block[0].weight @ block[1], self.rows.beside(values)) / self.n_obs


class Links(NamedTuple):
    """A symmetric affinity as a list of its entries, sorted by row.

    A row of weight w stands for w rows, not linked to each other: `value` includes the weight of the `column`.
    """

    row: Int[Array, " entries"]
    column: Int[Array, " entries"]
    value: Float[Array, " entries"]
    degree: Float[Array, " obs"]


class SoftClusters(NamedTuple):
    """Soft assignments and what follows from them; `loss` is E. `potential`: obs * dF/dS, of the cut alone."""

    log_s: Float[Array, "blocks clusters rows"]
    potential: Any
    masses: Float[Array, "clusters groups"]
    centers: Float[Array, "clusters dim"]
    loss: Float[Array, ""]
    lipschitz: Float[Array, ""]
    fairness_weight: Float[Array, ""]


def distances(x, centers):
    """||x_i - c_k||^2 (clusters, rows), at least 0, for x (dim, rows)."""
    return jnp.maximum(squared_distances(centers, x.T, jnp.square(x).sum(0)), 0.0)


class KMeans:
    """sum_ik s_ik ||x_i - c_k||^2 with c_k the weighted means (Table 1); `degree`: power of the scale of X in it."""

    degree = 2

    @staticmethod
    def potential(x, centers):
        return distances(x, centers)

    @staticmethod
    def sums(own, potential, x):
        """Sums over a block, with `own` its assignments times weights."""
        return own @ x.T, (own * potential).sum()

    @staticmethod
    def settled(problem, log_s, centers, sums, size):
        """(cost per row, centres, potentials if kept) from the sums about the old centres; `size`: of the clusters.

        With the means c' the cost is sum s d(x, c) - sum_k S_k |c' - c|^2.
        """
        first, cost = sums
        means = first / size[:, None]
        return (cost - (size * jnp.square(means - centers).sum(1)).sum()) / problem.n_obs, means, ()


class KMedians:
    """The same with ||x_i - c_k||, medians in place of the paper's medoids: one Weiszfeld step never raises the cost."""

    degree = 1

    @staticmethod
    def potential(x, centers):
        return jnp.sqrt(distances(x, centers))

    @staticmethod
    def sums(own, potential, x):
        pull = own / jnp.maximum(potential, NEAR)
        return pull @ x.T, pull.sum(1)

    @staticmethod
    def settled(problem, log_s, centers, sums, size):
        first, pull = sums
        centers = first / pull[:, None]

        def cost(block, centers):
            rows, log_s = block
            return (rows.weight * jnp.exp(log_s) * KMedians.potential(rows.x, centers)).sum()

        return total(cost, problem.rows.beside(log_s), centers) / problem.n_obs, centers, ()


class NormalizedCut:
    """K - sum_k s_k' W s_k / d' s_k (Table 1), of all rows at once."""

    degree = 0

    @staticmethod
    def sums(own, potential, x):
        return ()

    @staticmethod
    def settled(problem, log_s, centers, sums, size):
        links, s = problem.links, jnp.exp(log_s[0])
        entries = links.value[:, None] * s.T[links.column]  # a neighbour's assignments are contiguous
        ws = jax.ops.segment_sum(entries, links.row, s.shape[1], indices_are_sorted=True).T
        own = problem.rows.parts.weight[0] * s
        volume = own @ links.degree
        within = (own * ws).sum(1)
        potential = (within / volume**2)[:, None] * links.degree - 2 * ws / volume[:, None]
        return s.shape[0] - (within / volume).sum(), centers, s.shape[1] * potential[None]


OBJECTIVES = {"kmeans": KMeans, "kmedians": KMedians, "ncut": NormalizedCut}


@dataclass(frozen=True)
class Descent:
    """One step of (13) on the objective of this name."""

    objective: str

    def potential(self, rows: SoftRows, kept, centers):
        """obs * dF/dS of a block, computed unless it was `kept`."""
        return kept if self.objective == "ncut" else OBJECTIVES[self.objective].potential(rows.x, centers)

    def evaluate(self, problem: TargetedRows, log_s, centers, fairness_weight, lipschitz) -> SoftClusters:
        """The soft clusters of these assignments, from potentials at the previous centres."""
        objective = OBJECTIVES[self.objective]

        def of_block(block, centers):
            rows, log_s = block
            own = rows.weight * jnp.exp(log_s)
            return objective.sums(own, self.potential(rows, (), centers), rows.x), own @ problem.member(rows.code).T

        sums, masses = total(of_block, problem.rows.beside(log_s), centers)
        cost, centers, kept = objective.settled(problem, log_s, centers, sums, masses.sum(1))
        loss = cost + fairness_weight * fairness_penalty(masses, problem.target)
        return SoftClusters(log_s, kept, masses, centers, loss, lipschitz, fairness_weight)

    def __call__(self, problem: TargetedRows, state: SoftClusters):
        def step(block, centers, unfair, rate):
            """(log s after the step, the Frank-Wolfe gap <dE/dS, S - S'>, S' the best vertex: 0 only at a stationary point)."""
            rows, (log_s, kept) = block
            gradient = self.potential(rows, kept, centers) + unfair @ problem.member(rows.code)
            gain = (jnp.exp(log_s) * gradient).sum(0) - gradient.min(0)
            return log_simplex(log_s - rate * gradient), gain

        rows = problem.rows.beside((state.log_s, state.potential))
        log_s, gain = each(step, rows, state.centers, unfairness(problem, state), 1 / state.lipschitz)
        new = self.evaluate(problem, log_s, state.centers, state.fairness_weight, state.lipschitz / 1.3)
        refused = state._replace(lipschitz=2 * state.lipschitz)
        state = jax.tree.map(lambda a, b: jnp.where(new.loss <= state.loss, a, b), new, refused)
        # Refused steps shrink, so a standing E alone is no sign of an optimum.
        return state, state.loss, problem.mean(gain) > AT_REST * jnp.abs(state.loss)


def unfairness(problem: TargetedRows, state: SoftClusters):
    """obs * d/ds of the fairness term for a member of each group (clusters, groups)."""
    return state.fairness_weight * fairness_potential(state.masses, problem.target, problem.n_obs)


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
        default the cost per row of k-means without fairness, or 1 for "ncut".
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
        A run ends when the objective changes by less than this share of its size and no assignment is worth changing.
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
        The centres. Absent for a graph and for a precomputed affinity.
    cost_ : float
        The clustering cost of the hard clusters, summed over rows (the cut as it is).
    fairness_error_ : float
        The penalty of the hard clusters, in nats.
    fairness_weight_ : float
        The weight that was used.
    objective_trace_ : numpy.ndarray
        Cost plus weighted penalty, which never increases.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the run ended before `max_iter`.

    Notes
    -----
    The result is the run of least objective. "ncut" starts from k-means on the eigenvectors of the affinity, ten times on
    many of them and ten times on few. With more than 131,072 rows the starts run on 32,768 of them and the best goes on
    with all; this does not hold for "ncut".

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
        return self._fit(X, sensitive_features, sample_weight)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The cluster with the nearest centre, each row on its own, so that balance is not promised for new rows.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            Integer labels.

        Raises
        ------
        ValueError
            If the fit was of a graph or of a precomputed affinity, whose clusters have no centres.
        """
        check_is_fitted(self)
        if not hasattr(self, "cluster_centers_"):
            what = "Clusters of a graph or of a precomputed affinity have no centres, so new rows cannot be assigned."
            remedy = "read `labels_` for the rows of the fit, or fit old and new rows together."
            raise ValueError(f"{what} Remedy: {remedy}")
        return super().predict(X)

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
            X = nodes_of_matrix(X)
        return super()._data(X, sensitive_features, sample_weight)

    def read(self, X, *, reset):
        if isinstance(X, Nodes):
            validate_data(self, X.affinity, reset=reset, skip_check_array=True)
            return X
        return super().read(X, reset=reset)

    def _weights(self, sample_weight, X, n_obs):
        weight = super()._weights(sample_weight, X, n_obs)
        if isinstance(X, Nodes) and weight is not None and not weight.all():
            rule, got = "be above zero for a graph or an affinity", f"0 at row {weight.argmin()}"
            raise ValueError(message("sample_weight", rule, got, "Drop its row and column, or its node."))
        return weight

    def problem(self, data) -> TargetedRows:
        if isinstance(data.columns, Nodes):
            self._scaling = Scaling(np.zeros(0), 0)
            return self._problem_of(data)
        whole = {"everybody": data.split.everybody, "weight": data.given_weight}
        settings = {"degree": OBJECTIVES[self.objective].degree, "precision": np.float32, **whole}
        self._scaling = scaling_of(data.X, names=data.columns.names, **settings)
        warn_of_scales(data.X, data.columns.names)
        return self._problem_of(data)

    def _problem_of(self, data) -> TargetedRows:
        split, X, points, links = data.split, data.X, None, ()
        relative = split.n_obs / data.total_weight
        n_blocks = 1 if self.objective == "ncut" else split.n_blocks(BLOCK)
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
        return TargetedRows(split.in_blocks(block, n_blocks), *whole, links)

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
        some, least = self._some_of(data), np.inf
        found = self._solve_on(self._problem_of(some), some).state
        centers, fairness_weight = agreed((found.centers, found.fairness_weight))
        for factor in HEAVIER:
            run = self._descend(problem, centers[None], [factor * fairness_weight]).best
            if self.max_fairness_error is None:
                return run
            least = min(least, self._error(run, data))
            if least <= self.max_fairness_error:
                return run
        raise self._out_of_reach(least)

    def _some_of(self, data):
        """About EXPLORE_ROWS rows, more if groups are small, with the groups' masses of all rows."""
        code, rng = data.split.groups.code, np.random.default_rng(data.seed)
        enough = max(FEWEST, min(ENOUGH, EXPLORE_ROWS // len(data.groups.names)))
        rows = np.sort(stratified(rng.permutation(row_numbers(len(code))), code, EXPLORE_ROWS, enough))
        points = lambda columns: self._scaling.rows(columns.continuous)  # noqa: E731
        some = data.taken(data.with_distinct(rows, self.n_clusters, self.parts, points))
        return some._replace(given_weight=weights_as_of_all(some.groups.code, some.weight, data.group_masses))

    def _error(self, run, data):
        """The Kullback-Leibler error of a run's hard clusters."""
        masses = data.masses_in(self._labels(run, data), self.n_clusters)
        return float(cluster_kl(masses, self._target(data)).sum())

    def _labels(self, run, data):
        """The cluster of largest assignment (obs,); empty ones take the row that leans to them most, of the first process."""
        log_s = data.split.in_order(run.state.log_s)
        labels = log_s.argmax(1)
        empty = np.setdiff1d(np.arange(self.n_clusters), data.split.of_all(np.unique(labels)))
        return relocate_empty(labels, -log_s, empty) if len(empty) and leads() else labels

    def _best_of(self, runs, data):
        """The run of least E whose hard clusters have a finite error, or else of least E."""
        ordered = (runs.run(int(at)) for at in runs.order)
        return next((one for one in ordered if np.isfinite(self._error(one, data))), runs.best)

    def _solve_on(self, problem, data) -> Outcome:
        starts = self.starts(problem, data)
        scale = 1.0 if self.objective == "ncut" else float(cost_per_row(self.step, problem, starts[0]))
        if self.max_fairness_error is not None:
            return self._fair_enough(problem, starts, data, scale)
        fairness_weight = scale if self.fairness_weight is None else self._scaled_weight(scale)
        others = [START] * len(starts)
        if fairness_weight == 0 and self.objective == "kmeans":
            # k-means' own answer as well: softened, a start may end worse.
            starts, others = np.concatenate([starts, starts]), others + [FLOOR] * len(starts)
        runs = self._descend(problem, starts, [fairness_weight] * len(starts), others)
        return self._best_of(runs, data) if fairness_weight > 0 else runs.best

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
        """Raise weights, two at a time as heavy ones take long, until one suffices; then search below it."""
        unfair, least = 0.0, np.inf
        for weights in np.split(scale * np.geomspace(0.05, 20, 2 * PAIRS), PAIRS):
            runs, errors = self._path(problem, starts, weights, data)
            least, first = min(least, errors.min()), int(np.argmax(errors <= self.max_fairness_error))
            if errors.min() <= self.max_fairness_error:
                below = np.linspace(weights[0] if first else unfair, weights[first], FINE_PATH + 1)[1:]
                break
            unfair = weights[-1]
        else:
            raise self._out_of_reach(least)
        finer, errors = self._path(problem, starts, below, data)
        fair = errors <= self.max_fairness_error
        return finer[int(np.argmax(fair))] if fair.any() else runs[first]

    def _out_of_reach(self, least):
        bad = f"{self.max_fairness_error}, but the smallest error found is {least:.3g}"
        remedy = "Raise max_fairness_error, or ask for fewer clusters."
        return ValueError(message("max_fairness_error", "be reached on the path of weights", bad, remedy))

    def _path(self, problem, starts, weights, data):
        """The run of least E at each weight, and their fairness errors."""
        runs = [self._best_of(self._descend(problem, starts, [weight] * len(starts)), data) for weight in weights]
        return runs, np.array([self._error(one, data) for one in runs])

    def _descend(self, problem, starts, weights, others=None) -> Outcome:
        """One run per pair of start and weight, in batches that fit the memory; for `others` see `start_state`."""
        others = [START] * len(starts) if others is None else others
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
            soft[left_out.counted] = self.soft_assignment_
            self.soft_assignment_ = soft

    def _hard_cost(self, problem, data, centers):
        """(cost of the labels; centres)."""
        rows = data, self._scaling, self.labels_
        if self.objective == "ncut":
            hard = np.equal.outer(np.arange(self.n_clusters), self.labels_)
            log_hard = np.where(hard, np.float32(0), np.float32(-np.inf))
            cost = float(jax.jit(NormalizedCut.settled)(problem, log_hard[None], None, (), ())[0])
            return cost, means_of(*rows, np.zeros((self.n_clusters, data.X.shape[1])))
        centers = (medians_near if self.objective == "kmedians" else means_of)(*rows, centers)
        return cost_of(*rows, centers, OBJECTIVES[self.objective].degree), centers

    def objective_of(self, losses):
        return self._cost(losses)


def warn_of_absent_groups(masses, names, target):
    """Warn of clusters without a group that the target wants there (an infinite error); are there any?"""
    absent = [f"cluster {k} has no row of {names[g]!r}" for k, g in np.argwhere((masses == 0) & (target > 0))]
    if absent:
        more = f" ({len(absent)} such cases)" if len(absent) > 1 else ""
        remedy = "raise fairness_weight or n_init, or ask for fewer clusters"
        what = f"fairness_error_ is infinite and the balance 0, because {absent[0]}{more}"
        tell(f"VariationalFairClustering: {what}. Remedy: {remedy}.")
    return bool(absent)


def links_of(affinity, weight) -> Links:
    """Links of an affinity (N, N) and weights (N,), padded with zeros.

    Each number of entries compiles anew: it is a multiple of the rows or, for few rows, as many as neighbours have.
    """
    n_obs = affinity.shape[0]
    fill = 0, -affinity.nnz % (n_obs * (2 * NEIGHBOURS if affinity.nnz <= FEW_ENTRIES else FILL))
    row, value = np.repeat(np.arange(n_obs), np.diff(affinity.indptr)), affinity.data * weight[affinity.indices]
    entries = [np.pad(part.astype(np.int32), fill, constant_values=n_obs - 1) for part in (row, affinity.indices)]
    entries.append(np.pad(value.astype(np.float32), fill))
    return Links(*map(on_device, entries), on_device(np.bincount(row, value), jnp.float32))


@partial(jax.jit, static_argnames="descent")
def cost_per_row(descent: Descent, problem: TargetedRows, centers):
    """Cost per row at the nearest centres, without fairness."""

    def of_block(block, centers):
        return block.weight @ descent.potential(block, (), centers).min(0)

    paid = total(of_block, problem.rows, centers.astype(jnp.float32)) / problem.n_obs
    return jnp.maximum(paid, jnp.finfo(jnp.float32).tiny)


def start_state(descent: Descent, problem: TargetedRows, centers, fairness_weight, others) -> SoftClusters:
    """Soft assignments: log s is 0 at the nearest of `centers`, `others` elsewhere; L has the size of potential differences."""

    def nearest(block, centers, others):
        hard = jax.nn.one_hot(distances(block.x, centers).argmin(0), len(centers), dtype=bool, axis=0)
        return log_simplex(jnp.where(hard, 0.0, others))

    def spread(block, centers, unfair):
        rows, kept = block
        potential = descent.potential(rows, kept, centers) + unfair @ problem.member(rows.code)
        return rows.weight @ (potential.mean(0) - potential.min(0))

    log_s = each(nearest, problem.rows, centers, others)
    state = descent.evaluate(problem, log_s, centers, fairness_weight, jnp.float32(1.0))
    rows = problem.rows.beside(state.potential)
    lipschitz = total(spread, rows, state.centers, unfairness(problem, state)) / problem.n_obs
    return state._replace(lipschitz=jnp.maximum(lipschitz, jnp.finfo(jnp.float32).tiny))


@partial(jax.jit, static_argnames="descent")
def start_states(descent: Descent, problem: TargetedRows, centers, weights, others):
    """`start_state` for every run."""
    return jax.vmap(partial(start_state, descent, problem))(centers, weights, others)


def concatenate(parts) -> Outcome:
    """Join batches of runs; traces are padded to the longest."""
    longest = max(part.trace.shape[1] for part in parts)
    more = [((0, 0), (0, longest - part.trace.shape[1])) for part in parts]
    padded = [np.pad(part.trace, wide, constant_values=np.nan) for part, wide in zip(parts, more)]
    state = jax.tree.map(lambda *leaves: np.concatenate(leaves), *jax.device_get([part.state for part in parts]))
    rest = [np.concatenate([getattr(part, name) for part in parts]) for name in ("loss", "n_iter", "status")]
    return Outcome(state, rest[0], np.concatenate(padded), *rest[1:])
