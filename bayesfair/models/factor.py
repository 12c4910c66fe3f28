"""The factor of fairness: a term of the log density that is neither a prior nor a likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import Transform

from bayesfair._arrays import on_device
from bayesfair._check import check_integer, check_number, check_same_length, message
from bayesfair.fairness.groups import encode_groups
from bayesfair.fairness.metrics import gaps_of_shares

SMOOTHING = 0.01  # tau: smaller gaps are smoothed


def fairness(psi, groups, weight: ArrayLike, *, smoothing=SMOOTHING, n_groups=None):
    """The factor exp(-weight N Delta_tau) of a NumPyro model of your own.

    Call it outside of plates. It is no likelihood: `numpyro.infer.log_likelihood` and `az.loo` do not see it.

    Parameters
    ----------
    psi : array of shape (n_obs, n_clusters)
        Soft assignments of the rows; they sum to 1.
    groups : array-like of shape (n_obs,)
        The groups of the rows, see `bayesfair.fairness.encode_groups`. Codes 0, 1, ... may be traced if `n_groups` is given.
    weight : float, at least 0
        lambda, per row. It may be a traced array, but no site of the model: the factor has no normaliser.
    smoothing : float above zero, default 0.01
        tau of `smooth_gap`.
    n_groups : int, at least 2, optional
        How many groups there are. By default those of the rows. Rows of one group alone, whose gap is 0, are refused
        without it.

    Raises
    ------
    ValueError
        If the groups or the weight are not valid, or the weight is sampled.

    Notes
    -----
    The sites are `gap`, Delta of psi, and `fairness`, the log of the factor. `numpyro.handlers.scope` renames them if a model
    has several factors.

    References
    ----------
    FMC, eq. (6) and (14), for Delta.

    Examples
    --------
    >>> import jax, numpyro, bayesfair as bf
    >>> from numpyro.distributions import Normal
    >>> def model(x, groups):
    ...     cut = numpyro.sample("cut", Normal(0.0, 1.0))
    ...     psi = jax.nn.softmax(jax.numpy.stack([x - cut, cut - x], 1))
    ...     bf.models.fairness(psi, groups, weight=1.0)
    >>> x, groups = jax.numpy.arange(4.0), ["a", "a", "b", "b"]
    >>> draws = numpyro.infer.Predictive(model, num_samples=10)(jax.random.key(0), x, groups)
    >>> draws["gap"].shape
    (10,)
    """
    if jnp.ndim(psi) != 2:
        remedy = "Pass softmax(log_joint, axis=1) of one row for each observation."
        raise ValueError(message("psi", "have two dimensions, rows and clusters", f"shape {jnp.shape(psi)}", remedy))
    check_smoothing(smoothing)
    psi = jnp.asarray(psi)
    member, penalty = membership_of(groups, len(psi), weight, n_groups, "weight"), penalty_of(weight, len(psi))
    if member is not None:
        add_factor(psi.T, member, penalty, smoothing)


def smooth_gap(psi, member, smoothing=SMOOTHING) -> Float[Array, ""]:
    """A smooth form of the gap Delta, whose maximum and corners would stop NUTS.

    Delta_tau = tau log((1/K) sum_k exp(d_k / tau)), where d_k is the mean over pairs of groups of
    sqrt(difference^2 + tau^2) - tau.

    Parameters
    ----------
    psi : array of shape (n_obs, n_clusters)
        Soft assignments.
    member : array of shape (n_obs, n_groups)
        Indicators of the groups divided by the groups' sizes.
    smoothing : float above zero, default 0.01
        tau.

    Returns
    -------
    jax.Array
        A scalar: 0 for a fair map, at most Delta and at least Delta - tau (1 + log K).

    References
    ----------
    FMC, eq. (6) and (14), for Delta.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> member = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, 0.5]])
    >>> fair = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> abs(round(float(bf.models.smooth_gap(fair, member)), 4))
    0.0
    """
    gaps = cluster_gaps(psi.T, member.T, corner=smoothing**2) - smoothing
    return smoothing * (jax.nn.logsumexp(gaps / smoothing) - jnp.log(psi.shape[1]))


def add_factor(psi, member, penalty, smoothing=None):
    """The sites of the gap of psi (K, N) and of its factor; without smoothing the factor is of the gap itself."""
    gap = numpyro.deterministic("gap", cluster_gaps(psi, member).max())
    priced = gap if smoothing is None else smooth_gap(psi.T, member.T, smoothing)
    numpyro.sample("fairness", Factor(-penalty * priced))


def penalty_of(weight, n_obs) -> Float[Array, ""]:
    """lambda N of a checked weight, which no gradient may reach."""
    return _given(jnp.asarray(weight * n_obs, jnp.float32))


@jax.custom_jvp
def _given(penalty):
    return penalty


@_given.defjvp
def _refuse_sampled(penalties, tangents):
    rule, got = "be given, not sampled", "a weight that depends on sites of the model"
    remedy = "The factor has no normaliser, so a sampled weight falls to 0 whatever the data. Compare fits at several weights."
    raise ValueError(message("fairness_weight", rule, got, remedy))


def membership_of(groups, n_obs, weight, n_groups=None, argument="fairness_weight"):
    """The membership (J, N) of `groups`, or None without groups, which requires lambda = 0."""
    positive = isinstance(weight, jax.Array) or check_number(argument, weight, minimum=0) > 0
    if n_groups is not None:
        check_integer("n_groups", n_groups, minimum=2)
    if groups is None and positive:
        rule, remedy = f"be given if {argument} is above 0", f"Pass one value per row, or {argument}=0."
        raise ValueError(message("groups", rule, "None", remedy))
    if groups is None:
        return None
    if isinstance(groups, jax.core.Tracer):
        return _traced_membership(groups, n_obs, n_groups)
    groups = encode_groups(groups, argument="groups")
    check_same_length("groups", len(groups.code), "X", n_obs)
    found = len(groups.names)
    if n_groups is not None and found > n_groups:
        raise ValueError(message("n_groups", f"be at least the {found} groups of the rows", n_groups, "Leave it out."))
    if found == 1 and positive and n_groups is None:
        remedy = f"Check the column, or pass {argument}=0 for a mixture without fairness."
        remedy += " For new rows of one of several groups pass their number as n_groups."
        raise ValueError(message("groups", "have at least two groups", repr(groups.names[0]), remedy))
    return membership(groups.code, found)


def _traced_membership(code, n_obs, n_groups):
    """The membership of traced codes; a group without rows has the gap NaN."""
    if n_groups is None:
        remedy = "Pass the number of groups; codes are 0, 1, ..., as those of bayesfair.fairness.encode_groups."
        raise ValueError(message("n_groups", "be given if groups are traced", "None", remedy))
    check_same_length("groups", len(code), "X", n_obs)
    indicator = jax.nn.one_hot(code, n_groups, axis=0)
    return indicator / indicator.sum(1, keepdims=True)


def check_smoothing(smoothing):
    if not isinstance(smoothing, jax.Array):  # which may be traced
        check_number("smoothing", smoothing)


def membership(code, n_groups) -> Float[Array, "groups obs"]:
    """Indicators of the groups' members over their numbers: each row sums to one, so that shares are a matrix product."""
    indicator = np.equal.outer(np.arange(n_groups), code).astype(np.float32)
    return on_device(indicator / indicator.sum(1, keepdims=True))


