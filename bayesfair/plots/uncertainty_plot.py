"""Who is where, and how sure: points coloured by cluster, sized by misclassification probability, shaped by group."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._arrays import row_blocks
from bayesfair._check import check_features, check_same_length, message
from bayesfair._names import Axes, DataTree
from bayesfair.plots.style import MARKERS, as_written, axes_or_new, cluster_colors
from bayesfair.posterior.co_clustering_probability import misclassification_probability
from bayesfair.posterior.partitions import reference_partition
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.schema import group_names, observed_features, variable
from bayesfair.posterior.view import View, once

MANY = 20_000  # points: beyond, they are drawn as pixels so that files stay small

LAYERS = 8


class Points(NamedTuple):
    """What `uncertainty` draws. `axes`: names of the two axes; `position` (N, 2); `group` (N,) of `groups`."""

    position: np.ndarray
    axes: tuple[str, str]
    cluster: np.ndarray
    probability: np.ndarray
    group: np.ndarray
    groups: tuple[str, ...]


def uncertainty(
    tree: "DataTree",
    X: ArrayLike | None = None,
    *,
    columns: tuple[int | str, int | str] | None = None,
    reference: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the rows in two dimensions: colour is the cluster, marker the group, size the uncertainty.

    Size grows with the misclassification probability. More groups than there are markers are not told apart.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.
    X : array-like of shape (n_obs, n_features), optional
        Features. By default those in the tree.
    columns : pair of int or str, optional
        Two features by name or position. By default the first two principal components, or the feature itself if there is
        one.
    reference : array-like of int of shape (n_obs,), optional
        Clusters of your own. By default the point estimate.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `columns` does not name two features.

    References
    ----------
    The Gibbs paper, section 3.2, for the misclassification probability.

    Examples
    --------
    >>> import bayesfair as bf
    >>> ax = bf.plots.uncertainty(est.posterior_)  # doctest: +SKIP
    """
    points = uncertainty_points(about(tree, reference), X, columns=columns)
    ax = axes_or_new(ax)
    colors = cluster_colors(int(points.cluster.max()) + 1)
    crowd, told = _crowd(points), _told_apart(points)
    for rows in _layers(points):
        ax.scatter(
            *points.position[rows].T,
            s=_area(points.probability[rows], crowd),
            c=colors[points.cluster[rows]],
            marker=MARKERS[points.group[rows[0]] if told else 0],
            alpha=0.75,
            linewidths=0.4 * crowd,
            edgecolors="white",
            rasterized=len(points.cluster) > MANY,
        )
    ax.set(xlabel=points.axes[0], ylabel=points.axes[1], title="Clusters and misclassification probability")
    as_written(ax.xaxis.label, ax.yaxis.label)
    _legends(ax, points, colors)
    return ax


def _layers(points):
    """Rows of one group each, the uncertain ones last and on top, groups in turn so that none covers the others."""
    groups = points.group if _told_apart(points) else np.zeros_like(points.group)
    for layer in np.array_split(np.argsort(points.probability, kind="stable"), LAYERS):
        for group in np.unique(groups[layer]):
            yield layer[groups[layer] == group]


def _told_apart(points):
    """Whether every group has a marker of its own."""
    return len(points.groups) <= len(MARKERS)


def uncertainty_points(tree, X=None, *, columns=None) -> Points:
    """The arrays behind `uncertainty`."""
    tree = View.of(tree)
    position, axes = project(tree, X, columns=columns)
    group = variable(tree, "constant_data", "group")
    groups = ("everyone",) if group is None else tuple(group_names(tree))
    group = np.zeros(len(position), int) if group is None else group.values
    return Points(position, axes, reference_partition(tree), misclassification_probability(tree), group, groups)


def project(tree, X=None, *, columns=None):
    """Observations in two dimensions as in `uncertainty`: positions (N, 2) and the names of the two axes."""
    if X is None and columns is None:
        return _usual_position(tree)
    known = observed_features(tree)
    names = _feature_names(tree)
    if X is not None:
        names = [str(name) for name in getattr(X, "columns", names)]
        X = check_features(X)
        check_same_length("X", len(X), "tree", len(known))
    return in_two_dimensions(known if X is None else X, names, columns)


@once
def _usual_position(tree):
    return in_two_dimensions(observed_features(tree), _feature_names(tree))


def _feature_names(tree):
    return [str(name) for name in tree["observed_data"]["feature"].values]


