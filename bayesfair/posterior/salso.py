"""Search for partitions of least expected loss, also outside the draws, under the guarantee of the draws.

Up to a constant, the expected losses of Binder and of the variation of information are sums over clusters of f(n_k) - 2
mean_t sum_l f(n_kl(t)), with n_kl(t) the table with draw t and f(n) = n^2 or n log2 n (Dahl, Johnson and Mueller 2022).
The effect of a move follows from the tables of the clusters that it touches, without a matrix of pairs.
"""

from itertools import chain, permutations, product
from typing import Literal, NamedTuple

import numpy as np

from bayesfair._arrays import cell_masses
from bayesfair._check import check_integer, message
from bayesfair._names import DataTree
from bayesfair._partitions import tables_with
from bayesfair._progress import progress
from bayesfair.fairness.balanced import BalanceConstraint
from bayesfair.fairness.groups import Groups
from bayesfair.fairness.metrics import cluster_balance
from bayesfair.posterior.guarantees import balance_to_keep, balances, everyone, masses_of
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.relabelling import align
from bayesfair.posterior.schema import count_clusters, flat_labels, groups_of
from bayesfair.posterior.tables import company, evenly_spaced, information
from bayesfair.posterior.view import once

FEW = 200  # draws that the descent of starts uses
PASSES = 100
NEAREST = 8  # rows of a group and pair of clusters that are tried in pairs if nothing else helps
NOBODY = np.zeros(0, np.intp)
TINY = 1e-9  # a change of n^2 or n log n below it is rounding