def cluster_gaps(psi, member, corner=0.0) -> Float[Array, " clusters"]:
    """Mean over pairs of groups of the difference of their shares in cluster k: FMC, eq. (6) and (14)."""
    shares = psi @ member.T
    return gaps_of_shares(
        shares if len(member) > 1 else jnp.repeat(shares, 2, 1), corner
    )  # one group is fair to itself


class Factor(dist.Distribution):
    """The law of a site that multiplies the density by e^log_factor and is not observed; its value is `log_factor`.

    `numpyro.factor` is an observed site, so that `log_likelihood` and `az.loo` would take it for data. This site is latent,
    and has no unconstrained dimension: a sampler has nothing to move there. Masks of rows leave it alone.
    """

    pytree_data_fields = ("log_factor",)

    def __init__(self, log_factor):
        self.log_factor = log_factor
        super().__init__(batch_shape=jnp.shape(log_factor))

    @property
    def support(self):
        return _Point(self.log_factor)

    def log_prob(self, value, intermediates=None):
        return self.log_factor

    def sample(self, key, sample_shape=()):
        return jnp.broadcast_to(self.log_factor, (*sample_shape, *self.batch_shape))

    def mask(self, mask):
        return self

    def expand(self, batch_shape):
        remedy = "Leave the `with numpyro.plate(...)` block before: the factor belongs to all rows together."
        raise ValueError(message("fairness", "be called outside of plates", f"plates of shape {batch_shape}", remedy))


class _Point(constraints.Constraint):
    """One number, whose unconstrained form is an empty vector."""

    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return jnp.ones(jnp.shape(x), bool)

    def feasible_like(self, prototype):
        return jnp.broadcast_to(self.value, jnp.shape(prototype))

    def tree_flatten(self):
        return (self.value,), (("value",), {})


class _FromNothing(Transform):
    domain = constraints.real_vector

    def __init__(self, point):
        self.point = point

    @property
    def codomain(self):
        return self.point

    def __call__(self, x):
        return jnp.broadcast_to(self.point.value, jnp.shape(x)[:-1])

    def _inverse(self, y):
        return jnp.zeros((*jnp.shape(y), 0))

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        return jnp.zeros(jnp.shape(y))

    def forward_shape(self, shape):
        return shape[:-1]

    def inverse_shape(self, shape):
        return (*shape, 0)

    def tree_flatten(self):
        return (self.point,), (("point",), {})


biject_to.register(_Point)(_FromNothing)
