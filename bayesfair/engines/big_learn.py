"""Big learning EM, BigLearn-EM: Gaussian mixtures that match joint, marginal and randomly rotated marginal data
distributions in turn, so that a bad local optimum of one matching is left through another (Algorithm 1).

A marginal matching overwrites the subset's block of means and covariances alone, as in the paper; the floor on the
eigenvalues makes a covariance of the old and the new block together.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesfair._check import check_integer, check_number, message, place, tell
from bayesfair._units import center_and_spread, check_resolution
from bayesfair.engines.base import warn_of_work
from bayesfair.engines.gaussians import (
    Gaussians,
    Moments,
    e_step,
    e_step_of_rows,
    log_joint,
    log_joint_of_rows,
    m_step,
    rotate,
)
from bayesfair.engines.mixture import MixtureEngine

__all__ = ["BigLearnMixture"]

SUBSET_SIZE = 5.0  # the share of coordinates in a subset is Beta(5, 1) (Table 5): the fifth root of a uniform number
MEMORY = 0.9  # of the running mean of the objective by which "mixing" is told
SECONDS = 1e-9  # of a core, times d^3: an EM step of one component, most of it eigenvectors
FARTHEST = 1e15  # of an entry from 0, where the starts are: squared distances are finite in float32
WIDE = 100.0  # standard deviations of a column, beside which starts N(0, I) are one point
REACH = 2.0**12  # of their means from 0, in spreads or in 1: the root of float32's precision
SCALE = "Scale the columns to [0, 1], such as by sklearn.preprocessing.MinMaxScaler."
WANDER_TOLERANCE, WANDER_PATIENCE = 2e-4, 20


class SeenRows(NamedTuple):
    """Rows, which of their entries are there (all true where none is missing), and the constants of the M-step."""

    x: Float[Array, "obs dim"]
    seen: Bool[Array, "obs dim"]
    prior: Float[Array, ""]
    min_eigenvalue: Float[Array, ""]
    probabilities: Float[Array, "3"]


class Wanderer(NamedTuple):
    """Parameters on their way through matchings drawn with `key`, and the running mean of the objective."""

    parameters: Gaussians
    key: Int[Array, "2"]
    running: Float[Array, ""]


class Expected(NamedTuple):
    """Parameters and what the E-step of the joint matching makes of them."""

    parameters: Gaussians
    statistics: Moments


class Matching(NamedTuple):
    """What is matched: the coordinates `seen` (d,) of A x."""

    rotation: Float[Array, "dim dim"]
    seen: Bool[Array, " dim"]


def draw_matching(key, dim, probabilities) -> Matching:
    """Joint, marginal or rotated marginal with these probabilities; A by Haar's law, |T| / d by Beta(5, 1)."""
    key_kind, key_size, key_subset, key_rotation = jax.random.split(key, 4)
    kind = jax.random.categorical(key_kind, jnp.log(probabilities))
    share = jax.random.uniform(key_size) ** (1 / SUBSET_SIZE)
    size = jnp.maximum(jnp.floor(share * dim), 1)
    subset = jax.random.permutation(key_subset, dim) < size
    q, r = jnp.linalg.qr(jax.random.normal(key_rotation, (dim, dim)))
    haar = q * jnp.sign(jnp.diagonal(r))
    return Matching(jnp.where(kind == 2, haar, jnp.eye(dim)), subset | (kind == 0))


@dataclass(frozen=True)
class Wandering:
    """One round of Algorithm 1: a matching drawn at random, `n_local_steps` EM steps of it."""

    n_local_steps: int
    missing: bool

    def __call__(self, problem: SeenRows, state: Wanderer):
        key, draw = jax.random.split(state.key)
        matching = draw_matching(draw, problem.x.shape[1], problem.probabilities)
        parameters = em_steps(problem, state.parameters, matching, self.missing, self.n_local_steps)
        now = loss(problem, parameters, self.missing)
        running = jnp.where(jnp.isfinite(state.running), MEMORY * state.running + (1 - MEMORY) * now, now)
        return Wanderer(parameters, key, running), running


@dataclass(frozen=True)
class Settling:
    """One EM step of the joint matching: the objective never increases."""

    missing: bool

    def __call__(self, problem: SeenRows, state: Expected):
        everything = jnp.ones(problem.x.shape[1], bool)
        parameters = m_step(*state, everything, problem.prior, problem.min_eigenvalue)
        return joint_of(problem, parameters, self.missing)


def joint_of(problem: SeenRows, parameters: Gaussians, missing: bool):
    """One pass over the rows: the state of `Settling` at these parameters, and its loss."""
    everything = jnp.ones(problem.x.shape[1], bool)
    log_density, statistics = expect(problem, parameters, problem.x, everything, missing)
    return Expected(parameters, statistics), -log_density - problem.prior * jnp.log(parameters.weight).sum()


