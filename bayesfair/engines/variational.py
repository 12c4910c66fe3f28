"""Variational fair clustering, VFC: Ziko, Yuan, Granger and Ben Ayed (2021).

Minimises E(S) = F(S) + weight * sum_k KL(U || P_k) over soft assignments S (clusters, obs), eq. (2)-(4), with F the
k-means or k-medians cost *per row*, or the normalised cut. The update is (13), s <- s exp(-(a + weight b) / L), a
mirror-descent step whose L follows the objective: a step that would raise E is refused and L doubled, so that E never
increases and rows need not be normalised. A row of weight w counts as w rows, whose step is that of one.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesfair._arrays import row_blocks, row_numbers
from bayesfair._check import check_number, message, tell
from bayesfair._units import scaling, warn_of_scales
from bayesfair.distributed import agreed, leads
from bayesfair.engines.base import Data, Engine, kmeans_centers, relocate_empty
from bayesfair.engines.families import squared_distances
from bayesfair.engines.hard_clusters import NEAR, cost_of, means_of, medians_near
from bayesfair.engines.optimize import Outcome
from bayesfair.engines.samples import FEWEST, distinct_rows, stratified, weights_as_of_all, with_distinct
from bayesfair.engines.shares import ALONE, free
from bayesfair.engines.soft_clusters import (
    AT_REST,
    FLOOR,
    START,
    fairness_penalty,
    fairness_potential,
    log_simplex,
)
from bayesfair.engines.variational_blocks import (
    BlockedRows,
    descent_over,
    rows_in_blocks,
    soft_assignment,
)
from bayesfair.engines.variational_blocks import start_state as blocked_start
from bayesfair.fairness import Groups, check_target, cluster_kl

__all__ = ["VariationalFairClustering"]

NEIGHBOURS = 20
FILL = 4  # the list of a graph's entries is as long as a multiple of so many times its rows
FEW_ENTRIES = 100_000
RESTARTS = 10  # of k-means, of which the best `n_init` are starts; further ones are random rows
FEW_ROWS, STARTS_OF_FEW, STARTS = 4096, 20, 2  # up to so many rows all of many restarts are starts: they take no time
LARGEST_WEIGHT = 1e12  # of the fairness term, in costs per row: float32 sees no cost beside it long before
PAIRS, FINE_PATH = 3, 4  # weights of the path, in pairs, and between its last unfair and first fair weight
BATCH_ELEMENTS = 2**25  # of all soft assignments that advance together
# Of more rows than the first, k-means explores as many as the second, and the best goes on with all of them, block by block.
BLOCKED_FROM, EXPLORE_ROWS = 2**17, 2**15
ENOUGH = 1000  # rows of a group among them, where there is room: of smaller groups they have everybody
HEAVIER = 1.0, 1.1, 1.25, 1.5, 2.0, 3.0  # weights tried on all rows, in units of the one that was fair enough on a part


class TargetedRows(NamedTuple):
    """Rows, their groups, the proportions wanted, and weights whose mean is 1. `graph`: for the normalised cut alone."""

    x: Float[Array, "obs dim"]
    square: Float[Array, " obs"]
    member: Float[Array, "groups obs"]  # one where the row is of the group
    target: Float[Array, " groups"]
    weight: Float[Array, " obs"]
    graph: Any = ()

    def masses(self, s):
        """Of the groups in the clusters (clusters, groups)."""
        return (self.weight * s) @ self.member.T

    def mean(self, values):
        """Per row, of values (obs,)."""
        return (self.weight * values).mean()


class Graph(NamedTuple):
    """A symmetric affinity as a list of its entries, sorted by row. A row of weight w is w of them, which are all linked to
    the w' that another one is, and not to each other: `value` has been multiplied by the weight of the `column`."""

    row: Int[Array, " entries"]
    column: Int[Array, " entries"]
    value: Float[Array, " entries"]
    degree: Float[Array, " obs"]


