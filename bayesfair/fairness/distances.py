"""Individual fairness: how far the rows of every cluster are from its centre, and how unequally far."""

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_same_length, check_same_rows, message
from bayesfair._names import DataFrame
from bayesfair.fairness.metrics import encode_assignment

OF_ALL = "within_ss", "rms_distance", "max_distance", "distance_variance"


def distance_report(
    X: ArrayLike, labels: ArrayLike, centers: ArrayLike | None = None, *, overall: bool = False
) -> "DataFrame":
    """A table with one row per cluster: how far its rows are from its centre, and how unequally far.

    Parameters
    ----------
    X : array-like of shape (n_obs, n_features)
        Features.
    labels : array-like of shape (n_obs,) or (n_obs, n_clusters)
        The cluster of every row. Soft assignments weigh the rows.
    centers : array-like of shape (n_clusters, n_features), optional
        One centre for each cluster, in the order of the labels. By default the means of the clusters.
    overall : bool, default False
        Whether to add the whole clustering as a last row named "overall".

    Returns
    -------
    pandas.DataFrame
        The columns are `size`; `within_ss`, the sum of squared distances to the centre; `rms_distance`, the root of
        their mean; `max_distance`; and `distance_variance`, the variance of the squared distances: the smaller it is,
        the more alike the members of a cluster are treated. An empty cluster has a `within_ss` of 0. The figures of
        the whole clustering are in `attrs`: `within_ss` is the sum, `max_distance` the largest, and
        `distance_variance` the mean over rows of their cluster's.

    Raises
    ------
    ValueError
        If lengths or row indexes differ, or there is not one centre for each cluster.

    References
    ----------
    TKM, section 4.3, for the variance of the squared distances as a measure of individual fairness.

    Examples
    --------
    >>> import bayesfair as bf
    >>> table = bf.fairness.distance_report([[0.0], [2.0], [5.0], [9.0]], ["a", "a", "b", "b"], overall=True)
    >>> table["max_distance"].tolist()
    [1.0, 2.0, 2.0]
    """
    import pandas as pd

    check_same_rows(labels=labels, X=X)
    X = check_features(X)
    assignment, clusters = encode_assignment(labels)
    check_same_length("X", len(X), "labels", len(assignment))
    if centers is not None:
        centers, wanted = np.asarray(centers, np.float64), (len(clusters), X.shape[1])
        if centers.shape != wanted:
            remedy = "Leave out the centres of empty clusters, or leave out `centers` to use the means."
            raise ValueError(message("centers", f"have the shape {wanted}", f"shape {centers.shape}", remedy))
    columns = distance_columns(X, assignment, len(clusters), centers)
    table = pd.DataFrame(columns, index=pd.Index(clusters, name="cluster"))
    attrs = distances_of_all(table)
    if overall:
        row = pd.DataFrame([{"size": table["size"].sum(), **attrs}], index=pd.Index(["overall"], name="cluster"))
        table = pd.concat([table, row])
    table.attrs.update(attrs)
    return table


def distance_columns(X, assignment, n_clusters, centers=None) -> dict[str, np.ndarray]:
    """The columns of `distance_report`; `assignment`: codes of the clusters (N,), or soft ones (N, K)."""
    soft = assignment.ndim == 2
    of_clusters = [
        _distances(X, assignment[:, k] if soft else assignment == k, None if centers is None else centers[k])
        for k in range(n_clusters)
    ]
    size, *rest = np.array(of_clusters).T
    return {"size": size if soft else size.astype(np.int64), **dict(zip(OF_ALL, rest))}


def distances_of_all(table) -> dict[str, float]:
    """The same columns for the whole clustering."""
    size, within = table["size"], table["within_ss"].sum()
    variance = (size * table["distance_variance"].fillna(0)).sum() / size.sum()
    return dict(zip(OF_ALL, map(float, (within, np.sqrt(within / size.sum()), table["max_distance"].max(), variance))))


def _distances(X, weight, center):
    """(size, sum of squares, root of their mean, largest distance, variance of squares) of the rows with positive weight."""
    member = weight > 0
    if not member.any():
        return 0.0, 0.0, np.nan, np.nan, np.nan
    members, weight = X[member], weight[member].astype(np.float64)
    center = np.average(members, axis=0, weights=weight) if center is None else center
    squared, size = np.square(members - center).sum(axis=1), weight.sum()
    within = weight @ squared
    variance = weight @ np.square(squared - within / size) / size
    return size, within, np.sqrt(within / size), np.sqrt(squared.max()), variance
