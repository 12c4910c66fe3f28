"""`TiltedKMeans` (TKM) behind scikit-learn's interface; the method is in `tkm`."""

from dataclasses import KW_ONLY, dataclass, field
from operator import attrgetter
from typing import Literal

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesfair._check import listed, message, refuse_unread, tell
from bayesfair._scaling import center_and_spread, check_costs, scaling_of, warn_of_scales
from bayesfair._settings import Count, NotNegative, Positive, Seed
from bayesfair._tables import check_distinct
from bayesfair.distributed.messages import agreed
from bayesfair.engines.base import Engine
from bayesfair.engines.data import free, here
from bayesfair.engines.hard_clusters import squares
from bayesfair.engines.tkm import GradientDescent, TiltedRows, WeightedRows, newton, pooled_losses, start_states

LARGEST_EXPONENT = 1e6  # largest t times squared distance: beyond it float32 cannot tell two exponents apart
SMALLEST_EXPONENT = 1e-12  # below it exp(x) - 1 equals x in float32, and the method is k-means
EXPLORE_ROWS = 10_000
TILT_RATIO = 4.0  # ratio between successive tilts on the way to a large one
SGD_PATIENCE = 20
BLOCK = 2**14  # rows
FEW, FEW_OF_SHARE = 10, 0.05  # a warning tells of clusters of at most so many rows, and below so much of an even share