class SoftClusters(NamedTuple):
    """Soft assignments with what was computed from them; `loss` is E."""

    log_s: Float[Array, "clusters obs"]
    potential: Float[Array, "clusters obs"]  # obs * dF/dS
    masses: Float[Array, "clusters groups"]
    centers: Float[Array, "clusters dim"]
    loss: Float[Array, ""]
    lipschitz: Float[Array, ""]
    weight: Float[Array, ""]


def distances(problem: TargetedRows, centers):
    """||x_i - c_k||^2 (clusters, obs), at least 0."""
    return jnp.maximum(squared_distances(centers, problem.x, problem.square), 0.0)


def k_means(problem: TargetedRows, s, centers):
    """(cost per row, potentials, centres) of sum_ik s_ik ||x_i - c_k||^2 with c_k the weighted means (Table 1)."""
    own = problem.weight * s
    centers = (own @ problem.x) / own.sum(1)[:, None]
    potential = distances(problem, centers)
    return problem.mean((s * potential).sum(0)), potential, centers


def k_medians(problem: TargetedRows, s, centers):
    """The same with ||x_i - c_k||: centres take one Weiszfeld step, which never raises the cost.

    The paper's centres are medoids; the geometric median costs no more and needs no N^2 distances.
    """
    distance = jnp.sqrt(distances(problem, centers))
    pull = problem.weight * s / jnp.maximum(distance, NEAR)
    centers = (pull @ problem.x) / pull.sum(1)[:, None]
    potential = jnp.sqrt(distances(problem, centers))
    return problem.mean((s * potential).sum(0)), potential, centers


def normalized_cut(problem: TargetedRows, s, centers):
    """K - sum_k s_k' W s_k / d' s_k and obs times its gradient (Table 1)."""
    graph = problem.graph
    entries = graph.value[:, None] * s.T[graph.column]  # a neighbour's assignments lie side by side
    ws = jax.ops.segment_sum(entries, graph.row, s.shape[1], indices_are_sorted=True).T
    own = problem.weight * s
    volume = own @ graph.degree
    within = (own * ws).sum(1)
    potential = (within / volume**2)[:, None] * graph.degree - 2 * ws / volume[:, None]
    return s.shape[0] - (within / volume).sum(), s.shape[1] * potential, centers


OBJECTIVES = {"kmeans": k_means, "kmedians": k_medians, "ncut": normalized_cut}
DEGREES = {"kmeans": 2, "kmedians": 1, "ncut": 0}  # power of the scale of X in the cost


@dataclass(frozen=True)
class Descent:
    """One step of (13) on the objective of that name."""

    objective: str

    def evaluate(self, problem: TargetedRows, log_s, centers, weight, lipschitz) -> SoftClusters:
        s = jnp.exp(log_s)
        cost, potential, centers = OBJECTIVES[self.objective](problem, s, centers)
        masses = problem.masses(s)
        loss = cost + weight * fairness_penalty(masses, problem.target)
        return SoftClusters(log_s, potential, masses, centers, loss, lipschitz, weight)

    def __call__(self, problem: TargetedRows, state: SoftClusters):
        before, gradient = state.log_s, full_potential(problem, state)
        log_s = log_simplex(before - gradient / state.lipschitz)
        new = self.evaluate(problem, log_s, state.centers, state.weight, state.lipschitz / 1.3)
        refused = state._replace(lipschitz=2 * state.lipschitz)
        state = jax.tree.map(lambda a, b: jnp.where(new.loss <= state.loss, a, b), new, refused)
        # Steps shrink where they are refused: that E stands still is no sign of an optimum by itself.
        return state, state.loss, problem.mean(left_to_gain(gradient, before)) > AT_REST * jnp.abs(state.loss)


def full_potential(problem: TargetedRows, state: SoftClusters):
    """obs * dE/dS (clusters, obs), the fairness term included."""
    unfair = fairness_potential(state.masses, problem.target, problem.x.shape[0])
    return state.potential + state.weight * unfair @ problem.member


