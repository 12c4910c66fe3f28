"""The template of every engine: `fit`, `predict`, and what several engines share."""

from operator import itemgetter
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from bayesfair._affinities import Nodes
from bayesfair._arrays import row_blocks
from bayesfair._check import check_integer, check_weights, message, random_state_of, tell
from bayesfair._jit import usual_settings
from bayesfair._memory import give_back_freed
from bayesfair._scaling import Scaling, standardise
from bayesfair._settings import check_settings
from bayesfair._tables import Columns, check_distinct, read_columns
from bayesfair._whole_fits import whole_or_not
from bayesfair.distributed.messages import agreed, check_alike, sharing
from bayesfair.engines.data import UNSPLIT, Data, split_rows
from bayesfair.engines.optimize import Outcome, converged_or_warn, minimize
from bayesfair.fairness.groups import Groups, read_groups, refuse_groups_as_y

LONG = 60.0  # seconds of work above which a user is warned
FARTHEST = 1e150  # largest distance from the middle of the training rows, in their spreads: squares stay finite


class Engine(ClusterMixin, BaseEstimator):
    """A clustering estimator that takes `sensitive_features`. Subclass it and write four methods.

    They are `problem`, `starts`, `step` and `set_attributes`. An engine of several stages writes `solve` instead of
    `starts` and `step`.

    Attributes
    ----------
    parts : str or None
        The argument that says how many clusters there are. None for an engine that finds out.
    uses_groups : bool
        False if every row is treated alike whatever its group.
    patience : int
        Quiet iterations in a row after which a run ends.
    unit : float
        The size that the data give to a loss, for example the loss of one cluster. If losses are below a thousandth of it,
        `tol` is relative to that thousandth: a loss that falls to 0 ends too.
    monotone : bool
        False if `objective_trace_` may get worse on its way, as with random mini-batches.
    weights : "rows", "loss" or None
        What a `sample_weight` of 2 means. "rows": a row that stands there twice, in the objective and in the shares of
        the groups. "loss": it enters the objective only, and balance counts rows. None: there are no weights.
    remedy : str
        What helps a run that did not converge.
    of_rows : tuple of str
        The fitted attributes that have one entry for each row.

    Examples
    --------
    >>> import bayesfair as bf
    >>> issubclass(bf.TiltedKMeans, bf.engines.Engine)
    True
    """

    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}  # noqa: RUF012
    parts = "n_clusters"
    uses_groups = True
    patience = 1
    unit = 1.0
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
        """Cluster a table.

        Without groups, an engine that uses them warns and clusters without fairness. Ctrl-C keeps the solution so far.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features: a pandas or polars data frame, or an array.
        y : None
            Not used.
        sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups, optional
            The groups of the rows, see `bayesfair.fairness.encode_groups`.
        sample_weight : array-like of shape (n_obs,), optional
            Weights, at least 0. By default 1. A row of weight 2 counts as two equal rows in objective, shares, balance and
            gaps. A row of weight 0 is left out and gets the label that `predict` gives it. Engines that balance whole rows
            (`weights` is "loss") weigh the objective only.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the table does not hold numbers, or a setting has the wrong type.
        ValueError
            If the table, the groups, the weights or a setting are not valid. The message names the argument, the rule and
            the remedy.
        """
        refuse_groups_as_y(y, sensitive_features)
        return self._fit(X, sensitive_features, sample_weight)

    @whole_or_not
    def _fit(self, X, sensitive_features, sample_weight):
        """`fit` for every kind of X that the engine accepts."""
        check_settings(self)
        self.check_settings()
        with sharing(getattr(self, "mesh", None)):
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

    @usual_settings()
    def predict(self, X: ArrayLike) -> np.ndarray:
        """The cluster of every row, each row on its own: nothing guarantees the balance of new rows.

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
            If the columns differ from those of the fit, or a row is so far from its rows that distances overflow.
        """
        check_is_fitted(self)
        return self.assign(self.read(X, reset=False))

    def _data(self, X, sensitive_features, sample_weight):
        """(`Data`, None or the columns of the rows of weight 0 and a mask (N,) of the other rows)."""
        columns = self.read(X, reset=True)
        n_obs, counted, left_out = len(columns.continuous), None, None
        weight = self._weights(sample_weight, X, n_obs)
        if weight is not None and not weight.all():
            counted = weight > 0
            left_out = columns.take(~counted), counted
            columns, weight = columns.take(counted), weight[counted]
        groups = read_groups(self, sensitive_features, n_obs, needed=self.uses_groups, rows=counted, X=X)
        check_alike(self, X=(columns.continuous.dtype.name, self.n_features_in_, columns.names))
        groups, split = split_rows(getattr(self, "mesh", None), groups)
        if self.parts is not None:
            remedy = f"There are {split.n_obs} rows (n_samples = {split.n_obs}): ask for fewer."
            check_integer(self.parts, self.n_parts, maximum=split.n_obs, remedy=remedy)
        seed = agreed(int(random_state_of(self.random_state).randint(2**31 - 1)))
        data = Data(columns, groups, weight, seed, split)
        if split.mesh is not None and split.is_small:  # each process fits the rows of all
            own = slice(split.first, split.first + len(groups.code))
            data = data.take(np.arange(split.n_obs))._replace(workers=UNSPLIT, own=own)
        return data, left_out

    def _weights(self, sample_weight, X, n_obs):
        if sample_weight is None:
            return None
        if self.weights is None:
            rule, remedy = f"be None for {type(self).__name__}", "It counts every row once: leave it out."
            raise ValueError(message("sample_weight", rule, "weights", remedy))
        return check_weights(sample_weight, n_obs, X=X)

    def _place(self, left_out):
        """Labels of all rows: rows of weight 0, if any, are placed among the others."""
        if left_out is not None:
            columns, counted = left_out
            labels = np.empty(len(counted), self.labels_.dtype)
            labels[counted], labels[~counted] = self.labels_, self.assign(columns)
            self.labels_ = labels

    @property
    def n_parts(self):
        """The number of clusters asked for."""
        return getattr(self, self.parts)

    def problem(self, data: Data):
        """What iterations read, as a tree of arrays. It is an argument of the compiled program, never a constant in it.

        Parameters
        ----------
        data : Data
            What the fit is given.

        Returns
        -------
        tree of arrays
        """
        raise NotImplementedError

    def starts(self, problem, data: Data):
        """The states where runs begin, stacked along a leading axis that counts runs.

        Parameters
        ----------
        problem : tree of arrays
            What `problem` returned.
        data : Data
            What the fit is given.

        Returns
        -------
        tree of arrays
        """
        raise NotImplementedError

    @staticmethod
    def step(problem, state):
        """One iteration of one run.

        If settings shape the program, write a property that returns a frozen dataclass of them instead. Equal settings then
        give equal steps, and programs are kept by step.

        Parameters
        ----------
        problem : tree of arrays
            What `problem` returned.
        state : tree of arrays
            The state of one run.

        Returns
        -------
        state : tree of arrays
            The next state.
        loss : scalar
            What is minimised.
        """
        raise NotImplementedError

    def set_attributes(self, outcome: Outcome, problem, data: Data):
        """Set `labels_` and whatever else the run has found.

        Parameters
        ----------
        outcome : Outcome
            The run that is reported.
        problem : tree of arrays
            What `problem` returned.
        data : Data
            What the fit is given.
        """
        raise NotImplementedError

    def check_settings(self):
        """Raise an error if settings do not go together. Annotations in `__init__` check each one alone."""

    def read(self, X, *, reset) -> Columns | Nodes:
        """The checked columns of a table: numbers only, NaN where the tags allow it.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            The table.
        reset : bool
            Whether this is a fit, which records the columns. A prediction compares them.

        Returns
        -------
        Columns or Nodes
        """
        return read_columns(self, X, (), reset=reset, allow_nan=self.__sklearn_tags__().input_tags.allow_nan)

    def standardised(self, data: Data, **settings):
        """The rows in units near their spread, so that the size of the numbers decides nothing.

        `self._scaling` leads back to the units of X.

        Parameters
        ----------
        data : Data
            What the fit is given.
        **settings
            Settings of the scaling.

        Returns
        -------
        numpy.ndarray of shape (n_obs, n_features)
            float64.
        """
        Z, self._scaling = standardise(data.X, names=data.columns.names, weight=data.given_weight, **settings)
        return Z

    def solve(self, problem, data: Data) -> Outcome:
        """The run that is reported: by default the best of one stage from all starts.

        Parameters
        ----------
        problem : tree of arrays
            What `problem` returned.
        data : Data
            What the fit is given.

        Returns
        -------
        Outcome
        """
        return self.run(problem, self.starts(problem, data)).best

    def run(self, problem, states, *, step=None, **settings) -> Outcome:
        """Run one stage: iterate the step from all states until each run ends.

        Parameters
        ----------
        problem : tree of arrays
            What `problem` returned.
        states : tree of arrays
            Starts, stacked along a leading axis.
        step : callable, optional
            By default the step of the engine.
        **settings
            Settings of the loop (`max_iter`, `tol`, `unit`, `patience`, `progress_bar`) in place of those of the engine.

        Returns
        -------
        Outcome
        """
        names = ("max_iter", "tol", "unit", "patience", "progress_bar")
        known = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return minimize(self.step if step is None else step, problem, states, **{**known, **settings})

    def objective_of(self, losses):
        """Turn losses into the values of `objective_trace_`: in the units of X, with the sign of the paper.

        Parameters
        ----------
        losses : numpy.ndarray
            What the step returned.

        Returns
        -------
        numpy.ndarray
        """
        return losses

    def assign(self, columns: Columns):
        """The cluster of every row: by default that of the nearest centre.

        Parameters
        ----------
        columns : Columns
            Checked columns.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
        """
        return nearest_center(columns.continuous, self.cluster_centers_, self._scaling)


def kmeans_centers(X, n_clusters, data: Data, n_init=1):
    """Centres (n_init, n_clusters, dim) of k-means++ restarts, best first: the starts of engines. X: (obs, dim)."""
    from sklearn.cluster import KMeans

    check_distinct(X, n_clusters)
    rng, weight = np.random.RandomState(data.seed), data.weight
    seeds = [rng.randint(2**31 - 1) for _ in range(n_init)]

    def restarted(own):
        fit = KMeans(n_clusters, n_init=1, random_state=own).fit(X, sample_weight=weight)
        return fit.inertia_, fit.cluster_centers_

    best_first = sorted(data.workers.dealt(restarted, seeds), key=itemgetter(0))
    return np.stack([centers for _, centers in best_first])


def warn_of_work(estimator, why, seconds, remedy):
    """Issue a RuntimeWarning before a fit that may take longer than expected."""
    if seconds > LONG:
        much = f"{seconds:.0f} seconds" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
        what = f"{why} may take about {much} on one core"
        tell(f"{type(estimator).__name__}: {what}. Remedy: {remedy}.", RuntimeWarning)


def nearest_center(X, centers, scaling: Scaling):
    """The centre (clusters, dim) nearest to every row (obs, dim), both in the units of X."""
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
