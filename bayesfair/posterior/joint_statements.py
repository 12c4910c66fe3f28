"""What the draws say jointly: the largest set of rows that keeps its clusters, and how extreme a whole partition is."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._names import DataFrame, DataTree
from bayesfair._partitions import check_metric, check_partition, partition_distance
from bayesfair.posterior import sentences
from bayesfair.posterior.membership import alike, index_of_rows, misclassification_probability
from bayesfair.posterior.point_estimates import check_level, reference_partition
from bayesfair.posterior.relabelling import align
from bayesfair.posterior.schema import check_rows_of, count_clusters, flat_labels
from bayesfair.posterior.tables import company, evenly_spaced, information
from bayesfair.posterior.view import once

NOWHERE = -1  # the place of a row that is not in the set
STARTS, LABELS_READ = 8, 2e7  # most searches, and labels that they read together
AHEAD = 256  # rows whose labels are read together
ROUNDING = 1e-9  # of mean distances


@once
def sure_rows(tree: "DataTree", *, level: float = 0.9) -> "DataFrame":
    """The largest set of rows found whose clusters, relative to each other, hold together in `level` of the draws.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    level : float between 0 and 1, default 0.9
        The least share of draws in which all clusters of the rows are as told.

    Returns
    -------
    pandas.DataFrame
        One line for each row of the set, indexed by their names: `position` among the rows of the tree, and `cluster`, numbered
        like the point estimate. Its `attrs` hold the `level`, the `share` of draws in which the rows lie exactly so, up to the
        numbers of clusters, and the `sentence` that says so.

    Raises
    ------
    ValueError
        If `level` is not between 0 and 1.

    Notes
    -----
    Rows that are sure one by one need not be sure together: 100 rows of probability 0.99 may be right together in few draws.
    A greedy search adds the row that keeps the most draws, until none keeps enough of them. No single row can be added to what
    it finds, but a larger set of other rows may exist. It begins at the surest row of every cluster and, in tables of up to
    10,000,000 labels, at up to seven single rows too; the largest set is returned. A search takes a few passes over the draws
    and 4 bytes for each row and cluster.

    References
    ----------
    Barrientos, Page, Dahl and Dunson (2024), conditional high inclusion probability subsets (CHIPS), whose searches begin at
    random rows.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> sure = bf.posterior.sure_rows(tree)
    >>> sure["cluster"].to_dict()
    {0: 0, 1: 0, 3: 1}
    >>> sure.attrs["sentence"]
    'In 100% of the draws 3 of 4 rows keep their clusters all at once.'
    """
    import pandas as pd

    check_level(level, usual=0.9)
    doubt, tree = misclassification_probability(tree), tree.once(alike)
    labels, cluster = flat_labels(tree), reference_partition(tree)
    n_clusters = max(count_clusters(tree), int(cluster.max()) + 1)
    place, kept = surest_set(labels, cluster, doubt, n_clusters, least_draws(level, len(labels)))
    rows, share = np.flatnonzero(place != NOWHERE), float(kept.mean())
    table = pd.DataFrame({"position": rows, "cluster": place[rows]}, index=index_of_rows(tree)[rows])
    table.attrs.update(level=level, share=share, sentence=sentences.of_sure_rows(len(rows), len(cluster), share, level))
    return table


def sure_sentence(tree) -> str:
    """How many rows keep their clusters together, as a sentence."""
    return sure_rows(tree).attrs["sentence"]


def least_draws(level, num_draws):
    """The number of draws that is at least a share `level` of all; rounding needs no further draw."""
    return max(int(np.ceil(level * num_draws - 1e-9)), 1)


def surest_set(labels, cluster, doubt, n_clusters, least):
    """(place (obs,), kept (draws,)): the cluster of each row of the set, or NOWHERE, and the draws where all of them hold.

    `labels` (draws, obs). Places are numbered like `cluster` (obs,). The largest set of several searches: one begins at the
    surest row of every cluster by `doubt` (obs,), the others at single rows.
    """
    first = np.lexsort((doubt, cluster))
    surest = first[np.unique(cluster[first], return_index=True)[1]]
    starts = [surest[np.argsort(doubt[surest], kind="stable")]]
    others = evenly_spaced(len(cluster), int(np.clip(LABELS_READ / (len(labels) * len(cluster)), 1, STARTS)) - 1)
    starts += [np.argsort(doubt, kind="stable")[[at]] for at in others]
    found = [_grown(labels, doubt, _first_places(labels, anchors, n_clusters), least) for anchors in starts]
    place, kept = max(found, key=lambda one: (np.count_nonzero(one[0] != NOWHERE), np.count_nonzero(one[1])))
    rows = np.flatnonzero(place != NOWHERE)
    place[rows] = align(place[None, rows], cluster[rows], n_clusters)[0][place[rows]]
    return place, kept


def _grown(labels, doubt, places, least):
    """A set as `surest_set` returns it, grown from the anchors that `places` (draws, n_clusters) name.

    Every step adds the row whose place among the rows of the set is the same in the most kept draws, ties by `doubt`, and
    drops the other draws, until `least` draws would not be left.
    """
    new = places.shape[1]  # `new`: the place of a row in a cluster without a row of the set
    rows = np.arange(len(doubt))
    counts, kept = _count_places(labels, places), np.ones(len(labels), bool)
    place, columns = np.full(len(doubt), NOWHERE), {}
    while True:
        most = np.where(place == NOWHERE, counts.max(axis=0), 0)
        if most.max() < least:
            return place, kept
        likeliest = np.flatnonzero(most == most.max())
        where = counts[:, likeliest].argmax(axis=0)
        free = likeliest[where != new] if most.max() == kept.sum() else ()
        if len(free):  # they cost no draw
            place[free] = where[where != new]
            continue
        first = np.lexsort((doubt[likeliest], where == new))[0]
        row, at = likeliest[first], where[first]
        if row not in columns:
            columns = _columns_of_next(labels, row, most)
        drawn = columns[row]
        gone = np.flatnonzero(kept & (places[np.arange(len(labels)), drawn] != at))
        for of_clusters, draw in zip(places[gone], labels[gone]):
            counts[of_clusters[draw], rows] -= 1
        kept[gone] = False
        if at == new:
            at = np.setdiff1d(np.arange(new), places[kept][0])[0]
            places[np.flatnonzero(kept), drawn[kept]] = at
            _move_to(counts, labels, drawn, kept, at)
        place[row] = at


def _first_places(labels, anchors, n_clusters):
    """The place (draws, n_clusters) of each cluster of each draw: that of the anchor in it, or `n_clusters` without one.

    An anchor that a draw has together with an earlier one is left out. Places have the numbers of the first draw.
    """
    draws = np.arange(len(labels))
    places = np.full((len(labels), n_clusters), n_clusters, np.min_scalar_type(n_clusters))
    for own in labels.columns(anchors).T:
        if (places[draws, own] == n_clusters).all():
            places[draws, own] = own[0]
    return places


def _count_places(labels, places):
    """Number of the draws (draws, obs) that have each row in each place, by `places` (draws, n_clusters) of their clusters."""
    n_clusters, first = places.shape[1], 0
    counts = np.zeros((n_clusters + 1, labels.shape[1]), np.int32)
    numbered_so = (places == np.arange(n_clusters)).all()
    for block in labels.blocks():
        placed = block if numbered_so else np.take_along_axis(places[first : first + len(block)], block, axis=1)
        for at, count in enumerate(counts):
            count += (placed == at).sum(axis=0, dtype=np.int32)
        first += len(block)
    return counts


def _columns_of_next(labels, row, most):
    """{row: its labels (draws,)} of this row and those that may come next: columns of a file are read many at a time."""
    chosen = np.union1d(row, np.argsort(-most, kind="stable")[:AHEAD])
    return dict(zip(chosen.tolist(), labels.columns(chosen).T))


def _move_to(counts, labels, drawn, kept, at):
    """Move the rows that share the cluster `drawn` (draws,) of a new row in `kept` draws to the place `at`."""
    first, moved = 0, np.zeros(labels.shape[1], np.int32)
    for block in labels.blocks():
        some = slice(first, first + len(block))
        moved += (block == drawn[some, None])[kept[some]].sum(axis=0, dtype=np.int32)
        first += len(block)
    counts[at] += moved
    counts[-1] -= moved


class Credibility(NamedTuple):
    """How extreme a partition is among the draws of a posterior.

    Attributes
    ----------
    p_value : float
        The share of partitions, draws and the given one, that are at least as far from all others as the given one.
    distance : float
        The mean distance of the partition to the draws.
    distances : numpy.ndarray of shape (n_draws,)
        The mean distance of each draw used to all others and to the partition.
    metric : str
        "vi" or "binder".
    draws : numpy.ndarray of shape (n_draws,)
        The positions of the draws used, chain after chain.
    sentence : str
        The result in words, with the number of draws.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.credibility(tree, [0, 1, 0, 1]).sentence
    'None of 4 draws is as far from the others as this partition: its p-value is 0.2, the least that so many draws can give.'
    """

    p_value: float
    distance: float
    distances: np.ndarray
    metric: str
    draws: np.ndarray
    sentence: str


def credibility(
    tree: "DataTree",
    partition: ArrayLike,
    *,
    metric: Literal["vi", "binder"] = "vi",
    max_draws: int | Literal["auto"] | None = "auto",
) -> Credibility:
    """How extreme a partition is among the draws: a p-value by its distance to them.

    Could somebody else's clusters be a draw of this posterior? A small p-value says no: hardly any draw is as far away.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    partition : array-like of int of shape (n_obs,)
        A partition of the rows. A pandas object must name its rows as the tree does, in the same order.
    metric : {"vi", "binder"}, default "vi"
        Distance between partitions, see `partition_distance`.
    max_draws : int, "auto" or None, default "auto"
        Evenly spaced draws that are compared. "auto" keeps the time to seconds. None takes all. The p-value is at least
        1 / (1 + draws), and the `sentence` says how many were compared.

    Returns
    -------
    Credibility

    Raises
    ------
    ValueError
        If `partition` is no partition of the rows, names them otherwise than the tree, or the metric is unknown.

    Notes
    -----
    The score of a partition is its mean distance to all others, the draws and the given partition being one set of 1 + draws.
    So a partition drawn from the posterior has p <= u with a probability of at most u, if draws are independent. Draws of a
    chain are not quite: compare fewer of them if they mix slowly. If the posterior has several modes a partition between them
    may be nearer to all draws than any draw is, and p-values are then large for it. The time is proportional to the square of
    the number of draws.

    References
    ----------
    Bariletto, Ho and Rinaldo (2025), Conformalized Bayesian Inference, arXiv 2511.05746. Their score is a kernel density by
    the same distances, on a part of the draws.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.credibility(tree, [0, 0, 1, 1]).p_value
    1.0
    >>> bf.posterior.credibility(tree, [0, 1, 0, 1]).p_value
    0.2
    """
    check_metric(metric)
    labels = flat_labels(tree)
    check_rows_of(tree, partition=partition)
    partition = check_partition("partition", partition, labels.shape[1])
    draws, between = _summed_distances(labels, count_clusters(tree), metric, max_draws)
    own = partition_distance(labels[draws], partition, metric=metric)
    distances, distance = (between + own) / len(draws), float(own.mean())
    farther = int((distances >= distance - ROUNDING).sum())
    p_value = (1 + farther) / (1 + len(draws))
    told = sentences.of_credibility(p_value, farther, len(draws), len(labels))
    return Credibility(p_value, distance, distances, metric, draws, told)


def _summed_distances(labels, n_clusters, metric, max_draws):
    """(positions of the draws compared, the sum of the distances of each of them to all): (draws,) each."""
    found = (information if metric == "vi" else company)(labels, n_clusters, max_draws)
    if metric == "vi":
        return found.draw, len(found.draw) * found.variation_of_information
    mean = (found.squares + found.squares.mean() - 2 * found.shared) / found.num_obs**2
    return found.draw, len(found.draw) * mean
