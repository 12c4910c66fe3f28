"""The template of every engine: `fit` and `predict` are written here, once, and so is what several engines need."""

from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from bayesfair._arrays import cell_masses, code_masses, distinct_places, row_blocks
from bayesfair._check import check_integer, check_weights, message, random_state_of, tell
from bayesfair._memory import give_back_freed
from bayesfair._scaling import Scaling, standardise
from bayesfair._settings import check_settings
from bayesfair.distributed.messages import agreed, check_alike, sharing
from bayesfair.engines.affinities import Nodes
from bayesfair.engines.optimize import Outcome, converged_or_warn, minimize
from bayesfair.engines.row_split import UNSPLIT, RowSplit, split_rows
from bayesfair.engines.samples import distinct_rows
from bayesfair.engines.tables import Columns, read_columns, read_groups
from bayesfair.fairness.groups import Groups

LONG = 60.0  # seconds of work that a user is warned of
FARTHEST = 1e150  # from the middle of the training rows, in units of their spread: squares are finite


class Data(NamedTuple):
    """What a fit is given: checked columns, groups, the rows' weights, all above zero, None where all are 1, the seed that
    drives everything random in it, and how the rows of all processes are split.

    dealing: processes that have these rows alike, which share what is to be tried on them; None where they do not.
    """

    columns: Columns | Nodes
    groups: Groups
    given_weight: np.ndarray | None
    seed: int
    split: RowSplit = UNSPLIT
    dealing: RowSplit | None = None
    own: slice = slice(None)  # which of them are this process's

    @property
    def X(self):
        """The continuous columns (N, d), float32 or float64 as they came in."""
        return self.columns.continuous

    @property
    def weight(self):
        """Of the rows (N,), made anew where all weights are 1: of many rows let go of it early, or take `weight_of`."""
        return self.weight_of(slice(None))

    def weight_of(self, rows):
        """Of some of the rows: a slice, or their numbers."""
        if self.given_weight is None:
            return np.array(np.broadcast_to(1.0, len(self.groups.code))[rows])
        return self.given_weight[rows]

    def taken(self, rows):
        """Some rows, by their numbers in the table that is split over processes, each of which has all of these."""
        split, weight = self.split, None
        if any(split.everybody(self.given_weight is not None)):
            weight = split.take(self.weight, rows)
        groups = split.groups._replace(code=split.groups.code[rows])
        alike = RowSplit(None, (len(rows),), groups)
        return Data(self.columns.take(rows, split), groups, weight, self.seed, alike, self.dealing or split)

    def with_distinct(self, rows, n_parts, argument, points):
        """Some rows, by their numbers as in `taken`, joined by others where fewer than `n_parts` of them differ;
        `points(columns)`: the numbers (rows, ..) that tell rows apart.

        Raises
        ------
        ValueError: with the `argument` that asks for so many parts, where fewer rows differ.
        """
        known = distinct_places(lambda part: points(self.columns.take(rows[part], self.split)), n_parts)
        if len(known) == n_parts:
            return rows
        return np.union1d(
            rows, distinct_rows(lambda own: points(self.columns.take(own)), n_parts, argument, self.split)
        )

    def dealt(self, of, tasks) -> list:
        """`of` every task on these rows, which processes that have them alike share."""
        return (self.dealing or UNSPLIT).dealt(of, tasks)

    def gathered(self):
        """With the rows of all processes, of which each fits all."""
        first = self.split.first
        own = slice(first, first + len(self.groups.code))
        return self.taken(np.arange(self.split.n_obs))._replace(dealing=None, own=own)

    @property
    def total_weight(self):
        """Of the rows of all processes."""
        own = len(self.groups.code) if self.given_weight is None else self.given_weight.sum()
        return float(sum(self.split.everybody(own)))

    @property
    def group_masses(self):
        """How much the groups weigh (groups,), with the rows of all processes."""
        return sum(self.split.everybody(code_masses(self.groups.code, len(self.groups.names), self.given_weight)))

    def masses_in(self, labels, n_clusters):
        """How much the groups weigh in hard clusters (clusters, groups), with the rows of all processes; labels (obs,): of
        this one's."""
        shape = n_clusters, len(self.groups.names)
        return sum(self.split.everybody(cell_masses(labels, self.groups.code, shape, self.given_weight)))

    @property
    def relative_weight(self):
        """Weights whose mean is 1, of all rows: for losses per row, which know no unit of weight."""
        scale = self.split.n_obs / self.total_weight
        return self.weight if scale == 1 else self.weight * scale


class LeftOut(NamedTuple):
    """The columns of rows of weight 0, and which rows of the table are others (N,)."""

    columns: Columns
    counted: np.ndarray


