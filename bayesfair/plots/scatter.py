"""Rows in two dimensions, coloured by cluster: their uncertainty, its profile, and the modes of the posterior."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._check import check_features, check_same_length, message
from bayesfair._names import Axes, DataFrame, DataTree
from bayesfair._numbers import fine_percent, percent
from bayesfair.plots.style import BESIDE, FIGURE_WIDTH, MARKERS, as_written, axes_or_new, cluster_colors, panels
from bayesfair.posterior.found_modes import modes_of
from bayesfair.posterior.guarantees import everyone
from bayesfair.posterior.membership import misclassification_probability
from bayesfair.posterior.point_estimates import reference_partition
from bayesfair.posterior.relabelling import about
from bayesfair.posterior.schema import check_rows_of, count_clusters, groups_of, observed_features
from bayesfair.posterior.tables import evenly_spaced
from bayesfair.posterior.view import View, once

MANY = 20_000  # points above which they are drawn as pixels, to keep files small
SHOWN = 1_000  # rows shown: more would hide each other
TOLD = 3  # markers that readers can distinguish among many points
# Share of the rows left out at either end; distance of others from the rest, in its widths, up to which they are shown.
CENTRAL, REACH = 0.005, 0.4
LAYERS = 8
SHOWN_MODES, IN_ROW = 6, 3  # clusterings shown, and in one row
_EACH, _ALONE = 0.33, 0.5  # heights of a row of axes, and of a single one, for width 1
SAMPLE = 5_000  # rows of a mode above which a sample of them is drawn


class Points(NamedTuple):
    """The arrays that `uncertainty` draws. `axes`: names of the two axes; `position` (N, 2); `group` (N,) of `groups`."""

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
    sure_rows: "DataFrame | None" = None,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Draw the rows in two dimensions: colour is the cluster, marker the group, size the uncertainty.

    Size grows with the misclassification probability. The number of a cluster stands in the middle of its rows. Of more than
    three groups the two largest have a marker of their own. Of more than 1,000 rows as many are drawn, in every cluster and at
    every level of doubt alike. Rows far from all others are outside of the view; the title counts them.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    X : array-like of shape (n_obs, n_features), optional
        Features. By default those in the tree.
    columns : pair of int or str, optional
        Two features by name or position. By default the first two principal components, or the feature itself if there is
        one.
    reference : array-like of int of shape (n_obs,), optional
        Clusters of your own. By default the point estimate.
    sure_rows : pandas.DataFrame, optional
        The result of `bayesfair.posterior.sure_rows` for the tree. Its rows get a black rim.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.
    figsize : pair of float, optional
        Width and height of the new figure in inches.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `columns` does not name two features, or if both `ax` and `figsize` are given.

    References
    ----------
    The Gibbs paper, section 3.2. It draws 1 - etabar, which is `misclassification_probability(tree, method="medoid")`.

    Examples
    --------
    >>> import bayesfair as bf
    >>> ax = bf.plots.uncertainty(est.posterior_)  # doctest: +SKIP
    """
    points = uncertainty_points(about(tree, reference), X, columns=columns)
    rims, told = _rims(sure_rows, len(points.cluster))
    colors, (marker, names) = cluster_colors(int(points.cluster.max()) + 1), _markers(points)
    ax = axes_or_new(
        ax, height_of_uncertainty(len(colors) + 2 * (told is not None), len(names)) / FIGURE_WIDTH, figsize
    )
    order = np.lexsort((points.probability, points.cluster))
    shown = order[evenly_spaced(len(order), SHOWN)]
    for rows in _layers(points, shown, marker):
        ax.scatter(
            *points.position[rows].T,
            s=_area(points.probability[rows], len(shown)),
            c=colors[points.cluster[rows]],
            marker=MARKERS[marker[points.group[rows[0]]]],
            alpha=0.7,
            linewidths=np.where(rims[rows] == "white", 0.3, 0.7),
            edgecolors=rims[rows],
        )
    _number_centres(ax, points)
    ax.set(xlabel=points.axes[0], ylabel=points.axes[1])
    outside = _clip(ax, points.position)
    remarks = [f"{len(shown):,} of {len(order):,} rows are drawn"] * (len(shown) < len(order))
    remarks += [f"{outside:,} {'row is' if outside == 1 else 'rows are'} outside of the view"] * (outside > 0)
    ax.set_title(
        "\n".join(["Clusters and misclassification probability", *filter(None, ["; ".join(remarks)])]), fontsize=10
    )
    as_written(ax.xaxis.label, ax.yaxis.label)
    _legends(ax, points, colors, names, len(shown), told)
    return ax


