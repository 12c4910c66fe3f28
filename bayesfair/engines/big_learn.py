"""Big learning EM, BigLearn-EM: Gaussian mixtures fitted by alternating matchings (Algorithm 1).

One matching leaves the bad local optimum of another. A marginal matching overwrites only the subset's block of means
and covariances; the floor on the eigenvalues keeps the mix of old and new blocks a covariance.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayesfair._arrays import row_blocks
from bayesfair._check import message, place, tell
from bayesfair._jit import jit
from bayesfair._rows import Rows
from bayesfair._scaling import center_and_spread, check_resolution
from bayesfair._settings import Count, NotNegative, Positive, Seed
from bayesfair.engines.base import warn_of_work
from bayesfair.engines.families import Moments
from bayesfair.engines.gaussians import (
    Gaussians,
    e_step,
    in_blocks,
    in_order,
    log_density,
    log_joint,
    m_step,
    n_missing,
    rotate,
)
from bayesfair.engines.mixture import MixtureEngine

SUBSET_SIZE = 5.0  # the share of coordinates in a subset is Beta(5, 1) (Table 5), the fifth root of a uniform
MEMORY = 0.9  # decay of the running mean of the objective, which detects "mixing"
SECONDS = 1e-9  # on one core, times d^3: one EM step of one component, mostly eigenvectors
FARTHEST = 1e15  # largest entry: starts are near 0, and squared distances must be finite in float32
WIDE = 100.0  # standard deviation of a column above which starts from N(0, I) are practically one point
REACH = 2.0**12  # largest mean, in spreads or in 1: the root of float32's precision
SCALE = "Scale the columns to [0, 1], such as by sklearn.preprocessing.MinMaxScaler."
FINAL_PRIOR = 1e-6  # eta per row of the final steps: nearly 0, but log pi_k of an unused component stays finite
WANDER_TOLERANCE, WANDER_PATIENCE = 2e-4, 20


class SeenRows(NamedTuple):
    """Rows in blocks by their number of missing entries, and the constants of the M-step."""

    rows: tuple[Rows, ...]
    prior: Float[Array, ""]
    min_eigenvalue: Float[Array, ""]
    probabilities: Float[Array, "3"]

    @property
    def dim(self):
        return self.rows[0].parts.x.shape[1]

    @property
    def whole(self):
        """Does every row have every entry?"""
        return all(part.parts.lacks.shape[1] == 0 for part in self.rows)


class Wanderer(NamedTuple):
    """Parameters on their way through matchings drawn with `key`, and the running mean of the objective."""

    parameters: Gaussians
    key: PRNGKeyArray
    running: Float[Array, ""]


class Matched(NamedTuple):
    """Parameters and the E-step of the joint matching there."""

    parameters: Gaussians
    statistics: Moments


class Matching(NamedTuple):
    """A matching: the coordinates `seen` (d,) of A x."""

    rotation: Float[Array, "dim dim"]
    seen: Bool[Array, " dim"]


def draw_matching(key, dim, probabilities) -> Matching:
    """A joint, marginal or rotated marginal matching with these probabilities; A by Haar's law, |T| / d by Beta(5, 1)."""
    dtype = probabilities.dtype
    key_kind, key_size, key_subset, key_rotation = jax.random.split(key, 4)
    kind = jax.random.categorical(key_kind, jnp.log(probabilities))
    share = jax.random.uniform(key_size, dtype=dtype) ** (1 / SUBSET_SIZE)
    size = jnp.maximum(jnp.floor(share * dim), 1)
    subset = jax.random.permutation(key_subset, dim) < size
    q, r = jnp.linalg.qr(jax.random.normal(key_rotation, (dim, dim), dtype))
    haar = q * jnp.sign(jnp.diagonal(r))
    return Matching(jnp.where(kind == 2, haar, jnp.eye(dim, dtype=dtype)), subset | (kind == 0))