def expect(problem: SeenRows, parameters: Gaussians, x, seen, missing: bool):
    """E-step of the coordinates `seen` of x, of those that a row has where some are missing."""
    return e_step_of_rows(parameters, x, problem.seen & seen) if missing else e_step(parameters, x, seen)


def em_steps(problem: SeenRows, parameters: Gaussians, matching: Matching, missing: bool, n_steps=1) -> Gaussians:
    """Steps of Joint-EM (4), Marginal-EM (6) or its transformed form (10), with the weights of (11)."""
    if missing:  # a rotation would spread a missing entry over all coordinates: none is drawn then
        return _em_steps(problem, parameters, problem.x, matching.seen, missing, n_steps)
    turned = rotate(parameters, matching.rotation)
    turned = _em_steps(problem, turned, problem.x @ matching.rotation.T, matching.seen, missing, n_steps)
    return rotate(turned, matching.rotation.T)


def _em_steps(problem: SeenRows, parameters: Gaussians, x, seen, missing: bool, n_steps) -> Gaussians:
    def step(_, parameters):
        _, statistics = expect(problem, parameters, x, seen, missing)
        return m_step(parameters, statistics, seen, problem.prior, problem.min_eigenvalue)

    return jax.lax.fori_loop(0, n_steps, step, parameters)


def log_joint_of(parameters: Gaussians, x, seen, missing: bool):
    if missing:
        return log_joint_of_rows(parameters, x, seen)
    return log_joint(parameters, x, jnp.ones(x.shape[1], bool))


log_joint_compiled = partial(jax.jit, static_argnames="missing")(log_joint_of)


def loss(problem: SeenRows, parameters: Gaussians, missing: bool):
    """-(mean log-likelihood of what is seen + eta sum_k log pi_k)."""
    log_density = jax.nn.logsumexp(log_joint_of(parameters, problem.x, problem.seen, missing), 0)
    return -log_density.mean() - problem.prior * jnp.log(parameters.weight).sum()


class BigLearnMixture(MixtureEngine):
    """A Gaussian mixture with full covariances, fitted by big learning EM; missing values are allowed.

    Parameters
    ----------
    n_components: K. max_iter: rounds of Algorithm 1 at most. n_local_steps: W EM steps a round.
    min_eigenvalue: floor of the covariances' eigenvalues, in the squared units of X. The paper scales X to [0, 1] by
        minimum and maximum, and so should you: the start, means N(0, I) and covariances I, is in those units.
    matching_probabilities: of the joint, marginal and rotated marginal matching; where entries are missing the rotated
        share goes to the marginal one.
    weight_prior: eta of eq. (11) per row; None is 1 / K.
    tol: rounds end where the running mean of the objective changes by less than 0.02% twenty times in a row; joint EM steps
        then go on until it changes by less than `tol` of its size.
    n_init: random starts, run together.

    Rows with NaN take part through the marginal of what they have; so they do in `predict`.
    Groups are not used; `sensitive_features` is taken so that engines can be swapped.

    Attributes
    ----------
    weights_ (K,), means_ (K, d), covariances_ (K, d, d), labels_ (N,), objective_trace_: mean log-likelihood plus log
    prior over the final joint steps, never decreasing. n_iter_: rounds and final steps. converged_.

    Examples
    --------
    >>> import bayesfair as bf
    >>> grid = bf.datasets.make_gmm_grid(n_samples=500)
    >>> est = bf.BigLearnMixture(5, max_iter=20, random_state=0).fit(grid.features / 5)
    >>> est.predict(grid.features / 5).shape
    (500,)
    """

    uses_groups = False

    def __init__(
        self,
        n_components=10,
        *,
        max_iter=500,
        min_eigenvalue=1e-3,
        n_local_steps=5,
        matching_probabilities=(0.4, 0.1, 0.5),
        weight_prior=None,
        tol=1e-5,
        n_init=1,
        random_state=None,
        progress_bar=False,
    ):
        self.n_components = n_components
        self.max_iter = max_iter
        self.min_eigenvalue = min_eigenvalue
        self.n_local_steps = n_local_steps
        self.matching_probabilities = matching_probabilities
        self.weight_prior = weight_prior
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.progress_bar = progress_bar

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def check_settings(self):
        check_number("min_eigenvalue", self.min_eigenvalue)
        check_integer("n_local_steps", self.n_local_steps)
        if self.weight_prior is not None:
            check_number("weight_prior", self.weight_prior, minimum=0)
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
        missing = np.isnan(X)
        if missing.all(0).any():
            rule, remedy = "have a value in every column", "Drop columns without any."
            raise ValueError(message("X", rule, f"none in columns {np.flatnonzero(missing.all(0)).tolist()}", remedy))
        if missing.any():
            marginal, rotated = marginal + rotated, 0.0
        prior = 1 / self.n_components if self.weight_prior is None else self.weight_prior
        numbers = (jnp.float32(prior), jnp.float32(self.min_eigenvalue), jnp.array([joint, marginal, rotated]))
        with np.errstate(over="ignore"):
            self._middle = np.nanmean(X, 0)
        check_start(X, self._middle, data.columns.names, self.min_eigenvalue)
        x = jnp.asarray(np.where(missing, 0.0, X - self._middle), jnp.float32)
        return SeenRows(x, jnp.asarray(~missing), *numbers)

    def starts(self, problem, data):
        return start_states(data.seed, self.n_init, self.n_components, problem, data.X)

    def solve(self, problem, data):
        """Rounds of Algorithm 1, then joint EM steps from where they ended."""
        missing = has_missing(data.X)
        wander = {"tol": WANDER_TOLERANCE, "patience": WANDER_PATIENCE}
        step = Wandering(self.n_local_steps, missing)
        rounds = self.run(problem, self.starts(problem, data), step=step, **wander)
        start = starts_of(problem, rounds.state.parameters, missing)
        final = self.run(problem, start, step=Settling(missing), max_iter=10 * self.max_iter)
        best = int(final.order[0])
        return final.run(best)._replace(n_iter=int(final.n_iter[best] + rounds.n_iter[best]))

    def report(self, outcome, problem, data):
        self._parameters = outcome.state.parameters
        weight, mean, covariance = (np.asarray(part, np.float64) for part in self._parameters)
        self.weights_, self.means_, self.covariances_ = weight, mean + self._middle, covariance
        self.labels_ = self.assign(data.columns)
        self._warn_of_empty(f"raise n_init, or ask for fewer components. {SCALE}")

    def objective_of(self, losses):
        return -losses

    def log_joint(self, columns):
        X = columns.continuous
        x = jnp.asarray(np.where(np.isnan(X), 0.0, X - self._middle), jnp.float32)
        log_joint = log_joint_compiled(self._parameters, x, jnp.asarray(~np.isnan(X)), has_missing(X))
        return np.asarray(log_joint.T, np.float64)