class Engine(ClusterMixin, BaseEstimator):
    """A clustering estimator that takes `sensitive_features`; subclass it and write four methods.

    `problem`, `starts`, `step` and `set_attributes`. An engine of several stages writes `solve` instead of `starts` and `step`.

    Attributes
    ----------
    parts: the argument that says how many clusters there are, None for an engine that finds out. uses_groups: false
    where every row is treated alike whatever its group. patience: quiet iterations in a row at which a run ends.
    monotone: false where `objective_trace_` may get worse on its way, as with random mini-batches. weights: "rows" where a
    `sample_weight` of 2 is a row that stands there twice, in the objective and in the groups' shares alike; "loss" where
    whole rows are counted for balance, and weights enter the objective alone; None where there are none. remedy: what
    helps a run that did not converge. of_rows: the attributes that have a place for every row.
    """

    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}  # noqa: RUF012
    parts = "n_clusters"
    uses_groups = True
    patience = 1
    monotone = True
    weights = "rows"
    of_rows = ("labels_",)
    remedy = "raise max_iter or tol."
    labels_: np.ndarray
    n_iter_: int
    converged_: bool
    objective_trace_: np.ndarray

    def fit(
        self,
        X: ArrayLike,
        y=None,
        *,
        sensitive_features: ArrayLike | Groups | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Cluster a table X (N, d) whose groups are `sensitive_features` (N,) or (N, q).

        Without groups, an engine that uses them warns and clusters without fairness. Ctrl-C keeps the solution so far.

        `sample_weight` (N,), 1 for every row unless given: a row of weight 2 counts as two rows that are the same, and one of
        weight 0 is left out, but for its place in `labels_`, which is that of `predict`. Shares, balance and gaps are then of
        weights. Engines that promise whole people a place (`weights` is "loss") weigh the objective alone.

        Raises
        ------
        TypeError, ValueError: bad tables or settings; the message names the argument, the rule and the remedy.
        """
        return self._fit(X, sensitive_features, sample_weight)

    def _fit(self, X, sensitive_features, sample_weight):
        """`fit`, whatever the engine takes as X."""
        check_settings(self)
        self.check_settings()
        with sharing(getattr(self, "mesh", None), "rows"):
            data, left_out = self._data(X, sensitive_features, sample_weight)
            problem = self.problem(data)
            give_back_freed()
            outcome = self.solve(problem, data)
            give_back_freed()
            self.converged_ = converged_or_warn(outcome, self, self.remedy)
            self.n_iter_ = outcome.n_iter
            self.set_attributes(outcome, problem, data)
            self.objective_trace_ = self.objective_of(np.asarray(outcome.trace, np.float64))
            for name in self.of_rows:
                setattr(self, name, getattr(self, name)[data.own])
            self._place(left_out)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The cluster of every row, int (N,); row by row, so that balance is not promised for new rows."""
        check_is_fitted(self)
        return self.assign(self.read(X, reset=False))

    def _data(self, X, sensitive_features, sample_weight) -> tuple[Data, LeftOut | None]:
        columns = self.read(X, reset=True)
        n_obs, counted, left_out = len(columns.continuous), None, None
        weight = self._weights(sample_weight, X, n_obs)
        if weight is not None and not weight.all():
            counted = weight > 0
            left_out = LeftOut(columns.take(~counted), counted)
            columns, weight = columns.take(counted), weight[counted]
        groups = read_groups(self, sensitive_features, n_obs, needed=self.uses_groups, rows=counted, X=X)
        check_alike(self, X=(columns.continuous.dtype.name, self.n_features_in_, columns.names))
        groups, split = split_rows(getattr(self, "mesh", None), groups)
        if self.parts is not None:
            remedy = f"There are {split.n_obs} rows (n_samples = {split.n_obs}): ask for fewer."
            check_integer(self.parts, self.n_parts, maximum=split.n_obs, remedy=remedy)
        seed = agreed(int(random_state_of(self.random_state).randint(2**31 - 1)))
        data = Data(columns, groups, weight, seed, split)
        return data.gathered() if split.mesh is not None and split.is_small else data, left_out

    def _weights(self, sample_weight, X, n_obs):
        if sample_weight is None:
            return None
        if self.weights is None:
            rule, remedy = f"be None for {type(self).__name__}", "It counts every row once: leave it out."
            raise ValueError(message("sample_weight", rule, "weights", remedy))
        return check_weights(sample_weight, n_obs, X)

    def _place(self, left_out):
        """Labels of rows of weight 0, if there are any, among those of the others."""
        if left_out is not None:
            labels = np.empty(len(left_out.counted), self.labels_.dtype)
            labels[left_out.counted], labels[~left_out.counted] = self.labels_, self.assign(left_out.columns)
            self.labels_ = labels

    @property
    def n_parts(self):
        """How many clusters are asked for."""
        return getattr(self, self.parts)

    def problem(self, data: Data):
        """What iterations read, a tree of arrays: the argument of compiled programs, so that none is a constant in them."""
        raise NotImplementedError

    def starts(self, problem, data: Data):
        """A batch of states, the leading axis of whose arrays counts runs."""
        raise NotImplementedError

    @staticmethod
    def step(problem, state):
        """(state, loss) after an iteration of one run, see `minimize`. Where settings shape the program, a property that
        gives a frozen dataclass of them instead: equal settings give equal steps, and programs are kept by step."""
        raise NotImplementedError

    def set_attributes(self, outcome: Outcome, problem, data: Data):
        """Sets `labels_` and whatever else the run of `outcome` has found."""
        raise NotImplementedError

    def check_settings(self):
        """Raises where settings do not go together; each by itself is what `__init__` declares (`bayesfair._settings`)."""

    def read(self, X, *, reset) -> Columns | Nodes:
        """The checked columns of a table, of a fit (`reset`) or of a prediction; numbers alone, NaN by the tags."""
        return read_columns(self, X, (), reset=reset, allow_nan=self.__sklearn_tags__().input_tags.allow_nan)

    def standardised(self, data: Data, **settings):
        """The rows in units near their spread, float64 (N, d), so that the size of the numbers decides nothing;
        `self._scaling` leads back. `settings`: as `bayesfair._scaling.standardise` takes them."""
        Z, self._scaling = standardise(data.X, names=data.columns.names, weight=data.given_weight, **settings)
        return Z

    def solve(self, problem, data: Data) -> Outcome:
        """The one run that is reported: the best of one stage from all starts, unless an engine has more of them."""
        return self.run(problem, self.starts(problem, data)).best

    def run(self, problem, states, *, step=None, **settings) -> Outcome:
        """One stage: `minimize` with the engine's step, max_iter, tol, patience and progress_bar, or with `settings`."""
        names = ("max_iter", "tol", "patience", "progress_bar")
        known = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return minimize(self.step if step is None else step, problem, states, **{**known, **settings})

    def objective_of(self, losses):
        """Losses as `objective_trace_` tells them: in the units of X, with the sign of the paper."""
        return losses

    def assign(self, columns: Columns):
        """The cluster of every row (N,): the one whose centre is nearest."""
        return nearest_center(columns.continuous, self.cluster_centers_, self._scaling)


def check_distinct(X, n_clusters):
    """ValueError where X has fewer distinct rows than clusters."""
    distinct_rows(X.__getitem__, n_clusters, "n_clusters")


def kmeans_centers(X, n_clusters, data: Data, n_init=1):
    """Centres (n_init, n_clusters, dim) of k-means++ restarts, best first: where the engines start. X (obs, dim): the rows of
    the data as numbers."""
    from sklearn.cluster import KMeans

    check_distinct(X, n_clusters)
    rng, weight = np.random.RandomState(data.seed), data.weight
    seeds = [rng.randint(2**31 - 1) for _ in range(n_init)]

    def restarted(own):
        fit = KMeans(n_clusters, n_init=1, random_state=own).fit(X, sample_weight=weight)
        return fit.inertia_, fit.cluster_centers_

    best_first = sorted(data.dealt(restarted, seeds), key=itemgetter(0))
    return np.stack([centers for _, centers in best_first])


def warn_of_work(estimator, why, seconds, remedy):
    """A RuntimeWarning before a fit that may take longer than anybody expects."""
    if seconds > LONG:
        much = f"{seconds:.0f} seconds" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
        what = f"{why} may take about {much} on one core"
        tell(f"{type(estimator).__name__}: {what}. Remedy: {remedy}.", RuntimeWarning)


def nearest_center(X, centers, scaling: Scaling):
    """The centre (clusters, dim) nearest to every row (obs, dim), both in the units of X.

    Raises
    ------
    ValueError: a row so far from the training rows, measured in their spread, that squared distances overflow.
    """
    from sklearn.metrics import pairwise_distances_argmin

    labels, centers = np.empty(len(X), np.int64), scaling.rows(centers)
    for block in row_blocks(len(X)):
        rows = scaling.rows(X[block])
        if np.abs(rows).max() > FARTHEST:
            row, column = np.unravel_index(np.abs(rows).argmax(), rows.shape)
            row += block.start
            rule, got = "be near the rows of the fit", f"{X[row, column]:.3g} at row {row}, column {column}"
            raise ValueError(message("X", rule, got, "Correct that entry, or use the units of the fit."))
        labels[block] = pairwise_distances_argmin(rows, centers)
    return labels


def relocate_empty(labels, cost, empty=None):
    """Labels with every cluster of `cost` (obs, clusters) used: an empty one takes the row that suits its own least.

    `empty`: those that are; None finds them. Rows alone in their cluster stay, so that no cluster is emptied to fill another.
    """
    labels = np.array(labels)
    for cluster in np.setdiff1d(np.arange(cost.shape[1]), labels) if empty is None else empty:
        own = cost[np.arange(len(labels)), labels]
        alone = np.bincount(labels, minlength=cost.shape[1])[labels] == 1
        labels[np.argmax(np.where(alone, -np.inf, own))] = cluster
    return labels
