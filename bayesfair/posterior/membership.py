"""Which cluster every row belongs to, with what probability, and the next best one."""

from ast import literal_eval
from contextlib import suppress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import cell_masses, row_blocks
from bayesfair._check import message
from bayesfair._names import DataFrame, DataTree
from bayesfair._partitions import check_partition
from bayesfair.posterior import sentences
from bayesfair.posterior.point_estimates import check_level, point_of, reference_partition
from bayesfair.posterior.relabelling import about, align, numbered_alike
from bayesfair.posterior.schema import KIND, ROW, check_rows_of, count_clusters, flat_labels, groups_of, variable
from bayesfair.posterior.tables import count_labels
from bayesfair.posterior.view import View, once

METHODS = "membership", "medoid"
DOUBTFUL = 0.1  # misclassification probability from which a row counts as uncertain


@once
def misclassification_probability(
    tree: "DataTree", *, reference: ArrayLike | None = None, method: Literal["membership", "medoid"] = "membership"
) -> np.ndarray:
    """The probability that a row is not in its cluster.

    The time is proportional to draws times rows.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    reference : array-like of int of shape (n_obs,), optional
        The clusters in question. By default `reference_partition(tree)`, which tables, pictures and `labels_` show.
    method : {"membership", "medoid"}, default "membership"
        "membership" is 1 minus the share of draws that have the row in its cluster, clusters being numbered alike in all
        draws: 1 - `memberships(tree)["probability"]`. "medoid" is the paper's 1 - etabar, the share of draws that do not have
        the row together with the medoid of its cluster, the member that is most often together with the others. It is 0 for
        the medoid itself, however uncertain its own membership is.

    Returns
    -------
    numpy.ndarray of shape (n_obs,)

    Raises
    ------
    ValueError
        If `reference` is no partition of the rows, or the method is not known.

    References
    ----------
    The Gibbs paper, section 3.2: 1 - etabar. The paper takes the draw of highest density as reference, which is
    `reference=map_partition(tree)`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.misclassification_probability(tree).tolist()
    [0.0, 0.0, 0.25, 0.0]
    >>> bf.posterior.misclassification_probability(tree, method="medoid").tolist()
    [0.0, 0.0, 0.0, 0.25]
    """
    if method not in METHODS:
        raise ValueError(message("method", f"be one of {METHODS}", repr(method), "Leave it out for 'membership'."))
    labels = flat_labels(tree)
    if reference is not None:
        check_rows_of(tree, reference=reference)
        reference = check_partition("reference", reference, labels.shape[1])
    if method == "medoid":
        return 1 - _share_with(
            labels, tree.once(_reference_medoids) if reference is None else _medoids(labels, reference)
        )
    if reference is None:
        return 1 - _share_in(flat_labels(tree.once(alike)), reference_partition(tree.once(alike)), len(labels))
    permutations = align(labels, reference, max(count_clusters(tree), int(reference.max()) + 1))
    return 1 - _share_in((numbers[draw] for numbers, draw in zip(permutations, labels)), reference, len(labels))


def weighed_misclassification(tree: "DataTree", weights) -> np.ndarray:
    """`misclassification_probability` of draws with other weights (draws,), which sum to 1."""
    tree = tree.once(alike)
    labels, reference = flat_labels(tree), reference_partition(tree)
    held, first = np.zeros(labels.shape[1]), 0
    for block in labels.blocks():
        held += weights[first : first + len(block)] @ (block == reference)
        first += len(block)
    return 1 - held


def alike(tree) -> View:
    """The tree, or the tree relabelled if its draws are not numbered alike: asked of a view, it is found once."""
    return View.of(numbered_alike(tree))


def _reference_medoids(tree):
    return _medoids(flat_labels(tree), reference_partition(tree))


def _medoids(labels, partition):
    """The medoid of every row's cluster, its member with the largest sum of co-clustering probabilities: positions (obs,)."""
    shape = int(labels.max()) + 1, int(partition.max()) + 1
    company, blocks = np.zeros(len(partition), np.int64), row_blocks(len(partition))
    for draw in labels:
        held = cell_masses(draw, partition, shape)
        for rows in blocks:
            company[rows] += held[draw[rows], partition[rows]]
    medoid = np.empty(len(partition), np.int32)
    for cluster in np.unique(partition):
        members = np.flatnonzero(partition == cluster)
        medoid[members] = members[np.argmax(company[members])]
    return medoid


def _share_with(labels, other):
    """Share of draws in which each row has the label of another row, or of its own row `other` (obs,)."""
    together = np.zeros(labels.shape[1], dtype=np.int32)
    for draw in labels:
        together += draw == draw[other]
    return together / len(labels)


def _share_in(draws, cluster, num_draws):
    """Share of draws in which each row is in its `cluster` (obs,)."""
    held = np.zeros(len(cluster), dtype=np.int32)
    for draw in draws:
        held += draw == cluster
    return held / num_draws


