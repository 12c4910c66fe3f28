"""Who is matched with whom: rows as points, pairs as lines whose strength is their probability."""

from typing import NamedTuple

import numpy as np

from bayesfair._check import check_number, column_names, message
from bayesfair._names import Axes, DataTree
from bayesfair._percent import percent
from bayesfair.fairlets.decomposition import Decomposition, features_of
from bayesfair.fairlets.members import fairlet_centers
from bayesfair.plots.style import BESIDE, MARKERS, as_written, axes_or_new, cluster_colors
from bayesfair.plots.uncertainty_plot import MANY, in_two_dimensions, project
from bayesfair.posterior.guarantees import everyone
from bayesfair.posterior.pairs import anchor_rows, fairlet_probability, pairs_of
from bayesfair.posterior.schema import groups_of
from bayesfair.posterior.view import View

LEVELS = 0.25, 0.5, 1.0  # levels in the legend
LINE = "0.2"


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
    threshold = check_number("threshold", threshold)
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
        labels += [f"together in {level:.0%} of draws" for level in LEVELS]
    if len(points.ends) == 0:
        handles.append(Line2D([], [], linestyle="none"))
        labels.append(f"no pair is together\nin {percent(threshold)} of draws")
    as_written(*ax.legend(handles, labels, **BESIDE).get_texts())
