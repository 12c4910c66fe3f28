"""The partition that users see: every row where the draws have it most often, as far as the guarantee allows."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesfair._arrays import cell_masses
from bayesfair.posterior.contingency import binder_loss, count_labels
from bayesfair.posterior.guarantees import balance_kept, everyone
from bayesfair.posterior.labels import LabelDraws, as_labels
from bayesfair.posterior.relabelling import align, renumber
from bayesfair.posterior.schema import flat_labels, groups_of

ROUNDS = 10  # of partition and numbers of clusters, each by the other


def likeliest(tree, reference, n_clusters):
    """(labels (obs,), permutations (draws, n_clusters)), or None if a draw is better.

    A draw is better if `reference` (obs,) has the smaller expected Binder loss, for example if modes differ so much
    that no numbering of clusters fits all draws.

    The draws are numbered as in `reference`. Every row gets its most frequent label. If that breaks the guarantee, the
    clusters get the nearest numbers of rows of every group that keep it, and a transport problem for every group finds
    the labels with the largest sum of membership probabilities at these numbers. The mean numbers of the draws
    (DESIGN.md, section 2.5) would move four to twenty times as many rows out of their likeliest cluster. Then draws are
    numbered as in these labels, until no number changes.
    """
    flat, constraint = flat_labels(tree), balance_kept(tree)
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
    """Every observation's most frequent label in the draws (draws, obs), whose `count_labels` are given: labels (obs,).

    A cluster that every draw uses and that is nobody's most frequent label gets one observation all the same, so chosen
    that the fewest draws disagree.
    """
    used = np.all([np.bincount(draw, minlength=len(counts)) > 0 for draw in as_labels(flat)], axis=0)
    labels, always = counts.argmax(axis=0), np.flatnonzero(used)
    if not np.isin(always, labels).all():
        member, row = linear_sum_assignment(counts.max(axis=0) - counts[always])
        labels[row] = always[member]
    return labels.astype(flat.dtype)


def _placed(labels, counts, code, constraint):
    """The labels (obs,) themselves if they keep the guarantee; else those of a transport.

    `counts` (clusters, obs): the number of draws that have a row in a cluster.
    """
    held = cell_masses(labels, code, (len(counts), code.max() + 1))
    if constraint.satisfied(held[held.any(1)]).all():
        return labels
    from bayesfair.balanced.placement import cheapest_near  # loads JAX

    return cheapest_near(held, -counts.T, code, constraint, np.zeros(held.T.shape))
