"""`FairMixture`: fair model-based clustering (FMC) behind scikit-learn's interface; the method is in `fmc`."""

from functools import partial
from numbers import Integral
from operator import itemgetter
from typing import Literal

import jax
import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from bayesfair._arrays import stack, unstack
from bayesfair._check import check_integer, check_number, message, tell, warn_of_no_numbers
from bayesfair._units import warn_of_scales
from bayesfair.distributed import agreed
from bayesfair.engines.base import Data, kmeans_centers, warn_of_work
from bayesfair.engines.families import COVARIANCE_TYPES, Components, Family, Table, unpack_factor
from bayesfair.engines.fmc import (
    Ascent,
    GroupedRows,
    LearningRows,
    Rule,
    bounds_by_size,
    cluster_gaps,
    mean_of,
    membership,
    start_state,
)
from bayesfair.engines.fmc_blocks import (
    BlockedAscent,
    BlockedRows,
    ascent_over,
    begun,
    first_of,
    hard_masses,
    labels_in_order,
    rows_in_blocks,
    soft_shares,
)
from bayesfair.engines.mixture import MixtureEngine
from bayesfair.engines.optimize import Outcome, order_of
from bayesfair.engines.samples import distinct_rows, stratified, with_distinct
from bayesfair.engines.tables import fit_encoder, read_columns
from bayesfair.fairness import Groups, gap, gaps_of_shares

__all__ = ["FairMixture"]

DEFAULT_GAP = 0.01
WEIGHT = 30.0  # of the exact penalty to begin with, per observation
# Starts are explored on a sub-sample. Under max_gap they begin hot, every component as wide as the data and its levels'
# probabilities near those of all rows, and the responsibilities that have to be fair sharpen step by step: from k-means
# clusters, tight unfair ones never came loose. Nor did, on more rows, those that were fair by chance on some: the best
# begins hot again there.
EXPLORE_ROWS, EXPLORE_ITERATIONS = 4_000, 30
BLOCKED_FROM = 2**17  # rows from which all are worked on in blocks
PART, MORE = 2**15, 2**18  # of them that starts are explored on, and that are worked on before all
RANDOM_STARTS = 3  # one start in so many
KEPT = 6  # of the starts after the first temperature
# Times that starts are explored at most, as one may lead to an optimum that is not fair enough; how far apart components begin.
# In many columns even components as wide as the data share no rows: then they begin nearer to each other.
SPREAD_OUT = 1.0, 0.2, 0.1
ANNEALING = 1.0, 0.4, 0.15, 0.06
RATE = 0.02  # of Adam, on scaled columns
SECONDS = 2e-9, 1.5e-9  # of a core, an iteration on full covariances: times d^3, and times d^2 for every row
STRICTER = 3  # how often the weight is doubled and the temperature halved while clusters are not fair, or empty
PATIENCE = 6


class _Interrupted(Exception):
    """Ctrl-C has ended a run, and with it the fit, which has the run's outcome."""

    def __init__(self, outcome):
        super().__init__(outcome)
        self.outcome = outcome


