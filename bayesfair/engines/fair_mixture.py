"""`FairMixture`: fair model-based clustering (FMC) behind scikit-learn's interface; the method is in `fmc`."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from bayesfair._check import check_integer, message, refuse_unread, tell, warn_of_no_numbers
from bayesfair._jit import jit
from bayesfair._rows import Rows, total
from bayesfair._scaling import warn_of_scales
from bayesfair._settings import Count, NotNegative, Positive, Seed, Share
from bayesfair._tables import fit_encoder, read_columns
from bayesfair.distributed.messages import agreed
from bayesfair.engines.base import kmeans_centers, warn_of_work
from bayesfair.engines.data import ONE_BLOCK, Data, stratified
from bayesfair.engines.families import Components, Family, squared_distances, unpack_factor
from bayesfair.engines.fmc import (
    Ascent,
    FairRows,
    Rule,
    batches_of,
    bounds_by_size,
    fair_rows,
    fairness_of,
    first_of,
    labels_of,
    start_states,
)
from bayesfair.engines.mixture import MixtureEngine
from bayesfair.engines.optimize import Outcome, first_accepted, order_of

DEFAULT_GAP = 0.01
WEIGHT = 30.0  # initial weight of the exact penalty, per row
# Starts are explored on a sub-sample. Under max_gap they begin hot: every component is as wide as the data, with level
# probabilities near those of all rows, and the responsibilities that must be fair sharpen step by step. Tight unfair
# k-means clusters never became fair. Nor did, on more rows, clusters that were fair by chance on some, so the best
# start is heated again there.
EXPLORE_ROWS, EXPLORE_ITERATIONS = 4_000, 30
MORE = 2**18  # rows used before all rows
RANDOM_STARTS = 3  # one start in so many
KEPT = 6  # starts kept after the first temperature
# How far apart components begin, one number per exploration: one exploration may end in an optimum that is not fair
# enough. In many columns even components as wide as the data share no rows, so later explorations begin closer
# together.
SPREAD_OUT = 1.0, 0.2, 0.1
ANNEALING = 1.0, 0.4, 0.15, 0.06
RATE = 0.02  # learning rate of Adam, on scaled columns
SECONDS = 2e-9, 1.5e-9  # on one core, an iteration on full covariances: times d^3, and times d^2 per row
STRICTER = 3  # how often the weight is doubled and the temperature halved while clusters are not fair, or empty
PATIENCE = 6
BRIEF = {"max_iter": EXPLORE_ITERATIONS, "patience": PATIENCE}


jitted_log_joint = jit(Family.log_joint, static_argnums=0)
jitted_unpack_factor = jit(unpack_factor)


class _Interrupted(Exception):
    """Ctrl-C ended a run. It ends the fit, which keeps the run's outcome, the only argument."""


class Sample(NamedTuple):
    """Rows to learn from: as they came, as compiled programs read them, and their numbers in random order."""

    data: Data
    rows: FairRows
    order: np.ndarray