@dataclass(frozen=True)
class Wandering:
    """One round of Algorithm 1: a matching drawn at random, `n_local_steps` EM steps of it."""

    n_local_steps: int

    def __call__(self, problem: SeenRows, state: Wanderer):
        key, draw = jax.random.split(state.key)
        matching = draw_matching(draw, problem.dim, problem.probabilities)
        parameters = em_steps(problem, state.parameters, matching, self.n_local_steps)
        now = loss(problem, parameters)
        running = jnp.where(jnp.isfinite(state.running), MEMORY * state.running + (1 - MEMORY) * now, now)
        return Wanderer(parameters, key, running), running


def joint_step(problem: SeenRows, state: Matched):
    """One EM step of the joint matching: the objective never increases."""
    parameters = m_step(*state, jnp.ones(problem.dim, bool), problem.prior, problem.min_eigenvalue)
    return joint_of(problem, parameters)


def joint_of(problem: SeenRows, parameters: Gaussians):
    """One pass over the rows: the state of `joint_step` at these parameters, and its loss."""
    mean_log_density, statistics = e_step(parameters, problem.rows, jnp.ones(problem.dim, bool))
    return Matched(parameters, statistics), -mean_log_density - log_prior(problem, parameters)


def log_prior(problem: SeenRows, parameters: Gaussians):
    return xlogy(problem.prior, parameters.mixing).sum()


def em_steps(problem: SeenRows, parameters: Gaussians, matching: Matching, n_steps=1) -> Gaussians:
    """Steps of Joint-EM (4), Marginal-EM (6) or its transformed form (10), with the weights of (11)."""
    # A rotation would spread a missing entry over all coordinates, so none is drawn then.
    rotation = matching.rotation if problem.whole else None

    def step(_, parameters):
        _, statistics = e_step(parameters, problem.rows, matching.seen, rotation)
        return m_step(parameters, statistics, matching.seen, problem.prior, problem.min_eigenvalue)

    if rotation is None:
        return jax.lax.fori_loop(0, n_steps, step, parameters)
    turned = jax.lax.fori_loop(0, n_steps, step, rotate(parameters, rotation))
    return rotate(turned, rotation.T)


def loss(problem: SeenRows, parameters: Gaussians):
    """-(mean log-likelihood of the entries present + eta sum_k log pi_k)."""
    everything = jnp.ones(problem.dim, bool)
    return -log_density(parameters, problem.rows, everything) - log_prior(problem, parameters)