def in_two_dimensions(X, names, columns=None):
    """Rows of X (N, d), whose columns have these names, in two dimensions: positions (N, 2) and the names of the two axes."""
    if columns is not None:
        chosen = [_column(names, column) for column in columns]
        if len(chosen) != 2:
            raise ValueError(message("columns", "name two features", f"{len(chosen)}", "Pass two names or positions."))
        return X[:, chosen], (names[chosen[0]], names[chosen[1]])
    if X.shape[1] == 1:
        return np.column_stack([X[:, 0], np.arange(len(X))]), (names[0], "row")
    if X.shape[1] == 2:
        return X, (names[0], names[1])
    position, share = principal_components(X)
    return position, tuple(f"principal component {k + 1} ({share[k]:.0%} of variance)" for k in (0, 1))


def principal_components(X):
    """Rows in the first two principal components (N, 2), and every component's share of the variance.

    From the matrix of sums of products, a block of rows at a time.
    """
    mean, blocks = X.mean(0, dtype=np.float64), row_blocks(len(X))
    products = sum((X[rows] - mean).T @ (X[rows] - mean) for rows in blocks)
    variance, directions = np.linalg.eigh(products)
    variance = np.maximum(variance[::-1], 0)
    position = np.concatenate([(X[rows] - mean) @ directions[:, :-3:-1] for rows in blocks])
    return position, variance / max(variance.sum(), np.finfo(float).tiny)


def _column(names, column):
    if isinstance(column, str):
        if column not in names:
            raise ValueError(message("columns", f"be among {', '.join(names)}", repr(column), "Check the spelling."))
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise ValueError(message("columns", f"be positions below {len(names)}", column, "Check the position."))
    return int(column)


def _legends(ax, points, colors):
    """Clusters, groups and sizes in one legend to the right, a heading over each part."""
    levels = (0.0, 0.25, 0.5, 0.75)
    parts = (
        ("cluster", [_handle("o", color, 7) for color in colors], range(len(colors))),
        _part_of_groups(points),
        ("P(misclassified)", [_handle("o", "0.35", np.sqrt(_area(level, _crowd(points)))) for level in levels], levels),
    )
    handles, labels = [], []
    for title, marks, names in parts:
        handles += [_handle("", "none", 0), *marks]
        labels += [title, *map(str, names)]
    legend = ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), **_PLAIN)
    as_written(*legend.get_texts())
    for text in legend.get_texts():
        if text.get_text() in {title for title, _, _ in parts}:
            text.set_fontweight("bold")
            text.set_x(-22)


def _part_of_groups(points):
    """Heading, marks and names of the groups in the legend; the heading alone where they are not told apart."""
    if not _told_apart(points):
        return f"{len(points.groups):,} groups: not told apart", (), ()
    return "group", [_handle(marker, "0.35", 7) for marker, _ in zip(MARKERS, points.groups)], points.groups


_PLAIN = {"frameon": False, "fontsize": 8, "borderaxespad": 0.2, "labelspacing": 0.35}


def _crowd(points):
    """Factor by which marks shrink where there are many."""
    return np.clip(2_000 / len(points.cluster), 0.1, 1.0)


def _area(probability, crowd):
    """Area of a mark in square points, the same for points and for their legend."""
    return crowd * (12 + 130 * probability)


def _handle(marker, color, size):
    from matplotlib.lines import Line2D

    return Line2D([], [], marker=marker, color=color, markersize=size, linestyle="none", markeredgecolor="none")


def uncertainty_profile(tree: "DataTree", ax: "Axes | None" = None, *, reference: ArrayLike | None = None) -> "Axes":
    """Draw the misclassification probabilities in descending order, coloured by cluster.

    The picture shows how many rows are uncertain. More than 20,000 rows are thinned evenly in that order.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs), or a `View` of one.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.
    reference : array-like of int of shape (n_obs,), optional
        Clusters of your own. By default the point estimate.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import bayesfair as bf
    >>> ax = bf.plots.uncertainty_profile(est.posterior_)  # doctest: +SKIP
    """
    tree = View.of(about(tree, reference))
    cluster, probability = reference_partition(tree), misclassification_probability(tree)
    order = np.argsort(-probability, kind="stable")
    ax = axes_or_new(ax, 0.45)
    shown = np.unique(np.linspace(0, len(order) - 1, min(len(order), MANY)).astype(int))
    share, order = (shown + 1) / len(order), order[shown]
    colors = cluster_colors(int(cluster.max()) + 1)
    ax.fill_between(share, probability[order], step="pre", color="0.9")
    ax.scatter(share, probability[order], s=6, c=colors[cluster[order]], rasterized=len(order) >= MANY)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="share of observations, most uncertain first")
    ax.set(ylabel="P(misclassified)", title="Profile of uncertainty")
    handles = [_handle("o", color, 6) for color in colors]
    columns = 1 + len(colors) // 6
    ax.legend(handles, range(len(colors)), title="cluster", ncols=columns, frameon=False, fontsize=8, title_fontsize=8)
    return ax