def _rims(sure, n_obs):
    """(the colour of the rim of every row (obs,), what the legend says of the black ones)."""
    rims = np.full(n_obs, "white")
    if sure is None:
        return rims, None
    position = np.asarray(sure["position"])
    if not (position < n_obs).all():
        rule, remedy = f"name positions below {n_obs}", "Pass bayesfair.posterior.sure_rows(tree) of this tree."
        raise ValueError(message("sure_rows", rule, position.max(), remedy))
    rims[position] = "black"
    return rims, f"all at once in {fine_percent(sure.attrs['share'])}"


def height_of_uncertainty(n_clusters, n_groups):
    """The height in inches of the picture, whose legend has a line for every cluster and group."""
    return max(0.62 * FIGURE_WIDTH, 0.17 * (n_clusters + min(n_groups, TOLD) + 7))


def _clip(ax, position):
    """Limit the view as usual; return how many positions (N, 2) are outside."""
    low, high = usual_view(position)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return int(((position < low) | (position > high)).any(1).sum())


def usual_view(position):
    """The corners ((left, bottom), (right, top)) of the view of positions (N, 2), without a few far from all others."""
    low, high = np.quantile(position, [CENTRAL, 1 - CENTRAL], axis=0)
    reach = np.where(high > low, REACH * (high - low), np.inf)
    is_near = (position >= low - reach) & (position <= high + reach)
    low, high = position.min(0, where=is_near, initial=np.inf), position.max(0, where=is_near, initial=-np.inf)
    room = 0.05 * (high - low) + (high == low)
    return low - room, high + room


def _number_centres(ax, points):
    from matplotlib.patheffects import withStroke

    for cluster in np.unique(points.cluster):
        x, y = np.median(points.position[points.cluster == cluster], axis=0)
        style = {"fontsize": 12, "fontweight": "bold", "ha": "center", "va": "center", "clip_on": True}
        ax.text(x, y, str(cluster), path_effects=[withStroke(linewidth=3, foreground="white")], **style)


def _layers(points, shown, marker):
    """Rows of one marker each, the uncertain ones last and on top, markers in turn so that none covers the others."""
    marker = marker[points.group]
    for layer in np.array_split(shown[np.argsort(points.probability[shown], kind="stable")], LAYERS):
        for one in np.unique(marker[layer]):
            yield layer[marker[layer] == one]


def _markers(points):
    """(the marker of every group, the names of the markers): the largest groups have one each; all others share the last."""
    if len(points.groups) <= TOLD:
        return np.arange(len(points.groups)), points.groups
    largest = np.argsort(-np.bincount(points.group, minlength=len(points.groups)), kind="stable")[: TOLD - 1]
    marker = np.full(len(points.groups), TOLD - 1)
    marker[largest] = np.arange(TOLD - 1)
    return marker, (*(points.groups[group] for group in largest), f"{len(points.groups) - TOLD + 1:,} other groups")


def uncertainty_points(tree, X=None, *, columns=None) -> Points:
    """The arrays behind `uncertainty`."""
    tree = View.of(tree)
    position, axes = project(tree, X, columns=columns)
    groups, doubt = groups_of(tree) or everyone(tree), misclassification_probability(tree)
    return Points(position, axes, reference_partition(tree), doubt, groups.code, groups.names)