def left_to_gain(gradient, log_s):
    """The Frank-Wolfe gap <dE/dS, S - S'> of every row (obs,), S' its best vertex: 0 at a stationary point alone."""
    return (jnp.exp(log_s) * gradient).sum(0) - gradient.min(0)


class VariationalFairClustering(Engine):
    """k-means, k-medians or normalised cut with a Kullback-Leibler penalty on unfair clusters (VFC, eq. 2-13).

    Parameters
    ----------
    n_clusters: K. objective: "kmeans", "kmedians" (Euclidean distance to geometric medians), or "ncut" (a sparse graph
        of 20 nearest neighbours).
    fairness_weight: of sum_k KL(U || P_k) against the cost *per row* (the normalised cut as it is); the paper's lambda
        divided by N. None takes the cost per row of k-means without fairness (1 for "ncut"), a weight without scale.
    max_fairness_error: instead, the smallest weight of a path whose hard clusters have sum_k KL at most this.
    target_proportions: U, {group: proportion} or proportions in the order of the groups; None: those of the data.
    n_init: starts, the best of ten restarts of k-means, and random rows from the eleventh on, run together, at every
        weight of a path; None: 20 of up to 4,096 rows, else 2. The run of least E is the answer. Of more than 131,072 rows
        "kmeans" runs them on 32,768, and the best goes on with all, in blocks.
    max_iter, tol: a run ends where E changes by less than `tol` of its size and no assignment is worth changing.
    mesh: of objective="kmeans": `bayesfair.distributed.mesh(rows=...)`, processes each of which fits rows of its own
        (`distributed.deal`): the clusters are those of all rows, labels and soft assignments those of its own.

    Attributes
    ----------
    labels_: argmax of the soft assignments (N,). soft_assignment_: (N, K), rows of weight 0 in the
    cluster of the nearest centre. cluster_centers_: (K, d).
    cost_: F of the hard clusters, summed over rows (the cut as it is). fairness_error_: sum_k KL of the hard clusters.
    fairness_weight_: the weight used. objective_trace_: E, which never increases. n_iter_, converged_.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> est = bf.VariationalFairClustering(2, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> est.labels_.shape
    (400,)
    """

    derived = ("n_init",)
    patience = 8  # refused steps among them change E little
    remedy = "raise max_iter or tol; large fairness weights take longest."

    cluster_centers_: np.ndarray
    cost_: float
    fairness_error_: float
    fairness_weight_: float

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        objective: Literal["kmeans", "kmedians", "ncut"] = "kmeans",
        fairness_weight: float | None = None,
        max_fairness_error: float | None = None,
        target_proportions=None,
        n_init: int | None = None,
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
        progress_bar: bool = False,
        mesh: jax.sharding.Mesh | None = None,
    ):
        self.n_clusters = n_clusters
        self.objective = objective
        self.fairness_weight = fairness_weight
        self.max_fairness_error = max_fairness_error
        self.target_proportions = target_proportions
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.progress_bar = progress_bar
        self.mesh = mesh

    def check_settings(self):
        if self.objective not in OBJECTIVES:
            remedy = "See the docstring for what each minimises."
            raise ValueError(message("objective", f"be one of {tuple(OBJECTIVES)}", repr(self.objective), remedy))
        if self.mesh is not None and self.objective != "kmeans":
            rule, remedy = (
                "be None where objective is not 'kmeans'",
                "The others have all rows at once, in one process.",
            )
            raise ValueError(message("mesh", rule, "one", remedy))
        if self.fairness_weight is not None and self.max_fairness_error is not None:
            rule, remedy = "be None where max_fairness_error is given", "Give one of the two."
            raise ValueError(message("fairness_weight", rule, self.fairness_weight, remedy))
        for name in ("fairness_weight", "max_fairness_error"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), minimum=0)

    def problem(self, data) -> TargetedRows | BlockedRows:
        if self.mesh is not None or (self.objective == "kmeans" and len(data.X) > BLOCKED_FROM):
            names, share = data.columns.names, data.share
            self._units = scaling(
                data.X, names=names, precision=np.float32, everybody=share.everybody, weight=data.given_weight
            )
            warn_of_scales(data.X, data.columns.names)
            return rows_in_blocks(data, self._units, self._target(data))
        Z = self.standardised(data, degree=DEGREES[self.objective], precision=np.float32)
        warn_of_scales(data.X, data.columns.names)
        return make_problem(Z, data.groups.code, self._target(data), self.objective, data.relative_weight)

    @property
    def step(self):
        return Descent(self.objective)

    def _target(self, data):
        return check_target(self.target_proportions, data.groups, data.group_masses, argument="target_proportions")

    def starts(self, problem, data):
        """Centres (n_init, K, d) of the best k-means++ restarts, and random rows: k-means makes starts alike."""
        return self._restarts(self._units.rows(data.X), data, data.weight)

    def _restarts(self, Z, data, weight):
        n_init = self.n_init
        if n_init is None:
            n_init = STARTS_OF_FEW if len(Z) <= FEW_ROWS else STARTS
        best = kmeans_centers(Z, self.n_clusters, data.seed, RESTARTS, data.share, weight)[:n_init]
        if n_init <= RESTARTS:
            return best
        rng, points = np.random.default_rng(data.seed), np.unique(Z, axis=0)
        return np.stack(
            [*best, *(rng.choice(points, self.n_clusters, replace=False) for _ in range(n_init - RESTARTS))]
        )

    def solve(self, problem, data) -> Outcome:
        """The best run at the weight asked for, or at the smallest weight of a path that is fair enough."""
        if isinstance(problem, BlockedRows):
            return self._solve_in_blocks(problem, data)
        return self._solve_from(problem, self.starts(problem, data), self._error(data, data))

    def _error(self, some, data):
        """The Kullback-Leibler error of labels of `some` rows, `Data` of their own, against the proportions of the data."""
        target = self._target(data)
        return lambda labels: float(cluster_kl(hard_masses(labels, some, self.n_clusters), target).sum())

    def _solve_in_blocks(self, problem: BlockedRows, data) -> Outcome:
        """On EXPLORE_ROWS of the rows first; all of them go on from there, at greater weights where they must."""
        (centers, weight), error, least = agreed(self._explored(data)), self._error(data, data), np.inf
        for factor in HEAVIER:
            s = None  # that of the last weight makes room
            outcome = self.run(problem, blocked_start(problem, centers, factor * weight), step=descent_over(problem))
            s = soft_assignment(problem, outcome.state, len(data.X))
            if self.max_fairness_error is None:
                break
            least = min(least, error(hard_labels(s, data.share)))
            if least <= self.max_fairness_error:
                break
        else:
            raise self._out_of_reach(least)
        return outcome._replace(state=outcome.state._replace(log_s=s[None])).best  # which is `report`'s concern alone

    def _explored(self, data):
        """(centres, weight) of the best run on some of the rows."""
        share, everyone, rows = data.share, data.share.groups, self._first_rows(data)
        groups = Groups(everyone.code[rows], everyone.names)
        weights = weights_as_of_all(groups.code, data.weight_of_some(rows), data.group_masses)
        some = Data(data.columns.take(rows, share), groups, weights, data.seed)
        Z = self._units.rows(some.X)
        few = make_problem(Z, groups.code, self._target(data), self.objective, weights)
        found = self._solve_from(few, self._restarts(Z, data, weights), self._error(some, data)).state
        return found.centers, found.weight

    def _first_rows(self, data):
        """Which rows come first, by their numbers in the whole table."""
        share, code, rng = data.share, data.share.groups.code, np.random.default_rng(data.seed)
        enough = max(FEWEST, min(ENOUGH, EXPLORE_ROWS // len(share.groups.names)))
        rows = np.sort(stratified(rng.permutation(row_numbers(len(code))), code, EXPLORE_ROWS, enough))

        def points(rows, share=ALONE):
            return self._units.rows(share.take(data.X, rows))

        distinct = partial(distinct_rows, points, self.n_clusters, self.parts, share)
        return with_distinct(rows, partial(points, share=share), self.n_clusters, distinct)

    def _solve_from(self, problem, starts, error) -> Outcome:
        scale = 1.0 if self.objective == "ncut" else cost_per_row(problem, starts[0], self.objective)
        if self.max_fairness_error is not None:
            return self._fair_enough(problem, starts, error, scale)
        weight = scale if self.fairness_weight is None else self._scaled_weight(scale)
        others = [START] * len(starts)
        if weight == 0 and self.objective == "kmeans":  # k-means' own answer too: softened, a start may end worse
            starts, others = np.concatenate([starts, starts]), others + [FLOOR] * len(starts)
        runs = self._descend(problem, starts, [weight] * len(starts), others)
        return best_of(runs, error) if weight > 0 else runs.best

    def _scaled_weight(self, scale):
        """`fairness_weight` in units of the rows that are worked on, whose cost per row is `scale`."""
        with np.errstate(over="ignore"):
            weight = self._cost(self.fairness_weight, -1)
        if weight > LARGEST_WEIGHT * scale:
            rule = f"be at most {LARGEST_WEIGHT:.0e} times the cost per row, {self._cost(scale):.3g}"
            remedy = "Rescale the columns of X, or leave fairness_weight out."
            raise ValueError(message("fairness_weight", rule, self.fairness_weight, remedy))
        return float(weight)

    def _cost(self, cost, direction=1):
        """A cost of the rows that are worked on, in the units of X; with direction -1 the other way."""
        return self._units.cost(cost, direction * DEGREES[self.objective])

    def _fair_enough(self, problem, starts, error, scale) -> Outcome:
        """Weights grow, two at a time as heavy ones take long, until one suffices; then those below it are searched."""
        unfair, least = 0.0, np.inf
        for weights in np.split(scale * np.geomspace(0.05, 20, 2 * PAIRS), PAIRS):
            runs, errors = self._path(problem, starts, weights, error)
            least, first = min(least, errors.min()), int(np.argmax(errors <= self.max_fairness_error))
            if errors.min() <= self.max_fairness_error:
                below = np.linspace(weights[0] if first else unfair, weights[first], FINE_PATH + 1)[1:]
                break
            unfair = weights[-1]
        else:
            raise self._out_of_reach(least)
        finer, errors = self._path(problem, starts, below, error)
        fair = errors <= self.max_fairness_error
        return finer[int(np.argmax(fair))] if fair.any() else runs[first]

    def _out_of_reach(self, least):
        bad = f"{self.max_fairness_error}, where the smallest error found is {least:.3g}"
        remedy = "Allow more, or ask for fewer clusters."
        return ValueError(message("max_fairness_error", "be reached on the path of weights", bad, remedy))

    def _path(self, problem, starts, weights, error):
        """The run of least E at each weight, and its fairness error."""
        runs = [best_of(self._descend(problem, starts, [weight] * len(starts)), error) for weight in weights]
        return runs, np.array([error(hard_labels(np.asarray(one.state.log_s).T)) for one in runs])

    def _descend(self, problem, starts, weights, others=None) -> Outcome:
        """One run per pair of start and weight, in batches that fit the memory; `others`: see `start_state`."""
        others = [START] * len(starts) if others is None else others
        size = max(1, BATCH_ELEMENTS // (len(problem.x) * len(starts[0])))
        parts = []
        for first in range(0, len(starts), size):
            batch = [np.asarray(part[first : first + size], np.float32) for part in (starts, weights, others)]
            parts.append(self.run(problem, start_states(self.step, problem, *batch)))
        return concatenate(parts)

    def report(self, run, problem, data):
        blocked = isinstance(problem, BlockedRows)
        s = run.state.log_s if blocked else np.asarray(run.state.log_s).T
        labels = hard_labels(s, data.share)
        if blocked:
            free(problem)
        self.labels_ = labels.astype(np.int64)
        cost, centers = self._hard_cost(problem, data, np.asarray(run.state.centers, np.float64))
        self.soft_assignment_ = s if blocked else np.exp(s)
        self.cost_ = float(self._cost(cost))
        self.cluster_centers_ = self._units.points(centers)
        self.fairness_weight_ = float(self._cost(run.state.weight))
        masses, target = hard_masses(self.labels_, data, self.n_clusters), self._target(data)
        self.fairness_error_ = float(cluster_kl(masses, target).sum())
        if warn_of_absent_groups(masses, data.groups.names, target) and self.fairness_weight_ > 0:
            self.converged_ = False  # E of the hard clusters is infinite: nothing has been minimised

    def _place(self, left_out):
        super()._place(left_out)
        if left_out is not None:
            soft = np.eye(self.n_clusters, dtype=self.soft_assignment_.dtype)[self.labels_]
            soft[left_out.counted] = self.soft_assignment_
            self.soft_assignment_ = soft

    def _hard_cost(self, problem, data, centers):
        """(cost of the labels; centres)."""
        rows = data, self._units, self.labels_
        centers = medians_near(*rows, centers) if self.objective == "kmedians" else means_of(*rows, self.n_clusters)
        if self.objective == "ncut":
            hard = np.equal.outer(np.arange(self.n_clusters), self.labels_).astype(np.float32)
            return float(jax.jit(normalized_cut)(problem, hard, None)[0]), centers
        return cost_of(*rows, centers, DEGREES[self.objective]), centers

    def objective_of(self, losses):
        return self._cost(losses)


def best_of(runs, error):
    """The run of least E among those whose hard clusters have a finite error, if any."""
    ordered = (runs.run(int(at)) for at in runs.order)
    return next((one for one in ordered if np.isfinite(error(hard_labels(np.asarray(one.state.log_s).T)))), runs.best)


def hard_labels(s, share=ALONE):
    """The cluster of largest assignment (obs,) from s, or log s, (obs, clusters); empty ones take the row most willing, of the
    first process where several have rows."""
    labels = np.empty(len(s), np.min_scalar_type(s.shape[1]))
    for rows in row_blocks(len(s)):
        labels[rows] = s[rows].argmax(1)
    empty = np.setdiff1d(np.arange(s.shape[1]), share.of_all(np.unique(labels)))
    return relocate_empty(labels, -s, empty) if len(empty) and leads() else labels


def hard_masses(labels, data, n_clusters):
    """Masses of the groups in hard clusters (clusters, groups), of the rows of all processes; labels (obs,): of this one's."""
    shape = n_clusters, len(data.groups.names)
    held = np.zeros(shape)
    for rows in row_blocks(len(labels)):
        cells = np.ravel_multi_index((labels[rows], data.groups.code[rows]), shape)
        held += np.bincount(cells, data.weight_of(rows), held.size).reshape(shape)
    return sum(data.share.everybody(held))


def warn_of_absent_groups(masses, names, target):
    """Says which clusters have nobody of a group that the target wants there, and whether there are any: their
    Kullback-Leibler error is infinite."""
    absent = [f"cluster {k} has nobody of {names[g]!r}" for k, g in np.argwhere((masses == 0) & (target > 0))]
    if absent:
        more = f" ({len(absent)} such cases)" if len(absent) > 1 else ""
        remedy = "raise fairness_weight or n_init, or ask for fewer clusters"
        what = f"fairness_error_ is infinite and the balance 0, because {absent[0]}{more}"
        tell(f"VariationalFairClustering: {what}. Remedy: {remedy}.")
    return bool(absent)


def make_problem(X, group, target, objective, weight=None) -> TargetedRows:
    """Standardised rows X, in float32 on the device; `weight` (obs,), of mean 1: of the rows."""
    weight = np.ones(len(X)) if weight is None else weight
    graph = neighbour_graph(X, weight) if objective == "ncut" else ()
    x = jnp.asarray(X, jnp.float32)
    square = jnp.asarray((X**2).sum(1), jnp.float32)
    member = jnp.asarray(np.equal.outer(np.arange(len(target)), group), jnp.float32)
    return TargetedRows(x, square, member, jnp.asarray(target, jnp.float32), jnp.asarray(weight, jnp.float32), graph)


def neighbour_graph(X, weight) -> Graph:
    """The symmetric 20-nearest-neighbour affinity (w + w') / 2 with w in {0, 1}; zeros fill up its list of entries, for
    their number depends on the rows and every number would be compiled anew: all that there may be of a few rows, where
    compiling takes longest, a multiple of the rows where they are many."""
    from sklearn.neighbors import kneighbors_graph

    nearest = kneighbors_graph(X, min(NEIGHBOURS, len(X) - 1))
    affinity = ((nearest + nearest.T) / 2).multiply(weight).tocoo()
    order = np.argsort(affinity.row, kind="stable")
    degree = np.asarray(affinity.sum(1)).ravel()
    most = 2 * nearest.nnz
    fill = 0, most - len(order) if most <= FEW_ENTRIES else -len(order) % (FILL * len(X))
    entries = [np.pad(part[order], fill, constant_values=len(X) - 1) for part in (affinity.row, affinity.col)]
    entries.append(np.pad(affinity.data[order].astype(np.float32), fill))
    return Graph(*map(jnp.asarray, entries), jnp.asarray(degree, jnp.float32))


def cost_per_row(problem: TargetedRows, centers, objective):
    """Of nearest centres, without fairness."""
    square = np.asarray(jax.jit(distances)(problem, centers.astype(np.float32))).min(0)
    paid = problem.weight * (square if objective == "kmeans" else np.sqrt(square))
    return float(max(paid.mean(), np.finfo(np.float32).tiny))


def start_state(descent: Descent, problem: TargetedRows, centers, weight, others=START) -> SoftClusters:
    """Assignments to the nearest of `centers`, log s of the `others`, and L at the size of the potentials' differences."""
    centers = jnp.asarray(centers, jnp.float32)
    nearest = distances(problem, centers).argmin(0)
    log_s = log_simplex(jnp.where(jax.nn.one_hot(nearest, len(centers), dtype=bool, axis=0), 0.0, others))
    state = descent.evaluate(problem, log_s, centers, jnp.float32(weight), jnp.float32(1.0))
    potential = full_potential(problem, state)
    spread = problem.mean(potential.mean(0) - potential.min(0))
    return state._replace(lipschitz=jnp.maximum(spread, jnp.finfo(jnp.float32).tiny))


@partial(jax.jit, static_argnames="descent")
def start_states(descent: Descent, problem: TargetedRows, centers, weights, others) -> SoftClusters:
    """`start_state` of every run."""
    return jax.vmap(partial(start_state, descent, problem))(centers, weights, others)


def concatenate(parts) -> Outcome:
    """Batches of runs as one; traces are padded to the longest."""
    longest = max(part.trace.shape[1] for part in parts)
    padded = [
        np.pad(part.trace, ((0, 0), (0, longest - part.trace.shape[1])), constant_values=np.nan) for part in parts
    ]
    state = jax.tree.map(lambda *leaves: np.concatenate(leaves), *jax.device_get([part.state for part in parts]))
    rest = [np.concatenate([getattr(part, name) for part in parts]) for name in ("loss", "n_iter", "status")]
    return Outcome(state, rest[0], np.concatenate(padded), *rest[1:])
