"""Comparisons of partitions by contingency tables n_kl(s, s'), rows in cluster k of s and l of s': no N x N matrix."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from bayesfair._arrays import row_blocks
from bayesfair._check import check_integer, message
from bayesfair._partitions import tables_with
from bayesfair.posterior.draws import LabelDraws, as_labels

_BLOCK_ELEMENTS = 8_000_000  # of a one-hot matrix: 32 MB in float32
_BLOCK_ROWS = 2_000  # of a product of two one-hot matrices: keeps short tables from making wide products
_AUTO_MULTIPLICATIONS = 5e11  # of one pass, or equivalent: 3 to 7 seconds on two cores
_ENTRY = {"squares": 300, "entropies": 800}  # cost of a table's entry beyond its products, in multiplications
_MATRIX_ENTRY = 400  # cost of an indicator on the way through the matrix of rows, likewise
_MOST_COLUMNS = 5_000  # of that matrix: 300 MB
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd, of two hashes of 64 bits


def canonical(partition):
    """The same partition with clusters numbered by first appearance: equal arrays mean equal partitions, and vice versa."""
    _, first, inverse = np.unique(partition, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def one_hot(labels, n_clusters):
    """Indicators float32 (n_clusters * draws, obs) of `labels` (draws, obs), cluster by cluster, draw by draw."""
    clusters = np.arange(n_clusters, dtype=labels.dtype)
    return (labels == clusters[:, None, None]).astype(np.float32).reshape(-1, labels.shape[1])


def draw_blocks(num_draws, n_clusters, num_obs):
    """Slices of the draws with small one-hot matrices, as far as the number of draws matters."""
    rows = min(_BLOCK_ELEMENTS // num_obs, _BLOCK_ROWS)
    return row_blocks(num_draws, max(1, rows // n_clusters))


def distinct_observations(labels):
    """Merge rows that share a cluster in every draw, told by 128-bit hashes: (columns (U,), weight (U,), inverse (N,)).

    `labels[:, columns][:, inverse]` is `labels`; `weight` counts the rows of each history, in order of appearance.
    """
    hashes = _hashes(as_labels(labels))
    order = np.lexsort(hashes)
    begins = np.zeros(len(order), bool)
    begins[0] = True
    for one in hashes:
        begins[1:] |= np.diff(one[order]) != 0
    starts = np.flatnonzero(begins)
    coming = np.argsort(order[starts])  # the sort is stable: the first of equal rows comes first
    number = np.empty_like(coming)
    number[coming] = np.arange(len(coming))
    inverse = np.empty_like(order)
    inverse[order] = number[np.cumsum(begins) - 1]
    return order[starts][coming], np.diff(starts, append=len(order))[coming], inverse


def _hashes(labels: LabelDraws):
    """Two hashes (2, obs) of each row's history."""
    hashes = np.zeros((2, labels.shape[1]), np.uint64)
    per_word = 8 // labels.dtype.itemsize
    for block in labels.blocks(least=per_word):
        for first in range(0, len(block), per_word):
            word = _words(block[first : first + per_word], per_word)
            for one, factor in zip(hashes, _FACTORS):
                one ^= word
                one *= factor
                one ^= one >> np.uint64(29)
    return hashes


def _words(draws, per_word):
    """The labels of up to `per_word` draws (draws, obs) packed together: uint64 (obs,)."""
    side = np.zeros((draws.shape[1], per_word), draws.dtype)
    side[:, : len(draws)] = draws.T
    return side.view(np.uint64)[:, 0]


def count_labels(labels, n_clusters):
    """Number of the draws (draws, obs) that have each row in each cluster: int32 (n_clusters, obs)."""
    counts = np.zeros((n_clusters, labels.shape[1]), np.int32)
    for block in as_labels(labels).blocks():
        for k, count in enumerate(counts):
            count += (block == k).sum(axis=0, dtype=np.int32)
    return counts


class Company(NamedTuple):
    """Agreement of candidate draws with all draws about pairs of rows; all (candidates,).

    `draw`: positions among all draws. `squares`: sum_k n_k(s)^2. `shared`: the mean over draws s' of sum_kl n_kl(s, s')^2.
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
    """Information of each candidate draw about all draws, in bits. `draw` as in `Company`; `joint_entropy`: mean over s'."""

    draw: np.ndarray
    entropy: np.ndarray
    joint_entropy: np.ndarray

    @property
    def variation_of_information(self):
        """Expected 2 H(s, s') - H(s) - H(s') in bits, Meila (2007); Wade & Ghahramani (2018), eq. (4)."""
        return 2 * self.joint_entropy - self.entropy - self.entropy.mean()