@dataclass(eq=False, repr=False)
class BigLearnMixture(MixtureEngine):
    """A Gaussian mixture with full covariances, fitted by big learning EM. Values may be missing.

    Rows with NaN take part through the marginal of what they have, in `fit` and in `predict`. Groups are not used:
    `sensitive_features` is accepted so that engines can be exchanged.

    Parameters
    ----------
    n_components : int, at least 1, default 10
        Number of components.
    max_iter : int, at least 1, default 500
        Most rounds of Algorithm 1.
    min_eigenvalue : float above zero, default 1e-3
        Floor of the eigenvalues of the covariances, in squared units of X. The paper has 1e-3 to 2e-2 for its real tables.
        Lower ones leave poor optima more often, and fit narrow components to few rows. It is at least what float32 rounds
        of the largest one.
    n_local_steps : int, at least 1, default 5
        EM steps in a round, the paper's W.
    matching_probabilities : tuple of float of shape (3,), default (0.4, 0.1, 0.5)
        Probabilities of the joint, the marginal and the rotated marginal matching. If entries are missing, the rotated
        share goes to the marginal one.
    weight_prior : float, at least 0, optional
        eta of eq. (11), per row. By default 1 / sqrt(n_components) in the rounds of Algorithm 1, as in the authors'
        program, where it keeps components alive, and 1e-6 in the joint steps after them, so that weights are not pulled
        together. A number holds in both.
    tol : float, at least 0, default 1e-5
        The joint EM steps after the rounds end when the objective changes by less than this share of its size.
    n_init : int, at least 1, default 1
        Random starts, run together.
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
        Means, in the units of X.
    covariances_ : numpy.ndarray of shape (n_components, n_features, n_features)
        Covariances, in squared units of X.
    labels_ : numpy.ndarray of shape (n_obs,)
        The most probable component of every row.
    objective_trace_ : numpy.ndarray
        Mean log-likelihood plus log prior over the final joint steps. It never decreases.
    n_iter_ : int
        Rounds and final steps.
    converged_ : bool
        Whether the final steps came to an end before ten times `max_iter`.

    Notes
    -----
    Scale X to [0, 1] by minimum and maximum, as the paper does: the starts, means N(0, I) and covariances I, are in those
    units.

    The rounds end when the running mean of the objective changes by less than 0.02% twenty times in a row. On hard tables
    this may never happen: then there are `max_iter` of them.

    References
    ----------
    BigLearn-EM, Algorithm 1 and eq. (4), (6), (10) and (11).

    Examples
    --------
    >>> import bayesfair as bf
    >>> grid = bf.datasets.make_gmm_grid(n_samples=500)
    >>> est = bf.BigLearnMixture(5, max_iter=20, random_state=0).fit(grid.features / 5)
    >>> est.predict(grid.features / 5).shape
    (500,)
    """

    uses_groups = False

    n_components: Count = 10
    _: KW_ONLY
    max_iter: Count = 500
    min_eigenvalue: Positive = 1e-3
    n_local_steps: Count = 5
    matching_probabilities: Any = (0.4, 0.1, 0.5)
    weight_prior: NotNegative | None = None
    tol: NotNegative = 1e-5
    n_init: Count = 1
    random_state: Seed | np.random.RandomState | None = None
    progress_bar: bool = False
    mesh: jax.sharding.Mesh | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def check_settings(self):
        p = np.asarray(self.matching_probabilities, float)
        if p.shape != (3,) or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
            rule, remedy = "be three numbers, at least 0 and summing to 1", "The paper's are (0.4, 0.1, 0.5)."
            raise ValueError(message("matching_probabilities", rule, self.matching_probabilities, remedy))

    def _warn_of_work(self, n_columns):
        steps = self.n_init * self.n_components * self.max_iter * (self.n_local_steps + 1)
        remedy = "reduce the columns (such as by PCA), or ask for fewer components, starts or rounds"
        warn_of_work(self, f"{n_columns} columns with full covariances", SECONDS * steps * n_columns**3, remedy)

    def problem(self, data) -> SeenRows:
        self._warn_of_work(data.X.shape[1])
        X = data.X
        joint, marginal, rotated = self.matching_probabilities
        missing, everybody = n_missing(X), data.split.everybody
        empty = np.all(everybody(missing == len(X)), axis=0)
        if empty.any():
            rule, remedy = "have a value in every column", "Drop columns without any."
            raise ValueError(message("X", rule, f"none in columns {np.flatnonzero(empty).tolist()}", remedy))
        if any(everybody(bool(missing.any()))):
            marginal, rotated = marginal + rotated, 0.0
        prior = 1 / np.sqrt(self.n_components) if self.weight_prior is None else self.weight_prior
        numbers = prior, self.min_eigenvalue, [joint, marginal, rotated]
        with np.errstate(over="ignore"):
            self._middle = mean_of_seen(X, data.weight_of, everybody)
        check_start(X, self._middle, data.columns.names, self.min_eigenvalue, everybody)
        weight = data.relative_weight if any(everybody(data.given_weight is not None)) else None
        rows, self._places = in_blocks(X, self._middle, weight, data.split)
        return SeenRows(rows, *(data.split.placed(np.float32(part)) for part in numbers))

    def starts(self, problem, data):
        return start_states(data.seed, self.n_init, self.n_components, self._middle)

    def solve(self, problem, data):
        """Rounds of Algorithm 1, then joint EM steps."""
        wander = {"tol": WANDER_TOLERANCE, "patience": WANDER_PATIENCE}
        step = Wandering(self.n_local_steps)
        rounds = self.run(problem, self.starts(problem, data), step=step, **wander)
        if self.weight_prior is None:
            problem = problem._replace(prior=data.split.placed(np.float32(FINAL_PRIOR)))
        start = starts_of(problem, rounds.state.parameters)
        final = self.run(problem, start, step=joint_step, max_iter=10 * self.max_iter)
        best = int(final.order[0])
        return final.run(best)._replace(n_iter=int(final.n_iter[best] + rounds.n_iter[best]))

    def set_attributes(self, outcome, problem, data):
        self._parameters = outcome.state.parameters
        mixing, mean, covariance = (np.asarray(part, np.float64) for part in self._parameters)
        self.weights_, self.means_, self.covariances_ = mixing, mean + self._middle, covariance
        self.labels_ = in_order(log_joint(self._parameters, problem.rows, only_largest=True), self._places)
        used = data.split.of_all(np.unique(self.labels_))
        self._warn_of_empty(f"raise n_init, or ask for fewer components. {SCALE}", used)

    def objective_of(self, losses):
        return -losses

    def log_joint(self, columns):
        rows, places = in_blocks(columns.continuous, self._middle)
        return in_order(log_joint(self._parameters, rows), places).astype(np.float64)