def project(tree, X=None, *, columns=None):
    """Rows in two dimensions as in `uncertainty`: positions (N, 2) and the names of the two axes."""
    if X is None and columns is None:
        return _usual_position(tree)
    known = observed_features(tree)
    names = _feature_names(tree)
    if X is not None:
        check_rows_of(tree, X=X)
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
    """Rows of X (N, d), with these column names, in two dimensions: positions (N, 2) and the names of the two axes."""
    if columns is not None:
        chosen = [_column(names, column) for column in columns]
        if len(chosen) != 2:
            raise ValueError(message("columns", "name two features", f"{len(chosen)}", "Pass two names or positions."))
        return X[:, chosen], (names[chosen[0]], names[chosen[1]])
    if X.shape[1] == 1:
        return np.column_stack([X[:, 0], np.arange(len(X))]), (names[0], "row")
    if X.shape[1] == 2:
        return X, (names[0], names[1])
    from sklearn.decomposition import PCA

    X = X - X.mean(0, dtype=np.float64)  # products of columns with a large mean would cancel
    with np.errstate(invalid="ignore"):  # equal rows have no variance to share
        found = PCA(2, svd_solver="covariance_eigh").fit(X)
    shares = map(percent, np.nan_to_num(found.explained_variance_ratio_))
    return found.transform(X), tuple(
        f"principal component {k} ({share} of variance)" for k, share in enumerate(shares, 1)
    )


def _column(names, column):
    if isinstance(column, str):
        if column not in names:
            raise ValueError(message("columns", f"be among {', '.join(names)}", repr(column), "Check the spelling."))
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise ValueError(message("columns", f"be positions below {len(names)}", column, "Check the position."))
    return int(column)


def _legends(ax, points, colors, names, n_shown, told):
    """Clusters, groups and sizes in one legend to the right, and what is `told` of black rims, a heading over each part."""
    levels = (0.0, 0.25, 0.5, 0.75)
    parts = (
        ("cluster", [_handle("o", color, 7) for color in colors], range(len(colors))),
        ("group", [_handle(marker, "0.35", 7) for marker, _ in zip(MARKERS, names)], names),
        ("P(misclassified)", [_handle("o", "0.35", np.sqrt(_area(level, n_shown))) for level in levels], levels),
    )
    parts += (("sure rows", [_handle("o", "0.75", 7, rim="black")], [told]),) * (told is not None)
    handles, labels = [], []
    for title, marks, texts in parts:
        handles += [_handle("", "none", 0), *marks]
        labels += [title, *map(str, texts)]
    legend = ax.legend(handles, labels, **BESIDE, borderaxespad=0.2, labelspacing=0.35)
    as_written(*legend.get_texts())
    for text in legend.get_texts():
        if text.get_text() in {title for title, _, _ in parts}:
            text.set_fontweight("bold")
            text.set_x(-22)


def _area(probability, n_shown):
    """Area of a mark in square points, the same for points and for their legend; smaller if there are many."""
    return np.clip(500 / n_shown, 0.65, 1.0) * (12 + 90 * probability)


def _handle(marker, color, size, rim="none"):
    from matplotlib.lines import Line2D

    return Line2D([], [], marker=marker, color=color, markersize=size, linestyle="none", markeredgecolor=rim)