@dataclass(eq=False, repr=False)
class TiltedKMeans(Engine):
    """k-means whose centres lean towards the members that are far away.

    Groups are not used: every row is treated alike. `sensitive_features` is accepted so that engines can be exchanged.

    Parameters
    ----------
    n_clusters : int, at least 1, default 4
        Number of clusters.
    tilt : float, at least 0, default 0.1
        t, per squared unit of X. 0 is k-means. Large values approach the centre of the smallest ball around each cluster.
    solver : {"newton", "sgd"}, default "newton"
        How centres are refined between two assignments of the rows to their nearest centres. "newton" is deterministic.
        "sgd" is the paper's.
    learning_rate : float above zero, default 0.05
        Size of the steps of "sgd".
    batch_size : int, at least 1, default 100
        Rows of a mini-batch of "sgd". A row's weight is its share of all rows, so steps shrink as the table grows. The
        paper's figures use 100 of 1,000 rows. Raise it with the number of rows.
    n_epochs : int, at least 1, default 5
        Mini-batches of "sgd" between two assignments, the paper's epochs.
    n_init : int, at least 1, default 16
        k-means++ starts, run together on at most 10,000 rows. The best goes on with all of them. It is the one with the
        least mean of exp(tilt d), where d is a row's squared distance to its centre. The objective would often choose one
        large cluster and small ones.
    max_iter : int, at least 1, default 500
        Most iterations.
    tol : float, at least 0, default 1e-6
        A run ends when the objective changes by less than this share of its size. "sgd" keeps its step and seldom settles.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable.
    progress_bar : bool, default False
        Whether to show a progress bar.
    mesh : jax.sharding.Mesh, optional
        For solver="newton", a `bayesfair.distributed.mesh` of rows, for processes that each have some of them. Each gets
        the labels of its own rows; everything else is of all rows.

    Attributes
    ----------
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        The centres.
    labels_ : numpy.ndarray of shape (n_obs,)
        The nearest centre of every row, as of `predict`.
    tilted_sse_ : float
        The objective.
    inertia_ : float
        Sum of squared distances to the centres.
    within_cluster_variance_ : numpy.ndarray of shape (n_clusters,)
        Variance of the squared distances in each cluster.
    max_distance_ : numpy.ndarray of shape (n_clusters,)
        Largest distance of a member to its centre.
    objective_trace_ : numpy.ndarray
        The objective after every iteration. With "newton" the refinement of the centres never raises it, and without tilt
        the assignment does not either. With a tilt the assignment can raise it. Neither raises the mean of exp(tilt d).
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the objective settled before `max_iter`. With "sgd" it is False where the objective stands still but steps
        are too short to reach what is left to gain.

    References
    ----------
    TKM, eq. (13), Algorithm 2 and section 4.3.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_diabetes()
    >>> est = bf.TiltedKMeans(3, tilt=0.01, random_state=0).fit(data.features)
    >>> est.cluster_centers_.shape[0]
    3
    """

    uses_groups = False
    monotone = False  # with a tilt the nearest centre of a row can raise the objective

    cluster_centers_: np.ndarray = field(init=False)
    tilted_sse_: float = field(init=False)
    inertia_: float = field(init=False)

    n_clusters: Count = 4
    _: KW_ONLY
    tilt: NotNegative = 0.1
    solver: Literal["newton", "sgd"] = "newton"
    learning_rate: Positive = 0.05
    batch_size: Count = 100
    n_epochs: Count = 5
    n_init: Count = 16
    max_iter: Count = 500
    tol: NotNegative = 1e-6
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False
    mesh: jax.sharding.Mesh | None = None

    @property
    def remedy(self):
        return Engine.remedy if self.solver == "newton" else "raise max_iter, learning_rate or batch_size."

    def check_settings(self):
        if self.solver == "newton":
            refuse_unread(self, "learning_rate", "batch_size", "n_epochs", where="unless solver='sgd'")
        else:
            one_process = "Mini-batches need all rows in one process."
            refuse_unread(self, "mesh", where="unless solver='newton'", why=one_process)

    def problem(self, data) -> TiltedRows:
        dim, split = data.X.shape[1], data.split
        whole = {"weight": data.given_weight, "everybody": split.everybody}
        self._scaling = scaling_of(data.X, names=data.columns.names, precision=np.float32, **whole)
        spread = center_and_spread(data.X, **whole)[1]
        # The variance of squared distances has degree 4 in X.
        check_costs(spread, names=data.columns.names, degree=4, terms=split.n_obs * dim)
        warn_of_scales(data.X, data.columns.names)
        # Fewer rows than columns are fitted in coordinates of their own span, by its axes (obs, dim).
        self._axes = np.linalg.qr(self._scaling.rows(data.X).T)[0].T if split.n_obs < dim else None
        problem = self._problem_of(data, 0.0)
        return problem._replace(tilt=split.placed(np.float32(self._tilt(problem.rows, split))))

    def _problem_of(self, data, tilt) -> TiltedRows:
        relative, split = data.split.n_obs / data.total_weight, data.split

        def block(some):
            rows, weight = self._rows(data.X, some), relative * data.weight_of(some)
            return WeightedRows(*(part.astype(np.float32) for part in (rows, np.square(rows).sum(1), weight)))

        numbers = (split.placed(np.float32(number)) for number in (split.n_obs, tilt, self.learning_rate))
        return TiltedRows(split.in_blocks(block, -(-split.n_obs // BLOCK)), *numbers)

    def _rows(self, X, at):
        """Some of the rows of a fit, float64, in the solver's coordinates."""
        rows = self._scaling.rows(X[at])
        return rows if self._axes is None else rows @ self._axes.T

    def _tilt(self, rows, split):
        """The tilt in the units of the solver's rows."""
        square, weight = (here(part).ravel().astype(np.float64) for part in rows.parts[1:])
        tilt, far = self._scaling.cost(self.tilt) if self.tilt else 0.0, max(split.everybody(square.max()))
        self._mean_square = split.total(weight @ square) / split.n_obs
        exponent = tilt * 4 * far
        if not exponent <= LARGEST_EXPONENT:
            rule = f"keep tilt times squared distances within {LARGEST_EXPONENT:.0e}"
            limit = LARGEST_EXPONENT / 4 / self._scaling.cost(far)
            remedy = f"Scale the columns of X, or use a tilt below {limit:.3g}."
            raise ValueError(message("tilt", rule, f"{self.tilt} with distances that give {exponent:.3g}", remedy))
        return 0.0 if exponent < SMALLEST_EXPONENT else tilt

    def solve(self, problem, data):
        """Run all seeds on at most EXPLORE_ROWS rows; continue the best on all rows."""
        rng, n_obs = np.random.RandomState(data.seed), data.split.n_obs
        if n_obs <= EXPLORE_ROWS:
            return self._descend(problem, self._seeds(data, rng), data.seed)
        drawn = rng.choice(n_obs, EXPLORE_ROWS, replace=False)
        some = data.sample(drawn, self.n_clusters, self.parts, attrgetter("continuous"))
        best = self._descend(self._problem_of(some, problem.tilt), self._seeds(some, rng), data.seed)
        return self._descend(problem, agreed(best.state.centers)[None], data.seed)

    def _seeds(self, data, rng):
        """k-means++ seeds (n_init, n_clusters, dim), without Lloyd iterations, which would make them alike."""
        from sklearn.cluster import kmeans_plusplus

        check_distinct(data.X, self.n_clusters)
        Z = self._rows(data.X, slice(None))
        settings = {"sample_weight": data.weight, "random_state": rng}
        return np.stack([kmeans_plusplus(Z, self.n_clusters, **settings)[0] for _ in range(self.n_init)])

    def _descend(self, problem, starts, seed):
        """The best run."""
        keys = np.stack([jax.random.PRNGKey(seed + i) for i in range(len(starts))])
        states = start_states(problem, starts.astype(np.float32), keys)
        if self.solver == "sgd":
            step = GradientDescent(self.batch_size, self.n_epochs)
            return least_pooled(problem, self.run(problem, states, step=step, patience=SGD_PATIENCE))
        # Newton's method reaches a large tilt through smaller ones, under which the objective is smoother.
        steps = np.ceil(np.log(max(float(problem.tilt) * self._mean_square, 1.0)) / np.log(TILT_RATIO))
        for divisor in TILT_RATIO ** np.arange(steps, -1, -1):
            eased = problem._replace(tilt=problem.tilt / np.float32(divisor))
            outcome = self.run(eased, states, step=newton, patience=3)
            states = outcome.state
        return least_pooled(problem, outcome)

    def set_attributes(self, outcome, problem, data):
        self.labels_ = data.split.in_order(outcome.state.labels)
        free(problem)
        centers = np.asarray(outcome.state.centers, np.float64)
        centers = centers if self._axes is None else centers @ self._axes
        self.cluster_centers_ = self._scaling.points(centers)
        self.tilted_sse_ = float(self._scaling.cost(outcome.loss))
        squared, split, weight = squares(data, self._scaling, self.labels_, centers), data.split, data.weight
        self.inertia_ = float(self._scaling.cost(split.total(weight @ squared)))
        own = (self.labels_ == k for k in range(self.n_clusters))
        members = [(split.of_all(squared[rows]), split.of_all(weight[rows])) for rows in own]
        spreads = [(variance_of(*part), part[0].max()) if len(part[0]) else (np.nan,) * 2 for part in members]
        variance, radius = np.array(spreads).T
        self.within_cluster_variance_ = self._scaling.cost(variance, 4)
        self.max_distance_ = self._scaling.cost(np.sqrt(radius), 1)
        self._tell_of_small_clusters([len(part) for part, _ in members])

    def _tell_of_small_clusters(self, sizes):
        """Warn of clusters of a few rows: far rows have drawn a centre to themselves."""
        share = sum(sizes) / len(sizes)
        small = {k: size for k, size in enumerate(sizes) if size <= FEW and size < FEW_OF_SHARE * share}
        if small:
            are = "clusters {} have {}" if len(small) > 1 else "cluster {} has {}"
            which = are.format(listed(small), listed(small.values()))
            lower = "`tilt` or `n_clusters`" if self.tilt else "`n_clusters`"
            what = f"{which} of {sum(sizes)} rows. Remedy: lower {lower}, or look at those rows: they may be outliers."
            tell(f"TiltedKMeans: {what}", ConvergenceWarning)

    def objective_of(self, losses):
        return self._scaling.cost(losses)


def least_pooled(problem, outcome):
    """The run of least `pooled_loss`. The objective itself prefers one large cluster to clear ones of equal sizes."""
    losses = np.where(np.isfinite(outcome.loss), pooled_losses(problem, outcome.state), np.inf)
    return outcome.least(losses)


def variance_of(values, weight):
    mean = np.average(values, weights=weight)
    return np.average(np.square(values - mean), weights=weight)
