"""Big learning round by round, as the authors' notebook looks at it, and Table 1's "+ Pr + MM + CM".

The package has no conditional matching, as the paper leaves it out of Algorithm 1. Here it is gradient ascent (Adam) on
the mean conditional log-density of eq. (7), log p(x) - log p(x_S). The paper does not print its step size, its number of
steps or its share of the rounds; these are ours.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesfair.engines.big_learn import Matching, SeenRows, Wanderer, em_steps, start_states
from bayesfair.engines.gaussians import Gaussians, in_blocks, log_density

SHARES = 0.64, 0.16, 0.2  # of joint, marginal and conditional rounds
STEPS = 5
ADAM = optax.adam(0.02)


def densities(step, X, test, n_components, seed, numbers, n_rounds):
    """Mean log-density of the rows `test` after each round of `step`.

    `numbers`: eta, the floor of the eigenvalues, and the probabilities of joint, marginal and rotated matchings.
    """
    middle = X.mean(0)
    rows, tests = (in_blocks(table, middle)[0] for table in (X, test))
    problem = SeenRows(rows, *(jnp.array(part, jnp.float32) for part in numbers))
    start = jax.tree.map(lambda part: jnp.asarray(part[0]), start_states(seed, 1, n_components, middle))
    return np.asarray(watched(step, problem, start, tests, n_rounds), float)


@partial(jax.jit, static_argnames=("step", "n_rounds"))
def watched(step, problem, start, tests, n_rounds):
    def one_round(state, _):
        state, _ = step(problem, state)
        return state, log_density(state.parameters, tests, jnp.ones(problem.dim, bool))

    return jax.lax.scan(one_round, start, None, length=n_rounds)[1]


def conditional_round(problem, state: Wanderer):
    """A joint, marginal or conditional matching, drawn at random."""
    key, key_kind, key_one = jax.random.split(state.key, 3)
    kind = jax.random.categorical(key_kind, jnp.log(jnp.array(SHARES)))
    one = jnp.arange(problem.dim) == jax.random.randint(key_one, (), 0, problem.dim)
    matching = Matching(jnp.eye(problem.dim), one | (kind == 0))
    ways = (lambda now: conditional_steps(problem, now, one)), (lambda now: em_steps(problem, now, matching))
    return state._replace(parameters=jax.lax.cond(kind == 2, *ways, state.parameters), key=key), None


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


def free(parameters: Gaussians):
    """Coordinates without constraints: logits, means and Cholesky factors."""
    return jnp.log(parameters.mixing), parameters.mean, jnp.linalg.cholesky(parameters.covariance)


def gaussians(logits, mean, factor):
    factor = jnp.tril(factor)
    return Gaussians(jax.nn.softmax(logits), mean, factor @ factor.mT + 1e-6 * jnp.eye(factor.shape[-1]))
