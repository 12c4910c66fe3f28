"""Contingency tables between draws: all that partitions have to say to each other, without an N x N matrix.

Two partitions s and s' of the same observations meet in a table n_kl(s, s'): how many observations are in cluster k of
one and in cluster l of the other. The losses of Dahl, of Binder and the variation of information are functions of it.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesfair._check import check_integer, message
from bayesfair._partitions import tables_with
from bayesfair.fairness import Groups, cluster_balance, masses_of_attributes

__all__ = [
    "Company",
    "Information",
    "balance_of",
    "canonical",
    "company",
    "count_together",
    "distinct_observations",
    "evenly_spaced",
    "information",
    "variation_of_information",
]

_BLOCK_ELEMENTS = 16_000_000  # of a one-hot matrix: 64 MB in float32
_BLOCK_ROWS = 2_000  # of a product of two one-hot matrices, so that short tables do not make wide products
_AUTO_MULTIPLICATIONS = 5e11  # of one pass, or what takes as long: 3 to 7 seconds on two cores
_ENTRY = {"squares": 300, "entropies": 800}  # what an entry of a table costs beyond its products, in multiplications
_MATRIX_ENTRY = 400  # what an indicator costs on the way through the matrix of observations, likewise
_MOST_COLUMNS = 5_000  # of that matrix: 300 MB


def canonical(partition):
    """The same partition with clusters numbered by first appearance: equal arrays if and only if equal partitions."""
    _, first, inverse = np.unique(partition, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def one_hot(labels, n_clusters):
    """Indicators float32 (n_clusters * draws, obs) of `labels` (draws, obs), cluster by cluster, draw by draw."""
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    return (labels == clusters[:, None, None]).astype(np.float32).reshape(-1, labels.shape[1])


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


def balance_of(labels, groups: Groups, n_clusters):
    """`bayesfair.fairness.balance` of each of the clusterings (draws, obs), from one pass over their tables: (draws,)."""
    masses = tables_with(labels, groups.code, len(groups.names), n_clusters).transpose(0, 2, 1)
    return np.min([np.nanmin(cluster_balance(held), axis=-1) for held in masses_of_attributes(masses, groups)], axis=0)


class Company(NamedTuple):
    """How well each candidate draw agrees with all of them about pairs of observations.

    `draw`: flat positions of the candidates among all draws. `squares`: sum_k n_k(s)^2, the ordered pairs that s puts
    together. `shared`: the mean over the draws s' of sum_kl n_kl(s, s')^2, those that both do. All (candidates,).
    """

    draw: np.ndarray
    num_obs: int
    squares: np.ndarray
    shared: np.ndarray

    @property
    def least_squares(self):
        """sum_ij (eta_ij(s) - etabar_ij)^2 of Dahl (2006), section 3.2 of the paper; sum etabar^2 is mean shared."""
        return self.squares - 2 * self.shared + self.shared.mean()

    def binder(self, a=1.0, b=1.0):
        """Expected Binder loss over pairs i < j: `a` for a pair wrongly split, `b` for a pair wrongly joined."""
        together, both = (self.squares - self.num_obs) / 2, (self.shared - self.num_obs) / 2
        return a * (together.mean() - both) + b * (together - both)


class Information(NamedTuple):
    """What each candidate draw knows of all of them, in bits. `draw` as in `Company`; `joint_entropy` is a mean over s'."""

    draw: np.ndarray
    entropy: np.ndarray
    joint_entropy: np.ndarray

    @property
    def variation_of_information(self):
        """Expected 2 H(s, s') - H(s) - H(s') in bits, Meila (2007); Wade & Ghahramani (2018), eq. (4)."""
        return 2 * self.joint_entropy - self.entropy - self.entropy.mean()


def company(labels, n_clusters, max_draws="auto"):
    """`Company` of up to `max_draws` evenly spaced draws of `labels` (draws, obs) with each other.

    Two ways to the same whole numbers, the cheaper one of which is taken: tables of all pairs of draws, O(draws^2 K^2 N),
    or, since shared(s) = sum_ij eta_ij(s) etabar_ij, the co-clustering matrix of the U observations that are ever
    apart, O(draws K U^2). "auto" takes as many draws as some seconds allow, at least 200 (all of 80,000 on 40
    observations, all of 4,000 on a thousand, some 550 on 33,000 with ten clusters); None takes all.
    """
    columns, weight, _ = distinct_observations(labels)
    chosen, by_matrix = _plan(max_draws, len(labels), n_clusters, len(columns))
    compact = labels[np.ix_(chosen, columns)]
    mean_shared = _mean_shared_by_matrix if by_matrix else _mean_shared_by_tables
    squares = (_sizes(compact, weight, n_clusters) ** 2).sum(axis=1)
    return Company(chosen, labels.shape[1], squares, mean_shared(compact, weight, n_clusters))


def information(labels, n_clusters, max_draws="auto"):
    """`Information` of up to `max_draws` evenly spaced draws of `labels` (draws, obs) about each other.

    Entropies need the table of every pair of draws: "auto" takes some 11,000 of 80,000 draws of 40 observations in three
    clusters, all of 4,000 on a thousand in four, some 540 on 33,000 in ten.
    """
    columns, weight, _ = distinct_observations(labels)
    chosen = evenly_spaced(len(labels), _most_draws(max_draws, _most_by_tables("entropies", n_clusters, len(columns))))
    compact = labels[np.ix_(chosen, columns)]
    plogp = _minus_plogp(labels.shape[1])
    entropy = plogp[_sizes(compact, weight, n_clusters).astype(np.intp)].sum(axis=1)
    joint = _mean_over_pairs(
        compact, weight, n_clusters, lambda counts: plogp.take(counts.astype(np.intp), mode="clip")
    )
    return Information(chosen, entropy, joint)


