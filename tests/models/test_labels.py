"""The label sweep, exactly: its conditional laws against the enumerated target, and a planted bug."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

import bayesfair as bf
from bayesfair.models.labels import conditional_law, label_sweep

N_CLUSTERS, WEIGHT = 3, 2.0
GROUP = np.array([0, 0, 1, 1, 2])
SIZES = jnp.asarray(np.bincount(GROUP), jnp.float32)
LOG_JOINT = np.random.default_rng(1).normal(size=(5, N_CLUSTERS))
STATES = np.array(list(product(range(N_CLUSTERS), repeat=5)))


def log_target(labels):
    """log p(x, z) - lambda N Delta(z), with Delta from the fairness room; empty clusters do not change it."""
    soft = np.eye(N_CLUSTERS)[labels]
    return LOG_JOINT[np.arange(5), labels].sum() - WEIGHT * bf.fairness.gap(soft, GROUP)


TARGET = np.exp([log_target(labels) for labels in STATES])
TARGET /= TARGET.sum()


COUNTS = np.zeros((len(STATES), N_CLUSTERS, 3))
np.add.at(COUNTS, (np.arange(len(STATES))[:, None], STATES, GROUP), 1)


def transition_matrix(row, law):
    """Of one visit of the sweep to `row`, from its law."""
    probability = jax.nn.softmax(law(jnp.asarray(COUNTS), jnp.asarray(STATES[:, row]), row), axis=1)
    matrix = np.zeros((len(STATES), len(STATES)))
    place = N_CLUSTERS ** (4 - row)  # of the row's label in the number of a state
    for k in range(N_CLUSTERS):
        moved = np.arange(len(STATES)) + (k - STATES[:, row]) * place
        matrix[np.arange(len(STATES)), moved] = probability[:, k]
    return matrix


@partial(jax.jit, static_argnums=2)
def right(counts, label, row):
    counts = counts.at[jnp.arange(len(STATES)), label, GROUP[row]].add(-1.0)
    return law_of_all(counts, row)


@partial(jax.jit, static_argnums=2)
def row_left_in_the_counts(counts, label, row):
    return law_of_all(counts, row)


def law_of_all(counts, row):
    log_joint = jnp.asarray(LOG_JOINT[row])
    return jax.vmap(lambda one: conditional_law(one, log_joint, GROUP[row], SIZES, WEIGHT))(counts)


def test_every_visit_leaves_the_target_invariant_and_a_row_left_in_the_counts_is_caught():
    for row in range(5):
        np.testing.assert_allclose(TARGET @ transition_matrix(row, right), TARGET, atol=1e-6)
    assert np.abs(TARGET @ transition_matrix(0, row_left_in_the_counts) - TARGET).max() > 1e-4


def test_sweeps_visit_states_as_often_as_the_target_says():
    """20,000 sweeps; the largest of 243 differences exceeds 0.012 by chance in fewer than one of 1,000 runs."""

    def sweep(labels, key):
        labels = label_sweep(key, labels, jnp.asarray(LOG_JOINT), jnp.asarray(GROUP), SIZES, WEIGHT)
        return labels, labels

    keys = jax.random.split(jax.random.key(0), 20_000)
    _, labels = jax.jit(lambda keys: jax.lax.scan(sweep, jnp.zeros(5, int), keys))(keys)
    code = np.asarray(labels) @ (N_CLUSTERS ** np.arange(4, -1, -1))
    assert np.abs(np.bincount(code, minlength=243) / 20_000 - TARGET).max() < 0.012
