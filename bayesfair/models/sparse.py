"""Weights of a sparse finite mixture on a scale that suits gradients: most components are empty, with weights of e^-100."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import betaln, gammaln
from jaxtyping import Array, Float
from numpyro.distributions import constraints

DEEP = -12.0  # log of a weight, 6e-6, below which a component does not matter
SUM_SD = 0.5  # of the log of the sum of e^x, which does not affect the weights
HALVINGS = 60


class SparseScores(dist.Distribution):
    """Scores y (K,) such that the weights softmax(x(y)) ~ Dirichlet(e0, ..., e0) for any e0 > 0.

    Above DEEP, where a component matters, x is y. Below, x = y - c softplus(DEEP - y) falls faster, with c = 1 / e0 - 1 at
    a `typical` e0 below 1: the exponential tail of log pi_k, of scale 1 / e0, has scale 1 in y. log sum_k e^x_k is
    N(0, SUM_SD^2), independent of the weights: log p(x) = sum_k e0 log pi_k + log N(...) + const.
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real_vector
    pytree_data_fields = ("concentration",)
    pytree_aux_fields = ("n_components", "typical")

    def __init__(self, concentration, n_components, typical):
        self.concentration, self.n_components, self.typical = concentration, n_components, typical
        super().__init__(batch_shape=(), event_shape=(n_components,))

    def log_prob(self, value):
        e0, k = self.concentration, self.n_components
        x = stretched(value, self.typical)
        total = jax.nn.logsumexp(x)
        log_sum = dist.Normal(0, SUM_SD).log_prob(total)
        weights = gammaln(k * e0) - k * gammaln(e0) + e0 * (x - total).sum()
        return weights + log_sum + log_slope(value, self.typical).sum()

    def sample(self, key, sample_shape=()):
        key_weights, key_sum = jax.random.split(key)
        x = jax.random.loggamma(key_weights, self.concentration, (*sample_shape, self.n_components))
        total = SUM_SD * jax.random.normal(key_sum, sample_shape)
        return unstretched(x - jax.nn.logsumexp(x, -1, keepdims=True) + total[..., None], self.typical)


def _steepness(typical):
    return jnp.maximum(1 / typical - 1, 0.0)


def stretched(y, typical):
    """x(y), increasing, K or any other shape."""
    return y - _steepness(typical) * jax.nn.softplus(DEEP - y)


def log_slope(y, typical):
    """log dx / dy."""
    return jnp.log1p(_steepness(typical) * jax.nn.sigmoid(DEEP - y))


def unstretched(x, typical):
    """y(x), by bisection: x <= y <= max(x, DEEP), up to c log 2 near DEEP."""
    low, high = jnp.minimum(x, DEEP) - 1.0, jnp.maximum(x, DEEP) + jnp.log(2.0) * _steepness(typical) + 1.0

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        above = stretched(middle, typical) > x
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return (low + high) / 2


def log_weights(scores, typical) -> Float[Array, " clusters"]:
    """log pi_k."""
    return jax.nn.log_softmax(stretched(scores, typical))


def scores_of(weights, typical):
    """Scores (..., K) for these weights."""
    return unstretched(jnp.log(jnp.maximum(weights, 1e-30)), typical)


def two_sided_law(v, concentration, scale):
    """Log density of v = log r - log(1 - r), half r ~ Beta(e0, e0) and half v logistic of this scale; see `draw_two_sided`."""
    beta = concentration * (jax.nn.log_sigmoid(v) + jax.nn.log_sigmoid(-v)) - betaln(concentration, concentration)
    logistic = jax.nn.log_sigmoid(v / scale) + jax.nn.log_sigmoid(-v / scale) - jnp.log(scale)
    return jnp.logaddexp(beta, logistic) - jnp.log(2.0)


def draw_two_sided(key, concentration, scale):
    """A draw from `two_sided_law`."""
    key_beta, key_logistic, key_which = jax.random.split(key, 3)
    one, other = jax.random.loggamma(key_beta, concentration, (2,))
    logistic = scale * jax.random.logistic(key_logistic)
    return jnp.where(jax.random.bernoulli(key_which), one - other, logistic)