def variation_of_information(labels, n_clusters):
    """The variation of information between any two draws of `labels` (draws, obs) in bits: float (draws, draws)."""
    columns, weight, _ = distinct_observations(labels)
    compact, plogp = labels[:, columns], _minus_plogp(labels.shape[1])
    members = one_hot(compact, n_clusters).reshape(n_clusters, len(labels), -1)
    joint = np.zeros((len(labels), len(labels)))
    for one in members * weight.astype(np.float32):
        for other in members:  # cell by cell, as in `_mean_over_pairs`
            joint += plogp[(one @ other.T).astype(np.intp)]
    entropy = np.diag(joint)
    return np.maximum(2 * joint - entropy[:, None] - entropy, 0.0)


def _sizes(compact, weight, n_clusters):
    """Sizes of the clusters (draws, n_clusters), whole numbers in float64."""
    blocks = draw_blocks(len(compact), n_clusters, len(weight))
    weight = weight.astype(np.float32)
    sizes = [(one_hot(compact[rows], n_clusters) @ weight).reshape(n_clusters, -1) for rows in blocks]
    return np.concatenate(sizes, axis=1).T.astype(np.float64)


def _mean_shared_by_tables(compact, weight, n_clusters):
    return _mean_over_pairs(compact, weight, n_clusters, lambda counts: np.square(counts, dtype=np.float64))


def _mean_over_pairs(compact, weight, n_clusters, of_counts):
    """The mean over all draws s' of the sum of a function of the table of s and s', for every draw s: (draws,).

    One matrix product of one-hot matrices per pair of blocks of draws holds all their tables (n_clusters, draws,
    n_clusters, other draws); the pass is symmetric, so that half of the blocks do.
    """
    cells = [(k, other) for k in range(n_clusters) for other in range(n_clusters)]
    total = np.zeros(len(compact))
    blocks = draw_blocks(len(compact), n_clusters, len(weight))
    for position, rows in enumerate(blocks):
        left = one_hot(compact[rows], n_clusters) * weight.astype(np.float32)
        for others in blocks[position:]:
            product = left @ one_hot(compact[others], n_clusters).T
            tables = product.reshape(n_clusters, len(left) // n_clusters, n_clusters, -1)
            of_pairs = sum(of_counts(tables[k, :, other]) for k, other in cells)  # cell by cell, which the cache holds
            total[rows] += of_pairs.sum(axis=1)
            if others != rows:
                total[others] += of_pairs.sum(axis=0)
    return total / len(compact)


def _mean_shared_by_matrix(compact, weight, n_clusters):
    shared = np.empty(len(compact))
    weighted = np.float64(weight)[:, None] * count_together(compact, n_clusters) * weight
    for rows in draw_blocks(len(compact), n_clusters, len(weight)):
        members = one_hot(compact[rows], n_clusters)
        of_clusters = np.einsum("ku,ku->k", members @ weighted, members)
        shared[rows] = of_clusters.reshape(n_clusters, -1).sum(axis=0)
    return shared / len(compact)


def count_together(compact, n_clusters):
    """In how many of the draws (draws, obs) two observations share a cluster: float32 (obs, obs)."""
    together = np.zeros((compact.shape[1],) * 2, dtype=np.float32)
    for rows in draw_blocks(len(compact), n_clusters, compact.shape[1]):
        members = one_hot(compact[rows], n_clusters)
        together += members.T @ members
    return together


def _minus_plogp(num_obs):
    """-p log2 p at p = n / num_obs for every count n: tables hold whole numbers, so a look-up replaces logarithms."""
    share = np.arange(1, num_obs + 1) / num_obs
    return np.concatenate([[0.0], -share * np.log2(share)])


def evenly_spaced(num_draws, most):
    """Positions of at most `most` draws, evenly spaced over all chains."""
    return np.unique(np.linspace(0, num_draws - 1, min(num_draws, most)).astype(int))


def _plan(max_draws, num_draws, n_clusters, num_columns):
    """The draws that `company` takes, and whether the matrix of observations is the cheaper way."""
    matrix_draw = n_clusters * num_columns * (3 * num_columns + _MATRIX_ENTRY)  # one product in float32, one in float64
    fits = num_columns <= _MOST_COLUMNS
    by_tables = _most_by_tables("squares", n_clusters, num_columns)
    by_matrix = int(_AUTO_MULTIPLICATIONS / matrix_draw) if fits else 0
    chosen = evenly_spaced(num_draws, _most_draws(max_draws, max(by_tables, by_matrix)))
    return chosen, fits and matrix_draw < _table_cost("squares", n_clusters, num_columns) * len(chosen)


def _table_cost(statistic, n_clusters, num_columns):
    """Multiplications per draw and other draw, half of all pairs."""
    return n_clusters**2 * (num_columns + _ENTRY[statistic]) / 2


def _most_by_tables(statistic, n_clusters, num_columns):
    """How many draws can meet each other in the time that "auto" allows."""
    return math.isqrt(int(_AUTO_MULTIPLICATIONS / _table_cost(statistic, n_clusters, num_columns)))


def _most_draws(max_draws, affordable):
    remedy = "'auto' keeps the time to seconds, None takes every draw."
    if isinstance(max_draws, str) and max_draws == "auto":
        return max(200, affordable)
    if max_draws is None:
        return np.iinfo(np.int64).max
    if isinstance(max_draws, str):
        raise ValueError(message("max_draws", "be 'auto', None or an integer", repr(max_draws), remedy))
    return check_integer("max_draws", max_draws, remedy=remedy)
