"""Anybody's draws of labels as a tree that every summary, picture and report reads."""

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import (
    check_features,
    check_in_memory,
    check_same_index,
    check_same_length,
    column_names,
    message,
    row_names,
)
from bayesfair._draws import Draws, Statistic
from bayesfair._names import DataTree
from bayesfair.fairness.groups import Groups, encode_groups
from bayesfair.posterior.tree import build_tree


def tree_from_labels(
    labels: ArrayLike, X: ArrayLike, groups: ArrayLike | Groups | None = None, lp: ArrayLike | None = None
) -> "DataTree":
    """The posterior of anybody's sampler, as an xarray.DataTree: for every summary, picture and report of this package.

    Clusters are numbered alike in all draws here; labels may switch from draw to draw. Nothing is guaranteed of the draws:
    the point estimate is as balanced as the least balanced of them, and report and summary say that this is what they had.

    Parameters
    ----------
    labels: (chain, draw, obs), or (draw, obs) of one chain: the cluster of every row in every draw, whole numbers.
    X: (obs, feature) numbers; a data frame's column names and index are kept. groups: (obs,) protected groups, or columns of
        several attributes, which are crossed; None where there are none.
    lp: (chain, draw) or (draw,), log density of the draws but for a constant; None where it is not known.

    Raises
    ------
    TypeError, ValueError: labels that are no whole numbers, shapes or indexes that do not match, numbers that are not finite.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> draws = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])  # of four rows
    >>> tree = bf.posterior.tree_from_labels(draws, [[0.0], [0.1], [1.0], [1.1]], ["f", "m", "f", "m"])
    >>> bf.posterior.reference_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    check_same_index("X", X, "groups", groups)
    code, n_clusters = _numbered(labels)
    features, names = check_features(X, dtypes=(np.float64, np.float32)), column_names(X)
    check_same_length("labels", code.shape[2], "X", len(features))
    scalars = {} if lp is None else {"lp": _as_chains(lp, code.shape[:2])}
    draws = Draws(code, scalars, {name: Statistic("quantity") for name in scalars})
    groups = None if groups is None else encode_groups(groups, argument="groups")
    about = {"settings": {}, "feature_names": names, "obs_names": row_names(X), "n_clusters": n_clusters}
    return build_tree(draws, features, groups, **about)


def _numbered(labels):
    """(labels (chain, draw, obs) from 0 on in the smallest type, how many there are)."""
    check_in_memory("labels", labels)
    labels = np.asarray(labels)
    rule, remedy = "be whole numbers (chain, draw, obs), or (draw, obs) of one chain", "Pass the draws of the labels."
    if labels.ndim == 2:
        labels = labels[None]
    if labels.ndim != 3 or 0 in labels.shape or labels.dtype.kind not in "iu":
        raise ValueError(message("labels", rule, f"{labels.dtype} of shape {labels.shape}", remedy))
    known, code = np.unique(labels, return_inverse=True)
    return code.reshape(labels.shape).astype(np.min_scalar_type(-len(known))), len(known)


def _as_chains(lp, shape):
    """`lp` as (chain, draw)."""
    values = np.asarray(lp, np.float64)
    values = values[None] if values.ndim == 1 else values
    if values.shape != shape or not np.isfinite(values).all():
        what = f"shape {np.shape(lp)}" if values.shape != shape else "numbers that are not finite"
        raise ValueError(message("lp", f"be finite, {shape}, one for each draw", what, "Leave it out if unknown."))
    return values
