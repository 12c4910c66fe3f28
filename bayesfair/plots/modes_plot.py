"""The modes of a posterior, side by side: the rows that differ from the best mode."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfair._names import DataTree
from bayesfair._numbers import percent
from bayesfair.plots.style import FIGURE_WIDTH, cluster_colors
from bayesfair.plots.uncertainty_plot import project
from bayesfair.posterior.found_modes import modes_of
from bayesfair.posterior.schema import count_clusters
from bayesfair.posterior.view import View

SHOWN, IN_ROW = 6, 3  # clusterings shown, and in one row
_EACH, _ALONE = 0.33, 0.5  # heights of a row of axes, and of a single one, for width 1
MANY = 5_000  # rows above which a sample of them is drawn


class Clusterings(NamedTuple):
    """`position` (obs, 2) on two `axes`; `labels` (modes, obs); `moved` from the best mode (modes, obs); `share` moved."""

    position: np.ndarray
    axes: tuple[str, str]
    labels: np.ndarray
    moved: np.ndarray
    share: np.ndarray


def mode_clusterings(tree, X=None, *, columns=None, sample=MANY, seed=0) -> Clusterings:
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
    shown = min(SHOWN, len(clusterings.labels))
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(FIGURE_WIDTH, FIGURE_WIDTH * height_of_modes(shown)), layout="constrained")
    axes = np.ravel(figure.subplots(-(-shown // IN_ROW), min(shown, IN_ROW), squeeze=False))
    for ax in axes[shown:]:
        ax.remove()
    axes = axes[:shown]
    for mode, ax in enumerate(axes):
        _draw_clustering(ax, clusterings, mode, colors)
    if shown == 1:
        axes[0].set_title("One mode was found", fontsize=10)
    return axes


def _draw_clustering(ax, clusterings, mode, colors):
    labels, moved = clusterings.labels[mode], clusterings.moved[mode]
    crowd = np.clip(500 / len(labels), 0.15, 1.0)
    many = len(labels) > MANY // 2
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
    return _ALONE if num_modes == 1 else _EACH * -(-min(num_modes, SHOWN) // IN_ROW)
