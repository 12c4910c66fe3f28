"""Contingency tables between draws: all that partitions have to say to each other, without an N x N matrix.

Two partitions s and s' of the same observations meet in a table n_kl(s, s'): how many observations are in cluster k of
one and in cluster l of the other. The losses of Dahl, of Binder and the variation of information are functions of it.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesfair._check import check_integer, message

__all__ = ["Agreement", "agreement", "canonical", "distinct_observations", "evenly_spaced", "one_hot", "tables_with"]

_BLOCK_ELEMENTS = 16_000_000  # of a one-hot matrix: 64 MB in float32
_BLOCK_ROWS = 2_000  # of a product of two one-hot matrices, so that short tables do not make wide products
_AUTO_MULTIPLICATIONS = 5e11  # of one pass: 3 to 7 seconds on two cores


def canonical(partition):
    """The same partition with clusters numbered by first appearance: equal arrays if and only if equal partitions."""
    _, first, inverse = np.unique(partition, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def one_hot(labels, n_clusters):
    """Indicators float32 (draws * n_clusters, obs) of `labels` (draws, obs), draw by draw, cluster by cluster."""
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    return (labels[:, None, :] == clusters[:, None]).astype(np.float32).reshape(-1, labels.shape[1])


def draw_blocks(num_draws, n_clusters, num_obs):
    """Slices of the draws whose one-hot matrices stay small whatever the number of observations is."""
    rows = min(_BLOCK_ELEMENTS // num_obs, _BLOCK_ROWS)
    step = max(1, rows // n_clusters)
    return [slice(start, min(start + step, num_draws)) for start in range(0, num_draws, step)]


def distinct_observations(labels):
    """Observations that share a cluster in every draw are one: (columns (U,), weight (U,), inverse (N,)).

    `labels[:, columns]` has one column for each distinct history, `weight` says how many observations have it and
    `labels[:, columns][:, inverse]` is `labels`. The members of a fairlet that never changes are the common case.
    """
    histories = np.ascontiguousarray(labels.T)
    seen = {}
    inverse = np.array([seen.setdefault(history.tobytes(), len(seen)) for history in histories])
    _, columns, weight = np.unique(inverse, return_index=True, return_counts=True)
    return columns, weight, inverse


def tables_with(labels, reference, n_rows, n_clusters):
    """Contingency tables (draws, n_rows, n_clusters): [t, k, l] counts class k of `reference` (obs,), l of draw t."""
    offset = reference.astype(np.intp) * n_clusters
    counts = [np.bincount(offset + draw, minlength=n_rows * n_clusters) for draw in labels]
    return np.stack(counts).reshape(len(labels), n_rows, n_clusters)


class Agreement(NamedTuple):
    """How well each candidate draw agrees with all of them, from one pass over their contingency tables.

    `draw`: flat positions of the candidates among all draws. `squares`: sum_k n_k(s)^2. `shared`: the mean over the
    draws s' of sum_kl n_kl(s, s')^2. `entropy`, `joint_entropy` (also a mean over s'): in bits. All (candidates,).
    """

    draw: np.ndarray
    num_obs: int
    squares: np.ndarray
    shared: np.ndarray
    entropy: np.ndarray
    joint_entropy: np.ndarray

    @property
    def least_squares(self):
        """sum_ij (eta_ij(s) - etabar_ij)^2 of Dahl (2006), section 3.2 of the paper; sum etabar^2 is mean shared."""
        return self.squares - 2 * self.shared + self.shared.mean()

    def binder(self, a=1.0, b=1.0):
        """Expected Binder loss over pairs i < j: `a` for a pair wrongly split, `b` for a pair wrongly joined."""
        together, both = (self.squares - self.num_obs) / 2, (self.shared - self.num_obs) / 2
        return a * (together.mean() - both) + b * (together - both)

    @property
    def variation_of_information(self):
        """Expected 2 H(s, s') - H(s) - H(s') in bits, Meila (2007); Wade & Ghahramani (2018), eq. (4)."""
        return 2 * self.joint_entropy - self.entropy - self.entropy.mean()


def agreement(labels, n_clusters, max_draws="auto"):
    """`Agreement` of up to `max_draws` evenly spaced draws of `labels` (draws, obs) with each other.

    One matrix product of one-hot matrices per pair of blocks of draws holds all their contingency tables; the pass is
    symmetric, so that half of the blocks do. "auto" takes as many draws as some seconds allow (at least 200, all of
    4,000 on a thousand observations, some 550 on 33,000 with ten clusters); None takes all.
    """
    columns, weight, _ = distinct_observations(labels)
    chosen = evenly_spaced(len(labels), _most_draws(max_draws, n_clusters, len(columns)))
    compact = labels[np.ix_(chosen, columns)]
    squares, entropy = np.empty(len(chosen)), np.empty(len(chosen))
    shared, joint = np.zeros(len(chosen)), np.zeros(len(chosen))
    blocks = draw_blocks(len(chosen), n_clusters, len(columns))
    plogp = _minus_plogp(labels.shape[1])
    for position, rows in enumerate(blocks):
        left = one_hot(compact[rows], n_clusters) * weight.astype(np.float32)
        sizes = left.sum(axis=1, dtype=np.float64).reshape(-1, n_clusters)
        squares[rows], entropy[rows] = (sizes**2).sum(axis=1), plogp[sizes.astype(int)].sum(axis=1)
        for others in blocks[position:]:
            sums = _table_sums(left @ one_hot(compact[others], n_clusters).T, n_clusters, plogp)
            for total, of_pairs in zip((shared, joint), sums):
                total[rows] += of_pairs.sum(axis=1)
                if others != rows:
                    total[others] += of_pairs.sum(axis=0)
    return Agreement(chosen, labels.shape[1], squares, shared / len(chosen), entropy, joint / len(chosen))


def _table_sums(product, n_clusters, plogp):
    """sum_kl n_kl^2 and the joint entropy of every pair of draws, each (draws, other draws)."""
    tables = product.reshape(product.shape[0] // n_clusters, n_clusters, -1, n_clusters)
    squares = np.einsum("skrl,skrl->sr", tables, tables, dtype=np.float64)
    return squares, plogp[tables.astype(np.int32)].sum(axis=(1, 3))


def _minus_plogp(num_obs):
    """-p log2 p at p = n / num_obs for every count n: tables hold whole numbers, so a look-up replaces logarithms."""
    share = np.arange(1, num_obs + 1) / num_obs
    return np.concatenate([[0.0], -share * np.log2(share)])


def evenly_spaced(num_draws, most):
    """Positions of at most `most` draws, evenly spaced over all chains."""
    return np.unique(np.linspace(0, num_draws - 1, min(num_draws, most)).astype(int))


def _most_draws(max_draws, n_clusters, num_columns):
    if isinstance(max_draws, str) and max_draws == "auto":
        return max(200, math.isqrt(int(2 * _AUTO_MULTIPLICATIONS / (n_clusters**2 * num_columns))))
    if max_draws is None:
        return np.iinfo(np.int64).max
    if isinstance(max_draws, str):
        remedy = "'auto' keeps the time to seconds, None takes every draw."
        raise ValueError(message("max_draws", "be 'auto', None or an integer", repr(max_draws), remedy))
    return check_integer("max_draws", max_draws, remedy="'auto' keeps the time to seconds, None takes every draw.")