def uncertainty_profile(tree: "DataTree", ax: "Axes | None" = None, *, reference: ArrayLike | None = None) -> "Axes":
    """Draw the misclassification probabilities in descending order, of all rows and of each cluster.

    The picture shows how many rows are uncertain.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
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
    ax = axes_or_new(ax, 0.45)
    colors, style = cluster_colors(int(cluster.max()) + 1), {"drawstyle": "steps-pre"}
    ax.plot(*_descending(probability), color="black", linewidth=2, label="all rows", **style)
    for one in np.unique(cluster):
        ax.plot(
            *_descending(probability[cluster == one]), color=colors[one], linewidth=1.2, label=f"cluster {one}", **style
        )
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="share of the rows (of a cluster: of its own), most uncertain first")
    ax.set(ylabel="P(misclassified)", title="Profile of uncertainty")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(**BESIDE, ncols=1 + len(colors) // 12)
    return ax


def _descending(probability):
    """Shares of rows with the probabilities that they exceed, at most `MANY` points."""
    values = np.sort(probability)[::-1]
    shown = evenly_spaced(len(values), MANY)
    return np.r_[0.0, (shown + 1) / len(values)], np.r_[values[0], values[shown]]


class Clusterings(NamedTuple):
    """`position` (obs, 2) on two `axes`; `labels` (modes, obs); `moved` from the best mode (modes, obs); `share` moved."""

    position: np.ndarray
    axes: tuple[str, str]
    labels: np.ndarray
    moved: np.ndarray
    share: np.ndarray


def mode_clusterings(tree, X=None, *, columns=None, sample=SAMPLE, seed=0) -> Clusterings:
    """The arrays behind the picture of `modes`, for at most `sample` rows drawn at random (`seed`)."""
    labels = modes_of(tree)["labels"].values.astype(int)
    position, axes = project(tree, X, columns=columns)
    moved = labels != labels[0]
    rows = np.arange(len(position))
    if len(rows) > sample:
        rows = np.sort(np.random.default_rng(seed).choice(len(rows), sample, replace=False))
    return Clusterings(position[rows], axes, labels[:, rows], moved[:, rows], moved.mean(axis=1))


def modes(
    tree: "DataTree", X: ArrayLike | None = None, *, columns: tuple[int | str, int | str] | None = None, figure=None
) -> np.ndarray:
    """Draw the clusterings of up to six modes.

    Clusters have the same colours in all modes, and rows that are elsewhere than in the best mode are drawn large.
    `bayesfair.posterior.modes` has the masses.

    Parameters
    ----------
    tree : xarray.DataTree
        A posterior with `labels` of shape (chain, draw, obs).
    X : array-like of shape (n_obs, n_features), optional
        Features. By default those in the tree.
    columns : pair of int or str, optional
        Two features by name or position. By default the first two principal components.
    figure : matplotlib figure or subfigure, optional
        By default a new one.

    Returns
    -------
    numpy.ndarray
        The matplotlib axes, one for each mode. More than 5,000 rows are sampled.

    Raises
    ------
    ValueError
        If `columns` does not name two features.

    Examples
    --------
    >>> import bayesfair as bf
    >>> axes = bf.plots.modes(est.posterior_)  # doctest: +SKIP
    """
    view = View.of(tree)
    clusterings, colors = mode_clusterings(view, X, columns=columns), cluster_colors(count_clusters(view))
    shown = min(SHOWN_MODES, len(clusterings.labels))
    axes = panels(shown, min(shown, IN_ROW), FIGURE_WIDTH * (_ALONE if shown == 1 else _EACH), figure=figure)
    for mode, ax in enumerate(axes):
        _draw_clustering(ax, clusterings, mode, colors)
    if shown == 1:
        axes[0].set_title("One mode was found", fontsize=10)
    return axes


def _draw_clustering(ax, clusterings, mode, colors):
    labels, moved = clusterings.labels[mode], clusterings.moved[mode]
    crowd = np.clip(500 / len(labels), 0.15, 1.0)
    many = len(labels) > SAMPLE // 2
    stayed = {"s": 9 * crowd, "alpha": 0.7 if mode == 0 else 0.35}
    for rows, style in ((~moved, stayed), (moved, {"s": 22 * crowd, "alpha": 0.95})):
        ax.scatter(*clusterings.position[rows].T, c=colors[labels[rows]], linewidths=0, rasterized=many, **style)
    more = "" if mode == 0 else f", {percent(clusterings.share[mode])} elsewhere"
    ax.set_title(f"mode {mode + 1}{more}", fontsize=9)
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_color("0.8")


def height_of_modes(num_modes):
    """The height of the picture of so many modes, relative to its width."""
    return _ALONE if num_modes == 1 else _EACH * -(-min(num_modes, SHOWN_MODES) // IN_ROW)
