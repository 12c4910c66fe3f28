"""Simulation-based calibration of every kind of mixture at lambda = 0, and coverage under a fair mixture (issue 4).

python benchmarks/models/calibration.py [--replications 200] [--sets 100]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # the tests run the same code at a smaller size

import jax
import jax.numpy as jnp
import numpy as np
from models import calibration
from numpyro.infer import NUTS

import bayesfair as bf


def simulate_fair(key, n_obs=100):
    """Rows (N, 2), labels and groups of a fair mixture: two overlapping blobs, the groups independent of the labels."""
    key_label, key_row, key_group = jax.random.split(key, 3)
    label = (jax.random.uniform(key_label, (n_obs,)) < 0.4).astype(int)
    rows = TRUE_MEANS[label] + TRUE_SCALE * jax.random.normal(key_row, (n_obs, calibration.DIM))
    group = jnp.arange(n_obs) % 2  # of known sizes, so that one program serves all sets
    return rows, label, jax.random.permutation(key_group, group)


TRUE_MEANS, TRUE_SCALE = jnp.array([[-1.0, 0.0], [1.0, 0.5]]), 0.8


def cover(key, fairness_weight=0.2, num_warmup=300, num_draws=300):
    """For one simulated set: do the 90% intervals of the means (K, d) hold the truth; P(in the second cluster) and labels."""
    key_data, key_run = jax.random.split(key)
    rows, label, group = simulate_fair(key_data)
    order = jnp.argsort(group, stable=True)  # groups as constants: the first half of the rows, the second half
    rows, label = rows[order], label[order]
    settings = {"n_components": 2, "fairness_weight": fairness_weight}
    args, kernel = (
        (rows, np.arange(len(rows)) // (len(rows) // 2)),
        NUTS(bf.models.fair_gaussian_mixture, max_tree_depth=6),
    )
    state = kernel.init(key_run, num_warmup, None, args, settings)

    def step(state, _):
        state = kernel.sample(state, args, settings)
        return state, state.z

    state = jax.lax.scan(step, state, length=num_warmup)[0]
    _, z = jax.lax.scan(step, state, length=num_draws)
    sites = jax.vmap(kernel.postprocess_fn(args, settings))(z)
    order = jnp.argsort(sites["means"][:, :, 0], 1)  # the blobs are told apart by their first coordinate
    means = jnp.take_along_axis(sites["means"], order[:, :, None], 1)
    lower, upper = jnp.quantile(means, jnp.array([0.05, 0.95]), axis=0)
    psi = jax.vmap(lambda one: responsibilities(rows, one))(sites)
    second = jnp.take_along_axis(psi, order[:, None, 1:], 2)[:, :, 0].mean(0)
    return (lower < TRUE_MEANS) & (upper > TRUE_MEANS), second, label


def responsibilities(rows, sites):
    square = jnp.square(rows[:, None] - sites["means"]).sum(2)
    return jax.nn.softmax(jnp.log(sites["weights"]) - square / (2 * sites["scales"] ** 2), 1)


def coverage(n_sets, seed):
    """The share of intervals that hold the truth, and a table of predicted against actual misclassification by bin."""
    inside, second, label = jax.jit(jax.vmap(cover))(jax.random.split(jax.random.key(seed), n_sets))
    second, label = np.asarray(second).ravel(), np.asarray(label).ravel()
    predicted, wrong = np.minimum(second, 1 - second), (second > 0.5) != label
    place = np.digitize(predicted, [0.1, 0.2, 0.3, 0.4])
    table = [(int((place == b).sum()), predicted[place == b].mean(), wrong[place == b].mean()) for b in range(5)]
    return float(np.mean(inside)), np.array(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--sets", type=int, default=100)
    arguments = parser.parse_args()
    print(f"p-values that ranks are uniform, {arguments.replications} replications")
    for kind in calibration.KINDS:
        start = time.perf_counter()
        p_values = calibration.rank_p_values(kind, arguments.replications, seed=1)
        shown = ", ".join(f"{name} {p:.3f}" for name, p in p_values.items())
        print(f"{kind:<12} {shown}  ({time.perf_counter() - start:.0f} s)", flush=True)
    inside, table = coverage(arguments.sets, seed=1)
    print(f"90% intervals of the means hold the truth in {inside:.3f} of {arguments.sets} sets x 4 intervals")
    print("rows, mean misclassification probability, share misclassified")
    for n_rows, predicted, actual in table:
        print(f"{n_rows:>6.0f} {predicted:>8.3f} {actual:>8.3f}")


if __name__ == "__main__":
    main()