@once
def salso_partition(
    tree: "DataTree",
    *,
    loss: Literal["vi", "binder"] = "vi",
    fair: bool = True,
    num_starts: int = 8,
    max_draws: int | Literal["auto"] | None = "auto",
    progress_bar: bool = False,
) -> np.ndarray:
    """The partition of least expected loss that a greedy search with restarts finds.

    Moves take single rows, and two rows of a group that change places. Every partition on the way keeps the guarantee. The
    result is never worse than the best of the draws that it is compared with.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    loss : {"vi", "binder"}, default "vi"
        As in `vi_partition` and `binder_partition`.
    fair : bool, default True
        Whether to keep what the method guarantees of every draw, the least balance and the least cluster size of the draws,
        and every cluster if no draw has an empty one.
    num_starts : int, at least 1, default 8
        Draws from which the search starts, each judged by 200 draws. The best goes on with all.
    max_draws : int, "auto" or None, default "auto"
        Draws that stand for the posterior, see `vi_partition`.
    progress_bar : bool, default False
        Whether to show a progress bar over the starts.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)
        Integer labels.

    Raises
    ------
    ValueError
        If the loss is unknown, or a number is below 1.

    Notes
    -----
    A pass takes time in proportion to draws, rows and clusters: seconds for thousands of rows, minutes for a hundred
    thousand.

    References
    ----------
    Dahl, Johnson and Müller (2022).

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.salso_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    if loss not in ("vi", "binder"):
        raise ValueError(message("loss", "be 'vi' or 'binder'", repr(loss), "Use 'vi' if in doubt."))
    labels, num_starts = flat_labels(tree), check_integer("num_starts", num_starts)
    known = count_clusters(tree)
    compared = (information if loss == "vi" else company)(labels, known, max_draws)
    expected = compared.variation_of_information if loss == "vi" else compared.binder()
    draws = np.ascontiguousarray(np.asarray(labels[compared.draw]))
    groups = groups_of(tree) or everyone(tree)
    few = draws[evenly_spaced(len(draws), FEW)]
    closes = not fair or not masses_of(tree).any(-1).all()
    space = known, loss, groups, _as_draws(tree, groups) if fair else None, closes
    starts = dict.fromkeys([int(expected.argmin()), *evenly_spaced(len(draws), num_starts - 1).tolist()])
    searches = [search for search in (_Search(few, draws[at], *space) for at in starts) if search.fair()]
    if not searches:
        rule, remedy = "hold draws that keep what the method guarantees", "Pass fair=False."
        raise ValueError(message("tree", rule, "draws that do not", remedy))
    ends = [searches[0].labels.copy()]  # the best draw unchanged
    with progress(len(searches) + 1, "partitions", progress_bar) as bar:
        for search in searches:
            ends.append(search.down().labels)
            bar.update(1)
        whole = [_Search(draws, end, *space) for end in ends]
        best = min(whole, key=_Search.value).down().labels
        bar.update(1)
    return align(best[None], reference_partition(tree), known)[0][best]


class _AsDraws(NamedTuple):
    """Clusters that keep the guarantee and are no less balanced and no smaller than any cluster of the draws."""

    promised: BalanceConstraint | None
    groups: Groups
    least_balance: float
    least_size: int

    def satisfied(self, counts):
        """Which of these non-empty clusters are allowed, by their counts (clusters, groups)."""
        kept = counts.sum(-1) >= self.least_size
        kept &= cluster_balance(counts, self.groups) >= self.least_balance
        return kept if self.promised is None else kept & self.promised.satisfied(counts)


def _as_draws(tree, groups):
    """The constraint from the draws; None with a single group and no bound on sizes, as nothing has to be kept."""
    promised = balance_to_keep(tree)
    if promised is None and len(groups.names) < 2:
        return None
    masses = masses_of(tree)
    sizes = masses.sum(-1)
    return _AsDraws(promised, groups, balances(masses, groups).min(), int(sizes[sizes > 0].min()))


class _Search:
    """A partition during its descent: `tables` (K, T, L) with all draws, `inner` (K,): mean_t sum_l f of them.

    `closes`: may its last row leave a cluster?
    """

    def __init__(self, draws, labels, n_clusters, loss, groups, constraint: _AsDraws | None, closes):
        self.draws, self.labels, self.n_clusters = draws, labels.astype(np.intp), n_clusters
        self.code, self.n_groups = groups.code, len(groups.names)
        self.constraint, self.closes = constraint, closes
        n = np.arange(len(labels) + 2, dtype=np.float64)
        self.f = n**2 if loss == "binder" else n * np.log2(np.maximum(n, 1))
        self.of_draw = np.ascontiguousarray(draws.T)  # makes a row's labels contiguous
        tables = tables_with(draws, self.labels, n_clusters, int(draws.max()) + 1)
        self.tables = np.ascontiguousarray(tables.swapaxes(0, 1)).astype(np.int32)
        self.counts = cell_masses(self.labels, self.code, (n_clusters, self.n_groups))
        self.inner = self._inner(self.tables)

    def _inner(self, tables):
        return self.f[tables].sum(2).mean(1)

    def value(self):
        """The expected loss, up to a constant and a factor."""
        return (self.f[self.counts.sum(1)] - 2 * self.inner).sum()

    def fair(self, counts=None):
        """Do clusters with these counts (some, groups), by default the own ones, keep the guarantee if not empty?"""
        counts = self.counts if counts is None else counts
        return self.constraint is None or bool(self.constraint.satisfied(counts[counts.sum(1) > 0]).all())

    def down(self):
        """Descend to a partition that no move improves, and return it."""
        for _ in range(PASSES):
            if not any(self._improved(moves) for moves in (self._alone, self._pairs)):  # pairs if no single row moves
                break
        return self

    def _improved(self, moves):
        """Was any of the moves that `moves(margins, from, to)` yields, (rows, rows back), made?"""
        margins, made = self._margins(), False
        for k, to in permutations(range(self.n_clusters), 2):
            for people, back in moves(margins, k, to):
                made |= self._make(k, to, people, back)
        return made

    def _margins(self):
        """Change of the loss if each row moved alone to each cluster (N, K)."""
        rows, f, size = np.arange(len(self.labels)), self.f, self.counts.sum(1)
        join, leave = np.zeros((self.n_clusters, len(rows))), np.zeros(len(rows))
        for t, draw in enumerate(self.draws):
            table = self.tables[:, t]
            join += (f[table + 1] - f[table])[:, draw]
            own = table[self.labels, draw]
            leave += f[own] - f[own - 1]
        grown, shrunk = f[size + 1] - f[size], f[size] - f[np.maximum(size - 1, 0)]
        margins = grown - shrunk[self.labels][:, None] - 2 * (join.T - leave[:, None]) / len(self.draws)
        margins[rows, self.labels] = np.inf
        return margins

    def _alone(self, margins, k, to):
        """Single rows, and swaps of two rows of a group, cheapest with cheapest, with a promise of gain."""
        out, back = self._cheapest(margins, k, to), self._cheapest(margins, to, k)
        for person in np.concatenate(out):
            if margins[person, to] < -TINY:
                yield np.array([person]), NOBODY
        for i, j in chain.from_iterable(map(zip, out, back)):
            if k < to and margins[i, to] + margins[j, k] < -TINY:
                yield np.array([i]), np.array([j])

    def _pairs(self, margins, k, to):
        """Any two of the cheapest rows of a group: margins do not add up for pairs."""
        if k < to:
            for mine, theirs in zip(self._cheapest(margins, k, to), self._cheapest(margins, to, k)):
                yield from ((np.array([i]), np.array([j])) for i, j in product(mine[:NEAREST], theirs[:NEAREST]))

    def _cheapest(self, margins, k, to):
        """The rows of every group in cluster k, the cheapest to move first."""
        groups = (np.flatnonzero((self.labels == k) & (self.code == group)) for group in range(self.n_groups))
        return [rows[np.argsort(margins[rows, to], kind="stable")] for rows in groups]

    def _make(self, k, to, people, back):
        """Make the move if it still gains after earlier moves; return whether it was made."""
        if (self.labels[people] != k).any() or (self.labels[back] != to).any():
            return False
        moved = np.bincount(self.code[people], minlength=self.n_groups)
        moved -= np.bincount(self.code[back], minlength=self.n_groups)
        counts = self.counts[[k, to]] + np.array([-moved, moved])
        if not ((self.closes or counts.any(1).all()) and self.fair(counts)):
            return False
        both, tables = [k, to], self.tables[[k, to]]
        draws = np.arange(tables.shape[1])
        for i, sign in [*((i, 1) for i in people), *((i, -1) for i in back)]:
            tables[0, draws, self.of_draw[i]] -= sign
            tables[1, draws, self.of_draw[i]] += sign
        inner, f = self._inner(tables), self.f
        before = (f[self.counts[both].sum(1)] - 2 * self.inner[both]).sum()
        if (f[counts.sum(1)] - 2 * inner).sum() - before > -TINY:
            return False
        self.counts[both], self.tables[both], self.inner[both] = counts, tables, inner
        self.labels[people], self.labels[back] = to, k
        return True
