"""Any draws of labels as a tree that every summary, picture and report reads."""

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_in_memory, check_same_rows, column_names, message, storable_index
from bayesfair._draws import Draws, Statistic
from bayesfair._names import DataTree
from bayesfair.fairness.groups import Groups
from bayesfair.posterior.schema import Column
from bayesfair.posterior.tree import build_tree


def tree_from_labels(
    labels: ArrayLike, X: ArrayLike, groups: ArrayLike | Groups | None = None, lp: ArrayLike | None = None
) -> "DataTree":
    """The posterior of anybody's sampler as a tree, for every summary, picture and report of this package.

    Clusters are numbered alike in all draws here: labels may switch from draw to draw. Nothing is guaranteed of these draws.
    The point estimate is as balanced as the least balanced of them, and report and summary say so.

    Parameters
    ----------
    labels : array-like of int of shape (n_chains, n_draws, n_obs) or (n_draws, n_obs)
        The cluster of every row in every draw.
    X : array-like of shape (n_obs, n_features)
        Features. The column names and the index of a data frame are kept.
    groups : array-like of shape (n_obs,) or (n_obs, n_attributes), or Groups, optional
        The groups of the rows. Several columns are crossed.
    lp : array-like of shape (n_chains, n_draws) or (n_draws,), optional
        Log density of the draws, up to a constant.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    TypeError
        If features are not numbers.
    ValueError
        If labels are not whole numbers, shapes or indexes do not match, or numbers are not finite.

    Examples
    --------
    >>> import numpy as np, bayesfair as bf
    >>> draws = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])  # of four rows
    >>> tree = bf.posterior.tree_from_labels(draws, [[0.0], [0.1], [1.0], [1.1]], ["f", "m", "f", "m"])
    >>> bf.posterior.reference_partition(tree).tolist()
    [0, 0, 1, 1]
    """
    check_same_rows(X=X, groups=groups)
    code, n_clusters = _numbered(labels)
    scalars = {} if lp is None else {"lp": _as_chains(lp, code.shape[:2])}
    draws = Draws(code, scalars, {name: Statistic("quantity") for name in scalars})
    names = column_names(X)
    columns = None if names is None else [Column(str(name)) for name in names]
    return build_tree(draws, X, groups, columns=columns, obs_names=storable_index(X), n_clusters=n_clusters)


def _numbered(labels):
    """(labels (chain, draw, obs) from 0 on in the smallest type, the number of clusters)."""
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