def mean_of_seen(X, weight_of, everybody):
    """Means (d,) of the entries present, over all processes; `weight_of(rows)` gives the weights of a slice."""
    sums, counts = 0.0, 0.0
    for rows in row_blocks(len(X)):
        seen, weight = ~np.isnan(X[rows]), weight_of(rows)
        sums, counts = sums + weight @ np.where(seen, X[rows], 0), counts + weight @ seen
    return sum(everybody(sums)) / sum(everybody(counts))


def check_start(X, middle, names, min_eigenvalue, everybody):
    """Refuse rows that float32 cannot tell apart from N(0, I) in the units of X; warn of a column that is too wide."""
    own = np.max([np.nanmax(np.abs(X[rows]), 0, initial=0) for rows in row_blocks(len(X))], axis=0)
    far = np.max(everybody(own), axis=0)
    if far.max() >= FARTHEST:
        got = f"{far.max():.3g} in column {place(names, int(far.argmax()))}"
        raise ValueError(message("X", "be near [0, 1], like the random starts", got, SCALE))
    whole = np.where(np.isnan(X), middle.astype(X.dtype), X) if n_missing(X).any() else X
    _, spread, _ = center_and_spread(whole, everybody)
    off = np.abs(middle) / np.maximum(spread, 1.0)
    if off.max() > REACH:
        column = int(off.argmax())
        got = f"a mean of {middle[column]:.3g} and a spread of {spread[column]:.3g} in column {place(names, column)}"
        raise ValueError(message("X", "be near [0, 1], like the random starts", got, SCALE))
    if 0 < spread.max() <= np.sqrt(min_eigenvalue):
        rule = f"have a column whose variance is above min_eigenvalue, {min_eigenvalue}"
        got = f"at most {spread.max() ** 2:.3g}, in column {place(names, int(spread.argmax()))}"
        raise ValueError(message("X", rule, got, SCALE))
    check_resolution(whole, middle, spread, names=names, precision=np.float32)
    if spread.max() > WIDE:
        what = f"column {place(names, int(spread.argmax()))} spreads by {spread.max():.3g}: all starts are practically the same"
        tell(f"BigLearnMixture: {what}. Remedy: {SCALE}")


@jit
def starts_of(problem: SeenRows, parameters):
    """States of `joint_step` for a batch of parameters."""
    return jax.vmap(lambda one: joint_of(problem, one)[0])(parameters)


def start_states(seed, n_init, n_components, middle):
    """The paper's random starts for rows centred at `middle`: mu ~ N(0, I) and Sigma = I in the units of X."""
    dim = len(middle)
    keys = np.asarray(jax.random.split(jax.random.PRNGKey(seed), 2 * n_init))
    mean = np.stack([jax.random.normal(key, (n_components, dim), jnp.float32) for key in keys[:n_init]])
    mean -= middle.astype(np.float32)
    mixing = np.full((n_init, n_components), 1 / n_components, np.float32)
    covariance = np.tile(np.eye(dim, dtype=np.float32), (n_init, n_components, 1, 1))
    return Wanderer(Gaussians(mixing, mean, covariance), keys[n_init:], np.full(n_init, np.inf, np.float32))