def company(labels, n_clusters, max_draws="auto"):
    """`Company` of up to `max_draws` evenly spaced draws of `labels` (draws, obs); "auto": as many as seconds allow.

    The cheaper exact way: tables of all pairs of draws, O(draws^2 K^2 N), or, by shared(s) = sum_ij eta_ij(s) etabar_ij,
    the co-clustering matrix of the U distinct rows, O(draws K U^2).
    """
    labels = as_labels(labels)
    compact = _Compact.of(labels, n_clusters)
    chosen, by_matrix = _plan(max_draws, len(labels), n_clusters, len(compact.columns))
    compact = compact._replace(labels=labels[chosen])
    squared = partial(np.square, dtype=np.float64)
    shared = _mean_shared_by_matrix(compact) if by_matrix else _mean_over_pairs(compact, squared)
    return Company(chosen, labels.shape[1], (compact.sizes() ** 2).sum(axis=1), shared)


def binder_loss(labels, partition, n_clusters):
    """The expected Binder loss of a partition (obs,), whether a draw or none, but for a constant and a factor."""
    tables = tables_with(labels, partition, n_clusters, n_clusters)
    return np.square(np.bincount(partition), dtype=float).sum() - 2 * np.square(tables, dtype=float).sum() / len(tables)


def information(labels, n_clusters, max_draws="auto"):
    """`Information` of up to `max_draws` evenly spaced draws of `labels` (draws, obs), by tables of all pairs of draws."""
    labels = as_labels(labels)
    compact = _Compact.of(labels, n_clusters)
    most = _most_by_tables("entropies", n_clusters, len(compact.columns))
    chosen = evenly_spaced(len(labels), _most_draws(max_draws, most))
    compact = compact._replace(labels=labels[chosen])
    minus_plogp = _minus_plogp(labels.shape[1])
    return Information(chosen, minus_plogp(compact.sizes()).sum(axis=1), _mean_over_pairs(compact, minus_plogp))


def variation_of_information(labels, n_clusters):
    """The variation of information between any two draws of `labels` (draws, obs) in bits: float (draws, draws)."""
    labels = as_labels(labels)
    joint = np.zeros((len(labels), len(labels)))
    for rows, others, of_pairs in _of_pairs(_Compact.of(labels, n_clusters), _minus_plogp(labels.shape[1])):
        joint[others, rows] = of_pairs.T
        joint[rows, others] = of_pairs
    entropy = np.diag(joint)
    return np.maximum(2 * joint - entropy[:, None] - entropy, 0.0)