def has_missing(X):
    return bool(np.isnan(X).any())


def check_start(X, middle, names, min_eigenvalue):
    """Can the start, N(0, I) in the units of X, and the floor of the eigenvalues tell the rows of X apart in float32?

    Raises
    ------
    ValueError: with the column's name, where distances from 0 drown the differences within the column or are not finite;
    where all columns vary by less than the floor.

    Warns
    -----
    UserWarning: a column so wide that all starts are alike beside it.
    """
    far = np.nanmax(np.abs(X), 0)
    if far.max() >= FARTHEST:
        got = f"{far.max():.3g} in column {place(names, int(far.argmax()))}"
        raise ValueError(message("X", "be near [0, 1], where the random starts are", got, SCALE))
    whole = np.where(np.isnan(X), middle, X)
    _, spread, _ = center_and_spread(whole)
    off = np.abs(middle) / np.maximum(spread, 1.0)
    if off.max() > REACH:
        column = int(off.argmax())
        got = f"a mean of {middle[column]:.3g} and a spread of {spread[column]:.3g} in column {place(names, column)}"
        raise ValueError(message("X", "be near [0, 1], where the random starts are", got, SCALE))
    if 0 < spread.max() <= np.sqrt(min_eigenvalue):
        rule = f"have a column whose variance is above min_eigenvalue, {min_eigenvalue}"
        got = f"at most {spread.max() ** 2:.3g}, in column {place(names, int(spread.argmax()))}"
        raise ValueError(message("X", rule, got, SCALE))
    check_resolution(whole, middle, spread, names=names, precision=np.float32)
    if spread.max() > WIDE:
        what = f"column {place(names, int(spread.argmax()))} spreads by {spread.max():.3g}, beside which all starts are alike"
        tell(f"BigLearnMixture: {what}. Remedy: {SCALE}")


@partial(jax.jit, static_argnames="missing")
def starts_of(problem: SeenRows, parameters: Gaussians, missing: bool) -> Expected:
    """States of `Settling` for a batch of parameters."""
    return jax.vmap(lambda one: joint_of(problem, one, missing)[0])(parameters)


def start_states(seed, n_init, n_components, problem: SeenRows, X) -> Wanderer:
    """The paper's random starts, mu ~ N(0, I) and Sigma = I, in the units of X."""
    dim = problem.x.shape[1]
    keys = np.asarray(jax.random.split(jax.random.PRNGKey(seed), 2 * n_init))
    mean = np.stack([jax.random.normal(key, (n_components, dim)) for key in keys[:n_init]])
    mean -= np.nanmean(X, 0).astype(np.float32)
    weight = np.full((n_init, n_components), 1 / n_components, np.float32)
    covariance = np.tile(np.eye(dim, dtype=np.float32), (n_init, n_components, 1, 1))
    return Wanderer(Gaussians(weight, mean, covariance), keys[n_init:], np.full(n_init, np.inf, np.float32))