@dataclass(eq=False, repr=False)
class FairMixture(MixtureEngine):
    """A finite mixture with fair assignments: Gaussian, categorical or mixed.

    Parameters
    ----------
    n_components : int, at least 1, default 10
        Number of components.
    covariance_type : {"isotropic", "diag", "full"}, default "isotropic"
        "isotropic" is one variance for all components and columns, as in the paper. No variance falls below 1e-4 times
        that of the data (of each column): narrower components are reported at that floor.
    max_gap : float above zero, optional
        epsilon of eq. (7): the largest allowed difference between groups in the share of their rows that a cluster
        holds, for soft and for hard assignments. 0.01 if neither it nor `fairness_weight` is given.
    fairness_weight : float, at least 0, optional
        Instead of `max_gap`, lambda in l / N - lambda Delta, per row. 0 is the ordinary mixture, and then `gap_margin`
        and `min_share` are not used. The solution of max_gap=0.01 is one of the starts; it takes about three times as
        long.
    gap_margin : float above zero and at most 1, default 0.74
        The share of `max_gap` that the penalty aims at. Labels jump by whole rows and need the rest as room. While
        labels exceed `max_gap`, the weight of the penalty is doubled, at most three times. A small margin seldom needs
        that, at some price in likelihood.
    min_share : float, at least 0, default 0.35
        Every cluster is to hold at least this fraction of 1 / n_components of the rows. With `fairness_weight`, 0 is the
        paper's objective.
    categorical_features : array-like, optional
        Names, positions or a mask of the columns that are categories. By default the columns of a data frame that hold
        no numbers.
    solver : {"em", "gradient"}, default "em"
        "em" is FMC-EM (Algorithm 2). "gradient" is FMC-GD (Algorithm 1), ten steps of Adam in an iteration. The objective
        never decreases under either.
    batch_size : int, at least 1, optional
        Rows of a mini-batch (Algorithm 3). By default all rows. An iteration takes one mini-batch.
    gap_subsample : int, at least 1, or float above zero and at most 1, optional
        Rows, or share of the rows, on which mini-batches measure Delta, always the same ones. By default `batch_size`,
        but at least 4,000. What is fair to n rows differs from all by about 1 / sqrt(n).
    subsample : int, at least 1, or float above zero and at most 1, optional
        Learn on this many rows, or on this share of them, then assign all. By default all.
    n_init : int, at least 1, default 24
        Starts, explored on about 4,000 rows. One in three takes random rows as centres, the others k-means. The best goes
        on with all rows.
    max_iter : int, at least 1, default 150
        Most iterations of a run.
    tol : float, at least 0, default 1e-6
        A run ends when the objective gains less than this share of its size in several iterations.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable.
    progress_bar : bool, default False
        Whether to show a progress bar.
    mesh : jax.sharding.Mesh, optional
        A `bayesfair.distributed.mesh` of rows, for processes that each have some of them, see `distributed.deal`. Each
        gets the labels of its own rows; everything else is of all rows.

    Attributes
    ----------
    weights_ : numpy.ndarray of shape (n_components,)
        Weights of the components.
    means_ : numpy.ndarray of shape (n_components, n_features)
        Means of the columns of numbers, in the units of X.
    covariances_ : numpy.ndarray or float
        Covariances, in scikit-learn's shapes; a number for "isotropic".
    level_probabilities_ : numpy.ndarray of shape (n_components, n_levels)
        Probabilities of the levels of all categorical columns, side by side.
    labels_ : numpy.ndarray of shape (n_obs,)
        The cluster of every row.
    gap_ : float
        Delta of the soft assignments.
    hard_gap_ : float
        Delta of `labels_`.
    fairness_weight_ : float
        The weight of the penalty at the end.
    objective_trace_ : numpy.ndarray
        l / N minus the penalty in the last stage.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the run ended before `max_iter` in clusters that keep to `max_gap` and `min_share`. Otherwise a
        ConvergenceWarning tells the gap that was reached.

    Notes
    -----
    With `max_gap` this is not the constrained problem of eq. (7) but an approximation: the largest l / N minus a penalty.
    The penalty adds up, over clusters, by how much the gap exceeds a bound. Half of it is on the soft assignments and half
    on sharpened ones, which are near the labels. The bound of a cluster is `gap_margin` times `max_gap`, and less in
    proportion for a cluster of less than 1 / `n_components` of the rows. A second penalty keeps every cluster above
    `min_share` / `n_components` of the rows. So the likelihood may fall short of the largest one under Delta <= `max_gap`,
    also with `min_share=0`, and labels may miss `max_gap`.

    If no start leads to fair clusters, as many others are explored, at most twice, whose components begin nearer to each
    other. Tables of more than 131,072 rows, without `batch_size`, are worked on in blocks; about 262,144 rows come before
    all.

    "em" with mini-batches keeps the last E-step of every batch and raises the free energy, a lower bound of the objective.
    "gradient" with mini-batches raises the likelihood of the batch, in ever smaller steps.

    References
    ----------
    FMC, eq. (7) to (15) and (84) to (87), and Algorithms 1 to 3.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> est = bf.FairMixture(2, max_gap=0.05, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> est.predict_proba(data.features).shape
    (400, 2)
    """

    gap_: float = field(init=False)
    hard_gap_: float = field(init=False)
    fairness_weight_: float = field(init=False)

    n_components: Count = 10
    _: KW_ONLY
    covariance_type: Literal["isotropic", "diag", "full"] = "isotropic"
    max_gap: Positive | None = None
    fairness_weight: NotNegative | None = None
    gap_margin: Share = 0.74
    min_share: NotNegative = 0.35
    categorical_features: Any = None
    solver: Literal["em", "gradient"] = "em"
    batch_size: Count | None = None
    gap_subsample: Count | Share | None = None
    subsample: Count | Share | None = None
    n_init: Count = 24
    max_iter: Count = 150
    tol: NotNegative = 1e-6
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False
    mesh: jax.sharding.Mesh | None = None

    @property
    def patience(self):
        return PATIENCE if self.batch_size is None else 5 * PATIENCE

    @property
    def monotone(self):
        return self.batch_size is None or self.solver == "em"

    @property
    def step(self):
        return Ascent(self._family, self.solver)

    def read(self, X, *, reset):
        return read_columns(self, X, self.categorical_features, reset=reset)

    def check_settings(self):
        if self.max_gap is not None:
            refuse_unread(self, "fairness_weight", where="if max_gap is given", why="Give one of the two.")
        if self.mesh is not None:
            refuse_unread(self, "batch_size", where="if mesh is given", why="A mesh processes all rows in blocks.")
        if self.batch_size is None:
            refuse_unread(self, "gap_subsample", where="unless batch_size is given", why="Delta is then of all rows.")
        for name in ("subsample", "gap_subsample"):
            if isinstance(rows := getattr(self, name), Integral):
                remedy = "Pass a number of rows, or a fraction of them."
                check_integer(name, rows, minimum=self.n_components, remedy=remedy)

    def _warn_of_work(self, n_obs, n_columns, groups):
        if self.covariance_type != "full":
            return
        n_learn, searches = self._n_of(self.subsample, n_obs), self._searches(groups)
        explore = EXPLORE_ITERATIONS * sum(self.n_init + (len(r) - 1) * min(KEPT, self.n_init) for r in searches)
        learn = self.max_iter * (2 * len(searches) - 1)
        # With several blocks most steps see a part of the rows.
        rows = explore * min(n_learn, EXPLORE_ROWS) + learn * min(n_learn, self.batch_size or ONE_BLOCK)
        each = SECONDS[0] * n_columns**3 * (explore + learn) + SECONDS[1] * n_columns**2 * rows
        what = f"{n_obs:,} rows of {n_columns} columns with full covariances"
        remedy = 'reduce the columns (such as by PCA), take covariance_type="diag", or learn on a subsample'
        warn_of_work(self, what, self.n_components * each, remedy)

    def _n_of(self, subsample, n_obs):
        if subsample is None:
            return n_obs
        if isinstance(subsample, Integral):
            return min(n_obs, int(subsample))
        return max(self.n_components, int(subsample * n_obs))

    def problem(self, data) -> FairRows:
        """All rows; `solve` learns from all or some of them."""
        one_scale, split = self.covariance_type == "isotropic", data.split
        warn_of_no_numbers(self, data.X.shape[1])
        self._encoder = fit_encoder(data.columns, one_scale, split.everybody, data.given_weight)
        if one_scale and data.X.shape[1]:
            warn_of_scales(data.X, data.columns.names)
        self._family = Family(self.covariance_type, self._encoder.n_levels)
        self._warn_of_work(*data.X.shape, data.groups)
        return fair_rows(data, self._encoder)

    def _some(self, data, rows) -> Sample:
        """Some rows, with members of every group and at least as many distinct rows as components."""
        some = data.sample(rows, self.n_components, self.parts, self._numbers)
        absent = [name for name, size in zip(some.groups.names, some.groups.sizes) if size == 0]
        if absent:
            rule, remedy = "keep members of every group", "Raise subsample or gap_subsample, or merge small groups."
            raise ValueError(message("subsample", rule, f"no row of {absent} among {len(rows)} rows", remedy))
        return Sample(some, fair_rows(some, self._encoder), np.arange(len(some.X)))

    def solve(self, everybody, data):
        """Explore several starts on some rows, then continue the best on more and finally on all of them."""
        order = data.shuffled
        size = self._n_of(self.subsample, len(order))
        try:
            if size == len(order):
                return self._learn(self._in_batches(Sample(data, everybody, order)))
            return agreed(self._learn(self._in_batches(self._some(data, order[:size]))))
        except _Interrupted as ended:
            return ended.args[0]

    def _in_batches(self, sample) -> Sample:
        """The same rows; with mini-batches the penalty is measured on a fixed part of them."""
        if self.batch_size is None:
            return sample
        data = sample.data
        size = self._n_of(self.gap_subsample or max(self.batch_size, EXPLORE_ROWS), data.split.n_obs)
        some = self._some(data, stratified(data.shuffled, data.groups.code, size))
        return sample._replace(rows=some.rows._replace(batches=batches_of(data, self._encoder, self.batch_size)))

    def _learn(self, sample):
        """Run every search of `_searches`, continue each under the rule of the first, and the best one on all rows."""
        few = sample._replace(rows=first_of(sample.rows, MORE))
        own, *others = self._searches(sample.data.groups)
        found = (self._searched(few, rules).state.parameters for rules in others)
        outcomes = [self._searched(few, own), *(self._run(few, parameters, own[-1]) for parameters in found)]
        outcome = outcomes[order_of(np.array([outcome.loss for outcome in outcomes]))[0]]
        if bool(np.all(few.rows.used)):
            return outcome
        # Start at the first weight again: doubled twice as often, it empties components.
        return self._fair(sample, [self._run(sample, outcome.state.parameters, own[-1])], own[-1])

    def _searched(self, sample, rules):
        """Explore until a start leads to fair clusters of the sample; each time on other rows, with another seed."""
        data = sample.data
        # A mini-batch is too few rows to be cooled again.
        again = data.split.n_obs > EXPLORE_ROWS and len(data.groups.names) > 1 and self.batch_size is None
        hot, last = rules[:-1] if again else [], rules[-1]

        def found(time):
            rows = stratified(np.roll(sample.order, -time * EXPLORE_ROWS), data.split.groups.code, EXPLORE_ROWS)
            some = self._some(data._replace(seed=data.seed + time), rows)
            parameters = agreed(self._explore(some, rules, SPREAD_OUT[time]))
            if hot:
                parameters = self._family.heated(parameters, SPREAD_OUT[time])
            for rule in hot:
                parameters = self._run(sample, parameters, rule, **BRIEF).state.parameters
            return self._run(sample, parameters, last)

        return self._fair(sample, map(found, range(len(SPREAD_OUT))), last)

    def _fair(self, sample, outcomes, rule):
        """The first fair outcome, or the best one continued until it is fair, with twice the weight each time."""
        outcome, missing = first_accepted(outcomes, lambda one: self._missing(sample, one, rule))
        for _ in range(STRICTER):
            if not missing:
                break
            rule = rule._replace(fairness_weight=2 * rule.fairness_weight, temperature=rule.temperature / 2)
            outcome = self._run(sample, outcome.state.parameters, rule)
            missing = self._missing(sample, outcome, rule)
        return outcome

    def _missing(self, sample, outcome, rule):
        """2 if an outcome is not fair, 1 if small clusters are not even (in several blocks they need not be), else 0."""
        fairness = fairness_of(self._family, outcome.state.parameters, sample.rows, sample.data.split)
        is_fair, even = agreed(self._is_fair(fairness, rule))
        return int(not even and len(sample.rows.rows) == 1) if is_fair else 2

    def _run(self, sample, parameters, rule, **settings) -> Outcome:
        """One run of the loop under a rule. Ctrl-C in it ends the fit."""
        seed = sample.data.seed
        states = start_states(self._family, sample.rows, parameters, rule, RATE, seed, self.solver)
        outcome = self.run(sample.rows, states, **settings).best
        if outcome.status == Outcome.INTERRUPTED:
            raise _Interrupted(outcome)
        return outcome

    def _numbers(self, columns):
        """Rows of a table as numbers: scaled columns, then level indicators."""
        return np.hstack(self._encoder.table(columns)[::2])

    def _searches(self, groups) -> list[list[Rule]]:
        """One list of rules for each search. With `max_gap` there is one search, whose penalty cools from rule to rule.

        With `fairness_weight` there are two: the first has the penalty lambda Delta, the second is the search of `max_gap`.
        The first alone often ends in a worse optimum.
        """
        allowed, floor = self.gap_margin * self._max_gap, self.min_share / self.n_components
        within = [Rule(WEIGHT, allowed, floor, temperature) for temperature in ANNEALING]
        if self.fairness_weight is None:
            return [within]
        own = [Rule(self.fairness_weight, np.inf, floor if self.fairness_weight else 0.0, ANNEALING[-1])]
        return [own, within] if self.fairness_weight and len(groups.names) > 1 else [own]

    @property
    def _max_gap(self):
        return DEFAULT_GAP if self.max_gap is None else self.max_gap

    def _explore(self, some, rules, spread_out) -> Components:
        """The best parameters of `n_init` starts on a sub-sample. The KEPT best go on from rule to rule.

        Each is a run of its own, so that results are bitwise the same with any number of processes: Adam amplifies rounding.
        """
        points = self._numbers(some.data.columns).astype(np.float64)
        starts = [self._parameters_at(some.rows, centers) for centers in self._centers(points, some.data)]
        if len(some.data.groups.names) > 1 and rules[0].fairness_weight > 0:
            # All are hot under max_gap; with a weight the random ones, as the unfair optimum is near.
            first = 0 if np.isfinite(rules[0].allowed) else self.n_init - self.n_init // RANDOM_STARTS
            starts[first:] = (self._family.heated(start, spread_out) for start in starts[first:])

        def advanced(start, rule):
            outcome = self._run(some, start, rule, **BRIEF)
            return outcome.loss, outcome.state.parameters

        for rule in rules:
            losses, reached = zip(*some.data.workers.dealt(partial(advanced, rule=rule), starts))
            starts = [reached[i] for i in order_of(np.array(losses))[:KEPT]]
        return starts[0]

    def _centers(self, points, data):
        """Start centres; one start in three is k random rows, as k-means may always split rows along one unfair direction."""
        n_random, weight = self.n_init // RANDOM_STARTS, data.weight
        known = kmeans_centers(points, self.n_components, data, self.n_init - n_random)
        rows = np.random.default_rng(data.seed)
        p = None if (weight == weight[0]).all() else weight / weight.sum()
        random = [points[rows.choice(len(points), self.n_components, replace=False, p=p)] for _ in range(n_random)]
        return [*known, *random]

    def _parameters_at(self, problem: FairRows, centers) -> Components:
        """The M-step of hard assignments to the nearest centre."""
        k, dim = self.n_components, len(self._encoder.middle)
        spread = {"isotropic": (), "diag": (k, dim), "full": (k, dim, dim)}[self.covariance_type]
        shapes = (k,), (k, dim), spread, (k, sum(self._encoder.n_levels))
        blank = Components(*(np.zeros(shape, np.float32) for shape in shapes))
        return m_step_at(self._family, blank, problem.rows, centers.astype(np.float32))

    def _is_fair(self, fairness, rule):
        """(soft and hard gaps are within max_gap and no cluster is too small, hard gaps are within `bounds_by_size`)."""
        if not np.isfinite(rule.allowed):
            return True, True
        allowed = rule.allowed / self.gap_margin
        share, gaps, soft = fairness
        worst = max(gaps.max(), soft.max())
        even = (gaps <= bounds_by_size(allowed, share)).all()
        return bool(worst <= allowed and share.min() >= rule.floor / 2), bool(even)

    def set_attributes(self, outcome, everybody, data):
        self._parameters = parameters = outcome.state.parameters
        self.fairness_weight_ = float(self.fairness_weight or outcome.state.rule.fairness_weight)
        self._describe(parameters)
        self.labels_ = data.split.in_order(labels_of(self._family, parameters, everybody)).astype(np.int64)
        fairness = share, *gaps = fairness_of(self._family, parameters, everybody, data.split)
        self.hard_gap_, self.gap_ = (float(gap.max()) for gap in gaps)
        if self._is_fair(fairness, self._searches(data.groups)[0][-1])[0]:
            self._warn_of_empty("raise min_share or n_init, or ask for fewer components.")
        else:
            self.converged_ = False  # what was asked for is not reached, wherever the run has settled
            self._warn_of_unfair(share)

    def _warn_of_unfair(self, share):
        """Warn by how much clusters miss max_gap or the smallest share, and say what to do."""
        allowed = self._max_gap
        reached, default = max(self.gap_, self.hard_gap_), " by default" if self.max_gap is None else ""
        if reached > allowed:
            what = f"gap_ is {self.gap_:.3g} and hard_gap_ {self.hard_gap_:.3g}, above max_gap, {allowed:g}{default}"
            remedy = f"raise n_init, ask for fewer components, or allow what was reached: max_gap={1.05 * reached:.2g}"
            if self.batch_size is not None:
                remedy = f"measure Delta on more rows (gap_subsample), {remedy}"
        else:
            half = "less than half of min_share / n_components"
            what = f"the smallest cluster holds {share.min():.2%} of the rows, {half}"
            remedy = "raise n_init, ask for fewer components, or allow small clusters: min_share=0"
        tell(f"{type(self).__name__}: {what}. Remedy: {remedy}.", ConvergenceWarning)

    def objective_of(self, losses):
        return -losses - np.log(self._encoder.scale).sum()

    def log_joint(self, columns):
        log_joint = jitted_log_joint(self._family, self._parameters, self._encoder.table(columns))  # of scaled rows
        return np.asarray(log_joint).T.astype(np.float64) - np.log(self._encoder.scale).sum()

    def _describe(self, parameters: Components):
        """Parameters in the units of X, in scikit-learn's shapes."""
        scale, spread = self._encoder.scale, np.asarray(parameters.spread, np.float64)
        self.weights_ = softmax(np.asarray(parameters.log_mixing, np.float64))
        self.means_ = np.asarray(parameters.mean, np.float64) * scale + self._encoder.middle
        self.level_probabilities_ = np.exp(np.asarray(self._family.log_levels(parameters.logits)))
        if self.covariance_type == "full":
            factor = np.asarray(jitted_unpack_factor(parameters.spread)[0], np.float64)
            self.covariances_ = np.linalg.inv(factor @ factor.swapaxes(1, 2)) * np.outer(scale, scale)
        else:
            self.covariances_ = np.exp(spread) * (scale**2 if self.covariance_type == "diag" else scale[:1].sum() ** 2)

    def bic(self, X):
        """The Bayesian information criterion, -2 l + log(N) times the number of free parameters.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        float
            Lower is better.
        """
        log_density = self.score_samples(X)
        k, d = self.means_.shape
        spread = {"isotropic": min(d, 1), "diag": k * d, "full": k * d * (d + 1) // 2}[self._family.covariance_type]
        free = k - 1 + k * d + spread + k * sum(n - 1 for n in self._encoder.n_levels)
        return float(-2 * log_density.sum() + free * np.log(len(log_density)))


@jit(static_argnames="family")
def m_step_at(family: Family, old: Components, rows: Rows, centers):
    """The M-step of hard assignments to the nearest centre; `centers`: (clusters, columns and levels)."""

    def expected(block, old, centers):
        table = block.table(family)
        points = jnp.concatenate([table.x, table.levels], 1)
        nearest = squared_distances(centers, points, jnp.square(points).sum(1)).argmin(0)
        hard = block.weight * (nearest == jnp.arange(len(centers))[:, None])
        return family.expected(old, table, hard)

    return family.m_step(old, total(expected, rows, old, centers))
