"""The cluster, its probability and the next likeliest cluster of every row, under the table's own names."""

from ast import literal_eval
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._names import DataFrame, DataTree
from bayesfair.posterior.co_clustering_probability import misclassification_probability
from bayesfair.posterior.contingency import count_labels
from bayesfair.posterior.partitions import point_of, reference_partition
from bayesfair.posterior.relabelling import about, numbered_alike
from bayesfair.posterior.schema import KIND, ROW, count_clusters, flat_labels, groups_of, variable
from bayesfair.posterior.view import View


def _index(tree):
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


def memberships(tree: "DataTree", *, reference: ArrayLike | None = None) -> "DataFrame":
    """A table with one row for each row of the data: its cluster, how surely, and the next best one.

    It takes one pass over the draws and 4 bytes for each row and cluster.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.
    reference : array-like of int of shape (n_obs,), optional
        The clusters in question. By default `reference_partition(tree)`.

    Returns
    -------
    pandas.DataFrame
        Indexed by the names of the rows. The columns are `cluster`; `probability`, the share of draws that have the row
        there; `runner_up`, the cluster where most of the other draws have it, missing if there are none;
        `runner_up_probability`; `placed_for_balance` (if the tree's own partition is "likeliest"), whether the runner-up is
        likelier but balance leaves no place there; `misclassification_probability`, 1 - `probability`; and `group`, if the
        tree has groups.

    Examples
    --------
    >>> import bayesfair as bf
    >>> tree = bf.posterior.tree_from_labels([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], [[0], [1], [8], [9]])
    >>> bf.posterior.memberships(tree)["probability"].tolist()
    [1.0, 1.0, 0.75, 1.0]
    """
    import pandas as pd

    tree = View.of(numbered_alike(about(tree, reference)))
    labels, cluster = flat_labels(tree), reference_partition(tree)
    n_clusters = max(count_clusters(tree), int(cluster.max()) + 1)
    own, other, others = runners_up(labels, cluster, n_clusters)
    columns = {
        "cluster": cluster,
        "probability": own / len(labels),
        "runner_up": pd.arrays.IntegerArray(other, other < 0),
        "runner_up_probability": others / len(labels),
        **({"placed_for_balance": pd.array(others > own, "boolean")} if point_of(tree) == "likeliest" else {}),
        "misclassification_probability": misclassification_probability(tree),
    }
    table = pd.DataFrame(columns, index=_index(tree))
    groups = groups_of(tree)
    if groups is not None:
        table["group"] = np.array(groups.names, dtype=object)[groups.code]
    return table


def runners_up(labels, cluster, n_clusters):
    """(draws with a row in its `cluster`, the cluster with most of its other draws or -1, their number), (obs,) each."""
    counts = count_labels(labels, n_clusters)
    rows = np.arange(len(cluster))
    own = counts[cluster, rows]
    counts[cluster, rows] = 0
    most = counts.max(axis=0)
    return own, np.where(most > 0, counts.argmax(axis=0), -1), most