class _Compact(NamedTuple):
    """Draws of the distinct rows: `labels` of some draws, their `columns` (U,), and how many rows share each (U,)."""

    labels: LabelDraws
    columns: np.ndarray
    weight: np.ndarray
    n_clusters: int

    @classmethod
    def of(cls, labels, n_clusters):
        """Of all draws, in the smallest types: with many rows most are distinct."""
        columns, weight, _ = distinct_observations(labels)
        order = np.argsort(weight, kind="stable")  # rows of weight 1 together, whose tables take less time
        smallest = (numbers[order].astype(np.min_scalar_type(numbers.max())) for numbers in (columns, weight))
        return cls(labels, *smallest, n_clusters)

    def sizes(self):
        """Sizes of the clusters (draws, n_clusters), whole numbers in float64."""
        counts = [np.bincount(draw, minlength=self.n_clusters) for draw in self.labels]
        return np.stack(counts, axis=1).T.astype(np.float64)

    def one_hot(self, rows, at=slice(None)):
        """Indicators for a block of draws, `at` some of the distinct rows."""
        return one_hot(self.labels[rows].columns(self.columns[at]), self.n_clusters)

    def products(self, rows, others):
        """Tables (n_clusters * draws, n_clusters * other draws) of two blocks of draws, a block of rows at a time."""
        width = self.n_clusters * (rows.stop - rows.start)
        total = 0
        for at in row_blocks(len(self.columns), max(1, _BLOCK_ELEMENTS // width)):
            left, weight = self.one_hot(rows, at), self.weight[at].astype(np.float32)
            right = left if others == rows else self.one_hot(others, at)
            weighted = left if (weight == 1).all() else left * weight  # BLAS needs half the time for left @ left.T
            total = total + weighted @ right.T
        return total


def _mean_over_pairs(compact: _Compact, of_counts):
    """For every draw s, the mean over all draws s' of the sum of a function of the table of s and s': (draws,)."""
    total = np.zeros(len(compact.labels))
    for rows, others, of_pairs in _of_pairs(compact, of_counts):
        total[rows] += of_pairs.sum(axis=1)
        if others != rows:
            total[others] += of_pairs.sum(axis=0)
    return total / len(total)


def _of_pairs(compact: _Compact, of_counts):
    """(rows, others, sums of a function of the table of every two draws) for all pairs of blocks, half by symmetry."""
    n_clusters = compact.n_clusters
    cells = [(k, other) for k in range(n_clusters) for other in range(n_clusters)]
    blocks = row_blocks(len(compact.labels), max(1, _BLOCK_ROWS // n_clusters))
    for position, rows in enumerate(blocks):
        for others in blocks[position:]:
            tables = compact.products(rows, others).reshape(n_clusters, rows.stop - rows.start, n_clusters, -1)
            # cell by cell, to fit the cache
            yield rows, others, sum(of_counts(tables[k, :, other]) for k, other in cells)


def _mean_shared_by_matrix(compact: _Compact):
    labels, columns, weight, n_clusters = compact
    shared = np.empty(len(labels))
    together = count_together(labels.columns(columns), n_clusters)
    weighted = np.float64(weight)[:, None] * together * weight
    for rows in draw_blocks(len(labels), n_clusters, len(weight)):
        members = compact.one_hot(rows)
        of_clusters = np.einsum("ku,ku->k", members @ weighted, members)
        shared[rows] = of_clusters.reshape(n_clusters, -1).sum(axis=0)
    return shared / len(labels)


def count_together(labels, n_clusters, others=None):
    """Number of the draws (draws, obs) in which a row shares a cluster with another, or with one of the same draws `others`.

    float32 (obs, obs), or (obs, others).
    """
    others = labels if others is None else others
    together = np.zeros((labels.shape[1], others.shape[1]), np.float32)
    for draws in draw_blocks(len(labels), n_clusters, max(together.shape)):
        members = one_hot(labels[draws], n_clusters)
        together += members.T @ (members if others is labels else one_hot(others[draws], n_clusters))
    return together


def _minus_plogp(num_obs):
    """The function -p log2 p, p = n / num_obs, of counts n: tables hold whole numbers, so a look-up replaces logarithms."""
    share = np.arange(1, num_obs + 1) / num_obs
    known = np.concatenate([[0.0], -share * np.log2(share)])
    return lambda counts: known.take(counts.astype(np.intp), mode="clip")


def evenly_spaced(total, most):
    """Positions of at most `most` draws, or rows, evenly spaced over all."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).astype(int))


def _plan(max_draws, num_draws, n_clusters, num_columns):
    """The draws that `company` uses, and whether the matrix of rows is cheaper."""
    matrix_draw = n_clusters * num_columns * (3 * num_columns + _MATRIX_ENTRY)  # one product in float32, one in float64
    fits = num_columns <= _MOST_COLUMNS
    by_tables = _most_by_tables("squares", n_clusters, num_columns)
    by_matrix = int(_AUTO_MULTIPLICATIONS / matrix_draw) if fits else 0
    chosen = evenly_spaced(num_draws, _most_draws(max_draws, max(by_tables, by_matrix)))
    return chosen, fits and matrix_draw < _table_cost("squares", n_clusters, num_columns) * len(chosen)


def _table_cost(statistic, n_clusters, num_columns):
    """Multiplications per draw and other draw; half of all pairs."""
    return n_clusters**2 * (num_columns + _ENTRY[statistic]) / 2


def _most_by_tables(statistic, n_clusters, num_columns):
    """Number of draws that can be compared in the time that "auto" allows."""
    return math.isqrt(int(_AUTO_MULTIPLICATIONS / _table_cost(statistic, n_clusters, num_columns)))


def _most_draws(max_draws, affordable):
    remedy = "'auto' takes seconds, None uses every draw."
    if isinstance(max_draws, str) and max_draws == "auto":
        return max(200, affordable)
    if max_draws is None:
        return np.iinfo(np.int64).max
    if isinstance(max_draws, str):
        raise ValueError(message("max_draws", "be 'auto', None or an integer", repr(max_draws), remedy))
    return check_integer("max_draws", max_draws, remedy=remedy)
