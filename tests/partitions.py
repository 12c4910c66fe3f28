"""Partitions of a few points, and what their definitions say of them."""

from collections import Counter

import numpy as np


def every_partition(n_obs, most):
    """All partitions of so many points into at most `most` clusters, as restricted growth strings (partitions, obs)."""
    partitions = [[0]]
    for _ in range(n_obs - 1):
        partitions = [[*p, label] for p in partitions for label in range(min(max(p) + 1, most - 1) + 1)]
    return np.array(partitions, dtype=np.int8)


def same(partition):
    """Are two points in one cluster? (obs, obs)"""
    return (partition[:, None] == partition).astype(float)


def naive_vi(first, second):
    """H(second | first) + H(first | second) in bits, cell by cell."""
    one, other = Counter(first.tolist()), Counter(second.tolist())
    cells = Counter(zip(first.tolist(), second.tolist())).items()
    return -sum(n / len(first) * (np.log2(n / one[k]) + np.log2(n / other[m])) for (k, m), n in cells)