class FairMixture(MixtureEngine):
    """A finite mixture with fair assignments: Gaussian, categorical or mixed (FMC, eq. 7-15 and 84-87).

    Parameters
    ----------
    n_components: K. covariance_type: "isotropic" (one variance for all, the paper's), "diag", "full". No variance falls below
        1e-4 of the table's own (of its columns'): components less than a hundredth of its spread wide are told as so wide.
    max_gap: epsilon of eq. (7), for soft *and* hard assignments: the largest difference between groups in the share of
        them that a cluster holds. 0.01 where neither it nor `fairness_weight` is given.
    fairness_weight: instead, lambda of (1/N) l - lambda Delta, per observation; 0 is the ordinary mixture, without
        gap_margin and min_share. The solution of max_gap = 0.01 is one of the starts, which takes about three times as long.
    gap_margin: the share of max_gap that the penalty aims at. The penalty weighs responsibilities, as they are and sharpened,
        but max_gap is for labels too, which jump by whole rows: the rest is room for that. While labels exceed max_gap the
        penalty's weight is doubled, at most three times; a small margin seldom needs it, at some price in likelihood.
    min_share: every cluster is to hold at least this fraction of 1 / K; 0 leaves the paper's objective as printed.
    categorical_features: names, positions or a mask of columns; None takes the data frame's columns that hold no
        numbers.
    solver: "em" (FMC-EM; the objective never decreases) or "gradient" (FMC-GD).
    batch_size: rows of a mini-batch, with Delta on a fixed sub-sample (Algorithm 3); None is all rows.
    subsample: learn on so many rows (an integer, or a fraction of at most 1), then assign all.
    n_init: starts, explored on about 4,000 rows, one in three K random rows and the others k-means; the best
        goes on with all rows. Where that does not lead to fair clusters, as many others are explored, twice at most, whose
        components begin nearer to each other. More
        than 131,072 rows, without `batch_size`, are worked on in blocks, some 262,144 of them before all.
    mesh: `bayesfair.distributed.mesh(rows=...)`, processes each of which fits rows of its own (`distributed.deal`): all learn
        one model from all rows, that of one process but for rounding, and have the labels of their own.

    A `sample_weight` of 2 is a row that stands there twice: in likelihood, shares and gaps, and in the hundredth of a row that
    smooths categories.

    Attributes
    ----------
    weights_ (K,), means_ (K, d), covariances_ (in scikit-learn's shapes; a number where isotropic), level_probabilities_
    (K, levels), labels_ (N,), gap_ (Delta of psi), hard_gap_, fairness_weight_, objective_trace_ of (1/N) l - P in the
    last stage, n_iter_, converged_.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_vfc_synthetic()
    >>> est = bf.FairMixture(2, max_gap=0.05, random_state=0).fit(data.features, sensitive_features=data.sensitive)
    >>> est.predict_proba(data.features).shape
    (400, 2)
    """

    gap_: float
    hard_gap_: float
    fairness_weight_: float

    def __init__(
        self,
        n_components: int = 10,
        *,
        covariance_type: Literal["isotropic", "diag", "full"] = "isotropic",
        max_gap: float | None = None,
        fairness_weight: float | None = None,
        gap_margin=0.74,
        min_share=0.35,
        categorical_features=None,
        solver: Literal["em", "gradient"] = "em",
        batch_size: int | None = None,
        subsample: float | None = None,
        n_init: int = 24,
        max_iter: int = 150,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        progress_bar: bool = False,
        mesh: jax.sharding.Mesh | None = None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.max_gap = max_gap
        self.fairness_weight = fairness_weight
        self.gap_margin = gap_margin
        self.min_share = min_share
        self.categorical_features = categorical_features
        self.solver = solver
        self.batch_size = batch_size
        self.subsample = subsample
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.progress_bar = progress_bar
        self.mesh = mesh

    @property
    def patience(self):
        return PATIENCE if self.batch_size is None else 5 * PATIENCE

    @property
    def monotone(self):
        return self.batch_size is None

    @property
    def step(self):
        return Ascent(self._family, self.solver, self.batch_size)

    def read(self, X, *, reset, sensitive_features=None):
        return read_columns(self, X, self.categorical_features, reset=reset, sensitive_features=sensitive_features)

    def check_settings(self):
        for name, allowed in (("covariance_type", COVARIANCE_TYPES), ("solver", ("em", "gradient"))):
            if getattr(self, name) not in allowed:
                raise ValueError(message(name, f"be one of {allowed}", repr(getattr(self, name)), "See the docstring."))
        if self.max_gap is not None and self.fairness_weight is not None:
            rule, remedy = "be None where max_gap is given", "Give one of the two."
            raise ValueError(message("fairness_weight", rule, self.fairness_weight, remedy))
        if self.max_gap is not None:
            check_number("max_gap", self.max_gap)
        if self.fairness_weight is not None:
            check_number("fairness_weight", self.fairness_weight, minimum=0)
        check_number("min_share", self.min_share, minimum=0)
        if not 0 < check_number("gap_margin", self.gap_margin) <= 1:
            rule, remedy = "be above 0 and at most 1", "1 aims at max_gap itself."
            raise ValueError(message("gap_margin", rule, self.gap_margin, remedy))
        if self.subsample is not None:
            self._n_learn(2**62)
        if self.batch_size is not None:
            check_integer("batch_size", self.batch_size)
            if self.mesh is not None:
                rule, remedy = "be None where mesh is given", "All rows are worked on in blocks."
                raise ValueError(message("batch_size", rule, self.batch_size, remedy))

    def _warn_of_work(self, n_obs, n_columns, groups):
        if self.covariance_type != "full":
            return
        n_learn = self._n_learn(n_obs)
        searches = self._searches(groups)
        after = [self._after_exploring(rules, n_learn, groups) for rules in searches]
        explore = EXPLORE_ITERATIONS * sum(self.n_init + (len(r) - 1) * min(KEPT, self.n_init) for r in searches)
        learn = self.max_iter * (2 * len(after) - 1) + EXPLORE_ITERATIONS * sum(len(r) - 1 for r in after)
        # In blocks most steps see a part of the rows.
        rows = explore * min(n_learn, EXPLORE_ROWS) + learn * min(n_learn, self.batch_size or BLOCKED_FROM)
        each = SECONDS[0] * n_columns**3 * (explore + learn) + SECONDS[1] * n_columns**2 * rows
        what = f"{n_obs:,} rows of {n_columns} columns with full covariances"
        remedy = 'reduce the columns (such as by PCA), take covariance_type="diag", or learn on a subsample'
        warn_of_work(self, what, self.n_components * each, remedy)

    def _n_learn(self, n_obs):
        if self.subsample is None:
            return n_obs
        remedy = "Pass a number of rows, or a fraction of them."
        if isinstance(self.subsample, Integral):
            return min(n_obs, check_integer("subsample", self.subsample, minimum=self.n_components, remedy=remedy))
        fraction = check_number("subsample", self.subsample, remedy=remedy)
        if fraction > 1:
            raise ValueError(message("subsample", "be an integer, or a fraction of at most 1", self.subsample, remedy))
        return max(self.n_components, int(fraction * n_obs))

    def problem(self, data) -> GroupedRows | BlockedRows:
        """Everybody; `solve` learns from all of them or some."""
        one_scale, share = self.covariance_type == "isotropic", data.share
        warn_of_no_numbers(self, data.X.shape[1])
        self._encoder = fit_encoder(data.columns, one_scale, share.everybody, data.given_weight)
        if one_scale and data.X.shape[1]:
            warn_of_scales(data.X, data.columns.names)
        self._family = Family(self.covariance_type, self._encoder.n_levels)
        self._warn_of_work(*data.X.shape, data.groups)
        if share.mesh is not None or (self.batch_size is None and len(data.X) > BLOCKED_FROM):
            return rows_in_blocks(self._encoder, data)
        return _fair_rows(self._encoder.table(data.columns), data, slice(None))

    def solve(self, everybody, data):
        """Explore from several starts, go on from the best with all rows, more strictly while clusters are not fair."""
        try:
            if isinstance(everybody, BlockedRows):
                return self._solve_in_blocks(everybody, data)
            return self._learn(everybody.table, data, self._learning(data), data.share)
        except _Interrupted as ended:
            return ended.outcome

    def _learning(self, data):
        """The rows that are learned from, in random order."""
        rows = np.random.default_rng(data.seed).permutation(data.share.n_obs)
        return rows[: self._n_learn(len(rows))]

    def _learn(self, table, data, rows, share):
        """Of those rows, in random order."""
        problem = self._learning_rows(table, data, rows)
        explored = partial(self._explorations, table, data, rows, share)
        return self._search(problem, explored, len(problem.fair.weight), data, self.step)

    def _search(self, problem, explored, n_obs, data, step):
        """Run every search of `_searches` from the starts `explored(rules)`, go on under the first one's rules, and return the
        best."""

        def found(rules):
            after = self._after_exploring(rules, n_obs, data.groups)
            return self._strictly(problem, explored(rules), after, data.seed, step)

        rules, *others = self._searches(data.groups)
        outcomes = [found(rules)]
        for other in others:
            start = found(other).state.parameters
            outcomes.append(self._through(problem, start, rules, data.seed, step))
        return outcomes[order_of(np.array([outcome.loss for outcome in outcomes]))[0]]

    def _solve_in_blocks(self, everybody: BlockedRows, data):
        """Explore PART of the rows, go on with more of them, and then with all; or learn on the sub-sample alone."""
        code, most = data.share.groups.code, PART if self.subsample is None else data.share.n_obs
        some = self._with_distinct(stratified(self._learning(data), code, most), data)
        groups, weight = Groups(code[some], data.groups.names), data.weight_of_some(some)
        part = Data(data.columns.take(some, data.share), groups, weight, data.seed)
        explored = self._encoder.table(part.columns), part, np.arange(len(some)), data.share
        if self.subsample is not None:
            return agreed(self._learn(*explored))

        def starts(rules):
            return map(agreed, self._explorations(*explored, rules))

        step = ascent_over(everybody, BlockedAscent(self._family, self.solver))
        outcome = self._search(first_of(everybody, MORE), starts, data.share.n_obs, data, step)
        # From the first weight again: twice as often doubled, it empties components.
        return self._strictly(everybody, [outcome.state.parameters], self._rules()[-1:], data.seed, step)

    def _explorations(self, table, data, rows, share, rules):
        """The best of the starts on some of the rows; then on others, with another seed; and so on."""
        for time, spread_out in enumerate(SPREAD_OUT):
            some, own = np.roll(rows, -time * EXPLORE_ROWS), data._replace(seed=data.seed + time)
            yield self._explore(table, own, some, rules, share, spread_out)

    def _strictly(self, problem, starts, rules, seed, step):
        """Where the first of the starts leads that leads to fair clusters, through the rules; if none does, from where the best
        has led until clusters are fair, each time at twice the weight and half the temperature."""
        on_part = not isinstance(problem, BlockedRows)
        fair = problem.fair if on_part else problem

        def advanced(parameters, rules, spread_out=1.0):
            """(where this leads; is it fair; is it all that is wanted, small clusters being evened on a part, or will be)"""
            outcome = self._through(problem, parameters, rules, seed, step, spread_out)
            is_fair, even = agreed(self._is_fair(outcome.state.parameters, fair, rules[-1]))
            return outcome, is_fair, is_fair and (even or not on_part)

        found = []
        for start, spread_out in zip(starts, SPREAD_OUT):
            outcome, is_fair, done = advanced(start, rules, spread_out)
            if done:
                return outcome
            found.append((not is_fair, np.nan_to_num(outcome.loss, nan=np.inf), outcome))
        *_, outcome = min(found, key=itemgetter(0, 1))
        rule = rules[-1]
        for _ in range(STRICTER):
            rule = rule._replace(weight=2 * rule.weight, temperature=rule.temperature / 2)
            outcome, _, done = advanced(outcome.state.parameters, [rule])
            if done:
                break
        return outcome

    def _through(self, problem, parameters, rules, seed, step, spread_out=1.0):
        """Where the last of the rules leads after the others, which begin hot."""
        if len(rules) > 1:
            parameters = self._family.heated(parameters, spread_out)
        for rule in rules:
            states = self._states([parameters], rule, seed)
            if isinstance(problem, BlockedRows):
                states = begun(states, self._family, problem)
            settings = {} if rule is rules[-1] else {"max_iter": EXPLORE_ITERATIONS}
            outcome = _completed(self.run(problem, states, step=step, **settings).best)
            parameters = outcome.state.parameters
        return outcome

    def _with_distinct(self, rows, data):
        """Some rows of the table, of which as many differ as there are components."""

        def points(rows, share=None):
            columns = data.columns.take(rows, share)
            x, codes = self._encoder.scaled(columns.continuous), self._encoder.codes(columns.categorical)
            return np.hstack([x.astype(np.float32), codes])

        distinct = partial(distinct_rows, points, self.n_components, self.parts, data.share)
        return with_distinct(rows, partial(points, share=data.share), self.n_components, distinct)

    def _learning_rows(self, table, data, rows) -> LearningRows:
        """All of `rows`; the penalty is on a fixed part of them where there are mini-batches."""
        if self.batch_size is None:
            fair = _fair_rows(table, data, rows)
            return LearningRows(fair.table, fair.weight, fair)
        some = stratified(rows, data.groups.code, max(self.batch_size, EXPLORE_ROWS))
        weight = data.weight_of(rows).astype(np.float32)
        return LearningRows(_take(table, rows), weight, _fair_rows(table, data, some))

    def _rules(self) -> list[Rule]:
        """The rules a start is taken through: one, lambda Delta; or the exact penalty at falling temperatures."""
        if self.fairness_weight is not None:
            floor = self.min_share / self.n_components if self.fairness_weight else 0.0
            return [Rule(self.fairness_weight, np.inf, floor, ANNEALING[-1])]
        return self._rules_within(DEFAULT_GAP if self.max_gap is None else self.max_gap)

    def _rules_within(self, max_gap) -> list[Rule]:
        allowed, floor = self.gap_margin * max_gap, self.min_share / self.n_components
        return [Rule(WEIGHT, allowed, floor, temperature) for temperature in ANNEALING]

    def _searches(self, groups) -> list[list[Rule]]:
        """The rules of the settings. Under a weight those of max_gap follow: the weight's own starts often end in an optimum
        that is worse than max_gap's solution."""
        weighted = self.fairness_weight and len(groups.names) > 1
        return [self._rules(), *([self._rules_within(DEFAULT_GAP)] if weighted else [])]

    def _after_exploring(self, rules, n_obs, groups):
        """All of them where so many rows are more than were explored, and there are groups to be fair to; else the last one."""
        return rules[0 if n_obs > EXPLORE_ROWS and len(groups.names) > 1 else -1 :]

    def _explore(self, table, data, rows, rules, share, spread_out) -> Components:
        """The best parameters of `n_init` starts on part of the rows, which processes that have these alike deal."""
        some = self._with_distinct(stratified(rows, data.groups.code, EXPLORE_ROWS), data)
        fair = _fair_rows(table, data, some)
        problem = LearningRows(fair.table, fair.weight, fair)
        points = np.hstack([fair.table.x, fair.table.levels]).astype(np.float64)
        starts = self._centers(points, fair.weight, data.seed, share)
        parameters = [self._parameters_at(fair, points, centers) for centers in starts]
        hot = range(self._first_hot(rules[0], data.groups), self.n_init)
        heated = partial(self._family.heated, spread_out=spread_out)
        parameters = stack([heated(one) if i in hot else one for i, one in enumerate(parameters)])
        for rule in rules:
            parameters = self._best_of(problem, unstack(parameters), rule, data.seed, share)
        return unstack(parameters)[0]

    def _best_of(self, problem, parameters, rule, seed, share) -> Components:
        """KEPT of the parameters, stacked, the best first, that those of a list lead to: each a run of its own, so that it is
        the same, bit for bit, in however many processes. Of a difference Adam makes much where gradients are nearly zero."""
        settings = {"max_iter": EXPLORE_ITERATIONS, "patience": PATIENCE}

        def advanced(one):
            states = self._states([one], rule, seed)
            outcome = _completed(self.run(problem, states, step=Ascent(self._family, self.solver), **settings).best)
            return outcome.loss, outcome.state.parameters

        losses, reached = zip(*share.dealt(advanced, parameters))
        return stack([reached[i] for i in order_of(np.array(losses))[:KEPT]])

    def _first_hot(self, rule, groups):
        """Under max_gap all starts are hot; with a weight the random ones, for small weights are near the unfair optimum."""
        if len(groups.names) == 1 or rule.weight == 0:
            return self.n_init
        return 0 if np.isfinite(rule.allowed) else self.n_init - self.n_init // RANDOM_STARTS

    def _centers(self, points, weight, seed, share):
        """One start in three is k random rows: k-means solutions may all split the rows along one unfair direction."""
        n_random = self.n_init // RANDOM_STARTS
        known = kmeans_centers(points, self.n_components, seed, self.n_init - n_random, share, weight)
        rows = np.random.default_rng(seed)
        p = None if (weight == weight[0]).all() else weight / weight.sum(dtype=np.float64)
        random = [points[rows.choice(len(points), self.n_components, replace=False, p=p)] for _ in range(n_random)]
        return [*known, *random]

    def _parameters_at(self, rows: GroupedRows, points, centers) -> Components:
        """The M-step of hard assignments to the nearest centre."""
        from scipy.spatial.distance import cdist

        table, hard = rows.table, rows.weight * _indicators(cdist(points, centers).argmin(1), self.n_components)
        k, dim = self.n_components, table.x.shape[1]
        spread = {"isotropic": (), "diag": (k, dim), "full": (k, dim, dim)}[self.covariance_type]
        shapes = (k,), (k, dim), spread, (k, table.levels.shape[1])
        blank = Components(*(np.zeros(shape, np.float32) for shape in shapes))
        return m_step_of(self._family, blank, table, hard)

    def _states(self, parameters, rule, seed):
        return stack([start_state(one, rule, RATE, seed) for one in parameters])

    def _is_fair(self, parameters, rows: GroupedRows, rule):
        """Are soft and hard clusters within max_gap and alive; and are the hard ones within their `bounds_by_size`?"""
        if not np.isfinite(rule.allowed):
            return True, True
        allowed = rule.allowed / self.gap_margin
        share, gaps, soft = self._fairness_of(parameters, rows)
        worst = max(gaps.max(), soft.max())
        even = (gaps <= bounds_by_size(allowed, share)).all()
        return bool(worst <= allowed and share.min() >= rule.floor / 2), bool(even)

    def _fairness_of(self, parameters, rows):
        """What hard clusters hold of all rows (K,), and the gaps of hard and of soft ones."""
        if isinstance(rows, BlockedRows):
            soft, masses = soft_shares(self._family, parameters, rows), hard_masses(self._family, parameters, rows)
            share = masses.sum(1) / masses.sum()
            return share, gaps_of_shares(masses / masses.sum(0)), gaps_of_shares(soft)
        log_joint = np.asarray(log_joint_of(self._family, parameters, rows.table))
        hard = _indicators(log_joint.argmax(0), self.n_components)
        soft = cluster_gaps(softmax(log_joint, 0), rows.member, corner=0)
        return mean_of(hard, rows.weight), cluster_gaps(hard, rows.member, corner=0), soft

    def report(self, outcome, everybody, data):
        self._parameters = parameters = outcome.state.parameters
        self.fairness_weight_ = float(self.fairness_weight or outcome.state.rule.weight)
        self._describe(parameters)
        if isinstance(everybody, BlockedRows):
            self.labels_ = labels_in_order(self._family, parameters, everybody, data.share, len(data.X))
            self.hard_gap_, self.gap_ = (float(gaps.max()) for gaps in self._fairness_of(parameters, everybody)[1:])
        else:
            log_joint = self._in_units_of_table(log_joint_of(self._family, parameters, everybody.table))
            self.labels_, self.gap_ = (
                log_joint.argmax(1),
                gap(softmax(log_joint, 1), data.groups, sample_weight=data.weight),
            )
            self.hard_gap_ = gap(self.labels_, data.groups, sample_weight=data.weight)
        if self._is_fair(parameters, everybody, self._rules()[-1])[0]:
            self._warn_of_empty("raise min_share or n_init, or ask for fewer components.")
        else:
            self._warn_of_unfair(parameters, everybody)

    def _warn_of_unfair(self, parameters, rows):
        """Says by how much clusters miss max_gap, or the least share, and what to do."""
        allowed = DEFAULT_GAP if self.max_gap is None else self.max_gap
        reached, default = max(self.gap_, self.hard_gap_), " by default" if self.max_gap is None else ""
        if reached > allowed:
            what = f"gap_ is {self.gap_:.4f} and hard_gap_ {self.hard_gap_:.4f}, where max_gap is {allowed:g}{default}"
            remedy = f"raise n_init, ask for fewer components, or allow what was reached: max_gap={1.05 * reached:.2g}"
        else:
            least = self._fairness_of(parameters, rows)[0].min()
            what = f"the smallest cluster holds {least:.2%} of the rows, less than half of min_share / n_components"
            remedy = "raise n_init, ask for fewer components, or allow small clusters: min_share=0"
        tell(f"{type(self).__name__}: {what}. Remedy: {remedy}.", ConvergenceWarning)

    def objective_of(self, losses):
        return -losses - np.log(self._encoder.scale).sum()

    def log_joint(self, columns):
        return self._in_units_of_table(log_joint_of(self._family, self._parameters, self._encoder.table(columns)))

    def _in_units_of_table(self, log_joint):
        """Log densities (K, N) of scaled rows as those of the rows, (N, K)."""
        return np.asarray(log_joint).T.astype(np.float64) - np.log(self._encoder.scale).sum()

    def _describe(self, parameters: Components):
        """Parameters in the units of X, in scikit-learn's shapes."""
        scale, spread = self._encoder.scale, np.asarray(parameters.spread, np.float64)
        self.weights_ = softmax(np.asarray(parameters.weight, np.float64))
        self.means_ = np.asarray(parameters.mean, np.float64) * scale + self._encoder.middle
        self.level_probabilities_ = np.exp(np.asarray(self._family.log_levels(parameters.logits)))
        if self.covariance_type == "full":
            factor = np.asarray(jax.jit(unpack_factor)(parameters.spread)[0], np.float64)
            self.covariances_ = np.linalg.inv(factor @ factor.swapaxes(1, 2)) * np.outer(scale, scale)
        else:
            self.covariances_ = np.exp(spread) * (scale**2 if self.covariance_type == "diag" else scale[:1].sum() ** 2)

    def bic(self, X):
        """-2 l + log(N) times the number of free parameters; lower is better."""
        log_density = self.score_samples(X)
        k, d = self.means_.shape
        spread = {"isotropic": min(d, 1), "diag": k * d, "full": k * d * (d + 1) // 2}[self._family.covariance_type]
        free = k - 1 + k * d + spread + k * sum(n - 1 for n in self._encoder.n_levels)
        return float(-2 * log_density.sum() + free * np.log(len(log_density)))


def _completed(outcome: Outcome):
    """The outcome of a run that has not been interrupted."""
    if outcome.status == Outcome.INTERRUPTED:
        raise _Interrupted(outcome)
    return outcome


@partial(jax.jit, static_argnames="family")
def log_joint_of(family: Family, parameters: Components, table: Table):
    return family.log_joint(parameters, table)


@partial(jax.jit, static_argnames="family")
def m_step_of(family: Family, old: Components, table: Table, responsibilities):
    return family.m_step(old, table, responsibilities)


def _indicators(labels, n_clusters):
    """float32 (clusters, obs), 1 where a row is in the cluster."""
    return np.equal.outer(np.arange(n_clusters), labels).astype(np.float32)


def _take(table: Table, rows) -> Table:
    return jax.tree.map(lambda part: part[rows], table)


def _fair_rows(table, data, rows) -> GroupedRows:
    """ValueError where a group has nobody among `rows`."""
    groups, code, weight = data.groups, data.groups.code[rows], data.weight_of(rows).astype(np.float32)
    sizes = np.bincount(code, minlength=len(groups.names))
    if (sizes == 0).any():
        absent = [name for name, size in zip(groups.names, sizes) if size == 0]
        rule, remedy = "leave somebody of every group", "Raise subsample or batch_size, or merge small groups."
        raise ValueError(message("subsample", rule, f"none of {absent} among {len(code)} rows", remedy))
    return GroupedRows(_take(table, rows), membership(code, len(sizes), weight), weight)
