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
        If the metric is unknown.

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
    if metric not in ("vi", "binder"):
        raise ValueError(message("metric", "be 'vi' or 'binder'", repr(metric), "Use 'vi' if in doubt."))
    partition = np.asarray(partition)
    labels = labels if hasattr(labels, "blocks") else np.asarray(labels)  # draws on disk stay there
    tables = tables_with(labels, partition, int(partition.max()) + 1, int(labels.max()) + 1) / len(partition)
    joint, ours, theirs = tables.reshape(len(labels), -1), tables.sum(axis=1), tables.sum(axis=2)
    if metric == "binder":
        return _square(ours) + _square(theirs) - 2 * _square(joint)
    return np.maximum(2 * _entropy(joint) - _entropy(ours) - _entropy(theirs), 0.0)


def tables_with(labels, reference, n_rows, n_clusters):
    """Contingency tables (draws, n_rows, n_clusters): [t, k, l] counts class k of `reference` (obs,) in cluster l of draw t."""
    offset = reference.astype(np.intp) * n_clusters
    counts = [np.bincount(offset + draw, minlength=n_rows * n_clusters) for draw in labels]
    return np.stack(counts).reshape(len(labels), n_rows, n_clusters)


def parts_of(members, n_obs):
    """The part of each row (obs,): its row in a table `members` (parts, slots), in which `n_obs` marks an empty slot."""
    part = np.empty(n_obs + 1, np.int32)
    part[members] = np.arange(len(members), dtype=np.int32)[:, None]
    return part[:-1]


def _square(share):
    return (share**2).sum(axis=1)


def _entropy(share):
    return -(share * np.log2(share, where=share > 0, out=np.zeros_like(share))).sum(axis=1)
