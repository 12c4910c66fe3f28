"""The co-clustering matrix as an ordered heat map."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_integer, generator_of, message
from bayesfair._names import Axes, DataTree
from bayesfair.plots.style import axes_or_new
from bayesfair.posterior.membership import misclassification_probability
from bayesfair.posterior.pairs import co_clustering as probabilities
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.view import View


class OrderedMatrix(NamedTuple):
    """`matrix` (n, n) of the rows `order` (n,); cluster k ends before position `ends[k]`."""

    matrix: np.ndarray
    order: np.ndarray
    ends: np.ndarray


def co_clustering(
    tree: "DataTree",
    *,
    reference: ArrayLike | None = None,
    sample: int | None = None,
    seed: int = 0,
    max_obs: int = 2_000,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the probability that two rows are in one cluster, as a heat map ordered by cluster.

    Within a cluster the surest rows come first. That a row is with itself is not shown: the diagonal has the mean of its
    neighbours.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    reference : array-like of int of shape (n_obs,), optional
        The clusters that order the rows. By default those of the point estimate.
    sample : int, optional
        Number of rows to draw at random. By default all.
    seed : int, default 0
        Seed of that draw.
    max_obs : int, default 2_000
        Most rows.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there are more than `max_obs` rows.

    Examples
    --------
    >>> import bayesfair as bf
    >>> ax = bf.plots.co_clustering(est.posterior_, sample=500)  # doctest: +SKIP
    """
    ordered = ordered_matrix(about(tree, reference), sample=sample, seed=seed, max_obs=max_obs)
    ax = axes_or_new(ax, 0.85)
    image = ax.imshow(_without_diagonal(ordered.matrix), cmap="Blues", vmin=0, vmax=1)
    for end in ordered.ends[:-1]:
        ax.axhline(end - 0.5, color="#CC6677", linewidth=0.8)
        ax.axvline(end - 0.5, color="#CC6677", linewidth=0.8)
    middle = (np.concatenate([[0], ordered.ends[:-1]]) + ordered.ends - 1) / 2
    shown = np.diff(ordered.ends, prepend=0) > 0
    ax.set_xticks(middle[shown], np.flatnonzero(shown))
    ax.set_yticks(middle[shown], np.flatnonzero(shown))
    ax.tick_params(length=0)
    ax.set(xlabel="rows by cluster", ylabel="rows by cluster", title="Co-clustering probability")
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="P(in the same cluster)")
    return ax


def _without_diagonal(matrix):
    """`matrix` (n, n), with the mean of the entries beside it in every place of the diagonal."""
    beside = np.diag(matrix, 1)
    if len(beside) == 0:
        return matrix
    shown = matrix.copy()
    np.fill_diagonal(shown, (np.r_[beside[:1], beside] + np.r_[beside, beside[-1:]]) / 2)
    return shown


def ordered_matrix(tree, *, sample=None, seed=0, max_obs=2_000) -> OrderedMatrix:
    """The arrays behind `co_clustering`."""
    view = View.of(tree)
    cluster = reference_partition(view)
    rows = np.arange(len(cluster))
    if sample is not None:
        sample = check_integer("sample", sample, maximum=len(cluster), remedy="Sample at most all rows.")
        rows = np.sort(generator_of(seed, "seed").choice(len(cluster), sample, replace=False))
    if len(rows) > max_obs:
        remedy = f"Pass sample={max_obs} to draw that many at random, or raise max_obs."
        raise ValueError(message("tree", f"hold at most {max_obs} rows for a heat map", len(rows), remedy))
    doubt = misclassification_probability(view)
    order = rows[np.lexsort((doubt[rows], cluster[rows]))]
    ends = np.cumsum(np.bincount(cluster[order], minlength=int(cluster.max()) + 1))
    return OrderedMatrix(probabilities(view, indices=order, max_obs=max_obs), order, ends)
