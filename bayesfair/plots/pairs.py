"""Who is with whom: pairs of rows that share a cluster, as a heat map, or a fairlet, as lines."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_integer, check_number, column_names, generator_of, message
from bayesfair._names import Axes, DataTree
from bayesfair._numbers import percent
from bayesfair.fairlets.decomposition import Decomposition, features_of
from bayesfair.fairlets.members import fairlet_centers
from bayesfair.plots.scatter import MANY, in_two_dimensions, project
from bayesfair.plots.style import BESIDE, MARKERS, as_written, axes_or_new, cluster_colors
from bayesfair.posterior.guarantees import everyone
from bayesfair.posterior.membership import misclassification_probability
from bayesfair.posterior.pairs import anchor_rows, fairlet_probability, pairs_of
from bayesfair.posterior.pairs import co_clustering as probabilities
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.schema import groups_of
from bayesfair.posterior.view import View

LEVELS = 0.25, 0.5, 1.0  # levels in the legend
LINE = "0.2"


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


class MatchedPoints(NamedTuple):
    """`position` (N, 2) on two `axes`; `group` (N,) of `groups`; `ends` (lines, 2, 2) and `probability` (lines,) of lines."""

    position: np.ndarray
    axes: tuple[str, str]
    group: np.ndarray
    groups: tuple[str, ...]
    ends: np.ndarray
    probability: np.ndarray


def fairlets(source: "DataTree | Decomposition", *, threshold: float = 0.1, ax: "Axes | None" = None) -> "Axes":
    """Draw who is matched with whom, in two dimensions.

    Rows are points in the first two principal components, with a colour and a marker for each group. In the anchored form
    lines go from anchors to the members of their fairlets. Without anchors they join the members of a fairlet, or go to the
    centre of the fairlet if there is one decomposition only.

    Parameters
    ----------
    source : xarray.DataTree or Decomposition
        A posterior that keeps its fairlets, `target=bf.gibbs.Joint(keep_fairlets=True)`: a line is as strong as the share of
        draws in which its ends share a fairlet. Or what `bayesfair.fairlets.decompose` returns.
    threshold : float, default 0.1
        Pairs that share a fairlet in a smaller share of the draws have no line.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the tree has no fairlets, or the decomposition no features.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> ax = bf.plots.fairlets(bf.fairlets.decompose(data.features, data.sensitive))  # doctest: +SKIP
    """
    from matplotlib.collections import LineCollection

    threshold = check_number("threshold", threshold)
    points = matched_points(source, threshold)
    ax, order = axes_or_new(ax), np.argsort(points.probability, kind="stable")  # the surest on top
    many, mark = len(points.position) > MANY, np.clip(2_000 / len(points.position), 0.1, 1.0)
    strength = points.probability[order]
    lines = {"linewidths": mark * _width(strength), "colors": [(LINE, level) for level in strength]}
    ax.add_collection(LineCollection(points.ends[order], zorder=1, rasterized=many, **lines))
    colors = cluster_colors(len(points.groups))
    for group in range(len(points.groups)):
        style = {"color": colors[group], "marker": MARKERS[group % len(MARKERS)], "linewidths": 0, "rasterized": many}
        ax.scatter(
            *points.position[points.group == group].T, s=22 * mark, zorder=2, label=points.groups[group], **style
        )
    ax.set(xlabel=points.axes[0], ylabel=points.axes[1], title="Who is matched with whom")
    as_written(ax.xaxis.label, ax.yaxis.label)
    _legend(ax, points, threshold)
    return ax


def matched_points(source, threshold=0.1) -> MatchedPoints:
    """The arrays behind `fairlets`."""
    return _of_decomposition(source) if isinstance(source, Decomposition) else _of_posterior(View.of(source), threshold)


def _of_posterior(tree, threshold):
    row, other, probability = pairs_of(fairlet_probability(tree), threshold)
    anchors, groups = anchor_rows(tree), groups_of(tree) or everyone(tree)
    if anchors is not None:  # members of one fairlet are joined through their anchor
        kept = anchors[row] | anchors[other]
        row, other, probability = row[kept], other[kept], probability[kept]
    position, axes = project(tree)
    ends = np.stack([position[row], position[other]], axis=1)
    return MatchedPoints(position, axes, groups.code, groups.names, ends, probability)


def _of_decomposition(found):
    if found.rows is None or found.rows.X is None:
        rule, remedy = "have features, and fairlets of several rows", "Pass what decompose(X, ...) returns."
        raise ValueError(message("source", rule, found, remedy))
    names, X = column_names(found.rows.X), features_of(found.rows.X)
    names = [f"x{k + 1}" for k in range(X.shape[1])] if names is None else [str(name) for name in names]
    position, axes = in_two_dimensions(X, names)
    center = position[found.anchors] if found.anchored else fairlet_centers(position, found.fairlet)
    ends = np.stack([center[found.fairlet], position], axis=1)
    ends = ends[(ends[:, 0] != ends[:, 1]).any(1)]
    groups = found.rows.groups
    return MatchedPoints(position, axes, groups.code, groups.names, ends, np.ones(len(ends)))


def _width(probability):
    return 0.3 + 0.9 * probability


def _legend(ax, points, threshold):
    """Legend of groups, and of strengths of lines if they differ."""
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    if len(np.unique(points.probability)) > 1:
        handles += [Line2D([], [], color=LINE, linewidth=_width(level), alpha=level) for level in LEVELS]
        labels += [f"together in {percent(level)} of draws" for level in LEVELS]
    if len(points.ends) == 0:
        handles.append(Line2D([], [], linestyle="none"))
        labels.append(f"no pair is together\nin {percent(threshold)} of draws")
    as_written(*ax.legend(handles, labels, **BESIDE).get_texts())
