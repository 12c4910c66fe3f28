"""The partition that users see: every row where the draws have it most often, as far as the guarantee allows."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair._partitions import tables_with
from bayesfair.posterior.contingency import count_labels
from bayesfair.posterior.guarantees import balance_kept
from bayesfair.posterior.labels import LabelDraws, as_labels
from bayesfair.posterior.relabelling import align, renumber
from bayesfair.posterior.schema import flat_labels, groups_of

ROUNDS = 10  # of partition and numbers of clusters, each by the other


def likeliest(tree, reference, n_clusters):
    """(labels (obs,), permutations (draws, n_clusters)), or None where a draw is better.

    That is where the draw `reference` (obs,) has the lesser expected Binder loss, as where modes differ so much that no
    numbering of clusters fits all draws.

    The draws are numbered as in `reference`. The labels have the largest sum of membership probabilities among those that
    keep what the method promises, with the clusters' mean numbers of rows of every group, rounded (DESIGN.md, section 2.5):
    a transport problem for every group. Then draws are numbered as in these labels, until that changes no number.
    """
    flat, constraint = flat_labels(tree), balance_kept(tree)
    code = None if constraint is None else groups_of(tree).code
    permutations = align(flat, reference, n_clusters)
    for _ in range(ROUNDS):
        renumbered = LabelDraws(renumber(tree["posterior"]["labels"], permutations))
        labels = most_frequent(renumbered, n_clusters)
        if constraint is not None:
            labels = _placed(labels, count_labels(renumbered, n_clusters), code, constraint, len(flat))
        before, permutations = permutations, align(flat, labels, n_clusters)
        if (permutations == before).all():
            break
    worse = _binder(flat, labels, n_clusters) > _binder(flat, reference, n_clusters)
    return None if worse else (labels, permutations)


def most_frequent(flat, n_clusters):
    """Every observation's most frequent label in the draws (draws, obs): labels (obs,).

    A cluster that every draw uses and that is nobody's most frequent label gets one observation all the same, so chosen
    that the fewest draws disagree.
    """
    counts = count_labels(flat, n_clusters)
    used = np.all([np.bincount(draw, minlength=n_clusters) > 0 for draw in as_labels(flat)], axis=0)
    labels, always = counts.argmax(axis=0), np.flatnonzero(used)
    if not np.isin(always, labels).all():
        member, row = linear_sum_assignment(counts.max(axis=0) - counts[always])
        labels[row] = always[member]
    return labels.astype(flat.dtype)


def _placed(labels, counts, code, constraint, num_draws):
    """The labels (obs,) themselves where they keep the guarantee; else those of a transport.

    `counts` (clusters, obs): the number of draws that have a row in a cluster.
    """
    n_clusters, sizes = len(counts), np.bincount(code)
    held = np.zeros((n_clusters, len(sizes)), int)
    np.add.at(held, (labels, code), 1)
    if constraint.satisfied(held[held.any(1)]).all():
        return labels
    from bayesfair.balanced.transport import assign  # loads JAX
    from bayesfair.fairness.balanced import nearest_counts

    mean = np.stack([counts[:, code == group].sum(1) for group in range(len(sizes))], 1) / num_draws
    used = np.flatnonzero(mean.sum(1) >= 0.5)
    share = mean[used].sum(1) / mean[used].sum()
    whole = nearest_counts(constraint, sizes, mean[used] if len(used) == n_clusters else share[:, None] * sizes)
    for group in range(len(sizes)):
        rows = np.flatnonzero(code == group)
        cost = -counts[np.ix_(used, rows)].T.astype(np.float64)
        labels[rows] = used[assign(cost, whole[:, group], np.zeros(len(used)))[0]]
    return labels


def _binder(flat, labels, n_clusters):
    """The expected Binder loss of a partition, but for a constant and a factor."""
    tables = tables_with(flat, labels, n_clusters, n_clusters)
    return np.square(np.bincount(labels), dtype=float).sum() - 2 * np.square(tables, dtype=float).sum() / len(tables)
