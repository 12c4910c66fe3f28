"""How many of independent trials succeed, and which: tables against every outcome, draws against tables."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import trials_law

from bayesfair.gibbs.poisson_binomial import by_inverse, count_tree, drawn_trials, log_count_law, tilted_to

pytestmark = pytest.mark.usefixtures("x64")
LOG_ODDS = np.random.default_rng(0).normal(size=(2, 8)) * 2
THERE = np.array([[True] * 8, [True] * 5 + [False] * 3])


def outcomes(log_odds, there):
    """Every outcome of trials, and its probability."""
    every = np.array(list(product([0, 1], repeat=len(there))))
    likely = np.where(there, 1 / (1 + np.exp(-log_odds)), 0)
    return every, np.where(every == 1, likely, 1 - likely).prod(1)


def test_counts_and_trials_have_the_laws_of_all_outcomes():
    tree = jax.tree.map(np.asarray, jax.jit(count_tree)(LOG_ODDS, THERE))
    of_all = jax.jit(jax.vmap(trials_law, (None, 0)))
    for part, (log_odds, there) in enumerate(zip(LOG_ODDS, THERE)):
        every, probability = outcomes(log_odds, there)
        law = np.bincount(every.sum(1), probability)
        np.testing.assert_allclose(tree[-1][part, 0], law, atol=1e-14)
        own = [level[part] for level in tree]
        told = np.asarray(of_all(own, every))
        held = probability > 0
        np.testing.assert_allclose(told[held], probability[held] / law[every.sum(1)[held]], atol=1e-12)


def test_a_tilt_changes_no_law():
    """It is there for float32 alone, and brings the expected count to what is asked for."""

    @jax.jit
    def told(count):
        tilt = tilted_to(LOG_ODDS, jnp.asarray(THERE), count)
        tilted = LOG_ODDS + tilt[:, None]
        law = jax.nn.softmax(log_count_law(count_tree(tilted, jnp.asarray(THERE)), tilt))
        return law, jnp.where(jnp.asarray(THERE), jax.nn.sigmoid(tilted), 0).sum(-1)

    laws = []
    for count in np.array([[4, 2], [7, 0]]):
        law, expected = told(count)
        np.testing.assert_allclose(expected, np.clip(count, 0.5, THERE.sum(-1) - 0.5), atol=1e-6)
        laws.append(law)
    np.testing.assert_allclose(*laws, atol=1e-12)


def test_draws_have_the_count_asked_for_and_the_law_of_the_splits():

    @jax.jit
    def draw(key):
        tree = count_tree(jnp.asarray(LOG_ODDS[0]), jnp.ones(8, bool))
        return jax.vmap(lambda key: drawn_trials(key, tree, jnp.asarray(3)))(jax.random.split(key, 20_000))

    drawn = np.asarray(draw(jax.random.PRNGKey(0)))
    assert (drawn.sum(1) == 3).all()
    every, probability = outcomes(LOG_ODDS[0], THERE[0])
    given = (every.sum(1) == 3) * probability
    expected = (given / given.sum()) @ every
    np.testing.assert_allclose(drawn.mean(0), expected, atol=0.015)  # four standard errors


def test_nothing_without_mass_is_drawn():
    mass = np.array([[0.0, 0.25, 0.0, 0.75, 0.0]] * 4)
    drawn = jax.jit(by_inverse)(np.array([0.0, 0.24, 0.26, 1 - 1e-16]), mass)
    assert drawn.tolist() == [1, 1, 3, 3]
