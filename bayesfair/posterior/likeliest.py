"""The partition that users see: every row where the draws have it most often, as far as the guarantee allows."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import cell_masses
from bayesfair.posterior.draws import LabelDraws, as_labels
from bayesfair.posterior.guarantees import balance_to_keep, everyone
from bayesfair.posterior.relabelling import align, renumber
from bayesfair.posterior.schema import flat_labels, groups_of
from bayesfair.posterior.tables import binder_loss, count_labels

ROUNDS = 10  # of partition and numbers of clusters, each by the other


def likeliest(tree, reference, n_clusters):
    """(labels (obs,), permutations (draws, n_clusters)); None if `reference` (obs,) has the smaller expected loss.

    Every row gets its most frequent label. If that breaks the guarantee, clusters get the nearest counts that keep it, and a
    transport finds the likeliest labels with these. (The mean counts of draws would move four to twenty times as many rows.)
    """
    flat, constraint = flat_labels(tree), balance_to_keep(tree)
    code = None if constraint is None else (groups_of(tree) or everyone(tree)).code
    permutations = align(flat, reference, n_clusters)
    for _ in range(ROUNDS):
        renumbered = LabelDraws(renumber(tree["posterior"]["labels"], permutations))
        counts = count_labels(renumbered, n_clusters)
        labels = most_frequent(renumbered, counts)
        if constraint is not None:
            labels = _placed(labels, counts, code, constraint)
        before, permutations = permutations, align(flat, labels, n_clusters)
        if (permutations == before).all():
            break
    worse = binder_loss(flat, labels, n_clusters) > binder_loss(flat, reference, n_clusters)
    return None if worse else (labels, permutations)


def most_frequent(flat, counts):
    """Every row's most frequent label (obs,), by `counts` of the draws; a cluster that every draw uses keeps a row."""
    used = np.all([np.bincount(draw, minlength=len(counts)) > 0 for draw in as_labels(flat)], axis=0)
    labels, always = counts.argmax(axis=0), np.flatnonzero(used)
    if not np.isin(always, labels).all():
        member, row = linear_sum_assignment(counts.max(axis=0) - counts[always])
        labels[row] = always[member]
    return labels.astype(flat.dtype)


def _placed(labels, counts, code, constraint):
    """The labels (obs,) if they keep the guarantee; else those of a transport by `counts` (clusters, obs) of the draws."""
    held = cell_masses(labels, code, (len(counts), code.max() + 1))
    if constraint.satisfied(held[held.any(1)]).all():
        return labels
    from bayesfair.balanced.placement import cheapest_near  # loads Numba

    return cheapest_near(held, -counts.T, code, constraint, np.zeros(held.T.shape))
