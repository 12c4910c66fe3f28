"""BigLearn-EM's Table 1, "+ Pr + MM + CM": rounds of joint, marginal and conditional matching.

The package has no conditional matching, as the paper leaves it out of Algorithm 1. Here it is gradient ascent (Adam) on
the mean conditional log-density of eq. (7), log p(x) - log p(x_S). The paper does not print its step size, its number of
steps or its share of the rounds; these are ours.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesfair as bf
from bayesfair.engines.big_learn import Matching, SeenRows, em_steps, joint_of, settle, start_states
from bayesfair.engines.gaussians import Gaussians, in_blocks, log_density

SHARES = 0.64, 0.16, 0.2  # of joint, marginal and conditional rounds
ROUNDS, STEPS, JOINT_STEPS = 500, 5, 500
ADAM = optax.adam(0.02)


def free(parameters: Gaussians):
    """Coordinates without constraints: logits, means and Cholesky factors."""
    return jnp.log(parameters.mixing), parameters.mean, jnp.linalg.cholesky(parameters.covariance)


def gaussians(logits, mean, factor):
    factor = jnp.tril(factor)
    return Gaussians(jax.nn.softmax(logits), mean, factor @ factor.mT + 1e-6 * jnp.eye(factor.shape[-1]))


def conditional_steps(problem, parameters, given):
    """Steps of Adam on the conditional log-density of the other coordinates, `given` those of S."""

    def loss(values):
        whole = jnp.ones(problem.dim, bool)
        likely = gaussians(*values)
        return log_density(likely, problem.rows, given) - log_density(likely, problem.rows, whole)

    def step(_, carried):
        values, moments = carried
        change, moments = ADAM.update(jax.grad(loss)(values), moments)
        return optax.apply_updates(values, change), moments

    values = free(parameters)
    return gaussians(*jax.lax.fori_loop(0, STEPS, step, (values, ADAM.init(values)))[0])


@jax.jit
def fit(problem, parameters, key):
    """Rounds drawn at random, then joint EM steps without a prior, as `BigLearnMixture` ends."""

    def one_round(parameters, key):
        key_kind, key_one = jax.random.split(key)
        kind = jax.random.categorical(key_kind, jnp.log(jnp.array(SHARES)))
        one = jnp.arange(problem.dim) == jax.random.randint(key_one, (), 0, problem.dim)
        matching = Matching(jnp.eye(problem.dim), one | (kind == 0))
        em = lambda now: em_steps(problem, now, matching)  # noqa: E731
        return jax.lax.cond(kind == 2, lambda now: conditional_steps(problem, now, one), em, parameters), None

    parameters, _ = jax.lax.scan(one_round, parameters, jax.random.split(key, ROUNDS))
    last = problem._replace(prior=jnp.float32(1e-6))
    return jax.lax.fori_loop(
        0, JOINT_STEPS, lambda _, now: settle(last, now)[0], joint_of(last, parameters)[0]
    ).parameters


def score(seed, test, prior, n_components=25, floor=1e-3):
    """Mean log-density of the rows `test` under a fit to the grid."""
    X = bf.datasets.make_gmm_grid(seed=seed).features.to_numpy()
    middle = X.mean(0)
    rows, _ = in_blocks(X, middle)
    problem = SeenRows(rows, *(jnp.float32(part) for part in (prior, floor)), jnp.float32((1, 0, 0)))
    start = jax.tree.map(lambda part: part[0], start_states(seed, 1, n_components, middle))
    fitted = fit(problem, start.parameters, start.key)
    rows, _ = in_blocks(np.asarray(test, float), middle)
    return float(log_density(fitted, rows, jnp.ones(problem.dim, bool)))
