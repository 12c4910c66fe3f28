"""Data that the tests and benchmarks of the models share."""

import numpy as np


def two_ways_to_merge(n_obs=500, seed=0):
    """Five blobs for three clusters: four on a near square, whose two groups are split by its rows, and one far away.

    Merging along the rows is a little likelier and unfair (gap 0.25), along the columns fair (0.06): two modes.
    """
    rng = np.random.default_rng(seed)
    blob = rng.integers(5, size=n_obs)
    centers = np.array([[-1.6, -1.7], [1.6, -1.7], [-1.6, 1.7], [1.6, 1.7], [9, 0.0]])
    X = centers[blob] + 0.6 * rng.normal(size=(n_obs, 2))
    share = np.array([0.3, 0.3, 0.7, 0.7, 0.5])[blob]
    return X, (rng.random(n_obs) < share).astype(int)
