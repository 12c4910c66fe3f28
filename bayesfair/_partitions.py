"""Partitions as labels: contingency tables, distances, and partitions given as tables of members."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import message


def partition_distance(
    labels: ArrayLike, partition: ArrayLike, *, metric: Literal["vi", "binder"] = "vi"
) -> np.ndarray:
    """The distance of each draw to a partition.

    Parameters
    ----------
    labels : array-like of int of shape (n_draws, n_obs)
        The cluster of every row in every draw.
    partition : array-like of int of shape (n_obs,)
        A partition of the same rows.
    metric : {"vi", "binder"}, default "vi"
        "vi" is the variation of information in bits. "binder" is the number of pairs on which the two disagree, times
        2 / n_obs^2.

    Returns
    -------
    numpy.ndarray of shape (n_draws,)

    Raises
    ------
    ValueError
        If the metric is unknown, or labels are not integers from 0 on of these shapes.

    References
    ----------
    Meila (2007). Wade and Ghahramani (2018), section 2, for the scale that does not depend on the number of rows.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> draws = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    >>> bf.posterior.partition_distance(draws, np.array([1, 1, 0, 0])).tolist()
    [0.0, 2.0]
    """
    check_metric(metric)
    labels = labels if hasattr(labels, "blocks") else check_labels(labels)  # draws on disk stay there
    partition = check_partition("partition", partition, labels.shape[1])
    tables = tables_with(labels, partition, int(partition.max()) + 1, int(labels.max()) + 1) / len(partition)
    joint, ours, theirs = tables.reshape(len(labels), -1), tables.sum(axis=1), tables.sum(axis=2)
    if metric == "binder":
        return _square(ours) + _square(theirs) - 2 * _square(joint)
    return np.maximum(2 * _entropy(joint) - _entropy(ours) - _entropy(theirs), 0.0)


def check_metric(metric):
    """Raise a ValueError unless a distance between partitions is known by that name."""
    if metric not in ("vi", "binder"):
        raise ValueError(message("metric", "be 'vi' or 'binder'", repr(metric), "Use 'vi' if in doubt."))


def check_labels(labels):
    """`labels` as an array of integers (draws, obs), numbered from zero."""
    labels = np.asarray(labels)
    if labels.ndim != 2 or 0 in labels.shape or labels.dtype.kind not in "iu" or labels.min() < 0:
        rule, got = "be integers from 0 on, a row for each draw", f"{labels.dtype} of shape {labels.shape}"
        remedy = (
            "Pass labels[None] of a single draw; np.unique(labels, return_inverse=True)[1] numbers clusters from 0 on."
        )
        raise ValueError(message("labels", rule, got, remedy))
    return labels


def check_partition(argument, partition, num_obs):
    """`partition` as integer labels (obs,), numbered from zero."""
    labels = np.asarray(partition)
    if labels.shape != (num_obs,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        rule = f"be {num_obs} integer labels from 0 on, one per row"
        remedy = "Take it from dahl_partition, map_partition, binder_partition or vi_partition."
        raise ValueError(message(argument, rule, f"{labels.dtype} of shape {labels.shape}", remedy))
    return labels


def tables_with(labels, reference, n_rows, n_clusters):
    """Contingency tables (draws, n_rows, n_clusters): [t, k, l] counts class k of `reference` (obs,) in cluster l of draw t."""
    offset = reference.astype(np.intp) * n_clusters
    counts = [np.bincount(offset + draw, minlength=n_rows * n_clusters) for draw in labels]
    return np.stack(counts).reshape(len(labels), n_rows, n_clusters)


def _square(share):
    return (share**2).sum(axis=1)


def _entropy(share):
    return -(share * np.log2(share, where=share > 0, out=np.zeros_like(share))).sum(axis=1)