def index_of_rows(tree):
    """The index of the fit's table: the names of the rows, with dates and several levels as they were before they were text."""
    import pandas as pd

    names, row = tree["posterior"]["obs"].values, variable(tree, "constant_data", ROW)
    kind = "" if row is None else row.attrs.get(KIND, "")
    with suppress(ValueError, SyntaxError, TypeError):  # rows may have been renamed since
        if kind == "dates":
            return pd.DatetimeIndex(names, name="obs")
        if kind == "levels":
            return pd.MultiIndex.from_tuples([literal_eval(name) for name in names])
    return pd.Index(names, name="obs")


def label_sets(probabilities: ArrayLike, level: float) -> np.ndarray:
    """The smallest set of clusters that holds `level` of each row's probability: bool (obs, clusters).

    `probabilities` (obs, clusters). Likelier clusters come first, equally likely ones by their numbers. A sum that is below
    `level` by rounding only is enough, and a cluster of probability 0 is never added.
    """
    share = np.asarray(probabilities)
    rounding = 4 * share.shape[1] * np.finfo(share.dtype).eps
    order = np.argsort(-share, axis=1, kind="stable")
    likely = np.take_along_axis(share, order, axis=1)
    held = likely.cumsum(axis=1) - likely  # before each
    needed = (held < level - rounding) & (likely > 0)
    found = np.empty(share.shape, bool)
    np.put_along_axis(found, order, needed, axis=1)
    return found


def memberships(tree: "DataTree", *, reference: ArrayLike | None = None, level: float = 0.9) -> "DataFrame":
    """A table with one row for each row of the data: its cluster, how surely, and where else it may belong.

    It takes one pass over the draws and 5 bytes for each row and cluster.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    reference : array-like of int of shape (n_obs,), optional
        The clusters in question. By default `reference_partition(tree)`.
    level : float between 0 and 1, default 0.9
        The share of a row's probability that its `label_set` holds.

    Returns
    -------
    pandas.DataFrame
        Indexed by the names of the rows. The columns are `cluster`; `probability`, the share of draws that have the row
        there; `runner_up`, the cluster where most of the other draws have it, missing if there are none;
        `runner_up_probability`; `label_set`, the smallest set of clusters that holds `level` of the row's probability, such
        as "0 or 2"; `placed_for_balance` (if the tree's own partition is "likeliest"), whether the runner-up is likelier but
        balance leaves no place there; `misclassification_probability`, 1 - `probability`; and `group`, if the tree has
        groups. Its `attrs` hold the `level`, `set_sizes`, {number of clusters: rows with so many in their set}, and the
        `sentence` that says so.

    Raises
    ------
    ValueError
        If `reference` is no partition of the rows, or `level` is not between 0 and 1.

    Notes
    -----
    A set takes likelier clusters first, and equally likely ones by their numbers. It need not hold `cluster` if the row is
    placed for balance. Each set is about one row; `sure_rows` finds rows whose clusters hold together.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> table = bf.posterior.memberships(tree)
    >>> table["probability"].tolist()
    [1.0, 1.0, 0.75, 1.0]
    >>> table["label_set"].tolist()
    ['0', '0', '0 or 1', '1']
    >>> table.attrs["sentence"]
    "The smallest set of clusters with 90% of a row's draws has 1 cluster for 3 of 4 rows, 2 for 1."
    """
    import pandas as pd

    check_level(level, usual=0.9)
    tree = View.of(about(tree, reference)).once(alike)
    labels, cluster = flat_labels(tree), reference_partition(tree)
    counts = count_labels(labels, max(count_clusters(tree), int(cluster.max()) + 1))
    blocks = row_blocks(len(cluster))
    sets = np.concatenate([label_sets(counts[:, rows].T / len(labels), level) for rows in blocks])
    own, other, others = runners_up(counts, cluster)
    columns = {
        "cluster": cluster,
        "probability": own / len(labels),
        "runner_up": pd.arrays.IntegerArray(other, other < 0),
        "runner_up_probability": others / len(labels),
        "label_set": name_sets(sets),
        **({"placed_for_balance": pd.array(others > own, "boolean")} if point_of(tree) == "likeliest" else {}),
        "misclassification_probability": misclassification_probability(tree),
    }
    table = pd.DataFrame(columns, index=index_of_rows(tree))
    groups = groups_of(tree)
    if groups is not None:
        table["group"] = np.array(groups.names, dtype=object)[groups.code]
    sizes = {size: rows for size, rows in enumerate(np.bincount(sets.sum(axis=1)).tolist()) if rows}
    table.attrs.update(level=level, set_sizes=sizes, sentence=sentences.of_label_sets(sizes, level))
    return table


def name_sets(sets) -> np.ndarray:
    """Sets of clusters (obs, clusters) as texts (obs,) such as "0 or 2"."""
    distinct, which = np.unique(sets, axis=0, return_inverse=True)
    return np.array([" or ".join(map(str, np.flatnonzero(one))) for one in distinct], dtype=object)[which]


def runners_up(counts, cluster):
    """(draws with a row in its `cluster`, the cluster with most of its other draws or -1, their number), (obs,) each.

    `counts` (clusters, obs) of draws lose those of each row's `cluster`.
    """
    rows = np.arange(len(cluster))
    own = counts[cluster, rows]
    counts[cluster, rows] = 0
    most = counts.max(axis=0)
    return own, np.where(most > 0, counts.argmax(axis=0), -1), most
